# An evaluation that uses much memory and then waits for a builder, whose result it reads. A tenth of what it has made lives then.
{ items, seconds }:
let
  make = count: builtins.genList (number: { inherit number; text = "line ${toString number}"; }) count;
  length = lines: builtins.foldl' (sum: line: sum + builtins.stringLength line.text) 0 lines;
  kept = make (items / 10);
  built = derivation {
    name = "waits-${toString (length (make items) + length kept)}";
    system = builtins.currentSystem;
    builder = "/bin/sh";
    args = [ "-c" "echo waits >&2; i=0; while [ $i -lt ${toString seconds} ]; do /bin/sleep 1; i=$((i + 1)); done; echo done > $out" ];
  };
in
builtins.readFile built + toString (length kept)
