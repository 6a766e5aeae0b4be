import json
from pathlib import Path

import pytest
from made import runs_of
from pydantic import ValidationError

from gleaner_lab import cli
from gleaner_lab import experiment as experiments
from gleaner_lab.arrays import findings, model
from gleaner_lab.arrays.model import Accesses, Costs
from gleaner_lab.failure import Failure
from gleaner_lab.tried import COLUMNS, Runs, Statement, judge, statements

KINDS = cli.find("arrays-kinds")

COUNTING = """\
name: array-counts
title: Counts
question: How many?
workloads:
  - {name: compress, command: [compress]}
  - {name: chart, command: [chart]}
configurations: {lazy: {library: none}, zray: {library: none}}
threads: [default]
statistics: {baseline: lazy}
"""


def timed(ratios, base=2.0, speeds=(1, 1.2, 0.9)):
    """Rounds of perf-zray against contiguous, with these ratios of processor times."""
    metrics = {
        workload: {
            "contiguous": [{"printed.cpu_s": base * speed} for speed in speeds],
            "perf-zray": [{"printed.cpu_s": base * speed * ratio} for speed in speeds],
        }
        for workload, ratio in ratios.items()
    }
    return runs_of(experiments.read(KINDS), metrics)


def statement(**changes):
    fields = {
        "says": "It costs 10 %",
        "section": "7",
        "figure": 0.1,
        "unit": "percent",
        "within": 2,
        "ours": {
            "quantity": "mean-overhead",
            "experiment": "arrays-kinds",
            "configuration": "perf-zray",
            "against": "contiguous",
        },
    }
    return Statement.model_validate(fields | changes)


def test_the_statements_are_about_configurations_and_metrics_that_there_are():
    for one in statements(findings.FILE):
        variants = experiments.read(cli.find(one.ours.experiment)).variants()
        named = [name for name in (one.ours.configuration, one.ours.against) if name]
        assert set(named) <= set(variants), one.says


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.10, 1.11, 1.09], "holds"),
        ([1.01, 1.02, 1.01], "does not hold"),
        ([0.9, 1.1, 1.4], "undecided"),
    ],
)
def test_a_mean_is_judged_by_its_interval(ratios, verdict):
    runs = timed(dict(zip(["compress", "chart", "db"], ratios, strict=True)))
    found = judge(statement(), {"arrays-kinds": runs})
    assert found.verdict == verdict
    assert "3 workloads of arrays-kinds" in found.reason
    assert found.ours.endswith("]")


def test_the_mean_of_a_set_has_the_interval_of_its_rounds():
    # The same ratio in each round: the spread over workloads says nothing of these.
    runs = timed({"compress": 0.9, "chart": 1.1, "db": 1.4})
    ours = statement().ours.model_copy(update={"of": "set"}).model_dump()
    found = judge(statement(ours=ours), {"arrays-kinds": runs})
    assert found.verdict == "holds"
    mean = (0.9 * 1.1 * 1.4) ** (1 / 3) - 1
    estimate = found.tried.estimate
    for value in (estimate.value, estimate.low, estimate.high):
        assert value == pytest.approx(mean)
    assert "these 3 workloads of arrays-kinds" in found.reason
    assert found.tried.rounds == 3


@pytest.mark.parametrize(("rounds", "verdict"), [(1, "1 of 3"), (2, "2 of 3"), (3, "holds")])
@pytest.mark.parametrize("of", ["set", "workloads"])
def test_fewer_than_three_rounds_decide_nothing(rounds, verdict, of):
    # The truth is 10 %, the bounds are 5 and 20 %: any interval would lie within.
    ratios = dict.fromkeys(["compress", "chart", "db"], 1.1)
    runs = {"arrays-kinds": timed(ratios, speeds=(1, 1.2, 0.9)[:rounds])}
    ours = statement().ours.model_copy(update={"of": of}).model_dump()
    found = judge(statement(ours=ours), runs)
    assert found.tried.estimate.value == pytest.approx(0.1)
    assert verdict in found.shown_verdict
    assert (found.verdict == "holds") == (rounds == 3)
    assert dict(zip(COLUMNS, found.cells, strict=True))["rounds"] == str(rounds)


def test_the_workload_with_the_fewest_rounds_decides_how_many_there_are():
    runs = timed({"compress": 1.1, "chart": 1.1, "db": 1.1})
    table = runs.table
    lost = (table["workload"] == "db") & (table["round"] == 2)
    few = Runs(runs.experiment, table[~lost])
    found = judge(statement(), {"arrays-kinds": few})
    assert (found.verdict, found.shown_verdict) == ("undecided", "undecided: 2 of 3 rounds")


