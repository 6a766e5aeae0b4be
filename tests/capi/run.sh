#!/usr/bin/env bash
# The C interface of the precise heap, as an embedder has it: header and library.
#
#   tests/capi/run.sh [--lib DIR] [--until-failure]
#
# DIR holds libgleaner_capi.so and .a; target/release unless given. --until-failure ends with the first failure, and before
# what is as it was built for a release: its size, and what `make install` leaves.
#
# The cases of the programs beside this script (`programs`, below), as C with the shared library and as C++ with the
# static one; the same with arrays in pieces, and compiled for some heaps only; then examples/lisp.c under every setup,
# whose output must be the same, and examples/scheme with its programs;
# then the same example from what `make install` leaves, as pkg-config says, and
# that `make uninstall` leaves nothing. The last line is "N passed, N failed".

set -euo pipefail
cd "$(dirname "$0")/../.."

. tests/arguments.sh
lib=target/release until_failure=
while [ $# -gt 0 ]; do
    case $1 in
        --lib) value $# "$1"; lib=$2; shift 2 ;;
        --until-failure) until_failure=1; shift ;;
        *) echo "run.sh: unknown argument $1" >&2; exit 2 ;;
    esac
done
[ -e "$lib/libgleaner_capi.so" ] && [ -e "$lib/libgleaner_capi.a" ] ||
    { echo "run.sh: $lib has no libgleaner_capi.so and .a: make build" >&2; exit 2; }
out=target/capi
mkdir -p "$out"
# The number of its soname is that of the interface.
soname=libgleaner.so.$(sed -n 's/^#define GLEANER_INTERFACE //p' crates/capi/include/gleaner.h)
ln -sf "$(realpath "$lib")/libgleaner_capi.so" "$out/$soname"
ln -sf "$soname" "$out/libgleaner.so"
flags=(-O2 -Wall -Wextra -Werror -Icrates/capi/include)
static=("$lib/libgleaner_capi.a" -pthread -ldl -lm)

passed=0 failed=0
summary() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] || exit 1
}
more() { # more PASSED FAILED
    passed=$((passed + $1)) failed=$((failed + $2))
    if [ -n "$until_failure" ] && [ "$failed" -gt 0 ]; then summary; fi
}
report() { # report VERDICT NAME
    echo "$1: $2"
    if [ "$1" = ok ]; then more 1 0; else more 0 1; fi
}

# Runs a program that counts for itself.
count() {
    local name=$1 log line
    log="$out/$name.log"
    shift
    "$@" >"$log" 2>&1 || true
    cat "$log"
    line=$(tail -n 1 "$log")
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        more "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    else
        report FAILED "$name ended without a count"
    fi
}

# The functions of these programs have names at run time (-rdynamic): reports of guard mode say them.
programs=(embed weak memory elements roots threads requests fork mistakes array_mistakes owners quarantine guard contracts)
for name in "${programs[@]}" arrays array_heaps pins; do
    source=tests/capi/$name.c
    gcc -std=gnu11 "${flags[@]}" -rdynamic "$source" -o "$out/$name" -L"$out" -lgleaner -pthread
    count $name env LD_LIBRARY_PATH="$out" "$out/$name"
    g++ -std=gnu++17 -x c++ "${flags[@]}" -rdynamic "$source" -x none -o "$out/$name-c++" "${static[@]}"
    count $name-c++ "$out/$name-c++"
done

# arrays.c and array_heaps.c choose how arrays are cut themselves; where they are cut there are no conservative roots.
for cut in zray,first-n=64,arraylet=256 naive zray,array-guard=on,first-n=64; do
    said=${cut%%,*}
    if [[ $cut == *array-guard=on* ]]; then said=guarded; fi
    for name in "${programs[@]}"; do
        count "$name-$said" env GLEANER_OPTIONS="arrays=$cut,verify=edges" "$out/$name-c++"
    done
    count "stress-$said" env GLEANER_OPTIONS="arrays=$cut,verify=edges,stress=3" CASES="in all ways" \
        "$out/elements-c++"
done
# Nothing slides while something is pinned, whatever the old generation does otherwise.
for old in mark-sweep mark-region; do
    count "pins-$old" env GLEANER_OPTIONS="old=$old,stress=50" "$out/pins-c++"
done
# Objects of eden have guards behind them.
count roots-quarantine env GLEANER_OPTIONS=quarantine=4,stress=50 "$out/roots-c++"
known() { # known NAME MACRO... : what the code is compiled for; and the environment of a heap that fits
    local name=$1 options=$2 program
    shift 2
    for program in embed elements arrays array_heaps; do
        gcc -std=gnu11 "${flags[@]}" "$@" "tests/capi/$program.c" -o "$out/$program-$name" "${static[@]}"
        count "$program-$name" env GLEANER_OPTIONS="$options" "$out/$program-$name"
    done
}
# What the header refuses to be compiled with.
for macros in "-DGLEANER_ARRAYS_WHOLE -DGLEANER_FIRST_N=64" -DGLEANER_FIRST_N=100 -DGLEANER_FIRST_N=32 \
    -DGLEANER_FIRST_N=524288; do
    # shellcheck disable=SC2086
    if said=$(gcc -std=gnu11 "${flags[@]}" $macros -fsyntax-only tests/capi/embed.c 2>&1) ||
        [[ $said != *"#error"*GLEANER_FIRST_N* ]]; then
        report FAILED "the header refuses $macros"
    else
        report ok "the header refuses $macros"
    fi
