(* A small Lisp: read, evaluated with closures and in continuation-passing style, so that each call is a tail call. *)

module Names = Map.Make (String)

type value =
  | Nil
  | Num of int
  | Symbol of string
  | Pair of value * value
  | Builtin of (value list -> value)
  | Closure of string list * value * scope

and scope = { mutable names : value Names.t; outer : scope option }

exception Wrong of string

let wrong text = raise (Wrong text)

let rec find scope name =
  match (Names.find_opt name scope.names, scope.outer) with
  | Some value, _ -> value
  | None, Some outer -> find outer name
  | None, None -> wrong ("'" ^ name ^ "' is not defined")

let tokens text =
  let spaced = Buffer.create 100 in
  String.iter
    (function
      | ('(' | ')') as c -> Buffer.add_string spaced (" " ^ String.make 1 c ^ " ")
      | '\n' -> Buffer.add_char spaced ' '
      | c -> Buffer.add_char spaced c)
    text;
  List.filter (( <> ) "") (String.split_on_char ' ' (Buffer.contents spaced))

let rec read = function
  | "(" :: rest -> read_list rest
  | ")" :: _ -> wrong "a ) too many"
  | token :: rest -> ((match int_of_string_opt token with Some n -> Num n | None -> Symbol token), rest)
  | [] -> wrong "the text ends within a list"

and read_list = function
  | ")" :: rest -> (Nil, rest)
  | rest ->
      let head, rest = read rest in
      let tail, rest = read_list rest in
      (Pair (head, tail), rest)

let rec items = function Pair (head, tail) -> head :: items tail | _ -> []

let rec show = function
  | Num n -> string_of_int n
  | Symbol name -> name
  | (Pair _ | Nil) as list -> "(" ^ String.concat " " (List.map show (items list)) ^ ")"
  | Builtin _ -> "#builtin"
  | Closure (parameters, _, _) -> "#closure/" ^ string_of_int (List.length parameters)

let rec evaluate form scope return =
  match form with
  | Symbol name -> return (find scope name)
  | Pair (Symbol "quote", Pair (quoted, Nil)) -> return quoted
  | Pair (Symbol "define", Pair (Symbol name, Pair (body, Nil))) ->
      evaluate body scope (fun value ->
          scope.names <- Names.add name value scope.names;
          return (Symbol name))
  | Pair (Symbol "lambda", Pair (parameters, Pair (body, Nil))) ->
      return (Closure (List.map show (items parameters), body, scope))
  | Pair (Symbol "if", Pair (test, Pair (yes, Pair (no, Nil)))) ->
      evaluate test scope (fun value -> evaluate (if value <> Nil then yes else no) scope return)
  | Pair (head, tail) ->
      evaluate head scope (fun f ->
          arguments (items tail) scope [] (fun values ->
              match f with
              | Builtin call -> return (call values)
              | Closure (parameters, body, outer) ->
                  let bind names name value = Names.add name value names in
                  let names = List.fold_left2 bind Names.empty parameters values in
                  evaluate body { names; outer = Some outer } return
              | other -> wrong (show other ^ " is no function")))
  | _ -> return form

and arguments forms scope done_ return =
  match forms with
  | [] -> return (List.rev done_)
  | form :: rest -> evaluate form scope (fun value -> arguments rest scope (value :: done_) return)

let number call = Builtin (function [ Num a; Num b ] -> Num (call a b) | _ -> wrong "numbers are wanted")
let test call = Builtin (function [ Num a; Num b ] -> if call a b then Num 1 else Nil | _ -> wrong "numbers are wanted")

let world =
  let builtins =
    [
      ("+", number ( + ));
      ("-", number ( - ));
      ("*", number ( * ));
      ("mod", number ( mod ));
      ("<", test ( < ));
      ("=", test ( = ));
      ("cons", Builtin (function [ a; b ] -> Pair (a, b) | _ -> wrong "cons takes two"));
      ("car", Builtin (function [ Pair (a, _) ] -> a | _ -> wrong "car takes a pair"));
      ("cdr", Builtin (function [ Pair (_, b) ] -> b | _ -> wrong "cdr takes a pair"));
      ("null", Builtin (function [ Nil ] -> Num 1 | _ -> Nil));
    ]
  in
  { names = Names.of_list builtins; outer = None }

let program =
  {|
    (define fact (lambda (n) (if (< n 2) 1 (* n (fact (- n 1))))))
    (fact 12)
    (define fib (lambda (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))))
    (fib 12)
    (define range (lambda (n rest) (if (= n 0) rest (range (- n 1) (cons n rest)))))
    (define map (lambda (f all) (if (null all) (quote ()) (cons (f (car all)) (map f (cdr all))))))
    (define fold (lambda (f start all) (if (null all) start (fold f (f start (car all)) (cdr all)))))
    (map (lambda (n) (* n n)) (range 12 (quote ())))
    (fold + 0 (range 200 (quote ())))
    (define adder (lambda (n) (lambda (m) (+ n m))))
    ((adder 40) 2)
    (define compose (lambda (f g) (lambda (x) (f (g x)))))
    (map (compose (adder 1) (lambda (n) (mod n 3))) (range 7 (quote ())))
    fold
    (car 5)
    (undefined 1)
    (1 2)
  |}

let () =
  let rec run = function
    | [] -> ()
    | tokens ->
        let form, rest = read tokens in
        print_endline (try evaluate form world show with Wrong why -> "error: " ^ why);
        run rest
  in
  run (tokens program);
  try run (tokens "(1 (2)") with Wrong why -> print_endline why
