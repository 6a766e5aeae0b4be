#!/usr/bin/env bash
# Make the Debian package from what is built.
#
#   scripts/package-debian.sh [--out DIR] [--architecture amd64|arm64]
#
# writes DIR/gleaner_VERSION_ARCHITECTURE.deb. DIR is target/debian unless given, and the architecture this machine's. For another
# one, what `make install` takes has to be built for it, and the cross compiler's binutils strip it.
#
# It needs no root and no network, and the same build of the same commit gives
# the same bytes. What is installed is what `make install PREFIX=/usr` installs,
# without what only debuggers read; packaging/debian has the rest. The time of
# all files is SOURCE_DATE_EPOCH, or that of the last commit.
# DEB_MAINTAINER ("NAME <ADDRESS>") says who answers for the package.

set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C

die() { echo "package-debian: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

out=target/debian
machine=$(dpkg --print-architecture)
architecture=$machine
while [ $# -gt 0 ]; do
    case $1 in
    --out) [ $# -ge 2 ] || die "--out: a directory is wanted, such as --out target/debian"; out=$2 ;;
    --architecture) [ $# -ge 2 ] || die "--architecture: amd64 or arm64 is wanted"; architecture=$2 ;;
    *) die "'$1' is unknown; usage: $0 [--out DIR] [--architecture amd64|arm64]" ;;
    esac
    shift 2
done
case $architecture in
amd64) triplet=x86_64-linux-gnu ;;
arm64) triplet=aarch64-linux-gnu ;;
*) die "the architecture is $architecture: Gleaner runs on amd64 and arm64" ;;
esac
strip=strip
[ "$architecture" = "$machine" ] || strip=$triplet-strip
for tool in dpkg-deb:dpkg dpkg-shlibdeps:dpkg-dev $strip:binutils readelf:binutils gzip:gzip python3:python3; do
    has "${tool%%:*}" || die "${tool%%:*} is missing: install Debian's package ${tool##*:}"
done

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
maintainer=${DEB_MAINTAINER:-The Gleaner authors <gleaner@localhost>}
[[ $maintainer == *" <"*@*">" ]] ||
    die "DEB_MAINTAINER is '$maintainer': a name and an address are wanted, as in NAME <ADDRESS>"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
[[ $SOURCE_DATE_EPOCH =~ ^[0-9]+$ ]] ||
    die "SOURCE_DATE_EPOCH is '$SOURCE_DATE_EPOCH': seconds since 1970 are wanted"
export SOURCE_DATE_EPOCH

