"""The space: placements, numbers of collector threads and heap sizes multiply into cells."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from gleaner_lab.failure import Failure, nearest

FAMILIES = ("none", "paper", "pinned", "isolated", "paired", "auto")
#: Up to so many processors HotSpot collects with one thread for each.
ALL_COLLECT = 8


@dataclass(frozen=True)
class Cell:
    """One candidate."""

    #: Options of `gleaner place`, such as `placement=isolated,isolate=collector`.
    placement: str = "placement=none"
    #: 0 leaves their number to the program.
    collectors: int = 0
    #: A multiple of the minimum heap; None leaves it as it is.
    heap: float | None = None

    @property
    def key(self) -> str:
        """Its identity, as it is shown, too."""
        count = "as they are" if self.collectors == 0 else str(self.collectors)
        heap = "as it is" if self.heap is None else f"{self.heap:g} x minimum"
        placement = self.placement.removeprefix("placement=")
        return f"{placement} | collectors {count} | heap {heap}"

    @property
    def levels(self) -> tuple[str, int, float | None]:
        """What it has of each factor."""
        return self.placement, self.collectors, self.heap


#: The program as it is run now.
REFERENCE = Cell()


@dataclass(frozen=True)
class Machine:
    """The processors that may be used, by socket."""

    sockets: tuple[tuple[int, ...], ...]

    @property
    def processors(self) -> list[int]:
        """All of them."""
        return [one for socket in self.sockets for one in socket]

    @property
    def half(self) -> tuple[list[int], str] | None:
        """What is left when about half is idle, and in words what is idle; not of one processor."""
        if len(self.sockets) > 1:
            kept = self.sockets[: (len(self.sockets) + 1) // 2]
            idle = len(self.sockets) - len(kept)
            what = f"{idle} of {len(self.sockets)} sockets"
            return [one for socket in kept for one in socket], what
        count = len(self.processors)
        if count < 2:
            return None
        return self.processors[: count - count // 2], f"{count // 2} of {count} processors"

    @classmethod
    def here(cls) -> Machine:
        """This machine, as far as this process may use it."""
        sockets: dict[str, list[int]] = {}
        for processor in sorted(os.sched_getaffinity(0)):
            path = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/physical_package_id")
            try:
                name = path.read_text().strip()
            except OSError:
                name = ""
            sockets.setdefault(name, []).append(processor)
        return cls(tuple(map(tuple, sockets.values())))


def placements(
    families: Sequence[str], own: Sequence[str], runtime: str, processors: int
) -> list[str]:
    """The placements of these families with the values of their options that make sense here."""
    second = [f"pinned,first-core={processors // 2}"] if processors > 1 else []
    jvm = ["isolated,isolate=jvm", "isolated,isolate=collector+compiler"]
    variants = {
        "none": ["none"],
        "paper": ["paper"],
        "pinned": ["pinned", *second, "pinned,pin=collector", "pinned,pin=application"],
        "isolated": ["isolated", *(jvm if runtime == "jvm" else []), "isolated,isolate=nongc"],
        "paired": ["paired"],
        "auto": ["auto"],
    }
    for family in families:
        if family not in variants:
            raise Failure(
                f"--placements: there is no placement {family}{nearest(family, FAMILIES)} "
                f"(there are {', '.join(FAMILIES)}; options of one go into --placement)"
            )
    names = [one for family in families for one in variants[family]]
    names += [one.removeprefix("placement=") for one in own]
    return [f"placement={one}" for one in dict.fromkeys(names)]


def collector_counts(runtime: str, processors: int) -> list[int]:
    """As it is, one, half the processors and all of them, if the runtime can be asked."""
    if runtime == "other":
        return [0]
    counts = [0, 1, processors // 2, processors]
    if runtime in ("jvm", "libgc") and processors <= ALL_COLLECT:
        # That is what it does anyway.
        counts.remove(processors)
    return sorted({one for one in counts if one > 0} | {0})


def cells_of(
    placement: Sequence[str], collectors: Sequence[int], heaps: Sequence[float | None]
) -> list[Cell]:
    """All cells, with the program as it is first."""
    cells = [Cell(*one) for one in product(placement, collectors, heaps)]
    return list(dict.fromkeys([REFERENCE, *cells]))
