#!/usr/bin/env bash
# Live sets of 2.5 GB in large arrays and of 5 GB in small objects, under `gleaner run`: each program checks all that lives and
# prints "right". docs/wasm.md says what they take.
#
#     tests/wasm/large.sh GLEANER
#
# The last line is "N passed, N failed".
set -u
gleaner=${1:?the command, built with the feature wasm}
modules=$(cd "$(dirname "$0")/../../crates/wasm/tests/modules/text" && pwd)
passed=0 failed=0

# large NAME MIB OPTION...: prints "right", and has had so many MiB at least.
large() {
    local name=$1 least=$2 output said peak problem=
    shift 2
    said=$(mktemp)
    output=$("$gleaner" run --stats "${@/#/--opt=}" "$modules/$name.wasm" 2> "$said") || problem="exit status $?"
    peak=$(sed -n 's/^gleaner: peak memory \([0-9.]*\) \([MG]iB\)$/\1 \2/p' "$said")
    [ "$output" = right ] || problem="${problem:+$problem; }it printed '$output'"
    awk -v least="$least" -v peak="$peak" 'BEGIN { split(peak, of, " "); exit of[1] * (of[2] == "GiB" ? 1024 : 1) < least }' ||
        problem="${problem:+$problem; }its peak was '$peak', and $least MiB live"
    if [ -z "$problem" ]; then
        echo "ok: $name under $*, peak $peak"
        passed=$((passed + 1))
    else
        echo "FAILED: $name under $*: $problem"
        failed=$((failed + 1))
    fi
    sed 's/^/    /' "$said"
    rm -f "$said"
}

large large_arrays 2560 heap-limit=3g
large large_arrays 2560 heap-limit=3g refs=compressed
large large_objects 4882 heap-limit=8g refs=compressed
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
