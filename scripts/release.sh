#!/usr/bin/env bash
# Make what a release consists of, in target/dist:
#
#   gleaner-VERSION-x86_64-linux.tar.xz        what `make install` installs, stripped, to be unpacked anywhere
#   gleaner-VERSION-x86_64-linux-debug.tar.xz  what only debuggers read, by build id
#   gleaner_VERSION_amd64.deb                  the package for Debian 12
#   gleaner-PART-VERSION.cdx.json              the crates in the command (cli) and the libraries (libgc, capi): CycloneDX
#   gleaner-VERSION-licences.txt               their licences
#   SHA256SUMS                                 of all these
#
#   scripts/release.sh CARGO_CYCLONEDX         the tool that lists the crates, as `make release` installs it
#
# The build is one of its own, in target/dist/build, in which no path of this machine stands. The same commit and the same
# compiler give the same bytes wherever the tree lies; times are SOURCE_DATE_EPOCH, or that of the last commit.

set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C

die() { echo "release: $*" >&2; exit 1; }
[ $# -eq 1 ] && [ -x "$1" ] || die "usage: $0 CARGO_CYCLONEDX; make release installs that"
cyclonedx=$(realpath "$1")
for tool in xz:xz-utils objcopy:binutils readelf:binutils python3:python3; do
    command -v "${tool%%:*}" >/dev/null || die "${tool%%:*} is missing: install Debian's package ${tool##*:}"
done

here=$PWD
out=$here/target/dist
export CARGO_TARGET_DIR=$out/build
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
name=gleaner-$version-x86_64-linux
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
find "$out" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} + 2>/dev/null || true
mkdir -p "$out"

# Paths stand in messages and in debug information: those of this tree, of other crates, and of the standard library.
cargo fetch --locked --quiet
sysroot=$(rustc --print sysroot)
RUSTFLAGS="--remap-path-prefix=$here=/gleaner"
RUSTFLAGS+=" --remap-path-prefix=$sysroot/lib/rustlib/src/rust=/rustc/$(rustc -vV | sed -n 's/^commit-hash: //p')"
CFLAGS="-ffile-prefix-map=$here=/gleaner"
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
    RUSTFLAGS+=" --remap-path-prefix=$registry=/crates"
    # Some crates have a file in C.
    CFLAGS+=" -ffile-prefix-map=$registry=/crates"
done
export RUSTFLAGS CFLAGS
cargo build --locked --release -p gleaner-cli -p gleaner-libgc -p gleaner-capi
# Text, for which any build of these definitions will do: that of the tests.
pages=$out/pages
env -u RUSTFLAGS CARGO_TARGET_DIR="$here/target" cargo run --locked --quiet -p gleaner-cli --example pages -- "$pages"
# `make install` takes these, also as scripts/package-debian.sh calls it.
export MAKEFLAGS="--no-print-directory BUILD=$CARGO_TARGET_DIR/release PAGES=$pages"

# --- what is unpacked anywhere -------------------------------------------------

root=$out/$name
debug=$out/$name-debug
make install DESTDIR="$out/installed" PREFIX=/gleaner >"$out/install.log" 2>&1 ||
    die "make install failed: $(tail -n 3 "$out/install.log")"
rm "$out/installed/gleaner/lib/gleaner/directories"
mv "$out/installed/gleaner" "$root"
rmdir "$out/installed"
# pkg-config knows where its file lies.
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$root/lib/pkgconfig/gleaner.pc"

for file in "$root/bin/gleaner" "$root/lib/gleaner/libgc.so.1" "$root"/lib/libgleaner.so.*.*; do
    id=$(readelf --notes "$file" | sed -n 's/.*Build ID: //p')
    [ -n "$id" ] || die "$file has no build id: the linker was not told to write one"
    apart=$debug/.build-id/${id:0:2}/${id:2}.debug
    mkdir -p "$(dirname "$apart")"
    objcopy --only-keep-debug "$file" "$apart"
    strip --strip-unneeded --remove-section=.comment "$file"
done
strip --strip-debug --remove-section=.comment --enable-deterministic-archives "$root/lib/libgleaner.a"

python3 scripts/licences.py >"$out/gleaner-$version-licences.txt"
install -D -m 644 -t "$root/share/doc/gleaner" CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE docs/install.md
install -m 644 "$out/gleaner-$version-licences.txt" "$root/share/doc/gleaner/licences.txt"

pack() { # pack DIRECTORY
    tar --directory "$out" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
        --create "$(basename "$1")" | xz --threads=1 >"$1.tar.xz"
}
pack "$root"
pack "$debug"

# --- what is in it -------------------------------------------------------------

# The tool writes beside each manifest, so it gets a copy of the crates, whose place is not to be read from what it writes.
bom=$out/bom
mkdir -p "$bom"
cp -a Cargo.toml Cargo.lock crates "$bom"
(cd "$bom" && "$cyclonedx" cyclonedx --format json --spec-version 1.5 --target x86_64-unknown-linux-gnu --no-build-deps \
    --override-filename gleaner) >"$out/bom.log" 2>&1 || die "cargo-cyclonedx failed: $(tail -n 3 "$out/bom.log")"
for part in cli libgc capi; do
    sed "s|$bom|/gleaner|g" "$bom/crates/$part/gleaner.json" >"$out/gleaner-$part-$version.cdx.json"
done

# --- the package for Debian ----------------------------------------------------

scripts/package-debian.sh --out "$out/debian" >/dev/null
mv "$out"/debian/*.deb "$out"

rm -rf "$bom" "$out/debian" "$root" "$debug" "$pages" "$out"/*.log
(cd "$out" && sha256sum -- *.tar.xz *.deb *.json *.txt >SHA256SUMS && cat SHA256SUMS)
