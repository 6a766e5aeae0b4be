"""What looking early costs, on rounds that are made up, so that the truth is known."""

from dataclasses import dataclass

import bench
import numpy as np
import pytest

from gleaner_lab import cli, sequential
from gleaner_lab import experiment as experiments
from gleaner_lab.failure import Failure
from gleaner_lab.statistics import paired_ratio
from gleaner_lab.store import ResultSet

MOST = 40
#: Experiments that are simulated for a figure.
MANY = 300


@dataclass
class Outcomes:
    """What came of many experiments: shares of all, and rounds on average."""

    wrong: float
    right: float
    rounds: float


def simulate(truth: float, looks: list[int], confidence: float, disturbed: float = 0.0) -> Outcomes:
    """Experiments about the bar `below: 1` that end at the first look that decides it."""
    random = np.random.default_rng(2000)
    right_word = "met" if truth < 1 else "violated"
    words, rounds = [], 0
    for _ in range(MANY):
        logs = random.normal(0, 0.05, (2, MOST))
        # A neighbour comes now and then, and makes a run take half as long again.
        logs += np.log(1.5) * (random.random((2, MOST)) < disturbed)
        top, bottom = truth * np.exp(logs[0]), np.exp(logs[1])
        for look in looks:
            ratio = paired_ratio(list(top[:look]), list(bottom[:look]), confidence)
            # What `statistics.judge` makes of it; its number of further rounds takes long to find.
            word = "met" if ratio.high <= 1 else "violated" if ratio.low > 1 else "undecided"
            if word != "undecided":
                break
        words.append(word)
        rounds += look
    decided = sum(word != "undecided" for word in words)
    right = words.count(right_word)
    return Outcomes((decided - right) / MANY, right / MANY, rounds / MANY)


def scheduled() -> tuple[list[int], float]:
    looks = sequential.looks(MOST)
    return looks, 1 - 0.05 / len(looks)


@pytest.mark.parametrize(("truth", "disturbed"), [(1.0001, 0.0), (1.0001, 0.05), (0.9999, 0.0)])
def test_looking_on_schedule_is_wrong_in_at_most_five_percent(truth, disturbed):
    assert simulate(truth, *scheduled(), disturbed).wrong <= 0.05


def test_looking_after_every_round_is_wrong_far_more_often():
    # Otherwise the simulation could not tell a rule that keeps its word from one that does not.
    assert simulate(1.0001, list(range(4, MOST + 1, 4)), 0.95).wrong > 0.07


def test_a_clear_difference_is_found_with_fewer_rounds():
    found = simulate(0.9, *scheduled())
    assert found.right > 0.99
    assert found.rounds < MOST / 3


def test_looks_are_halves_of_the_most_rounds():
    assert sequential.looks(40) == [5, 10, 20, 40]
    assert sequential.looks(10) == [5, 10]
    assert sequential.looks(9) == [5, 9]
    assert sequential.looks(4) == [4]


def read(tmp_path, *lines):
    path = bench.experiment(tmp_path, "steady", repetitions=40)
    path.write_text(path.read_text() + "".join(f"{line}\n" for line in lines))
    return experiments.read(path)


def test_intervals_are_as_wide_as_all_looks_together_need(tmp_path):
    assert read(tmp_path).statistics.confidence == 0.95
    assert read(tmp_path, "until: all").statistics.confidence == pytest.approx(1 - 0.05 / 4)
    assert sequential.looks_of(read(tmp_path)) == [40]
    assert sequential.looks_of(read(tmp_path, "until: all"), made=11) == [20, 40]


def test_a_mean_over_workloads_is_not_waited_for(tmp_path):
    assert [bar.of for bar in sequential.awaited(read(tmp_path, "until: all"))] == ["each"]
    path = bench.experiment(tmp_path, "steady")
    text = path.read_text().replace("  - {configuration: gleaner, below: 1.1}\n", "")
    path.write_text(text + "until: first\n")
    with pytest.raises(
        Failure, match=r"small.yaml:\d+: until: the first bar is no bar that rounds"
    ):
        experiments.read(path)


