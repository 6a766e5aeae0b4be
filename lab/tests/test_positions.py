import json

import pandas as pd
import pytest

from gleaner_lab import experiment, positions
from gleaner_lab.report import figures
from gleaner_lab.workload import read_line


def test_a_report_on_arrays_gives_metrics():
    report = {"accesses": 8, "lazy": None, "is_cut": True, "positions": [2, 0, 2, 4], "types": []}
    printed = {"array_report": report}
    line = {"wall_s": 2.0, "cpu_s": 1.0, "peak_kb": 1, "printed": printed}
    values = read_line(json.dumps(line), "", 0, True, 1)["values"]
    found = {name: value for name, value in values.items() if "array_report" in name}
    assert found == {
        "printed.array_report.accesses": 8,
        "printed.array_report.below_0": 25,
        "printed.array_report.below_1": 25,
        "printed.array_report.below_2": 50,
        "printed.array_report.below_3": 100,
    }


@pytest.mark.parametrize("report", [{}, {"positions": []}, {"positions": [0, 0]}])
def test_of_no_access_no_share_is_known(report):
    assert positions.figures(report) == {}


def test_curves_are_the_baselines_and_their_mean(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\ntitle: t\nquestion: q\n"
        "workloads: [{name: a, command: [a]}, {name: b, command: [b]}, {name: c, command: [c]}]\n"
        "configurations: {one: {library: none}, two: {library: none}}\n"
        "statistics: {baseline: one}\n"
    )
    rows = [("a", "one", 10, 100), ("b", "one", 30, 100), ("b", "two", 99, 100)]
    names = ["workload", "variant", *(f"values.{positions.BELOW}{power}" for power in (0, 1))]
    frame = pd.DataFrame([*rows, ("c", "one", None, None)], columns=names)
    found = positions.curves(frame, experiment.read(path))
    assert [(one.name, one.shares) for one in found] == [
        ("a", [10, 100]),
        ("b", [30, 100]),
        ("mean", [20, 100]),
    ]
    assert "accesses below" in figures.svg(figures.positions(found))
    assert positions.curves(frame[names[:2]], experiment.read(path)) == []
