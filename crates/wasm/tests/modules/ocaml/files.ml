(* Arguments, standard input, and files below the directory that the host opened. *)

let write name text =
  let out = open_out_bin name in
  output_string out text;
  close_out out

let read name =
  let file = open_in_bin name in
  let text = really_input_string file (in_channel_length file) in
  close_in file;
  text

let rec read_lines file = match input_line file with line -> line :: read_lines file | exception End_of_file -> []

let tell words = print_endline (String.concat " " words)
let int = string_of_int
let bool = string_of_bool

let () =
  tell [ int (Array.length Sys.argv - 1); "arguments, the last is"; Sys.argv.(Array.length Sys.argv - 1) ];
  let lines = read_lines stdin in
  tell [ int (List.length lines); "lines, backwards:"; String.concat "|" (List.rev lines) ];
  let root = Sys.argv.(1) in
  let path name = root ^ "/" ^ name in
  Sys.mkdir (path "made") 0o755;
  write (path "made/a.txt") (String.concat "\n" lines);
  write (path "made/b.txt") (String.init 10_000 (fun i -> Char.chr (i land 255)));
  tell [ Digest.to_hex (Digest.file (path "made/b.txt")); int (String.length (read (path "made/b.txt"))) ];
  let ends = open_in_bin (path "made/b.txt") in
  seek_in ends 9_990;
  tell [ int (input_byte ends); "of"; int (in_channel_length ends) ];
  close_in ends;
  let more = open_out_gen [ Open_append; Open_binary ] 0o644 (path "made/a.txt") in
  output_string more "\nappended";
  close_out more;
  Sys.rename (path "made/b.txt") (path "made/c.txt");
  let names = Sys.readdir (path "made") in
  Array.sort compare names;
  print_endline (String.concat " " (Array.to_list names));
  print_endline (read (path "made/a.txt"));
  tell [ bool (Sys.file_exists (path "made/b.txt")); bool (Sys.is_directory (path "made")) ];
  (match open_in (path "made/none") with
  | _ -> print_endline "it is there"
  | exception Sys_error why -> print_endline (String.sub why (String.length why - 25) 25));
  (match open_in "/elsewhere/none" with
  | _ -> print_endline "it is there"
  | exception Sys_error _ -> print_endline "elsewhere is nothing");
  Array.iter (fun name -> Sys.remove (path ("made/" ^ name))) names;
  Sys.rmdir (path "made");
  tell [ bool (Sys.file_exists (path "made")) ];
  exit 3
