import math

import bench
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gleaner_lab import cli, commands
from gleaner_lab import experiment as experiments
from gleaner_lab.analysis import failures_of
from gleaner_lab.failure import Failure
from gleaner_lab.heap import GRANULE, EqualPeak, Sample, minimum_heap
from gleaner_lab.store import ResultSet


@given(st.integers(1, 1 << 32), st.integers(1, 1 << 30))
def test_the_minimum_heap_works_and_little_less_does_not(true_minimum, start):
    found = minimum_heap(lambda limit: limit >= true_minimum, start)
    if found is None:
        assert true_minimum > start << 10
        return
    limit, tried = found
    assert limit >= true_minimum
    assert limit - true_minimum <= max(GRANULE, 0.02 * limit)
    assert tried < 40


def test_a_program_that_never_works_has_no_minimum():
    assert minimum_heap(lambda _: False, 1 << 20) is None


def model(live_kb, spike_kb=0):
    """A collector whose peak goes with the divisor, up to the limit; small heaps cost time."""

    def measure(options):
        divisor = options.get("free-space-divisor", 3)
        peak = live_kb * (1 + 2 / divisor) + spike_kb
        limit_kb = options.get("heap-limit", math.inf) / 1024
        if limit_kb < live_kb * 1.05:
            return None
        return Sample(min(peak, limit_kb), 1 + divisor / 10)

    return measure


@pytest.mark.parametrize("wanted", [1.1, 1.3, 1.5, 2.0, 2.9])
def test_equal_peaks_are_reached(wanted):
    setting = EqualPeak(model(100_000), 100_000 * wanted, 0.03).run()
    assert setting.reached
    assert setting.peak_kb == pytest.approx(100_000 * wanted, rel=0.03)


def test_a_limit_beats_a_large_divisor():
    setting = EqualPeak(model(100_000), 108_000, 0.03).run()
    assert setting.options == {"heap-limit": setting.options["heap-limit"]}


def test_what_cannot_be_reached_is_said_to_be_missed():
    setting = EqualPeak(model(100_000), 50_000, 0.03).run()
    assert not setting.reached
    assert setting.peak_kb >= 100_000


def test_nothing_works():
    setting = EqualPeak(lambda _: None, 1000, 0.03).run()
    assert not setting.reached


def test_a_guess_that_is_right_is_the_result():
    runs = []

    def measure(options):
        runs.append(options)
        return model(100_000)(options)

    wanted = model(100_000)({"free-space-divisor": 5}).peak_kb
    guess = {"free-space-divisor": 5}
    setting = EqualPeak(measure, wanted, 0.03, guesses=[{"heap-limit": 1 << 40}, guess]).run()
    assert (setting.options, setting.reached) == (guess, True)
    # The first guess is far off and is run once.
    assert runs == [{"heap-limit": 1 << 40}, guess, guess, guess]


def test_heaps_are_multiples_of_the_minimum_and_what_has_none_is_named(tmp_path):
    path, tool, out = (
        bench.experiment(tmp_path, "needs, steady", 2),
        bench.make(tmp_path),
        tmp_path / "out",
    )
    path.write_text(path.read_text() + "heap: {mode: times-minimum, multiples: [1.5, 3]}\n")
    assert cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)]) == 1
    results = ResultSet.open(out)
    found = results.heaps()["minimum of needs, 1 thread"]
    assert 3_000_000 <= found < 3_200_000
    limits = {
        word.partition("=")[2]
        for record in results.records()
        if record["workload"] == "needs"
        for word in record["command"]
        if "heap-limit=" in word
    }
    assert limits == {str(int(found * 1.5)), str(int(found * 3))}
    problems = failures_of(results.table())
    assert set(problems["workload"]) == {"steady"}
    assert problems["problem"].str.contains("something else sizes its heap").all()


def test_a_workload_without_a_minimum_is_named_with_the_cause(tmp_path):
    path, tool, out = (
        bench.experiment(tmp_path, "crashes", 1),
        bench.make(tmp_path),
        tmp_path / "out",
    )
    path.write_text(path.read_text() + "heap: {mode: times-minimum, multiples: [2]}\n")
    assert cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)]) == 1
    problems = failures_of(ResultSet.open(out).table())["problem"]
    assert problems.str.contains("minimum of crashes, 1 thread: it does not finish").all()
    assert problems.str.contains("up to 64 GB: .*SIG|up to 64 GB: .*signal").all(), list(problems)


def test_a_baseline_that_does_not_finish_is_named_and_the_rest_stands(tmp_path):
    path, tool, out = (
        bench.experiment(tmp_path, "crashes, steady", 1),
        bench.make(tmp_path),
        tmp_path / "out",
    )
    path.write_text(path.read_text() + "heap: {mode: equal-peak, within: 0.2}\n")
    assert cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)]) == 1
    results = ResultSet.open(out)
    problems = failures_of(results.table())
    assert set(problems["workload"]) == {"crashes"}
    assert problems["problem"].str.contains("the baseline does not finish").any()
    assert any("problem" not in record for record in results.records())


PEAKS = """\
name: machines
title: The same program on machines of other sizes
question: How long does it take in as much memory as another machine has?
workloads: [{name: program, command: [program], measure: process}]
configurations:
  small: {library: none, prefix: [peak=8000]}
  large: {library: none, prefix: [peak=20000]}
  as-small: {library: none, prefix: ["heap={heap}"]}
  as-large: {library: none, prefix: ["heap={heap}"], peak_of: large}
heap: {mode: equal-peak}
repetitions: 1
log: false
canary_every: null
statistics: {baseline: small, metric: wall_s}
"""


def test_a_program_of_neither_library_gets_the_peak_of_the_configuration_that_it_names(tmp_path):
    path, tool, out = tmp_path / "machines.yaml", bench.make(tmp_path), tmp_path / "out"
    path.write_text(PEAKS)
    assert cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)]) == 0
    words = {
        record["variant"]: record["command"][record["command"].index("--") + 1]
        for record in ResultSet.open(out).records()
    }
    assert words == {
        "small": "peak=8000",
        "large": "peak=20000",
        "as-small": "heap=5",
        "as-large": "heap=17",
    }


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("peak_of: large", "peak_of: larger", "no larger among as-large"),
        ("mode: equal-peak", "mode: default", "only heap.mode equal-peak"),
    ],
)
def test_the_peak_of_a_configuration_that_is_not_there_is_refused(before, after, said):
    with pytest.raises(Failure, match=said):
        experiments.parse(PEAKS.replace(before, after), cli.find("minheap"))


def test_some_numbers_of_threads_alone_are_run():
    path = cli.find("libgc-clients")
    read = experiments.parse(commands.changed(path, {"threads": ["2"]}), path)
    assert read.threads == [2]
    assert {bar.threads for bar in read.bars} == {None, 2}
    with pytest.raises(Failure, match=r"nothing runs with 3 collecting threads: .* has 1 and 2"):
        commands.changed(path, {"threads": ["3"]})


def test_heaps_of_some_multiples_alone_are_run():
    path = cli.find("placement-startup")
    text = commands.changed(path, {"multiples": [1.5, 3.0], "iteration": 5})
    read = experiments.parse(text, path)
    assert (read.heap.multiples, read.iteration) == ([1.5, 3], 5)
    for name, said in [("placement-startup", "has 1.5 and 2 and 3"), ("boehm-table1", "has none")]:
        with pytest.raises(Failure, match=f"no heaps of 7 times the minimum: .*{said}"):
            commands.changed(cli.find(name), {"multiples": [7]})
