"""What plots show, without a browser."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import Truth, curves, document, frame, result_set

from gleaner_lab.analysis import Grouped
from gleaner_lab.answers import Row
from gleaner_lab.experiment import Experiment
from gleaner_lab.report import figures, pauses
from gleaner_lab.statistics import Estimate


def grouped(workloads, configurations):
    text = document(workloads, configurations, rounds=2)
    experiment = Experiment.model_validate(text)
    return Grouped(frame(experiment, Truth(experiment, scatter=0.4)), experiment)


@pytest.mark.parametrize(
    ("workloads", "configurations", "screens"), [(1, 2, 1), (3, 9, 1), (30, 3, 3), (60, 2, 2)]
)
def test_a_screen_holds_what_is_seen_at_once_and_is_sorted(workloads, configurations, screens):
    found = figures.screens(grouped(workloads, configurations).lines(), "libgc")
    assert len(found) == screens
    shown = 0
    for screen in found:
        assert len(screen.rows) <= figures.ROWS
        part = []
        for _, estimate in screen.rows:
            if estimate is None:
                part = []
            else:
                shown += 1
                part.append(estimate.value)
                assert part == sorted(part)
    cases = workloads * configurations
    if workloads < figures.ROWS:
        assert shown == cases
    else:
        half = (figures.ROWS - 1) // 2
        assert shown == configurations * 2 * half
        assert f"the {half} least and greatest of {workloads}" in found[0].caption


@given(st.floats(1e-3, 1e3), st.floats(1.05, 1e4))
def test_an_axis_has_some_round_numbers(low, factor):
    ticks = figures.ratio_ticks(low, low * factor)
    assert 2 <= len(ticks) <= 10
    assert ticks == sorted(set(ticks))
    assert all(low <= tick <= low * factor * 1.0001 for tick in ticks)


def test_the_summary_is_sorted_on_a_logarithmic_axis_on_which_1_is_marked():
    rows = [
        Row("slow", Estimate(2.0, 1.5, 2.6, 5), (1.0, 4.0)),
        Row("fast", Estimate(0.5, 0.4, 0.6, 5)),
        Row("once", Estimate(0.9, 0.0, math.inf, 1)),
    ]
    (axes,) = figures.summary(rows, "time").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fast", "once", "slow"]
    assert axes.get_xscale() == "log"
    low, high = axes.get_xlim()
    assert low < 0.4 and high > 4.0
    assert [1.0, 1.0] in [list(line.get_xdata()) for line in axes.get_lines()]
    # A single round has no bar.
    assert len(axes.collections[0].get_segments()) == 2


def test_an_interval_that_says_nothing_does_not_push_the_values_together():
    rows = [
        Row("one", Estimate(0.9, 0.001, 900.0, 2)),
        Row("other", Estimate(0.8, 0.7, 0.9, 5)),
    ]
    (axes,) = figures.summary(rows, "time").axes
    low, high = axes.get_xlim()
    assert low > 0.8 / 4 and high < 4


def test_a_drawing_has_the_colours_of_the_page_and_its_own_without_one():
    text = figures.svg(figures.summary([Row("one", Estimate(0.5, 0.4, 0.6, 5))], "time"))
    assert "var(--live, #0072b2)" in text
    assert "fill: #ffffff" not in text


def test_pauses_of_rounds_are_put_together_by_their_medians(tmp_path):
    def fixed(source, seconds, variant):
        fixed.round += 1
        return {
            "moments": [[0.1, 0.002], [0.5, 0.001 * fixed.round]],
            "spread": [[50, 0.001 * fixed.round], [100, 0.01 * fixed.round]],
            "utilisation": [[0.01, 0.1 * fixed.round]],
        }

    fixed.round = 0
    text = document(workloads=1, rounds=3, canary_every=None)
    text["configurations"] = {"libgc": {"library": "stock"}}
    text["bars"] = []
    results = result_set(tmp_path / "runs", text, pauses=fixed)
    found = Grouped(results.table(), Experiment.model_validate(text))
    runs = found.runs[~found.runs["control"]].sort_values("round")
    medians = sorted(runs["pauses.spread"])[1]
    (one,) = pauses.curves(found, "m", "workload-0, 1 thread")
    assert [[percent, took] for percent, took in one.spread] == pytest.approx(
        [pytest.approx(pair) for pair in eval(medians)]
    )
    assert one.moments[0] == (0.1, 0.002)
    assert len(one.utilisation) == 1


def test_the_longest_pauses_are_drawn_and_what_has_no_moments_has_no_timeline(tmp_path):
    text = document(workloads=5)
    results = result_set(tmp_path / "runs", text, pauses=curves)
    found = Grouped(results.table(), Experiment.model_validate(text))
    drawn = list(pauses.drawings(found))
    lines = found.lines("longest_pause_s")
    longest = sorted(
        {line.group for line in lines},
        key=lambda group: (
            -max(line.medians["longest_pause_s"] for line in lines if line.group == group)
        ),
    )
    assert [heading for heading, _ in drawn] == [f"Pauses of {group}" for group in longest[:2]]
    for _, figure in drawn:
        # A timeline of gleaner, none of libgc, the distribution and the utilisation.
        assert len(figure.axes) == 3
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        assert legend == ["libgc", "gleaner"]
    assert list(pauses.drawings(grouped(2, 2))) == []
