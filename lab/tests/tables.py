"""Tables of cells that are made up, on which the advisor's race is tried: the truth is known.

target/lab/venv/bin/python lab/tests/tables.py 12    docs/advise.md: 12 tables a line
"""

import math
import sys
from itertools import product

import numpy as np

from gleaner_lab.advise import race
from gleaner_lab.advise.race import Race, Rules
from gleaner_lab.advise.space import REFERENCE, Cell

#: What the machine does to runs: drift between rounds and a spike now and then, or neighbours that
#: come for some ten runs of every fifty, and slow placements down unequally.
QUIET, NEIGHBOURS = "quiet", "neighbours"
#: Neighbours come before a run, and go, with these probabilities.
COME, GO = 1 / 40, 1 / 10


def truth_of(source, shape=(5, 3, 5)):
    """The logarithms of 75 cells: effects of factors, small heaps that cost much, interactions."""
    levels = [[""] + [f"p{n}" for n in range(1, shape[0])], range(shape[1])]
    heaps = [""] + [f"{n}m" for n in range(1, shape[2])]
    cells = [Cell(place, "", count, heap) for place, count, heap in product(*levels, heaps)]
    effects = [source.normal(0, source.choice([0.01, 0.03, 0.1]), count) for count in shape]
    effects[2] += source.choice([0, 0.3, 1.0]) * np.exp(-1.2 * np.arange(shape[2]))
    whole = effects[0][:, None, None] + effects[1][None, :, None] + effects[2][None, None, :]
    size = source.choice([0, 0.02, 0.05])
    whole = whole + source.normal(0, size, (shape[0], shape[1], 1))
    whole = whole + source.normal(0, size, (1, shape[1], shape[2]))
    whole = whole + source.normal(0, source.choice([0, 0.01, 0.02]), shape)
    return dict(zip(cells, map(float, whole.ravel()), strict=True))


def made_up(seed, noise, machine=QUIET):
    """A table, and what makes runs of its cells."""
    source = np.random.default_rng(seed)
    truth, drift = truth_of(source), {}
    touchy = {one.placement: source.choice([0.5, 1.0, 2.0]) for one in truth if one.placement}
    now = {"busy": False, "drift": 0.0}

    def moment(cell, number):
        if machine == QUIET:
            return drift.setdefault(number, source.normal(0, 0.02))
        now["drift"] += source.normal(0, 0.004)
        if source.random() < (GO if now["busy"] else COME):
            now["busy"] = not now["busy"]
        share = touchy.get(cell.placement, 1.0) * abs(source.normal(0.25, 0.12))
        return now["drift"] + share * now["busy"]

    def make(cell, number):
        spike = source.exponential(0.5) if source.random() < 0.03 else 0
        value = truth[cell] + moment(cell, number) + source.normal(0, noise) + spike
        return {"values": {"wall_s": math.exp(value)}}

    return truth, make


def raced(seed, noise, machine=QUIET, **rules):
    """A race over such a table: the regret, and the race."""
    truth, make = made_up(seed, noise, machine)
    found = Race(list(truth), Rules(seed=seed, **rules))
    standing = found.run(make)[0]
    return truth[standing.best] - min(truth.values()), found, standing


def exhausted(seed, noise, machine):
    """The regret of what is best by the medians of an exhaustive measurement."""
    truth, make = made_up(seed, noise, machine)
    order, runs = np.random.default_rng(seed), {cell: [] for cell in truth}
    for number in range(race.REPETITIONS):
        for index in order.permutation(len(runs)):
            cell = [*runs][index]
            runs[cell].append(make(cell, number)["values"]["wall_s"])
    best = min(runs, key=lambda cell: float(np.median(runs[cell])))
    return truth[best] - min(truth.values())


def within(regrets):
    """How many are within 3 % of the best, and the mean regret."""
    count = sum(one <= math.log(1.03) for one in regrets)
    return f"{count} of {len(regrets)}, {np.expm1(np.mean(regrets)):.1%}"


def main(seeds, machines):
    """Prints the table."""
    for machine, noise in product(machines, (0.02, 0.05, 0.08)):
        found = [raced(seed + 2000, noise, machine) for seed in range(seeds)]
        spent = np.mean([one.spent / len(one.cells) / race.REPETITIONS for _, one, _ in found])
        held = np.mean([regret <= math.log1p(one.regret) + 1e-9 for regret, _, one in found])
        worse = 0
        for seed, (_, _, standing) in enumerate(found):
            truth, _ = made_up(seed + 2000, noise, machine)
            worse += truth[standing.best] - truth[REFERENCE] > math.log(1.01)
        columns = [
            machine,
            f"{noise:.0%}",
            within([regret for regret, _, _ in found]),
            within([exhausted(seed + 2000, noise, machine) for seed in range(seeds)]),
            f"{spent:.0%}",
            f"{held:.0%}",
            f"{worse}",
        ]
        print(f"| {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or [QUIET, NEIGHBOURS])
