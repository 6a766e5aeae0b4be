#!/usr/bin/env bash
# Run tests on machines with several memory nodes, which QEMU makes up.
#
#   tests/qemu/run.sh [--keep] MACHINE...
#
# MACHINE is
#
#   ring:NxC   N memory nodes in a ring, each a socket with C processors and 128 MB;
#              the first has more where there are less than four
#   uneven     a node with processors alone, one with memory alone, and a
#              processor that is offline (crates/os/tests/nodes.rs says which)
#
# CHECKS below says what runs there. The programs are those of `cargo test`,
# unpacked by the machine's kernel into its memory together with the libraries
# that they need; no disk, no network, no root, no KVM. The tests learn from
# GLEANER_MACHINE where they are. QEMU emulates neither the time that memory
# takes nor its order: this proves what the kernel does, never speed.
#
# A machine has passed when its console says so within LIMIT seconds (600
# unless given). Consoles lie in target/qemu/. --keep keeps the memory image,
# too. The last line is "N passed, N failed".
#
# scripts/install-packages.sh qemu brings QEMU, busybox and a kernel.

set -euo pipefail
cd "$(dirname "$0")/../.."

# What runs on each machine, as arguments of `cargo test`: one test program a
# line, and behind -- which of its tests.
CHECKS=(
    "-p gleaner-os --lib -- numa:: topology:: spawn:: written::"
    "-p gleaner-os --test nodes"
    "-p gleaner-plans --test nodes"
    "-p gleaner-plans --test sticky"
    "-p gleaner --test nodes"
    "-p gleaner-bench --bins -- placement::"
    "-p gleaner-place --test kernel"
)

MEGABYTES=128
LIMIT=${LIMIT:-600}
SILENCE=${SILENCE:-240}
OUT=${CARGO_TARGET_DIR:-target}/qemu
KERNEL=target/qemu/vmlinuz
# The kernel does without what an emulated machine waits for in vain.
KERNEL_ARGUMENTS="console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable nokaslr numa_balancing=disable \
nowatchdog apparmor=0 audit=0 rcupdate.rcu_expedited=1 no_timer_check lpj=4000000 clocksource=tsc edd=off \
cryptomgr.notests random.trust_cpu=on"

say() { echo "qemu: $*" >&2; }
die() { say "$@"; echo "0 passed, 1 failed"; exit 1; }

keep=false
if [ "${1:-}" = --keep ]; then keep=true; shift; fi
[ $# -gt 0 ] || die "usage: $0 [--keep] ring:NxC|uneven..."
for program in qemu-system-x86_64 busybox cpio ldd; do
    command -v $program >/dev/null || die "$program is missing: scripts/install-packages.sh qemu"
done
[ -s "$KERNEL" ] || die "$KERNEL is missing: scripts/install-packages.sh qemu"

# program_of -p CRATE ARGUMENTS: the program that `cargo test` would run. Alone, a crate would have its libraries compiled with fewer
# features than beside all others, once more: hence all crates are compiled, and that program is taken.
program_of() {
    cargo test --locked --no-run --quiet --message-format=json --workspace "${@:3}" |
        python3 -c '
import json, pathlib, sys
folder = sys.argv[1].removeprefix("gleaner-")
built = [json.loads(line) for line in sys.stdin]
print(*(message["executable"] for message in built
        if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]
        and pathlib.Path(message["manifest_path"]).parent.name == folder))' "$2"
}

# add PROGRAM PLACE: puts a program into the image, and the libraries that it needs where it looks for them.
add() {
    local library
    install "$1" "$image/$2"
    for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
        [ -e "$image$library" ] || install -D "$library" "$image$library"
    done
}

