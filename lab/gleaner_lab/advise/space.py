"""The space: placements, collectors, their threads and heap sizes multiply into cells."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

#: The word for what is left as the program has it.
DEFAULT = "default"


@dataclass(frozen=True, order=True)
class Cell:
    """One candidate. An empty word and 0 leave a factor as the program has it."""

    #: Options of `gleaner place`, such as `isolated,isolate=jvm`.
    placement: str = ""
    #: Of a JVM, such as `G1`; of a program that uses libgc, `stock` is the installed library.
    collector: str = ""
    #: How many threads collect.
    threads: int = 0
    #: A limit such as `64m`, or options of the heap, such as `free-space-divisor=1`.
    heap: str = ""

    @property
    def levels(self) -> tuple[str, str, int, str]:
        """What it has of each factor."""
        return self.placement, self.collector, self.threads, self.heap

    @property
    def key(self) -> str:
        """Its identity, as it is shown, too."""
        collector = f" {self.collector}" if self.collector else ""
        return (
            f"placement {self.placement or DEFAULT}; collector{collector} threads "
            f"{self.threads or DEFAULT}; heap {self.heap or DEFAULT}"
        )


#: The collector of a program that runs on the installed libgc.
INSTALLED = "stock"
#: The program as it is run now.
REFERENCE = Cell()


@dataclass(frozen=True)
class Machine:
    """The processors that may be used, by socket."""

    sockets: tuple[tuple[int, ...], ...]
    #: Processors of one core, where a core has several.
    cores: tuple[tuple[int, ...], ...] = ()

    @property
    def processors(self) -> list[int]:
        """All of them."""
        return [one for socket in self.sockets for one in socket]

    @property
    def idle(self) -> str:
        """In words, what stands idle under the placement `half`."""
        if len(self.sockets) > 1:
            return f"{len(self.sockets) // 2} of {len(self.sockets)} sockets"
        if self.cores:
            return f"{len(self.cores) // 2} of {len(self.cores)} cores"
        return f"{len(self.processors) // 2} of {len(self.processors)} processors"

    @property
    def half(self) -> str:
        """The placement that leaves about half of the machine idle; none of one processor."""
        if len(self.sockets) > 1:
            return f"none,sockets={(len(self.sockets) + 1) // 2}"
        # Whole cores: one of whose threads one works is not idle.
        cores = self.cores or tuple((one,) for one in self.processors)
        kept = sorted(one for core in cores[: -(-len(cores) // 2)] for one in core)
        return f"none,processors={'+'.join(map(str, kept))}" if len(cores) > 1 else ""

    @classmethod
    def here(cls) -> Machine:
        """This machine, as far as this process may use it."""
        return cls.of(sorted(os.sched_getaffinity(0)), Path("/sys/devices/system/cpu"))

    @classmethod
    def of(cls, processors: list[int], root: Path) -> Machine:
        """That with these processors, of which the kernel tells below a directory."""
        sockets: dict[str, list[int]] = {}
        cores: dict[str, list[int]] = {}
        for processor in processors:
            topology = root / f"cpu{processor}" / "topology"
            sockets.setdefault(_text(topology / "physical_package_id"), []).append(processor)
            siblings = _text(topology / "thread_siblings_list") or str(processor)
            cores.setdefault(siblings, []).append(processor)
        shared = any(len(one) > 1 for one in cores.values())
        return cls(
            tuple(map(tuple, sockets.values())),
            tuple(map(tuple, cores.values())) if shared else (),
        )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def placements(machine: Machine, is_jvm: bool) -> list[str]:
    """Those that differ on this machine.

    On one socket `paper` and `paired` pin the same threads as `pinned`, and `isolated` sets a
    cluster or half of the cores apart, for there is no other socket.
    """
    if len(machine.processors) == 1:
        return [""]
    found = list(dict.fromkeys(["", machine.half, "pinned", "isolated", "auto"]))
    if is_jvm:
        found.append("isolated,isolate=jvm")
    if len(machine.sockets) > 1:
        found += ["paper", "paired"]
    return found


def thread_counts(machine: Machine, uses_all: bool) -> list[int]:
    """As it is, one, half of the processors, and all of them unless that is what it does anyway."""
    count = len(machine.processors)
    found = {1, count // 2, count} - ({count} if uses_all else set())
    return [0, *sorted(found - {0})]


def cells_of(
    placement: Sequence[str],
    collectors: Sequence[str],
    threads: Sequence[int],
    heaps: Sequence[str],
) -> list[Cell]:
    """All cells, with the program as it is first. A serial collector has one thread anyway."""
    cells = [Cell(*one) for one in product(placement, collectors, threads, heaps)]
    kept = [one for one in cells if one.collector != "Serial" or one.threads == 0]
    return list(dict.fromkeys([REFERENCE, *kept]))
