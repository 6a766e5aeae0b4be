"""Result sets and programs as they should not be: each is named, with what to do, and kept."""

import errno
import json
import os
import re
import resource
import shutil
import signal
from contextlib import contextmanager
from datetime import datetime, timedelta

import bench
import pytest

from gleaner_lab import cli, machine
from gleaner_lab.failure import Failure
from gleaner_lab.store import ResultSet
from gleaner_lab.tree import ROOT
from gleaner_lab.workload import measure
from gleaner_lab.written import unwritten


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("made")
    path, tool = bench.experiment(directory, "steady", repetitions=2), bench.make(directory)
    out = directory / "out"
    cli.main(["run", str(path), "--quiet", "--out", str(out), "--bench", str(tool)])
    return directory


@pytest.fixture
def results(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return ResultSet.open(tmp_path / "out")


def resume(results, *more):
    tool = results.path.parent / "bench"
    return cli.main(["resume", str(results.path), "--quiet", "--bench", str(tool), *more])


def test_a_journal_that_ends_within_a_line_says_so(results, capsys):
    journal = results.path / "runs.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    assert cli.main(["report", str(results.path)]) == 0
    said = capsys.readouterr().err
    assert "runs.jsonl: the last line was cut off" in said
    assert f"gleaner-lab resume {results.path} makes it again" in said
    assert "the last line was cut off" in (results.path / "report.html").read_text()
    resume(results)
    assert results.warnings() == []


def test_an_experiment_that_was_cut_off_judges_nothing(results, capsys):
    whole = results.experiment.read_text()
    results.experiment.write_text(whole[: whole.index("repetitions")])
    for command in (["report", str(results.path)], ["export", str(results.path)]):
        assert cli.main(command) == 2
        assert "experiment.yaml is not what was run" in capsys.readouterr().err
    assert resume(results) == 2
    assert "bring the file back" in capsys.readouterr().err
    results.experiment.write_text(whole)
    # A result set of an older version has no hash of it.
    (results.path / "experiment.sha256").unlink()
    assert cli.main(["report", str(results.path)]) == 0


def test_a_journal_that_is_damaged_within_is_named_by_its_line_and_kept(results, capsys):
    journal = results.path / "runs.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    lines[1] = lines[1][:30] + lines[2]
    journal.write_text("".join(lines))
    before = journal.read_bytes()
    for command in (["report", str(results.path)], ["export", str(results.path)]):
        assert cli.main(command) == 2
        assert "runs.jsonl:2: not a run" in capsys.readouterr().err
    assert resume(results) == 2
    assert "take the line out" in capsys.readouterr().err
    assert journal.read_bytes() == before
    del lines[1]
    journal.write_text("".join(lines))
    assert resume(results) in (0, 1, 3)
    assert cli.main(["report", str(results.path)]) == 0


@pytest.mark.parametrize("started", ["noon", 12])
def test_a_run_whose_time_is_none_is_named_by_its_line(results, capsys, started):
    journal = results.path / "runs.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    lines[1] = json.dumps(json.loads(lines[1]) | {"started": started}) + "\n"
    journal.write_text("".join(lines))
    assert cli.main(["report", str(results.path)]) == 2
    assert "runs.jsonl:2: not a run" in capsys.readouterr().err


def test_an_older_experiment_that_was_cut_short_is_named_with_what_it_lacks(tmp_path, capsys):
    path, tool = bench.experiment(tmp_path, "steady, prints", repetitions=1), bench.make(tmp_path)
    out = tmp_path / "out"
    cli.main(["run", str(path), "--quiet", "--out", str(out), "--bench", str(tool)])
    experiment = ResultSet.open(out).experiment
    experiment.with_name("experiment.sha256").unlink()
    experiment.write_text(experiment.read_text().replace("steady, prints", "steady"))
    assert cli.main(["report", str(out)]) == 2
    assert "runs.jsonl has runs of prints, 1 thread" in capsys.readouterr().err


def test_a_result_set_of_an_older_version_is_left_to_the_version_that_made_it(results, capsys):
    starts = results.path / "starts.json"
    starts.write_text(json.dumps([{"command": "gleaner-lab run small", "commit": "0123456789ab"}]))
    (results.path / "form").write_text("0\n")
    for command in ("report", "resume", "export"):
        assert cli.main([command, str(results.path)]) == 2
        said = capsys.readouterr().err
        assert "has form 0, this program reads form 1" in said
        assert "use the gleaner-lab that made it, of commit 0123456789ab" in said


def test_a_result_set_of_another_machine_is_read_and_not_gone_on_with(results, capsys, monkeypatch):
    journal = results.path / "runs.jsonl"
    whole = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(whole[:2]))
    machines = (results.path / "machines.json").read_bytes()
    facts = {**machine.describe(), "host": "elsewhere", "memory_kb": 1}
    monkeypatch.setattr(machine, "describe", lambda: facts)
    assert resume(results) == 2
    said = capsys.readouterr().err
    assert "not the same machine" in said and "and now elsewhere" in said
    assert "memory_kb: " in said and "go on there, or run the experiment anew here" in said
    assert journal.read_text() == "".join(whole[:2])
    assert (results.path / "machines.json").read_bytes() == machines
    assert cli.main(["report", str(results.path)]) == 0