# The image: busybox, the test programs, their libraries, and what starts them.
image=$OUT/image
rm -rf "$image"
mkdir -p "$image"/{bin,dev,proc,sys,tmp,tests}
add "$(command -v busybox)" bin/busybox
for number in "${!CHECKS[@]}"; do
    check=${CHECKS[number]}
    read -ra arguments <<<"${check%% -- *}"
    read -ra tests <<<"$([[ $check != *" -- "* ]] || echo "${check#* -- }")"
    program=$(program_of "${arguments[@]}")
    [ -x "$program" ] || die "cargo test ${arguments[*]} is not one program: '$program'"
    add "$program" "tests/$number"
    strip "$image/tests/$number"
    echo "run $number $(printf '%q ' "${tests[@]}")" >>"$image/tests/all"
done
cat >"$image/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
[ -z "$GLEANER_OFFLINE" ] || echo 0 >"/sys/devices/system/cpu/cpu$GLEANER_OFFLINE/online"
# A kernel with little memory has no huge pages unless told to.
for switch in enabled defrag; do echo madvise >/sys/kernel/mm/transparent_hugepage/$switch; done
failed=0
# One test at a time, in the order of their names.
run() {
    program=$1
    shift
    RUST_BACKTRACE=0 "/tests/$program" --test-threads=1 "$@" || failed=1
}
. /tests/all
[ $failed = 1 ] || echo PASS
/bin/busybox poweroff -f
INIT
chmod 755 "$image/init"
(cd "$image" && find . | cpio --quiet --create --format=newc --owner=0:0) | gzip -1 >"$OUT/image.gz"
rm -rf "$image"
$keep || trap 'rm -f "$OUT/image.gz"' EXIT

# node ID MEGABYTES PROCESSORS: adds a node; 0 megabytes or no processors: none.
node() {
    local text=node,nodeid=$1
    if [ "$2" -gt 0 ]; then
        hardware+=(-object "memory-backend-ram,id=m$1,size=$2M")
        text+=,memdev=m$1
    fi
    hardware+=(-numa "$text${3:+,cpus=$3}")
}
# distance FROM TO VALUE: in both directions.
distance() { hardware+=(-numa "dist,src=$1,dst=$2,val=$3" -numa "dist,src=$2,dst=$1,val=$3"); }
# processors SOCKETS CORES: so many of each socket.
processors() { hardware+=(-smp "$(($1 * $2)),sockets=$1,cores=$2,threads=1"); }
memory() { hardware+=(-m "$1"); }

ring() {
    local nodes=$1 each=$2 more=0 megabytes from to hops
    # The tests want as much in all as four nodes have: the first one has it.
    if [ "$nodes" -lt 4 ]; then more=$(((4 - nodes) * MEGABYTES)); fi
    processors $nodes $each
    memory $((nodes * MEGABYTES + more))
    for ((from = 0; from < nodes; from++)); do
        megabytes=$MEGABYTES
        if [ "$from" = 0 ]; then megabytes=$((megabytes + more)); fi
        node $from $megabytes $((from * each))-$((from * each + each - 1))
        for ((to = 0; to < from; to++)); do
            hops=$((from - to))
            if [ $hops -gt $((nodes - hops)) ]; then hops=$((nodes - hops)); fi
            distance $from $to $((10 + 6 * hops))
        done
    done
}

uneven() {
    processors 1 6
    memory $((3 * MEGABYTES))
    node 0 $MEGABYTES 0-1
    node 1 0 2-3
    node 2 $MEGABYTES 4-5
    node 3 $MEGABYTES ""
    distance 0 1 20
    distance 0 2 24
    distance 0 3 20
    distance 1 2 14
    distance 1 3 22
    distance 2 3 22
    environment+=" GLEANER_OFFLINE=5"
}

# Runs one, which writes to $console; the status is that of QEMU, 124 after LIMIT seconds. An emulator whose kernel has
# not said a word after SILENCE seconds has hung before it: that happens on a busy host, so another one is started, once.
boot() {
    local attempt emulator waited
    for attempt in 1 2; do
        : >"$console"
        timeout --kill-after=10 "$LIMIT" qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max \
            "${hardware[@]}" -kernel "$KERNEL" -initrd "$OUT/image.gz" -append "$KERNEL_ARGUMENTS $environment" \
            -nodefaults -display none -monitor none -serial "file:$console" -no-reboot </dev/null &
        emulator=$!
        for ((waited = 0; waited < SILENCE; waited++)); do
            [ ! -s "$console" ] && kill -0 "$emulator" 2>/dev/null || break
            sleep 1
        done
        if [ "$attempt" -eq 1 ] && [ ! -s "$console" ] && kill -0 "$emulator" 2>/dev/null; then
            say "$machine has said nothing for $SILENCE seconds: once more"
            kill "$emulator" 2>/dev/null
            wait "$emulator" || true
            continue
        fi
        wait "$emulator"
        return
    done
}

passed=0
failed=0
for machine in "$@"; do
    hardware=()
    environment="GLEANER_MACHINE=$machine"
    if [[ $machine =~ ^ring:([0-9]+)x([0-9]+)$ ]]; then
        ring "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    elif [ "$machine" = uneven ]; then
        uneven
    else
        die "no machine '$machine': ring:NxC or uneven"
    fi
    console=$OUT/${machine/:/-}.log
    echo "== $machine"
    started=$SECONDS
    status=0
    boot || status=$?
    # Ends of lines on a serial line are two characters.
    sed -i 's/\r//g' "$console"
    counts=$(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed;.*/\1 \2/p' "$console")
    while read -r ok bad; do
        passed=$((passed + ${ok:-0}))
        failed=$((failed + ${bad:-0}))
    done <<<"$counts"
    if [ "$(grep -c . <<<"$counts")" -eq ${#CHECKS[@]} ] && grep -qx PASS "$console"; then
        echo "ok: $machine, $((SECONDS - started)) s"
        continue
    fi
    failed=$((failed + 1))
    [ $status -ne 124 ] || say "$machine did not end within $LIMIT seconds"
    echo "FAILED: $machine (exit status $status); the end of $console:"
    tail -n 40 "$console"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
