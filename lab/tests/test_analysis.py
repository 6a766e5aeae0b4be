import math

import pandas as pd
import pytest

from gleaner_lab import analysis
from gleaner_lab.experiment import Experiment


def experiment_of(**statistics):
    return Experiment.model_validate(
        {
            "name": "e",
            "title": "t",
            "question": "q",
            "workloads": ["a", "b"],
            "configurations": {"one": {}, "other": {"options": {"sweep": "eager"}}},
            "statistics": {"baseline": "one", **statistics},
            "bars": [{"configuration": "other", "below": 0.95}],
        }
    )


def frame_of(*runs):
    """Rows from (machine, workload, variant, control, round, seconds, collections, threads)."""
    rows = []
    for machine, workload, variant, control, number, seconds, collections, threads in runs:
        group = f"{workload}, {threads} thread{'s' if threads > 1 else ''}"
        rows.append(
            {
                "key": f"{group}: {variant} {control} {machine} | round {number}",
                "machine": machine,
                "group": group,
                "workload": workload,
                "threads": threads,
                "variant": variant,
                "control": control,
                "round": number,
                "canary": math.nan,
                "counted": False,
                "values.cpu_s": seconds,
                "values.collections": collections,
                "problem": None if seconds is not None else "crashed",
                "output": None if seconds is None else "1 bytes",
            }
        )
    return pd.DataFrame(rows)


def rounds(machine, workload, variant, seconds, collections=5, control=False, threads=1):
    return [
        (machine, workload, variant, control, number, one, collections, threads)
        for number, one in enumerate(seconds)
    ]


def find(lines, **wanted):
    (line,) = [line for line in lines if all(getattr(line, k) == v for k, v in wanted.items())]
    return line


def test_runs_of_two_machines_are_never_put_together():
    frame = frame_of(
        *rounds("slow", "a", "one", [10.0, 10.2]),
        *rounds("slow", "a", "other", [9.0, 9.1]),
        *rounds("fast", "a", "one", [1.0, 1.1]),
        *rounds("fast", "a", "other", [2.0, 2.1]),
    )
    lines = analysis.lines_of(frame, experiment_of())
    assert len(lines) == 4
    slow = find(lines, machine="slow", variant="other")
    fast = find(lines, machine="fast", variant="other")
    assert slow.ratio.value == pytest.approx(0.896, abs=0.01)
    assert fast.ratio.value == pytest.approx(1.95, abs=0.05)
    assert {mean.machine for mean in analysis.means_of(lines, experiment_of())} == {"slow", "fast"}


def test_only_rounds_with_equal_counts_are_paired():
    frame = frame_of(
        *rounds("m", "a", "one", [1.0, 1.0, 1.0, 1.0]),
        ("m", "a", "other", False, 0, 0.9, 5, 1),
        ("m", "a", "other", False, 1, 0.1, 4, 1),
        ("m", "a", "other", False, 2, 0.9, 5, 1),
        ("m", "a", "other", False, 3, 7.0, 6, 1),
    )
    line = find(analysis.lines_of(frame, experiment_of(equal="collections")), variant="other")
    assert line.ratio.runs == 2
    assert line.ratio.value == pytest.approx(0.9)
    assert line.mean.runs == 4


def test_another_library_is_compared_whatever_it_counted():
    frame = frame_of(
        *rounds("m", "a", "one", [1.0, 1.0], collections=5),
        *rounds("m", "a", "rival", [2.0, 2.0], collections=9),
    )
    experiment = experiment_of(equal="collections")
    document = experiment.model_dump(exclude_unset=True)
    document["configurations"]["rival"] = {"library": "stock"}
    line = find(analysis.lines_of(frame, Experiment.model_validate(document)), variant="rival")
    assert (line.ratio.runs, line.ratio.value) == (2, pytest.approx(2.0))


def test_a_failed_run_takes_its_round_out_and_is_counted():
    frame = frame_of(
        ("m", "a", "one", False, 0, 1.0, 5, 1),
        ("m", "a", "one", False, 1, None, None, 1),
        ("m", "a", "one", False, 2, 1.0, 5, 1),
        *rounds("m", "a", "other", [0.9, 0.5, 0.9]),
    )
    lines = analysis.lines_of(frame, experiment_of())
    assert find(lines, variant="one").failed == 1
    other = find(lines, variant="other")
    assert (other.ratio.runs, other.ratio.value) == (2, pytest.approx(0.9))
    assert analysis.failures_by_cell(frame)[0]["problem"] == "crashed"


def test_outliers_are_left_out_of_means_but_not_of_lines():
    frame = frame_of(
        *rounds("m", "a", "one", [1.0, 1.0]),
        *rounds("m", "a", "other", [0.5, 0.5]),
        *rounds("m", "b", "one", [1.0, 1.0]),
        *rounds("m", "b", "other", [9.0, 9.0]),
    )
    experiment = experiment_of(outliers={"b": "allocates nothing"})
    lines = analysis.lines_of(frame, experiment)
    assert find(lines, workload="b", variant="other").ratio.value == pytest.approx(9)
    means = {mean.variant: mean for mean in analysis.means_of(lines, experiment)}
    assert means["other"].ratio.value == pytest.approx(0.5)
    assert means["other"].workloads == 1