@pytest.mark.parametrize("of", ["set", "workloads"])
def test_a_mean_is_given_once_more_without_the_workload_that_moves_it_most(of):
    runs = timed({"compress": 1.1, "chart": 1.3, "db": 1.1, "snapshots": 0.04})
    ours = statement().ours.model_copy(update={"of": of}).model_dump()
    found = judge(statement(ours=ours), {"arrays-kinds": runs})
    assert found.tried.estimate.value == pytest.approx((1.1 * 1.3 * 1.1 * 0.04) ** (1 / 4) - 1)
    name, worst = found.tried.worst
    assert (name, worst) == ("chart", pytest.approx(0.3))
    name, without = found.tried.without
    assert (name, without.value) == ("snapshots", pytest.approx((1.1 * 1.3 * 1.1) ** (1 / 3) - 1))
    cells = dict(zip(COLUMNS, found.cells, strict=True))
    assert cells["the worst"] == "chart: 30 %"
    assert cells["without the one that moves it most"].startswith("snapshots: 16.3 % [")


def test_the_worst_of_what_is_saved_is_the_least():
    saved = {"compress": 0.5, "chart": 0.01, "db": 0.1}
    metrics = {
        workload: {"perf-zray": [{"printed.saved": value}] * 3} for workload, value in saved.items()
    }
    ours = {
        "quantity": "mean",
        "experiment": "arrays-kinds",
        "configuration": "perf-zray",
        "metric": "printed.saved",
        "of": "set",
    }
    runs = {"arrays-kinds": runs_of(experiments.read(KINDS), metrics)}
    tried = judge(statement(ours=ours), runs).tried
    assert tried.worst == ("chart", pytest.approx(0.01))
    assert (tried.without[0], tried.without[1].value) == ("compress", pytest.approx(0.055))


def test_one_workload_of_several_has_no_mean_to_hang_on():
    tried = judge(statement(), {"arrays-kinds": timed({"compress": 1.1, "chart": 1.2})}).tried
    assert (tried.worst, tried.without) == (None, None)


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.36, "does not hold"), (1.5, "holds"), (2.1, "does not hold")]
)
def test_a_range_of_the_paper_stays_a_range(ratio, verdict):
    ranged = statement(figure=None, within=None, between=[0.37, 1.0])
    assert ranged.shown_bounds == "at least 37 %, at most 100 %"
    ratios = {"compress": ratio, "chart": ratio, "db": ratio}
    assert judge(ranged, {"arrays-kinds": timed(ratios)}).verdict == verdict
    for wrong in ({"between": [1.0, 0.37]}, {"between": [0.1, 0.2], "at_most": 0.3}):
        with pytest.raises(ValidationError, match="between"):
            statement(**({"figure": None, "within": None} | wrong))


def test_the_mean_of_values_of_a_set_has_the_interval_of_their_rounds():
    experiment = experiments.parse(COUNTING, Path("array-counts.yaml"))
    saved = {"compress": (0.1, 0.12), "chart": (0.5, 0.52)}
    metrics = {
        workload: {"zray": [{"printed.saved": value} for value in values]}
        for workload, values in saved.items()
    }
    runs = {"array-counts": runs_of(experiment, metrics)}
    ours = {
        "quantity": "mean",
        "experiment": "array-counts",
        "configuration": "zray",
        "metric": "printed.saved",
    }
    apart = judge(statement(ours=ours), runs).tried.estimate
    of_set = judge(statement(ours=ours | {"of": "set"}), runs).tried.estimate
    assert of_set.value == apart.value == pytest.approx(0.31)
    assert of_set.high - of_set.low < (apart.high - apart.low) / 10
    assert of_set.low < 0.31 < of_set.high


def test_the_greatest_overhead_is_that_of_one_workload():
    runs = timed({"compress": 1.02, "chart": 1.71, "db": 1.3})
    ours = statement().ours.model_copy(update={"quantity": "greatest-overhead"})
    most = statement(says="The worst costs 71 %", figure=0.71, ours=ours.model_dump())
    found = judge(most, {"arrays-kinds": runs})
    assert found.verdict == "holds"
    assert found.tried.estimate.value == pytest.approx(0.71)
    assert "chart" in found.reason


def test_without_runs_nothing_is_decided():
    assert judge(statement(), {}).verdict == "undecided"
    page = findings.page(findings.findings({}), "gleaner-lab arrays findings DIR")
    assert page.markdown().count("undecided") == len(statements(findings.FILE))


