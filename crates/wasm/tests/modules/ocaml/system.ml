(* What the Unix library has for files: links, times, sizes, positions, and the names in a directory. *)

let tell words = print_endline (String.concat " " words)

let () =
  let path name = Sys.argv.(1) ^ "/" ^ name in
  let out = open_out (path "a") in
  output_string out "hello";
  close_out out;
  Unix.link (path "a") (path "b");
  Unix.symlink "a" (path "c");
  tell [ "c leads to"; Unix.readlink (path "c") ];
  Unix.utimes (path "a") 1000000.5 2000000.25;
  let stat = Unix.stat (path "b") in
  tell [ string_of_float stat.st_atime; string_of_float stat.st_mtime; string_of_int stat.st_nlink; string_of_int stat.st_size ];
  tell [ "c is a link:"; string_of_bool ((Unix.lstat (path "c")).st_kind = S_LNK) ];
  let file = Unix.openfile (path "a") [ O_RDWR; O_APPEND ] 0o644 in
  ignore (Unix.write_substring file " again" 0 6);
  ignore (Unix.lseek file 3 SEEK_SET);
  let buffer = Bytes.create 20 in
  let count = Unix.read file buffer 0 20 in
  tell [ string_of_int count; Bytes.sub_string buffer 0 count ];
  Unix.ftruncate file 2;
  Unix.fsync file;
  Unix.close file;
  tell [ "b has"; string_of_int (Unix.stat (path "b")).st_size; "bytes" ];
  let directory = Unix.opendir Sys.argv.(1) in
  let rec names all = match Unix.readdir directory with name -> names (name :: all) | exception End_of_file -> all in
  tell (List.sort compare (names []));
  Unix.closedir directory;
  (match Unix.link (path "none") (path "d") with
  | () -> tell [ "it was there" ]
  | exception Unix.Unix_error (ENOENT, _, _) -> tell [ "there is none" ]);
  List.iter (fun name -> Unix.unlink (path name)) [ "a"; "b"; "c" ]
