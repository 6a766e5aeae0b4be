"""Where runs are kept: a journal while they are made, a Parquet file when they are read.

A result set is a directory: `experiment.yaml` as it was run, `machines.json`, `starts.json` (each
command that made runs, and the commit), `builds.json` (the files that were measured), `heaps.json`
where heap sizes were searched for, `runs.jsonl` (one run a line, on the disk before the next run
starts) and `runs.parquet` (the same, made from the journal by `table`). A line that a crash cut
short is dropped, and its run is done again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from gleaner_lab.failure import Failure

#: The form of the files; another number is another form.
FORM = 1


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
            (path / "experiment.yaml").write_text(experiment, encoding="utf-8")
            (path / "form").write_text(f"{FORM}\n")
        except FileExistsError as error:
            raise Failure(
                f"{path} exists: resume it, or name another directory with --out"
            ) from error
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}") from error
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
                f"{path} has form {form}, this program reads form {FORM}: "
                "use the gleaner-lab that made it"
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
                f"{path}: {error.strerror}; what was measured before is safe: "
                f"make room and {self.goes_on or f'run gleaner-lab resume {self.path}'}"
            ) from error

    def mend(self) -> None:
        """Drops a last line that was cut short, before more is appended."""
        path = self.path / "runs.jsonl"
        if not path.exists():
            return
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))

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
                except ValueError as error:
                    remedy = "take the line out, and what it was is run again"
                    raise Failure(f"{path}:{number}: not a run: {error}: {remedy}") from error
                yield run

    def finished(self, failed: bool) -> set[str]:
        """The keys of the runs that need not be made; with `failed`, what failed must be."""
        return {record["key"] for record in self.records() if not (failed and "problem" in record)}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs out: two would write one journal."""
        with (self.path / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise Failure(
                    f"{self.path}: another gleaner-lab runs it (process {file.read().strip()}): "
                    f"wait until it has ended, or end it and {self.goes_on or 'resume'}"
                ) from error
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
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
            return json.loads(path.read_text()) if path.exists() else absent
        except ValueError as error:
            raise Failure(f"{path}: not as it was written: {error}") from error

    def _replace(self, name: str, value: Any) -> None:
        fresh = self.path / f"{name}.new"
        fresh.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")
        fresh.replace(self.path / name)

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

    def table(self) -> pd.DataFrame:
        """All runs as a table, which is written as Parquet, too."""
        frame = pd.DataFrame.from_records([_flat(record) for record in self.records()])
        table = pa.Table.from_pandas(frame, preserve_index=False)
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), "form": str(FORM)})
        pq.write_table(table, self.path / "runs.parquet")
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
