#!/usr/bin/env bash
# What is built here, on other Debians with their own programs: each client of gleaner-bench and each case below must say
# what it says on that system's own libgc.
#
#   tests/distros/run.sh [--fresh] [--only CLIENT]... [SYSTEM...]
#
#   --fresh   make the systems anew
#   --only    these clients alone, and no case
#   SYSTEM    names of Debian's releases (default: trixie unstable)
#
# The systems lie in target/distros, made by debootstrap from the mirror that apt uses here, once; that, and entering them,
# needs root. Of a program that a release does not have it is said that it is left out. The last line is "N passed, N failed".

set -euo pipefail
cd "$(dirname "$0")/../.."
systems=() only=() fresh=''
. tests/arguments.sh
while [ $# -gt 0 ]; do
    case $1 in
    --fresh) fresh=1; shift ;;
    --only) value $# "$1"; only+=(--only "$2"); shift 2 ;;
    --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    *) systems+=("$1"); shift ;;
    esac
done
[ ${#systems[@]} -gt 0 ] || systems=(trixie unstable)
[ "$(id -u)" = 0 ] || { echo "run.sh: it makes and enters other systems: run it as root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "run.sh: debootstrap is needed: scripts/install-packages.sh distros" >&2; exit 2; }

. tests/debian/cases.sh
# What each release must have, and what it may have.
MUST="gcc libc6-dev libgc-dev python3 guile-3.0 guile-3.0-dev nix-bin ecl w3m crystal libssl-dev zlib1g-dev guile-fibers"
MAY="neko poke nim lilypond autogen make-guile weechat-headless weechat-guile lepton-eda chase fauhdlc goo mmv parser3-cgi inkscape"
CASES="$ELSEWHERE autogen lepton-netlist weechat chase fauhdlc goo mmv parser3 inkscape"

mirror=$(apt-get --print-uris download base-files 2>/dev/null | sed -n "s/^'\(.*\)\/pool\/.*/\1/p" | head -n 1)
mounted=()
leave() {
    local place
    for place in "${mounted[@]}"; do umount "$place" || true; done
    mounted=()
}
trap leave EXIT

enter() { # enter ROOT COMMAND...
    local root=$1
    shift
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/tmp chroot "$root" "$@" </dev/null
}

# A release with the packages above, in a directory.
made() { # made SYSTEM ROOT
    local system=$1 root=$2 have
    [ -z "$fresh" ] || rm -rf --one-file-system "$root"
    if [ ! -e "$root/made" ]; then
        rm -rf --one-file-system "$root"
        mkdir -p "$root"
        echo "$system is made from the mirror of apt" >&2
        debootstrap --variant=minbase "$system" "$root" "$mirror" >"$root.log" 2>&1 || { tail -n 5 "$root.log" >&2; return 1; }
    fi
    cp /etc/resolv.conf "$root/etc/"
    cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
    for place in proc dev; do
        mount --bind "/$place" "$root/$place"
        mounted=("$root/$place" "${mounted[@]}")
    done
    if [ "$(cat "$root/made" 2>/dev/null)" != "$MUST $MAY" ]; then
        enter "$root" apt-get -q -o Acquire::Check-Valid-Until=false update >>"$root.log" 2>&1
        have=$(for package in $MAY; do enter "$root" apt-cache show "$package" >/dev/null 2>&1 && echo "$package"; done)
        # shellcheck disable=SC2086
        enter "$root" apt-get -q -y --no-install-recommends install $MUST $have >>"$root.log" 2>&1 || { tail -n 5 "$root.log" >&2; return 1; }
        echo "$MUST $MAY" >"$root/made"
    fi
}

# The tree as far as the tests need it, at the same place inside.
copied() { # copied ROOT
    local inside=$1$PWD
    rm -rf "$inside"
    mkdir -p "$inside/target/release"
    tar -c benchmarks clients scripts tests/arguments.sh tests/debian crates/bench | tar -x -C "$inside"
    install target/release/gleaner target/release/gleaner-bench target/release/libgc.so "$inside/target/release"
}

passed=0 failed=0
count() { # count TEXT: its tally
    local tally
    tally=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' <<<"$1" | tail -n 1 || true)
    [ -n "$tally" ] || { failed=$((failed + 1)); return; }
    passed=$((passed + ${tally%% passed*}))
    tally=${tally##*, }
    failed=$((failed + ${tally%% failed}))
}

for system in "${systems[@]}"; do
    root=$PWD/target/distros/$system
    if ! made "$system" "$root"; then
        failed=$((failed + 1))
        echo "FAILED: $system could not be made: see $root.log"
        leave
        continue
    fi
    copied "$root"
    echo "== $system: $(enter "$root" dpkg-query -W -f '${Package} ${Version}  ' libc6 libgc1 guile-3.0 nix-bin crystal)"
    said=$(enter "$root" "$PWD/target/release/gleaner-bench" clients --size ci "${only[@]}" 2>&1 || true)
    echo "$said"
    count "$said"
    if [ ${#only[@]} -eq 0 ]; then
        here=()
        for name in $CASES; do
            if enter "$root" dpkg-query -W "$(needs "$name")" >/dev/null 2>&1; then here+=("$name"); else echo "left out: $name"; fi
        done
        said=$(enter "$root" "$PWD/tests/debian/run.sh" --quiet --opt "" --opt generations=incremental "${here[@]}" 2>&1 || true)
        echo "$said"
        count "$said"
    fi
    leave
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
