(* JSON: a document is printed, read again, changed and printed, a few times. *)

type json = Null | Truth of bool | Number of float | Text of string | Items of json list | Fields of (string * json) list

let rec print buffer = function
  | Null -> Buffer.add_string buffer "null"
  | Truth value -> Buffer.add_string buffer (string_of_bool value)
  | Number value -> Buffer.add_string buffer (string_of_float value)
  | Text value -> print_text buffer value
  | Items values -> print_list buffer '[' ']' (print buffer) values
  | Fields values ->
      let field (name, value) = print_text buffer name; Buffer.add_char buffer ':'; print buffer value in
      print_list buffer '{' '}' field values

and print_list : 'a. Buffer.t -> char -> char -> ('a -> unit) -> 'a list -> unit =
 fun buffer first last print_one values ->
  Buffer.add_char buffer first;
  List.iteri (fun i value -> if i > 0 then Buffer.add_char buffer ','; print_one value) values;
  Buffer.add_char buffer last

and print_text buffer text =
  Buffer.add_char buffer '"';
  String.iter
    (function
      | ('"' | '\\') as letter -> Buffer.add_char buffer '\\'; Buffer.add_char buffer letter
      | '\n' -> Buffer.add_string buffer "\\n"
      | letter -> Buffer.add_char buffer letter)
    text;
  Buffer.add_char buffer '"'

let printed value =
  let buffer = Buffer.create 64 in
  print buffer value;
  Buffer.contents buffer

exception Wrong of int * string

let read text =
  let at = ref 0 in
  let peek () = if !at < String.length text then text.[!at] else '\000' in
  let wrong what = raise (Wrong (!at, what)) in
  let rec space () = match peek () with ' ' | '\n' | '\t' -> incr at; space () | _ -> () in
  let expect letter = space (); if peek () = letter then incr at else wrong (String.concat " " [ Char.escaped (peek ()); "is not"; Char.escaped letter ]) in
  let word word value =
    if !at + String.length word <= String.length text && String.sub text !at (String.length word) = word then begin
      at := !at + String.length word;
      value
    end
    else wrong "a word"
  in
  let text_of () =
    expect '"';
    let buffer = Buffer.create 8 in
    let rec letters () =
      match peek () with
      | '"' -> incr at
      | '\000' -> wrong "the end"
      | '\\' ->
          incr at;
          Buffer.add_char buffer (match peek () with 'n' -> '\n' | letter -> letter);
          incr at;
          letters ()
      | letter -> Buffer.add_char buffer letter; incr at; letters ()
    in
    letters ();
    Buffer.contents buffer
  in
  let list first last one =
    expect first;
    space ();
    if peek () = last then (incr at; [])
    else begin
      let rec more found =
        let found = one () :: found in
        space ();
        if peek () = ',' then (incr at; more found) else (expect last; List.rev found)
      in
      more []
    end
  in
  let rec value () =
    space ();
    match peek () with
    | 'n' -> word "null" Null
    | 't' -> word "true" (Truth true)
    | 'f' -> word "false" (Truth false)
    | '"' -> Text (text_of ())
    | '[' -> Items (list '[' ']' value)
    | '{' -> Fields (list '{' '}' (fun () -> space (); let name = text_of () in expect ':'; (name, value ())))
    | _ ->
        let from = !at in
        while match peek () with '0' .. '9' | '-' | '+' | '.' | 'e' -> true | _ -> false do incr at done;
        (match float_of_string_opt (String.sub text from (!at - from)) with
        | Some number -> Number number
        | None -> wrong "a number")
  in
  let found = value () in
  space ();
  if !at < String.length text then wrong "more" else found

let rec changed = function
  | Number value -> Number ((value *. 1.5) +. 1.)
  | Truth value -> Truth (not value)
  | Text value -> Text (value ^ "\n\"")
  | Items values -> Items (List.rev_map changed values)
  | Fields values -> Fields (List.filter_map (function _, Null -> None | name, value -> Some (name, changed value)) values)
  | Null -> Null

let document =
  let item i =
    Fields
      [
        ("id", Number (float i)); ("name", Text ("item \\ " ^ string_of_int i)); ("left", Truth (i mod 3 = 0)); ("none", Null);
        ("sizes", Items (List.init (i mod 7) (fun n -> Number (float (n * i) /. 4.)))); ("empty", Fields []);
      ]
  in
  Items (List.init 60 item)

let () =
  let rec turns n value = if n = 0 then value else turns (n - 1) (changed (read (printed value))) in
  let last = turns 4 document in
  let text = printed last in
  print_endline (String.concat " " [ string_of_int (String.length text); "characters, hash"; string_of_int (Hashtbl.hash text) ]);
  (match last with Items (first :: _) -> print_endline (printed first) | _ -> print_endline "no items");
  List.iter
    (fun text ->
      match read text with
      | value -> print_endline (printed value)
      | exception Wrong (at, what) -> print_endline (String.concat ": " [ text; "at " ^ string_of_int at; what ]))
    [ "[1, 2"; "{\"a\" 1}"; "nil"; "[1] 2"; "\"open"; " {\"a\" : [ ] } "; "-x" ]
