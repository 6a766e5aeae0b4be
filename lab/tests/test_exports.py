import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys

import bench
import numpy as np
import pytest

from gleaner_lab import cli, starter
from gleaner_lab import experiment as experiments
from gleaner_lab.failure import Failure
from gleaner_lab.store import ResultSet


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    directory = tmp_path_factory.mktemp("exports")
    path = bench.experiment(directory, "steady, crashes", repetitions=3)
    tool, out = bench.make(directory), directory / "out"
    cli.main(["run", str(path), "--quiet", "--out", str(out), "--bench", str(tool)])
    return ResultSet.open(out)


def exported(results, form, capsys):
    assert cli.main(["export", str(results.path), "--format", form]) == 0
    return capsys.readouterr().out


def walls(results, variant):
    """The wall times of a configuration's runs that count, as the journal has them."""
    return [
        one["values"]["wall_s"]
        for one in results.records()
        if one["workload"] == "steady"
        and (one["variant"], one["control"], one["canary"]) == (variant, False, None)
    ]


def test_csv_has_each_run_with_the_machine_around_it(results, capsys):
    rows = list(csv.DictReader(io.StringIO(exported(results, "csv", capsys))))
    records = list(results.records())
    assert [row["key"] for row in rows] == [one["key"] for one in records]
    for row, one in zip(rows, records, strict=True):
        assert float(row["around.load_before"]) == one["around"]["load_before"]
        assert float(row["around.steal_s"]) == one["around"]["steal_s"]
        assert row["problem"].strip() == one.get("problem", "").strip()


def test_hyperfine_has_a_command_for_each_cell_that_worked(results, capsys):
    found = json.loads(exported(results, "hyperfine", capsys))["results"]
    assert [one["command"] for one in found] == [
        "steady, 1 thread: libgc",
        "steady, 1 thread: gleaner",
    ]
    for one in found:
        times = walls(results, one["parameters"]["configuration"])
        assert one["times"] == times and one["exit_codes"] == [0, 0, 0]
        assert one["mean"] == pytest.approx(np.mean(times))
        assert (one["min"], one["max"]) == (min(times), max(times))
        assert one["memory_usage_byte"] == [20000 * 1024] * 3


def test_jmh_has_a_benchmark_for_each_cell_that_worked(results, capsys):
    found = json.loads(exported(results, "jmh", capsys))
    assert {one["benchmark"] for one in found} == {"small.steady"}
    for one in found:
        times = walls(results, one["params"]["configuration"])
        score = one["primaryMetric"]
        assert score["rawData"] == [[time] for time in times]
        assert score["score"] == pytest.approx(np.mean(times))
        low, high = score["scoreConfidence"]
        assert low < score["score"] < high
        assert (one["mode"], one["forks"], score["scoreUnit"]) == ("ss", 3, "s/op")
        assert one["secondaryMetrics"]["peak_kb"]["score"] == 20000


def test_an_export_goes_to_a_file_and_needs_runs(results, tmp_path, capsys):
    file = tmp_path / "runs.csv"
    assert cli.main(["export", str(results.path), "--out", str(file)]) == 0
    assert file.read_text() == exported(results, "csv", capsys).removeprefix(f"{file}\n")
    empty = tmp_path / "empty"
    shutil.copytree(results.path, empty)
    (empty / "runs.jsonl").write_text("")
    assert cli.main(["export", str(empty)]) == 2
    assert "has no runs yet: gleaner-lab resume" in capsys.readouterr().err


def test_an_export_whose_reader_has_enough_ends_quietly(results):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "gleaner_lab.cli", "export", str(results.path)]
    with open(writer, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_runs_of_two_machines_are_only_exported_as_csv(results, tmp_path, capsys):
    both = tmp_path / "both"
    shutil.copytree(results.path, both)
    lines = (both / "runs.jsonl").read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "machine": "another"})
    (both / "runs.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert cli.main(["export", str(both), "--format", "jmh"]) == 2
    assert "of 2 machines" in capsys.readouterr().err
    assert cli.main(["export", str(both)]) == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_the_commands_and_the_experiments(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for word in ("resume", "export", "boehm-table1", "hyperfine"):
        assert word in text
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, check=True)


def test_bash_completes_commands_and_experiments(tmp_path, capsys):
    cli.main(["completion", "bash"])
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    ask = "COMP_WORDS=(gleaner-lab run boehm-t); COMP_CWORD=2; _shtab_gleaner_lab"
    ask += '; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f"source {script}; {ask}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["boehm-table1"]


def test_a_first_experiment_is_written_with_comments_and_can_be_run(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    assert cli.main(["init", str(path), "--", "steady", "--size=10", "a: b"]) == 0
    assert f"gleaner-lab show {path}" in capsys.readouterr().out
    found = experiments.read(path)
    assert found.workloads[0].command == ["steady", "--size=10", "a: b"]
    assert path.read_text().count("#") > 15
    tool, out = bench.make(tmp_path), tmp_path / "out"
    words = ["--quiet", "--repetitions", "2", "--out", str(out), "--bench", str(tool)]
    cli.main(["run", str(path), *words])
    assert all("values" in one for one in ResultSet.open(out).records())
    # What a user has changed is not written over.
    assert cli.main(["init", str(path)]) == 2
    assert "name another file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a b.yaml", "-x.yaml", "ü.yaml"])
def test_a_first_experiment_has_a_name_whatever_the_file_is_called(tmp_path, name):
    starter.write(tmp_path / name, [])
    assert experiments.read(tmp_path / name).workloads[0].command == ["./my-program", "10"]


def test_a_first_experiment_needs_its_directory(tmp_path, capsys):
    assert cli.main(["init", str(tmp_path / "no" / "mine.yaml")]) == 2
    assert "mine.yaml: No such file or directory" in capsys.readouterr().err
    with pytest.raises(Failure, match="exists"):
        starter.write(tmp_path / "a.yaml", []) or starter.write(tmp_path / "a.yaml", [])
