#!/usr/bin/env bash
# Install the Debian packages that a task needs and that are not there yet.
#
#   scripts/install-packages.sh build   compile Gleaner and its C programs
#   scripts/install-packages.sh demo    ... and run the demo
#   scripts/install-packages.sh lab     ... and measure in the lab
#   scripts/install-packages.sh deb     ... and make the Debian package
#   scripts/install-packages.sh release ... and what is released, also for 64-bit Arm
#   scripts/install-packages.sh test    ... and run every test
#   scripts/install-packages.sh debian  ... and those of tests/debian that are large
#   scripts/install-packages.sh distros make the systems of tests/distros
#   scripts/install-packages.sh arm64   build for 64-bit Arm, and emulate it
#   scripts/install-packages.sh qemu    boot the machines of tests/qemu
#   scripts/install-packages.sh rivals  compile Gleaner and the programs of rivals/
#   scripts/install-packages.sh --dry-run TASK   only say what is missing
#
# Nothing is installed when nothing is missing. Only installing needs root;
# without it sudo is used. The kernel that tests/qemu boots is only unpacked, to
# target/qemu/.

set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "install-packages: $*" >&2; }
die() { say "$@"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

dry_run=false
if [ "${1:-}" = --dry-run ]; then dry_run=true; shift; fi
task=${1:-}
[ $# -le 1 ] || die "one task, please: $*"
case $task in
build | demo | lab | deb | release | test | debian | distros | arm64 | qemu | rivals) ;;
*) die "usage: $0 [--dry-run] build|demo|lab|deb|release|test|debian|distros|arm64|qemu|rivals" ;;
esac

missing=()
# need PACKAGE REASON CHECK...: the package is missing if the check fails.
need() {
    local package=$1 reason=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then
        say "$package is missing ($reason)"
        missing+=("$package")
    fi
}
compiles() { echo "$2" | "$1" -x "$3" -fsyntax-only - ; }
# Go's own packages install it in a place that is not always on the PATH.
runs_go() { go version || /usr/local/go/bin/go version; }
runs_java() { javac -version && java -XX:+UseParallelGC -version; }
has_library() { compgen -G "/usr/lib/*/$1" || compgen -G "/usr/lib/$1"; }

need gcc "the C compiler and linker" has gcc
need libc6-dev "the headers of the C library" test -e /usr/include/stdlib.h
need make "runs the targets" has make
need binutils "nm lists symbols" has nm
need libgc1 "stock libgc, to compare with" has_library libgc.so.1
need libgc-dev "libgc's public headers" test -e /usr/include/gc/gc.h
if [ "$task" = deb ] || [ "$task" = release ] || [ "$task" = test ]; then
    need dpkg-dev "finds what the Debian package depends on" has dpkg-shlibdeps
    need python3 "collects the texts of licences" has python3
    need xz-utils "packs what is released" has xz
fi
if [ "$task" != build ] && [ "$task" != deb ] && [ "$task" != release ] && [ "$task" != qemu ] && [ "$task" != rivals ] && [ "$task" != distros ] && [ "$task" != arm64 ]; then
    need guile-3.0 "runs the Scheme programs" has guile
fi
if [ "$task" = lab ] || [ "$task" = test ] || [ "$task" = debian ]; then
    need python3 "runs the lab" has python3
    need util-linux "ends runs with the lab, pins them" has setpriv
    need python3-venv "keeps the lab's packages apart" python3 -c 'import ensurepip, venv'
fi
if [ "$task" = distros ]; then
    need debootstrap "makes other Debians" has debootstrap
fi
if [ "$task" = arm64 ] || [ "$task" = release ]; then
    need gcc-aarch64-linux-gnu "links for 64-bit Arm" has aarch64-linux-gnu-gcc
    need libc6-dev-arm64-cross "the C library of the cross compiler" test -e /usr/aarch64-linux-gnu/lib/libc.so.6
fi
if [ "$task" = arm64 ]; then
    need g++-aarch64-linux-gnu "tests that throw through callbacks" has aarch64-linux-gnu-g++
    need qemu-user "runs programs for 64-bit Arm" has qemu-aarch64
    need bc "adds up results" has bc
fi
if [ "$task" = rivals ]; then
    need openjdk-17-jdk-headless "a rival: HotSpot" runs_java
    need python3-venv "fetches HotSpot of Java 25" python3 -c 'import ensurepip, venv'
    need golang-go "a rival: Go" runs_go
    need libmimalloc-dev "a rival: mimalloc" has_library libmimalloc.so
    need zlib1g-dev "reads compressed documentation, in C" test -e /usr/include/zlib.h
    need libexpat1-dev "reads XML, in C" test -e /usr/include/expat.h
    need shared-mime-info "an XML document that a workload reads" \
        test -e /usr/share/mime/packages/freedesktop.org.xml
    need python3 "compares the results" python3 -c 'import json, subprocess'
