"""What reads YAML fast reads it as ruamel.yaml does, or leaves it to that."""

import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from gleaner_lab import cli, papers, yaml12
from gleaner_lab import experiment as experiments
from gleaner_lab.failure import Failure

FILES = [*sorted(cli.EXPERIMENTS.glob("*.yaml")), *sorted(papers.DIRECTORY.glob("*.yaml"))]


def slow(text):
    return YAML(typ="safe", pure=True).load(text)


@pytest.fixture
def fast(monkeypatch):
    """What reads fast, with nothing behind it."""
    assert yaml12.FAST is not None

    def refused(*_, **__):
        raise AssertionError("ruamel.yaml was asked")

    monkeypatch.setattr("ruamel.yaml.YAML.load", refused)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_files_of_the_lab_are_read_alike(path):
    text = path.read_text()
    # As text: true is 1 for Python, and 1 is 1.0.
    assert repr(yaml12.load(text)) == repr(slow(text))


def test_no_experiment_of_the_lab_needs_what_is_slow(fast):
    for path in cli.EXPERIMENTS.glob("*.yaml"):
        experiments.parse.__wrapped__(path.read_text(), path)


SCALARS = """
true True TRUE false tRue on On off Yes No y n ~ null Null nUll 0 7 007 010 0o17 0o8 -0o17 0x1F 0xg
0b101 1_000 _1 1__0 +5 -5 1.5 1. .5 -.5 .5e3 .5e+3 1e3 1E-3 1e 1.e5 .inf -.Inf .NaN +.inf 1:30
12:30:45 1.2.3 1.5m 2000-01-01 2000-1-1 2000-01-01T10:00:00Z 20000-01-01 = == <<< -1- +-1 0b2 0x
1,000 90s a:b a#b http://a.b/c
"""


@pytest.mark.parametrize("word", [*SCALARS.split(), "", "2 000", "2000-01-01 10:00:00", "- 1"])
def test_words_mean_what_they_mean_in_yaml_1_2(word):
    text = f"first: {word}\nsecond: [{word}]\n"
    try:
        expected = slow(text)
    except Exception:
        with pytest.raises((yaml12.Wrong, ValueError)):
            yaml12.load(text)
    else:
        assert repr(yaml12.load(text)) == repr(expected)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}\n",
        "a: !!str 5\n",
        "? [1, 2]\n: 3\n",
        "a: >-\n  one\n  two\nb: |\n  three\n",
        "- 'it''s'\n- \"a\\tb\"\n",
        "%YAML 1.1\n---\na: on\n",
        "",
        "only a word",
    ],
)
def test_other_forms_are_read_alike(text):
    assert repr(yaml12.load(text)) == repr(slow(text))


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: [1\n", "a: 1\n--- \nb: 2\n", "a: *b\n"])
def test_what_is_wrong_is_refused_with_its_line(text, tmp_path):
    with pytest.raises(yaml12.Wrong):
        yaml12.load(text)
    with pytest.raises(Failure, match=r"mine\.yaml:\d+: "):
        experiments.parse(text, tmp_path / "mine.yaml")


def test_without_the_fast_loader_all_is_read_as_well(monkeypatch):
    monkeypatch.setattr(yaml12, "FAST", None)
    for path in FILES[:3]:
        assert repr(yaml12.load(path.read_text())) == repr(slow(path.read_text()))


def test_the_list_is_printed_without_what_takes_long_to_load():
    code = "import sys; from gleaner_lab import cli; cli.main(['list']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "yaml" in loaded
    assert not {"ruamel.yaml", "pandas", "pyarrow"} & loaded
