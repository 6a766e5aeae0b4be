(* Binary trees that live long or not, a heap of variants, and a graph with cycles that is written all the time. *)

let tell words = print_endline (String.concat " " words)
let int = string_of_int

type tree = Leaf | Node of tree * tree

let rec make depth = if depth = 0 then Node (Leaf, Leaf) else Node (make (depth - 1), make (depth - 1))
let rec count = function Leaf -> 0 | Node (left, right) -> 1 + count left + count right

type heap = Empty | Heap of { rank : int; key : int; left : heap; right : heap }

let rank = function Empty -> 0 | Heap { rank; _ } -> rank

let join key a b =
  if rank a >= rank b then Heap { rank = rank b + 1; key; left = a; right = b }
  else Heap { rank = rank a + 1; key; left = b; right = a }

let rec merge a b =
  match (a, b) with
  | Empty, other | other, Empty -> other
  | Heap x, Heap y ->
      if x.key <= y.key then join x.key x.left (merge x.right b) else join y.key y.left (merge a y.right)

let add key heap = merge (Heap { rank = 1; key; left = Empty; right = Empty }) heap

let rec drain heap all = match heap with Empty -> List.rev all | Heap { key; left; right; _ } -> drain (merge left right) (key :: all)

type vertex = { name : string; mutable edges : vertex list; mutable mark : int }

let () =
  let long = make 9 in
  List.iter
    (fun depth ->
      let trees = 1 lsl (10 - depth) in
      let nodes = ref 0 in
      for _ = 1 to trees do
        nodes := !nodes + count (make depth)
      done;
      tell [ int trees; "trees of depth"; int depth; "have"; int !nodes; "nodes" ])
    [ 2; 4; 6; 8 ];
  tell [ "the long-lived tree has"; int (count long); "nodes" ];
  let sorted = drain (List.fold_left (fun heap n -> add (n * 7919 mod 1009) heap) Empty (List.init 400 Fun.id)) [] in
  let in_order = string_of_bool (List.sort compare sorted = sorted) in
  tell [ int (List.length sorted); "keys, in order:"; in_order; "the last is"; int (List.nth sorted 399) ];
  let vertices = Array.init 200 (fun i -> { name = "v" ^ int i; edges = []; mark = 0 }) in
  for step = 1 to 2000 do
    let from = vertices.(step * 31 mod 200) and target = vertices.(step * 17 mod 190) in
    from.edges <- target :: (if List.length from.edges > 3 then List.tl from.edges else from.edges)
  done;
  let rec visit reached vertex =
    if vertex.mark = 1 then reached
    else begin
      vertex.mark <- 1;
      List.fold_left visit (reached + 1) vertex.edges
    end
  in
  let reached = visit 0 vertices.(7) in
  tell [ int reached; "reached, the first edge of the last leads to"; (List.hd vertices.(199).edges).name ];
  let lazies = List.init 50 (fun i -> lazy (String.make i 'x')) in
  print_int (List.fold_left (fun sum text -> sum + String.length (Lazy.force text)) 0 (lazies @ lazies))