def rounds_of(results):
    return {one["round"] for one in results.records()}


def test_an_experiment_stops_when_its_bars_are_decided(tmp_path, capsys):
    path = bench.experiment(tmp_path, "steady", repetitions=40)
    tool, out = bench.make(tmp_path), tmp_path / "out"
    words = ["--until", "all", "--quiet", "--bench", str(tool), "--out", str(out)]
    # The mean over a single workload decides nothing, and is not waited for.
    assert cli.main(["run", str(path), *words]) == 3
    assert capsys.readouterr().out == ""
    results = ResultSet.open(out)
    assert rounds_of(results) == set(range(5))
    assert "--until all" in results.starts()[0]["command"]
    page = (out / "report.html").read_text()
    assert "of at most" in page and "intervals at 98.75 %" in page
    cli.main(["resume", str(out), "--quiet", "--bench", str(tool)])
    assert rounds_of(results) == set(range(5))


def test_an_experiment_goes_on_until_a_bar_is_decided(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CALLS", str(tmp_path / "calls"))
    path = bench.experiment(tmp_path, "steady", repetitions=10)
    path.write_text(path.read_text().replace("below: 1.1", "below: 0.8"))
    tool, out = bench.make(tmp_path), tmp_path / "out"
    words = ["--until", "first", "--quiet", "--bench", str(tool), "--out", str(out)]
    assert cli.main(["run", str(path), *words]) == 3
    assert rounds_of(ResultSet.open(out)) == set(range(10))


@pytest.mark.parametrize(("until", "rounds"), [("first", 5), ("all", 10)])
def test_the_first_bar_alone_is_waited_for(tmp_path, monkeypatch, until, rounds):
    monkeypatch.setenv("BENCH_CALLS", str(tmp_path / "calls"))
    path = bench.experiment(tmp_path, "steady", repetitions=10)
    # It takes about 0.8 of the baseline: five rounds decide about 1.1, and ten not about 0.8.
    bar = "  - {configuration: gleaner, below: 1.1}\n"
    path.write_text(path.read_text().replace(bar, bar + bar.replace("1.1", "0.8")))
    tool, out = bench.make(tmp_path), tmp_path / "out"
    words = ["--until", until, "--quiet", "--bench", str(tool), "--out", str(out)]
    assert cli.main(["run", str(path), *words]) == 3
    assert rounds_of(ResultSet.open(out)) == set(range(rounds))


def test_no_round_begins_after_the_time_of_the_budget(tmp_path, capsys, monkeypatch):
    path = bench.experiment(tmp_path, "steady", repetitions=400)
    tool, out = bench.make(tmp_path), tmp_path / "out"
    words = ["--budget", "4s", "--bench", str(tool), "--out", str(out)]
    monkeypatch.setenv("BENCH_PAUSE", "0.1")
    assert cli.main(["run", str(path), *words]) in (1, 3)
    made = rounds_of(ResultSet.open(out))
    assert 0 < len(made) < 40
    assert f"gleaner-lab resume {out} goes on" in capsys.readouterr().out
    # Each round that was begun was made to its end.
    runs = [one for one in ResultSet.open(out).records() if one["canary"] is None]
    assert len(runs) == 3 * len(made)
    words[3:] = [str(tool), "--scheduler", "tcp://127.0.0.1:1"]
    assert cli.main(["run", str(path), "--out", str(tmp_path / "other"), *words]) == 2
    assert "take fewer --repetitions" in capsys.readouterr().err


@pytest.mark.parametrize("time", ["0", "-1s", "5d", "x", "1.5m"])
def test_a_budget_that_is_no_time_is_refused(time, capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "demo", f"--budget={time}"])
    assert "is no time such as 90s, 30m or 2h" in capsys.readouterr().err


def test_a_budget_without_a_unit_is_refused_with_what_to_write(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "demo", "--budget", "5"])
    assert "5 has no unit: write 5s, 5m or 5h" in capsys.readouterr().err
