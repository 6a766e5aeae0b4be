"""What the machine is, so that machines are never mixed in a comparison, and what else it does.

What it is (`describe`) is recorded once, what else it did (`between`) with each run.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else None


def _caches() -> list[str]:
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_text(f"{index}/{name}") for name in ("level", "type", "size"))
        found.append(f"L{level} {kind} {size}")
    return found


def _version(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def _package(name: str) -> str | None:
    return _version(["dpkg-query", "--show", "--showformat=${Version}", name])


def describe() -> dict[str, Any]:
    """Facts that decide what a measurement is worth."""
    processor = _text("/proc/cpuinfo") or ""
    memory = _text("/proc/meminfo") or ""
    nodes = list(Path("/sys/devices/system/node").glob("node[0-9]*"))
    return {
        "host": socket.gethostname(),
        "processor": _first(r"^model name\s*: (.*)$", processor) or platform.processor(),
        "family": _first(r"^cpu family\s*: (.*)$", processor),
        "model": _first(r"^model\s*: (.*)$", processor),
        "processors": len(os.sched_getaffinity(0)),
        "caches": _caches(),
        "nodes": len(nodes) or 1,
        "memory_kb": int(_first(r"^MemTotal:\s*(\d+)", memory) or 0),
        "huge_pages": _text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "hypervisor": "hypervisor" in processor,
        "kernel": platform.release(),
        "system": _first(r'^PRETTY_NAME="(.*)"$', _text("/etc/os-release") or ""),
        "python": platform.python_version(),
        "libc": platform.libc_ver()[1],
        "libgc1": _package("libgc1"),
        "guile": _package("guile-3.0"),
        "counters": has_hardware_counters(),
    }


#: A wall clock that goes on by so many seconds more or less than time passed has jumped.
JUMP_S = 1.0


@dataclass(frozen=True)
class Moment:
    """What else the machine does, and what its clocks say."""

    #: How many threads run or wait for a processor, on average over the last minute.
    load: float | None
    #: Seconds that the host kept from this machine's processors since it started.
    steal_s: float | None
    #: Seconds of the wall clock beyond those of the monotonic one, which nobody sets.
    clock_s: float

    @classmethod
    def now(cls, proc: Path = Path("/proc")) -> Moment:
        """This one."""
        load = (_text(str(proc / "loadavg")) or "").split()
        times = (_text(str(proc / "stat")) or "").split("\n")[0].split()
        return cls(
            float(load[0]) if load else None,
            int(times[8]) / os.sysconf("SC_CLK_TCK") if len(times) > 8 else None,
            time.time() - time.monotonic(),
        )


def between(before: Moment, after: Moment) -> dict[str, float]:
    """What is recorded of the machine during a run: load, steal, and a jump of its wall clock."""
    found = {"load_before": before.load, "load_after": after.load}
    if before.steal_s is not None and after.steal_s is not None:
        found["steal_s"] = round(after.steal_s - before.steal_s, 3)
    jump = after.clock_s - before.clock_s
    if abs(jump) >= JUMP_S:
        found["clock_jump_s"] = round(jump, 3)
    return {name: value for name, value in found.items() if value is not None}


def commit(root: Path) -> str:
    """The commit of a tree and whether files differ from it; empty where it is no checkout."""
    git = ["git", "-C", str(root)]
    found = _version([*git, "rev-parse", "--short=12", "HEAD"])
    if found is None:
        return ""
    changed = _version([*git, "status", "--porcelain", "--untracked-files=no"])
    return f"{found}, with changes" if changed else found


def identity(facts: dict[str, Any]) -> str:
    """A short name that is the same for machines that may be compared."""
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def has_hardware_counters() -> bool:
    """Whether the kernel offers counters of the processor."""
    return Path("/sys/bus/event_source/devices/cpu").exists()
