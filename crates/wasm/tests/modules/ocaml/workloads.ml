(* Workloads of `gleaner-bench native`: each comes to the same number here. The command line has the name of one, and `--tiny` as
   its last word where little is to be done. `xml` reads its document from standard input. *)

let ( +: ), ( *: ), ( ^: ) = Int64.(add, mul, logxor)
let chained sum number = (sum *: 31L) +: number
let chained_int sum number = chained sum (Int64.of_int number)
let require what fact = if not fact then failwith what

type node = { number : int; mutable left : node option; mutable right : node option }

let node number = { number; left = None; right = None }

(* A tree that stays, and many that do not, half of them built from the root down. *)
let gcbench most length =
  let next = ref 0 in
  let fresh () = incr next; node !next in
  let rec grow node height =
    if height > 0 then begin
      let left = fresh () in
      node.left <- Some left;
      let right = fresh () in
      node.right <- Some right;
      grow left (height - 1);
      grow right (height - 1)
    end
  in
  let rec bottom_up height =
    if height = 0 then fresh ()
    else begin
      let left = bottom_up (height - 1) in
      let right = bottom_up (height - 1) in
      let node = fresh () in
      node.left <- Some left;
      node.right <- Some right;
      node
    end
  in
  let sum = ref 0L in
  let rec count = function
    | None -> 0
    | Some node ->
        sum := chained_int !sum node.number;
        let left = count node.left in
        1 + left + count node.right
  in
  let kept = fresh () in
  grow kept most;
  let numbers = Array.init length (fun i -> 1.0 /. float (i + 1)) in
  for half = 2 to most / 2 do
    let height = 2 * half in
    let trees = 2 * ((8 lsl most) - 1) / ((2 lsl height) - 1) in
    for _ = 1 to trees do grow (fresh ()) height done;
    for _ = 1 to trees do ignore (bottom_up height) done
  done;
  require "the array is as it was filled" (numbers.(99) = 0.01);
  let nodes = count (Some kept) in
  require "the tree that stays is whole" (nodes = (2 lsl most) - 1);
  Int64.(of_int nodes ^: shift_left !sum 24)

let queue length =
  let head = ref (node 0) in
  let tail = ref !head and sum = ref 0L in
  for number = 1 to 16 * length do
    let fresh = node number in
    !tail.left <- Some fresh;
    tail := fresh;
    if number > length then begin
      sum := chained_int !sum !head.number;
      head := Option.get !head.left
    end
  done;
  let rec length_of n node = match node.left with None -> n | Some next -> length_of (n + 1) next in
  require "the list is whole" (length_of 1 !head = length + 1);
  !sum

let refarray length =
  let state = ref 2000L in
  let array = Array.init length node in
  for number = 0 to (10 * length) - 1 do
    state := (!state *: 6364136223846793005L) +: 1442695040888963407L;
    let drawn = Int64.shift_right_logical !state 33 in
    array.(Int64.(to_int (rem drawn (of_int length)))) <- node number
  done;
  Array.fold_left (fun sum node -> chained_int sum node.number) 0L array

type quad = { index : int; corners : quad array }

let quads depth trees =
  let next = ref 0 and sum = ref 0L in
  let rec tree depth =
    incr next;
    let index = !next in
    let corners = Array.make (if depth = 0 then 0 else 4) { index = 0; corners = [||] } in
    let quad = { index; corners } in
    Array.iteri (fun corner _ -> corners.(corner) <- tree (depth - 1)) corners;
    quad
  in
  let rec count quad =
    sum := chained_int !sum quad.index;
    Array.fold_left (fun nodes corner -> nodes + count corner) 1 quad.corners
  in
  let kept = tree depth in
  for _ = 1 to trees do require "a shallow tree is whole" (count (tree 3) = 85) done;
  require "the tree that stays is whole" (count kept = ((4 lsl (2 * depth)) - 1) / 3);
  !sum

(* What a document is read into: an element with a name and attributes, or a text. *)
type part = {
  content : string;
  is_element : bool;
  mutable next : part option;
  mutable parent : part option;
  mutable attributes : attribute option;
  mutable first : part option;
  mutable last : part option;
}

and attribute = { name : string; text : string; mutable next_attribute : attribute option }

let part content is_element =
  { content; is_element; next = None; parent = None; attributes = None; first = None; last = None }

let append parent child =
  child.parent <- Some parent;
  (match parent.last with None -> parent.first <- Some child | Some last -> last.next <- Some child);
  parent.last <- Some child

let rec children = function None -> [] | Some part -> part :: children part.next

let is_space = function ' ' | '\t' | '\r' | '\n' -> true | _ -> false

