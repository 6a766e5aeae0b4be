#!/bin/sh
# Single-steps the allocation paths with a collection at every instruction.
#
# run.sh [--lib LIBGC] [--opt OPTIONS] [--long] [--build DIR] [--quiet] [--coverage] [OPERATION]
#
#   --lib LIBGC    preload this libgc.so.1 (default: the library of the system)
#   --opt OPTIONS  one run with these GLEANER_OPTIONS (default: a run for each
#                  line of the table below; one run on the library of the system)
#   --long         the lines of that table that change marking only, too
#   --build DIR    where to build (default: target/singlestep of the project)
#   --quiet        print failures and the summary only
#   --coverage     print the instructions covered in each function
#   OPERATION      only this one
#
# Needs the permission to trace an own child.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../target/singlestep
lib= opt= long= quiet= coverage=
. "$here/../arguments.sh"
while [ $# -gt 0 ]; do
    case $1 in
    --lib | --opt | --build) value $# "$1" ;;
    esac
    case $1 in
    --lib) lib=$(libgc "$2") || exit 2; shift 2 ;;
    --opt) opt=$2; shift 2 ;;
    --long) long=1; shift ;;
    --build) build=$2; shift 2 ;;
    --quiet) quiet=1; shift ;;
    --coverage) coverage=--coverage; shift ;;
    --help) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
    esac
done

make -s -f "$here/Makefile" SRC="$here" BUILD="$build" || { echo "run.sh: the build failed" >&2; exit 2; }

if [ -n "$opt" ]; then
    variants=$opt
elif [ -n "$lib" ]; then
    variants='verify=edges
verify=edges,prefetch=on-grey,sweep=eager
verify=edges,thread-lists=off'
    [ -z "$long" ] || variants="$variants
verify=edges,sweep=eager
verify=edges,prefetch=none,markers=1"
else
    variants=none
fi

log=$build/log
: >"$log"
passed=0 failed=0
for variant in $variants; do
    (
        cd "$build" || exit 2
        [ "$variant" = none ] || { GLEANER_OPTIONS=$variant; export GLEANER_OPTIONS; }
        # Bound at the start: the loader's code is not what is tested.
        exec env LD_BIND_NOW=1 ${lib:+LD_PRELOAD="$lib" SINGLESTEP_LIB="$lib"} ./singlestep $coverage "$@"
    ) >"$build/out" 2>"$build/err"
    status=$?
    ok=$(grep -c '^ok ' "$build/out")
    bad=$(grep -c '^not ok ' "$build/out")
    if ! grep -q '^1\.\.' "$build/out"; then
        bad=$((bad + 1))
        echo "not ok - singlestep ended before its last test, status $status" >>"$build/out"
    fi
    passed=$((passed + ok)) failed=$((failed + bad))
    { echo "== $variant"; cat "$build/out" "$build/err"; } >>"$log"
    if [ -z "$quiet" ]; then
        echo "== $variant: $ok passed, $bad failed"
        cat "$build/out"
    elif [ "$bad" -gt 0 ]; then
        echo "== $variant: $ok passed, $bad failed"
        grep -v '^ok ' "$build/out" | head -n 80
    fi
    [ "$bad" -eq 0 ] || tail -n 8 "$build/err" | sed 's/^/#   stderr: /'
done
[ $((passed + failed)) -gt 0 ] || { echo "run.sh: no operation $*: singlestep.c has them all" >&2; exit 2; }
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
