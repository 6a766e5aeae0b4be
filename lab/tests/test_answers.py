"""The sentences of the first screen, without any page."""

import math
import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import Truth, document, frame

from gleaner_lab.analysis import Grouped
from gleaner_lab.answers import QUIET, RESTLESS, Noise, answers, noises_of, number
from gleaner_lab.experiment import Experiment
from gleaner_lab.statistics import rounds_to_decide
from gleaner_lab.tree import ROOT


def simulated(seed=0, noise=0.03, ratios=None, scatter=0.0, drift=0.05, **shape):
    experiment = Experiment.model_validate(document(**shape))
    truth = Truth(experiment, seed, ratios, scatter, noise, drift)
    return Grouped(frame(experiment, truth), experiment)


def table_of(grouped, variant, metric="cpu_s"):
    """The ratios of a configuration by workload and round, straight from the table of the runs."""
    runs = grouped.frame[grouped.frame["canary"].isna() & ~grouped.frame["control"]]
    wide = runs.pivot(index=["workload", "round"], columns="variant", values=f"values.{metric}")
    return (wide[variant] / wide["libgc"]).unstack("round")


def middle(ratios):
    return math.exp(float(np.mean(np.median(np.log(ratios.to_numpy()), axis=1))))


FIGURE = r"(\d+(?:\.\d+)?(?:e-\d+)?)"


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    workloads=st.integers(1, 4),
    configurations=st.integers(2, 3),
    rounds=st.integers(1, 6),
    noise=st.sampled_from([0.001, 0.03, 0.3]),
    ratio=st.sampled_from([0.03, 0.5, 0.97, 1.0, 1.2, 8.0]),
    scatter=st.sampled_from([0.0, 0.5]),
)
def test_each_sentence_agrees_with_the_numbers_below_it(
    seed, workloads, configurations, rounds, noise, ratio, scatter
):
    shape = {"workloads": workloads, "configurations": configurations, "rounds": rounds}
    grouped = simulated(seed, noise, {"gleaner": ratio}, scatter, **shape)
    found = [one for one in answers(grouped) if not one.is_bar]
    assert len(found) == configurations - 1
    for one in found:
        variant = one.sentence.split(" ")[0]
        ratios = table_of(grouped, variant)
        said = re.search(f"takes {FIGURE} of libgc's processor time", one.sentence)[1]
        assert said == number(middle(ratios))
        assert f"; {rounds} round{'s' if rounds > 1 else ''}, " in one.sentence
        ends = re.search(rf"processor time \[{FIGURE}, {FIGURE}\]", one.sentence)
        assert (ends is None) == (rounds < 2)
        if ends is None:
            assert (one.verdict, one.further) == (
                "undecided",
                "A second round would give an interval.",
            )
        else:
            low, high = float(ends[1]), float(ends[2])
            assert 0 <= low <= float(said) <= high
            assert one.verdict == ("less" if high < 1 else "more" if low > 1 else "undecided")
        if workloads > 1:
            members = np.exp(np.median(np.log(ratios), axis=1))
            worst, value = re.search(rf"\(worst (\S+): {FIGURE}", one.sentence).groups()
            assert (worst, value) == (ratios.index[np.argmax(members)], number(members.max()))
            carrier, rest = re.search(rf"; without (\S+): {FIGURE}", one.sentence).groups()
            choose = np.argmin if middle(ratios) < 1 else np.argmax
            assert carrier == ratios.index[choose(members)]
            assert rest == number(middle(ratios.drop(carrier)))
        assert one.rows[0].estimate.value == pytest.approx(middle(ratios))


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), rounds=st.integers(1, 4), workloads=st.integers(1, 3))
def test_absolute_values_have_the_unit_of_the_table(seed, rounds, workloads):
    grouped = simulated(seed, scatter=0.4, workloads=workloads, rounds=rounds)
    (one, *_) = answers(grouped)
    runs = grouped.frame[grouped.frame["canary"].isna() & ~grouped.frame["control"]]
    medians = runs.groupby(["variant", "workload"])["values.cpu_s"].median()
    first = one.values[0]
    sums = [medians[variant].sum() for variant in ("gleaner", "libgc")]
    assert [first.ours, first.theirs] == [f"{seconds:.3f} s" for seconds in sums]
    for value in one.values[1:] if workloads > 1 else ():
        assert value.ours == f"{medians['gleaner', value.what]:.3f} s"


