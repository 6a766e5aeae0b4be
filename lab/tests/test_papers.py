import pytest

from gleaner_lab import papers
from gleaner_lab.failure import Failure


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


def test_an_unknown_table_is_named_with_those_that_are_known():
    with pytest.raises(Failure, match="no table nothing among cache-misses-table-1"):
        papers.read("nothing")
