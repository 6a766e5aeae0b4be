#!/usr/bin/env python3
"""The table of system calls: docs page, and completeness.

docs/system-calls.tsv is the source. Its columns are

    phase  call  by (us | C library | kernel)  refused (needed | - | what happens then)  why

tests/conformance/sandbox.c is built from it: after the start a program may make the
calls of the phases of AFTER and no others, and each call of ours that is not "needed" is refused once.

    system_calls.py generate      write docs/system-calls.md
    system_calls.py check         the table is well formed, has every call of crates/os,
                                  and the page is fresh
    system_calls.py --self-test   prove that each rule can fail

The last line of a check is "N passed, N failed".
"""

import glob
import os
import re
import sys

from checks import report, wrong, written

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "docs", "system-calls.tsv")
PAGE = os.path.join(ROOT, "docs", "system-calls.md")
# The phases, in the order of the page. The Makefile of tests/conformance and sandbox.c name those after the start, too.
AFTER = ["allocation", "collection", "stop", "helpers", "threads", "fork", "exit"]
PHASES = ["start", *AFTER, "message", "stack base", "unnamed stacks", "refused memory", "old kernels", "incremental",
          "log, statistics, snapshots", "precise heap"]
MAKERS = ["us", "C library", "kernel"]
INTRODUCTION = """\
# System calls

<!-- Written by scripts/system_calls.py from docs/system-calls.tsv; edit those. -->

What the libgc heap asks of the kernel, and when: for programs that confine themselves with a filter of system calls (seccomp), and
for those who write the filter of a service or a container.

The start is the program's first call of the library, such as `GC_INIT`. **After it, by default, a thread for which a filter is in
force makes only these calls**, by Gleaner and on its account:

{after}

A test installs a filter that kills for every other call, and then allocates, collects with helpers, starts threads and forks
(`tests/conformance/sandbox.c`, which is built from the same table). No file is opened then: what is asked again later is read by a
descriptor that stays open from the start: `/proc/self/pagemap`, `/proc/stat` unless there is one processor or `markers` is set, and the
limits of control groups, where there are any. A program that closes all its descriptors closes them, too, and nothing is known then.

Where no filter is in force, the calls of *incremental* are made, too, from the moment on at which
[`generations=auto`](incremental.md) has pages watched. Before each of them `prctl` (`PR_GET_SECCOMP`) says whether there is a filter. If the
program confines itself later, no more of them is made, and all is collected as under `generations=none`.

- **A filter may refuse** (`EPERM`, `ENOSYS`) each call that is not *needed*; the table says what happens then, and the same test
  refuses each of them, before and after the start.
- **A filter that kills** must let the calls through that are named above. `markers=1` (`GC_MARKERS=1`) avoids threads: then no call of
  *helpers* is made, and `generations=none` spares `prctl`. Incremental mode that is asked for by name, logs and snapshots make
  calls of their own: turn them on before the filter.
- **Coroutines on stacks that the program does not name** ([heap-size.md](heap-size.md)) are looked for with the calls of *unnamed
  stacks*. A program that confines itself with a filter that kills names its stacks, or lets these calls through.
- **systemd:** `SystemCallFilter=@system-service` (systemd 252) has every call of this page but `mincore`, which kernels before 5.14
  need, and `perf_event_open`, which only the lab makes.
- **Docker's default profile** lets all calls after the start through but `clone3`, for which the C library takes `clone`. It refuses
  `userfaultfd`: collections are whole there. So they are by default under any filter.
- **Filters for one task** that kill for `gettid`, `sched_getaffinity`, `prlimit64` or `clone`, as OpenSSH's does in its
  child before authentication, end a program on Gleaner, where stock libgc lives as long as it is single-threaded.

On 64-bit Arm, Linux has `newfstatat`, `ppoll`, `readlinkat`, `renameat` and `unlinkat` in place of `lstat`, `poll`, `readlink`,
`rename` and `unlink`.

*By* says who makes the call: Gleaner, the C library on its behalf, or the kernel by itself. A program's own calls are not
listed, nor those that the loader makes before `main`.
"""


def rows_of(text):
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]


def row_problems(rows):
    problems = []
    for row in rows:
        if len(row) != 5 or not all(row):
            problems.append(f"{row}: five columns are wanted")
        elif row[0] not in PHASES or row[2] not in MAKERS:
            problems.append(f"{row[0]} {row[1]}: no such phase, or nobody makes it")
    pairs = [tuple(row[:2]) for row in rows]
    problems += [f"{phase} {call}: twice" for phase, call in sorted(set(pairs))
                 if pairs.count((phase, call)) > 1]
    return problems


def calls_of(text):
    """The system calls of a source file, its tests left out."""
    text = re.split(r"#\[cfg\((?:all\()?test", text)[0]
    return set(re.findall(r"libc::SYS_(\w+)", text))


# What Linux has on 64-bit Arm in place of older calls, under whose names the table lists them.
ON_ARM = {"newfstatat": "lstat", "ppoll": "poll", "readlinkat": "readlink", "renameat": "rename", "unlinkat": "unlink"}


def missing_problems(rows, calls):
    known = {row[1] for row in rows}
    calls = {ON_ARM.get(call, call) for call in calls}
    return [f"{call}: made by crates/os, and not in the table" for call in sorted(calls - known)]


def sources():
    for path in glob.glob(os.path.join(ROOT, "crates/os/src/**/*.rs"), recursive=True):
        if not path.endswith("tests.rs"):
            with open(path, encoding="utf-8") as file:
                yield file.read()


def render(rows):
    after = sorted({row[1] for row in rows if row[0] in AFTER})
    lines = [INTRODUCTION.format(after=", ".join(f"`{call}`" for call in after))]
    for phase in PHASES:
        title = phase[0].upper() + phase[1:]
        lines += [f"## {title}", "", "| call | by | what for | if it is refused |", "| --- | --- | --- | --- |"]
        for _, call, by, refused, why in (row for row in rows if row[0] == phase):
            maker = "Gleaner" if by == "us" else f"the {by}"
            lines.append(f"| `{call}` | {maker} | {why} | {'' if refused == '-' else refused} |")
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def self_test():
    good = ["stop", "tgkill", "us", "needed", "a signal"]
    return report([
        ("accepts a row", row_problems([good])),
        ("rejects a short row", wrong(row_problems([good[:4]]))),
        ("rejects an unknown phase", wrong(row_problems([["later", *good[1:]]]))),
        ("rejects a row that comes twice", wrong(row_problems([good, good]))),
        ("rejects a call that is missing", wrong(missing_problems([good], calls_of("libc::SYS_tgkill libc::SYS_read")))),
        ("leaves tests out", missing_problems([good], calls_of("libc::SYS_tgkill\n#[cfg(test)]\nlibc::SYS_read"))),
        ("reads rows", wrong(rows_of("# a\tb\nc\td\n") == [["c", "d"]])),
    ])


def main():
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    if command == "--self-test":
        return self_test()
    with open(TABLE, encoding="utf-8") as file:
        rows = rows_of(file.read())
    if command == "generate":
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(render(rows))
        return 0
    if command == "check":
        return report([
            (f"{len(rows)} rows are well formed", row_problems(rows)),
            ("every call of crates/os is in the table",
             missing_problems(rows, set().union(*map(calls_of, sources())))),
            ("docs/system-calls.md is generated from the table",
             [] if written(PAGE) == render(rows) else ["run: make generate"]),
        ])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
