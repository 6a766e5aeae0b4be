"""A result set in the forms of other programs: CSV, and the JSON of hyperfine and of JMH.

In the JSON a cell is a benchmark, and its controls, canaries, counted and failed runs are left out;
CSV has all runs, with the load of the machine before and after each, and what the host took from it
(`around.`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from gleaner_lab import analysis, statistics
from gleaner_lab.experiment import Experiment
from gleaner_lab.failure import Failure
from gleaner_lab.store import ResultSet

#: JMH's own percentiles of a score.
PERCENTILES = (0.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 100.0)
#: JMH's confidence of a score.
CONFIDENCE = 0.999
#: Figures beside the time, as JMH's secondary metrics: the name, the unit.
SECONDARY = {"cpu_s": "s/op", "peak_kb": "KB", "total_pause_s": "s/op", "longest_pause_s": "s"}


def text_of(results: ResultSet, form: str) -> str:
    """The result set in a form of `FORMS`."""
    frame = results.table()
    if frame.empty:
        raise Failure(f"{results.path} has no runs yet: gleaner-lab resume {results.path}")
    return FORMS[form](frame, results.read_experiment())


def _csv(frame: pd.DataFrame, _: Experiment) -> str:
    return frame.to_csv(index=False, lineterminator="\n")


def _hyperfine(frame: pd.DataFrame, experiment: Experiment) -> str:
    """As `hyperfine --export-json` writes it, with the wall time of each run in seconds."""
    found = []
    for runs, parameters in _cells(frame, experiment):
        times = _values(runs, "wall_s")
        found.append(
            {
                "command": f"{runs['group'].iloc[0]}: {runs['variant'].iloc[0]}",
                "mean": float(np.mean(times)),
                "stddev": float(np.std(times, ddof=1)) if len(times) > 1 else None,
                "median": float(np.median(times)),
                "user": _mean(_values(runs, "user_s")),
                "system": _mean(_values(runs, "system_s")),
                "min": min(times),
                "max": max(times),
                "times": times,
                "memory_usage_byte": [round(1024 * one) for one in _values(runs, "peak_kb")],
                # A run that failed is none of these.
                "exit_codes": [0] * len(times),
                "parameters": parameters,
            }
        )
    return json.dumps({"results": found}, indent=2) + "\n"


def _jmh(frame: pd.DataFrame, experiment: Experiment) -> str:
    """As `-rf json` writes it: each run is a fork with one iteration, a single shot."""
    found = []
    for runs, parameters in _cells(frame, experiment):
        further = {
            name: _score(_values(runs, name), unit)
            for name, unit in SECONDARY.items()
            if _values(runs, name)
        }
        found.append(
            {
                "benchmark": f"{experiment.name}.{parameters.pop('workload')}",
                "mode": "ss",
                "threads": 1,
                "forks": len(runs),
                "warmupIterations": experiment.warm_up,
                "warmupTime": "single-shot",
                "warmupBatchSize": 1,
                "measurementIterations": 1,
                "measurementTime": "single-shot",
                "measurementBatchSize": 1,
                "params": parameters,
                "primaryMetric": _score(_values(runs, "wall_s"), "s/op"),
                "secondaryMetrics": further,
            }
        )
    return json.dumps(found, indent=2) + "\n"


FORMS = {"csv": _csv, "hyperfine": _hyperfine, "jmh": _jmh}


def _cells(
    frame: pd.DataFrame, experiment: Experiment
) -> Iterator[tuple[pd.DataFrame, dict[str, str]]]:
    """The runs of each cell that worked, in the experiment's order, and what the cell is."""
    machines = frame["machine"].nunique()
    if machines > 1:
        raise Failure(
            f"the runs are of {machines} machines, which these forms cannot tell apart: export "
            "them as csv"
        )
    column = "values.wall_s"
    good = frame[frame["canary"].isna() & ~frame["counted"] & ~frame["control"]]
    if column not in good or (good := good.dropna(subset=[column])).empty:
        raise Failure("no run has a wall time: export the result set as csv")
    variants = list(experiment.variants())
    for group in analysis.groups_of(experiment):
        part = good[good["group"] == group]
        for variant in variants:
            runs = part[part["variant"] == variant]
            if not runs.empty:
                yield runs, _parameters(runs.iloc[0])


def _parameters(run: pd.Series) -> dict[str, str]:
    found = {"workload": str(run["workload"]), "configuration": str(run["variant"])}
    if pd.notna(run.get("threads")):
        found["threads"] = str(int(run["threads"]))
    if pd.notna(run.get("multiple")):
        found["heap"] = f"{run['multiple']:g} x minimum"
    return found


def _values(runs: pd.DataFrame, metric: str) -> list[float]:
    column = f"values.{metric}"
    return [float(one) for one in runs[column].dropna()] if column in runs else []


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _score(values: list[float], unit: str) -> dict[str, Any]:
    mean = float(np.mean(values))
    error = None
    if len(values) > 1:
        error = statistics.half_interval(np.asarray(values), CONFIDENCE)
    # JMH writes what it does not know as a string.
    ends = ["NaN", "NaN"] if error is None else [mean - error, mean + error]
    return {
        "score": mean,
        "scoreError": "NaN" if error is None else error,
        "scoreConfidence": ends,
        "scorePercentiles": {str(one): float(np.percentile(values, one)) for one in PERCENTILES},
        "scoreUnit": unit,
        "rawData": [[one] for one in values],
    }
