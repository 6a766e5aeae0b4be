"""When an experiment stops before all its rounds are made, and why looking early misleads nobody.

If an experiment stopped after the first round whose interval of 95 % lies on one side of a bar, it
would be wrong far more often than in 5 % of all cases: each look is another chance to be misled.
So the looks are few, and their schedule is known before the first run: at most N rounds are made,
and what they say is looked at after N, N/2, N/4, ... of them. The error that the experiment allows,
1 - `confidence`, is shared equally among the looks (Bonferroni; the shares of Pocock, Biometrika
1977, are a little larger): with N = 40, intervals of 98.75 % at 5, 10, 20 and 40 rounds in place of
95 %. By the union bound the error of all looks together is that of one look at 95 %, however the
looks depend on each other. All intervals of the experiment are that wide, in its report, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gleaner_lab.analysis import Judged
    from gleaner_lab.experiment import Bar, Experiment

#: Fewer rounds are not looked at: their intervals are too wide to decide anything.
LEAST = 5


def looks(most: int) -> list[int]:
    """After how many rounds is looked, of at most so many."""
    found = [most]
    while (half := -(-found[0] // 2)) >= LEAST and half < found[0]:
        found.insert(0, half)
    return found


def looks_of(experiment: Experiment, made: int = 0) -> list[int]:
    """The looks of an experiment that are not behind so many rounds; one unless it may stop."""
    most = experiment.repetitions
    if experiment.until is None:
        return [most]
    return [look for look in looks(most) if look >= made] or [most]


def adjusted(experiment: Experiment) -> Experiment:
    """The experiment with the confidence that each look must have for all of them to be right."""
    if experiment.until is None:
        return experiment
    rules = experiment.statistics
    error = (1 - rules.confidence) / len(looks(experiment.repetitions))
    rules = rules.model_copy(update={"confidence": 1 - error})
    return experiment.model_copy(update={"statistics": rules})


def awaited(experiment: Experiment) -> list[Bar]:
    """The bars that are waited for. Rounds do not narrow the spread over workloads of a mean."""
    bars = experiment.bars if experiment.until == "all" else experiment.bars[:1]
    return [bar for bar in bars if bar.of != "mean"]


def is_decided(experiment: Experiment, judged: Sequence[Judged]) -> bool:
    """Whether no bar that is waited for is undecided."""
    bars = awaited(experiment)
    return not any(one.bar in bars and one.verdict.word == "undecided" for one in judged)
