"""Runs that were never made, for tests of what is told of runs."""

import pandas as pd

from gleaner_lab.analysis import groups_of
from gleaner_lab.tried import Runs


def runs_of(experiment, metrics, nodes=1, has_frequency=False):
    """Runs of an experiment with these values of metrics, by workload and variant, each round."""
    rows = []
    for workload, variants in metrics.items():
        (group,) = (name for name in groups_of(experiment) if name.split(" ")[0] == workload)
        for variant, rounds in variants.items():
            for number, values in enumerate(rounds):
                row = {
                    "key": f"{group}: {variant} | {number}",
                    "machine": "m",
                    "group": group,
                    "workload": workload,
                    "variant": variant,
                    "control": False,
                    "canary": None,
                    "counted": False,
                    "round": number,
                }
                rows.append(row | {f"values.{name}": value for name, value in values.items()})
    return Runs(experiment, pd.DataFrame(rows), nodes, has_frequency)
