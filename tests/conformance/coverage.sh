#!/bin/sh
# Which exported symbols of libgc no conformance program imports.
#
# coverage.sh [--build DIR] [--lib LIBGC]
#
# Compares the library's dynamic symbols with the undefined ones of the built
# programs (variables appear there as copy relocations). Run run.sh first.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../target/conformance
lib=/usr/lib/$(uname -m)-linux-gnu/libgc.so.1
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2; shift 2 ;;
    --lib) lib=$2; shift 2 ;;
    *) echo "coverage.sh: unknown option $1" >&2; exit 2 ;;
    esac
done

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
nm -D --defined-only "$lib" | awk '$3 ~ /^GC_/ {print $3}' | sort -u >"$work/exported"
for program in $(make -s -f "$here/Makefile" SRC="$here" BUILD="$build" list); do
    nm -D "$build/$program" | awk '{print $NF}' | sed 's/@.*//'
done | grep '^GC_' | sort -u >"$work/imported"

# Public headers declare these for all builds; the others are internal.
cat /usr/include/gc/*.h >"$work/headers"
comm -23 "$work/exported" "$work/imported" | while read -r symbol; do
    if grep -qw "$symbol" "$work/headers"; then
        echo "$symbol"
    else
        echo "$symbol (in no public header)"
    fi
done >"$work/missing"
cat "$work/missing"
echo "$(comm -12 "$work/exported" "$work/imported" | wc -l) of $(wc -l <"$work/exported") exported symbols are exercised"
