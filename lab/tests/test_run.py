import json
import os
import random
import signal
import subprocess
import sys
import time

import bench
import pytest

from gleaner_lab import cli, commands, machine
from gleaner_lab import experiment as experiments
from gleaner_lab.analysis import differing_outputs, failures_of, judge, lines_of
from gleaner_lab.build import build_of, commits
from gleaner_lab.cells import cells_of
from gleaner_lab.failure import Failure
from gleaner_lab.store import ResultSet
from gleaner_lab.workload import ENDS_WITH_PARENT, Tools, command_of, is_native


def run(tmp_path, workloads, *more, repetitions=6):
    path = bench.experiment(tmp_path, workloads, repetitions)
    tool = bench.make(tmp_path)
    out = tmp_path / "results"
    status = cli.main(["run", str(path), "--out", str(out), "--bench", str(tool), *more])
    return status, ResultSet.open(out)


def keys(results):
    return sorted(record["key"] for record in results.records())


def test_an_experiment_from_its_file_to_its_report(tmp_path, capsys):
    status, results = run(tmp_path, "steady, prints")
    # One bar is met, the other cannot be.
    assert status == 1
    experiment = experiments.read(results.experiment)
    frame = results.table()
    lines = lines_of(frame, experiment)
    assert len(lines) == 2 * 3
    gleaner = [line for line in lines if line.variant == "gleaner"]
    assert all(0.75 < line.ratio.value < 0.85 for line in gleaner)
    assert all(line.ratio.runs == 6 and len(line.values) == 6 for line in gleaner)
    control = [line for line in lines if line.control]
    assert all(0.95 < line.ratio.value < 1.05 for line in control)
    prints = next(line for line in gleaner if line.workload == "prints")
    assert prints.medians["printed.steps"] == 7
    assert prints.medians["phase.mark_s"] == 0.04
    verdicts = [one.verdict.word for one in judge(frame, experiment)]
    assert verdicts == ["met", "met", "violated"]
    text = capsys.readouterr().out
    assert "report.html" in text
    assert "steady, 1 thread, medians" in text
    assert "violated" in text


def test_what_fails_is_named_and_the_rest_stands(tmp_path, capsys):
    status, results = run(tmp_path, "steady, crashes, hangs, silent, garbled, differs")
    assert status == 1
    frame = results.table()
    problems = failures_of(frame).groupby("workload")["problem"].first()
    assert "SIGSEGV" in problems["crashes"]
    assert "longer than allowed" in problems["hangs"]
    assert "no client is named silent" in problems["silent"]
    assert "no result" in problems["garbled"]
    assert "steady" not in problems
    assert differing_outputs(frame) == ["differs"]
    page = (results.path / "report.html").read_text()
    assert "SIGSEGV" in page
    assert "differs did not print the same" in page
    assert "steady" in page
    assert "crashes" in capsys.readouterr().out


def test_a_command_that_should_print_json_and_does_not(tmp_path):
    path = tmp_path / "own.yaml"
    bench.experiment(tmp_path, "steady").rename(path)
    text = path.read_text().replace(
        "[steady]", "[{name: mine, command: [steady]}, {name: other, command: [prints]}]"
    )
    path.write_text(text)
    tool, out = bench.make(tmp_path), tmp_path / "results"
    cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)])
    failures = failures_of(ResultSet.open(out).table())
    assert set(failures["workload"]) == {"mine"}
    assert "printed no JSON object" in failures["problem"].iloc[0]


@pytest.mark.parametrize("iteration", [1, 2, 3])
def test_the_iteration_that_counts(tmp_path, iteration):
    path = bench.experiment(tmp_path, "iterates, steady", repetitions=1)
    path.write_text(path.read_text() + f"iteration: {iteration}\n")
    tool, out = bench.make(tmp_path), tmp_path / "results"
    cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)])
    records = [one for one in ResultSet.open(out).records() if one["workload"] == "iterates"]
    if iteration == 3:
        assert all("printed 2 iterations" in one["problem"] for one in records)
    else:
        assert {one["values"]["wall_s"] for one in records} == {[3.0, 1.0][iteration - 1]}
    steady = [one for one in ResultSet.open(out).records() if one["workload"] == "steady"]
    assert all(("problem" in one) == (iteration > 1) for one in steady)


