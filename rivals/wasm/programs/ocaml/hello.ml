(* The least that a program does: how long a process takes to start and end. *)

let () = print_endline "Hello from OCaml"
