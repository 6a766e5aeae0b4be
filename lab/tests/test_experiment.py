import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from gleaner_lab import experiment as experiments
from gleaner_lab import metrics
from gleaner_lab.cells import cells_of
from gleaner_lab.cli import EXPERIMENTS, ROOT
from gleaner_lab.failure import Failure
from gleaner_lab.workload import Tools, command_of

GOOD = """\
name: small
title: A title
question: Is it so?
workloads:
  - gc_bench
  - name: shell
    command: [sh, -c, "true"]
    measure: process
configurations:
  plain: {options: {prefetch: none}}
  tuned: {options: {prefetch: [on-grey, fifo], sweep: [lazy, eager]}}
threads: [1, 2]
statistics:
  baseline: plain
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "experiment.yaml"
    path.write_text(text)
    return path


def test_lists_of_values_are_multiplied_out(tmp_path):
    experiment = experiments.read(write(tmp_path, GOOD))
    assert list(experiment.variants()) == [
        "plain",
        "tuned+prefetch=on-grey+sweep=lazy",
        "tuned+prefetch=on-grey+sweep=eager",
        "tuned+prefetch=fifo+sweep=lazy",
        "tuned+prefetch=fifo+sweep=eager",
    ]
    cells = list(cells_of(experiment))
    # Two workloads, two thread counts; five variants and the control.
    assert len(cells) == 2 * 2 * 6
    assert len({cell.key for cell in cells}) == len(cells)


def test_a_configuration_is_not_run_with_what_it_lacks(tmp_path):
    text = GOOD.replace("lazy, eager]}", "lazy, eager]}, lacks: [shell]")
    cells = list(cells_of(experiments.read(write(tmp_path, text))))
    found = {
        name: [cell for cell in cells if cell.workload.name == name]
        for name in ("gc_bench", "shell")
    }
    assert len(found["gc_bench"]) == 2 * 6
    assert {cell.variant for cell in found["shell"]} == {"plain"}


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_experiments_that_come_with_it_are_valid(path):
    experiment = experiments.read(path)
    assert experiment.name == path.stem
    assert list(cells_of(experiment))


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_gleaner_bench_knows_their_words(path, tmp_path):
    """One command of each configuration, and one of each workload."""
    experiment = experiments.read(path).model_copy(update={"pin": None})
    cells = [cell for cell in cells_of(experiment) if cell.configuration.build is None]
    some = {cell.variant: cell for cell in cells} | {cell.workload.name: cell for cell in cells}
    tools = Tools.find(None, tmp_path)
    for cell in some.values():
        command = command_of(cell, experiment, tools, log=False)
        tools.check(command)
        own = command[command.index("--") + 1 :] if "--" in command else []
        if own[:1] == [str(tools.bench)]:
            # Help is printed if all words before it are known.
            asked = [*(word.replace("{heap}", "64") for word in own), "--help"]
            heap = [word for before, word in pairwise(own) if before == "--opt"]
            env = {**os.environ, "GLEANER_OPTIONS": ",".join(heap)}
            for words in asked, [tools.word("{gleaner}"), "options"]:
                done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("threads: [1, 2]", "thread: [1, 2]", 12, "did you mean threads?"),
        ("threads: [1, 2]", "threads: [0]", 12, "greater than or equal to 1"),
        ("baseline: plain", "baseline: plane", 14, "no plane among plain"),
        ("plain: {options", "plain: {library: stock, options", 10, "options are Gleaner's"),
        ("plain: {options", "plain: {optoins", 10, "this part has library, build, options"),
        ("measure: process", "measure: proces", 8, "'json' or 'process'"),
        ("- gc_bench", "- gc bench", 5, "pattern"),
        ("threads: [1, 2]", "threads: [1, 2", 13, "expected"),
        ("  - gc_bench", "  - shell", 6, "second workload is named shell"),
        ("threads: [1, 2]", "bars: [{configuration: plain}]", 12, "either below or above"),
        (
            "threads: [1, 2]",
            "bars: [{configuration: plain, below: 1, against: [other]}]",
            12,
            "no other among plain",
        ),
        (
            "threads: [1, 2]",
            "bars: [{configuration: plain, below: 0.1, metric: imbalance.edn, figure: value}]",
            12,
            "did you mean imbalance.eden?",
        ),
        (
            "threads: [1, 2]",
            "bars: [{configuration: plain, below: 1, figure: value, of: mean}]",
            12,
            "a value is of each workload by itself",
        ),
        ("threads: [1, 2]", "bars: [{configuration: plain, below: 0}]", 12, "a ratio is never 0"),
        (
            "threads: [1, 2]",
            "bars: [{configuration: plain, below: 1}]",
            12,
            "what the bar is against",
        ),
        (
            "threads: [1, 2]",
            "threads: [1, 2]\nbars: [{configuration: plain, below: 1, threads: 3}]",
            13,
            "no 3 among 1, 2",
        ),
        ("threads: [1, 2]", "heap: {mode: default, multiples: [2]}", 12, "times-minimum"),
        ("prefetch: none}", "prefetch: none}, lacks: [other]", 10, "no other among gc_bench"),
        ("prefetch: none}", "prefetch: none}, lacks: [shell]", 14, "plain lacks shell"),
        ("baseline: plain", "baseline: pleain", 14, "did you mean plain?"),
        ("baseline: plain", "baseline: plain\n  metric: cpu_x", 15, "did you mean cpu_s?"),
        ("baseline: plain", "baseline: plain\n  also: [peak]", 15, "did you mean peak_kb?"),
        ("baseline: plain", "baseline: plain\n  equal: collection", 15, "mean collections?"),
        ("baseline: plain", "baseline: plain\n  metric: phase.marks_s", 15, "mean phase.mark_s?"),
        (
            "threads: [1, 2]",
            "bars: [{configuration: plain, below: 1, metric: wall}]",
            12,
            "did you mean wall_s?",
        ),
        (
            "threads: [1, 2]",
            "papers: [{table: zeroing-table-5}]",
            12,
            "did you mean zeroing-table-",
        ),
        (
            "threads: [1, 2]",
            "papers: [{table: zeroing-table-4, columns: {hotpath_i7: {configuration: plain, "
            "figure: speedup}}}]",
            12,
            "did you mean hot_path_i7?",
        ),
        (
            "measure: process",
            "measure: process\n    program: gc_bench",
            6,
            "a program of the catalogue, or a command",
        ),
        (
            "threads: [1, 2]",
            "papers: [{table: cache-misses-table-1, stand_ins: {pct: shell}}]",
            12,
            "did you mean ptc?",
        ),
        (
            "threads: [1, 2]",
            "papers: [{table: cache-misses-table-1, stand_ins: {ptc: shall}}]",
            12,
            "did you mean shell?",
        ),
    ],
)
def test_errors_name_the_line_and_the_remedy(tmp_path, old, new, line, message):
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(Failure) as caught:
        experiments.read(path)
    assert f"{path}:{line}:" in str(caught.value)
    assert message in str(caught.value)


def test_one_program_can_be_several_workloads(tmp_path):
    large = "  - {name: large, program: gc_bench, env: {GC_INITIAL_HEAP_SIZE: 9m}}\n"
    path = write(tmp_path, GOOD.replace("  - gc_bench\n", "  - gc_bench\n" + large))
    experiment = experiments.read(path)
    first = {cell.workload.name: cell for cell in reversed(list(cells_of(experiment)))}
    tools = Tools(tmp_path / "bench", tmp_path)
    commands = {
        name: command_of(first[name], experiment, tools, log=False)
        for name in ("gc_bench", "large")
    }
    assert commands["gc_bench"][-1] == commands["large"][-1] == "gc_bench"
    assert "GC_INITIAL_HEAP_SIZE=9m" in commands["large"]
    assert "GC_INITIAL_HEAP_SIZE=9m" not in commands["gc_bench"]


def test_the_phases_are_those_of_the_event_log():
    source = (ROOT / "crates" / "base" / "src" / "events.rs").read_text()
    table = source[source.index("\nphases! {") :]
    found = re.findall(r'^    \w+ = "([a-z-]+)",$', table[: table.index("\n}")], re.MULTILINE)
    assert set(metrics.PHASES) == set(found)


def test_a_missing_file_and_a_file_of_another_kind(tmp_path):
    with pytest.raises(Failure, match="No such file"):
        experiments.read(tmp_path / "none.yaml")
    with pytest.raises(Failure, match="mapping of fields"):
        experiments.read(write(tmp_path, "- one\n- two\n"))
