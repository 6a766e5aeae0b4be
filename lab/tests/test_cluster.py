"""The same experiment on a real Dask cluster on loopback."""

from pathlib import Path

import bench
import pytest
from distributed import LocalCluster

from gleaner_lab import cli
from gleaner_lab import experiment as experiments
from gleaner_lab.analysis import lines_of
from gleaner_lab.cells import cells_of
from gleaner_lab.executors import batches
from gleaner_lab.schedule import tasks_of
from gleaner_lab.store import ResultSet


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as one:
        yield one


def test_it_finds_what_a_run_here_finds(cluster, tmp_path):
    path, tool = bench.experiment(tmp_path, "steady, crashes"), bench.make(tmp_path)
    common = ["run", str(path), "--bench", str(tool), "--out"]
    cli.main([*common, str(tmp_path / "here")])
    cli.main([*common, str(tmp_path / "there"), "--scheduler", cluster.scheduler_address])
    here, there = (ResultSet.open(tmp_path / name) for name in ("here", "there"))
    assert {r["key"] for r in here.records()} == {r["key"] for r in there.records()}
    experiment = experiments.read(there.experiment)
    gleaner = [
        line
        for line in lines_of(there.table(), experiment)
        if line.variant == "gleaner" and line.workload == "steady"
    ]
    assert sum(line.ratio.runs for line in gleaner) == 6
    assert all(0.7 < line.ratio.value < 0.9 for line in gleaner)
    assert {record["machine"] for record in there.records()} == set(there.machines())
    assert (there.path / "report.html").exists()


def test_a_ratio_never_mixes_machines(tmp_path):
    path = bench.experiment(tmp_path, "steady, prints")
    experiment = experiments.read(path)
    tasks = tasks_of(experiment, list(cells_of(experiment)))
    for batch in batches(tasks):
        assert len({(task.cell.group, task.round) for task in batch}) == 1
    assert sum(len(batch) for batch in batches(tasks)) == len(tasks)


def test_a_scheduler_that_is_not_there_is_named(tmp_path, capsys):
    path = bench.experiment(tmp_path, "steady")
    out = str(tmp_path / "out")
    status = cli.main(["run", str(path), "--out", out, "--scheduler", "tcp://127.0.0.1:9"])
    assert status == 2
    assert "no Dask scheduler at tcp://127.0.0.1:9" in capsys.readouterr().err


def test_heap_searches_stay_on_one_machine(cluster, tmp_path, capsys):
    path = bench.experiment(tmp_path, "steady")
    path.write_text(path.read_text() + "heap: {mode: equal-peak}\n")
    out = str(tmp_path / "out")
    status = cli.main(["run", str(path), "--out", out, "--scheduler", cluster.scheduler_address])
    assert status == 2
    assert "a cluster does not search for heap sizes" in capsys.readouterr().err


def test_heap_sizes_found_on_one_machine_serve_on_a_cluster(cluster, tmp_path):
    path, tool = bench.experiment(tmp_path, "steady", repetitions=1), bench.make(tmp_path)
    path.write_text(path.read_text() + "heap: {mode: equal-peak, within: 0.2}\n")
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    cli.main(["run", str(path), "--out", here, "--bench", str(tool)])
    more = ["--heaps", here, "--scheduler", cluster.scheduler_address]
    cli.main(["run", str(path), "--out", there, "--bench", str(tool), *more])
    sets = [ResultSet.open(Path(one)) for one in (here, there)]
    assert sets[0].heaps() == sets[1].heaps()
    assert len(list(sets[1].records())) == len(list(sets[0].records()))
    assert all("problem" not in record for record in sets[1].records())
