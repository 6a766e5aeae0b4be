import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gleaner_lab import papers
from gleaner_lab.failure import Failure
from gleaner_lab.numa import locality
from gleaner_lab.numa.locality import Locality

counts = st.lists(st.integers(0, 10**9), min_size=1, max_size=16)


def test_the_papers_imbalances_follow_from_the_shares_that_its_text_names():
    """95 % of eden on one of eight nodes, which the paper shows as 2.6; all on one is the most."""
    assert locality.imbalance([95] + [5 / 7] * 7) == pytest.approx(2.494, abs=0.001)
    assert locality.imbalance([1] + [0] * 7) == pytest.approx(2.646, abs=0.001)
    printed = papers.read("naps-table-4").rows.set_index(["space", "figure", "configuration"])
    worst = float(printed.loc[("eden", "imbalance", "baseline"), "specjbb"])
    assert round(locality.imbalance([1] + [0] * 7) - 0.05, 1) >= worst
    # Without the mean, as the formula is printed, no shares of eight nodes come near.
    assert np.std([1] + [0] * 7) == pytest.approx(0.331, abs=0.001)


def test_even_counts_are_balanced_and_random_nodes_are_remote():
    assert locality.imbalance([7] * 8) == 0
    assert locality.non_locality(np.ones((8, 8))) == pytest.approx(0.875)
    assert locality.non_locality(np.eye(8)) == 0
    assert locality.non_locality(np.ones((1, 1))) == 0


def test_what_was_not_counted_has_no_figure():
    assert math.isnan(locality.imbalance([0, 0]))
    assert math.isnan(locality.non_locality(np.zeros((2, 2))))


@given(counts)
def test_imbalance_lies_between_none_and_all_on_one_node(shares):
    found = locality.imbalance(shares)
    if sum(shares) > 0:
        assert 0 <= found <= math.sqrt(len(shares) - 1) * (1 + 1e-9)
        assert locality.imbalance([share * 3 for share in shares]) == pytest.approx(found)
        assert locality.imbalance(shares[::-1]) == pytest.approx(found)


@given(st.integers(1, 16), st.randoms(use_true_random=False))
def test_non_locality_is_a_share(nodes, source):
    matrix = [[source.randrange(1000) for _ in range(nodes)] for _ in range(nodes)]
    if np.sum(matrix) > 0:
        found = locality.non_locality(matrix)
        assert -1e-9 <= found <= 1
        assert found == pytest.approx(locality.non_locality(np.transpose(matrix)))


DOCUMENT = {
    "nodes": 2,
    "workers": 4,
    "scanned": [[3, 1], [3, 1]],
    "copied": [[1, 0], [0, 1]],
    "updated": [[0, 0], [0, 0]],
    "scanned_young": [[0, 0], [0, 0]],
    "copied_from": [[0, 1], [1, 0]],
    "promoted": [[2, 0], [0, 2]],
    "eden_pages": [9, 1],
}


def test_a_runs_counts_give_figures_by_kind():
    counted = Locality.parse(DOCUMENT, "run")
    assert (counted.nodes, counted.workers) == (2, 4)
    assert counted.imbalance("scanned") == pytest.approx(0.5)
    assert counted.non_locality("scanned") == pytest.approx(0.5)
    assert counted.imbalance("copied") == counted.non_locality("copied") == 0
    assert math.isnan(counted.non_locality("updated"))
    assert "messages" not in counted.counts
    assert counted.pages["eden_pages"].tolist() == [9, 1]


def test_the_metrics_of_an_experiment_are_those_of_which_anything_was_counted():
    remote = [[0, 1], [3, 0]]
    more = {"copied_from": remote, "promoted": [[0, 0], [0, 0]], "eden_pages": [4, 0]}
    figures = Locality.parse({**DOCUMENT, **more}, "run").figures()
    assert set(figures) < set(locality.METRICS)
    assert figures["non-locality.copied_from"] == 1
    assert figures["imbalance.eden"] == 1
    assert "non-locality.promoted" not in figures
    assert "non-locality.scanned_young" not in figures


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 0}, "run: locality: nodes is 0, not a whole number of 1 or more"),
        ({"workers": True}, "run: locality: workers is True"),
        ({"scanned": None}, "run: locality: scanned is no array|has one number"),
        ({"scanned": [[1, 2]]}, "run: locality: scanned has 1 x 2, not 2 x 2"),
        ({"copied": [[1], [1, 2]]}, "run: locality: copied is no array of 2 x 2 numbers"),
        ({"updated": [[1, 2], [3, -4]]}, "run: locality: updated has a negative"),
        ({"messages": 5}, "run: locality: messages has one number, not 2 x 2"),
        ({"eden_pages": [1, 2, 3]}, "run: locality: eden_pages has 3, not 2"),
    ],
)
def test_wrong_counts_are_named(changes, message):
    with pytest.raises(Failure, match=message):
        Locality.parse(DOCUMENT | changes, "run")


def test_missing_counts_are_named():
    for lost in ("copied", "copied_from", "promoted"):
        with pytest.raises(Failure, match=f"run: locality: {lost} is missing"):
            Locality.parse({key: DOCUMENT[key] for key in DOCUMENT if key != lost}, "run")
    with pytest.raises(Failure, match="run: locality is no object"):
        Locality.parse(None, "run")


def test_a_run_is_a_file_or_its_last_line(tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps(DOCUMENT, indent=2))
    assert locality.read_run(file) == DOCUMENT
    file.write_text("progress\n" + json.dumps(DOCUMENT) + "\n")
    assert locality.read_run(file) == DOCUMENT
    for text in ("", "progress", "[1]"):
        file.write_text(text)
        with pytest.raises(Failure, match=r"run\.json: neither the file nor its last line"):
            locality.read_run(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(Failure, match="not a text in UTF-8"):
        locality.read_run(file)
