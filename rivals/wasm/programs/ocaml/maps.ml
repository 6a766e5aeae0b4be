(* Maps and sets without assignment: old versions share with new ones, and die in no order. *)

let is_tiny = Array.length Sys.argv > 1 && Sys.argv.(1) = "--tiny"

module Numbers = Map.Make (Int)
module Words = Map.Make (String)

let random = ref 1

let next below =
  random := ((!random * 7621) + 1) mod 32768;
  !random * below / 32768

let say words = print_endline (String.concat " " words)

let () =
  let size = if is_tiny then 100 else 25_000 in
  (* A map that is written and cut, with its last sixteen versions. *)
  let versions = Array.make 16 Numbers.empty in
  let map = ref Numbers.empty in
  for turn = 1 to size * 12 do
    let key = next (size / 2) in
    map := if next 4 = 0 then Numbers.remove key !map else Numbers.add key turn !map;
    if turn mod 100 = 0 then versions.(turn / 100 mod 16) <- !map
  done;
  let sizes = Array.fold_left (fun sum one -> sum + Numbers.cardinal one) 0 versions in
  say [ string_of_int (Numbers.cardinal !map); "keys; versions have"; string_of_int sizes ];
  (* How often words occur, and those of them in the order of that. *)
  let word n = "word" ^ string_of_int n in
  let count words _ = Words.update (word (next size)) (function None -> Some 1 | Some n -> Some (n + 1)) words in
  let words = List.fold_left count Words.empty (List.init (size * 6) Fun.id) in
  let by_number (a, n) (b, m) = if n <> m then compare m n else compare a b in
  let ordered = List.sort by_number (Words.bindings words) in
  let hash = List.fold_left (fun hash (word, n) -> ((hash * 31) + (n * String.length word)) mod 1_000_003) 7 ordered in
  say [ string_of_int (List.length ordered); "words, hash"; string_of_int hash ];
  (* Unions of maps. *)
  let part n = List.fold_left (fun map key -> Numbers.add key n map) Numbers.empty (List.init 64 (fun _ -> next size)) in
  let join _ a b = Some (max a b) in
  let all = List.fold_left (fun all n -> Numbers.union join all (part n)) Numbers.empty (List.init (size / 32) Fun.id) in
  let sum = Numbers.fold (fun key n sum -> (sum + (key * n)) mod 1_000_003) all 0 in
  say [ string_of_int (Numbers.cardinal all); "keys, sum"; string_of_int sum ]