def test_a_bar_of_the_mean_may_be_about_some_workloads():
    frame = frame_of(
        *rounds("m", "a", "one", [1.0, 1.0]),
        *rounds("m", "a", "other", [0.5, 0.5]),
        *rounds("m", "b", "one", [1.0, 1.0]),
        *rounds("m", "b", "other", [2.0, 2.0]),
    )
    document = experiment_of().model_dump(exclude_unset=True)
    bar = {"configuration": "other", "below": 0.9, "of": "mean"}
    document["bars"] = [bar, {**bar, "workloads": ["a"]}]
    everything, some = analysis.judge(frame, Experiment.model_validate(document))
    assert (everything.what, some.what) == ("geometric mean of 2", "geometric mean of 1")
    assert everything.estimate.value == pytest.approx(1.0)
    assert some.estimate.value == pytest.approx(0.5)


def test_a_bar_may_be_about_a_number_of_collecting_threads():
    frame = frame_of(
        *rounds("m", "a", "one", [1.0, 1.0], threads=1),
        *rounds("m", "a", "other", [0.5, 0.5], threads=1),
        *rounds("m", "a", "one", [1.0, 1.0], threads=2),
        *rounds("m", "a", "other", [2.0, 2.0], threads=2),
    )
    document = experiment_of().model_dump(exclude_unset=True)
    document["threads"] = [1, 2]
    bar = {"configuration": "other", "below": 0.9}
    document["bars"] = [
        {**bar, "threads": 1},
        {**bar, "threads": 2},
        {**bar, "of": "set", "threads": 2},
        {**bar, "of": "set"},
    ]
    one, two, set_of_two, both = analysis.judge(frame, Experiment.model_validate(document))
    assert (one.what, two.what) == ("a, 1 thread", "a, 2 threads")
    assert (one.estimate.value, two.estimate.value) == (pytest.approx(0.5), pytest.approx(2.0))
    assert set_of_two.what == "geometric mean of these 1, 2 threads"
    assert set_of_two.estimate.value == pytest.approx(2.0)
    assert both.what == "geometric mean of these 2"
    assert both.estimate.value == pytest.approx(1.0)


def test_a_bar_of_a_set_has_the_interval_of_rounds_and_counts_rounds_of_all_workloads():
    frame = frame_of(
        *rounds("m", "a", "one", [1.0, 1.0, 1.0, 1.0]),
        *rounds("m", "a", "other", [0.25, 0.25, 0.26, 9.0]),
        *rounds("m", "b", "one", [1.0, 1.0, 1.0]),
        *rounds("m", "b", "other", [4.0, 4.1, 4.0]),
    )
    document = experiment_of().model_dump(exclude_unset=True)
    bar = {"configuration": "other", "below": 1.1, "of": "set"}
    document["bars"] = [bar, {**bar, "of": "mean"}, {**bar, "workloads": ["a"]}]
    both, spread, alone = analysis.judge(frame, Experiment.model_validate(document))
    assert both.what == "geometric mean of these 2"
    assert both.estimate.runs == 3
    assert both.estimate.value == pytest.approx(((0.25 * 0.26) ** 0.5 * 4.0) ** 0.5)
    assert both.verdict.word == "met"
    assert spread.verdict.word == "undecided"
    assert alone.estimate.runs == 4


def test_a_row_that_rounds_decide_is_not_grey_however_much_the_machine_drifts():
    drifting = [1.0, 2.0, 1.1, 1.9, 1.0, 2.1]
    frame = frame_of(
        *rounds("m", "a", "one", drifting),
        *rounds("m", "a", "other", [seconds * 0.8 for seconds in drifting]),
    )
    line = find(analysis.lines_of(frame, experiment_of()), variant="other")
    assert line.mean.width > 0.2
    assert line.ratio.high < 1
    assert not line.grey


def test_wide_ratios_that_decide_nothing_are_grey_by_the_experiments_rule():
    frame = frame_of(
        *rounds("m", "a", "one", [1.0, 1.0]),
        *rounds("m", "a", "other", [0.5, 1.5]),
    )
    assert find(analysis.lines_of(frame, experiment_of()), variant="other").grey
    lenient = experiment_of(grey_above=None)
    assert not find(analysis.lines_of(frame, lenient), variant="other").grey


def test_bars_are_judged_for_each_workload():
    frame = frame_of(
        *rounds("m", "a", "one", [1.0, 1.0, 1.0]),
        *rounds("m", "a", "other", [0.90, 0.91, 0.92]),
        *rounds("m", "b", "one", [1.0, 1.0, 1.0]),
        *rounds("m", "b", "other", [0.90, 0.94, 0.98]),
    )
    judged = analysis.judge(frame, experiment_of())
    words = {one.what: one.verdict.word for one in judged}
    assert words == {"a, 1 thread": "met", "b, 1 thread": "undecided"}
    assert analysis.status_of(judged, 0) == 3
    assert analysis.status_of(judged[:1], 0) == 0
    assert analysis.status_of(judged[:1], 1) == 1
    (nothing,) = analysis.judge(frame.iloc[0:0], experiment_of())
    assert (nothing.verdict.word, nothing.verdict.reason) == ("undecided", "no runs")
    slower = frame.copy()
    slower.loc[slower["variant"] == "other", "values.cpu_s"] += 0.2
    judged = analysis.judge(slower, experiment_of())
    assert {one.verdict.word for one in judged} == {"violated"}
    assert analysis.status_of(judged, 0) == 1


