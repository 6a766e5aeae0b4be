# The package in a root of its own: installed, used, put in the place of the system's library, removed.

root=$out/root
folder=usr/lib/x86_64-linux-gnu
stock=$(readlink -f /$folder/libgc.so.1)
stock=${stock##*/}
# dpkg wants what is in sbin.
export PATH=$PATH:/usr/sbin:/sbin

# A root in which dpkg knows of Debian's libgc1, and of what the package depends on.
make_root() {
    local name
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/$folder"
    : >"$root/var/lib/dpkg/available"
    for name in libc6 libgcc-s1 libgc1; do
        dpkg-query --status "$name"
        echo
        printf '/.\n' >"$root/var/lib/dpkg/info/$name:amd64.list"
    done >"$root/var/lib/dpkg/status"
    printf '/%s/%s\n/%s/libgc.so.1\n' "$folder" "$stock" "$folder" >>"$root/var/lib/dpkg/info/libgc1:amd64.list"
    cp -p "/$folder/$stock" "$root/$folder"
    ln -s "$stock" "$root/$folder/libgc.so.1"
}
check "a root is made" make_root

# Its files with their rights, times and sums. What dpkg notes for itself is looked at by `forgotten`.
listing() {
    (cd "$root" && find . -path ./var/lib/dpkg -prune -o -printf '%p %M %l ' \
        \( -type f -printf '%T@ ' -exec md5sum {} \; -o -printf '\n' \) | sort)
}
forgotten() {
    local dpkg=$root/var/lib/dpkg
    is "$(ls "$dpkg/info" | grep -c '^gleaner')" 0 && is "$(grep -c '^Package: gleaner' "$dpkg/status")" 0 &&
        is "$(dpkg-divert --root "$root" --list '*gleaner*')" ""
}
before=$(listing)

# dpkg in that root: scripts of packages run beside it, since it has no shell.
in_root() {
    dpkg --root="$root" --force-not-root --force-script-chrootless --log="$out/dpkg.log" "$@"
}
divert() { DPKG_ROOT=$root "$root/usr/sbin/gleaner-libgc-divert" "$@"; }
state() { dpkg-query --root="$root" --show --showformat='${db:Status-Status}' gleaner; }

check "it is installed" in_root --install "$package"
check "dpkg says so" is "$(state)" installed
check "dpkg finds its files unchanged" is "$(in_root --verify gleaner 2>&1)" ""
same_stock() { cmp "/$folder/$stock" "$root/$folder/libgc.so.1"; }
check "the system's library is as it was" same_stock

program='(let loop ((n 0) (kept (list))) (if (< n 2000000) (loop (+ n 1) (if (= 0 (modulo n 1000)) (list) (cons n kept))) (display n)))'
# runs LOG COMMAND... : the program's output is right, and Gleaner collected, as the log says.
runs() {
    local log=$1
    shift
    rm -f "$log"
    is "$(GLEANER_OPTIONS=log=$log "$@" -c "$program")" 2000000 && [ "$(grep -c '"event":"end"' "$log")" -gt 0 ]
}
check "gleaner exec finds the library of the package" \
    runs "$out/exec.jsonl" "$root/usr/bin/gleaner" exec -- guile --no-auto-compile
check "gleaner exec names it" has "$("$root/usr/bin/gleaner" exec --dry-run -- guile)" "$root/usr/lib/gleaner/libgc.so.1"
check "its version" is "$("$root/usr/bin/gleaner" --version)" "gleaner $version"

# As a program of that root would find libgc.
of_root() { env LD_LIBRARY_PATH="$root/$folder" guile --no-auto-compile "$@"; }
on_stock() {
    ! runs "$out/stock.jsonl" of_root && [ ! -e "$out/stock.jsonl" ] && is "$(of_root -c '(display 1)')" 1
}
check "a program without gleaner exec runs on the system's library" on_stock
check "divert: status" is "$(divert status)" off
check "divert: on" divert on
check "divert: status when it is on" is "$(divert status)" on
check "divert: programs run on Gleaner" runs "$out/diverted.jsonl" of_root
check "divert: on twice" divert on
check "divert: the system's library is kept" cmp "/$folder/$stock" "$root/usr/lib/gleaner/stock/$stock"
links() { ldconfig -n "$root/$folder" && is "$(readlink "$root/$folder/libgc.so.1")" "$stock"; }
check "divert: ldconfig leaves the link" links
check "divert: dpkg knows whose it is" is "$(dpkg-divert --root "$root" --listpackage "/$folder/$stock")" gleaner
check "divert: off" divert off
check "divert: the system's library is back" same_stock
check "divert: off twice" divert off
left() { is "$(find "$root/usr/lib" -name stock -o -name '*new')" ""; }
check "divert: nothing is left" left

# A newer package renews the copy.
check "divert: on again" divert on
echo other >"$root/$folder/$stock"
check "it is installed once more" in_root --install "$package"
check "... which renews the library" cmp "$root/usr/lib/gleaner/libgc.so.1" "$root/$folder/$stock"
# libgc1 of another version, with the library FILE; its name is that of the one before.
libgc1() { # libgc1 VERSION FILE
    local tree=$out/libgc1
    rm -rf "$tree"
    mkdir -p "$tree/DEBIAN" "$tree/$folder"
    cp -p "$2" "$tree/$folder/$stock"
    ln -s "$stock" "$tree/$folder/libgc.so.1"
    printf '%s\n' "Package: libgc1" "Version: $1" "Architecture: amd64" "Multi-Arch: same" \
        "Maintainer: Nobody <nobody@localhost>" "Description: another version" >"$tree/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$tree" "$out/libgc1.deb" && in_root --install "$out/libgc1.deb"
}
upgraded() {
    { cat "/$folder/$stock" && echo newer; } >"$out/newer"
    libgc1 1:9 "$out/newer" && cmp "$root/usr/lib/gleaner/libgc.so.1" "$root/$folder/$stock" &&
        cmp "$out/newer" "$root/usr/lib/gleaner/stock/$stock" && is "$(divert status)" on
}
check "divert: an upgrade of libgc1 goes to where the system's library is kept" upgraded
check "... and another" libgc1 1:10 "/$folder/$stock"
gone() {
    in_root --remove libgc1 && is "$(divert status)" off && divert off && is "$(ls -A "$root/$folder")" "" &&
        libgc1 1:10 "/$folder/$stock" && divert on && is "$(divert status)" on
}
check "divert: libgc1 is removed and installed again" gone
# libgc1 with a file of another name: the link leads there.
newer() {
    cp "/$folder/$stock" "$root/$folder/libgc.so.1.9.9"
    ln -sf libgc.so.1.9.9 "$root/$folder/libgc.so.1"
    is "$(divert status)" off && divert on && is "$(divert status)" on && same_stock_at "$stock" &&
        cmp "$root/usr/lib/gleaner/libgc.so.1" "$root/$folder/libgc.so.1.9.9"
}
same_stock_at() { cmp "/$folder/$stock" "$root/$folder/$1"; }
check "divert: another version of libgc1" newer
older() {
    divert off && same_stock_at libgc.so.1.9.9 && rm "$root/$folder/libgc.so.1.9.9" &&
        ln -sf "$stock" "$root/$folder/libgc.so.1"
}
check "divert: ... and off" older

check "divert: a word is wanted" refuses 1 "on, off or status" divert
check "divert: a wrong word" refuses 1 "'yes' is unknown" divert yes
check "divert: --help" has "$(divert --help)" "gleaner-libgc-divert on "
without_libgc() {
    local status=0
    mv "$root/$folder/libgc.so.1" "$root/link"
    refuses 1 "apt-get install libgc1" divert on || status=1
    mv "$root/link" "$root/$folder/libgc.so.1"
    return $status
}
check "divert: without libgc1" without_libgc

check "divert: on before the end" divert on
check "it is removed" in_root --remove gleaner
check "... and the system's library is back" same_stock
check "it is purged" in_root --purge gleaner
check "nothing of it is left, and nothing else has changed" diff <(echo "$before") <(listing)
check "dpkg has forgotten it" forgotten
