(* A compiler: text to tokens, a tree, simpler trees and code for a stack machine, which runs a little of it. *)

let is_tiny = Array.length Sys.argv > 1 && Sys.argv.(1) = "--tiny"

type token = Int of int | Name of string | Sign of char | End

type expression =
  | Const of int
  | Var of string
  | Bin of char * expression * expression
  | Let of string * expression * expression
  | If of expression * expression * expression
  | Call of string * expression list

type definition = { name : string; parameters : string list; body : expression }

type instruction =
  | Push of int
  | Load of int
  | Store of int
  | Operate of char
  | Jump of int ref
  | Jump_if_zero of int ref
  | Enter of string * int
  | Return

exception Wrong of string

(* ---- tokens ---- *)

let is_digit c = c >= '0' && c <= '9'
let is_letter c = (c >= 'a' && c <= 'z') || c = '_'

let tokens text =
  let length = String.length text in
  let rec past test at = if at < length && test text.[at] then past test (at + 1) else at in
  let rec from at found =
    if at = length then List.rev (End :: found)
    else
      match text.[at] with
      | ' ' | '\n' -> from (at + 1) found
      | c when is_digit c ->
          let until = past is_digit at in
          from until (Int (int_of_string (String.sub text at (until - at))) :: found)
      | c when is_letter c ->
          let until = past (fun c -> is_letter c || is_digit c) at in
          from until (Name (String.sub text at (until - at)) :: found)
      | c -> from (at + 1) (Sign c :: found)
  in
  from 0 []

(* ---- trees ---- *)

let strength = function '<' | '=' -> 1 | '+' | '-' -> 2 | '*' | '/' | '%' -> 3 | _ -> 0

let rec expression least input =
  match input with
  | Name "let" :: Name name :: Sign '=' :: rest -> (
      let value, rest = expression 2 rest in
      match rest with
      | Name "in" :: rest ->
          let body, rest = expression 0 rest in
          (Let (name, value, body), rest)
      | _ -> raise (Wrong "in"))
  | Name "if" :: rest -> (
      let test, rest = expression 0 rest in
      match rest with
      | Name "then" :: rest -> (
          let yes, rest = expression 0 rest in
          match rest with
          | Name "else" :: rest ->
              let no, rest = expression 0 rest in
              (If (test, yes, no), rest)
          | _ -> raise (Wrong "else"))
      | _ -> raise (Wrong "then"))
  | _ ->
      let left, rest = operand input in
      operators least left rest

and operators least left input =
  match input with
  | Sign sign :: rest when strength sign > least ->
      let right, rest = expression (strength sign) rest in
      operators least (Bin (sign, left, right)) rest
  | _ -> (left, input)

and operand = function
  | Int n :: rest -> (Const n, rest)
  | Name name :: Sign '(' :: rest ->
      let values, rest = arguments [] rest in
      (Call (name, values), rest)
  | Name name :: rest -> (Var name, rest)
  | Sign '(' :: rest -> (
      match expression 0 rest with
      | inner, Sign ')' :: rest -> (inner, rest)
      | _ -> raise (Wrong ")"))
  | _ -> raise (Wrong "an operand")

and arguments found = function
  | Sign ')' :: rest -> (List.rev found, rest)
  | Sign ',' :: rest -> arguments found rest
  | input ->
      let value, rest = expression 0 input in
      arguments (value :: found) rest

let rec definitions found = function
  | [ End ] -> List.rev found
  | Name "def" :: Name name :: Sign '(' :: rest -> (
      let rec names found = function
        | Sign ')' :: Sign '=' :: rest -> (List.rev found, rest)
        | Sign ',' :: rest -> names found rest
        | Name name :: rest -> names (name :: found) rest
        | _ -> raise (Wrong "a parameter")
      in
      let parameters, rest = names [] rest in
      match expression 0 rest with
      | body, Sign ';' :: rest -> definitions ({ name; parameters; body } :: found) rest
      | _ -> raise (Wrong ";"))
  | _ -> raise (Wrong "def")

(* ---- simpler trees ---- *)

module Names = Map.Make (String)

let operate sign a b =
  match sign with
  | '+' -> a + b
  | '-' -> a - b
  | '*' -> a * b
  | '/' -> if b = 0 then 0 else a / b
  | '%' -> if b = 0 then 0 else a mod b
  | '<' -> if a < b then 1 else 0
  | '=' -> if a = b then 1 else 0
  | _ -> raise (Wrong "an operator")

let rec simple known = function
  | Const n -> Const n
  | Var name -> ( match Names.find_opt name known with Some value -> value | None -> Var name)
  | Bin (sign, left, right) -> (
      match (sign, simple known left, simple known right) with
      | _, Const a, Const b -> Const (operate sign a b)
      | '+', Const 0, other | '+', other, Const 0 | '*', Const 1, other | '*', other, Const 1 -> other
      | '*', Const 0, _ | '*', _, Const 0 -> Const 0
      | sign, left, right -> Bin (sign, left, right))
  | Let (name, value, body) -> (
      match simple known value with
      | Const n -> simple (Names.add name (Const n) known) body
      | value -> Let (name, value, simple (Names.remove name known) body))
  | If (test, yes, no) -> (
      match simple known test with
      | Const 0 -> simple known no
      | Const _ -> simple known yes
      | test -> If (test, simple known yes, simple known no))
  | Call (name, values) -> Call (name, List.map (simple known) values)

