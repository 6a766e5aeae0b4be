# The package and the archive on fresh Debians, of both processors: installed over an older version, put in the place of the system's
# libgc, removed; unpacked, run and removed by a user who is not root. Programs for 64-bit Arm are emulated (QEMU's user mode), which
# the kernel is told in a namespace of its own, so that the machine is left as it is.
#
# A system is what the packages below contain, with all that they need, unpacked; scripts of packages were not run, but dpkg counts
# them as installed. All lies in target/systems. It needs root.

systems_in=$PWD/target/systems
systems=(bookworm trixie unstable)
qemu=$systems_in/qemu/usr/bin/qemu-aarch64-static

# The emulator, of a package that is unpacked: it runs in any system, since it needs no library.
emulator() {
    [ -x "$qemu" ] && return
    mkdir -p "$systems_in/qemu"
    (cd "$systems_in/qemu" && apt-get -q download qemu-user-static && dpkg-deb --extract qemu-user-static_*.deb . && rm -- *.deb) >/dev/null 2>&1 &&
        [ -x "$qemu" ]
}

# system SYSTEM ARCHITECTURE: makes it, with an empty dpkg.log and a cache of the loader.
system() {
    local root=$systems_in/$1-$2/root place=$systems_in/$1-$2 mirror package name dpkg
    [ -e "$place/made" ] && return
    rm -rf "$place"
    dpkg=$root/var/lib/dpkg
    mkdir -p "$place"/{lists,archives}/partial "$dpkg"/{info,updates,triggers} "$root"/usr/{bin,sbin,lib,lib64} "$root"/{dev,proc,mnt,home}
    mkdir -m 1777 "$root/tmp"
    mirror=$(apt-get --print-uris download base-files 2>/dev/null | sed -n "s/^'\(.*\)\/pool\/.*/\1/p" | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$place/sources.list"
    : >"$place/status"
    local apt=(apt-get -q --yes -o APT::Architecture="$2" -o APT::Architectures="$2" -o Dir::State::lists="$place/lists"
        -o Dir::State::status="$place/status" -o Dir::Cache::archives="$place/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
        -o Dir::Etc::SourceList="$place/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Acquire::Languages=none
        -o APT::Install-Recommends=false -o Debug::NoLocking=1 -o APT::Sandbox::User=root)
    "${apt[@]}" update >"$place/log" 2>&1 && "${apt[@]}" --download-only install '?essential' xz-utils guile-3.0 >>"$place/log" 2>&1 ||
        { tail -n 5 "$place/log"; return 1; }
    for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
    for package in "$place"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory "$root"
        name=$(dpkg-deb --field "$package" Package)
        dpkg-deb --field "$package" | sed 's/^Package: .*/&\nStatus: install ok installed/' >>"$dpkg/status"
        echo >>"$dpkg/status"
        [ "$(dpkg-deb --field "$package" Multi-Arch)" != same ] || name=$name:$2
        dpkg-deb --fsys-tarfile "$package" | tar --list | sed -e 's/^\.//' -e 's|\(.\)/$|\1|' -e 's|^/$|/.|' >"$dpkg/info/$name.list"
    done
    : >"$dpkg/available"
    cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
    cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
    rm -rf "$place"/{lists,archives}
    inside "$1-$2" root /sbin/ldconfig && touch "$place/made"
}

# inside NAME root|user COMMAND... : runs it in that system, where /mnt has the archive and the packages. A user has an empty home
# directory, and a /tmp in which nothing may be executed.
inside() {
    local root=$systems_in/$1/root who=$2 pipes
    shift 2
    pipes=$(mktemp -d)
    mkfifo "$pipes/there" "$pipes/go"
    # shellcheck disable=SC2016
    unshare --user --mount --pid --fork --kill-child bash -euo pipefail -c '
        root=$1 who=$2 qemu=$3 files=$4
        echo >"$5/there"
        read -r _ <"$5/go"
        shift 5
        mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
        header="\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
        mask="\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
        printf %s ":gleaner-aarch64:M::$header:$mask:$qemu:F" >/proc/sys/fs/binfmt_misc/register
        mount --rbind /dev "$root/dev"
        mount -t proc proc "$root/proc"
        mount --bind "$files" "$root/mnt"
        drop=()
        if [ "$who" = user ]; then
            mount -t tmpfs -o noexec,mode=1777 tmp "$root/tmp"
            mount -t tmpfs home "$root/home"
            mkdir -m 777 "$root/home/user"
            drop=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps=-all)
        fi
        exec chroot "$root" "${drop[@]}" env -i HOME=/home/user PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"
    ' namespace "$root" "$who" "$qemu" "$systems_in/files" "$pipes" "$@" </dev/null &
    local child=$! status=0
    # Once the namespace is there, its ids are what they are outside.
    read -r _ <"$pipes/there"
    echo "0 0 65536" >"/proc/$child/uid_map" && echo "0 0 65536" >"/proc/$child/gid_map"
    echo >"$pipes/go"
    wait "$child" || status=$?
    rm -r "$pipes"
    return "$status"
}

