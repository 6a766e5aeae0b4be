"""Where runs are kept: a journal while they are made, a Parquet file when they are read.

A result set is a directory: `experiment.yaml` as it was run and its hash in `experiment.sha256`,
`machines.json`, `starts.json` (each command that made runs, and the commit), `builds.json` (the
files that were measured), `heaps.json` where heap sizes were searched for, `runs.jsonl` (one run a
line, on the disk before the next run starts) and `runs.parquet` (the same, made from the journal by
`table`). A last line that a crash cut short is dropped, and its run is done again. Whatever else is
damaged is named, with what to do about it, and left as it is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from gleaner_lab import experiment as experiments
from gleaner_lab.cells import cells_of
from gleaner_lab.experiment import Experiment
from gleaner_lab.failure import Failure
from gleaner_lab.machine import JUMP_S
from gleaner_lab.written import FULL, named, unwritten, write

#: The form of the files; another number is another form.
FORM = 1


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


@dataclass
class ResultSet:
    """The directory of one experiment's runs."""

    path: Path
    #: What goes on with it, if that is not `gleaner-lab resume`.
    goes_on: str = ""

    @classmethod
    def create(cls, path: Path, experiment: str) -> ResultSet:
        """A new directory with the text of the experiment."""
        try:
            path.mkdir(parents=True)
            write(path / "experiment.yaml", experiment)
            write(path / "experiment.sha256", f"{_sha256(experiment.encode())}\n")
            write(path / "form", f"{FORM}\n")
        except FileExistsError as error:
            raise Failure(
                f"{path} exists: resume it, or name another directory with --out"
            ) from error
        except OSError as error:
            what = unwritten(Path(str(error.filename or path)), error)
            remedy = "make room, or " if error.errno in FULL else ""
            # Half a result set could neither be gone on with nor be made again.
            shutil.rmtree(path, ignore_errors=True)
            raise Failure(f"{what}: {remedy}name another directory with --out") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path, of_advice: bool = False) -> ResultSet:
        """A directory that `create` made; one of the advisor's only if that is asked for."""
        try:
            form = (path / "form").read_text().strip()
        except OSError as error:
            raise Failure(f"{path} is not a result set: it has no readable file form") from error
        if form != str(FORM):
            raise Failure(
                f"{path} has form {form}, this program reads form {FORM}: use the gleaner-lab that "
                f"made it{cls(path)._makers()}"
            )
        found = cls(path)
        if not of_advice and found.is_advice:
            raise Failure(
                f"{path} holds what gleaner-lab advise has run, and no experiment: its answer is "
                f"{path / 'advice.html'}, and the same command goes on"
            )
        return found

    @property
    def is_advice(self) -> bool:
        """Whether the runs are the advisor's, which keeps its plan in an experiment's place."""
        try:
            return self.experiment.read_text().startswith("{")
        except OSError:
            return False

    @property
    def experiment(self) -> Path:
        """The experiment as it was run."""
        return self.path / "experiment.yaml"

    def read_experiment(self) -> Experiment:
        """The same, checked: a file that was cut or changed since judges runs by other bars."""
        try:
            known = (self.path / "experiment.sha256").read_text().strip()
        except FileNotFoundError:
            known = None
        if known is not None and known != _sha256(self.experiment.read_bytes()):
            raise Failure(
                f"{self.experiment} is not what was run, but cut off or changed since: bring the "
                "file back, or run the changed one with another --out"
            )
        return experiments.read(self.experiment)

    def _makers(self) -> str:
        """The commits at which its runs were made, as far as that can be read."""
        try:
            known = dict.fromkeys(str(one["commit"]) for one in self.starts() if one.get("commit"))
        except (Failure, AttributeError, KeyError, TypeError):
            return ""
        return f", of commit {', '.join(known)}" if known else ""

    def append(self, record: dict[str, Any]) -> None:
        """Adds a run; when this returns, it is on the disk."""
        line = (json.dumps(record, sort_keys=True) + "\n").encode()
        path = self.path / "runs.jsonl"
        try:
            # Unbuffered: a buffer would be written again when the file is closed.
            with path.open("ab", buffering=0) as journal:
                end = journal.seek(0, os.SEEK_END)
                try:
                    while line:
                        line = line[journal.write(line) :]
                    os.fsync(journal.fileno())
                except OSError:
                    # Half a line would hide the next one.
                    os.truncate(path, end)
                    raise
        except OSError as error:
            raise Failure(
                f"{unwritten(path, error)}; what was measured before is safe: "
                f"make room and {self.goes_on or f'run gleaner-lab resume {self.path}'}"
            ) from error

    def mend(self) -> None:
        """Drops a last line that was cut short, before more is appended."""
        if whole := self._cut_at():
            os.truncate(*whole)

    def _cut_at(self) -> tuple[Path, int] | None:
        """The journal and the length of its whole lines, if the last one is not whole."""
        path = self.path / "runs.jsonl"
        if not path.exists():
            return None
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        return (path, whole) if whole < len(data) else None

    def warnings(self) -> list[str]:
        """What is odd about the runs, though they can be read."""
        found = []
        if cut := self._cut_at():
            found.append(
                f"{cut[0]}: the last line was cut off, and its run does not count: "
                f"gleaner-lab resume {self.path} makes it again"
            )
        return [*found, *self._clock_jumps()]

    def _clock_jumps(self) -> list[str]:
        """Where the wall clock was set. Durations are of another clock, which nobody sets."""
        found, before = [], None
        records = list(self.records())
        is_in_order = len({one.get("machine") for one in records}) <= 1
        for one in records:
            jump = one.get("around", {}).get("clock_jump_s")
            if jump is not None:
                found.append(f"{one['key']}: the wall clock jumped by {jump:+g} s during the run")
            started = datetime.fromisoformat(one["started"]) if "started" in one else None
            if is_in_order and started and before and (before - started).total_seconds() > JUMP_S:
                back = (before - started).total_seconds()
                found.append(f"{one['key']}: the wall clock went back by {back:g} s before the run")
            before = started or before
        if found:
            found.append(
                "Times of runs are not affected, for they are taken of a clock that nobody sets; "
                "when runs were made, and the plot of drift, are wrong there."
            )
        return found

    def records(self) -> Iterator[dict[str, Any]]:
        """All whole runs, in the order in which they were made; of a run made again, the last."""
        yield from {record["key"]: record for record in self._lines()}.values()

    def _lines(self) -> Iterator[dict[str, Any]]:
        path = self.path / "runs.jsonl"
        if not path.exists():
            return
        with path.open("rb") as journal:
            for number, line in enumerate(journal, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    run = json.loads(line)
                    if not (isinstance(run, dict) and "key" in run):
                        raise ValueError("it has no key")
                    if "started" in run:
                        datetime.fromisoformat(run["started"])
                except (ValueError, TypeError) as error:
                    remedy = "take the line out, and what it was is run again"
                    raise Failure(f"{path}:{number}: not a run: {error}: {remedy}") from error
                yield run

    def finished(self, failed: bool) -> set[str]:
        """The keys of the runs that need not be made; with `failed`, what failed must be."""
        return {record["key"] for record in self.records() if not (failed and "problem" in record)}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs out: two would write one journal."""
        path = self.path / "lock"
        # Unbuffered: a buffer that has no room would be written again when the file is closed.
        with path.open("ab+", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                process = file.read().decode(errors="replace").strip()
                raise Failure(
                    f"{self.path}: another gleaner-lab runs it (process {process}): "
                    f"wait until it has ended, or end it and {self.goes_on or 'resume'}"
                ) from error
            with named(path):
                file.truncate(0)
                file.write(f"{os.getpid()}\n".encode())
            yield

    def note_start(self, facts: dict[str, Any]) -> None:
        """Records how runs were asked for, and of which commit."""
        self._replace("starts.json", [*self.starts(), facts])

    def starts(self) -> list[dict[str, Any]]:
        """Each command that made runs, the first one first."""
        return self._read("starts.json", [])

    def note_build(self, identity: str, files: dict[str, str]) -> None:
        """Records once which files are measured."""
        builds = self.builds()
        if identity not in builds:
            self._replace("builds.json", {**builds, identity: files})

    def builds(self) -> dict[str, dict[str, str]]:
        """The hashes of the files that were measured, by the identity of them all."""
        return self._read("builds.json", {})

    def _read(self, name: str, absent: Any) -> Any:
        path = self.path / name
        try:
            found = json.loads(path.read_text()) if path.exists() else absent
            if not isinstance(found, type(absent)):
                raise ValueError(f"{type(found).__name__} in place of {type(absent).__name__}")
        except ValueError as error:
            raise Failure(
                f"{path}: not as it was written: {error}: move it away, and gleaner-lab resume "
                f"{self.path} notes anew what it can"
            ) from error
        return found

    def _replace(self, name: str, value: Any) -> None:
        text = json.dumps(value, indent=2, sort_keys=True) + "\n"
        with self._fresh(name) as fresh:
            fresh.write_text(text)

    @contextmanager
    def _fresh(self, name: str) -> Iterator[Path]:
        """A file that takes a file's place when it is written, all of it or nothing."""
        path, fresh = self.path / name, self.path / f"{name}.new"
        try:
            yield fresh
            fresh.replace(path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise Failure(
                f"{unwritten(path, error)}; the runs are safe: make room, and "
                f"{self.goes_on or 'give the command again'}"
            ) from error

    def note_machine(self, identity: str, facts: dict[str, Any]) -> None:
        """Records a machine once."""
        machines = self.machines()
        if identity not in machines:
            self._replace("machines.json", {**machines, identity: facts})

    def machines(self) -> dict[str, Any]:
        """The machines by identity."""
        return self._read("machines.json", {})

    def note_heaps(self, heaps: dict[str, Any]) -> None:
        """Records the heap sizes that were found so far."""
        self._replace("heaps.json", heaps)

    def heaps(self) -> dict[str, Any]:
        """Minimum heaps in bytes, peaks in KB and settings of equal peak, by what they are of."""
        return self._read("heaps.json", {})

    def _refuse_foreign(self, frame: pd.DataFrame) -> None:
        """Refuses runs of what the experiment does not have."""
        known = {cell.group for cell in cells_of(self.read_experiment())}
        foreign = [group for group in dict.fromkeys(frame["group"]) if group not in known]
        if foreign:
            raise Failure(
                f"{self.path / 'runs.jsonl'} has runs of {foreign[0]}, which {self.experiment} "
                "does not have: one of the two was cut short or is of another result set: put the "
                "right one back"
            )

    def table(self) -> pd.DataFrame:
        """All runs as a table, which is written as Parquet, too."""
        frame = pd.DataFrame.from_records([_flat(record) for record in self.records()])
        if not frame.empty:
            self._refuse_foreign(frame)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), "form": str(FORM)})
        with self._fresh("runs.parquet") as fresh:
            pq.write_table(table, fresh)
        return frame


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as columns with dots in their names."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}."))
        elif not isinstance(value, list):
            found[f"{prefix}{name}"] = value
        else:
            found[f"{prefix}{name}"] = json.dumps(value)
    return found