(* ---- code ---- *)

let code_of definition =
  let code = ref [] and length = ref 0 in
  let emit instruction =
    code := instruction :: !code;
    incr length
  in
  let rec expression slots depth = function
    | Const n -> emit (Push n)
    | Var name -> (
        match Names.find_opt name slots with Some slot -> emit (Load slot) | None -> raise (Wrong name))
    | Bin (sign, left, right) ->
        expression slots depth left;
        expression slots depth right;
        emit (Operate sign)
    | Let (name, value, body) ->
        expression slots depth value;
        emit (Store depth);
        expression (Names.add name depth slots) (depth + 1) body
    | If (test, yes, no) ->
        let other = ref 0 and past = ref 0 in
        expression slots depth test;
        emit (Jump_if_zero other);
        expression slots depth yes;
        emit (Jump past);
        other := !length;
        expression slots depth no;
        past := !length
    | Call (name, values) ->
        List.iter (expression slots depth) values;
        emit (Enter (name, List.length values))
  in
  let slots, depth =
    List.fold_left (fun (slots, n) name -> (Names.add name n slots, n + 1)) (Names.empty, 0) definition.parameters
  in
  expression slots depth definition.body;
  emit Return;
  Array.of_list (List.rev !code)

(* ---- the machine ---- *)

exception Tired

let run program name values =
  let steps = ref 20_000 in
  let rec call code locals stack at =
    decr steps;
    if !steps < 0 then raise Tired;
    match (code.(at), stack) with
    | Push n, _ -> call code locals (n :: stack) (at + 1)
    | Load slot, _ -> call code locals (locals.(slot) :: stack) (at + 1)
    | Store slot, top :: rest ->
        locals.(slot) <- top;
        call code locals rest (at + 1)
    | Operate sign, b :: a :: rest -> call code locals (operate sign a b mod 1_000_003 :: rest) (at + 1)
    | Jump target, _ -> call code locals stack !target
    | Jump_if_zero target, top :: rest -> call code locals rest (if top = 0 then !target else at + 1)
    | Enter (name, count), _ ->
        let inner = Array.make 16 0 in
        let rec take n stack =
          if n = 0 then stack
          else
            match stack with
            | top :: rest ->
                inner.(n - 1) <- top;
                take (n - 1) rest
            | [] -> raise (Wrong "a short stack")
        in
        let rest = take count stack in
        let result = call (Names.find name program) inner [] 0 in
        call code locals (result :: rest) (at + 1)
    | Return, top :: _ -> top
    | _ -> raise (Wrong "a short stack")
  in
  let locals = Array.make 16 0 in
  List.iteri (fun n value -> locals.(n) <- value) values;
  try call (Names.find name program) locals [] 0 with Tired -> -1

(* ---- programs to compile ---- *)

let random = ref 1

let next below =
  random := ((!random * 7621) + 1) mod 32768;
  !random * below / 32768

let text functions =
  let out = Buffer.create 100_000 in
  let add = Buffer.add_string out in
  let rec expression depth self =
    if depth = 0 then
      match next 3 with 0 -> add "a" | 1 -> add "b" | _ -> add (string_of_int (next 100))
    else
      match next 6 with
      | 0 ->
          add "(let c = ";
          expression (depth - 1) self;
          add " in c * ";
          expression (depth - 1) self;
          add ")"
      | 1 ->
          add "(if ";
          expression (depth - 1) self;
          add " < ";
          expression (depth - 1) self;
          add " then ";
          expression (depth - 1) self;
          add " else ";
          expression (depth - 1) self;
          add ")"
      | 2 when self > 0 ->
          add ("f" ^ string_of_int (self - 1 - next (min self 5)) ^ "(");
          expression (depth - 1) self;
          add ", ";
          expression (depth - 1) self;
          add ")"
      | choice ->
          add "(";
          expression (depth - 1) self;
          add [| " + "; " - "; " * "; " % " |].(choice - 2);
          expression (depth - 1) self;
          add ")"
  in
  for self = 0 to functions - 1 do
    add ("def f" ^ string_of_int self ^ "(a, b) = ");
    expression 4 self;
    add ";\n"
  done;
  Buffer.contents out

let () =
  let functions, turns = if is_tiny then (20, 1) else (1500, 12) in
  for turn = 1 to turns do
    let text = text functions in
    let trees = definitions [] (tokens text) in
    let compile program definition =
      Names.add definition.name (code_of { definition with body = simple Names.empty definition.body }) program
    in
    let program = List.fold_left compile Names.empty trees in
    let length = Names.fold (fun _ code sum -> sum + Array.length code) program 0 in
    let hash = ref 0 in
    for n = 0 to min 99 (functions - 1) do
      hash := ((!hash * 31) + run program ("f" ^ string_of_int n) [ turn; n ]) mod 1_000_003
    done;
    if turn = 1 || turn = turns then
      print_endline
        (String.concat " "
           [ string_of_int (String.length text); "characters,"; string_of_int length; "instructions, hash";
             string_of_int !hash ])
  done
