#!/usr/bin/env bash
# Make what a release consists of, in target/dist:
#
#   gleaner-VERSION-MACHINE-linux.tar.xz        what `make install` installs, stripped, to be unpacked anywhere
#   gleaner-VERSION-MACHINE-linux-debug.tar.xz  what only debuggers read, by build id
#   gleaner_VERSION_ARCHITECTURE.deb            the package for Debian
#   gleaner-PART-VERSION.cdx.json               the crates in the command (cli) and the libraries (libgc, capi): CycloneDX
#   gleaner-VERSION-licences.txt                their licences
#   SHA256SUMS                                  of all these
#
#   scripts/release.sh CARGO_CYCLONEDX         the tool that lists the crates, as `make release` installs it
#
# MACHINE is x86_64 and aarch64, ARCHITECTURE amd64 and arm64: both are built on x86-64, the other one with the cross compiler.
# The build is one of its own, in target/dist/build, in which no path of this machine stands. The same commit and the same
# compiler give the same bytes wherever the tree lies; times are SOURCE_DATE_EPOCH, or that of the last commit.

set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C

die() { echo "release: $*" >&2; exit 1; }
[ $# -eq 1 ] && [ -x "$1" ] || die "usage: $0 CARGO_CYCLONEDX; make release installs that"
cyclonedx=$(realpath "$1")
[ "$(uname -m)" = x86_64 ] || die "this machine is $(uname -m): releases are built on x86-64, for both processors"
for tool in xz:xz-utils objcopy:binutils readelf:binutils python3:python3 aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu; do
    command -v "${tool%%:*}" >/dev/null || die "${tool%%:*} is missing: install Debian's package ${tool##*:}"
done

here=$PWD
out=$here/target/dist
export CARGO_TARGET_DIR=$out/build
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
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
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
if ! [ -d "$sysroot/lib/rustlib/aarch64-unknown-linux-gnu/lib" ]; then
    rustup target add aarch64-unknown-linux-gnu || die "the standard library for 64-bit Arm is missing: rustup target add aarch64-unknown-linux-gnu"
fi
cargo build --locked --release --target x86_64-unknown-linux-gnu --target aarch64-unknown-linux-gnu \
    -p gleaner-cli -p gleaner-libgc -p gleaner-capi
# Text, by what of that build runs here.
pages=$out/pages
cargo run --locked --quiet --release --target x86_64-unknown-linux-gnu -p gleaner-cli --example pages -- "$pages"
python3 scripts/licences.py >"$out/gleaner-$version-licences.txt"

# --- what is unpacked anywhere, and the package for Debian ----------------------

pack() { # pack DIRECTORY
    tar --directory "$out" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
        --create "$(basename "$1")" | xz --threads=1 >"$1.tar.xz"
}

artefacts() { # artefacts MACHINE ARCHITECTURE
    local root=$out/gleaner-$version-$1-linux tools='' file id apart
    local debug=$root-debug
    [ "$1" = x86_64 ] || tools=$1-linux-gnu-
    # `make install` takes these, also as scripts/package-debian.sh calls it.
    export MAKEFLAGS="--no-print-directory BUILD=$CARGO_TARGET_DIR/$1-unknown-linux-gnu/release PAGES=$pages"
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
        "${tools}objcopy" --only-keep-debug "$file" "$apart"
        "${tools}strip" --strip-unneeded --remove-section=.comment "$file"
    done
    "${tools}strip" --strip-debug --remove-section=.comment --enable-deterministic-archives "$root/lib/libgleaner.a"

    install -D -m 644 -t "$root/share/doc/gleaner" LICENSE-MIT LICENSE-APACHE
    python3 scripts/book.py ship "$root/share/doc/gleaner"
    sed "s/@VERSION@/$version/" packaging/README.md.in >"$root/README.md"
    install -m 644 "$out/gleaner-$version-licences.txt" "$root/share/doc/gleaner/licences.txt"
    pack "$root"
    pack "$debug"

    scripts/package-debian.sh --out "$out/debian" --architecture "$2" >/dev/null
    mv "$out"/debian/*.deb "$out"
    rm -rf "$out/debian" "$root" "$debug"
}
artefacts x86_64 amd64
artefacts aarch64 arm64

# --- what is in it -------------------------------------------------------------

# The tool writes beside each manifest, so it gets a copy of the crates, whose place is not to be read from what it writes. Both
# processors have the same crates: the name of the processor is all that may differ.
bom=$out/bom
mkdir -p "$bom"
cp -a Cargo.toml Cargo.lock crates "$bom"
for machine in x86_64 aarch64; do
    (cd "$bom" && "$cyclonedx" cyclonedx --format json --spec-version 1.5 --target $machine-unknown-linux-gnu --no-build-deps \
        --override-filename $machine) >"$out/bom.log" 2>&1 || die "cargo-cyclonedx failed: $(tail -n 3 "$out/bom.log")"
done
for part in cli libgc capi; do
    for machine in x86_64 aarch64; do
        sed "s|$bom|/gleaner|g" "$bom/crates/$part/$machine.json" >"$bom/$machine.json"
    done
    sed -i 's/aarch64-unknown-linux-gnu/x86_64-unknown-linux-gnu/' "$bom/aarch64.json"
    cmp -s "$bom/aarch64.json" "$bom/x86_64.json" ||
        die "the bills of $part differ between the processors: $(diff "$bom/aarch64.json" "$bom/x86_64.json" | head -n 3)"
    mv "$bom/x86_64.json" "$out/gleaner-$part-$version.cdx.json"
done

rm -rf "$bom" "$pages" "$out"/*.log
(cd "$out" && sha256sum -- *.tar.xz *.deb *.json *.txt >SHA256SUMS && cat SHA256SUMS)
