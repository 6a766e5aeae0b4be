"""What is told of several experiments on where threads run."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from made import runs_of

from gleaner_lab import cli, placement
from gleaner_lab import experiment as experiments
from gleaner_lab.tried import Finding, Statement, Untested, judge, statements


def test_the_statements_are_about_configurations_and_workloads_that_there_are():
    tried = [one for one in statements(placement.FILE) if not isinstance(one, Untested)]
    for one in tried:
        for name in filter(None, (one.ours.experiment, one.ours.than)):
            experiment = experiments.read(cli.find(name))
            assert {one.ours.configuration, one.ours.against} <= set(experiment.variants())
            assert set(one.ours.workloads) <= {it.name for it in experiment.workloads}
    assert {one.finding for one in tried} == set(range(1, 15))


def test_no_question_says_what_an_option_of_the_command_changes():
    # --iteration, --multiple and --repetitions change it, and the page keeps the question.
    for file in sorted(cli.find("placement-isolation").parent.glob("placement-*.yaml")):
        read = experiments.read(file)
        words = set(re.findall(r"\w+", f"{read.title} {read.question}".lower()))
        assert not words & {"fifteenth", "fifth", "ten", "minimum", "twice"}, file
        assert not any(word.isdecimal() for word in words), file


def found_with(*verdicts: str) -> list[Finding]:
    """A finding with one statement for each of `verdicts`."""
    one = statements(placement.FILE)[0]
    return [Finding(one, verdict, "") for verdict in verdicts]


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        (["holds", "holds"], "reproduced"),
        (["holds", "does not hold", "undecided"], "not reproduced"),
        (["holds", "undecided"], "undecided"),
        (["holds", "cannot be tested here"], "reproduced, as far as it can be tested here"),
        (["cannot be tested here"], "cannot be tested here"),
    ],
)
def test_a_finding_is_what_its_statements_are(verdicts, word):
    assert placement.verdicts(found_with(*verdicts)) == {1: word}


def test_without_runs_all_fourteen_findings_are_open():
    found = [judge(one, {}) for one in statements(placement.FILE)]
    words = placement.verdicts(found)
    assert list(words) == list(range(1, 15))
    assert all(word.startswith("undecided") for word in words.values())
    page = placement.page(found, "gleaner-lab placement findings DIR")
    assert page.markdown().count("no runs of") == sum(it.verdict == "undecided" for it in found)


CORES = "a core, with a cache in common, for a socket"


def timed(experiment, ratios, has_frequency=False, variant="isolated-jvm"):
    """Three rounds of a configuration against `one`, with these ratios of times."""
    rounds = (1.0, 1.2, 0.9)
    read = experiments.read(cli.find(experiment))
    chosen = read.model_copy(update={"heap": read.heap.model_copy(update={"multiples": [2]})})
    metrics = {
        workload: {
            "one": [{"wall_s": speed} for speed in rounds],
            variant: [{"wall_s": speed * ratio} for speed in rounds],
        }
        for workload, ratio in ratios.items()
    }
    return runs_of(chosen, metrics, has_frequency=has_frequency)


@pytest.mark.parametrize(
    ("there", "verdict"), [(1.30, "holds"), (1.00, "does not hold"), (1.105, "undecided")]
)
def test_one_experiment_can_be_held_against_another(there, verdict):
    (one,) = (it for it in statements(placement.FILE) if isinstance(it, Statement) and it.ours.than)
    runs = {
        "placement-startup": timed("placement-startup", {"xalan": 1.1, "h2": 1.11, "pmd": 1.09}),
        "placement-isolation": timed(
            "placement-isolation", {"xalan": there, "h2": there + 0.01, "pmd": there - 0.01}
        ),
    }
    found = judge(one, runs)
    assert found.verdict == verdict, found
    assert found.shown_verdict == f"{verdict} ({CORES})"
    on_sockets = {name: replace(one, nodes=2) for name, one in runs.items()}
    assert judge(one, on_sockets).shown_verdict == verdict
    page = placement.page([found], "gleaner-lab placement findings DIR").markdown()
    assert f"{placement.WORDS[verdict]} ({CORES}) | 3 |" in page


def test_one_experiment_against_another_is_also_given_without_one_program():
    (one,) = (it for it in statements(placement.FILE) if isinstance(it, Statement) and it.ours.than)
    runs = {
        "placement-startup": timed("placement-startup", {"xalan": 1.1, "h2": 1.1, "pmd": 2.2}),
        # A program that one side lacks is in its mean, and beside nothing.
        "placement-isolation": timed(
            "placement-isolation", {"xalan": 1.0, "h2": 1.0, "pmd": 1.0, "jython": 1.0}
        ),
    }
    tried = judge(one, runs).tried
    assert tried.rounds == 3
    assert tried.worst == ("pmd", pytest.approx(1.2))
    assert (tried.without[0], tried.without[1].value) == ("pmd", pytest.approx(0.1))


@pytest.mark.parametrize(
    ("has_frequency", "ratio", "verdict"),
    [
        # A quota of half of the time makes it so, whatever the program.
        (False, 1.6, "cannot be tested here"),
        (False, 2.1, "cannot be tested here"),
        (True, 1.6, "holds"),
        (True, 2.1, "does not hold"),
    ],
)
def test_a_quota_of_processor_time_does_not_try_the_first_finding(has_frequency, ratio, verdict):
    first = statements(placement.FILE)[0]
    assert first.finding == 1
    ratios = {"xalan": ratio, "h2": ratio - 0.01, "pmd": ratio + 0.01}
    times = timed("placement-speed", ratios, has_frequency=has_frequency, variant="one-slow")
    found = judge(first, {"placement-speed": times})
    assert found.verdict == verdict
    assert found.tried.estimate.value == pytest.approx(ratio - 1, abs=1e-3)
    assert ("half of the processor's time" in found.shown_verdict) != has_frequency
    (word,) = placement.verdicts([found]).values()
    assert (word.startswith("cannot be tested here")) != has_frequency


def test_statements_about_slow_cores_name_what_stands_for_the_clock():
    for one in statements(placement.FILE):
        if isinstance(one, Statement) and "slow" in one.ours.configuration + one.ours.against:
            assert {it.lacking for it in one.stand_ins} == {"sockets", "frequency"}, one.says
