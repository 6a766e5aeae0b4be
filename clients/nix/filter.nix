# Evaluates a filter for each file of this tree. Nix copies to its store on the
# stack of a coroutine, so the filter runs there, and its collections do.
{ items, files ? ./.. }:
let
  make = count: builtins.genList (i: { number = i; text = toString i; }) count;
  kept = make items;
  wanted = path: type:
    builtins.length (builtins.filter (item: item.number > 3 && item.text != path) (make items)) > 0;
  copy = builtins.path { path = files; name = "files"; filter = wanted; };
in
[
  "${copy}"
  (builtins.length (builtins.filter (item: item.text == toString item.number) kept))
]