# Of the same tree with a lower version, and a library of an older name.
older_package() { # older_package ARCHITECTURE
    local tree=$systems_in/older
    rm -rf "$tree"
    dpkg-deb --raw-extract "$dist/gleaner_${version}_$1.deb" "$tree"
    sed -i 's/^Version: .*/Version: 0.0.1/' "$tree/DEBIAN/control"
    sed -i "s/\.$version\$/.0.0.1/" "$tree/DEBIAN/md5sums"
    for file in "$tree"/usr/lib/libgleaner.so.*."$version"; do
        mv "$file" "${file%".$version"}.0.0.1"
        ln -sf "$(basename "${file%".$version"}").0.0.1" "${file%".$version"}"
    done
    dpkg-deb --root-owner-group --build "$tree" "$systems_in/files/older_$1.deb"
}

# What runs inside. `collects` runs Guile, whose log says whether Gleaner collected.
# shellcheck disable=SC2016
words='
set -eu
guile=$(ls /usr/bin/guile-3.0 /usr/lib/*/guile/3.0/bin/guile /usr/bin/guile 2>/dev/null | head -n 1)
collects() {
    rm -f /tmp/log
    said=$(GLEANER_OPTIONS=log=/tmp/log "$@" "$guile" --no-auto-compile -c "(gc) (display (length (iota 99)))")
    [ "$said" = 99 ] || { echo "printed: $said"; exit 1; }
    grep -q "\"event\":\"end\"" /tmp/log || { echo "no collection is in the log"; exit 1; }
    rm /tmp/log
}
listing() { find / -xdev \( -path /proc -o -path /dev -o -path /mnt -o -path /var/lib/dpkg -o -path /var/log \) -prune -o -printf "%p %M %l" \( -type f -printf " %s" -o -true \) -printf "\n" | sort; }
install() { dpkg --install "$1" >/tmp/dpkg 2>&1 || { cat /tmp/dpkg; exit 1; }; rm /tmp/dpkg; }
version() { dpkg-query --show --showformat="\${Version}" gleaner; }
'
# shellcheck disable=SC2016
installed='
listing >/var/log/before
install "/mnt/gleaner_$2_$1.deb"
listing >/var/log/fresh
dpkg --purge gleaner >/dev/null 2>&1
install /mnt/older_$1.deb
[ "$(version)" = 0.0.1 ]
collects gleaner exec --
gleaner-libgc-divert on
collects
install "/mnt/gleaner_$2_$1.deb"
[ "$(version)" = "$2" ] && [ "$(gleaner --version)" = "gleaner $2" ]
[ "$(gleaner-libgc-divert status)" = on ]
collects
gleaner-libgc-divert off
listing >/var/log/upgraded
diff /var/log/fresh /var/log/upgraded
gleaner-libgc-divert on
gleaner doctor -- "$guile" >/tmp/said || { cat /tmp/said; exit 1; }
rm /tmp/said
dpkg --purge gleaner >/dev/null 2>&1
listing >/var/log/after
diff /var/log/before /var/log/after
[ -z "$(ls /var/lib/dpkg/info | grep "^gleaner")" ]
[ -z "$(dpkg-divert --list "*gleaner*")" ]'
# shellcheck disable=SC2016
unpacked='
cp /bin/true /tmp; if /tmp/true 2>/dev/null; then echo "/tmp/true runs"; exit 1; fi; rm /tmp/true
cd
tar --extract --file "/mnt/$1.tar.xz"
[ "$("$1/bin/gleaner" --version)" = "gleaner $2" ]
collects "$1/bin/gleaner" exec --
GLEANER_OPTIONS= "$1/bin/gleaner" exec --stats -- "$guile" --no-auto-compile -c "(gc)" 2>/tmp/stats
grep -q "statistics of process" /tmp/stats
"$1/bin/gleaner" doctor -- "$guile" >/tmp/said || { cat /tmp/said; exit 1; }
rm -r "./$1" /tmp/stats /tmp/said
left=$(find . /tmp -mindepth 1)
[ -z "$left" ] || { echo "left: $left"; exit 1; }'

if [ "$(id -u)" -ne 0 ]; then
    echo "left out: other systems, which root alone can make"
else
    check "an emulator of 64-bit Arm" emulator
    rm -rf "$systems_in/files"
    mkdir -p "$systems_in/files"
    cp "$dist"/*-linux.tar.xz "$dist"/*.deb "$systems_in/files"
    for pair in x86_64:amd64 aarch64:arm64; do
        architecture=${pair#*:}
        check "an older package for $architecture" older_package "$architecture"
        for name in "${systems[@]}"; do
            on=$name-$architecture
            check "$on is made" system "$name" "$architecture"
            check "$on: installed, upgraded, in the place of the system's library, purged without a trace" \
                inside "$on" root bash -c "$words$installed" inside "$architecture" "$version"
            check "$on: unpacked, run and removed by a user who is not root, with /tmp noexec" \
                inside "$on" user bash -c "$words$unpacked" inside "gleaner-$version-${pair%:*}-linux" "$version"
        done
    done
fi