fi
if [ "$task" = test ]; then
    need valgrind "counts instructions" has valgrind
    need faketime "another clock, for a release that is made twice" has faketime
    need libjemalloc2 "another malloc below programs" has_library libjemalloc.so.2
    need libmimalloc2.0 "another malloc below programs" has_library libmimalloc.so.2
    need libtcmalloc-minimal4 "another malloc below programs" has_library libtcmalloc_minimal.so.4
    need man-db "reads the manual pages" has man
    need chromium "opens the lab's reports" has chromium
    need python3 "checks layers and symbols, counts results" \
        python3 -c 'import argparse, collections, json, subprocess'
    need g++ "tests that throw through callbacks" compiles g++ 'int main() { throw 1; }' c++
    need pkgconf "builds the example from what make install leaves" has pkg-config
    need nix-bin "a client: nix-instantiate" has nix-instantiate
    need ecl "a client: Embeddable Common Lisp" has ecl
    need w3m "a client: the text browser" has w3m
    need lilypond "a client: the music typesetter" has lilypond
    need guile-2.2 "a client: the Guile before" has guile-2.2
    need neko "a client: the virtual machine of Neko" has nekoc
    need nim "a client: Nim with Boehm's collector" has nim
    need poke "a client: the editor of binary data" has poke
    need macaulay2 "a client: the algebra system" has M2
    need ghostscript "a client: a program of malloc, with the collector below it" has gs
    need shared-mime-info "an XML document that a workload reads" \
        test -e /usr/share/mime/packages/freedesktop.org.xml
    need crystal "a client: the Crystal compiler and its programs" has crystal
fi

# tests/debian: programs of packages that depend on libgc1.
if [ "$task" = debian ]; then
    need asymptote "draws a picture" has asy
    need inkscape "paints a drawing" has inkscape
    need autogen "fills templates, by Guile" has autogen
    need lepton-eda "reads schematics, by Guile" has lepton-netlist
    need weechat-headless "runs scripts in Guile" has weechat-headless
    need weechat-guile "runs scripts in Guile" has_library weechat/plugins/guile.so
    need debfoster "lists what packages need" has debfoster
    need libapache2-mod-parser3 "a page with a script, in a web server" test -e /usr/lib/apache2/modules/mod_parser3.so
    need mailutils-mh "takes mail in, through a filter in Guile" test -x /usr/bin/mu-mh/inc
fi
if [ "$task" = debian ] || [ "$task" = test ]; then
    need chase "follows links" has chase
    need fauhdlc "compiles VHDL" has fauhdlc
    need goo "a Lisp" has goo
    need mmv "renames files" has mmv
    need parser3-cgi "a page with a script" has parser3
    need stalin "compiles Scheme" has stalin
    need gobjc "compiles Objective-C for libobjc_gc" compiles gcc 'int main(void) { return 0; }' objective-c
    need libhomfly-dev "polynomials of knots" test -e /usr/include/homfly.h
fi

kernel=target/qemu/vmlinuz
lacks_kernel=false
if [ "$task" = qemu ] || [ "$task" = test ]; then
    need qemu-system-x86 "machines with several memory nodes" has qemu-system-x86_64
    need busybox-static "the system on those machines" has busybox
    need cpio "packs that system" has cpio
    need python3 "reads what cargo built" python3 -c 'import json'
    if [ ! -s $kernel ]; then
        say "$kernel is missing (the kernel of those machines)"
        lacks_kernel=true
    fi
fi

# The Rust toolchain is the user's choice, so it is named and not installed.
minimum=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
advice="install a Rust toolchain, $minimum or newer (https://rustup.rs)"
has cargo || die "cargo is missing: $advice"
version=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$minimum" "$version" | sort -V | head -n1)" != "$minimum" ]; then
    die "rustc $version is too old: $advice"
fi
if [ "$task" = test ]; then
    for component in fmt:rustfmt clippy:clippy; do
        cargo "${component%%:*}" --version >/dev/null 2>&1 ||
            die "cargo ${component%%:*} is missing: rustup component add ${component##*:}"
    done
fi

if [ ${#missing[@]} -eq 0 ] && ! $lacks_kernel; then exit 0; fi
has apt-get || die "no apt-get here: install these by hand: ${missing[*]}"
if $dry_run; then exit 1; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    has sudo || die "not root and no sudo: run as root: apt-get install ${missing[*]}"
    as_root=(sudo)
fi
update() { "${as_root[@]}" apt-get update </dev/null >&2; }
install() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --no-install-recommends "${missing[@]}"
}
# Without the modules and the rest of the package.
unpack_kernel() {
    local folder=target/qemu/package package
    rm -rf $folder
    mkdir -p $folder
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-\)/\1/p' | head -n1) &&
        test -n "$package" &&
        (cd $folder && apt-get download "$package") &&
        dpkg-deb --fsys-tarfile $folder/*.deb | tar -x -C $folder --wildcards './boot/vmlinuz-*' &&
        mv $folder/boot/vmlinuz-* $kernel &&
        rm -rf $folder
}
# The package lists may be absent or old: refresh them only if they prove to be.
if [ ${#missing[@]} -gt 0 ]; then
    say "running apt-get install ${missing[*]}"
    install </dev/null >&2 || { update; install </dev/null >&2; }
fi
if $lacks_kernel; then
    say "unpacking the kernel of linux-image-cloud-amd64"
    unpack_kernel </dev/null >&2 || { update; unpack_kernel </dev/null >&2; } ||
        die "no kernel: put vmlinuz of Debian's package linux-image-cloud-amd64 to $kernel"
fi