def test_one_case_says_what_else_it_takes():
    grouped = simulated(workloads=1, ratios={"gleaner": 0.5}, noise=0.001)
    (one, _) = answers(grouped)
    assert re.fullmatch(
        r"gleaner takes 0\.50 of libgc's processor time \[0\.50, 0\.50\],"
        r" 0\.50 of its total pause time, 0\.50 of its longest pause and \S+ of its peak memory;"
        r" 5 rounds, quiet machine\.",
        one.sentence,
    )
    assert [value.what for value in one.values] == [
        "processor time",
        "all pauses",
        "longest pause",
        "peak memory",
    ]
    assert one.values[3].ours.endswith(" MB")


@pytest.mark.parametrize("workloads", [1, 3])
def test_verdicts_are_wrong_in_at_most_one_of_twenty(workloads):
    truths = [0.7, 0.95, 1.0, 1.0, 1.05, 1.4]
    text = document(workloads=workloads, rounds=4, canary_every=None)
    experiment = Experiment.model_validate(text)
    right, frames = {}, []
    for seed, truth in product(range(80), truths):
        # Each trial is a machine of its own.
        machine = f"{len(frames)}"
        right[machine] = "less" if truth < 1 else "more" if truth > 1 else "undecided"
        made_up = Truth(experiment, 7 * len(frames) + seed, {"gleaner": truth}, noise=0.08)
        frames.append(frame(experiment, made_up, machine))
    found = answers(Grouped(pd.concat(frames, ignore_index=True), experiment))
    decided = [one for one in found if one.verdict != "undecided"]
    same = {"met": "less", "violated": "more"}
    wrong = {True: 0, False: 0}
    for one in decided:
        is_false = same.get(one.verdict, one.verdict) != right[one.machine]
        wrong[one.is_bar] += is_false and not (one.is_bar and right[one.machine] == "undecided")
    assert max(wrong.values()) <= 0.05 * len(frames)
    # Something is decided at all: 0.7 and 1.4 nearly always are.
    assert sum(not one.is_bar for one in decided) > 0.3 * len(frames)


def test_a_mean_that_one_member_carries_shows_it():
    experiment = Experiment.model_validate(document(workloads=4))
    truth = Truth(experiment, noise=0.001)
    truth.logs["workload-2", "gleaner"] = math.log(0.1)
    (one, _) = answers(Grouped(frame(experiment, truth), experiment))
    assert one.sentence.startswith("gleaner takes 0.56 of libgc's processor time [0.56, 0.56] in")
    assert "without workload-2: 1.00" in one.sentence or "without workload-2: 0.99" in one.sentence
    assert len(one.rows[0].members) == 4


@pytest.mark.parametrize(
    ("noise", "word", "sentence"),
    [
        (0.01, "quiet", "The machine is quiet"),
        (0.07, "restless", "The machine is restless"),
        (0.3, "busy", "This machine is too busy"),
    ],
)
def test_the_baselines_noise_is_told_in_words(noise, word, sentence):
    grouped = simulated(noise=noise, workloads=3, rounds=8)
    (found,) = noises_of(grouped).values()
    assert found.word == word
    assert found.sentence.startswith(f"{sentence}: A/A spans {number(found.low)} to ")
    runs = grouped.frame[grouped.frame["canary"].isna() & (grouped.frame["variant"] == "libgc")]
    wide = runs.pivot(index=["workload", "round"], columns="control", values="values.cpu_s")
    ratios = wide[True] / wide[False]
    assert [found.low, found.high] == pytest.approx(np.percentile(ratios, (5, 95)))


def test_of_another_metric_its_own_noise_is_told():
    also = {"baseline": "libgc", "also": ["total_pause_s", "peak_kb"]}
    grouped = simulated(noise=0.01, statistics=also)
    said = {one.metric: one.sentence for one in answers(grouped) if not one.is_bar}
    assert said.pop("cpu_s").endswith(", quiet machine.")
    assert list(said) == ["total_pause_s", "peak_kb"]
    for metric, sentence in said.items():
        (noise,) = noises_of(grouped, metric).values()
        assert f", its A/A spans {number(noise.low)} to {number(noise.high)}." in sentence


def test_what_a_busy_machine_spans_is_said_as_it_is():
    noise = Noise(0.6, 1.2, 12)
    assert noise.sentence == (
        "This machine is too busy: A/A spans 0.60 to 1.20. End what else runs, and run the "
        "experiment again."
    )
    assert noise.shown == "machine too busy (A/A spans 0.60 to 1.20)"
    assert Noise(math.nan, math.nan, 0).word == "unknown"


