(* The words, numbers and operators of a text with comments, which may stand in each other. *)
{
type token = Word of string | Number of int | Operator of char | Text of string | End

exception Unfinished of string
}

let digit = ['0'-'9']
let letter = ['a'-'z' 'A'-'Z' '_']

rule token = parse
  | [' ' '\t' '\r' '\n'] { token lexbuf }
  | "(*" { comment 1 lexbuf }
  | '-'? digit+ as number { Number (int_of_string number) }
  | "0x" ['0'-'9' 'a'-'f']+ as number { Number (int_of_string number) }
  | letter (letter | digit)* as word { Word word }
  | '"' { text (Buffer.create 16) lexbuf }
  | ['+' '-' '*' '/' '<' '>' '='] as operator { Operator operator }
  | eof { End }

and comment depth = parse
  | "*)" { if depth = 1 then token lexbuf else comment (depth - 1) lexbuf }
  | "(*" { comment (depth + 1) lexbuf }
  | eof { raise (Unfinished "comment") }
  | _ { comment depth lexbuf }

and text buffer = parse
  | '"' { Text (Buffer.contents buffer) }
  | '\\' (['n' 't' '\\' '"'] as letter) { Buffer.add_char buffer letter; text buffer lexbuf }
  | [^ '"' '\\']+ as letters { Buffer.add_string buffer letters; text buffer lexbuf }
  | eof { raise (Unfinished "text") }

{
let rec tokens lexbuf = match token lexbuf with End -> [] | next -> next :: tokens lexbuf
}
