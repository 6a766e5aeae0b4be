#!/usr/bin/env python3
"""What three programs of libgc hold while they wait, with and without idle time.

    idle_memory.py [--gleaner FILE] [PROGRAM ...]

A Guile REPL has dropped a list, a Crystal server has answered a request, and a
Nix evaluation waits for a builder. Each is started under the installed libgc
and under each value of option `idle`, and looked at once a second for SECONDS
seconds. Then the REPL and the server get a small thing to do, and are looked at
once more after AFTERWARDS seconds. Prints a table in Markdown of resident
memory, in MB, and of the processor's time that was used while the program waited.
"""

import argparse
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLIENTS = os.path.join(ROOT, "clients", "idle")
SECONDS = 4
AFTERWARDS = 3
TICKS = os.sysconf("SC_CLK_TCK")
SIDES = {"libgc": None, "`idle=off`": "idle=off", "`idle=1s`": "idle=1s", "`idle=collect`": "idle=collect"}


def resident(process):
    """MB that the process holds, private pages and shared ones."""
    with open(f"/proc/{process}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def used(process):
    """Seconds of a processor that the process has used."""
    with open(f"/proc/{process}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def read_until(file, pattern):
    """What the open file says up to the pattern, which is returned as matched."""
    said = ""
    while not (found := re.search(pattern, said)):
        try:
            more = os.read(file, 4096)
        except OSError:
            more = b""
        if not more:
            raise SystemExit(f"idle_memory.py: the program ended and said only: {said[-500:]}")
        said += more.decode(errors="replace")
    return found


def guile(prefix, _):
    """A REPL on a terminal of its own that builds a list, and drops it."""
    ours, theirs = pty.openpty()
    program = subprocess.Popen([*prefix, "guile", "-q"], stdin=theirs, stdout=theirs, stderr=theirs,
                               env={**os.environ, "TERM": "dumb"})
    os.close(theirs)
    read_until(ours, r"scheme@\(guile-user\)> ")
    os.write(ours, b"(define numbers (map number->string (iota 2000000)))\n")
    read_until(ours, r"scheme@\(guile-user\)> ")
    os.write(ours, b"(set! numbers #f)\n")
    read_until(ours, r"scheme@\(guile-user\)> ")
    return program, ours, lambda: os.write(ours, b"1\n")


def crystal(prefix, scratch):
    """A server that has answered one request, which made a million strings."""
    server = os.path.join(scratch, "burst")
    if not os.path.exists(server):
        subprocess.run(["crystal", "build", "--release", "--no-color", "-o", server, os.path.join(CLIENTS, "burst.cr")], check=True)
    program = subprocess.Popen([*prefix, server], stdout=subprocess.PIPE)
    port = int(program.stdout.readline())

    def ask(path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
            answer.read()

    ask("burst")
    return program, program.stdout, lambda: ask("small")


def nix(prefix, scratch):
    """An evaluation that has made a million attribute sets, and reads what a builder makes."""
    store = tempfile.mkdtemp(dir=scratch)
    store = f"local?store={store}/store&state={store}/state&log={store}/log"
    program = subprocess.Popen(
        [*prefix, "nix-instantiate", "--eval", "--read-write-mode", "--store", store, "--option", "sandbox", "false", "--option", "substitute", "false",
         "--option", "build-users-group", "", os.path.join(CLIENTS, "builder.nix"),
         "--arg", "items", "1000000", "--arg", "seconds", str(4 * (SECONDS + AFTERWARDS))],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    read_until(program.stderr.fileno(), "waits")
    return program, program.stderr, None


PROGRAMS = {"guile": guile, "crystal": crystal, "nix": nix}


def row(start, prefix, scratch):
    """Resident memory each second and after a small thing to do, and processor seconds used before that."""
    program, kept_open, next_call = start(prefix, scratch)
    try:
        before = used(program.pid)
        held = [resident(program.pid)]
        for _ in range(SECONDS):
            time.sleep(1)
            held.append(resident(program.pid))
        seconds = used(program.pid) - before
        if next_call is None:
            return held, None, seconds
        next_call()
        time.sleep(AFTERWARDS)
        return held, resident(program.pid), seconds
    finally:
        program.kill()
        program.wait()
        if isinstance(kept_open, int):
            os.close(kept_open)
        else:
            kept_open.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gleaner", default=os.path.join(ROOT, "target", "release", "gleaner"), help="the command")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}; all if none is given")
    asked = parser.parse_args()
    for name in asked.programs:
        if name not in PROGRAMS:
            parser.error(f"no program is called {name}; there are {', '.join(PROGRAMS)}")
    waits = " | ".join(f"{second} s" for second in range(1, SECONDS + 1))
    print(f"| | option | at once | {waits} | {AFTERWARDS} s after its next call | processor |")
    print("| --- | --- |" + " ---: |" * (SECONDS + 3))
    scratch = tempfile.mkdtemp(prefix="gleaner-idle-")
    try:
        for name in asked.programs or PROGRAMS:
            for side, option in SIDES.items():
                prefix = [asked.gleaner, "exec", "--opt", option, "--"] if option else []
                held, later, seconds = row(PROGRAMS[name], prefix, scratch)
                cells = [f"{mb:.0f} MB" for mb in held] + ["" if later is None else f"{later:.0f} MB", f"{seconds:.2f} s"]
                print(f"| {name} | {side} | " + " | ".join(cells) + " |", flush=True)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    sys.exit(main())
