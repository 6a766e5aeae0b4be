"""Where runs happen: here, or on a Dask cluster; one at a time on each machine's worker."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gleaner_lab import counters, machine, workload
from gleaner_lab.build import build_of
from gleaner_lab.experiment import Experiment
from gleaner_lab.failure import Failure
from gleaner_lab.schedule import Task
from gleaner_lab.workload import Record, Tools

Done = Callable[[Task, Record, float], None]
NoteBuild = Callable[[str, dict[str, str]], None]


def perform(task: Task, experiment: Experiment, tools: Tools, log: bool) -> tuple[Record, float]:
    """One run on this machine, in a scratch directory that outlives it only as a cache."""
    started = time.time()
    if task.cell.obstacle is not None:
        return {"problem": task.cell.obstacle}, started
    if task.counted:
        return count(task, experiment, tools), started
    command = workload.command_of(task.cell, experiment, tools, log=log)
    record = workload.run(command, task.cell, experiment, tools)
    return {**record, "command": command}, started


def count(task: Task, experiment: Experiment, tools: Tools) -> Record:
    """A counted run. What cannot be counted here is no failure: the record says so."""
    kind = experiment.counters
    if obstacle := counters.obstacle(kind):
        return {"counters": {}, "uncounted": obstacle}
    with tempfile.TemporaryDirectory(dir=tools.scratch) as directory:
        file = Path(directory) / "counts"
        before = counters.before(kind, file)
        command = workload.command_of(task.cell, experiment, tools, log=False, before=before)
        record = workload.run(command, task.cell, experiment, tools)
        found = counters.read(kind, file.read_text()) if file.exists() else {}
    if "problem" in record:
        return {"problem": record["problem"], "command": command}
    if not found:
        return {"problem": f"{before[0]} wrote no counts", "command": command}
    return {"counters": found, "command": command}


@dataclass
class WarmUp:
    """Runs that are not recorded, before the first run of each cell."""

    experiment: Experiment
    tools: Tools
    log: bool
    warm: set[str] = field(default_factory=set)

    def before(self, task: Task) -> None:
        """Makes them if the cell has not been run yet. What is wrong with it, its run will tell."""
        cell = task.cell
        if cell.key in self.warm or cell.obstacle is not None or task.counted:
            return
        self.warm.add(cell.key)
        command = workload.command_of(cell, self.experiment, self.tools, log=self.log)
        for _ in range(self.experiment.warm_up):
            workload.run(command, cell, self.experiment, self.tools)


class Here:
    """This machine, one run at a time."""

    def __init__(
        self, experiment: Experiment, tools: Tools, log: bool, note_build: NoteBuild
    ) -> None:
        self.experiment, self.tools, self.log = experiment, tools, log
        self.note_build = note_build
        self.warm_up = WarmUp(experiment, tools, log)
        self.machine = machine.identity(machine.describe())

    def run_all(self, tasks: Iterable[Task], done: Done) -> None:
        """Runs the tasks in order."""
        for task in tasks:
            self.warm_up.before(task)
            record, started = perform(task, self.experiment, self.tools, self.log)
            # Somebody may build anew while this runs.
            build = build_of(self.experiment, self.tools)
            self.note_build(build.identity, build.files)
            done(task, {**record, "machine": self.machine, "build": build.identity}, started)


def perform_there(task: Task, experiment: Experiment, tools: Tools, log: bool) -> dict[str, Any]:
    """What a worker of the cluster does."""
    facts = machine.describe()
    record, started = perform(task, experiment, tools, log)
    build = build_of(experiment, tools)
    return {
        "record": {**record, "machine": machine.identity(facts), "build": build.identity},
        "facts": facts,
        "files": build.files,
        "started": started,
    }


class Cluster:
    """A Dask cluster. A round of a group stays on one worker, so that no ratio mixes machines."""

    def __init__(
        self,
        address: str,
        experiment: Experiment,
        bench: str,
        log: bool,
        note_machine: Callable[[str, dict[str, Any]], None],
        note_build: NoteBuild,
    ) -> None:
        self.address, self.experiment, self.bench, self.log = address, experiment, bench, log
        self.note_machine, self.note_build = note_machine, note_build

    def run_all(self, tasks: Iterable[Task], done: Done) -> None:
        """Runs the groups of each round, each on whichever worker is free."""
        from distributed import Client, as_completed

        try:
            client = Client(self.address, timeout="10s")
        except (OSError, ValueError) as error:
            raise Failure(
                f"no Dask scheduler at {self.address}: {error}; start one with dask scheduler"
            ) from error
        with client:
            if not client.scheduler_info()["workers"]:
                raise Failure(
                    f"the scheduler at {self.address} has no workers; "
                    "start some with dask worker --nthreads 1"
                )
            futures = {
                client.submit(
                    perform_batch,
                    batch,
                    self.experiment,
                    self.bench,
                    self.log,
                    pure=False,
                ): batch
                for batch in batches(tasks)
            }
            for future in as_completed(futures):
                for task, result in zip(futures[future], future.result(), strict=True):
                    self.note_machine(result["record"]["machine"], result["facts"])
                    self.note_build(result["record"]["build"], result["files"])
                    done(task, result["record"], result["started"])


def perform_batch(
    batch: list[Task], experiment: Experiment, bench: str, log: bool
) -> list[dict[str, Any]]:
    """A round of a group, in its order; one at a time on this worker.

    Nobody knows what the worker did since its last round, so each begins with the warm-up.
    """
    from distributed import Lock, get_worker

    scratch = Path(tempfile.gettempdir()) / "gleaner-lab"
    scratch.mkdir(exist_ok=True)
    tools = Tools.find(Path(bench) if bench else None, scratch)
    warm_up, made = WarmUp(experiment, tools, log), []
    with Lock(f"gleaner-lab {get_worker().address}"):
        for task in batch:
            warm_up.before(task)
            made.append(perform_there(task, experiment, tools, log))
    return made


def batches(tasks: Iterable[Task]) -> list[list[Task]]:
    """The runs of one group in one round; the canary is a batch of its own."""
    found: dict[tuple[str, int, int | None, bool], list[Task]] = {}
    for task in tasks:
        key = (task.cell.group, task.round, task.canary, task.counted)
        found.setdefault(key, []).append(task)
    return list(found.values())
