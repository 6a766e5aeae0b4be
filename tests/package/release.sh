#!/usr/bin/env bash
# What `make release` makes: twice, in this tree and in a copy of it in another folder, with another directory of cargo's, other rights
# of fresh files, another language, another time zone and another year, with the same bytes; what is in it; and how it fares on fresh
# Debians.
#
#   tests/package/release.sh CARGO_CYCLONEDX [--once]
#
# The tool is that of `make release`. --once looks only at what is there from the last `make release` of this tree. A build takes
# minutes. Without root, other Debians are left out. The last line is "N passed, N failed".

set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 1 ] || [ "${2:-}" = --once ] || { echo "usage: $0 CARGO_CYCLONEDX [--once]" >&2; exit 2; }
. tests/package/checks.sh
cyclonedx=$(realpath "$1")
once=${2:-}
dist=$PWD/target/dist
out=$PWD/target/release-test
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
folder=gleaner-$version-x86_64-linux
unset GLEANER_OPTIONS GLEANER_LIBGC LD_PRELOAD LD_LIBRARY_PATH
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
rm -rf "$out"
mkdir -p "$out"

if [ -z "$once" ]; then
    check "a release is made" scripts/release.sh "$cyclonedx"
    copy=$out/in/another/folder
    mkdir -p "$copy"
    git ls-files -z | tar --null --files-from=- --create | tar --extract --directory "$copy"
    # Under another clock the compiler itself hangs, and certificates are void: it gets the machine's, and cargo what is fetched already.
    elsewhere() {
        mkdir -p "$out/cargo/registry" "$out/clock"
        ln -s "${CARGO_HOME:-$HOME/.cargo}"/registry/{index,cache} "$out/cargo/registry"
        printf '#!/bin/sh\nunset LD_PRELOAD\nexec "%s/bin/rustc" "$@"\n' "$(rustc --print sysroot)" >"$out/clock/rustc"
        chmod +x "$out/clock/rustc"
        (umask 077 && CARGO_HOME=$out/cargo CARGO_NET_OFFLINE=true LANG=de_DE.UTF-8 TZ=Asia/Tokyo PATH=$out/clock:$PATH \
            RUSTC=$out/clock/rustc NO_FAKE_STAT=1 faketime -f +400d "$copy/scripts/release.sh" "$cyclonedx")
    }
    check "and in another folder" elsewhere
    check "both are the same, byte for byte" diff "$dist/SHA256SUMS" "$copy/target/dist/SHA256SUMS"
fi

sums() { (cd "$dist" && sha256sum --quiet --strict --check SHA256SUMS); }
check "the sums are right" sums
wanted="SHA256SUMS build gleaner-$version-licences.txt gleaner-capi-$version.cdx.json gleaner-cli-$version.cdx.json
gleaner-libgc-$version.cdx.json gleaner_${version}_amd64.deb gleaner_${version}_arm64.deb
$(printf "gleaner-$version-%s.tar.xz " {x86_64,aarch64}-linux{,-debug})"
check "these files, and no others" is "$(cd "$dist" && printf '%s\n' * | sort | xargs)" "$(xargs -n 1 <<<"$wanted" | sort | xargs)"

