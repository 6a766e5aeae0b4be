(* Exceptions: through deep stacks, with what must be done on the way; and tail calls. *)

exception Refused of int * string list

let undone = ref 0

let rec take n = function [] -> [] | head :: tail -> if n = 0 then [] else head :: take (n - 1) tail

let rec descend depth most path =
  let here = ("level" ^ string_of_int depth) :: take 3 path in
  if depth = most then raise (Refused (depth, take 3 here))
  else
    match descend (depth + 1) most here with
    | below -> below + List.length here
    | exception failure ->
        undone := !undone + List.length here;
        raise failure

let classify action =
  match action () with
  | value -> "value " ^ string_of_int value
  | exception Refused (depth, path) -> "refused " ^ string_of_int depth ^ " " ^ String.concat "/" path
  | exception Division_by_zero -> "division"
  | exception Invalid_argument why -> "argument " ^ why
  | exception Not_found -> "not found"
  | exception Failure why -> "failure " ^ why
  | exception _ -> "other"

let () =
  let tell action = print_endline (classify action) in
  tell (fun () -> descend 0 200 []);
  print_endline ("undone " ^ string_of_int !undone);
  tell (fun () -> int_of_string "12x");
  tell (fun () -> 1 / (!undone - !undone));
  tell (fun () -> [| 1; 2; 3 |].(Sys.opaque_identity 3));
  tell (fun () -> List.assoc 3 [ (1, 2) ]);
  tell (fun () -> String.index "absent" 'x');
  tell (fun () -> raise Exit);
  tell (fun () -> List.fold_left ( + ) 0 (List.init 1000 Fun.id));
  let caught = ref 0 in
  for turn = 1 to 300 do
    try
      let garbage = List.init (turn mod 7) string_of_int in
      if turn mod 3 <> 0 then raise (Refused (turn, garbage));
      caught := !caught + 1000
    with Refused (_, path) -> caught := !caught + List.length path
  done;
  print_endline ("caught " ^ string_of_int !caught);
  (* A tail call in each branch, a million deep. *)
  let rec even n = n = 0 || odd (n - 1) and odd n = n <> 0 && even (n - 1) in
  print_endline (string_of_bool (even 1_000_000))
