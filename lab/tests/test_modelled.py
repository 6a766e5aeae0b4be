"""The pages and tables of what is modelled: they say so, and open in a browser."""

import csv
import json
import re

import pytest
from screens import SCHEMES, look

from gleaner_lab import cli
from gleaner_lab.numa.locality import KINDS, PARTS
from gleaner_lab.numa.parameters import PAPER
from gleaner_lab.report import modelled

EVENTS = {
    "phases": 30,
    "tasks": 6000,
    "wakeups": 1410,
    "lock_acquisitions": 8000,
    "failed_cas": 200,
    "task_queue": "locked",
    "parking": "futex",
}


def document(workers):
    rows = [[1000] * 8 if node < workers else [0] * 8 for node in range(8)]
    counts = dict.fromkeys((*KINDS, *PARTS), rows)
    return {
        "collections": 10,
        "total_pause_s": 0.5,
        "locality": {"nodes": 8, "workers": workers, "eden_pages": [8] + [0] * 7, **counts},
        "synchronisation": EVENTS,
    }


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    directory = tmp_path_factory.mktemp("modelled")
    for workers in (1, 48):
        (directory / f"{workers}.json").write_text(json.dumps(document(workers)))
    words = ["model", "figure-3", "--out", str(directory)]
    assert cli.main(words) == 0
    words = ["model", "collection", str(directory / "48.json"), "--out", str(directory)]
    assert cli.main([*words, "--one-worker", str(directory / "1.json")]) == 0
    return directory


@pytest.mark.parametrize("name", ["figure-3", "collection"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_page_opens_fits_and_nothing_overlaps(out, tmp_path, name, scheme):
    text = (out / f"{name}.html").read_text()
    assert not re.search(r'(src|href)="(?!#)[^"]*"', re.sub(r'xlink:href="#[^"]*"', "", text))
    found, _, _ = look(out / f"{name}.html", scheme, tmp_path)
    assert found == []


def test_all_files_say_where_their_figures_are_from(out):
    for name in ("figure-3", "collection"):
        assert "(modelled)" in re.search("<h1>.*</h1>", (out / f"{name}.html").read_text())[0]
        drawing = (out / f"{name}.svg").read_text()
        assert drawing.startswith("<svg")
        assert "MODELLED, not measured" in drawing
        assert (out / f"{name}.png").stat().st_size > 10_000
    tables = sorted(out.glob("*.csv"))
    assert len(tables) == 9
    for path in tables:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows, path
        for row in rows:
            assert re.search(r"\((modelled|counted|the paper's own figures)\)$", row["source"])


def test_the_terminal_shows_each_table_with_its_label(capsys):
    page = modelled.figure_3(PAPER, "gleaner-lab model figure-3")
    page.show()
    shown = " ".join(capsys.readouterr().out.split())
    for table in page.tables:
        assert table.caption.endswith("(modelled)")
        assert table.caption in shown
    assert shown.count("(modelled, fitted") == 2


def test_the_page_names_the_papers_numbers_and_its_own(out):
    with (out / "figure-3-stops.csv").open(newline="") as file:
        rows = {row["placement"]: row for row in csv.DictReader(file)}
    assert {name: row["the paper"] for name, row in rows.items()} == {
        "Unbalanced-Remote": "8",
        "Balanced-Remote": "32",
        "Balanced-Local": "40",
        "Unbalanced-Local": "not said",
    }
    assert [row["bound"] for row in rows.values()] == ["8", "32", "40", "5"]
    with (out / "collection-locality.csv").open(newline="") as file:
        rows = {row["what"]: row for row in csv.DictReader(file)}
    assert (rows["scanned"]["imbalance"], rows["scanned"]["non-locality"]) == ("0.00", "0.88")
    assert rows["eden pages"]["imbalance"] == "2.65"


def test_bad_input_is_named_without_a_traceback(tmp_path, capsys):
    run = tmp_path / "run.json"
    run.write_text("{}")
    assert cli.main(["model", "collection", str(run)]) == 2
    assert f"gleaner-lab: {run}: locality is no object" in capsys.readouterr().err
    run.write_text(json.dumps(document(48)))
    assert cli.main(["model", "collection", str(run), "--one-worker", str(run)]) == 2
    assert "the run to calibrate by has 48 workers; take one of 1" in capsys.readouterr().err
    assert cli.main(["model", "collection", str(tmp_path / "nothing.json")]) == 2
    assert "nothing.json: No such file" in capsys.readouterr().err


def test_a_bar_in_a_cell_does_not_end_it():
    table = modelled.Table("one", "A table", ["command", "takes"], [["a | b", "1 s"]])
    whole = modelled.Page("page", "A page", [], [table], {}, "gleaner-lab model", "modelled")
    assert "| a \\| b | 1 s |" in whole.markdown()
