import itertools
import math
from collections import Counter

import numpy as np
import pytest

from gleaner_lab.cells import cells_of
from gleaner_lab.experiment import Experiment
from gleaner_lab.schedule import tasks_of
from gleaner_lab.statistics import paired_ratio


def experiment_of(**changes):
    fields = {
        "name": "e",
        "title": "t",
        "question": "q",
        "workloads": ["a", "b", "c"],
        "configurations": {"one": {}, "other": {"options": {"sweep": "eager"}}},
        "repetitions": 12,
        "canary_every": None,
        "statistics": {"baseline": "one"},
    }
    return Experiment.model_validate({**fields, **changes})


def schedule(experiment):
    return tasks_of(experiment, list(cells_of(experiment)))


def test_each_round_runs_each_cell_once():
    experiment = experiment_of()
    tasks = schedule(experiment)
    cells = [cell.key for cell in cells_of(experiment)]
    assert len(tasks) == 12 * len(cells)
    for number in range(12):
        part = tasks[number * len(cells) : (number + 1) * len(cells)]
        assert sorted(task.cell.key for task in part) == sorted(cells)
        assert {task.round for task in part} == {number}


def test_the_order_changes_from_round_to_round_and_is_repeatable():
    experiment = experiment_of()
    tasks = schedule(experiment)
    assert [task.key for task in tasks] == [task.key for task in schedule(experiment)]
    first = Counter(
        next(task.cell.variant for task in tasks if task.round == number and not task.cell.control)
        for number in range(12)
    )
    assert len(first) == 2
    other = schedule(experiment_of(seed=1))
    assert [task.key for task in tasks] != [task.key for task in other]


def test_cells_of_a_group_stay_together():
    tasks = schedule(experiment_of())
    groups = [task.cell.group for task in tasks]
    changes = sum(one != other for one, other in itertools.pairwise(groups))
    assert changes <= 12 * 3


def test_the_canary_runs_first_and_regularly():
    tasks = schedule(experiment_of(canary_every=10))
    canaries = [number for number, task in enumerate(tasks) if task.canary is not None]
    assert canaries[0] == 0
    assert all(b - a == 11 for a, b in itertools.pairwise(canaries))
    assert len({task.key for task in tasks}) == len(tasks)
    assert {tasks[number].cell.variant for number in canaries} == {"one"}


class DriftingMachine:
    """A simulated machine that becomes slower with each run and has a slow phase now and then."""

    def __init__(self, seed):
        self.source = np.random.default_rng(seed)
        self.runs = 0

    def time_of(self, true_time):
        self.runs += 1
        drift = 1 + 0.006 * self.runs + 0.1 * (math.sin(self.runs / 5) > 0.7)
        return true_time * drift * self.source.lognormal(0, 0.01)


TRUE = {"one": 1.0, "other": 0.9}


def test_interleaving_recovers_a_ratio_that_naive_order_gets_wrong():
    experiment = experiment_of(workloads=["a"], repetitions=60)
    machine, interleaved = DriftingMachine(1), {}
    for task in schedule(experiment):
        if not task.cell.control:
            time = machine.time_of(TRUE[task.cell.variant])
            interleaved[task.cell.variant, task.round] = time
    machine, naive = DriftingMachine(1), {}
    for variant in TRUE:
        for number in range(60):
            naive[variant, number] = machine.time_of(TRUE[variant])

    def ratio(times):
        series = [[times[name, number] for number in range(60)] for name in ("other", "one")]
        return paired_ratio(*series, 0.95)

    good, bad = ratio(interleaved), ratio(naive)
    assert good.value == pytest.approx(0.9, abs=0.02)
    assert good.low <= 0.9 <= good.high
    # One after the other, the better configuration looks worse, and confidently so.
    assert bad.low > 1.0