@pytest.mark.parametrize("left_out", ["perf-zray", "contiguous"])
def test_a_configuration_that_was_left_out_of_a_run_decides_nothing(left_out):
    whole = experiments.read(KINDS)
    kept = {name: one for name, one in whole.configurations.items() if name != left_out}
    few = runs_of(whole.model_copy(update={"configurations": kept}), {})
    found = judge(statement(), {"arrays-kinds": few})
    assert (found.verdict, found.tried.rounds) == ("undecided", 0)
    assert found.reason == f"no runs of {left_out} in arrays-kinds"


def test_an_overhead_is_over_something_and_a_mean_is_not():
    ours = statement().ours.model_dump()
    with pytest.raises(ValidationError, match="about two"):
        statement(ours=ours | {"against": ""})
    with pytest.raises(ValidationError, match="about one"):
        statement(ours=ours | {"quantity": "mean"})
    with pytest.raises(ValidationError, match="about means"):
        statement(ours=ours | {"quantity": "greatest-overhead", "of": "set"})


def costs(path, within=0.1, beyond=1.0, cursor=0.05):
    """Costs of accesses: within and beyond N, and by cursor, so much more than 1 ns."""
    more = {
        ("whole", "whole", "sequential"): 0.0,
        ("whole", "whole", "random"): 0.0,
        ("whole", "whole", "cursor"): 0.0,
        ("zray", "first-n", "sequential"): within,
        ("zray", "first-n", "random"): within,
        ("zray", "arraylet", "sequential"): beyond,
        ("zray", "arraylet", "random"): 2 * beyond,
        ("zray", "arraylet", "cursor"): cursor,
    }
    lines = [
        {"code": code, "place": place, "by": by, "access": access, "element": kind, "ns": 1 + cost}
        for (code, place, by), cost in more.items()
        for access in ("read", "write")
        for kind in ("u8", "f64")
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def counted(shares, number=1e9):
    """What `array-report` counted: `number` accesses, with these shares beyond N."""
    experiment = experiments.parse(COUNTING, Path("array-counts.yaml"))
    metrics = {}
    for workload, beyond in shares.items():
        values = {
            "accesses": number,
            "loads_within": (1 - beyond) / 2,
            "loads_beyond": beyond / 2,
            "stores_within": (1 - beyond) / 2,
            "stores_beyond": beyond / 2,
        }
        named = {f"{model.REPORT}.{name}": value for name, value in values.items()}
        metrics[workload] = {"lazy": [named]}
    return runs_of(experiment, metrics)


def test_the_model_multiplies_accesses_with_what_each_costs_more(tmp_path):
    runs = {
        "array-counts": counted({"compress": 0.0, "chart": 0.5}),
        "arrays-kinds": timed({"compress": 1.04, "chart": 1.9}),
    }
    found = model.predictions(Costs.read(costs(tmp_path / "costs")), runs)
    compress, chart = found
    # 10^9 accesses with 0.1 ns more each, or half of them with 1 ns; over the mean of the rounds.
    seconds = 2 * 3.1 / 3
    assert compress.predicted["sequential"] == pytest.approx(0.1 / seconds)
    assert compress.predicted["cursor"] == 0
    assert compress.explains
    assert chart.predicted["sequential"] == pytest.approx(0.55 / seconds)
    assert chart.predicted["random"] == pytest.approx(1.05 / seconds)
    assert chart.predicted["cursor"] == pytest.approx(0.025 / seconds)
    assert not chart.explains
    text = model.page(found, "gleaner-lab arrays model").markdown()
    assert "(modelled)" in text and "50.0 %" in text and "outside" in text


def test_the_model_says_what_is_missing(tmp_path):
    path = costs(tmp_path / "costs")
    times = timed({"compress": 1.05})
    with pytest.raises(Failure, match="array-counts"):
        model.predictions(Costs.read(path), {"arrays-kinds": times})
    with pytest.raises(Failure, match="contiguous"):
        model.predictions(Costs.read(path), {"array-counts": counted({"compress": 0.0})})
    few = tmp_path / "few"
    few.write_text(path.read_text().splitlines()[0])
    both = {"array-counts": counted({"compress": 0.0}), "arrays-kinds": times}
    with pytest.raises(Failure, match="no microbenchmark"):
        model.predictions(Costs.read(few), both)
    few.write_text("nothing")
    with pytest.raises(Failure, match="accesses --json"):
        Costs.read(few)
    with pytest.raises(Failure, match="no printed"):
        Accesses.of({}, "compress")