# The times of files in all archives and packages, each once, as seconds since 1970.
times() {
    { for archive in "$dist"/*.tar.xz; do tar --list --verbose --utc --full-time --file "$archive"; done
      for package in "$dist"/*.deb; do dpkg-deb --fsys-tarfile "$package" | tar --list --verbose --utc --full-time; done; } |
        awk '{ print $4 " " $5 " UTC" }' | sort -u | date --file=- +%s
}
# A release that was made before has that of its own commit, which its bills have, too.
if [ -n "$once" ]; then
    SOURCE_DATE_EPOCH=$(date --date "$(sed -n 's/^ *"timestamp": "\(.*\)".*/\1/p' "$dist/gleaner-cli-$version.cdx.json")" +%s)
fi
check "all files have the time of the commit" is "$(times)" "$SOURCE_DATE_EPOCH"

for archive in "$dist"/*.tar.xz; do tar --extract --directory "$out" --file "$archive"; done
there=$out/$folder
check "the command runs where it was unpacked" is "$("$there/bin/gleaner" --version)" "gleaner $version"
check "... and finds its library" has "$("$there/bin/gleaner" exec --dry-run -- guile)" "$there/lib/gleaner/libgc.so.1"
check "a program runs on it" is "$("$there/bin/gleaner" exec -- guile --no-auto-compile -c '(display (length (iota 9)))')" 9
embeds() {
    local flags
    flags=$(PKG_CONFIG_PATH=$there/lib/pkgconfig pkg-config --cflags --libs gleaner) || return 1
    # shellcheck disable=SC2086
    gcc examples/hello.c -o "$out/hello" $flags -Wl,-rpath,"$there/lib" && is "$("$out/hello")" "hello from the heap"
}
check "an embedder finds header and library by pkg-config" embeds

# What people read who have no sources.
links_lead_somewhere() {
    is "$(PYTHONPATH=scripts python3 - "$there/share/doc/gleaner" <<'END'
import pathlib, sys
import check_pages
root = pathlib.Path(sys.argv[1])
pages = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.md")}
print(*(problem for page, text in pages.items()
        for problem in check_pages.link_problems(page, text, lambda path: (root / path).exists(), pages.get)))
END
)" ""
}
check "the links of its pages lead somewhere" links_lead_somewhere
check "its first page names its version" has "$(head -n 1 "$there/README.md")" "Gleaner $version"
for page in README.md CHANGELOG.md docs/install.md docs/options.md docs/placement.md docs/run.md; do
    check "it brings $page" test -s "$there/share/doc/gleaner/$page"
done

. tests/package/user.sh

# --- both archives ---------------------------------------------------------------

# Bytes, of what people download and what is mapped into each process.
at_most() { [ "$(stat --format %s "$1")" -le "$2" ] || { stat --format '%n has %s bytes' "$1"; return 1; }; }
has_no_path() { is "$(grep -lrF -e "$PWD" -e "${CARGO_HOME:-$HOME/.cargo}" -e "$(rustc --print sysroot)" "$@")" ""; }
stripped() { is "$(readelf --sections --wide "$@" | grep -oE ' \.(debug_info|debug_line|symtab)\b')" ""; }
build_id() { readelf --notes "$1" | sed -n 's/.*Build ID: //p'; }
apart() { # apart DIRECTORY BINARY... : each has a file with its lines
    local file id lines debug=$1
    shift
    for file; do
        id=$(build_id "$file")
        lines=$debug/.build-id/${id:0:2}/${id:2}.debug
        is "$(build_id "$lines")" "$id" && has "$(readelf --sections --wide "$lines")" " .debug_line" || return 1
    done
    is "$(find "$debug" -name '*.debug' | wc -l)" "$#"
}
built_for() { # built_for NAME BINARY...
    local name=$1
    shift
    is "$(readelf --file-header "$@" | sed -n 's/^ *Machine: *//p' | sort -u)" "$name"
}
same_files() { diff <(cd "$there" && find . | sort) <(cd "$1" && find . | sort); }
same_binaries() { # same_binaries ROOT BINARY...
    local file root=$1
    shift
    for file; do cmp "$file" "$root/${file#"$files/"}" || return 1; done
}
# The machine, how Debian and readelf call it, and the most bytes of the command and of libgc.so.1.
while read -r machine architecture name command library; do
    files=$out/gleaner-$version-$machine-linux
    binaries=("$files/bin/gleaner" "$files/lib/gleaner/libgc.so.1" "$files"/lib/libgleaner.so.*.*)
    check "$machine: the binaries are for it" built_for "${name//_/ }" "${binaries[@]}"
    check "$machine: the same files" same_files "$files"
    check "$machine: the command has $command bytes at most" at_most "$files/bin/gleaner" "$command"
    check "$machine: libgc.so.1 has $library bytes at most" at_most "$files/lib/gleaner/libgc.so.1" "$library"
    dpkg-deb --extract "$dist/gleaner_${version}_$architecture.deb" "$out/$architecture"
    check "$machine: no file names a directory of this machine" has_no_path "$files" "$files-debug" "$out/$architecture"
    check "$machine: the package has the binaries of the archive" same_binaries "$out/$architecture/usr" "${binaries[@]}"
    check "$machine: the binaries are stripped" stripped "${binaries[@]}"
    check "$machine: what debuggers read lies apart, by build id" apart "$files-debug" "${binaries[@]}"
done <<END
x86_64 amd64 Advanced_Micro_Devices_X86-64 2500000 1000000
aarch64 arm64 AArch64 2500000 1000000
END

# --- bills and licences -----------------------------------------------------------

materials() { # materials PART CRATE... : the crates are listed, and Gleaner's own with the right version
    python3 - "$dist/gleaner-$1-$version.cdx.json" "$version" "${@:2}" <<'END'
import json, sys
path, version, *wanted = sys.argv[1:]
bom = json.load(open(path, encoding="utf-8"))
assert bom["bomFormat"] == "CycloneDX" and bom["metadata"]["component"]["version"] == version, bom["metadata"]
there = {part["name"] for part in bom["components"]}
assert there >= set(wanted), set(wanted) - there
assert all(part.get("licenses") for part in bom["components"]), [part["name"] for part in bom["components"] if not part.get("licenses")]
END
}
check "the bill of the command" materials cli clap gleaner-place plotters
check "the bill of libgc" materials libgc libc gleaner-plans
check "the bill of libgleaner" materials capi libc gleaner
no_path_in_bills() { is "$(grep -lF "$PWD" "$dist"/*.json)" ""; }
check "no bill names a directory of this machine" no_path_in_bills
licences() { has "$(cat "$dist/gleaner-$version-licences.txt")" "the standard library of Rust" "  clap " "Permission is hereby granted"; }
check "the licences" licences

. tests/package/systems.sh

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
