"""One run of a cell: the command, and what came of it.

Everything runs through `gleaner-bench run`, a small process that measures another one: it knows the
catalogue of programs, both libraries and how to read their logs, and prints one line of JSON. (This
process could not measure a child's peak memory: the kernel counts the memory of its parent.)
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gleaner_lab import machine, metrics, positions
from gleaner_lab.cells import Cell
from gleaner_lab.experiment import Configuration, Experiment, shown
from gleaner_lab.failure import Failure, Missing
from gleaner_lab.numa.collection import Synchronisation
from gleaner_lab.numa.locality import Locality
from gleaner_lab.tree import ROOT

#: What a finished run tells about itself besides its values.
Record = dict[str, Any]

#: What the model of a machine with memory nodes needs of a run that counted by node; kept as it was
#: printed, in the record's field `counts`.
COUNTS = ("collections", "locality", "synchronisation")


@dataclass(frozen=True)
class Tools:
    """The programs that the lab starts."""

    bench: Path
    scratch: Path

    @classmethod
    def find(cls, bench: Path | None, scratch: Path) -> Tools:
        """The given program, or the one that `make build` made."""
        found = bench or ROOT / "target" / "release" / "gleaner-bench"
        if not (found.is_file() and os.access(found, os.X_OK)):
            raise Missing(
                f"{found} is no program: run make build in a checkout of Gleaner, or name it with "
                "--bench"
            )
        return cls(found.resolve(), scratch.resolve())

    def of(self, configuration: Configuration) -> Tools:
        """The programs of the build that a configuration names."""
        if configuration.build is None:
            return self
        try:
            return Tools.find(ROOT / configuration.build / self.bench.name, self.scratch)
        except Failure:
            where = configuration.build
            raise Missing(
                f"{where}/{self.bench.name} is no program: run make before COMMIT=..., which "
                "builds an earlier commit there"
            ) from None

    def word(self, word: str) -> str:
        """A word of a command with the places of the programs filled in."""
        rivals = self.bench.parents[1] / "rivals"
        places = {"bench": self.bench, "gleaner": self.bench.with_name("gleaner"), "rivals": rivals}
        for name, path in places.items():
            word = word.replace(f"{{{name}}}", str(path))
        return word

    def check(self, command: Sequence[str]) -> None:
        """Refuses a command of `command_of` that names a program or an option that is not there."""
        done = subprocess.run(
            [*command[:2], "--check", *command[2:]],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        # An older gleaner-bench does not know the word, and says so.
        if done.returncode != 0 and "'--check'" not in done.stderr:
            raise Failure(done.stderr.strip().removeprefix("gleaner-bench: "))


def is_native(command: Sequence[str]) -> bool:
    """Whether a command is a workload of the precise heap, ours or a rival's: these can be tiny."""
    of_a_rival = any(word.startswith("{rivals}/") for word in command)
    return of_a_rival or "{bench} native" in " ".join(command)


def command_of(
    cell: Cell, experiment: Experiment, tools: Tools, *, log: bool, before: Sequence[str] = ()
) -> list[str]:
    """The command of one run; `before` is put before the program itself."""
    configuration, workload = cell.configuration, cell.workload
    tools = tools.of(configuration)
    command = [str(tools.bench), "run", "--json", "--out", str(tools.scratch)]
    command += ["--library", configuration.library]
    if cell.threads is not None:
        command += ["--threads", str(cell.threads)]
    command += ["--limit", str(max(1, round(experiment.limit_s)))]
    for name, value in configuration.options.items():
        if isinstance(value, list):
            raise ValueError(f"{cell.key}: option {name} was not multiplied out")
        command += ["--opt", f"{name}={shown(value)}"]
    env = {**workload.env, **configuration.env}
    if experiment.iteration > 1:
        env["ITERATIONS"] = str(experiment.iteration)
    for name, text in env.items():
        command += ["--env", f"{name}={text}"]
    if workload.command is None:
        before = [*before, *map(tools.word, configuration.prefix)]
    for word in before:
        command.append(f"--before={word}")
    if log:
        command.append("--log")
    if workload.command is None:
        command += ["--size", workload.size or experiment.size, workload.catalogued]
    else:
        own = [*configuration.prefix, *workload.command, *configuration.arguments]
        command += ["--", *map(tools.word, own)]
        if (workload.size or experiment.size) == "tiny" and is_native(own):
            command.append("--tiny")
    if experiment.pin is not None:
        command = ["taskset", "--cpu-list", ",".join(map(str, experiment.pin)), *command]
    return command


def run(command: Sequence[str], cell: Cell, experiment: Experiment, tools: Tools) -> Record:
    """Runs the command between its preparation and its cleanup, which no figure counts.

    The record has either `values` or `problem`, and what else the machine did meanwhile.
    """
    if problem := _step("prepare", cell, experiment, tools):
        return {"problem": problem}
    needs_json = cell.workload.command is not None and cell.workload.measure == "json"
    before = machine.Moment.now()
    record = measure(command, experiment.limit_s, needs_json, experiment.iteration)
    around = machine.between(before, machine.Moment.now())
    if problem := _step("cleanup", cell, experiment, tools):
        # What the next run finds is not what it should.
        record = {"problem": problem}
    return {**record, "around": around}


#: What is done before and after a run.
STEPS = ("prepare", "cleanup")


