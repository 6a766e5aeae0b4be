"""What runs the program, and how it is asked for a collector, a number of threads and a heap.

A JVM is asked in its own words behind `java`, which replace those of the command that say the
same, or in JAVA_TOOL_OPTIONS where a script starts it. A program that uses libgc runs on Gleaner's,
and one that embeds Gleaner is asked in GLEANER_OPTIONS.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gleaner_lab.advise.space import Cell
from gleaner_lab.failure import Failure

Kind = Literal["java", "libgc", "gleaner"]

SIZE = re.compile(r"(?i)\d+[kmgt]?")
#: Words of `java` that are followed by a word of their own.
WITH_VALUE = ("-cp", "-classpath", "--class-path", "-p", "--module-path", "--add-modules")
#: Which words of a command say what a cell says.
HEAP, THREADS, COLLECTOR = (
    re.compile(r"-Xmx|-XX:MaxHeapSize=|-XX:MaxRAMPercentage="),
    re.compile(r"-XX:(Parallel|Conc)GCThreads="),
    re.compile(r"-XX:[+-]Use\w+GC$"),
)
#: What a program of Gleaner's has in its file: the name of the variable, or of the library.
EMBEDDED = (b"GLEANER_OPTIONS", b"libgleaner_capi")


@dataclass(frozen=True)
class Program:
    """The command, and what runs it."""

    words: tuple[str, ...]
    kind: Kind
    #: The command `gleaner`.
    gleaner: Path

    def command(self, cell: Cell, log: Path | None = None) -> list[str]:
        """What is measured: under `gleaner place`, and a JVM with its words."""
        words = self._java(cell, log) if self.kind == "java" else list(self.words)
        return [*self._placed(cell, str(self.gleaner)), *words]

    def options(self, cell: Cell) -> list[str]:
        """Options of Gleaner's heap."""
        if self.kind == "java":
            return []
        threads = "markers" if self.kind == "libgc" else "workers"
        found = [f"{threads}={cell.threads}"] if cell.threads else []
        if SIZE.fullmatch(cell.heap):
            return [*found, f"heap-limit={cell.heap}"]
        return found + [one for one in cell.heap.split("+") if one]

    def shown(self, cell: Cell) -> str:
        """The command to paste."""
        placed, options = self._placed(cell, "gleaner"), self.options(cell)
        if self.kind == "java":
            words = self._java(cell, None)
        elif self.kind == "libgc":
            asked = [word for one in options for word in ("--opt", one)]
            words = ["gleaner", "exec", *asked, "--", *self.words]
        else:
            asked = ["env", f"GLEANER_OPTIONS={','.join(options)}"] if options else []
            words = [*asked, *self.words]
        return shlex.join([*placed, *words])

    def _placed(self, cell: Cell, gleaner: str) -> list[str]:
        options = f"placement={cell.placement}"
        return [gleaner, "place", "--opt", options, "--"] if cell.placement else []

    def _java(self, cell: Cell, log: Path | None) -> list[str]:
        said = [f"-XX:+Use{cell.collector}GC"] if cell.collector else []
        said += [f"-XX:ParallelGCThreads={cell.threads}"] if cell.threads else []
        said += [f"-Xmx{cell.heap}"] if cell.heap else []
        asked = [*said, *([f"-Xlog:gc,safepoint:file={log}"] if log else [])]
        if Path(self.words[0]).name != "java":
            if not asked:
                return list(self.words)
            before = os.environ.get("JAVA_TOOL_OPTIONS", "")
            return ["env", f"JAVA_TOOL_OPTIONS={' '.join([before, *asked]).strip()}", *self.words]
        factors = ((HEAP, cell.heap), (THREADS, cell.threads), (COLLECTOR, cell.collector))
        over = [pattern for pattern, value in factors if value]
        own = java_options(self.words[1:])
        kept = [word for word in own if not any(one.match(word) for one in over)]
        return [self.words[0], *kept, *asked, *self.words[1 + len(own) :]]


def java_options(words: Sequence[str]) -> list[str]:
    """The words of `java` before the class, the file or the module that it is to run."""
    found: list[str] = []
    for word in words:
        is_value = bool(found) and found[-1] in WITH_VALUE
        if not is_value and (not word.startswith("-") or word in ("-jar", "-m", "--module")):
            break
        found.append(word)
    return found


def program_of(words: Sequence[str], asked: str | None, gleaner: Path) -> Program:
    """The program with what runs it, looked at unless the command line says it."""
    path = shutil.which(words[0])
    if path is None:
        raise Failure(f"{words[0]}: there is no such program: give its path, or mend PATH")
    return Program(tuple(words), asked or _kind_of(Path(path), words[0], gleaner), gleaner)


def _kind_of(path: Path, name: str, gleaner: Path) -> Kind:
    if Path(name).name == "java":
        return "java"
    data = path.read_bytes()
    if data.startswith(b"\x7fELF") and any(word in data for word in EMBEDDED):
        return "gleaner"
    asked = [gleaner, "exec", "--dry-run", "--", path]
    if subprocess.run(asked, capture_output=True, timeout=60, check=False).returncode == 0:
        return "libgc"
    raise Failure(
        f"{name}: it is not java, does not load libgc.so.1 and does not embed Gleaner. If it "
        "starts a program that does, as a script may, say which with --runtime java, libgc or "
        "gleaner"
    )


def check_placement(options: str, gleaner: Path) -> None:
    """Refuses a placement that `gleaner place` does not know."""
    if not options:
        return
    asked = [gleaner, "place", "--opt", f"placement={options}", "--plan", "application:1"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("gleaner: ")
        raise Failure(f"--placement {options}: {said}")
