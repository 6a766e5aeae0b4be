"""The findings of the OOPSLA 2012 paper on where threads run, tried on our runs.

A finding (lab/papers/placement-findings.yaml) has one statement or more. It is reproduced if all of
them hold, and not reproduced if one does not hold; what cannot be tested leaves that to the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gleaner_lab.report.modelled import Page, Table
from gleaner_lab.tried import Finding, Runs, judge, statements

FILE = "placement-findings"
#: Verdicts on statements, the one that decides a finding first, and what they are called there.
WORDS = {
    "does not hold": "not reproduced",
    "undecided": "undecided",
    "holds": "reproduced",
    "cannot be tested here": "cannot be tested here",
}


def findings(runs: Mapping[str, Runs]) -> list[Finding]:
    """All statements, tried on these runs."""
    return [judge(one, runs) for one in statements(FILE)]


def verdicts(found: Sequence[Finding]) -> dict[int, str]:
    """What came of each finding."""
    parts: dict[int, set[str]] = {}
    for one in found:
        assert one.statement.finding is not None
        parts.setdefault(one.statement.finding, set()).add(one.verdict)
    all_of = {}
    for number, words in sorted(parts.items()):
        word = next(shown for verdict, shown in WORDS.items() if verdict in words)
        is_part = "cannot be tested here" in words and len(words) > 1
        all_of[number] = f"{word}, as far as it can be tested here" if is_part else word
    return all_of


def page(found: Sequence[Finding], command: str) -> Page:
    """The findings as a page."""
    rows = [
        [
            str(one.statement.finding),
            one.statement.says,
            one.statement.section,
            one.shown_bounds,
            one.ours,
            one.verdict,
            one.reason,
        ]
        for one in found
    ]
    head = ["finding", "the paper says", "section", "holds if ours is", "ours", "verdict"]
    whole = [[str(number), word] for number, word in verdicts(found).items()]
    return Page(
        name=FILE,
        title="Findings about where threads run",
        notes=[
            "Statements of the OOPSLA 2012 paper (lab/papers/placement-findings.yaml), with their "
            "numbers there. One holds if the whole interval of our figure, of 90 % as in the "
            "paper, lies within its bounds, and does not hold if none of it does. A finding is "
            "reproduced if all of its statements hold, and not reproduced if one does not hold. "
            "Cores are made slow by their frequency where the kernel has control of it, and "
            "elsewhere CPU bandwidth control stands in for that, as the log of a run tells."
        ],
        tables=[
            Table("verdicts", "The fourteen findings", ["finding", "verdict"], whole),
            Table(
                "statements",
                "Their statements, tried on our runs",
                [*head, "what ours is, or why there is none"],
                rows,
            ),
        ],
        figures={},
        command=command,
        label="measured",
    )