def test_killed_at_random_points_and_resumed_nothing_is_lost_or_doubled(tmp_path):
    path = bench.experiment(tmp_path, "steady, prints", repetitions=4)
    tool, out = bench.make(tmp_path), tmp_path / "results"
    source, before = random.Random(5), []
    command = [sys.executable, "-m", "gleaner_lab.cli", "run", str(path), "--out", str(out)]
    for _ in range(4):
        child = subprocess.Popen(
            [*command, "--bench", str(tool)],
            env={**os.environ, "BENCH_PAUSE": "0.05"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Not before something was measured, or only starting up would be interrupted.
        while child.poll() is None and len(before) == _runs(out):
            time.sleep(0.01)
        time.sleep(source.random() * 0.2)
        child.send_signal(signal.SIGKILL)
        child.wait()
        lines = (out / "runs.jsonl").read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        assert whole[: len(before)] == before
        before = whole
        command = [sys.executable, "-m", "gleaner_lab.cli", "resume", str(out)]
    cli.main(["resume", str(out), "--bench", str(tool)])
    results = ResultSet.open(out)
    assert list((out / "runs.jsonl").read_text().splitlines(keepends=True))[: len(before)] == before
    whole_path = tmp_path / "whole"
    cli.main(["run", str(path), "--out", str(whole_path), "--bench", str(tool)])
    assert keys(results) == keys(ResultSet.open(whole_path))
    assert len(set(keys(results))) == len(keys(results))


def _runs(out):
    journal = out / "runs.jsonl"
    return len(journal.read_bytes().splitlines()) if journal.exists() else 0


def test_a_line_cut_short_is_done_again(tmp_path):
    _, results = run(tmp_path, "steady", repetitions=2)
    whole = keys(results)
    journal = results.path / "runs.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    assert len(keys(results)) == len(whole) - 1
    cli.main(["resume", str(results.path), "--bench", str(tmp_path / "bench")])
    assert keys(results) == whole


def test_a_full_disk_loses_nothing_and_is_named(tmp_path):
    path = bench.experiment(tmp_path, "steady", repetitions=40)
    tool, out = bench.make(tmp_path), tmp_path / "results"
    # A file may not grow past this many bytes: the kernel then fails writes as a full disk does.
    script = (
        "import resource, signal, sys; from gleaner_lab import cli; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); "
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "run", str(path), "--out", str(out), "--bench", str(tool)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "runs.jsonl: File too large (ulimit -f allows 9000 bytes a file)" in done.stderr
    assert "gleaner-lab resume" in done.stderr
    assert "Traceback" not in done.stderr
    made = keys(ResultSet.open(out))
    assert 0 < len(made) < 40
    # Nothing failed; the mean over a single workload decides nothing.
    assert cli.main(["resume", str(out), "--bench", str(tool)]) == 3
    assert set(made) < set(keys(ResultSet.open(out)))


def test_results_of_another_form_are_refused(tmp_path, capsys):
    _, results = run(tmp_path, "steady", repetitions=2)
    (results.path / "form").write_text("99\n")
    assert cli.main(["report", str(results.path)]) == 2
    assert "has form 99, this program reads form 1" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "is not a result set" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["runs.jsonl", "machines.json", "starts.json", "builds.json", "heaps.json"]
)
def test_a_result_set_that_something_else_wrote_to_is_named(tmp_path, capsys, name):
    _, results = run(tmp_path, "steady", repetitions=1)
    for text in ["{\n", "[]\n"] if name == "runs.jsonl" else [""]:
        (results.path / name).write_text(text)
        assert cli.main(["resume", str(results.path), "--bench", str(tmp_path / "bench")]) == 2
        assert name in capsys.readouterr().err


def test_bad_commands_are_named(tmp_path, capsys):
    assert cli.main(["show", "no-such-experiment"]) == 2
    assert "boehm-table1" in capsys.readouterr().err
    path = bench.experiment(tmp_path, "steady")
    assert cli.main(["run", str(path), "--out", str(tmp_path / "x"), "--bench", "/no/bench"]) == 2
    assert "is no program: run make build" in capsys.readouterr().err
    assert cli.main(["run", str(path), "--only", "none", "--out", str(tmp_path / "y")]) == 2
    assert "no workload none among steady" in capsys.readouterr().err


def test_configurations_are_left_out_with_what_is_about_them():
    path = cli.EXPERIMENTS / "rivals.yaml"
    text = commands.changed(path, {"configurations": ["compressed", "mmtk-immix"]})
    changed = experiments.parse(text, path)
    assert list(changed.configurations) == ["wide", "compressed", "mmtk-immix"]
    [bar] = changed.bars
    assert (bar.configuration, bar.against, bar.workloads) == ("wide", ["mmtk-immix"], ["gcbench"])
    path = cli.EXPERIMENTS / "zeroing.yaml"
    changed = experiments.parse(commands.changed(path, {"configurations": ["adaptive"]}), path)
    columns = {paper.table: list(paper.columns) for paper in changed.papers}
    assert len(columns["zeroing-table-1"]) == 4
    assert columns["zeroing-table-3"] == ["direct_cost_i7"]
    assert columns["zeroing-table-4"] == ["adaptive_i7"]
    assert changed.bars == []
    with pytest.raises(Failure, match="no configuration other among wide"):
        commands.changed(cli.EXPERIMENTS / "rivals.yaml", {"configurations": ["other"]})


def test_only_keeps_the_bars_of_its_workloads():
    path = cli.EXPERIMENTS / "rivals.yaml"
    text = commands.changed(path, {"only": ["gcbench"]})
    changed = experiments.parse(text, path)
    assert [one.name for one in changed.workloads] == ["gcbench"]
    assert [bar.workloads for bar in changed.bars] == [["gcbench"], ["gcbench"]]
    assert len(experiments.read(path).bars) > 2
    path = cli.EXPERIMENTS / "rivals-programs.yaml"
    changed = experiments.parse(commands.changed(path, {"only": ["ephemerons"]}), path)
    assert changed.configurations["hotspot"].lacks == ["ephemerons"]
    assert changed.configurations["malloc"].lacks == ["ephemerons"]


def test_only_keeps_the_stand_ins_that_are_left():
    path = cli.EXPERIMENTS / "boehm-table1.yaml"
    changed = experiments.parse(commands.changed(path, {"only": ["ptc-stand-in"]}), path)
    assert [one.stand_ins for one in changed.papers] == [{"ptc": "ptc-stand-in"}, {}]


def test_list_and_show(capsys):
    assert cli.main(["list"]) == 0
    assert "boehm-table1" in capsys.readouterr().out
    assert cli.main(["show", "minheap"]) == 0
    assert "6 x minimum" in capsys.readouterr().out


def test_two_result_sets_are_compared(tmp_path, capsys):
    path, tool = bench.experiment(tmp_path, "steady"), bench.make(tmp_path)
    for name in ("one", "other"):
        cli.main(["run", str(path), "--out", str(tmp_path / name), "--bench", str(tool)])
    capsys.readouterr()
    assert cli.main(["compare", str(tmp_path / "one"), str(tmp_path / "other")]) == 0
    assert "not made in the same rounds" in capsys.readouterr().out


def test_the_machine_is_recorded(tmp_path):
    _, results = run(tmp_path, "steady", repetitions=2)
    facts = json.loads((results.path / "machines.json").read_text())
    (name,) = facts
    assert {record["machine"] for record in results.records()} == {name}
    assert facts[name]["processors"] == len(os.sched_getaffinity(0))
    changed = {**facts[name], "kernel": "another"}
    assert machine.identity(changed) != name


@pytest.mark.parametrize("mode", ["times-minimum", "equal-peak"])
def test_heap_sizes_are_searched_for_once(tmp_path, mode):
    path = bench.experiment(tmp_path, "needs", repetitions=2)
    multiples = ", multiples: [2]" if mode == "times-minimum" else ""
    path.write_text(path.read_text() + f"heap: {{mode: {mode}{multiples}}}\n")
    tool, out = bench.make(tmp_path), tmp_path / "results"
    cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)])
    heaps = (out / "heaps.json").read_text()
    cli.main(["resume", str(out), "--bench", str(tool)])
    assert (out / "heaps.json").read_text() == heaps
    commands = [json.dumps(record["command"]) for record in ResultSet.open(out).records()]
    gleaners = [command for command in commands if '"gleaner"' in command]
    assert gleaners
    wanted = "heap-limit=" if mode == "times-minimum" else "free-space-divisor="
    assert all(wanted in command for command in gleaners)