done
known debug verify=edges -DGLEANER_DEBUG
known whole verify=edges -DGLEANER_ARRAYS_WHOLE
known whole-debug verify=edges -DGLEANER_ARRAYS_WHOLE -DGLEANER_DEBUG
known first-n "" -DGLEANER_FIRST_N=64
known first-n-debug "" -DGLEANER_FIRST_N=4096 -DGLEANER_DEBUG

# The environment of a program with more rights than its user. Static: the loader ignores LD_LIBRARY_PATH there.
gcc -std=gnu11 "${flags[@]}" tests/capi/secure.c -o "$out/secure" "${static[@]}"
environment() { # environment NAME EXPECTED COMMAND...
    local name=$1 expected=$2 said
    shift 2
    said=$(GLEANER_OPTIONS=no-such-option=1 "$@" 2>&1 || true)
    if [ "$said" = "$expected" ]; then
        report ok "$name"
    elif [[ $expected == distrusted:* && $said != distrusted:* ]]; then
        echo "skipped: $name: the system started it as '$said'"
    else
        report FAILED "$name: '$said'"
    fi
}
environment "a program's environment counts, unless it is ignored" "trusted: obeyed ignored" "$out/secure"
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    raised=$(mktemp -d)
    chmod 755 "$raised"
    nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    install -m 4755 "$out/secure" "$raised/setuid"
    environment "a setuid program ignores it" "distrusted: ignored ignored" "${nobody[@]}" "$raised/setuid"
    if command -v setcap >/dev/null; then
        install -m 755 "$out/secure" "$raised/capable"
        setcap cap_net_raw+ep "$raised/capable"
        environment "a program with capabilities ignores it" "distrusted: ignored ignored" \
            "${nobody[@]}" "$raised/capable"
    else
        echo "skipped: a program with capabilities: there is no setcap"
    fi
    environment "the same by nobody, without more rights" "trusted: obeyed ignored" "${nobody[@]}" \
        "$(install -m 755 "$out/secure" "$raised/plain" && echo "$raised/plain")"
    rm -r "$raised"
else
    echo "skipped: a setuid program: it takes root, and setpriv, to make one and to run it as somebody else"
fi

# As one links who cares for size: without what is not used.
gcc -std=gnu11 "${flags[@]}" -Wl,--gc-sections examples/lisp.c -o "$out/lisp" "${static[@]}"
for setup in "" "--compressed" "--stress" "--stress --compressed"; do
    # shellcheck disable=SC2086
    if "$out/lisp" $setup examples/demo.lisp 2>&1 | diff - examples/demo.expected; then
        report ok "examples/lisp.c $setup"
    else
        report FAILED "examples/lisp.c $setup"
    fi
done
said=$(echo '(car 1)' | "$out/lisp" 2>&1 || true)
if [[ $said == *"car of what is no pair"* ]]; then
    report ok "examples/lisp.c names an error"
else
    report FAILED "examples/lisp.c names an error"
fi

# What ends with its heap freed, as tools see it that look for lost memory.
gcc -std=gnu11 "${flags[@]}" -g examples/hello.c -o "$out/hello" "${static[@]}"
if valgrind --quiet --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=9 "$out/hello" >"$out/hello.log" 2>&1; then
    report ok "examples/hello.c loses no memory"
else
    cat "$out/hello.log"
    report FAILED "examples/hello.c loses no memory"
fi

# A runtime whose roots nobody lists: what lives is found on its stack, and in registers.
for level in -O0 -O2 "-O3 -fomit-frame-pointer"; do
    # shellcheck disable=SC2086
    gcc -std=gnu11 "${flags[@]}" $level examples/native_stack.c -o "$out/native_stack" "${static[@]}"
    for options in "" old=mark-sweep,stress=40,verify=edges,poison=on old=mark-region,stress=7,verify=edges,poison=on \
        generations=never stress=3,poison=on; do
        name="examples/native_stack.c with $level and $options"
        if GLEANER_OPTIONS=$options "$out/native_stack" 2>&1 | diff - examples/native_stack.expected; then
            report ok "$name"
        else
            report FAILED "$name"
        fi
    done
done
said=$(GLEANER_OPTIONS=quarantine=2 "$out/native_stack" 2>&1 || true)
if [[ $said == "native_stack: under quarantine "* ]]; then
    report ok "examples/native_stack.c is refused under quarantine"
else
    report FAILED "examples/native_stack.c is refused under quarantine: $said"
fi

