# The package: what is in it, and that it is the same if it is made again.

make_package() { scripts/package-debian.sh --out "$out/$1"; }
name=gleaner_${version}_amd64.deb
check "the package is made" make_package first
sleep 1 # so that a time that is read from the clock differs
check "... and again" make_package second
check "both are the same, byte for byte" cmp "$out/first/$name" "$out/second/$name"
package=$out/first/$name

field() { dpkg-deb --field "$package" "$1"; }
check "its version" is "$(field Version)" "$version"
check "its architecture" is "$(field Architecture)" amd64
depends() { [[ "$(field Depends)" =~ ^libc6\ \(\>=\ 2\.[0-9]+\) ]] || { field Depends; return 1; }; }
check "it depends on the C library that its binaries ask for" depends
# No binary asks for a symbol of a newer C library than that.
newest() {
    local asked
    asked=$(objdump -T "$out"/first/root/usr/bin/gleaner "$out"/first/root/usr/lib/gleaner/libgc.so.1 \
        "$out"/first/root/usr/lib/libgleaner.so.*.* | grep -o 'GLIBC_2[0-9.]*' | sort -uV | tail -n 1)
    dpkg --compare-versions "${asked#GLIBC_}" le "$(field Depends | sed 's/.*libc6 (>= \([0-9.]*\).*/\1/')"
}
check "... and on no older one" newest

files=$(dpkg-deb --contents "$package" | awk '{ print $1, $2, substr($6, 2) }')
soname=libgleaner.so.$(sed -n 's/^#define GLEANER_INTERFACE //p' crates/capi/include/gleaner.h)
wanted() {
    cat <<END
-rwxr-xr-x root/root /usr/bin/gleaner
-rw-r--r-- root/root /usr/include/gleaner.h
-rw-r--r-- root/root /usr/include/gleaner_elements.h
-rw-r--r-- root/root /usr/include/gleaner_roots.h
-rw-r--r-- root/root /usr/lib/gleaner/libgc.so.1
-rw-r--r-- root/root /usr/lib/libgleaner.a
lrwxrwxrwx root/root /usr/lib/libgleaner.so
lrwxrwxrwx root/root /usr/lib/$soname
-rw-r--r-- root/root /usr/lib/$soname.$version
-rw-r--r-- root/root /usr/lib/pkgconfig/gleaner.pc
-rwxr-xr-x root/root /usr/sbin/gleaner-libgc-divert
-rw-r--r-- root/root /usr/share/bash-completion/completions/gleaner
-rw-r--r-- root/root /usr/share/doc/gleaner/CHANGELOG.md.gz
-rw-r--r-- root/root /usr/share/doc/gleaner/changelog.gz
-rw-r--r-- root/root /usr/share/doc/gleaner/copyright
-rw-r--r-- root/root /usr/share/doc/gleaner/licences.gz
-rw-r--r-- root/root /usr/share/fish/vendor_completions.d/gleaner.fish
-rw-r--r-- root/root /usr/share/man/man1/gleaner-bench.1.gz
-rw-r--r-- root/root /usr/share/man/man1/gleaner-compare.1.gz
-rw-r--r-- root/root /usr/share/man/man1/gleaner-doctor.1.gz
-rw-r--r-- root/root /usr/share/man/man1/gleaner-exec.1.gz
-rw-r--r-- root/root /usr/share/man/man1/gleaner-heap.1.gz
-rw-r--r-- root/root /usr/share/man/man1/gleaner-options.1.gz
-rw-r--r-- root/root /usr/share/man/man1/gleaner-place.1.gz
-rw-r--r-- root/root /usr/share/man/man1/gleaner-report.1.gz
-rw-r--r-- root/root /usr/share/man/man1/gleaner.1.gz
-rw-r--r-- root/root /usr/share/man/man8/gleaner-libgc-divert.8.gz
-rw-r--r-- root/root /usr/share/zsh/vendor-completions/_gleaner
END
}
check "its files, with owners and rights" diff <(wanted | sort -k 3) <(grep -v '^d' <<<"$files" | sort -k 3)
shlibs() { is "$(dpkg-deb --info "$package" shlibs)" "libgleaner ${soname#libgleaner.so.} gleaner (>= $version)"; }
check "packages that are linked against libgleaner will depend on it" shlibs
sums() { (cd "$out/first/root" && md5sum --quiet --check DEBIAN/md5sums && [ "$(wc -l <DEBIAN/md5sums)" -eq "$(wanted | grep -c "^-")" ]); }
check "a sum for each file" sums
check "pkg-config's file has the prefix and the version" \
    has "$(cat "$out/first/root/usr/lib/pkgconfig/gleaner.pc")" "prefix=/usr" "Version: $version"
check "the copyright names the licences and the crates" \
    has "$(cat "$out/first/root/usr/share/doc/gleaner/copyright")" "License: Expat or Apache-2.0" " clap v" \
    " Permission is hereby granted" "common-licenses/Apache-2.0"
texts() { has "$(zcat "$out/first/root/usr/share/doc/gleaner/licences.gz")" "  clap " "Permission is hereby granted" "Apache License"; }
check "the licences of the crates are there as texts" texts
has_no_path() { ! grep -rlF "$PWD" "$out/first/root/usr/share" "$out/first/root/usr/lib/pkgconfig"; }
check "no text names this directory" has_no_path
checked_page() {
    local said
    said=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l -Tutf8 -Z "$out/first/root/usr/share/man/man8/"*.gz 2>&1 >/dev/null)
    is "$said" ""
}
check "gleaner-libgc-divert(8)" checked_page

check "a wrong maintainer is refused" refuses 1 "NAME <ADDRESS>" \
    env DEB_MAINTAINER=nobody scripts/package-debian.sh --out "$out/wrong"
check "a wrong time is refused" refuses 1 "seconds since 1970" \
    env SOURCE_DATE_EPOCH=today scripts/package-debian.sh --out "$out/wrong"
check "a wrong word is refused" refuses 1 "'--output' is unknown" scripts/package-debian.sh --output x
check "another architecture is refused" refuses 1 "Gleaner runs on amd64 and arm64" \
    scripts/package-debian.sh --architecture armhf
check "a directory that is missing is asked for" refuses 1 "--out: a directory is wanted" \
    scripts/package-debian.sh --out
