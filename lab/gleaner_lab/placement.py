"""The findings of the OOPSLA 2012 paper on where threads run, tried on our runs.

A finding (lab/papers/placement-findings.yaml) has one statement or more. It is reproduced if all of
them hold, and not reproduced if one does not hold; what cannot be tested leaves that to the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gleaner_lab.report.modelled import Page, Table
from gleaner_lab.tried import COLUMNS, LEAST_ROUNDS, Finding, Runs, Statement, judge, statements

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
    """What came of each finding, with what stood for what its statements are about."""
    parts: dict[int, list[Finding]] = {}
    for one in found:
        assert one.statement.finding is not None
        parts.setdefault(one.statement.finding, []).append(one)
    return {number: _together(statements) for number, statements in sorted(parts.items())}


def _together(found: Sequence[Finding]) -> str:
    """What several statements come to. Those that cannot be tested leave that to the others."""
    words = {one.verdict for one in found}
    word = next(shown for verdict, shown in WORDS.items() if verdict in words)
    if "cannot be tested here" in words and len(words) > 1:
        word += ", as far as it can be tested here"
    proxies = dict.fromkeys(proxy for one in found for proxy in one.proxies)
    return word + (f" ({'; '.join(proxies)})" if proxies else "")


def _rounds(found: Sequence[Finding], number: int) -> str:
    """The fewest rounds of any statement of a finding that runs could try."""
    theirs = [one for one in found if one.statement.finding == number]
    tried = [one.tried.rounds for one in theirs if isinstance(one.statement, Statement)]
    return str(min(tried)) if tried else ""


def page(found: Sequence[Finding], command: str) -> Page:
    """The findings as a page."""
    rows = [[str(one.statement.finding), *one.cells] for one in found]
    head = ["finding", *COLUMNS]
    whole = [[str(one), word, _rounds(found, one)] for one, word in verdicts(found).items()]
    return Page(
        name=FILE,
        title="Findings about where threads run",
        notes=[
            "Statements of the OOPSLA 2012 paper (lab/papers/placement-findings.yaml), with their "
            "numbers there. One holds if the whole interval of our figure, of 90 % as in the "
            "paper, lies within its bounds, and does not hold if none of it does; fewer than "
            f"{LEAST_ROUNDS} rounds decide nothing. A finding is reproduced if all of its "
            "statements hold, and not reproduced if one does not hold.",
            "A verdict names in parentheses what stood for what this machine has not. Where a "
            "share of the processor's time stands for a lower clock, a thread that never waits "
            "takes twice as long at half speed, also where it waits for memory. Beside each mean "
            "stand the program that loses most, and the mean without the one that moves it most.",
        ],
        tables=[
            Table("verdicts", "The fourteen findings", ["finding", "verdict", "rounds"], whole),
            Table("statements", "Their statements, tried on our runs", head, rows),
        ],
        figures={},
        command=command,
        label="measured",
    )
