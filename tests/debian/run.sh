#!/usr/bin/env bash
# Programs of Debian's packages that depend on libgc1, on the stock library and on Gleaner's: they must say the same.
#
#   tests/debian/run.sh [--opt OPTIONS]... [--small] [--quiet] [CASE...]
#
#   --opt OPTIONS  one more round, with GLEANER_OPTIONS set to this; without any, one round with the defaults
#   --small        the cases whose packages are small
#   --quiet        print failures and the summary only
#   CASE           names of cases, which cases.sh has (default: all)
#
# The packages must be installed: scripts/install-packages.sh debian, or test for the small ones. Programs that gleaner-bench has among its
# clients (Guile, Nix, ECL, Crystal, Nim, Neko, Poke, LilyPond, Macaulay2, w3m) are not here. The last line is "N passed, N failed".

set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD
out=$here/target/debian
quiet='' small=''
rounds=()
. tests/arguments.sh
while [ $# -gt 0 ]; do
    case $1 in
    --opt) value $# "$1"; rounds+=("$2"); shift 2 ;;
    --small) small=1; shift ;;
    --quiet) quiet=1; shift ;;
    --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
    esac
done
[ ${#rounds[@]} -gt 0 ] || rounds=("")
. tests/debian/cases.sh
known=" $ALL $ELSEWHERE "
# shellcheck disable=SC2086
[ $# -gt 0 ] || { if [ -n "$small" ]; then set -- $SMALL; else set -- $ALL; fi; }
for name in "$@"; do
    [[ $known == *" $name "* ]] || { echo "run.sh: no case '$name'; there are:$known" >&2; exit 2; }
done

# Where both libraries would run the program, files lie in the same place.
attempt() { # attempt NAME RESULT COMMAND...
    local name=$1 result=$2
    shift 2
    rm -rf "$out/$name"
    mkdir -p "$out/$name"
    # In a shell of its own: where a status is asked for, a failing command would not end a case of this one.
    (cd "$out/$name" && exec bash -euo pipefail -c '. "$1/tests/debian/cases.sh"; "run_$2" "${@:3}"' bash "$here" "$name" "$@") \
        >"$result" 2>"$result.errors"
}

# What the program says on the stock library, with which some crash at times: weechat of unstable, which ends its Guile
# beside its threads, does in three of eight runs (and in none of eight on Gleaner's).
expect() { # expect NAME RESULT
    local try
    for try in 1 2 3 4 5; do
        if attempt "$1" "$2" && [ -s "$2" ]; then
            [ "$try" -eq 1 ] || echo "$1 ended at attempt $try on the stock library" >&2
            return 0
        fi
    done
    return 1
}

passed=0 failed=0
for name in "$@"; do
    mkdir -p "$out"
    expected=$out/$name.expected
    if ! dpkg-query -W "$(needs "$name")" >/dev/null 2>&1; then
        failed=$((failed + 1))
        echo "FAILED: $name: the package $(needs "$name") is not installed: scripts/install-packages.sh debian"
        continue
    fi
    if ! expect "$name" "$expected"; then
        failed=$((failed + 1))
        echo "FAILED: $name on the stock library, five times: status not 0 or nothing said"
        tail -n 5 "$expected.errors" | sed 's/^/    /'
        continue
    fi
    for options in "${rounds[@]}"; do
        found=$out/$name.found
        status=0
        GLEANER_OPTIONS=$options attempt "$name" "$found" \
            "$here/target/release/gleaner" exec --any --stats -- || status=$?
        if [ "$(grep -c '^gleaner: statistics of process' "$found.errors")" -lt "$(programs "$name")" ]; then
            failed=$((failed + 1))
            echo "FAILED: $name ${options:-with the defaults}: it did not run on Gleaner's library"
        elif [ "$status" -eq 0 ] && cmp -s "$expected" "$found"; then
            passed=$((passed + 1))
            [ -n "$quiet" ] || echo "ok: $name ${options:-with the defaults}"
        else
            failed=$((failed + 1))
            echo "FAILED: $name ${options:-with the defaults}: status $status"
            { diff "$expected" "$found"; tail -n 5 "$found.errors"; } 2>&1 | head -n 12 | sed 's/^/    /' || true
        fi
    done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
