# Binary trees, strings and a table, for Nim with Boehm's collector. Arguments: depth, rounds.
import std/[os, strutils, tables]

type Tree = ref object
  left, right: Tree

proc make(depth: int): Tree =
  if depth == 0: Tree()
  else: Tree(left: make(depth - 1), right: make(depth - 1))

proc count(tree: Tree): int =
  if tree.left == nil: 1
  else: 1 + count(tree.left) + count(tree.right)

let depth = parseInt(paramStr(1))
let rounds = parseInt(paramStr(2))
let long = make(depth)
var table = initTable[string, seq[int]]()
var sum = 0
for round in 0 ..< rounds:
  sum += count(make(depth - 4))
  table["key " & $round] = @[round, round * round]
var found = 0
for round in 0 ..< rounds:
  if table["key " & $round][1] == round * round:
    inc found
echo count(long), " ", sum, " ", found, " ", table.len
