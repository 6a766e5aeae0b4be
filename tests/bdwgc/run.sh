#!/usr/bin/env bash
# The tests that bdwgc has for itself, on Gleaner's library.
#
#   tests/bdwgc/run.sh [--lib LIBGC] [--opt OPTIONS]... [--quiet] [TEST...]
#
#   --lib LIBGC    the libgc.so.1 to run on (default: the system's)
#   --opt OPTIONS  one more round, with GLEANER_OPTIONS set to this; without any, one round with the defaults
#   --quiet        print failures and the summary only
#   TEST           names of programs (default: all sixteen)
#
# The source package of the installed libgc comes by apt, with a list of sources and a cache of our own, into
# target/bdwgc; it is fetched once. Nothing of it is part of this project. The programs are compiled against its
# headers, private ones included, and linked with the library under test. The last line is "N passed, N failed".

set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD
out=$here/target/bdwgc
lib='' quiet=''
rounds=()
. tests/arguments.sh
while [ $# -gt 0 ]; do
    case $1 in
    --lib) value $# "$1"; lib=$(libgc "$2") || exit 2; shift 2 ;;
    --opt) value $# "$1"; rounds+=("$2"); shift 2 ;;
    --quiet) quiet=1; shift ;;
    --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
    esac
done
[ ${#rounds[@]} -gt 0 ] || rounds=("")

die() {
    echo "run.sh: $*" >&2
    echo "0 passed, 1 failed"
    exit 1
}

# --- the source ----------------------------------------------------------------

version=$(dpkg-query -W -f '${source:Version}' libgc1 2>/dev/null) ||
    die "libgc1 is not installed: scripts/install-packages.sh build"
upstream=${version#*:}
upstream=${upstream%-*}
source=$out/source-$upstream

# The system's own list need not name sources, and is not changed.
fetch() {
    local apt=$out/apt options
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/empty"
    apt-get indextargets --format 'deb-src $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        sort -u >"$apt/sources.list"
    options=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o "Dir::Etc::sourceparts=$apt/empty"
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=root")
    apt-get "${options[@]}" --quiet=2 update || return 1
    (cd "$out" && apt-get "${options[@]}" --quiet=2 source --download-only "libgc=$version") || return 1
    rm -rf "$source.new"
    mkdir "$source.new"
    tar -xf "$out"/libgc_"$upstream".orig.tar.* -C "$source.new" --strip-components=1 || return 1
    mv "$source.new" "$source"
}

if [ ! -d "$source" ]; then
    mkdir -p "$out"
    fetch >"$out/fetch.log" 2>&1 || {
        tail -n 5 "$out/fetch.log" >&2
        die "the source package libgc $version cannot be fetched (no network?); the log is $out/fetch.log"
    }
fi

# --- the programs ----------------------------------------------------------------

libs=$out/lib
mkdir -p "$libs" "$out/build"
[ -n "$lib" ] || lib=$(realpath /usr/lib/*/libgc.so.1 | head -n 1)
ln -sf "$lib" "$libs/libgc.so.1"
ln -sf libgc.so.1 "$libs/libgc.so"
# What Debian configures the library with, as far as the tests ask.
flags=(-O2 -w -I"$source/include" -L"$libs"
    -DGC_THREADS -D_REENTRANT -DTHREAD_LOCAL_ALLOC -DPARALLEL_MARK -DALL_INTERIOR_POINTERS
    -DENABLE_DISCLAIM -DGC_ATOMIC_UNCOLLECTABLE -DGC_GCJ_SUPPORT -DJAVA_FINALIZATION -DHANDLE_FORK
    -DGC_BUILTIN_ATOMIC -DUSE_MMAP -DUSE_MUNMAP -DNO_EXECUTE_PERMISSION)
programs=(test leak_test middle smash_test huge_test realloc_test staticrootstest test_atomic_ops
    thread_leak_test threadkey_test subthread_create initsecondarythread test_cpp disclaim_test
    disclaim_bench disclaim_weakmap_test)

compile() { # compile PROGRAM
    local tests=$source/tests
    cd "$out/build"
    case $1 in
    test_cpp) c++ "${flags[@]}" -o "$1" "$tests/$1.cc" -lgccpp -lgc -lpthread ;;
    staticrootstest)
        cc "${flags[@]}" -fPIC -shared -o libstaticrootslib.so "$tests/staticrootslib.c" -lgc
        cc "${flags[@]}" -DSTATICROOTSLIB2 -fPIC -shared -o libstaticrootslib2.so "$tests/staticrootslib.c" -lgc
        cc "${flags[@]}" -DSTATICROOTSLIB2 -o "$1" "$tests/$1.c" -L. -lstaticrootslib -lstaticrootslib2 -lgc
        ;;
    *) cc "${flags[@]}" -o "$1" "$tests/$1.c" -lgc -lpthread ;;
    esac
}

# One that cannot be linked with the library under test must not run as it was linked before.
for program in "${programs[@]}"; do
    rm -f "$out/build/$program"
    (compile "$program") >"$out/build/$program.build" 2>&1 || cat "$out/build/$program.build" >&2
done

# --- the runs ----------------------------------------------------------------------

[ $# -gt 0 ] || set -- "${programs[@]}"
passed=0 failed=0
for options in "${rounds[@]}"; do
    for program in "$@"; do
        log=$out/build/$program.log
        status=0
        (
            cd "$out/build"
            export LD_LIBRARY_PATH=$libs:$out/build
            if [ -n "$options" ]; then export GLEANER_OPTIONS=$options; fi
            # Only against hangs: no test fails by a time.
            exec timeout -k 10 "${BDWGC_WATCHDOG:-3000}" "./$program"
        ) >"$log" 2>&1 || status=$?
        if [ "$status" -eq 0 ]; then
            passed=$((passed + 1))
            [ -n "$quiet" ] || echo "ok: $program ${options:-with the defaults}"
        else
            failed=$((failed + 1))
            echo "FAILED: $program ${options:-with the defaults}: status $status"
            tail -n 8 "$log" | sed 's/^/    /'
        fi
    done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
