#!/usr/bin/env bash
# What `make release` makes: twice, in this tree and in a copy of it in another folder, with another directory of cargo's, other rights
# of fresh files, another language and another time zone, with the same bytes; and what is in it.
#
#   tests/package/release.sh CARGO_CYCLONEDX [--once]
#
# The tool is that of `make release`. --once looks only at what is there from the last `make release` of this tree. A build takes
# minutes. The last line is "N passed, N failed".

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
    elsewhere() {
        mkdir -p "$out/cargo/registry"
        ln -s "${CARGO_HOME:-$HOME/.cargo}"/registry/{index,cache} "$out/cargo/registry"
        (umask 077 && CARGO_HOME=$out/cargo LANG=de_DE.UTF-8 TZ=Asia/Tokyo "$copy/scripts/release.sh" "$cyclonedx")
    }
    check "and in another folder" elsewhere
    check "both are the same, byte for byte" diff "$dist/SHA256SUMS" "$copy/target/dist/SHA256SUMS"
fi

sums() { (cd "$dist" && sha256sum --quiet --strict --check SHA256SUMS); }
check "the sums are right" sums
wanted="SHA256SUMS build gleaner-$version-licences.txt $folder-debug.tar.xz $folder.tar.xz gleaner-capi-$version.cdx.json
gleaner-cli-$version.cdx.json gleaner-libgc-$version.cdx.json gleaner_${version}_amd64.deb"
check "these files, and no others" is "$(cd "$dist" && printf '%s\n' * | sort | xargs)" "$(xargs -n 1 <<<"$wanted" | sort | xargs)"

tar --extract --directory "$out" --file "$dist/$folder.tar.xz"
tar --extract --directory "$out" --file "$dist/$folder-debug.tar.xz"
there=$out/$folder
binaries=("$there/bin/gleaner" "$there/lib/gleaner/libgc.so.1" "$there"/lib/libgleaner.so.*.*)
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

# Bytes, of what people download and what is mapped into each process.
at_most() { [ "$(stat --format %s "$1")" -le "$2" ] || { stat --format '%n has %s bytes' "$1"; return 1; }; }
check "the command has 2.5 MB at most" at_most "$there/bin/gleaner" 2500000
check "libgc.so.1 has 1.0 MB at most" at_most "$there/lib/gleaner/libgc.so.1" 1000000

. tests/package/user.sh

has_no_path() { is "$(grep -lrF -e "$PWD" -e "${CARGO_HOME:-$HOME/.cargo}" "$there" "$out/$folder-debug")" ""; }
check "no file names a directory of this machine" has_no_path
stripped() { is "$(readelf --sections --wide "${binaries[@]}" | grep -oE ' \.(debug_info|debug_line|symtab)\b')" ""; }
check "the binaries are stripped" stripped
apart() { # each binary has a file with its lines
    local file id
    for file in "${binaries[@]}"; do
        id=$(readelf --notes "$file" | sed -n 's/.*Build ID: //p')
        has "$(readelf --sections --wide "$out/$folder-debug/.build-id/${id:0:2}/${id:2}.debug")" " .debug_line" || return 1
    done
    is "$(find "$out/$folder-debug" -name '*.debug' | wc -l)" "${#binaries[@]}"
}
check "what debuggers read lies apart, by build id" apart

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

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
