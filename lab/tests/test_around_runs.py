"""What is done around each run, and what is recorded of the machine meanwhile."""

import json
import os
from collections import Counter

import bench
import pytest

from gleaner_lab import cli
from gleaner_lab.machine import Moment, between
from gleaner_lab.store import ResultSet


def run(tmp_path, path, *more):
    tool, out = bench.make(tmp_path), tmp_path / "out"
    words = ["--quiet", "--out", str(out), "--bench", str(tool)]
    status = cli.main(["run", str(path), *words, *more])
    return status, ResultSet.open(out)


def noted(tmp_path, what):
    """A command that adds a line to a file."""
    return f"sh -c 'echo {what} >> {tmp_path}/done'"


def test_each_run_is_between_its_preparation_and_its_cleanup(tmp_path):
    path = bench.experiment(tmp_path, "steady", repetitions=2)
    tool = bench.make(tmp_path)
    tool.write_text(
        tool.read_text().replace(
            "pause = ", f"open('{tmp_path}/done', 'a').write('run\\n')\npause = "
        )
    )
    out = tmp_path / "out"
    words = ["--prepare", noted(tmp_path, "before"), "--cleanup", noted(tmp_path, "after")]
    cli.main(["run", str(path), *words, "--quiet", "--out", str(out), "--bench", str(tool)])
    results = ResultSet.open(out)
    lines = (tmp_path / "done").read_text().split()
    assert lines == ["before", "run", "after"] * len(list(results.records()))
    assert "--prepare 'sh -c" in results.starts()[0]["command"]
    assert all("values" in one for one in results.records())


def test_a_workload_may_have_steps_of_its_own(tmp_path):
    path = bench.experiment(tmp_path, "{name: steady, prepare: []}, prints", repetitions=1)
    command = json.dumps(["sh", "-c", f"echo before >> {tmp_path}/done"])
    path.write_text(path.read_text() + f"prepare: {command}\n")
    _, results = run(tmp_path, path)
    workloads = Counter(one["workload"] for one in results.records())
    assert len((tmp_path / "done").read_text().split()) == workloads["prints"]


@pytest.mark.parametrize("step", ["prepare", "cleanup"])
def test_a_step_that_fails_is_what_went_wrong_with_the_run(tmp_path, step):
    path = bench.experiment(tmp_path, "steady", repetitions=1)
    status, results = run(tmp_path, path, f"--{step}", "sh -c 'echo no such file >&2; exit 7'")
    problems = {one["problem"] for one in results.records()}
    assert status == 1
    assert problems == {
        f"{step}: sh -c 'echo no such file >&2; exit 7': exit status 7: no such file"
    }


@pytest.mark.parametrize("step", ["prepare", "cleanup"])
def test_a_step_without_its_program_is_refused_by_run_and_by_show(tmp_path, capsys, step):
    path = bench.experiment(tmp_path, f"{{name: steady, {step}: []}}, prints", repetitions=1)
    path.write_text(path.read_text() + f"{step}: [no-such-program, --fast]\n")
    tool, out = bench.make(tmp_path), tmp_path / "out"
    said = f"there is no program no-such-program, with which {step} of prints begins: install or"
    assert cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()
    assert cli.main(["show", str(path), "--bench", str(tool)]) == 2
    assert f"run would refuse this: {said}" in capsys.readouterr().err


def test_a_step_that_takes_too_long_is_ended(tmp_path):
    path = bench.experiment(tmp_path, "steady", repetitions=1)
    path.write_text(path.read_text() + "limit_s: 0.1\n")
    _, results = run(tmp_path, path, "--prepare", "sleep 60")
    assert all("took longer than 0.1 s" in one["problem"] for one in results.records())


def test_runs_that_warm_up_come_before_a_cell_once_and_do_not_count(tmp_path):
    path = bench.experiment(tmp_path, "steady", repetitions=3)
    _, results = run(tmp_path, path, "--warm-up", "2", "--prepare", noted(tmp_path, "before"))
    made = len(list(results.records()))
    cells = 3
    assert len((tmp_path / "done").read_text().split()) == made + 2 * cells


def proc(tmp_path, load, steal):
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "loadavg").write_text(f"{load} 0.50 0.40 2/345 6789\n")
    ticks = round(steal * os.sysconf("SC_CLK_TCK"))
    (tmp_path / "stat").write_text(f"cpu  1 2 3 4 5 6 7 {ticks} 0 0\ncpu0 1 2 3 4\n")
    return Moment.now(tmp_path)


def test_load_and_steal_are_those_of_the_kernel(tmp_path):
    before, after = proc(tmp_path / "a", 0.25, 10), proc(tmp_path / "b", 1.5, 12.5)
    assert between(before, after) == {"load_before": 0.25, "load_after": 1.5, "steal_s": 2.5}
    assert between(Moment.now(tmp_path / "none"), Moment.now(tmp_path / "none")) == {}


def test_a_wall_clock_that_is_set_is_told_from_one_that_goes(tmp_path):
    before = Moment(0.0, 0.0, 1000.0)
    assert "clock_jump_s" not in between(before, Moment(0.0, 0.0, 1000.4))
    assert between(before, Moment(0.0, 0.0, 940.0))["clock_jump_s"] == -60


def test_load_and_steal_are_in_the_journal(tmp_path):
    _, results = run(tmp_path, bench.experiment(tmp_path, "steady", repetitions=1))
    for one in results.records():
        assert one["around"]["load_before"] >= 0
        assert one["around"]["steal_s"] >= 0
