import re
from pathlib import Path

import pytest
from made import runs_of

from gleaner_lab import cli, papers, report, statistics
from gleaner_lab import experiment as experiments
from gleaner_lab.analysis import Grouped
from gleaner_lab.failure import Failure
from gleaner_lab.report import beside


@pytest.mark.parametrize("name", papers.index())
def test_printed_means_follow_from_the_rows_but_for_the_known_faults(name):
    table = papers.read(name)
    known = {
        (fault["scope"], fault["statistic"], column)
        for fault in table.facts.get("faults", [])
        for column in fault["columns"]
    }
    assert all(fault["reason"] for fault in table.facts.get("faults", []))
    assert {mismatch.key for mismatch in papers.mismatches(table)} == known


@pytest.mark.parametrize("name", papers.index())
def test_the_names_of_a_table_are_those_of_its_figures(name):
    table = papers.read(name)
    assert papers.names(name) == (table.benchmarks, table.columns)


def test_every_table_stands_beside_runs():
    used = {
        paper.table
        for file in cli.EXPERIMENTS.glob("*.yaml")
        for paper in experiments.read(file).papers
    }
    evaluation = Path(report.__file__).parent / "evaluation.py"
    used |= set(re.findall(r'"(naps-table-\d)"', evaluation.read_text()))
    assert set(papers.index()) == used


@pytest.mark.parametrize(
    ("experiment", "table", "columns"),
    [
        ("zeroing", "zeroing-table-3", ["direct_cost_i7", "hot_path_i7"]),
        ("zeroing-paper", "zeroing-table-3", ["direct_cost_i7", "hot_path_i7"]),
        ("zeroing-paper", "zeroing-speed", ["bulk_i7_gb_per_s", "non_temporal_i7_percent"]),
        ("placement-speed", "multicore-java-table-1", ["minimum_heap_mb"]),
    ],
)
def test_ours_stands_beside_a_table_of_a_paper(experiment, table, columns):
    read = experiments.read(cli.find(experiment))
    workload = read.workloads[0].name
    values = {
        "printed.wall_s": 1.0,
        "printed.cpu_s": 1.0,
        "printed.zeroing_s": 0.05,
        "printed.direct_zeroing_cost": 0.05,
        "printed.zeroing_gb_per_s": 8.0,
        "heap_mb": 100.0,
        "wall_s": 1.0,
    }
    faster = values | {"printed.wall_s": 0.9, "printed.zeroing_gb_per_s": 12.0}
    variants = {
        name: [values if name == read.statistics.baseline else faster] * 3
        for name in read.variants()
    }
    runs = runs_of(read, {workload: variants})
    (found,) = (it for it in beside.tables(Grouped(runs.table, read)) if it.paper.name == table)
    assert found.columns == columns
    ours = dict(found.rows)[workload]
    expected = {
        "direct_cost_i7": "5.0",
        "hot_path_i7": "+10.0 [+10.0, +10.0]",
        "bulk_i7_gb_per_s": "8.0",
        "non_temporal_i7_percent": "+50.0 [+50.0, +50.0]",
        "minimum_heap_mb": "50.0",
    }
    for column, cell in zip(columns, ours, strict=True):
        assert cell.ours.startswith(expected[column]), (column, cell)


def test_a_wrong_cell_would_be_found():
    table = papers.read("zeroing-table-4")
    table.rows.loc[table.rows["benchmark"] == "jess", "concurrent_i7"] += 1
    found = {mismatch.key for mismatch in papers.mismatches(table)}
    assert ("SPECjvm98", "mean", "concurrent_i7") in found


def test_figures_that_the_texts_name():
    zeroing = papers.read("zeroing-table-3").rows.set_index("benchmark")
    assert zeroing.loc["jess", "direct_cost_core2"] == 12.74
    misses = papers.read("cache-misses-table-1").rows.set_index("benchmark")
    assert misses.loc["holes_gc_bench", "prefetch_speedup_percent"] == 17
    pauses = papers.read("naps-table-5").rows.set_index("application")
    assert pauses.loc["Crypto AES", "parallel_scavenge_ms"] / pauses.loc[
        "Crypto AES", "naps_ms"
    ] == pytest.approx(2.8, abs=0.05)


IMPROVEMENTS = ["hot_path", "non_temporal", "concurrent", "adaptive"]


@pytest.mark.parametrize("machine", ["core2", "phenom", "i7"])
@pytest.mark.parametrize("design", IMPROVEMENTS)
def test_an_improvement_is_the_share_of_the_baselines_time_that_is_saved(design, machine):
    """The paper's geometric means follow from its rows when p % less time means 1 - p/100 of it."""
    table = papers.read("zeroing-table-4")
    column = f"{design}_{machine}"
    rows = table.rows[~table.rows["benchmark"].isin(table.facts["outliers"])]
    summary = table.summary[table.summary["statistic"] == "geomean"].set_index("scope")
    printed = summary.loc["all", column]
    ratios = [1 - percent / 100 for percent in rows[column]]
    mean = statistics.geometric_mean_of(ratios, 0.95)
    assert float(beside._change(mean, True).split()[0]) == pytest.approx(printed, abs=0.061)
    inverse = (statistics.geometric_mean([1 + percent / 100 for percent in rows[column]]) - 1) * 100
    if design in ("concurrent", "adaptive") and machine == "core2":
        assert abs(inverse - printed) > 0.1, "the other reading would not do"


def test_a_printed_improvement_comes_back_from_its_ratio():
    rows = papers.read("zeroing-table-4").rows.set_index("benchmark")
    for benchmark, printed in rows["adaptive_core2"].items():
        ratio = statistics.Estimate(1 - printed / 100, 0.5, 1.5, 9)
        shown = beside._change(ratio, True)
        assert float(shown.split()[0]) == pytest.approx(printed, abs=0.051), benchmark
        assert shown.endswith("[-50.0, +50.0]")
    slower = statistics.Estimate(1.17, 1.1, 1.2, 9)
    assert beside._change(slower, False) == "+17.0 [+10.0, +20.0]"


def test_an_unknown_table_is_named_with_those_that_are_known():
    with pytest.raises(Failure, match="no table nothing among cache-misses-table-1"):
        papers.read("nothing")