(* The first `most` elements of a document, with all that they are in; and how many were read. *)
let read text most =
  let at = ref 0 and elements = ref 0 and root = ref None and inner = ref None in
  let names = Hashtbl.create 16 and pending = Buffer.create 64 in
  let starts word =
    let length = String.length word in
    !at + length <= String.length text && String.sub text !at length = word
  in
  let rec pass_to word = if starts word then at := !at + String.length word else (incr at; pass_to word) in
  let taken_to word =
    let from = !at in
    pass_to word;
    String.sub text from (!at - String.length word - from)
  in
  let rec space () = if is_space text.[!at] then (incr at; space ()) in
  let word () =
    let from = !at in
    while not (is_space text.[!at] || String.contains "/>=" text.[!at]) do incr at done;
    let name = String.sub text from (!at - from) in
    match Hashtbl.find_opt names name with
    | Some known -> known
    | None -> Hashtbl.add names name name; name
  in
  let add_entity buffer =
    incr at;
    match taken_to ";" with
    | "amp" -> Buffer.add_char buffer '&'
    | "lt" -> Buffer.add_char buffer '<'
    | "gt" -> Buffer.add_char buffer '>'
    | "quot" -> Buffer.add_char buffer '"'
    | "apos" -> Buffer.add_char buffer '\''
    | number ->
        let digits = String.sub number 1 (String.length number - 1) in
        Buffer.add_utf_8_uchar buffer (Uchar.of_int (int_of_string (if digits.[0] = 'x' then "0" ^ digits else digits)))
  in
  let add buffer =
    match text.[!at] with
    | '&' -> add_entity buffer
    | '\r' ->
        (* The end of a line is one letter. *)
        incr at;
        if text.[!at] <> '\n' then Buffer.add_char buffer '\n'
    | letter -> incr at; Buffer.add_char buffer letter
  in
  let flush () =
    let found = Buffer.contents pending in
    Buffer.clear pending;
    if not (String.for_all is_space found) then append (Option.get !inner) (part found false)
  in
  let value quote =
    let value = Buffer.create 16 in
    while text.[!at] <> quote do
      match text.[!at] with
      | '\t' | '\n' -> incr at; Buffer.add_char value ' '
      | _ -> add value
    done;
    incr at;
    Buffer.contents value
  in
  let rec attributes last =
    space ();
    if not (String.contains "/>" text.[!at]) then begin
      let name = word () in
      pass_to "=";
      space ();
      let quote = text.[!at] in
      incr at;
      let fresh = Some { name; text = value quote; next_attribute = None } in
      last fresh;
      attributes (fun next -> (Option.get fresh).next_attribute <- next)
    end
  in
  let rec skip depth =
    if depth > 0 then begin
      pass_to "<";
      if starts "!--" then (pass_to "-->"; skip depth)
      else if starts "![CDATA[" then (pass_to "]]>"; skip depth)
      else if starts "/" then (pass_to ">"; skip (depth - 1))
      else (pass_to ">"; skip (if text.[!at - 2] = '/' then depth else depth + 1))
    end
  in
  let begin_element () =
    incr at;
    let element = part (word ()) true in
    attributes (fun first -> element.attributes <- first);
    let is_empty = text.[!at] = '/' in
    pass_to ">";
    if !elements = most then (if not is_empty then skip 1)
    else begin
      incr elements;
      (match !inner with None -> root := Some element | Some parent -> append parent element);
      if not is_empty then inner := Some element
    end
  in
  while !at < String.length text do
    if starts "<!--" then pass_to "-->"
    else if starts "<![CDATA[" then (pass_to "<![CDATA["; Buffer.add_string pending (taken_to "]]>"))
    else if starts "<?" then pass_to "?>"
    else if starts "<!" then pass_to ">"
    else if starts "</" then begin
      flush ();
      pass_to ">";
      inner := (Option.get !inner).parent
    end
    else if starts "<" then (flush (); begin_element ())
    else add pending
  done;
  (Option.get !root, !elements)

let order left right =
  if left.is_element && right.is_element then compare left.content right.content
  else compare left.is_element right.is_element

(* Attributes become elements, texts become upper case, and the elements of one parent are in the order of their names. *)
let rec transformed of_part =
  if not of_part.is_element then part (String.uppercase_ascii of_part.content) false
  else begin
    let fresh = part of_part.content true in
    let rec elements = function
      | None -> ()
      | Some attribute ->
          let element = part attribute.name true in
          append fresh element;
          append element (part attribute.text false);
          elements attribute.next_attribute
    in
    elements of_part.attributes;
    List.iter (fun child -> append fresh (transformed child)) (List.stable_sort order (children of_part.first));
    fresh
  end

let rec write buffer part =
  let content () =
    String.iter
      (function
        | '&' -> Buffer.add_string buffer "&amp;"
        | '<' -> Buffer.add_string buffer "&lt;"
        | '>' -> Buffer.add_string buffer "&gt;"
        | letter -> Buffer.add_char buffer letter)
      part.content
  in
  let tag before = Buffer.add_string buffer before; content (); Buffer.add_char buffer '>' in
  if part.is_element then begin
    tag "<";
    List.iter (write buffer) (children part.first);
    tag "</"
  end
  else content ()

let rec count_elements parent part =
  require "a part knows its parent" (part.parent == parent || Option.get part.parent == Option.get parent);
  let own = if part.is_element then 1 else 0 in
  List.fold_left (fun elements child -> elements + count_elements (Some part) child) own (children part.first)

let xml passes most =
  set_binary_mode_in stdin true;
  let text = In_channel.input_all stdin in
  let sum = ref 0L in
  for _ = 1 to passes do
    let tree, elements = read text most in
    let buffer = Buffer.create 4096 in
    write buffer (transformed tree);
    let add hash letter = (hash ^: Int64.of_int (Char.code letter)) *: 0x100000001b3L in
    let hash = String.fold_left add 0xcbf29ce484222325L (Buffer.contents buffer) in
    require "the tree is whole" (count_elements None tree = elements);
    sum := chained !sum hash
  done;
  !sum

let () =
  let is_tiny = Sys.argv.(Array.length Sys.argv - 1) = "--tiny" in
  let length = if is_tiny then 1000 else 1_000_000 in
  let result =
    match Sys.argv.(1) with
    | "gcbench" -> if is_tiny then gcbench 8 500 else gcbench 18 500_000
    | "queue" -> queue length
    | "refarray" -> refarray length
    | "quads" -> if is_tiny then quads 5 400 else quads 10 400_000
    | "xml" -> if is_tiny then xml 2 300 else xml 8 max_int
    | name -> failwith ("there is no workload " ^ name)
  in
  (* Without a sign. *)
  let rest = Int64.unsigned_div result 10L in
  let upper = if rest = 0L then "" else Int64.to_string rest in
  print_endline (upper ^ Int64.to_string (Int64.unsigned_rem result 10L))