def test_what_failed_can_be_run_again(tmp_path):
    status, results = run(tmp_path, "steady, crashes", repetitions=2)
    failed = set(failures_of(results.table())["key"])
    whole = keys(results)
    assert status == 1
    assert failed
    tool = bench.make(tmp_path)
    tool.write_text(tool.read_text().replace('"crashes"', '"crashes no more"'))
    # Another build of what is measured is refused, so the runs are given this one's name.
    assert cli.main(["resume", str(results.path), "--failed", "--bench", str(tool)]) == 2
    lines = (results.path / "runs.jsonl").read_text().splitlines()
    build = build_of(experiments.read(results.experiment), Tools.find(tool, tmp_path)).identity
    (results.path / "runs.jsonl").write_text(
        "".join(json.dumps({**json.loads(line), "build": build}) + "\n" for line in lines)
    )
    cli.main(["resume", str(results.path), "--bench", str(tool)])
    assert set(failures_of(results.table())["key"]) == failed
    cli.main(["resume", str(results.path), "--failed", "--bench", str(tool)])
    assert failures_of(results.table()).empty
    assert keys(results) == whole


def test_results_of_two_builds_are_not_mixed(tmp_path, capsys):
    _, results = run(tmp_path, "steady", repetitions=1)
    before = (results.path / "runs.jsonl").read_bytes()
    tool = bench.make(tmp_path)
    tool.write_text(tool.read_text() + "# changed\n")
    assert cli.main(["resume", str(results.path), "--bench", str(tool)]) == 2
    assert "run the experiment anew" in capsys.readouterr().err
    assert (results.path / "runs.jsonl").read_bytes() == before


