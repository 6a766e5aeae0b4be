import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gleaner_lab import statistics

positive = st.floats(0.01, 1e6)


def test_the_mean_has_students_interval():
    values = [9.8, 10.4, 10.1, 9.6, 10.6]
    for confidence in (0.90, 0.95):
        estimate = statistics.mean_of(values, confidence)
        expected = stats.ttest_1samp(values, 0).confidence_interval(confidence)
        assert estimate.value == pytest.approx(10.1)
        assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high))


def test_a_known_interval_by_hand():
    # Deviation 1, four degrees of freedom: 2.776445 / sqrt(5).
    values = [10 + d for d in (-1.264911, -0.632456, 0, 0.632456, 1.264911)]
    estimate = statistics.mean_of(values, 0.95)
    assert estimate.high - 10 == pytest.approx(2.776445 / math.sqrt(5), rel=1e-5)


def test_one_value_has_no_bound_and_none_has_no_mean():
    assert statistics.mean_of([3.0], 0.95).high == math.inf
    assert math.isnan(statistics.mean_of([], 0.95).value)
    assert statistics.paired_ratio([2.0], [1.0], 0.95).high == math.inf
    single = statistics.paired_ratio([0.5], [1.0], 0.95)
    assert statistics.judge(single, 1.1).word == "undecided"


@given(
    st.lists(positive, min_size=2, max_size=30),
    st.lists(positive, min_size=2, max_size=30),
    st.sampled_from([0.9, 0.95, 0.99]),
)
def test_no_interval_of_a_ratio_is_negative_and_each_holds_its_value(top, bottom, confidence):
    count = min(len(top), len(bottom))
    for ratio in (
        statistics.ratio_of_means(top, bottom, confidence),
        statistics.paired_ratio(top[:count], bottom[:count], confidence),
        statistics.geometric_mean_of(top, confidence),
        statistics.geometric_mean_of_set([dict(enumerate(top)), dict(enumerate(bottom))], 0.95),
    ):
        assert 0 <= ratio.low <= ratio.value <= ratio.high


def test_the_ratio_of_means_holds_the_truth_as_often_as_it_says():
    source = np.random.default_rng(3)
    held = 0
    for _ in range(2000):
        noise = source.lognormal(0, 0.1, size=(2, 10))
        ratio = statistics.ratio_of_means(0.7 * noise[0], noise[1], 0.95)
        held += ratio.low <= 0.7 <= ratio.high
    assert 0.94 < held / 2000 < 0.985


def test_the_ratio_of_means_is_theirs():
    ratio = statistics.ratio_of_means([2.0, 2.2, 1.8], [4.0, 4.0, 4.0], 0.95)
    assert ratio.value == pytest.approx(0.5)
    # The deviation of 0.2 is a tenth of 2, the baseline has none; three runs have a t of 4.303.
    margin = 4.3027 * 0.1 / math.sqrt(3)
    assert math.log(ratio.high / ratio.value) == pytest.approx(margin, rel=1e-4)


def test_a_round_that_is_far_off_does_not_move_a_ratio():
    for far in (100.0, 0.01):
        ratio = statistics.paired_ratio([1.0, 1.02, 0.98, 1.01, far], [2.0] * 5, 0.95)
        assert ratio.value == pytest.approx(0.505 if far > 1 else 0.5)


def test_the_interval_of_a_mean_over_given_workloads_is_that_of_independent_means():
    means = [statistics.Estimate(10, 9, 11, 5), statistics.Estimate(20, 17, 23, 4)]
    whole = statistics.mean_of_set(means)
    margin = math.hypot(1, 3) / 2
    assert (whole.value, whole.low, whole.high) == pytest.approx((15, 15 - margin, 15 + margin))
    assert whole.runs == 4


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=30))
def test_a_ratio_turns_over_with_its_sides(pairs):
    top, bottom = zip(*pairs, strict=True)
    one = statistics.paired_ratio(top, bottom, 0.95)
    other = statistics.paired_ratio(bottom, top, 0.95)
    assert one.low * other.high == pytest.approx(1, rel=1e-6)
    assert one.low <= one.high


