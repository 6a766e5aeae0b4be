"""The findings of the PLDI 2010 paper, tried on our runs (lab/papers/zrays-findings.yaml)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gleaner_lab.report.modelled import Page, Table
from gleaner_lab.tried import COLUMNS, LEAST_ROUNDS, Finding, Runs, judge, statements

FILE = "zrays-findings"


def findings(runs: Mapping[str, Runs]) -> list[Finding]:
    """All statements, tried on these runs."""
    return [judge(one, runs) for one in statements(FILE)]


def page(found: Sequence[Finding], command: str) -> Page:
    """The findings as a page."""
    rows = [one.cells for one in found]
    caption = "The paper's findings, tried on our runs"
    return Page(
        name=FILE,
        title="Findings about arrays in pieces",
        notes=[
            "Statements of the PLDI 2010 paper (lab/papers/zrays-findings.yaml). One holds if the "
            "whole 95 % interval of our figure lies within its bounds, and does not hold if none "
            f"of it does; fewer than {LEAST_ROUNDS} rounds decide nothing. Means are about these "
            "workloads, most of which were chosen for their large arrays, and not about all "
            "programs: the intervals are those of the rounds. Beside each mean stand the workload "
            "that loses most, or saves least, and the mean without the one that moves it most."
        ],
        tables=[Table("findings", caption, COLUMNS, rows)],
        figures={},
        command=command,
        label="measured",
    )
