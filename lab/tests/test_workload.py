"""What is made of what a run printed."""

import json

import pytest

from gleaner_lab import metrics
from gleaner_lab.workload import read_line


def test_a_result_is_what_must_be_the_same():
    printed = {"result": "17", "wall_s": 1.0}
    line = json.dumps({"wall_s": 2.0, "output": "9 bytes, 1", "printed": printed})
    assert read_line(line, "", 0, True, 1)["output"] == "17"


def test_what_a_run_counts_of_synchronisation_gives_metrics():
    names = ("phases", "tasks", "wakeups", "lock_acquisitions", "failed_cas")
    counted = {name: number for number, name in enumerate(names)}
    counted |= {"task_queue": "locked", "parking": "monitor"}
    printed = {"collections": 3, "synchronisation": counted}
    line = {"wall_s": 2.0, "cpu_s": 1.0, "peak_kb": 1, "printed": printed}
    values = read_line(json.dumps(line), "", 0, True, 1)["values"]
    assert [values[f"synchronisation.{name}"] for name in names] == [0, 1, 2, 3, 4]
    assert all(metrics.is_known(f"synchronisation.{name}", 1) for name in names)
    assert not metrics.is_known("synchronisation.parking", 1)
    counted["wakeups"] = 0.5
    problem = read_line(json.dumps(line), "", 0, True, 1)["problem"]
    assert problem.startswith("what it printed: synchronisation: wakeups is 0.5")


def test_what_a_run_counts_by_memory_node_gives_metrics():
    even, alone = [[1, 1], [1, 1]], [[5, 0], [0, 5]]
    counted = {"nodes": 2, "workers": 4, "scanned": even, "copied": alone, "updated": even}
    counted |= {"scanned_young": even, "copied_from": alone, "promoted": even}
    printed = {"collections": 3, "locality": {**counted, "eden_pages": [3, 1]}}
    line = {"wall_s": 2.0, "cpu_s": 1.0, "peak_kb": 1, "printed": printed}
    values = read_line(json.dumps(line), "", 0, True, 1)["values"]
    assert values["imbalance.eden"] == pytest.approx(0.5)
    assert values["non-locality.scanned"] == pytest.approx(0.5)
    assert values["non-locality.copied"] == 0
    assert values["printed.collections"] == 3
    printed["locality"]["copied"] = [[1]]
    record = read_line(json.dumps(line), "", 0, True, 1)
    assert record == {"problem": "what it printed: locality: copied has 1 x 1, not 2 x 2"}


def test_the_mutator_has_the_time_outside_of_pauses():
    collector = {"collections": 3, "total_pause_s": 0.5, "phase_s": {"mark": 0.25}}
    line = {"wall_s": 2.0, "cpu_s": 1.0, "peak_kb": 1, "collector": collector}
    values = read_line(json.dumps(line), "", 0, False, 1)["values"]
    assert (values["mutator_s"], values["phase.mark_s"]) == (1.5, 0.25)
    # Pauses of several clocks may come to more than the run.
    collector["total_pause_s"] = 2.5
    assert read_line(json.dumps(line), "", 0, False, 1)["values"]["mutator_s"] == 0
