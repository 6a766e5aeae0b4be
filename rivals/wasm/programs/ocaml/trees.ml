(* Binary trees: one that lives long, and many that are built, counted and dropped. *)

type tree = Leaf | Node of tree * tree

let rec make depth = if depth = 0 then Node (Leaf, Leaf) else Node (make (depth - 1), make (depth - 1))
let rec count = function Leaf -> 0 | Node (left, right) -> 1 + count left + count right
let is_tiny = Array.length Sys.argv > 1 && Sys.argv.(1) = "--tiny"
let say words = print_endline (String.concat " " words)

let () =
  let deepest = if is_tiny then 8 else 17 in
  say [ "a tree of depth"; string_of_int (deepest + 1); "has"; string_of_int (count (make (deepest + 1))); "nodes" ];
  let long = make deepest in
  let depth = ref 4 in
  while !depth <= deepest do
    let trees = 1 lsl (deepest - !depth + 4) in
    let nodes = ref 0 in
    for _ = 1 to trees do
      nodes := !nodes + count (make !depth)
    done;
    say [ string_of_int trees; "trees of depth"; string_of_int !depth; "have"; string_of_int !nodes; "nodes" ];
    depth := !depth + 4
  done;
  say [ "the long-lived tree has"; string_of_int (count long); "nodes" ]
