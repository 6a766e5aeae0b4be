#!/bin/sh
# Compares the exports of a libgc with those of the system's libgc: soname,
# names, functions against variables, sizes of variables (programs copy some).
#
# abi.sh LIBGC [SYSTEM_LIBGC]
#
# Prints every difference; fails if a symbol is missing or differs. What LIBGC
# exports beyond the other is printed as a remark.
set -eu
ours=$1
system=${2:-/usr/lib/$(uname -m)-linux-gnu/libgc.so.1}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

soname() { readelf -dW "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p'; }

# name, kind, size (of variables only), sorted by name
exports() {
    readelf --dyn-syms -W "$1" | awk '
        $7 != "UND" && ($5 == "GLOBAL" || $5 == "WEAK") && ($4 == "FUNC" || $4 == "OBJECT") {
            sub(/@.*/, "", $8)
            print $8, $4, ($4 == "OBJECT" ? $3 : "-")
        }' | sort
}

bad=0
if [ "$(soname "$ours")" != "$(soname "$system")" ]; then
    echo "soname: $(soname "$ours"), not $(soname "$system")"
    bad=1
fi
# GC_arrays is the other's own state, in no header.
exports "$system" | grep -v '^GC_arrays ' >"$work/system"
exports "$ours" >"$work/ours"
join -a 1 "$work/system" "$work/ours" | awk '
    NF == 3 { print "missing: " $1; bad = 1; next }
    $2 != $4 { print $1 ": " $4 ", not " $2; bad = 1; next }
    $3 != $5 { print $1 ": " $5 " bytes, not " $3; bad = 1 }
    END { exit bad }' || bad=1
join -v 2 "$work/system" "$work/ours" | sed 's/ .*//; s/^/beyond: /'
[ "$bad" -eq 0 ] && echo "the exports agree"
exit "$bad"