def test_an_undecided_answer_says_how_many_rounds_would_decide():
    grouped = simulated(seed=1, noise=0.1, ratios={"gleaner": 0.9}, workloads=1, rounds=4)
    (one, bar) = answers(grouped)
    assert (one.verdict, bar.verdict) == ("undecided", "undecided")
    assert one.further == f"About {one.needed} rounds would decide."
    assert 4 < one.needed < 10_000
    assert bar.needed == one.needed


def test_a_bar_is_decided_when_the_last_of_its_cases_is():
    grouped = simulated(seed=1, noise=0.1, ratios={"gleaner": 1.05}, workloads=3, rounds=4)
    (_, bar) = answers(grouped)
    [rule] = grouped.experiment.bars[:1]
    left = [one for one in grouped.judged() if one.bar == rule and one.verdict.word == "undecided"]
    confidence = grouped.experiment.statistics.confidence
    needed = {rounds_to_decide(one.estimate, rule.below, confidence) for one in left}
    assert len(needed) > 1
    assert bar.needed == max(needed)


def test_a_bar_counts_its_cases_and_names_those_that_do_not_meet_it():
    experiment = Experiment.model_validate(document(workloads=7))
    truth = Truth(experiment, noise=0.001)
    for name, ratio in [(n, 0.5) for n in (0, 2, 3)] + [(n, n + 1) for n in (1, 4, 5, 6)]:
        truth.logs[f"workload-{name}", "gleaner"] = math.log(ratio)
    (_, bar) = answers(Grouped(frame(experiment, truth), experiment))
    assert bar.verdict == "violated"
    assert "met in 3 of 7; violated in 4 of 7 (workload-6, 1 thread: " in bar.sentence
    assert re.findall(r"workload-\d", bar.sentence) == ["workload-6", "workload-5", "workload-4"]
    assert bar.sentence.endswith(" and 1 more).")


def test_bars_about_means_name_the_worst_and_the_mean_without_the_carrier():
    bars = [{"configuration": "gleaner", "below": 0.9, "of": of} for of in ("mean", "set")]
    grouped = simulated(ratios={"gleaner": 0.7}, scatter=0.3, workloads=4, bars=bars)
    found = [one for one in answers(grouped) if one.is_bar]
    assert len(found) == 2
    for one in found:
        assert re.search(rf"\(worst \S+: {FIGURE}; without \S+: {FIGURE}", one.sentence)
    # More rounds do not narrow what differs between workloads.
    assert [one.over for one in found] == ["workloads", "rounds"]


def test_what_never_finished_is_no_ratio():
    experiment = Experiment.model_validate(document(workloads=2))
    runs = frame(experiment, Truth(experiment, noise=0.001))
    failed = (runs["workload"] == "workload-1") & (runs["variant"] == "gleaner")
    names = [name for name in runs if name.startswith("values.")]
    runs.loc[failed, names] = math.nan
    (one, bar) = answers(Grouped(runs, experiment))
    assert ", and no ratio in 1 case; " in one.sentence
    assert "workload-1, 1 thread, which has no figure)" in bar.sentence
    runs.loc[runs["variant"] == "gleaner", names] = math.nan
    (one, _) = answers(Grouped(runs, experiment))
    assert one.sentence == "gleaner has no round to compare with libgc."
    assert (one.verdict, one.further) == ("undecided", "")


def test_machines_have_answers_of_their_own():
    grouped = simulated(ratios={"gleaner": 0.5})
    other = grouped.frame.assign(machine="n")
    other["values.cpu_s"] *= np.where(other["variant"] == "gleaner", 4, 1)
    both = Grouped(pd.concat([grouped.frame, other], ignore_index=True), grouped.experiment)
    machines = {"m": {"processor": "P"}, "n": {"processor": "Q"}}
    found = [one for one in answers(both, machines) if not one.is_bar]
    assert [(one.verdict, one.sentence[:9]) for one in found] == [
        ("less", "On P (m):"),
        ("more", "On Q (n):"),
    ]


def test_quiet_and_restless_are_the_same_everywhere():
    page = " ".join((ROOT / "docs" / "measured.md").read_text().split())
    assert "*quiet* where nine rounds of ten had the baseline within a tenth of itself" in page
    assert "*restless* within a quarter, and else *busy*" in page
    command = (ROOT / "crates" / "cli" / "src" / "compare" / "paragraph.rs").read_text()
    found = re.findall(r"^const (\w+): f64 = ([\d.]+);$", command, re.M)
    assert {name: float(value) for name, value in found if name in ("QUIET", "RESTLESS")} == {
        "QUIET": QUIET,
        "RESTLESS": RESTLESS,
    }
    assert (QUIET, RESTLESS) == (1 + 1 / 10, 1 + 1 / 4)
