#!/usr/bin/env bash
# How much a program gets under an address limit (ulimit -v), on Gleaner and on stock libgc.
#
#   tests/limits/run.sh [--quiet] [--long] --lib LIBGC
#
#   --lib LIBGC    the library to compare with the installed one
#   --long         more limits and sizes; takes five minutes
#   --quiet        print failures and the summary only
#
# Each row is an object size under a limit. Gleaner has to give at least 85 % of what stock gives, and the program has to go
# on afterwards.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../target/limits
lib='' quiet=false
limits=(300000 600000) sizes=(64 1024 20000 4000000)
. "$here/../arguments.sh"
while [ $# -gt 0 ]; do
    case $1 in
    --lib) value $# "$1"; lib=$(libgc "$2") || exit 2; shift 2 ;;
    --long)
        limits=(300000 600000 1200000 2400000)
        sizes=(64 256 1024 8192 9000 16000 20000 66000 100000 1000000 4000000)
        shift ;;
    --quiet) quiet=true; shift ;;
    --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "run.sh: unknown argument $1" >&2; exit 2 ;;
    esac
done
[ -n "$lib" ] || { echo "run.sh: name a library with --lib" >&2; exit 2; }
mkdir -p "$build"
cc -std=gnu11 -O1 -Wall -Wextra -Werror -o "$build/fill" "$here/fill.c" -lgc -lpthread

passed=0 failed=0
judge() {
    if [ "$1" = 0 ]; then passed=$((passed + 1)); $quiet || echo "ok     $2"
    else failed=$((failed + 1)); echo "not ok $2"; fi
}
for limit in "${limits[@]}"; do
    for size in "${sizes[@]}"; do
        read -r stock _ < <(ulimit -v "$limit"; "$build/fill" "$size" 2>/dev/null || echo "none -")
        read -r ours then < <(ulimit -v "$limit"; LD_PRELOAD=$lib "$build/fill" "$size" 2>/dev/null || echo "none -")
        good=1
        if [ "$stock" != none ] && [ "$ours" != none ] && [ $((ours * 100)) -ge $((stock * 85)) ] && [ "$then" = lives ]; then
            good=0
        fi
        judge "$good" "ulimit -v $limit, objects of $size bytes: stock $stock MB, Gleaner $ours MB, then it $then"
    done
done

# A program of nine million pairs, which stock manages within this limit.
script='(display (length (iota 9000000)))'
for library in '' "$lib"; do
    got=$(ulimit -v 400000; LD_PRELOAD=$library guile --no-auto-compile -c "$script" 2>/dev/null || echo "none")
    judge "$([ "$got" = 9000000 ]; echo $?)" "guile under ulimit -v 400000 on ${library:-stock libgc}: $got"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
