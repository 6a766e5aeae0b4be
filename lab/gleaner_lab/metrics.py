"""Which metrics there are: an experiment that names another one is refused before it runs.

What a program prints is known when it has printed it. So `missing` looks at the first runs, and an
experiment that asks for a number which they do not have ends with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gleaner_lab.numa import collection, locality

#: What is known of every process.
PROCESS = ("wall_s", "cpu_s", "user_s", "system_s", "peak_kb")
#: How pauses are distributed: pages show it where an experiment asks for it (`shown`).
DISTRIBUTION = (
    "pauses",
    "pause_median_s",
    "pause_99_s",
    "utilisation_50_ms",
    "utilisation_200_ms",
    "steps",
    "long_steps_share",
)
#: What a library's log says.
LOGGED = (
    "collections",
    "longest_pause_s",
    "total_pause_s",
    *DISTRIBUTION,
    "allocated_bytes",
    "broken_lines",
    "mutator_s",
)
#: What an event of the log is about (crates/base/src/events.rs).
PHASES = (
    "start",
    "libraries",
    "stop-world",
    "written",
    "prefetch",
    "clear-marks",
    "roots",
    "evacuation",
    "mark",
    "copy",
    "plan",
    "update",
    "slide",
    "mark-step",
    "mark-beside",
    "overflow",
    "weak",
    "pace",
    "cycle-end",
    "verify",
    "snapshot",
    "reclaim",
    "sweep",
    "resize",
    "balance",
    "zeroing",
    "zeroing-ahead",
    "zeroing-stalls",
    "zeroing-kernel",
    "write-watch",
    "resume-world",
    "end",
    "heap-grow",
    "heap-shrink",
    "give-back",
    "external",
    "slow-stop",
    "out-of-memory",
    "fork",
    "options",
    "exit",
)
#: What a program prints is `printed.` and the name of the field.
PRINTED = "printed."


def known() -> list[str]:
    """All metrics that can be told without running a program."""
    phases = (f"phase.{name}_s" for name in PHASES)
    return [*PROCESS, *LOGGED, *phases, *locality.METRICS, *collection.METRICS]


def is_known(metric: str, iteration: int) -> bool:
    """Whether there may be such a metric. The iterations of a process have fields of their own."""
    if iteration > 1:
        return "." not in metric
    return metric in known() or metric.startswith(PRINTED)


def missing(wanted: list[str], values: dict[str, Any], iteration: int) -> Iterator[str]:
    """Of the wanted metrics, what a program should have printed and did not.

    A heap counts by memory node only on a machine with several: without them none is missing.
    """
    for metric in wanted:
        is_printed = metric.startswith(PRINTED) or iteration > 1
        if is_printed and metric not in values:
            yield metric
