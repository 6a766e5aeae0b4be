# The unpacked archive as a user has it who is not root, on a machine where nothing in /tmp may be executed: unpacked in the home
# directory, used, removed. The mounts are in a namespace of their own; without root, in one where the caller counts as root.

# as_user SCRIPT ARGUMENT... : runs a script of bash in an empty home directory. /tmp is empty, too, and mounted noexec; the archive is
# ../archive.tar.xz, and ../hello.c an embedder.
as_user() {
    local inside=() outside=(--user --map-root-user)
    if [ "$(id -u)" -eq 0 ]; then
        outside=()
        inside=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps=-all)
    fi
    # shellcheck disable=SC2016
    unshare "${outside[@]}" --mount -- bash -euo pipefail -c '
        mount -t tmpfs -o mode=755 users /mnt
        cp "$1" /mnt/archive.tar.xz
        cp "$2" /mnt/hello.c
        mount -t tmpfs -o noexec,mode=1777 tmp /tmp
        mkdir -m 777 /mnt/home
        cd /mnt/home
        shift 2
        exec env -i HOME=/mnt/home PATH=/usr/bin:/bin LANG=C.UTF-8 "$@"
    ' namespace "$dist/$folder.tar.xz" examples/hello.c "${inside[@]}" bash -euo pipefail -c "$unpack$1" user "$folder" "${@:2}"
}
# shellcheck disable=SC2016
unpack='tar --extract --file ../archive.tar.xz; gleaner=$PWD/$1/bin/gleaner; lib=$PWD/$1/lib;'

# shellcheck disable=SC2016
noexec='cp /bin/true /tmp; if /tmp/true 2>/dev/null; then echo "/tmp/true runs"; exit 1; fi; if [ -w / ]; then echo "/ is writable"; exit 1; fi'
check "a user who is not root, and a /tmp that is noexec" as_user "$noexec"
version_is() { is "$(as_user '"$gleaner" --version')" "gleaner $version"; }
check "... has the command" version_is
# shellcheck disable=SC2016
runs='
said=$("$gleaner" exec --opt log=/tmp/log,stats=on -- guile --no-auto-compile -c "(gc) (display (length (iota 9)))" 2>/tmp/stats)
[ "$said" = 9 ] || { echo "printed: $said"; exit 1; }
grep -q "statistics of process" /tmp/stats
"$gleaner" report /tmp/log -o /tmp/page.html
[ -s /tmp/page.html ]'
check "... runs a program on it, with a log and a report in /tmp" as_user "$runs"
# shellcheck disable=SC2016
examined='"$gleaner" doctor -- guile >/tmp/said || { cat /tmp/said; exit 1; }'
check "... asks whether a program will run" as_user "$examined"
# shellcheck disable=SC2016
embedded='
flags=$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs gleaner)
gcc ../hello.c -o hello $flags -Wl,-rpath,"$lib"
[ "$(./hello)" = "hello from the heap" ]'
check "... links a program with the library" as_user "$embedded"
# shellcheck disable=SC2016
removed='
"$gleaner" exec -- guile --no-auto-compile -c "(gc)"
rm -r "./$1"
left=$(find . /tmp -mindepth 1)
[ -z "$left" ] || { echo "left: $left"; exit 1; }'
check "... and removes the directory, after which nothing is left" as_user "$removed"
