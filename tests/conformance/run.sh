#!/bin/sh
# Builds and runs the conformance suite.
#
# run.sh [--lib LIBGC] [--opt OPTIONS] [--build DIR] [--quiet] [TEST...]
#
#   --lib LIBGC    preload this libgc.so.1 (default: the library of the system)
#   --opt OPTIONS  adds to GLEANER_OPTIONS of the programs
#   --build DIR    where to build (default: target/conformance of the project)
#   --quiet        print failures and the summary only
#   TEST           names of programs, without suffix; NAME:CASE runs one case
#
# GLEANER=1 in the environment adds the tests of what only Gleaner promises.
# CONFORMANCE_RUNNER is an emulator of another processor that takes -E for its
# program's environment, with its options (tests/arm64/run.sh). CC and CXX name
# the compilers, which are taken once, with the public headers of the system.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../target/conformance
lib= opt= quiet=
. "$here/../arguments.sh"
while [ $# -gt 0 ]; do
    case $1 in
    --lib | --opt | --build) value $# "$1" ;;
    esac
    case $1 in
    --lib) lib=$(libgc "$2") || exit 2; shift 2 ;;
    --opt) opt=${opt:+$opt,}$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --quiet) quiet=1; shift ;;
    --help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
    esac
done

case $here$build in
*[[:space:]]*) echo "run.sh: make takes a path with a blank for two, so nothing can be built in it: $here" >&2; exit 2 ;;
esac
mkdir -p "$build" || exit 2
flock "$build" make -s -f "$here/Makefile" SRC="$here" BUILD="$build" || { echo "run.sh: the build failed" >&2; exit 2; }
[ $# -gt 0 ] || set -- $(make -s -f "$here/Makefile" SRC="$here" BUILD="$build" list)

# Several runs may go on at once.
out=$(mktemp -d "$build/run.XXXXXX") || exit 2
trap 'rm -rf "$out"' EXIT
passed=0 failed=0 skipped=0
limit=$(( ${CONFORMANCE_WATCHDOG:-300} * 10 ))
[ "${CONFORMANCE_LONG:-0}" = 1 ] && limit=$(( limit * 20 ))
for name in "$@"; do
    case $name in *:*) case=${name#*:} name=${name%%:*} ;; *) case= ;; esac
    if [ ! -x "$build/$name" ]; then
        echo "run.sh: no program $name in $build" >&2
        exit 2
    fi
    began=$(date +%s%N)
    (
        cd "$build" || exit 2
        [ -n "$lib" ] && CONFORMANCE_LIB=$lib && export CONFORMANCE_LIB
        [ -n "$opt" ] && GLEANER_OPTIONS=$opt && export GLEANER_OPTIONS
        # The outer limit only removes a program whose own watchdog failed.
        if [ -n "${CONFORMANCE_RUNNER:-}" ]; then
            exec timeout -k 10 "$limit" $CONFORMANCE_RUNNER ${lib:+-E LD_PRELOAD="$lib"} "./$name" $case
        fi
        exec timeout -k 10 "$limit" env ${lib:+LD_PRELOAD="$lib"} "./$name" $case
    ) >"$out/$name.out" 2>"$out/$name.err"
    status=$?
    tenths=$(( ($(date +%s%N) - began) / 100000000 ))
    [ "$tenths" -lt 20 ] || echo "# took $((tenths / 10)).$((tenths % 10)) s: $name"
    ok=$(grep -c '^ok ' "$out/$name.out")
    bad=$(grep -c '^not ok ' "$out/$name.out")
    skipped=$((skipped + $(grep -c '^# skipped: ' "$out/$name.out")))
    if ! grep -q '^1\.\.' "$out/$name.out"; then
        bad=$((bad + 1))
        echo "not ok - $name ended before its last test, status $status" >>"$out/$name.out"
    fi
    if [ -n "$case" ] && [ $((ok + bad)) = 0 ] && ! grep -q '^# skipped: ' "$out/$name.out"; then
        echo "run.sh: $name has no case $case" >&2
        exit 2
    fi
    passed=$((passed + ok)) failed=$((failed + bad))
    if [ -z "$quiet" ]; then
        echo "== $name: $ok passed, $bad failed"
        grep -v '^ok ' "$out/$name.out" | head -n 80
    elif [ "$bad" -gt 0 ]; then
        echo "== $name: $ok passed, $bad failed"
        grep -v '^ok ' "$out/$name.out" | head -n 80
    fi
    [ "$bad" -eq 0 ] || tail -n 8 "$out/$name.err" | sed 's/^/#   stderr: /'
done
[ "$skipped" -eq 0 ] || echo "$skipped skipped: promises of Gleaner alone (GLEANER=1 runs them)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