def step_of(step: str, cell: Cell, experiment: Experiment) -> list[str]:
    """The command of a step: the workload's own, or the experiment's; empty if there is none."""
    own = getattr(cell.workload, step)
    return getattr(experiment, step) if own is None else own


#: Bytes of what a preparation says that are read for a message.
SAID = 4096


def _step(step: str, cell: Cell, experiment: Experiment, tools: Tools) -> str | None:
    """Runs what is to be done before or after a run, if anything; returns what went wrong."""
    words = step_of(step, cell, experiment)
    if not words:
        return None
    command = [tools.of(cell.configuration).word(word) for word in words]
    with tempfile.TemporaryFile() as said:
        try:
            child = _start(command, stdout=subprocess.DEVNULL, stderr=said)
            status = child.wait(timeout=experiment.limit_s)
        except OSError as error:
            return f"{step}: {ENDS_WITH_PARENT[0]}: {error.strerror}"
        except subprocess.TimeoutExpired:
            _end(child)
            return f"{step}: {shlex.join(command)}: took longer than {experiment.limit_s:g} s"
        except BaseException:
            _end(child)
            raise
        if status == 0:
            return None
        said.seek(max(0, said.seek(0, os.SEEK_END) - SAID))
        lines = said.read().decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    return f"{step}: {shlex.join(command)}: exit status {status}{last}"


def measure(
    command: Sequence[str], limit_s: float, needs_json: bool = False, iteration: int = 1
) -> Record:
    """Runs a `gleaner-bench run`, which ends what takes longer than the limit."""
    try:
        child = _start(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )
    except OSError as error:
        return {"problem": f"{ENDS_WITH_PARENT[0]}: {error.strerror}"}
    try:
        # gleaner-bench ends what takes too long; this is for gleaner-bench itself.
        out, err = child.communicate(timeout=limit_s + 60)
    except subprocess.TimeoutExpired:
        _end(child)
        return {"problem": "gleaner-bench did not end, and was ended"}
    except BaseException:
        _end(child)
        raise
    return read_line(out, err, child.returncode, needs_json, iteration)


def _start(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Starts a command in a group of its own, which ends when the lab is killed."""
    return subprocess.Popen(
        [*ENDS_WITH_PARENT, str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        **options,
    )


#: Put before gleaner-bench, and then the lab's process number: when the lab is killed, the kernel
#: asks gleaner-bench to end, which ends the program that it measures, with all that it started. The
#: shell is there for a lab that ended before setpriv was at work. (A preexec_fn would make Python
#: fork, and an exception that a signal raises is lost in the hooks around fork.)
ENDS_WITH_PARENT = (
    *("setpriv", "--pdeathsig", "TERM"),
    *("sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"'),
)


def _end(child: subprocess.Popen[Any]) -> None:
    """Asks a program to end: gleaner-bench ends the measured program first; then it has to."""
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def read_line(out: str, err: str, status: int, needs_json: bool, iteration: int) -> Record:
    """What `gleaner-bench run` said."""
    lines = out.strip().splitlines()
    try:
        line = json.loads(lines[-1])
    except (IndexError, ValueError):
        said = err.strip().splitlines()
        return {"problem": f"no result: {said[-1] if said else f'exit status {status}'}"}
    if problem := line.get("problem"):
        return {"problem": " ".join(str(problem).split())}
    printed = line.get("printed") or {}
    if needs_json and not printed:
        return {"problem": "printed no JSON object in its last line"}
    iterations = printed.get("iterations") or []
    if iterations or iteration > 1:
        if len(iterations) < iteration:
            return {
                "problem": f"printed {len(iterations)} iterations, iteration {iteration} is to "
                "count; as many are asked for in the environment variable ITERATIONS"
            }
        # What is known of the whole process does not hold for one iteration, but for the peak.
        chosen = _numbers({"peak_kb": line.get("peak_kb"), **iterations[iteration - 1]})
        return {"values": chosen, "output": _output(line, printed)}
    values = _numbers({name: line.get(name) for name in metrics.PROCESS})
    if collector := line.get("collector"):
        values.update(_collector_values(collector, values))
    values.update({f"printed.{name}": value for name, value in _numbers(printed).items()})
    if report := printed.get("array_report"):
        numbers = _numbers(report).items()
        values.update({f"printed.array_report.{name}": value for name, value in numbers})
        values.update(positions.figures(report))
    found = {"values": values, "output": _output(line, printed)}
    if curves := (line.get("collector") or {}).get("pause_curves"):
        found["pauses"] = curves
    try:
        for name, kind in (("locality", Locality), ("synchronisation", Synchronisation)):
            if counted := printed.get(name):
                values.update(kind.parse(counted, "what it printed").figures())
    except Failure as failure:
        return {"problem": str(failure)}
    if printed.get("locality"):
        found["counts"] = {name: printed[name] for name in COUNTS if name in printed}
    return found


def _output(line: dict[str, Any], printed: dict[str, Any]) -> Any:
    """What must be the same in all runs: the field `result` of a program that has one."""
    return printed.get("result", line.get("output"))


def _collector_values(collector: dict[str, Any], values: dict[str, Any]) -> dict[str, float]:
    found = _numbers(collector)
    found["mutator_s"] = max(0.0, values["wall_s"] - collector["total_pause_s"])
    phases = collector.get("phase_s", {})
    found.update({f"phase.{name}_s": seconds for name, seconds in phases.items()})
    return found


def _numbers(printed: dict[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in printed.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
