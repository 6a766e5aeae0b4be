"""What values are called, and in which unit they are shown."""

from __future__ import annotations

from collections.abc import Callable

from gleaner_lab.numa import collection, locality

#: Names of values with their unit and how they are shown.
UNITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "wall_s": ("wall time, s", lambda value: f"{value:.3f}"),
    "cpu_s": ("processor time, s", lambda value: f"{value:.3f}"),
    "mutator_s": ("mutator time, s", lambda value: f"{value:.3f}"),
    "peak_kb": ("peak memory, MB", lambda value: f"{value / 1024:.1f}"),
    "allocated_bytes": ("allocated, MB", lambda value: f"{value / 2**20:.0f}"),
    "collections": ("collections", lambda value: f"{value:.0f}"),
    "longest_pause_s": ("longest pause, ms", lambda value: f"{value * 1e3:.1f}"),
    "total_pause_s": ("all pauses, ms", lambda value: f"{value * 1e3:.0f}"),
    "pauses": ("pauses", lambda value: f"{value:.0f}"),
    "pause_median_s": ("median pause, ms", lambda value: f"{value * 1e3:.2f}"),
    "pause_99_s": ("99 of 100 pauses, ms", lambda value: f"{value * 1e3:.1f}"),
    "utilisation_50_ms": ("least utilisation of 50 ms", lambda value: f"{value:.2f}"),
    "utilisation_200_ms": ("least utilisation of 200 ms", lambda value: f"{value:.2f}"),
    "gb_per_s": ("speed, GB/s", lambda value: f"{value:.1f}"),
    "zeroing_gb_per_s": ("zeroing speed, GB/s", lambda value: f"{value:.1f}"),
    "steps": ("steps", lambda value: f"{value:.0f}"),
    "long_steps_share": ("long steps, share", lambda value: f"{value:.3f}"),
    **{name: (name, lambda value: f"{value:.3f}") for name in locality.METRICS},
    **{name: (name, lambda value: f"{value:.0f}") for name in collection.METRICS},
}


#: In a sentence, what belongs to a configuration.
SPOKEN = {
    "total_pause_s": "total pause time",
    "pauses": "number of pauses",
    "pause_99_s": "99th of 100 pauses",
}


def label(metric: str) -> str:
    """A metric as tables head it, without its unit."""
    if metric.startswith("phase.") and metric.endswith("_s"):
        return f"{metric[6:-2]} phase"
    return UNITS[metric][0].split(", ")[0] if metric in UNITS else metric


def spoken(metric: str) -> str:
    """A metric as it stands in a sentence, be it of the lab or printed by the program."""
    plain = metric.removeprefix("printed.")
    return SPOKEN.get(plain) or label(plain)


def is_time(metric: str) -> bool:
    """Whether it is a time of a whole run, of which several make a sum."""
    return metric.removeprefix("printed.") in ("wall_s", "cpu_s", "mutator_s")


def shown(metric: str, value: float) -> str:
    """A value with its unit; of a metric without one, the number."""
    plain = metric.removeprefix("printed.")
    if plain in UNITS:
        heading, show = UNITS[plain]
        unit = heading.partition(", ")[2]
        return f"{show(value)} {unit}".rstrip()
    if plain.endswith("_s"):
        return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.3f} s"
    return f"{value:.4g}"


def is_more_better(metric: str) -> bool:
    """Whether a larger value is the better one; of most metrics it is the smaller one."""
    plain = metric.removeprefix("printed.")
    return plain.startswith("utilisation") or plain.endswith("_per_s")
