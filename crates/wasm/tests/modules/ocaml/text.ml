(* Words of a text: split, counted in maps and tables, sorted, and put together again. *)

module Words = Map.Make (String)

let text =
  "The heap is divided. Young objects die young, and the old ones live on: \
   the old heap is seldom walked, the young heap often. Caf\xc3\xa9 is a word."

let words =
  String.map (function ('a' .. 'z' | 'A' .. 'Z' | '\x80' .. '\xff') as c -> c | _ -> ' ') text
  |> String.lowercase_ascii |> String.split_on_char ' '
  |> List.filter (fun word -> word <> "")

let counts =
  let add counts word = Words.update word (fun n -> Some (1 + Option.value n ~default:0)) counts in
  List.fold_left add Words.empty words

let () =
  let by_count (a, n) (b, m) = if n <> m then compare m n else compare a b in
  Words.bindings counts |> List.sort by_count
  |> List.iteri (fun i (word, count) -> if i < 8 then Printf.printf "%-8s%3d\n" word count);
  let table = Hashtbl.create 4 in
  List.iter (fun word -> Hashtbl.replace table (String.length word) word) words;
  Hashtbl.fold (fun length word all -> (length, word) :: all) table []
  |> List.sort compare
  |> List.iter (fun (length, word) -> Printf.printf "%d %s\n" length word);
  let buffer = Buffer.create 16 in
  for i = 0 to 300 do
    Buffer.add_string buffer (string_of_int (i * i));
    Buffer.add_char buffer (if i land 1 = 0 then '-' else '+')
  done;
  Printf.printf "%d %s\n" (Buffer.length buffer) (Digest.to_hex (Digest.string (Buffer.contents buffer)));
  Printf.printf "%.6f %h %g %s\n" (1. /. 3.) 0.1 1e21 (string_of_float (-0.));
  Printf.printf "%Ld %ld %x\n" Int64.min_int Int32.max_int 0x2bcdef01;
  let primes =
    let composite = Bytes.make 1000 '\000' in
    let rec sieve n found =
      if n = 1000 then List.rev found
      else if Bytes.get composite n <> '\000' then sieve (n + 1) found
      else begin
        let k = ref (n * n) in
        while !k < 1000 do
          Bytes.set composite !k '\001';
          k := !k + n
        done;
        sieve (n + 1) (n :: found)
      end
    in
    sieve 2 []
  in
  Printf.printf "%d primes, sum %d\n" (List.length primes) (List.fold_left ( + ) 0 primes);
  let square = Array.init 6 (fun row -> Array.init 6 (fun column -> float (row + 1) /. float (column + 1))) in
  Printf.printf "%.9f\n" (Array.fold_left (Array.fold_left ( +. )) 0. square);
  let numbers = Array.init 500 (fun i -> i * 7919 mod 1009) in
  Array.sort compare numbers;
  Printf.printf "%d %d %d %x\n" numbers.(0) numbers.(250) numbers.(499) (Hashtbl.hash numbers);
  print_endline (String.concat "," (List.of_seq (Seq.take 6 (Seq.map string_of_int (Seq.iterate (fun n -> n * 3) 1)))))
