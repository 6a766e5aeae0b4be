"""What is measured: the programs and libraries of an experiment, by the hashes of their files.

A result set holds one build. What is built anew between two runs, be it Gleaner, a rival or the
user's own program, would turn a ratio of configurations into a ratio of builds.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gleaner_lab.cells import Cell, cells_of
from gleaner_lab.experiment import Experiment
from gleaner_lab.tree import ROOT
from gleaner_lab.workload import STEPS, Tools, step_of

#: Libraries of the system are known by the machine's facts.
SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
#: Beside the programs that `make before` builds: which commit they are of.
COMMIT = "commit"
#: In a word such as --class-path=a.jar:b.jar each part may be a file.
PARTS = re.compile(r"[=:,]")


@dataclass(frozen=True)
class Build:
    """The files of an experiment and their hashes."""

    files: dict[str, str]

    @property
    def identity(self) -> str:
        """A short name that is the same for equal files."""
        text = json.dumps(self.files, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def build_of(experiment: Experiment, tools: Tools) -> Build:
    """All programs and libraries that the experiment's cells run."""
    # Numbers of threads and sizes of heaps change no file.
    cells = {(cell.workload.name, cell.variant): cell for cell in cells_of(experiment)}
    paths = {path: None for cell in cells.values() for path in _files_of(cell, tools)}
    if any(cell.workload.command is None for cell in cells.values()):
        paths.update(dict.fromkeys(_sources()))
    for path in list(paths):
        paths.update(dict.fromkeys(_behind(path)))
    files = {_name(path, tools): _hash(path) for path in sorted(paths)}
    return Build(files | _commits_of(experiment))


def _commits_of(experiment: Experiment) -> dict[str, str]:
    """The commits of the builds that configurations name, by the files in which they stand."""
    named = {one.build for one in experiment.configurations.values() if one.build}
    files = {f"{build}/{COMMIT}": ROOT / build / COMMIT for build in sorted(named)}
    return {name: path.read_text().strip() for name, path in files.items() if path.is_file()}


def commits(files: dict[str, str]) -> dict[str, str]:
    """The commits among the files of a build, by the directory that was built."""
    found = {Path(name): commit for name, commit in files.items()}
    return {str(name.parent): commit for name, commit in found.items() if name.name == COMMIT}


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """The files that are not the same in both."""
    return sorted(name for name in before | now if before.get(name) != now.get(name))


def _name(path: Path, tools: Tools) -> str:
    """A file of Gleaner's by its name: where it was built does not matter. Others by their path."""
    if path.parent == tools.bench.parent:
        return path.name
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def _files_of(cell: Cell, tools: Tools) -> Iterator[Path]:
    """The files that a cell's command and environment name."""
    configuration, workload = cell.configuration, cell.workload
    tools = tools.of(configuration)
    yield tools.bench
    if configuration.library == "gleaner":
        yield from _existing([str(tools.bench.with_name("libgc.so"))])
    elif configuration.library == "stock":
        yield from _existing(map(str, Path("/usr/lib").glob("*/libgc.so.1")))
    if workload.command is None:
        yield from _catalogued(workload.catalogued)
        yield from _existing(map(tools.word, configuration.prefix))
    else:
        words = [*configuration.prefix, *workload.command, *configuration.arguments]
        yield from _existing(map(tools.word, words))
        yield from _program(tools.word(words[0]))
    yield from _existing([*workload.env.values(), *configuration.env.values()])


def _existing(words: Iterable[str]) -> Iterator[Path]:
    for word in words:
        for part in {word, *PARTS.split(word)}:
            path = Path(part)
            try:
                if part and path.is_file():
                    yield path.resolve()
            except OSError:
                # Longer than a path may be, for example the text of a script.
                continue


def missing(experiment: Experiment, tools: Tools) -> list[tuple[str, str]]:
    """The workloads whose command begins with no program that is here, and that word."""
    found: dict[tuple[str, str], None] = {}
    for cell in cells_of(experiment):
        if cell.workload.command is not None:
            of = tools.of(cell.configuration)
            word = of.word([*cell.configuration.prefix, *cell.workload.command][0])
            if not list(_program(word)):
                found[cell.workload.name, word] = None
    return list(found)


def missing_steps(experiment: Experiment, tools: Tools) -> list[tuple[str, str, str]]:
    """The workloads around whose runs something is done by no program that is here.

    Of each the workload, the step (`prepare` or `cleanup`) and the word that its command begins
    with.
    """
    found: dict[tuple[str, str, str], None] = {}
    for cell in cells_of(experiment):
        for step in STEPS:
            words = step_of(step, cell, experiment)
            word = tools.of(cell.configuration).word(words[0]) if words else ""
            if word and not list(_program(word)):
                found[cell.workload.name, step, word] = None
    return list(found)


def _program(word: str) -> Iterator[Path]:
    found = shutil.which(word)
    if found is not None:
        yield Path(found).resolve()


def _catalogued(name: str) -> Iterator[Path]:
    """The program of an entry of the catalogue."""
    file = ROOT / "clients" / "clients.toml"
    if not file.exists():
        return
    for client in _catalogue(*_stamp(file)):
        if client.get("name") == name and client.get("command"):
            yield from _program(client["command"][0])


def _sources() -> Iterator[Path]:
    """What the programs of the catalogue are made of, and read."""
    for directory in (ROOT / "clients", ROOT / "benchmarks"):
        yield from (path for path in directory.rglob("*") if path.is_file())


@cache
def _catalogue(path: Path, *_: int) -> list[dict[str, list[str]]]:
    lists = tomllib.loads(path.read_text(encoding="utf-8")).values()
    return [one for found in lists if isinstance(found, list) for one in found]


def _behind(path: Path) -> Iterator[Path]:
    """What a program loads: the libraries beside the system's, or what a launcher names."""
    yield from _loaded(*_stamp(path))


@cache
def _loaded(path: Path, *_: int) -> tuple[Path, ...]:
    with path.open("rb") as file:
        head = file.read(4)
    if head == b"\x7fELF":
        return tuple(_libraries(path))
    if head.startswith(b"#!"):
        words = re.findall(r"/[\w./+-]+", path.read_text(encoding="utf-8", errors="replace"))
        return tuple(_named_by_a_launcher(words))
    return ()


def _libraries(path: Path) -> Iterator[Path]:
    try:
        done = subprocess.run(
            ["ldd", str(path)], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for found in re.findall(r"=> (/\S+)", done.stdout):
        library = Path(found).resolve()
        if not str(library).startswith(SYSTEM):
            yield library


def _named_by_a_launcher(words: Iterable[str]) -> Iterator[Path]:
    """Files that a script names, and all files of directories of classes."""
    for word in words:
        path = Path(word)
        if str(path).startswith((*SYSTEM, "/usr/", "/bin/", "/etc/", "/dev/", "/proc/")):
            continue
        if path.is_file():
            yield path.resolve()
        elif path.is_dir():
            yield from (one.resolve() for one in path.glob("*.class"))
            yield from (one.resolve() for one in path.glob("*.jar"))


def _stamp(path: Path) -> tuple[Path, int, int, int]:
    """What changes when a file is written anew."""
    found = path.stat()
    return path, found.st_ino, found.st_size, found.st_mtime_ns


def _hash(path: Path) -> str:
    return _hash_of(*_stamp(path))


@cache
def _hash_of(path: Path, *_: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
