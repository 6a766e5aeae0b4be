(* Arrays that are large, of all kinds of elements: filled, copied, sorted, and arrays of arrays. *)

let say name numbers = print_endline (String.concat " " ((name ^ ":") :: numbers))
let say_all name numbers = say name (List.map string_of_int numbers)

let sieve limit =
  let composite = Bytes.make limit '\000' in
  let count = ref 0 in
  for number = 2 to limit - 1 do
    if Bytes.get composite number = '\000' then begin
      incr count;
      let multiple = ref (number * 2) in
      while !multiple < limit do
        Bytes.set composite !multiple '\001';
        multiple := !multiple + number
      done
    end
  done;
  !count

let transposed matrix = Array.init (Array.length matrix.(0)) (fun column -> Array.map (fun row -> row.(column)) matrix)

let product left right =
  let columns = transposed right in
  let dot row column =
    let sum = ref 0.0 in
    Array.iteri (fun i number -> sum := !sum +. (number *. column.(i))) row;
    !sum
  in
  Array.map (fun row -> Array.map (dot row) columns) left

let () =
  say_all "primes" [ sieve 300_000 ];
  (* References, most of them to nothing, each to a block that moves. *)
  let boxes = Array.make 50_000 None in
  let state = ref 1 in
  for number = 0 to 2999 do
    state := ((!state * 1009) + 1) mod 50_021;
    boxes.(!state mod 50_000) <- Some (string_of_int number)
  done;
  let full () = Array.fold_left (fun n box -> if box = None then n else n + 1) 0 boxes in
  say_all "boxes" [ full () ];
  Array.blit boxes 0 boxes 100 (50_000 - 100);
  say_all "moved" [ full () ];
  Array.fill boxes 1000 1000 boxes.(!state mod 50_000 + 100);
  say_all "filled" [ full () ];
  let floats = Array.init 5_000 (fun i -> Float.rem (float i *. 1.618) 1.0) in
  Array.sort compare floats;
  say "floats" (List.map (fun i -> string_of_float floats.(i)) [ 0; 2_500; 4_999 ]);
  let bytes = Bytes.init 1_000_000 (fun i -> Char.chr (i * 7 land 255)) in
  Bytes.blit bytes 0 bytes 3 500_000;
  say_all "bytes" [ Hashtbl.hash (Bytes.sub_string bytes 400_000 200) ];
  let left = Array.init 50 (fun row -> Array.init 50 (fun column -> float (row - column) /. 8.0)) in
  let sums = Array.map (Array.fold_left ( +. ) 0.0) (product left (transposed left)) in
  say "product" [ string_of_float sums.(0); string_of_float sums.(49) ];
  let texts = Array.init 2000 (fun i -> "text " ^ string_of_int (i * 7919 mod 2000)) in
  Array.stable_sort compare texts;
  say "texts" [ texts.(0) ^ ","; texts.(1999) ];
  let all = Array.init 300 (fun length -> Array.init (length * 100) (fun i -> i lxor length)) in
  let joined = Array.concat (List.filter (fun array -> Array.length array mod 300 = 0) (Array.to_list all)) in
  say_all "joined" [ Array.length joined; Array.fold_left (fun hash n -> ((hash * 31) + n) mod 1_000_003) 1 joined ];
  let numbers = Bigarray.Array1.init Bigarray.int32 Bigarray.c_layout 100_000 (fun i -> Int32.of_int (i * 3)) in
  say "numbers" [ Int32.to_string (Int32.add numbers.{77_777} numbers.{99_999}) ]
