(* Coroutines from effects: generators, tasks in turns, a channel between them, and what one throws. *)

open Effect
open Effect.Deep

type tree = Leaf | Node of tree * int * tree

let rec insert value = function
  | Leaf -> Node (Leaf, value, Leaf)
  | Node (left, own, right) when value < own -> Node (insert value left, own, right)
  | Node (left, own, right) -> Node (left, own, insert value right)

type _ Effect.t += Give : int -> unit t | Pass : unit t | Send : string -> unit t | Receive : string t

let rec walk = function
  | Leaf -> ()
  | Node (left, value, right) ->
      walk left;
      perform (Give value);
      walk right

(* What a coroutine gives, as a sequence that goes on when the next value is asked for. *)
let sequence_of coroutine : int Seq.t =
 fun () ->
  match_with coroutine ()
    {
      retc = (fun () -> Seq.Nil);
      exnc = raise;
      effc =
        (fun (type a) (asked : a t) ->
          match asked with
          | Give value -> Some (fun (rest : (a, int Seq.node) continuation) -> Seq.Cons (value, fun () -> continue rest ()))
          | _ -> None);
    }

let log = Buffer.create 64
let say text = Buffer.add_string log (text ^ " ")

let run tasks =
  let ready = Queue.create () and values : string Queue.t = Queue.create () in
  let waiting : (string, unit) continuation Queue.t = Queue.create () in
  let next () = if not (Queue.is_empty ready) then (Queue.pop ready) () in
  let start (name, task) =
    match_with task ()
      {
        retc = next;
        exnc = (fun error -> say (name ^ ": " ^ Printexc.to_string error); next ());
        effc =
          (fun (type a) (asked : a t) ->
            match asked with
            | Pass ->
                Some (fun (rest : (a, unit) continuation) -> Queue.push (fun () -> continue rest ()) ready; next ())
            | Send value ->
                Some
                  (fun (rest : (a, unit) continuation) ->
                    if Queue.is_empty waiting then Queue.push value values
                    else begin
                      let receiver = Queue.pop waiting in
                      Queue.push (fun () -> continue receiver value) ready
                    end;
                    continue rest ())
            | Receive ->
                Some
                  (fun (rest : (a, unit) continuation) ->
                    if Queue.is_empty values then (Queue.push rest waiting; next ()) else continue rest (Queue.pop values))
            | _ -> None);
      }
  in
  List.iter (fun task -> Queue.push (fun () -> start task) ready) tasks;
  next ()

let rec deep depth =
  if depth = 0 then (perform Pass; failwith "from below")
  else Fun.protect ~finally:(fun () -> if depth mod 100 = 0 then perform Pass) (fun () -> 1 + deep (depth - 1))

let () =
  let state = ref 7 and tree = ref Leaf in
  for _ = 1 to 200 do
    state := ((!state * 1009) + 12345) mod 100_003;
    tree := insert (!state mod 1000) !tree
  done;
  let values = List.of_seq (sequence_of (fun () -> walk !tree)) in
  let sorted = string_of_bool (values = List.sort compare values) in
  print_endline (String.concat " " [ string_of_int (List.length values); sorted; string_of_int (List.nth values 100) ]);
  let rec naturals n () = Seq.Cons (n, naturals (n + 1)) in
  let rec sieve numbers () =
    match numbers () with
    | Seq.Nil -> Seq.Nil
    | Seq.Cons (prime, rest) -> Seq.Cons (prime, sieve (Seq.filter (fun n -> n mod prime <> 0) rest))
  in
  let given = sequence_of (fun () -> Seq.iter (fun prime -> perform (Give prime)) (sieve (naturals 2))) in
  print_endline (String.concat " " (List.of_seq (Seq.map string_of_int (Seq.take 5 (Seq.drop 40 given)))));
  let task name () =
    for step = 0 to 19 do
      if step mod 7 = 6 then perform (Send (name ^ string_of_int step));
      perform Pass
    done
  in
  let reader () = for _ = 1 to 6 do say (perform Receive) done in
  let caught () = say (match deep 300 with depth -> string_of_int depth | exception Failure text -> text) in
  run
    [
      ("a", task "a"); ("b", task "b"); ("c", task "c"); ("reader", reader);
      ("deep", fun () -> ignore (deep 500)); ("caught", caught);
    ];
  print_endline (Buffer.contents log)
