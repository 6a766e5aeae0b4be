"""Counts of a run: by the processor where the kernel offers its counters, or by cachegrind.

Counted runs are runs of their own, one for each cell; their times do not count. Cachegrind
simulates one thread at a time on caches of its own: it sees no non-temporal store, no prefetch and
no parallelism. What cannot be counted is said to be not measurable here, never left out.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Literal

from gleaner_lab import machine

Kind = Literal["none", "hardware", "cachegrind"]

#: What is asked of `perf stat`.
EVENTS = ["instructions:u", "cycles:u", "cache-misses:u", "dTLB-load-misses:u", "page-faults"]

#: What cachegrind's columns are called in results.
CACHEGRIND = {
    "Ir": "instructions",
    "D1mr": "L1 read misses",
    "D1mw": "L1 write misses",
    "DLmr": "last-level read misses",
    "DLmw": "last-level write misses",
}

NOT_MEASURABLE = "not measurable here"

#: What each kind cannot tell, for the report.
LIMITS = {
    "none": "",
    "hardware": "Counted by the processor, in user mode.",
    "cachegrind": "Simulated by cachegrind, which sees no non-temporal store, no prefetch and no "
    f"parallelism: bus traffic and what prefetching saves are {NOT_MEASURABLE}.",
}


def obstacle(kind: Kind) -> str | None:
    """Why this kind cannot be had on this machine."""
    if kind == "hardware" and not machine.has_hardware_counters():
        return f"{NOT_MEASURABLE}: the kernel offers no counters of the processor"
    program = {"hardware": "perf", "cachegrind": "valgrind"}.get(kind)
    if program is not None and shutil.which(program) is None:
        return f"{NOT_MEASURABLE}: {program} is not installed"
    return None


def before(kind: Kind, file: Path) -> list[str]:
    """What is put before a program so that it is counted into a file."""
    if kind == "hardware":
        return ["perf", "stat", "-x", ";", "-o", str(file), "-e", ",".join(EVENTS), "--"]
    if kind == "cachegrind":
        out = f"--cachegrind-out-file={file}"
        return ["valgrind", "--quiet", "--tool=cachegrind", "--cache-sim=yes", out]
    return []


def read(kind: Kind, text: str) -> dict[str, float]:
    """The counts in the file."""
    return _perf(text) if kind == "hardware" else _cachegrind(text)


def _perf(text: str) -> dict[str, float]:
    """Lines of count;unit;event;...; a count that is a word was not counted."""
    found = {}
    for line in text.splitlines():
        fields = line.split(";")
        if len(fields) > 2 and re.fullmatch(r"[\d.]+", fields[0]):
            found[fields[2].removesuffix(":u")] = float(fields[0])
    return found


def _cachegrind(text: str) -> dict[str, float]:
    events = re.search(r"^events: (.*)$", text, re.MULTILINE)
    summary = re.search(r"^summary: (.*)$", text, re.MULTILINE)
    if events is None or summary is None:
        return {}
    counts = dict(zip(events[1].split(), map(float, summary[1].split()), strict=True))
    return {name: counts[event] for event, name in CACHEGRIND.items() if event in counts}
