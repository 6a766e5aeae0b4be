"""Result sets that nobody measured, whose truth is known.

A report of 6,000 runs, and how long it takes:

target/lab/venv/bin/python lab/tests/simulated.py target/lab/simulated 60 10 10
time target/lab/venv/bin/gleaner-lab report target/lab/simulated
"""

import json
import math
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from ruamel.yaml import YAML

from gleaner_lab import runner, schedule
from gleaner_lab.cells import cells_of
from gleaner_lab.experiment import Experiment
from gleaner_lab.store import ResultSet

FACTS = {"processor": "A processor that is made up", "processors": 2, "kernel": "6.1", "host": "h"}
PHASES = ("mark", "sweep", "roots", "stop-world", "resume-world", "weak", "reclaim", "end")


def document(workloads=3, configurations=2, rounds=5, **more):
    """An experiment with so many of each."""
    names = [f"workload-{number}" for number in range(workloads)]
    return {
        "name": "simulated",
        "title": "An experiment that is made up",
        "question": "Do the sentences say what is true?",
        "workloads": names,
        "configurations": {
            "libgc": {"library": "stock"},
            **{"gleaner" + (f"-{n}" if n > 1 else ""): {} for n in range(1, configurations)},
        },
        "repetitions": rounds,
        "statistics": {"baseline": "libgc"},
        "bars": [{"configuration": "gleaner", "below": 1.0}],
        **more,
    }


class Truth:
    """How much of the baseline's time a configuration takes on a workload, and the noise."""

    def __init__(self, experiment, seed=0, ratios=None, scatter=0.0, noise=0.03, drift=0.05):
        self.source = np.random.default_rng(seed)
        self.noise, self.drift = noise, drift
        names = [one.name for one in experiment.workloads]
        self.base = {name: math.exp(self.source.normal(0, 1)) for name in names}
        wanted, baseline = ratios or {}, experiment.statistics.baseline
        self.logs = {
            (name, variant): 0.0
            if variant == baseline
            else math.log(wanted.get(variant, 1.0)) + self.source.normal(0, scatter)
            for name, variant in product(names, experiment.variants())
        }

    def seconds(self, task, drifts):
        """The time of one run: rounds drift as a whole, and each run is noisy."""
        name, variant = task.cell.workload.name, task.cell.variant
        shared = drifts.setdefault((task.round, name), self.source.normal(0, self.drift))
        own = self.source.normal(0, self.noise)
        return self.base[name] * math.exp(self.logs[name, variant] + shared + own)


def records(experiment, truth, machine="m", pauses=None):
    """All runs of the experiment, in its order."""
    drifts = {}
    for number, task in enumerate(schedule.tasks_of(experiment, list(cells_of(experiment)))):
        seconds = truth.seconds(task, drifts)
        pause = 0.1 * seconds
        values = {
            "wall_s": seconds * 1.1,
            "cpu_s": seconds,
            "peak_kb": 20000.0 + 100 * truth.source.random(),
            "collections": 10,
            "longest_pause_s": pause / 4,
            "total_pause_s": pause,
            "mutator_s": seconds * 1.1 - pause,
            "allocated_bytes": 1 << 28,
            **{f"phase.{name}_s": pause / 8 for name in PHASES},
        }
        record = {
            "values": values,
            "output": "1 bytes, 0",
            "command": ["gleaner-bench", "run", "--json", "--library", "gleaner", task.cell.group],
            "machine": machine,
            "build": "b",
        }
        if pauses is not None:
            record["pauses"] = pauses(truth.source, seconds, task.cell.variant)
        yield runner.entry(task, record, 1.8e9 + number)


def curves(source, seconds, variant):
    """Points of curves as gleaner-bench prints them; the installed library tells no moments."""
    took = np.sort(source.lognormal(-6, 0.6, 40)) * (3 if variant == "libgc" else 1)
    percents = [0, 10, 50, 90, 99, 100]
    spread = [[one, float(np.percentile(took, one))] for one in percents]
    if variant == "libgc":
        return {"moments": [], "spread": spread, "utilisation": []}
    moments = [[n * seconds / 40, float(one)] for n, one in enumerate(source.permutation(took))]
    windows = [[w / 1e3, max(0.0, 1 - 4 * took[-1] / (w / 1e3))] for w in (1, 5, 20, 100, 500)]
    return {"moments": moments, "spread": spread, "utilisation": windows}


def frame(experiment, truth, machine="m"):
    """The same as the table of a result set."""
    return pd.json_normalize(list(records(experiment, truth, machine)))


def result_set(path, text, truth=None, pauses=None, machines=("m",)):
    """A result set on the disk, of a document as above."""
    experiment = Experiment.model_validate(text)
    path.mkdir(parents=True)
    with (path / "experiment.yaml").open("w") as file:
        YAML().dump(text, file)
    (path / "form").write_text("1\n")
    results = ResultSet.open(path)
    names = [one.name for one in experiment.workloads]
    with (path / "runs.jsonl").open("w") as journal:
        for one in records(experiment, truth or Truth(experiment), pauses=pauses):
            # A group is of one machine.
            machine = machines[names.index(one["workload"]) % len(machines)]
            journal.write(json.dumps({**one, "machine": machine}) + "\n")
        for machine in machines:
            results.note_machine(machine, FACTS)
    return results


def main(path, workloads, configurations, rounds):
    """Writes a large result set."""
    more = {"statistics": {"baseline": "libgc", "also": ["wall_s", "total_pause_s"]}}
    text = document(workloads, configurations, rounds, **more)
    experiment = Experiment.model_validate(text)
    ratios = {name: 0.6 + 0.1 * n for n, name in enumerate(experiment.variants())}
    result_set(path, text, Truth(experiment, ratios=ratios, scatter=0.3), curves)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
