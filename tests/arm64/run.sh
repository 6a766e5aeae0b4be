#!/usr/bin/env bash
# Tests on 64-bit Arm, which QEMU emulates program by program (qemu-user): what is built here is the compiler's cross build.
#
#   tests/arm64/run.sh [PART...]
#
#   units        tests of the crates up to the spaces
#   conformance  four programs of libgc's suite, on Gleaner's library: registers, stacks and roots, exceptions, what is counted
#   everything   all of that suite but what is left out: hours. It is not run unless it is named
#   capi         four programs of the C interface of the precise heap
#   clients      Guile and Nix of Debian's arm64 packages, on their own libgc and on Gleaner
#
# Everything lies in target/arm64: the packages are unpacked there, not installed. left-out.tsv beside this script has what is
# left out, with the reason. PAGE=16384 or 65536 in the environment gives programs larger pages. The last line is
# "N passed, N failed".

set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/tests/arm64
place=$PWD/target/arm64
root=$place/root
triple=aarch64-unknown-linux-gnu
emulator=(qemu-aarch64 -L "$root" ${PAGE:+-p "$PAGE"})
library=$PWD/target/$triple/debug/libgc.so
passed=0 failed=0
unset GLEANER_OPTIONS LD_PRELOAD LD_LIBRARY_PATH

for part; do
    case $part in
    units | conformance | everything | capi | clients) ;;
    *) echo "run.sh: no part $part" >&2; exit 2 ;;
    esac
done
[ $# -gt 0 ] || set -- units conformance capi clients

# --- packages -------------------------------------------------------------------

# What the clients need, with all that these need.
packages=(libgc-dev libc6-dev libstdc++6 guile-3.0 nix-bin)
packages_are_there() { [ "$(cat "$place/packages" 2>/dev/null)" = "${packages[*]}" ]; }
fetch_packages() {
    local apt=(apt-get -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::lists=$place/apt/lists"
        -o "Dir::State::status=$place/apt/status" -o "Dir::Cache=$place/apt/cache" -o APT::Install-Recommends=false
        -o Debug::NoLocking=1)
    rm -rf "$root"
    mkdir -p "$place/apt/lists/partial" "$place/apt/cache/archives/partial" "$root"
    : >"$place/apt/status"
    "${apt[@]}" update >"$place/apt.log" 2>&1 &&
        "${apt[@]}" --yes --download-only install "${packages[@]}" >>"$place/apt.log" 2>&1 ||
        { tail -n 5 "$place/apt.log" >&2; echo "run.sh: the arm64 packages were not to be had" >&2; exit 2; }
    for package in "$place"/apt/cache/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
    echo "${packages[*]}" >"$place/packages"
}
packages_are_there || fetch_packages

# Tests that build a library call the compiler by this name.
rm -rf "$place/bin"
mkdir -p "$place/bin"
printf '#!/bin/sh\nexec aarch64-linux-gnu-gcc --sysroot="%s" "$@"\n' "$root" >"$place/bin/gcc"
chmod 755 "$place/bin/gcc"

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="${emulator[*]}"

# --- what is counted ------------------------------------------------------------

left_out() { awk -F'\t' -v part="$1" '$1 == part { print $2 }' "$here/left-out.tsv"; }
more() { # more NAME PASSED FAILED
    echo "== $1: $2 passed, $3 failed, $(left_out "$1" | wc -l) left out"
    passed=$((passed + $2)) failed=$((failed + $3))
}
of_summary() { # of_summary PART LOG : its last line counts
    local line
    line=$(tail -n 1 "$2")
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        more "$1" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
        [ "${BASH_REMATCH[2]}" -eq 0 ] || grep -E '^(== .* [1-9][0-9]* failed|not ok|FAILED)|stderr' "$2" || true
    else
        tail -n 5 "$2"
        more "$1" 0 1
    fi
}

units() {
    local log=$place/units.log skip=() test
    for test in $(left_out units); do skip+=(--skip "$test"); done
    PATH=$place/bin:$PATH cargo test --locked --target $triple --no-fail-fast -p gleaner-base -p gleaner-os -p gleaner-mem \
        -p gleaner-work -p gleaner-spaces -- "${skip[@]}" >"$log" 2>&1 || true
    grep -E '^test .* FAILED$|uncaught target signal|^error: ' "$log" || true
    # A program that ends before it has counted is a failure of its own.
    more units "$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$log" | paste -sd+ | sed 's/^$/0/' | bc)" \
        "$(($(grep -cE '^test .* FAILED$' "$log") + $(grep -cE '\(signal: |could not compile' "$log")))"
}

build() { cargo build --locked --quiet --target $triple -p gleaner-libgc -p gleaner-capi; }

# suite NAME PROGRAM... : of tests/conformance.
suite() {
    local name=$1 log=$place/$1.log
    shift
    build
    CC="aarch64-linux-gnu-gcc --sysroot=$root" CXX="aarch64-linux-gnu-g++ --sysroot=$root" GLEANER=1 \
        CONFORMANCE_RUNNER="${emulator[*]}" tests/conformance/run.sh --lib "$library" --build "$place/conformance" \
        "$@" >"$log" 2>&1 || true
    of_summary "$name" "$log"
}
conformance() { suite conformance account cplusplus roots thread_roots; }
everything() {
    local programs
    programs=$(make -s -f tests/conformance/Makefile SRC=tests/conformance list | tr ' ' '\n' |
        grep -vxFf <(left_out everything))
    # shellcheck disable=SC2086
    suite everything $programs
}

# With the static library: those programs of tests/capi that fork nothing.
capi() {
    local name log=$place/capi.log line
    build
    mkdir -p "$place/capi"
    for name in embed elements weak threads; do
        aarch64-linux-gnu-gcc --sysroot="$root" -std=gnu11 -O2 -Icrates/capi/include -rdynamic "tests/capi/$name.c" \
            -o "$place/capi/$name" target/$triple/debug/libgleaner_capi.a -pthread -ldl -lm
        "${emulator[@]}" "$place/capi/$name" >"$log" 2>&1 || true
        of_summary "capi $name" "$log"
    done
}

# client NAME EXPECTED COMMAND... : on the package's own libgc and on Gleaner, which collects often.
client() {
    local name=$1 expected=$2 own ours
    shift 2
    own=$("${emulator[@]}" "$@" 2>/dev/null || true)
    ours=$("${emulator[@]}" -E LD_PRELOAD="$library" -E GLEANER_OPTIONS=verify=edges "$@" 2>/dev/null || true)
    if [ "$own" = "$expected" ] && [ "$ours" = "$expected" ]; then
        more "$name" 1 0
    else
        echo "   expected '$expected', its own libgc gave '$own', Gleaner '$ours'"
        more "$name" 0 1
    fi
}
clients() {
    build
    client guile 499500 "$root/usr/bin/guile-3.0" --no-auto-compile -c \
        '(define (sum n) (let loop ((i 0) (all 0)) (if (= i n) all (loop (+ i 1) (+ all (length (make-list i 0)))))))
         (display (sum 1000)) (gc)'
    client guile-threads 40000 "$root/usr/bin/guile-3.0" --no-auto-compile -c \
        '(use-modules (ice-9 threads)) (display (apply + (par-map (lambda (n) (length (iota (* 10000 n)))) (list 1 1 1 1))))'
    client nix 4999950000 "$root/usr/bin/nix-instantiate" --eval -E \
        "builtins.foldl' (a: b: a + b) 0 (builtins.genList (x: x) 100000)"
}

for part; do $part; done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