# The Scheme: each program prints the same as with the one in Rust (crates/gleaner/tests/examples.rs).
programs=examples/scheme/programs
gcc -std=gnu11 "${flags[@]}" examples/scheme/*.c -o "$out/scheme" "${static[@]}"
gcc -std=gnu11 "${flags[@]}" -DGLEANER_DEBUG examples/scheme/*.c -o "$out/scheme-debug" "${static[@]}"
scheme() { # scheme BINARY SIZE OPTIONS PROGRAM... : a size is what says how much the programs do
    local binary=$1 size=$2 options=$3 program
    shift 3
    for program; do
        if GLEANER_OPTIONS=$options "$out/$binary" $programs/{prelude,"$size","$program"}.scm 2>&1 |
            diff - "$programs/$program.expected"; then
            report ok "$binary runs $program with $options"
        else
            report FAILED "$binary runs $program with $options"
        fi
    done
}
fills=(deep) # fills the heap, which makes each collection long
others=(queens tak strings loop weak threads errors)
scheme scheme large heap-limit=8m "${fills[@]}" "${others[@]}"
cut=heap-limit=2m,refs=compressed,arrays=zray,first-n=64,arraylet=256,verify=edges,poison=on
for binary in scheme scheme-debug; do
    scheme $binary small $cut,stress=20000 "${fills[@]}"
    scheme $binary small $cut,stress=100 "${others[@]}"
done
scheme scheme small heap-limit=4m,verify=edges,poison=on,quarantine=8,stress=1 strings weak errors
said=$("$out/scheme" $programs/{prelude,uncaught}.scm 2>&1 || echo "it ends with $?")
if [ "$said" = $'before\nscheme: car of what is no pair\nit ends with 1' ]; then
    report ok "the Scheme ends with an error that nobody handles"
else
    report FAILED "the Scheme ends with an error that nobody handles: $said"
fi

if [ -n "$until_failure" ]; then
    summary
    exit
fi

strip -o "$out/lisp-stripped" "$out/lisp"
if [ "$(stat -c %s "$out/lisp-stripped")" -lt $((27 << 16)) ]; then
    report ok "an embedder is smaller than 1.6875 MiB"
else
    report FAILED "an embedder is smaller than 1.6875 MiB"
fi

# The verdict of a command.
verdict() { # verdict NAME COMMAND...
    local name=$1
    shift
    if "$@"; then report ok "$name"; else report FAILED "$name"; fi
}

# As a package is made: into a directory of its own, under a prefix that is not there yet.
dest=$PWD/$out/dest prefix=/opt/gleaner
rm -rf "$dest"
make --no-print-directory install DESTDIR="$dest" PREFIX=$prefix >"$out/install.log"
export PKG_CONFIG_PATH=$dest$prefix/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest
read -r -a shared <<<"$(pkg-config --cflags --libs gleaner)"
read -r -a archive <<<"$(pkg-config --static --cflags --libs gleaner | sed 's/-lgleaner/-l:libgleaner.a/')"
gcc -std=gnu11 -O2 examples/lisp.c -o "$out/lisp-shared" "${shared[@]}"
gcc -std=gnu11 -O2 examples/lisp.c -o "$out/lisp-static" "${archive[@]}"
same() { env LD_LIBRARY_PATH="$2" "$1" examples/demo.lisp 2>&1 | diff - examples/demo.expected; }
needs() { readelf -d "$1" | grep -q "NEEDED.*\[${soname//./\\.}\]"; }
needs_not() { ! needs "$1"; }
prints() { [ "$(env -u PKG_CONFIG_SYSROOT_DIR pkg-config "--$1" gleaner)" = "$2" ]; }
verdict "installed: the shared library" same "$out/lisp-shared" "$dest$prefix/lib"
verdict "installed: it is needed by its soname" needs "$out/lisp-shared"
verdict "installed: the static library" same "$out/lisp-static" ""
verdict "installed: which needs no other" needs_not "$out/lisp-static"
verdict "installed: pkg-config knows the prefix" prints variable=prefix $prefix
verdict "installed: pkg-config knows the version" \
    prints modversion "$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"
make --no-print-directory uninstall DESTDIR="$dest" PREFIX=$prefix >>"$out/install.log"
# As docs/embedding.md says, under a prefix that the loader does not know.
home=$PWD/$out/home
rm -rf "$home"
make --no-print-directory install PREFIX="$home" >>"$out/install.log"
recipe=$(sed -n 's/^gcc lisp\.c -o lisp \(.*\)$/\1/p' docs/embedding.md)
guide() { # guide: builds the example as the guide does, and runs it
    env -u PKG_CONFIG_SYSROOT_DIR -u LD_LIBRARY_PATH PKG_CONFIG_PATH="$home/lib/pkgconfig" bash -c \
        "gcc examples/lisp.c -o $out/lisp-guide $recipe && $out/lisp-guide examples/demo.lisp" 2>&1 |
        diff - examples/demo.expected
}
verdict "installed: the guide's recipe runs" guide
make --no-print-directory uninstall PREFIX="$home" >>"$out/install.log"
left() { [ ! -e "$dest$prefix" ] && [ ! -e "$home" ]; }
verdict "uninstalled: nothing is left" left
summary