def own_program(tmp_path, *words):
    """An experiment about a program of the user's own, which `words` name."""
    path = bench.experiment(tmp_path, "steady", repetitions=1)
    command = ", ".join(map(str, words))
    path.write_text(path.read_text().replace("[steady]", f"[{{name: mine, command: [{command}]}}]"))
    return path


@pytest.mark.parametrize("how", ["program", "argument", "library", "environment"])
def test_a_program_of_ones_own_that_was_built_anew_is_not_mixed(tmp_path, capsys, how):
    tool, out = bench.make(tmp_path), tmp_path / "out"
    part = tmp_path / "part.so"
    part.write_text("one")
    launcher = tmp_path / "launcher"
    launcher.write_text(f"#!/bin/sh\nexec steady {part}\n")
    launcher.chmod(0o755)
    words = {"program": [launcher], "library": [launcher], "argument": ["prints", f"--lib={part}"]}
    path = own_program(tmp_path, *words.get(how, ["prints"]))
    if how == "environment":
        text = path.read_text().replace("{sweep: lazy}", f"{{sweep: lazy}}, env: {{L: {part}}}")
        path.write_text(text)
    cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)])
    before = (out / "runs.jsonl").read_bytes()
    changed = launcher if how == "program" else part
    changed.write_text(changed.read_text() + "# built anew\n")
    capsys.readouterr()
    assert cli.main(["resume", str(out), "--bench", str(tool)]) == 2
    said = capsys.readouterr().err
    assert f"not the same: {changed.name};" in said
    assert (out / "runs.jsonl").read_bytes() == before


def test_two_at_once_do_not_write_one_journal(tmp_path, capsys):
    _, results = run(tmp_path, "steady", repetitions=1)
    before = (results.path / "runs.jsonl").read_bytes()
    with ResultSet.open(results.path).locked():
        status = cli.main(["resume", str(results.path), "--bench", str(tmp_path / "bench")])
        assert status == 2
        said = capsys.readouterr().err
        assert f"process {os.getpid()}" in said
        assert "another gleaner-lab runs it" in said
    assert (results.path / "runs.jsonl").read_bytes() == before
    assert cli.main(["resume", str(results.path), "--bench", str(tmp_path / "bench")]) != 2


def test_a_line_of_the_journal_that_is_no_run_is_named_and_may_go(tmp_path, capsys):
    _, results = run(tmp_path, "steady", repetitions=2)
    journal, tool = results.path / "runs.jsonl", str(tmp_path / "bench")
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([lines[0], lines[1][:40], *lines[2:]]) + "\n")
    capsys.readouterr()
    assert cli.main(["resume", str(results.path), "--bench", tool]) == 2
    said = capsys.readouterr().err
    assert f"{journal}:2: not a run" in said and "take the line out" in said
    journal.write_text("\n".join([lines[0], *lines[2:]]) + "\n")
    assert cli.main(["resume", str(results.path), "--bench", tool]) != 2
    assert len(journal.read_text().splitlines()) == len(lines)