def test_a_wall_clock_that_went_back_is_named_in_the_report(results, capsys):
    journal = results.path / "runs.jsonl"
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    back = datetime.fromisoformat(records[1]["started"]) - timedelta(hours=1)
    for number, one in enumerate(records[2:]):
        one["started"] = (back + timedelta(seconds=number)).isoformat()
    records[1]["around"]["clock_jump_s"] = -3600.0
    journal.write_text("".join(json.dumps(one) + "\n" for one in records))
    values = [one["values"] for one in results.records()]
    assert cli.main(["report", str(results.path)]) == 0
    said = capsys.readouterr().err
    assert f"{records[1]['key']}: the wall clock jumped by -3600 s during the run" in said
    assert f"{records[2]['key']}: the wall clock went back by 3600 s before the run" in said
    page = (results.path / "report.html").read_text()
    assert "the wall clock went back" in page and "Times of runs are not affected" in page
    assert [one["values"] for one in results.records()] == values


def test_clocks_of_several_machines_are_not_compared(results):
    journal = results.path / "runs.jsonl"
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    records[1] |= {"machine": "another", "started": "2001-01-01T00:00:00+00:00"}
    journal.write_text("".join(json.dumps(one) + "\n" for one in records))
    assert results.warnings() == []


@contextmanager
def small_files(most):
    """No file may grow past some bytes: the kernel then fails writes as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("most", [100, 20000])
def test_a_disk_that_is_full_when_the_report_is_written_loses_no_run(results, capsys, most):
    parquet = (results.path / "runs.parquet").read_bytes()
    made = list(results.records())
    with small_files(most):
        assert cli.main(["report", str(results.path)]) == 2
    said = capsys.readouterr().err
    assert "make room, and give the command again" in said
    assert "Traceback" not in said
    assert list(results.records()) == made
    assert not list(results.path.glob("*.new"))
    assert f"(ulimit -f allows {'100 bytes' if most == 100 else '19 KB'} a file)" in said
    if most == 100:
        assert "runs.parquet" in said
        assert (results.path / "runs.parquet").read_bytes() == parquet
    else:
        assert re.search(r"(report\.html|\.png): File too large", said)


def test_a_disk_that_is_full_when_facts_are_noted_keeps_the_old_ones(results):
    starts = results.starts()
    said = r"starts.json: .*; the runs are safe: make room"
    with small_files(100), pytest.raises(Failure, match=said):
        results.note_start({"command": "x" * 200})
    assert results.starts() == starts


def test_a_disk_that_is_full_in_the_middle_of_a_run_leaves_no_half_of_a_line(results):
    journal = results.path / "runs.jsonl"
    before = journal.read_bytes()
    with small_files(len(before) + 20), pytest.raises(Failure, match="make room"):
        results.append({"key": "x" * 100})
    assert journal.read_bytes() == before


def test_a_disk_that_is_full_at_the_start_leaves_no_result_set(tmp_path):
    said = r"mine/experiment\.yaml: File too large \(ulimit -f allows 100 bytes a file\): make room"
    with small_files(100), pytest.raises(Failure, match=said):
        ResultSet.create(tmp_path / "mine", "x" * 200)
    assert not (tmp_path / "mine").exists()


def test_a_disk_that_is_full_when_a_result_set_is_locked_names_the_lock(results):
    with small_files(0), pytest.raises(OSError, match="File too large") as found, results.locked():
        pass
    assert found.value.filename == str(results.path / "lock")


def test_a_full_disk_is_told_with_its_room(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    for path in (tmp_path, tmp_path / "file", tmp_path / "no" / "such" / "directory"):
        told = unwritten(path, full)
        assert re.fullmatch(
            rf"{path}: No space left on device \(\d+ (bytes|KB|MB|GB) are free on its disk\)", told
        )
    used = OSError(errno.EDQUOT, "Disk quota exceeded")
    assert unwritten(tmp_path, used).endswith("(the user's part of its disk is used up)")
    other = OSError(errno.EACCES, "Permission denied")
    assert unwritten(tmp_path, other) == f"{tmp_path}: Permission denied"


def test_an_output_to_a_full_device_is_an_error_that_names_it(results, capsys):
    remedy = "make room, and give the command again"
    for command, option in (("export", "--out"), ("report", "--markdown")):
        assert cli.main([command, str(results.path), option, "/dev/full"]) == 2
        said = capsys.readouterr().err
        assert said == f"gleaner-lab: /dev/full: No space left on device: {remedy}\n"


def test_each_file_of_a_report_is_named_where_it_has_no_room(results, capsys):
    for name in ("report.html", "1-ratios.png"):
        path = results.path / name
        path.unlink(missing_ok=True)
        path.symlink_to("/dev/full")
        assert cli.main(["report", str(results.path)]) == 2
        assert f"gleaner-lab: {path}: No space left on device: make room" in capsys.readouterr().err
        path.unlink()


BENCH = ROOT / "target" / "release" / "gleaner-bench"


def test_a_program_with_a_hundred_megabytes_of_output_is_measured_in_little_memory(tmp_path):
    words = ["run", "--json", "--library", "none", "--out", str(tmp_path), "--"]
    program = ["sh", "-c", "head -c 100000000 /dev/zero; echo; echo '{\"steps\": 7}'"]
    limited = ["prlimit", f"--as={64 << 20}", str(BENCH)]
    record = measure([*limited, *words, *program], 60)
    assert record["values"]["printed.steps"] == 7
    assert record["output"].startswith("100000014 bytes")
    # What a run printed is not kept.
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(os.path.getsize(path) for path in left) < 1 << 20


@pytest.mark.parametrize("divisor", [1, 50])
def test_what_a_program_allocates_does_not_hang_on_when_it_collects(tmp_path, divisor):
    words = ["run", "--json", "--library", "gleaner", "--log", "--out", str(tmp_path)]
    words += ["--opt", f"free-space-divisor={divisor}", "--opt", "initial-heap=64m"]
    program = ["guile", "--no-auto-compile", "-c", "(make-string 3000000)"]
    record = measure([str(BENCH), *words, "--", *program], 60)
    # A character of a Guile string takes a byte at least.
    assert record["values"]["allocated_bytes"] > 3000000


def test_what_a_preparation_prints_is_cut_to_a_message(tmp_path):
    path, tool = bench.experiment(tmp_path, "steady", repetitions=1), bench.make(tmp_path)
    prints = "sh -c 'head -c 30000000 /dev/zero >&2; head -c 30000000 /dev/zero; exit 1'"
    words = ["run", str(path), "--out", str(tmp_path / "out"), "--bench", str(tool), "--quiet"]
    status = cli.main([*words, "--prepare", prints])
    problems = [one["problem"] for one in ResultSet.open(tmp_path / "out").records()]
    assert status == 1
    assert all(len(problem) < 5000 and "exit status 1" in problem for problem in problems)