def test_a_bar_of_a_value_is_about_the_metric_itself_which_may_be_0():
    frame = frame_of(
        *rounds("m", "a", "one", [0.0, 0.0, 0.0]),
        *rounds("m", "b", "one", [0.0, 0.0, 0.3]),
        *rounds("m", "a", "other", [0.5, 0.51, 0.49]),
        *rounds("m", "b", "other", [None, None, None]),
    )
    document = experiment_of().model_dump(exclude_unset=True)
    zero = {"configuration": "one", "figure": "value", "below": 0}
    half = {"configuration": "other", "figure": "value", "above": 0.4}
    document["bars"] = [zero, half, {**half, "above": 0.6}]
    judged = analysis.judge(frame, Experiment.model_validate(document))
    assert [(one.what[0], one.verdict.word) for one in judged] == [
        ("a", "met"),
        ("b", "undecided"),
        ("a", "met"),
        ("b", "undecided"),
        ("a", "violated"),
        ("b", "undecided"),
    ]
    assert judged[2].estimate.value == pytest.approx(0.5)
    # The mean is 0.1 and the deviation 0.17: the interval leaves 0 in 15 rounds.
    assert "about 15 would decide" in judged[1].verdict.reason
    assert judged[0].bar.shown == "one: cpu_s at most 0"
    assert judged[2].bar.shown == "other: cpu_s 0.4 or more"


def test_a_machine_with_too_few_processors_cannot_violate_a_bar():
    frame = frame_of(
        *rounds("m", "a", "one", [1.0, 1.0, 1.0]),
        *rounds("m", "a", "other", [0.9, 0.9, 0.9]),
    )
    document = experiment_of().model_dump(exclude_unset=True)
    document["bars"] = [
        {"configuration": "other", "below": bar, "processors": 16} for bar in (0.8, 0.95)
    ]
    experiment = Experiment.model_validate(document)
    for processors, word in ((2, "undecided"), (16, "violated")):
        judged = analysis.judge(frame, experiment, {"m": {"processors": processors}})
        assert [one.verdict.word for one in judged] == [word, "met"]
    judged = analysis.judge(frame, experiment, {"m": {"processors": 2}})
    assert "on 2 processors, and the bar is about 16" in judged[0].verdict.reason


def test_the_canary_shows_drift_and_counts_for_nothing_else():
    frame = frame_of(*rounds("m", "a", "one", [1.0, 1.1, 1.2]))
    frame["canary"] = [0.0, 1.0, 2.0]
    frame["started"] = ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]
    assert analysis.lines_of(frame, experiment_of()) == []
    drift = analysis.drift_of(frame, "cpu_s")
    assert drift["relative"].tolist() == pytest.approx([1 / 1.1, 1.0, 1.2 / 1.1])


def test_a_bar_against_rivals_leaves_out_those_that_do_not_finish():
    experiment = Experiment.model_validate(
        {
            "name": "e",
            "title": "t",
            "question": "q",
            "workloads": ["a", "b"],
            "configurations": {name: {} for name in ["ours", "wide", "quick", "slow", "fails"]},
            "statistics": {"baseline": "wide"},
            "bars": [
                {
                    "configuration": "ours",
                    "below": 0.8,
                    "against": ["quick", "slow", "fails"],
                    "workloads": ["a"],
                }
            ],
        }
    )
    frame = frame_of(
        *rounds("m", "a", "wide", [1.0, 1.0]),
        *rounds("m", "a", "ours", [1.0, 1.0]),
        *rounds("m", "a", "quick", [1.1, 1.1]),
        *rounds("m", "a", "slow", [2.0, 2.0]),
        *rounds("m", "a", "fails", [None, None]),
        *rounds("m", "b", "ours", [1.0, 1.0]),
        *rounds("m", "b", "slow", [2.0, 2.0]),
    )
    judged = {one.what: one.verdict.word for one in analysis.judge(frame, experiment)}
    assert judged == {
        "a, 1 thread against quick": "violated",
        "a, 1 thread against slow": "met",
    }
    document = experiment.model_dump(exclude_unset=True)
    (bar,) = document["bars"]
    document["bars"] = [{**bar, "of": "mean", "workloads": []}]
    means = analysis.judge(frame, Experiment.model_validate(document))
    assert [one.what for one in means] == [
        "geometric mean of 1 against quick",
        "geometric mean of 2 against slow",
    ]
    assert [one.estimate.value for one in means] == pytest.approx([1 / 1.1, 0.5])