def is_running(pid):
    try:
        return "State:\tZ" not in open(f"/proc/{pid}/status").read()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_lab_that_is_killed_leaves_nothing_running(tmp_path, name):
    pids, out = tmp_path / "pids", tmp_path / "out"
    script = tmp_path / "program"
    script.write_text(
        f"#!/bin/sh\nsleep 600 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait\n"
    )
    script.chmod(0o755)
    path = own_program(tmp_path, script)
    command = [sys.executable, "-m", "gleaner_lab.cli", "run", str(path), "--out", str(out)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while child.poll() is None and not pids.exists():
        time.sleep(0.01)
    running = pids.read_text().split()
    assert len(running) == 2
    child.send_signal(getattr(signal, name))
    child.wait()
    # The kernel tells gleaner-bench, which ends them; nobody waits for that any more.
    while any(map(is_running, running)):
        time.sleep(0.01)


def test_ended_by_a_signal_it_says_how_to_go_on(tmp_path):
    # More runs than there is time for, however long it takes to see the first.
    path = bench.experiment(tmp_path, "steady", repetitions=10000)
    tool, out = bench.make(tmp_path), tmp_path / "out"
    command = [sys.executable, "-m", "gleaner_lab.cli", "run", str(path), "--out", str(out)]
    child = subprocess.Popen(
        [*command, "--bench", str(tool)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while child.poll() is None and _runs(out) == 0:
        time.sleep(0.01)
    child.send_signal(signal.SIGTERM)
    assert "gleaner-lab resume" in child.communicate()[1]
    assert child.returncode == 130


DROPS_IT = """\
import os, signal, sys, time
from gleaner_lab import cli

# However these tests were started.
signal.signal(signal.{name}, signal.SIG_DFL)

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(0)

def work(chosen):
    Dropped()
    for _ in range(3000):
        time.sleep(0.01)
    return 0

cli._list = work
sys.exit(cli.main(["list"]))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_that_falls_where_python_drops_exceptions_is_not_lost(name):
    done = subprocess.run(
        [sys.executable, "-c", DROPS_IT.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Exception ignored in" in done.stderr
    assert "gleaner-lab: stopped" in done.stderr
    assert done.returncode == 130


def test_a_run_is_started_without_the_hooks_around_fork(tmp_path):
    forks = []
    os.register_at_fork(before=lambda: forks.append(1))
    run(tmp_path, "steady", repetitions=1)
    assert forks == []


def test_what_is_started_after_the_lab_ended_does_not_run(tmp_path):
    file = tmp_path / "ran"
    nobody = subprocess.Popen(["true"])
    nobody.wait()
    for parent, runs in [(nobody.pid, False), (os.getpid(), True)]:
        subprocess.run([*ENDS_WITH_PARENT, str(parent), "touch", str(file)], check=False)
        assert file.exists() == runs


REAL = """\
name: real
title: The real programs
question: Does everything work together?
size: tiny
workloads: [gc_bench, malloc_free]
configurations:
  libgc: {library: stock}
  gleaner: {options: {stress: 50}}
repetitions: 2
canary_every: null
statistics: {baseline: libgc}
"""


def test_the_real_programs(tmp_path):
    path, out = tmp_path / "real.yaml", tmp_path / "results"
    path.write_text(REAL)
    assert cli.main(["run", str(path), "--out", str(out)]) == 0
    frame = ResultSet.open(out).table()
    assert differing_outputs(frame) == []
    ours = frame[frame["variant"] == "gleaner"]
    assert (ours["values.collections"] > 0).all()
    assert (ours["values.phase.mark_s"] > 0).all()
    assert (ours["values.broken_lines"] == 0).all()
    # Before the last collection at most all that the program allocated, by the library's count.
    assert (ours["values.allocated_bytes"] <= ours["values.printed.allocated_bytes"]).all()
    assert (ours["values.allocated_bytes"] > 0).all()


def test_the_real_programs_in_their_steady_state(tmp_path):
    path, out = tmp_path / "real.yaml", tmp_path / "results"
    text = REAL.replace("size: tiny", "size: ci").replace("{stress: 50}", "{}")
    path.write_text(text + "iteration: 3\n")
    assert cli.main(["run", str(path), "--out", str(out)]) == 0
    frame = ResultSet.open(out).table()
    assert (frame["values.wall_s"] > 0).all()
    assert "values.total_pause_s" not in frame
    # What one iteration allocates depends on the program alone, but for what free lists hold.
    once = frame[frame["workload"] == "gc_bench"]["values.allocated_bytes"]
    assert once.max() < 1.1 * once.min()


def test_the_precise_heap_runs_in_the_lab(tmp_path):
    out = tmp_path / "results"
    text = (
        (cli.EXPERIMENTS / "precise-heap.yaml")
        .read_text()
        .replace("--workers", "--tiny, --workers")
    )
    path = tmp_path / "precise.yaml"
    path.write_text(text)
    assert cli.main(["run", str(path), "--out", str(out), "--repetitions", "1"]) == 0
    frame = ResultSet.open(out).table()
    assert (frame["values.printed.allocated_bytes"] > 0).all()
    assert set(frame["variant"]) == {"wide-1", "wide-2", "compressed-1", "compressed-2"}


@pytest.mark.parametrize("path", sorted(cli.EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_experiments_that_come_with_gleaner_name_programs_that_exist(path):
    experiment = experiments.read(path)
    known = (cli.ROOT / "clients" / "clients.toml").read_text()
    for workload in experiment.workloads:
        assert workload.command is not None or f'name = "{workload.catalogued}"' in known


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("[gc_bench", "[gc_benhc", "no client is named \"gc_benhc\"; the nearest is 'gc_bench'"),
        ("stress: 50", "strees: 50", "unknown option 'strees'; the nearest is 'stress'"),
        ("stress: 50", "sweep: laxy", "'laxy'"),
        ("stress: 50", "old: mark-sweep", "option old"),
        # A program that has no heap of Gleaner's would not read its options.
        (
            "[gc_bench, malloc_free]",
            "[{name: mine, command: [echo, '{}']}]\nrepetitions: 1",
            "unknown option 'strees'",
        ),
    ],
)
def test_what_is_misspelt_is_refused_before_anything_runs(tmp_path, capsys, before, after, said):
    path, out = tmp_path / "real.yaml", tmp_path / "out"
    text = REAL.replace(before, after)
    if "mine" in after:
        text = text.replace("repetitions: 2\n", "").replace("stress: 50", "strees: 50")
    path.write_text(text)
    assert cli.main(["run", str(path), "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()
    assert cli.main(["show", str(path)]) == 2
    shown = capsys.readouterr()
    assert "run would refuse this" in shown.err and said in shown.err
    assert "2 rounds" in shown.out or "1 rounds" in shown.out


def test_show_says_what_it_cannot_find_out(tmp_path, capsys):
    path = bench.experiment(tmp_path, "steady")
    assert cli.main(["show", str(path), "--bench", str(tmp_path / "none")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "whether options are misspelt is not known" in said and "run make build" in said


@pytest.mark.parametrize("command", ["no-such-program --fast", "/no/such/program"])
def test_show_names_a_program_that_is_not_there(tmp_path, capsys, command):
    words = f"{{name: mine, command: [{', '.join(command.split())}]}}"
    path, tool = bench.experiment(tmp_path, f"steady, {words}"), bench.make(tmp_path)
    assert cli.main(["show", str(path), "--bench", str(tool)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"there is no program {command.split()[0]}, which mine runs: install or build it" in said
    path = bench.experiment(tmp_path, "steady, {name: mine, command: [echo]}")
    assert cli.main(["show", str(path), "--bench", str(tool)]) == 0
    assert "there is no program" not in capsys.readouterr().out


@pytest.mark.parametrize("number", ["0", "-1", "10001", "many"])
def test_a_number_of_repetitions_is_refused_by_the_option(tmp_path, capsys, number):
    path = bench.experiment(tmp_path, "steady")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["run", str(path), f"--repetitions={number}"])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert f"argument --repetitions: {number} is no whole number from 1 to 10000" in said


def test_an_experiment_that_is_not_there_is_named_with_the_nearest(capsys):
    assert cli.main(["show", "rival"]) == 2
    assert "did you mean rivals" in capsys.readouterr().err


def test_minheap_refuses_what_is_misspelt_before_anything_runs(capsys):
    assert cli.main(["minheap", "gc_bench", "malloc_fre", "--size", "tiny"]) == 2
    said = capsys.readouterr()
    assert "no client is named \"malloc_fre\"; the nearest is 'malloc_free'" in said.err
    assert said.out == ""


def test_a_number_that_no_run_prints_ends_the_experiment_with_the_first(tmp_path, capsys):
    tool, out = bench.make(tmp_path), tmp_path / "out"
    path = bench.experiment(tmp_path, "prints", repetitions=2)
    text = path.read_text()
    path.write_text(text.replace("baseline: libgc", "baseline: libgc, metric: printed.step"))
    command = ["run", str(path), "--out", str(out), "--bench", str(tool)]
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert "it printed no printed.step; did you mean printed.steps?" in said
    # There is room for the result set of the corrected command.
    assert not out.exists()
    path.write_text(text.replace("baseline: libgc", "baseline: libgc, metric: printed.steps"))
    assert cli.main(command) != 2
    # A further metric may be some programs' alone.
    path.write_text(
        text.replace("baseline: libgc", "baseline: libgc, also: [printed.other_things]")
    )
    out = tmp_path / "other"
    assert cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)]) == 3
    path.write_text(text.replace("baseline: libgc", "baseline: libgc, also: [printed.stpes]"))
    out = tmp_path / "third"
    assert cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)]) == 2
    # Heap sizes take long to find: they stay.
    path.write_text(
        text.replace("[prints]", "[needs]").replace(
            "baseline: libgc", "baseline: libgc, metric: printed.x"
        )
        + "heap: {mode: times-minimum, multiples: [2]}\n"
    )
    out = tmp_path / "sized"
    capsys.readouterr()
    assert cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)]) == 2
    assert "--heaps" in capsys.readouterr().err
    assert ResultSet.open(out).heaps()


FULL = "gleaner-lab: output: No space left on device: make room, and give the command again\n"


@pytest.mark.parametrize("how", ["> /dev/full", "| true"])
def test_output_that_cannot_be_written_is_no_traceback(how):
    command = f"{sys.executable} -m gleaner_lab.cli list {how}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert done.stderr == (FULL if ">" in how else "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "{binary}"], "it is not text in UTF-8"),
        (
            ["run", "libgc-clients-default", "--out", "{out}", "--bench", "/tmp"],
            "/tmp is no program",
        ),
        (
            ["run", "libgc-clients-default", "--out", "{out}", "--scheduler", "x"],
            "no Dask scheduler at x",
        ),
    ],
)
def test_wrong_words_are_no_traceback_and_leave_nothing_behind(tmp_path, capsys, words, said):
    binary, out = tmp_path / "binary.yaml", tmp_path / "out"
    binary.write_bytes(b"\xa1\xff")
    assert cli.main([word.format(binary=binary, out=out) for word in words]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_the_tables_say_how_they_can_be_made_again(tmp_path):
    path, tool, out = (
        bench.experiment(tmp_path, "steady, prints"),
        bench.make(tmp_path),
        tmp_path / "out",
    )
    words = [str(path), "--repetitions", "3", "--size", "tiny", "--limit", "60", "--only", "prints"]
    words += ["--configuration", "gleaner"]
    cli.main(["run", *words, "--out", str(out), "--bench", str(tool)])
    cli.main(["resume", str(out), "--bench", str(tool)])
    file = tmp_path / "tables.md"
    assert cli.main(["report", str(out), "--markdown", str(file)]) == 0
    text = file.read_text()
    results = ResultSet.open(out)
    commands = [line.strip() for line in text.splitlines() if line.startswith("    gleaner-lab")]
    assert commands == [f"gleaner-lab run {' '.join(words)}", "gleaner-lab resume DIR"]
    (machine_name,) = results.machines()
    (build,) = results.builds()
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    (line,) = [line for line in text.splitlines() if line.startswith("3 rounds")]
    assert "size tiny" in line
    assert f"commit {commit}" in line
    assert f"build {build} (bench {results.builds()[build]['bench']}" in line
    assert line.endswith(f"machine {machine_name}.")
    # Without --out, the printed command makes the same runs.
    again = commands[0].split()[1:]
    cli.main([*again, "--out", str(tmp_path / "again"), "--bench", str(tool)])
    assert keys(ResultSet.open(tmp_path / "again")) == keys(results)


def test_a_build_in_the_middle_of_a_run_is_noticed(tmp_path):
    path, tool, out = bench.experiment(tmp_path, "steady"), bench.make(tmp_path), tmp_path / "out"
    tool.write_text(tool.read_text() + "open(__file__, 'a').write('# built anew\\n')\n")
    cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)])
    assert "made with different builds of Gleaner" in (out / "report.html").read_text()


def test_a_rivals_words_are_filled_in(tmp_path):
    path = bench.experiment(tmp_path, "steady")
    text = path.read_text().replace(
        "gleaner: {options: {sweep: lazy}}",
        'gleaner: {library: none, prefix: ["{rivals}/one"], arguments: ["-m{heap}m", "{bench}"]}',
    )
    path.write_text(text.replace("[steady]", "[{name: mine, command: [steady]}]"))
    experiment = experiments.read(path)
    (cell,) = [cell for cell in cells_of(experiment) if cell.variant == "gleaner"]
    tools = Tools(tmp_path / "target" / "release" / "bench", tmp_path)
    sized = commands.with_limit(cell, {"heap-limit": (5 << 20) + 1})
    words = command_of(sized, experiment, tools, log=False)
    rivals = str(tmp_path / "target" / "rivals" / "one")
    assert words[words.index("--") :] == ["--", rivals, "steady", "-m6m", str(tools.bench)]
    tiny = experiment.model_copy(update={"size": "tiny"})
    assert command_of(sized, tiny, tools, log=False) == [*words, "--tiny"]
    with pytest.raises(Failure, match="mode times-minimum"):
        commands.with_limit(sized, {"heap-limit": 1})


def test_workloads_of_the_precise_heap_can_be_tiny():
    assert is_native(["{bench}", "native", "jbb"])
    assert not is_native(["{bench}", "pauses"])
    assert not is_native(["java", "Main"])


def test_a_configuration_runs_the_build_that_it_names(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    path = bench.experiment(tmp_path, "steady")
    gleaner = "gleaner: {options: {sweep: lazy}}"
    named = f"gleaner: {{build: {other}, options: {{sweep: lazy}}}}"
    path.write_text(path.read_text().replace(gleaner, named))
    experiment, tools = experiments.read(path), Tools(bench.make(tmp_path), tmp_path)

    def program(variant):
        (cell, *_) = [cell for cell in cells_of(experiment) if cell.variant == variant]
        return command_of(cell, experiment, tools, log=False)[0]

    with pytest.raises(Failure, match=f"{other}/.* is no program"):
        program("gleaner")
    before = bench.make(other)
    before.write_text(before.read_text() + "# another build\n")
    assert program("gleaner") == str(before)
    assert program("libgc") == str(tools.bench)
    files = build_of(experiment, tools).files
    assert {str(before), tools.bench.name} <= set(files)
    assert commits(files) == {}
    (other / "commit").write_text("0123abc\n")
    assert commits(build_of(experiment, tools).files) == {str(other): "0123abc"}


def test_the_report_names_the_commit_of_another_build(tmp_path):
    other, out = tmp_path / "other", tmp_path / "out"
    other.mkdir()
    bench.make(other)
    (other / "commit").write_text("0123abc\n")
    path = bench.experiment(tmp_path, "steady")
    gleaner = "gleaner: {options: {sweep: lazy}}"
    named = f"gleaner: {{build: {other}, options: {{sweep: lazy}}}}"
    path.write_text(path.read_text().replace(gleaner, named))
    cli.main(["run", str(path), "--out", str(out), "--bench", str(bench.make(tmp_path))])
    page = tmp_path / "page.md"
    cli.main(["report", str(out), "--markdown", str(page)])
    expected = f"{other} of commit 0123abc"
    assert expected in page.read_text() and expected in (out / "report.html").read_text()


def test_a_limit_of_the_command_line_is_the_one_that_ends_processes(tmp_path):
    path, out = bench.experiment(tmp_path, "steady"), tmp_path / "out"
    words = ["run", str(path), "--repetitions", "1", "--limit", "7", "--out", str(out)]
    cli.main([*words, "--bench", str(bench.make(tmp_path))])
    assert experiments.read(ResultSet.open(out).experiment).limit_s == 7
    for wrong in ("0", "-3", "2.5", "x", ""):
        with pytest.raises(SystemExit):
            cli.main(["run", str(path), "--limit", wrong])
