(* Lists: the queens on a board, permutations, sorting, and words that are split and joined. *)

let is_tiny = Array.length Sys.argv > 1 && Sys.argv.(1) = "--tiny"
let say words = print_endline (String.concat " " words)

let rec range from until = if from > until then [] else from :: range (from + 1) until

let queens size =
  let safe column others =
    let rec from distance = function
      | [] -> true
      | other :: rest -> other <> column && abs (other - column) <> distance && from (distance + 1) rest
    in
    from 1 others
  in
  let extend boards _ =
    List.concat_map (fun board -> List.filter_map (fun column -> if safe column board then Some (column :: board) else None) (range 1 size)) boards
  in
  List.fold_left extend [ [] ] (range 1 size)

let rec permutations = function
  | [] -> [ [] ]
  | list ->
      List.concat_map
        (fun first -> List.map (fun rest -> first :: rest) (permutations (List.filter (( <> ) first) list)))
        list

let () =
  let size = if is_tiny then 5 else 9 in
  let boards = queens size in
  say [ string_of_int (List.length boards); "boards of"; string_of_int size ];
  let orders = permutations (range 1 (size - 1)) in
  let ordered = List.sort (fun a b -> compare b a) orders in
  let hash = List.fold_left (List.fold_left (fun hash n -> ((hash * 11) + n) mod 1_000_003)) 1 ordered in
  say [ string_of_int (List.length ordered); "orders, hash"; string_of_int hash ];
  let text = String.concat " " (List.map (fun order -> String.concat "" (List.map string_of_int order)) orders) in
  let words = List.sort_uniq compare (String.split_on_char ' ' text) in
  let joined = String.concat "," (List.rev words) in
  say [ string_of_int (String.length joined); "characters, from"; String.sub joined 0 4 ]