@given(st.lists(positive, min_size=1, max_size=30), st.floats(0.1, 10))
def test_a_ratio_does_not_depend_on_what_the_rounds_have_in_common(values, factor):
    ratio = statistics.paired_ratio([value * factor for value in values], values, 0.95)
    assert ratio.value == pytest.approx(factor)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    source = np.random.default_rng(11)
    held = 0
    for _ in range(2000):
        noise = source.lognormal(0, 0.1, size=(2, 8))
        ratio = statistics.paired_ratio(1.2 * noise[0], noise[1], 0.95)
        held += ratio.low <= 1.2 <= ratio.high
    assert 0.935 < held / 2000 < 0.965


def test_series_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="2 values cannot be paired with 1"):
        statistics.paired_ratio([1, 2], [1], 0.95)


def test_geometric_means():
    assert statistics.geometric_mean([0.5, 2.0]) == pytest.approx(1)
    estimate = statistics.geometric_mean_of([0.5, 2.0, 1.0], 0.95)
    assert estimate.value == pytest.approx(1)
    assert estimate.low < 1 < estimate.high


@pytest.mark.parametrize(
    ("below", "above", "word"),
    [
        (1.11, None, "met"),
        (1.10, None, "undecided"),
        (1.0, None, "undecided"),
        (0.99, None, "violated"),
        (None, 1.0, "met"),
        (None, 1.01, "undecided"),
        (None, 1.11, "undecided"),
        (None, 1.12, "violated"),
    ],
)
def test_a_bar_is_met_or_violated_by_the_whole_interval(below, above, word):
    estimate = statistics.Estimate(1.05, 1.0, 1.11, 10)
    assert statistics.judge(estimate, below, above).word == word


def test_an_undecided_bar_says_how_many_rounds_it_would_take():
    source = np.random.default_rng(7)
    noise = source.lognormal(0, 0.1, size=20_000)
    for truth, word in ((0.97, "met"), (1.03, "violated")):
        ten = statistics.paired_ratio(truth * noise[:10], np.ones(10), 0.95)
        # The same noise, but with the middle where the truth is.
        shift = truth / math.sqrt(ten.low * ten.high)
        ten = statistics.Estimate(truth, ten.low * shift, ten.high * shift, 10)
        verdict = statistics.judge(ten, 1.0)
        assert verdict.word == "undecided"
        needed = statistics.rounds_to_decide(ten, 1.0, 0.95)
        assert f"about {needed} would decide" in verdict.reason
        assert 10 < needed < 300
        # Twice as many do decide.
        more = truth * noise[: 2 * needed] / statistics.geometric_mean(noise[: 2 * needed])
        many = statistics.paired_ratio(more, np.ones(2 * needed), 0.95)
        assert statistics.judge(many, 1.0).word == word


def test_no_number_of_rounds_decides_what_lies_on_the_bar():
    estimate = statistics.Estimate(1.0, 0.9, 1 / 0.9, 5)
    assert "more than 10000 would decide" in statistics.judge(estimate, 1.0).reason
    assert statistics.rounds_to_decide(statistics.Estimate(1, 0, math.inf, 1), 1.1, 0.95) is None


def test_wide_intervals_are_grey():
    estimate = statistics.Estimate(1.0, 0.89, 1.11, 5)
    assert estimate.is_grey(0.2)
    assert not estimate.is_grey(0.25)
    assert not estimate.is_grey(None)
    # It is wide, but says which side is less.
    assert not statistics.Estimate(2.0, 1.1, 3.6, 5).is_grey(0.2)
    assert not statistics.Estimate(0.5, 0.1, 0.9, 5).is_grey(0.2)


def test_what_took_no_time_has_no_ratio():
    ratio = statistics.paired_ratio([0.0, 2.0, 1.0, 4.0], [1.0, 1.0, 0.0, 2.0], 0.95)
    assert (ratio.value, ratio.runs) == (2.0, 2)
    assert statistics.ratio_of_means([1.0], [0.0, 0.0], 0.95).runs == 0
