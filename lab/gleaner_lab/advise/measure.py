"""One run of a cell: its time, processor time, pauses, and energy where the machine counts it."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gleaner_lab import workload
from gleaner_lab.advise.runtime import Program
from gleaner_lab.advise.space import INSTALLED, Cell
from gleaner_lab.written import write

PAUSES = ("longest_pause_s", "total_pause_s")
#: Figures of a run that are kept.
FIGURES = ("wall_s", "cpu_s", "peak_kb", *PAUSES)
#: Where the kernel has counters of energy.
POWERCAP = Path("/sys/class/powercap")
#: How HotSpot logs the end of a stop, since version 17 and before that.
STOPS = ((re.compile(r"Total: (\d+) ns"), 1e-9), (re.compile(r"stopped: ([\d.]+) s"), 1.0))
USES = re.compile(r"Using (?:The )?(\w+)")
#: What it logs of the processors that it was told of, and of the threads that collect.
TOLD = re.compile(r"CPUs: \d+ total, (\d+) available")
WORKERS = re.compile(r"(Parallel|Concurrent|Runtime|GC) Workers: (\d+)")
#: Variables that gleaner-bench sets by itself, or that would take a run's settings away.
NOT_KEPT = ("LD_PRELOAD", "GLEANER_OPTIONS", "_")


@dataclass(frozen=True)
class Energy:
    """The counters of the processor packages, in millionths of a joule."""

    domains: tuple[Path, ...]

    @classmethod
    def here(cls, root: Path = POWERCAP) -> Energy:
        """Those that this process may read."""
        packages: dict[str, Path] = {}
        # A package may stand there twice, and another zone counts what it has beside it, too.
        for zone in sorted(root.glob("intel-rapl*:*")):
            name = _text(zone / "name")
            if name.startswith("package-") and os.access(zone / "energy_uj", os.R_OK):
                packages.setdefault(name, zone)
        return cls(tuple(packages.values()))

    def read(self) -> list[int]:
        """What they count now."""
        return [int((one / "energy_uj").read_text()) for one in self.domains]

    def since(self, before: list[int]) -> float:
        """Joules since then; a counter begins again at 0 behind its range."""
        total = 0
        for domain, start, end in zip(self.domains, before, self.read(), strict=True):
            whole = int((domain / "max_energy_range_uj").read_text())
            total += end - start if end >= start else end - start + whole
        return total * 1e-6


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


@dataclass
class Bench:
    """Makes the runs through `gleaner-bench run`."""

    bench: Path
    program: Program
    scratch: Path
    limit_s: float
    energy: Energy = field(default_factory=Energy.here)

    def run(self, cell: Cell) -> dict[str, Any]:
        """The record has either `values` or `problem`."""
        log = self.scratch / "pauses.log"
        log.unlink(missing_ok=True)
        before = self.energy.read()
        record = workload.measure(self.command(cell, log), self.limit_s)
        if "problem" in record:
            return {"problem": record["problem"]}
        values = {name: record["values"][name] for name in FIGURES if name in record["values"]}
        if self.energy.domains:
            values["energy_j"] = self.energy.since(before)
        found: dict[str, Any] = {"values": values}
        if self.program.kind != "java":
            # A log without a collection has no pause.
            values.update({name: values.get(name, 0.0) for name in PAUSES})
        elif log.exists():
            text = log.read_text(errors="replace")
            values.update(pauses(text))
            if uses := USES.search(text):
                found["collector"] = uses[1]
            found["decided"] = decided(text)
        return found

    def command(self, cell: Cell, log: Path) -> list[str]:
        """The words of the measuring program."""
        library = "stock" if cell.collector == INSTALLED else "gleaner"
        words = [str(self.bench), "run", "--json", "--out", str(self.scratch)]
        words += ["--limit", str(max(1, round(self.limit_s)))]
        if self.program.kind == "java":
            words += ["--library", "none"]
        else:
            words += ["--library", library, "--log"]
        is_gleaners = self.program.kind != "java" and library == "gleaner"
        kept = self.program.own_options if is_gleaners else []
        for option in [*kept, *self.program.options(cell)]:
            words += ["--opt", option]
        return [*words, "--", str(self._environment()), *self.program.command(cell, log)]

    def _environment(self) -> Path:
        """A script that starts a program in this environment, which gleaner-bench does not keep.

        A file that is the user's alone, for the words of a process can be read by everyone.
        """
        path = self.scratch / "environment"
        names = [one for one in os.environ if one.isidentifier() and one not in NOT_KEPT]
        lines = [f"export {name}={shlex.quote(os.environ[name])}" for name in sorted(names)]
        path.touch(mode=0o700)
        write(path, "\n".join(["#!/bin/sh", *lines, 'exec "$@"', ""]))
        return path


def decided(log: str) -> str:
    """What a JVM has decided by itself, or was told to: its collector, processors and threads."""
    found = [one[1] for one in [USES.search(log)] if one]
    found += [f"told of {_count(one[1], 'processor')}" for one in [TOLD.search(log)] if one]
    found += [_count(count, f"{kind.lower()} worker") for kind, count in WORKERS.findall(log)]
    return ", ".join(found)


def _count(count: str, noun: str) -> str:
    return f"{count} {noun}" if count == "1" else f"{count} {noun}s"


def pauses(log: str) -> dict[str, float]:
    """All stops of a JVM, of its collector or not."""
    for pattern, unit in STOPS:
        if found := [float(one) * unit for one in pattern.findall(log)]:
            return {"longest_pause_s": max(found), "total_pause_s": sum(found)}
    return {"longest_pause_s": 0.0, "total_pause_s": 0.0}
