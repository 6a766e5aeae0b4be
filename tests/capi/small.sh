#!/usr/bin/env bash
# How large a small program is that embeds Gleaner in C: examples/hello.c with the libraries that `make embed` and
# `make embed-stable` build, as docs/embedding.md says. The last line is "N passed, N failed".
#
#   tests/capi/small.sh LIBRARY BYTES [LIBRARY BYTES]...     each stripped program has fewer than BYTES bytes

set -euo pipefail
cd "$(dirname "$0")/../.."

out=target/capi
mkdir -p "$out"
passed=0 failed=0
report() { # report VERDICT NAME
    echo "$1: $2"
    if [ "$1" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

[ $# -gt 0 ] && [ $(($# % 2)) = 0 ] || { echo "small.sh: give libraries, each with a number of bytes" >&2; exit 2; }
while [ $# -gt 0 ]; do
    library=$1 most=$2
    shift 2
    gcc -std=gnu11 -Os -Wall -Wextra -Werror -Icrates/capi/include examples/hello.c -o "$out/hello" "$library" \
        -no-pie -Wl,--gc-sections -s -pthread -ldl -lm
    bytes=$(stat -c %s "$out/hello")
    verdict=ok
    [ "$bytes" -lt "$most" ] || verdict=FAILED
    report $verdict "hello with $library has $bytes bytes, fewer than $most"
    verdict=ok
    [ "$("$out/hello")" = "hello from the heap" ] || verdict=FAILED
    report $verdict "hello with $library says hello"
    verdict=ok
    [[ $(GLEANER_OPTIONS=heap-limit=1 "$out/hello" 2>&1) == "hello: in GLEANER_OPTIONS: "*"heap-limit"* ]] || verdict=FAILED
    report $verdict "hello with $library names a wrong option"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