# fill FILE NAME=TEXT... : the file with @NAME@ replaced; a text may have several lines.
fill() {
    local text pair
    text=$(cat "$1")
    for pair in "${@:2}"; do
        text=${text//"@${pair%%=*}@"/"${pair#*=}"}
    done
    printf '%s\n' "$text"
}

mkdir -p "$out"
out=$(cd "$out" && pwd)
root=$out/root
own=packaging/debian
rm -rf "$root"
"${MAKE:-make}" --no-print-directory install DESTDIR="$root" PREFIX=/usr >"$out/install.log" 2>&1 ||
    die "make install failed: $(tail -n 3 "$out/install.log")"

# That is for `make uninstall`; dpkg has lists of its own.
rm "$root/usr/lib/gleaner/directories"

# Debian's zsh looks in a directory of its own for what packages bring.
mkdir -p "$root/usr/share/zsh/vendor-completions"
mv "$root"/usr/share/zsh/site-functions/* "$root/usr/share/zsh/vendor-completions"
rmdir "$root/usr/share/zsh/site-functions"

mkdir -p "$root/usr/sbin"
fill $own/gleaner-libgc-divert "TRIPLET=$triplet" >"$root/usr/sbin/gleaner-libgc-divert"
chmod 755 "$root/usr/sbin/gleaner-libgc-divert"
mkdir -p "$root/usr/share/man/man8"
fill $own/gleaner-libgc-divert.8 "VERSION=$version" >"$root/usr/share/man/man8/gleaner-libgc-divert.8"

programs=("$root/usr/bin/gleaner" "$root/usr/lib/gleaner/libgc.so.1" "$root"/usr/lib/libgleaner.so.*.*)
"$strip" --strip-unneeded --remove-section=.comment "${programs[@]}"
"$strip" --strip-debug --remove-section=.comment --enable-deterministic-archives "$root/usr/lib/libgleaner.a"

doc=$root/usr/share/doc/gleaner
mkdir -p "$doc"
crates=$("${CARGO:-cargo}" tree --locked --offline --edges normal,no-proc-macro --prefix none --format '{p}: {l}' \
    --package gleaner-cli --package gleaner-libgc --package gleaner-capi |
    sed -e '/ (\//d' -e '/^$/d' -e 's/ (\*)$//' -e 's/^/ /' | sort -u)
fill $own/copyright.in "YEAR=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y)" "CRATES=$crates" \
    "EXPAT=$(sed -e '1,/^Permission/{/^Permission/!d}' -e 's/^$/./' -e 's/^/ /' LICENSE-MIT)" >"$doc/copyright"
cp CHANGELOG.md "$doc/CHANGELOG.md"
python3 scripts/licences.py >"$doc/licences"
cat >"$doc/changelog" <<END
gleaner ($version) unstable; urgency=medium

  * CHANGELOG.md tells what is new.

 -- $maintainer  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
END
find "$root/usr/share/man" "$doc" -type f ! -name copyright -exec gzip -9n {} +

# What the binaries ask of the C library and the compiler's. dpkg-shlibdeps reads a source package, and knows the libraries that are
# installed; of another architecture's the versions of symbols tell.
if [ "$architecture" = "$machine" ]; then
    sources=$out/sources
    rm -rf "$sources"
    mkdir -p "$sources/debian"
    printf 'Source: gleaner\n\nPackage: gleaner\nArchitecture: any\n' >"$sources/debian/control"
    depends=$(cd "$sources" && dpkg-shlibdeps -O "${programs[@]}" 2>"$out/shlibdeps.log" |
        sed -n 's/^shlibs:Depends=//p') || true
    [ -n "$depends" ] || die "dpkg-shlibdeps found no dependencies: $(cat "$out/shlibdeps.log")"
else
    others=$(readelf --dynamic --wide "${programs[@]}" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(lib(c|m|dl|pthread|rt)\.so\.[0-9]|libgcc_s\.so\.1|ld-linux-aarch64\.so\.1)$' || true)
    [ -z "$others" ] || die "the package of $others is not known for $architecture"
    newest() { readelf --version-info --wide "${programs[@]}" | grep -oE "Name: $1_[0-9.]+" | sort -uV | sed -n "\$s/.*_//p"; }
    depends="libc6 (>= $(newest GLIBC)), libgcc-s1 (>= $(newest GCC))"
fi

# A file takes whole units of 1024 bytes, anything else one.
size=$(find "$root/usr" -printf '%y %s\n' |
    awk '{ units += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print units }')
mkdir -p "$root/DEBIAN"
fill $own/control.in "VERSION=$version" "ARCHITECTURE=$architecture" "MAINTAINER=$maintainer" "SIZE=$size" \
    "DEPENDS=$depends" >"$root/DEBIAN/control"
install -m 644 $own/triggers "$root/DEBIAN"
# For packages of embedders: which one has the library of that soname.
soname=$(basename "$root"/usr/lib/libgleaner.so.*.*)
soname=${soname%".$version"}
echo "libgleaner ${soname#libgleaner.so.} gleaner (>= $version)" >"$root/DEBIAN/shlibs"
install -m 755 $own/postinst $own/prerm "$root/DEBIAN"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

# No time in it is later than SOURCE_DATE_EPOCH, and all that was copied here is.
package=$out/gleaner_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$root" "$package" >"$out/build.log" 2>&1 ||
    die "dpkg-deb failed: $(cat "$out/build.log")"
echo "$package"
