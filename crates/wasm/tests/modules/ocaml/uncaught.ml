(* An exception that nothing catches, and what at_exit does then. *)

exception Unexpected of string * int

let rec fail depth = if depth = 0 then raise (Unexpected ("nothing catches this", 7)) else 1 + fail (depth - 1)

let () =
  at_exit (fun () -> print_endline "ends");
  print_endline "begins";
  print_int (fail 10)
