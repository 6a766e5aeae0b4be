"""What a run ends with on the terminal: the sentences of the page, and the configurations of each
workload beside each other, where that is readable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gleaner_lab.analysis import Grouped, Line
from gleaner_lab.answers import answers, noises_of, number
from gleaner_lab.units import UNITS

COLOURS = {
    "less": "green",
    "met": "green",
    "more": "red",
    "violated": "red",
    "undecided": "yellow",
}
#: More workloads or configurations than these are for the page.
MOST = 4


def show(console: Console, grouped: Grouped, machines: Mapping[str, Mapping[str, Any]]) -> None:
    """Prints the tables, the noise and the answers."""
    for table in tables(grouped):
        console.print(table)
    for noise in noises_of(grouped).values():
        console.print(noise.sentence, highlight=False, soft_wrap=True)
    for one in answers(grouped, machines):
        colour, text = COLOURS[one.verdict], escape(f"{one.sentence} {one.further}".rstrip())
        console.print(
            f"[{colour}]{one.verdict}[/{colour}]: {text}", highlight=False, soft_wrap=True
        )


def tables(grouped: Grouped) -> list[Table]:
    """A table for each workload: medians, and behind them the ratio over rounds."""
    lines = [line for line in grouped.lines() if not line.control]
    groups = list(dict.fromkeys((line.machine, line.group) for line in lines))
    variants = list(grouped.experiment.variants())
    if len(groups) > MOST or len(variants) > MOST:
        return []
    found = [_table(grouped, group, variants) for group in groups]
    return [table for table in found if table.row_count]


def _table(grouped: Grouped, group: tuple[str, str], variants: list[str]) -> Table:
    baseline = grouped.experiment.statistics.baseline
    title = f"{group[1]}, medians"
    table = Table("(ratio over rounds)", *variants, title=title, title_justify="left")
    for metric, (heading, show_value) in UNITS.items():
        found = {
            line.variant: line
            for line in grouped.lines(metric)
            if (line.machine, line.group) == group and not line.control
        }
        cells = [_cell(found.get(name), show_value, name == baseline) for name in variants]
        if any(cells):
            table.add_row(heading, *cells)
    return table


def _cell(line: Line | None, show_value: Callable[[float], str], is_baseline: bool) -> str:
    if line is None or line.metric not in line.medians:
        return ""
    text = show_value(line.medians[line.metric])
    return text if is_baseline or line.ratio.runs == 0 else f"{text}  ({number(line.ratio.value)})"
