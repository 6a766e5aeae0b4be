"""What a reader sees of five kinds of report, in a real browser, and what making one takes."""

import re
from pathlib import Path

import pandas as pd
import pytest
import screens
from PIL import Image
from simulated import Truth, document, result_set

from gleaner_lab import report
from gleaner_lab.experiment import Experiment
from gleaner_lab.report import figures

ROOT = Path(__file__).parents[2]
#: Of 255 levels, over coarse fields. Two of the kinds are further apart than that.
TOLERANCE = 4.0


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    made = {}

    def page(kind):
        if kind not in made:
            directory = tmp_path_factory.mktemp(kind)
            made[kind] = report.write(screens.KINDS[kind](directory / "results"))
        return made[kind]

    return page


@pytest.mark.parametrize("scheme", screens.SCHEMES)
@pytest.mark.parametrize("kind", screens.KINDS)
def test_a_page_fits_can_be_read_and_looks_as_it_did(pages, tmp_path, kind, scheme):
    found, shown, picture = screens.look(pages(kind), scheme, tmp_path)
    assert found == []
    assert {one["width"] for one in shown} == set(screens.WIDTHS)
    for one in shown:
        is_dark = one["background"] == "rgb(22, 24, 28)"
        assert is_dark == (scheme == "dark")
        # All answers of the first screen are seen before anybody scrolls; where there is room for
        # them side by side, the plot is, too.
        assert one["sentences"] == one["all"] > 0, one["width"]
        assert one["plots"] >= (one["width"] >= 1200)
    wanted = Image.open(screens.kept(kind, scheme)).convert("RGB")
    apart = screens.difference(picture, wanted)
    if apart > TOLERANCE:
        picture.save(tmp_path / "now.png")
    assert apart <= TOLERANCE, f"compare {tmp_path / 'now.png'}: see lab/tests/screens.py"


def test_the_tolerance_tells_the_kinds_apart():
    kept = {
        (kind, scheme): Image.open(screens.kept(kind, scheme)).convert("RGB")
        for kind in screens.KINDS
        for scheme in screens.SCHEMES
    }
    names = list(kept)
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            assert screens.difference(kept[one], kept[other]) > TOLERANCE, (one, other)


def colours(text):
    """The variables of a style sheet, for light and for dark."""
    light, dark = re.findall(r":root \{(.*?)\}", text, re.DOTALL)[:2]
    pattern = re.compile(r"--([\w-]+): (#\w+)")
    return dict(pattern.findall(light)), dict(pattern.findall(dark))


def test_the_colours_are_those_of_gleaner_report():
    theirs = colours((ROOT / "crates/cli/src/report/page.css").read_text())
    style = ROOT / "lab/gleaner_lab/report/templates/style.css.j2"
    for wanted, found in zip(theirs, colours(style.read_text()), strict=True):
        assert wanted.items() <= found.items()
    light, dark = colours(style.read_text())
    assert light.keys() == dark.keys()
    for colour, name in figures.INKS.items():
        assert name in light, colour


def test_the_sentences_of_the_page_are_those_of_the_terminal_and_of_documents(pages, capsys):
    from rich.console import Console

    from gleaner_lab import experiment as experiments
    from gleaner_lab.analysis import Grouped
    from gleaner_lab.store import ResultSet

    results = ResultSet.open(pages("bars").parent)
    grouped = Grouped(results.table(), experiments.read(results.experiment))
    report.show(Console(width=100), grouped, results.machines())
    said = capsys.readouterr().out
    text = pages("bars").read_text().replace("&gt;", ">").replace("&lt;", "<").replace("&#39;", "'")
    sentences = re.findall(r'<span class="sentence">(.*?)</span>', text, re.DOTALL)
    assert len(sentences) == 10
    table = report.markdown(results)
    for sentence in sentences:
        assert sentence in said
        assert sentence in table


def test_the_work_grows_with_the_runs_alone(tmp_path, monkeypatch):
    """Groups and configurations cost no further merge, no further sort, and a plot at most."""
    counts = {}

    def count(owner, name):
        plain = getattr(owner, name)

        def counted(*arguments, **options):
            counts[name] = counts.get(name, 0) + 1
            return plain(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    for name in ("merge", "groupby", "pivot", "query", "sort_values"):
        count(pd.DataFrame, name)
    count(figures, "svg")
    count(figures, "save_png")
    found = []
    for workloads, configurations in ((4, 3), (40, 6)):
        counts.clear()
        text = document(workloads, configurations, rounds=2)
        truth = Truth(Experiment.model_validate(text))
        report.write(result_set(tmp_path / f"{workloads}", text, truth))
        found.append(dict(counts))
    few, many = found
    assert few.get("merge", 0) == 0
    plots = few.pop("svg"), many.pop("svg")
    assert few == many
    # All cases of three configurations are one screen; each of six has one for itself; the answers
    # and the drift have one each.
    assert plots == (3, 8)
