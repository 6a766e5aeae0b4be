"""The papers' tables as data, and whether their printed means follow from their rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gleaner_lab import yaml12
from gleaner_lab.failure import Failure, nearest
from gleaner_lab.tree import ROOT, data

if TYPE_CHECKING:
    # Each command asks which tables there are; what reads them takes half a second to load.
    import pandas as pd

DIRECTORY = data("papers", ROOT)


@dataclass(frozen=True)
class Table:
    """One table: its rows, the summary as printed, and what is known to be wrong."""

    name: str
    facts: dict[str, Any]
    rows: pd.DataFrame
    summary: pd.DataFrame | None

    @property
    def caption(self) -> str:
        """Where it is from."""
        return f"{self.facts['paper']}, {self.facts['table']}"

    @property
    def benchmarks(self) -> list[str]:
        """The names of the rows, which are in the first column."""
        return [str(name) for name in self.rows.iloc[:, 0]]

    @property
    def columns(self) -> list[str]:
        """The columns of figures; the first column names the rows."""
        return [str(column) for column in self.rows.columns[1:]]


@cache
def index() -> dict[str, Any]:
    """All tables by name."""
    return yaml12.load((DIRECTORY / "index.yaml").read_text(encoding="utf-8"))


def read(name: str) -> Table:
    """One table."""
    facts = index().get(name)
    if facts is None:
        raise Failure(f"no table {name} among {', '.join(index())}{nearest(name, index())}")
    summary = facts.get("summary")
    return Table(name, facts, _csv(name), _csv(summary) if summary else None)


@cache
def names(table: str) -> tuple[list[str], list[str]]:
    """The benchmarks of a table and its columns, without what reads the figures."""
    with (DIRECTORY / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    return [row[0] for row in rows if row], head[1:]


def _csv(name: str) -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(DIRECTORY / f"{name}.csv")


@dataclass(frozen=True)
class Mismatch:
    """A printed summary that does not follow from the rows."""

    table: str
    scope: str
    statistic: str
    column: str
    printed: float
    computed: float

    @property
    def key(self) -> tuple[str, str, str]:
        """What `faults` in the index names it by."""
        return self.scope, self.statistic, self.column


def mismatches(table: Table) -> Iterator[Mismatch]:
    """Each printed summary that differs from the computed one by more than the table's rounding."""
    import pandas as pd

    if table.summary is None:
        return
    for _, line in table.summary.iterrows():
        scope = str(line.get("scope", "all"))
        rows = _scope(table, scope)
        for column in table.summary.columns:
            if column in ("scope", "statistic") or column not in rows:
                continue
            printed = pd.to_numeric(line[column], errors="coerce")
            if np.isnan(printed):
                continue
            computed = _statistic(table, str(line["statistic"]))(rows[column])
            if abs(computed - printed) > table.facts["within"]:
                yield Mismatch(table.name, scope, line["statistic"], column, printed, computed)


def _scope(table: Table, scope: str) -> pd.DataFrame:
    rows = table.rows[~table.rows["benchmark"].isin(table.facts.get("outliers", {}))]
    if scope == "all" or "groups" not in table.facts:
        return rows
    suites = _csv(table.facts["groups"]).set_index("benchmark")["suite"]
    return rows[rows["benchmark"].map(suites).str.startswith(scope)]


def _statistic(table: Table, name: str) -> Callable[[pd.Series], float]:
    if name == "geomean" and table.facts.get("geometric") != "percent":
        return _geometric_improvement
    known: dict[str, Callable[[pd.Series], float]] = {
        "min": lambda values: float(values.min()),
        "max": lambda values: float(values.max()),
        "mean": lambda values: float(values.mean()),
        "geomean": _geometric_overhead,
    }
    return known[name]


def _geometric_improvement(percents: pd.Series) -> float:
    """The geometric mean of improvements: an improvement of p % leaves 1 - p/100 of the time."""
    left = np.exp(np.mean(np.log(1 - percents / 100)))
    return float((1 - left) * 100)


def _geometric_overhead(percents: pd.Series) -> float:
    """The geometric mean of overheads: an overhead of p % takes 1 + p/100 of the time."""
    return float((np.exp(np.mean(np.log(1 + percents / 100))) - 1) * 100)
