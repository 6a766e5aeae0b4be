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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gleaner_lab.advise.space import Cell
from gleaner_lab.failure import Failure

Kind = Literal["java", "libgc", "gleaner"]

SIZE = re.compile(r"(?i)\d+[kmgt]?")
#: Options of `java` whose value is the next word: those of classes, and those of modules.
CLASS_PATH = ("-cp", "-classpath", "--class-path")
WITH_VALUE = (
    *CLASS_PATH,
    *("-p", "--module-path", "--upgrade-module-path", "--add-modules", "--limit-modules"),
    *("--add-exports", "--add-opens", "--add-reads", "--patch-module", "--enable-native-access"),
    *("-d", "--describe-module", "--source"),
)
#: Words that say what `java` is to run; what is behind them is the program's.
RUNS = ("-jar", "-m", "--module")
#: Which words of a command say what a cell says.
HEAP, THREADS, COLLECTOR = (
    re.compile(r"-Xm[sx]|-XX:(Max|Min|Initial)(HeapSize|RAMPercentage)="),
    re.compile(r"-XX:(Parallel|Conc)GCThreads="),
    re.compile(r"-XX:[+-]Use\w+GC$"),
)
#: What a program of Gleaner's has in its file: the name of the variable, or of the library.
EMBEDDED = (b"GLEANER_OPTIONS", b"libgleaner_capi")
#: Variables that speak to a runtime. They are in force in every run, and in the command to paste.
SPEAK = {
    "java": re.compile(r"(JAVA_TOOL|JDK_JAVA|_JAVA)_OPTIONS|CLASSPATH"),
    "libgc": re.compile(r"GC_\w+|GLEANER_OPTIONS"),
    "gleaner": re.compile(r"GLEANER_OPTIONS"),
}
OPTIONS, JAVA_OPTIONS = "GLEANER_OPTIONS", "JAVA_TOOL_OPTIONS"
#: This one is stronger than the command line of `java`.
STRONGEST = "_JAVA_OPTIONS"


@dataclass(frozen=True)
class Program:
    """The command, and what runs it."""

    words: tuple[str, ...]
    kind: Kind
    #: The command `gleaner`.
    gleaner: Path
    #: The user's variables that speak to the runtime.
    said: tuple[tuple[str, str], ...] = ()
    #: Whether the user has said what runs it.
    is_told: bool = False

    @property
    def own_options(self) -> list[str]:
        """Options of Gleaner's heap that the user's environment has; those of a cell win."""
        return [one for one in dict(self.said).get(OPTIONS, "").split(",") if one]

    def command(self, cell: Cell, log: Path | None = None) -> list[str]:
        """What is measured: under `gleaner place`, and a JVM with its words."""
        variables, words = self._asked(cell, log)
        return [*self._placed(cell, str(self.gleaner)), *environment(variables), *words]

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
        variables, words = self._asked(cell, None)
        variables = {name: text for name, text in self.said if name != OPTIONS} | variables
        options = [*self.own_options, *self.options(cell)]
        if self.kind == "libgc":
            asked = [word for one in options for word in ("--opt", one)]
            words = ["gleaner", "exec", *asked, "--", *words]
        elif options:
            variables[OPTIONS] = ",".join(options)
        return shlex.join([*self._placed(cell, "gleaner"), *environment(variables), *words])

    def _placed(self, cell: Cell, gleaner: str) -> list[str]:
        options = f"placement={cell.placement}"
        return [gleaner, "place", "--opt", options, "--"] if cell.placement else []

    def _asked(self, cell: Cell, log: Path | None) -> tuple[dict[str, str], list[str]]:
        """Variables and words that ask a JVM for a cell; other programs are left as they are."""
        if self.kind != "java":
            return {}, list(self.words)
        said = [f"-XX:+Use{cell.collector}GC"] if cell.collector else []
        said += [f"-XX:ParallelGCThreads={cell.threads}"] if cell.threads else []
        said += [f"-Xmx{cell.heap}"] if cell.heap else []
        asked = [*said, *([f"-Xlog:gc,safepoint:file={log}"] if log else [])]
        if Path(self.words[0]).name != "java":
            before = dict(self.said).get(JAVA_OPTIONS, "")
            variables = {JAVA_OPTIONS: " ".join([before, *asked]).strip()} if asked else {}
            return variables, list(self.words)
        factors = ((HEAP, cell.heap), (THREADS, cell.threads), (COLLECTOR, cell.collector))
        over = [pattern for pattern, value in factors if value]
        words = expanded(self.words[1:])
        own = java_options(words)
        kept = [word for word in own if not any(one.match(word) for one in over)]
        return {}, [self.words[0], *kept, *asked, *words[len(own) :]]


def environment(variables: Mapping[str, str]) -> list[str]:
    """The words that start a program with these variables."""
    return ["env", *(f"{name}={text}" for name, text in variables.items())] if variables else []


def java_options(words: Sequence[str]) -> list[str]:
    """The words of `java` before the class, the file or the module that it is to run."""
    found: list[str] = []
    has_value = False
    for word in words:
        is_run = not word.startswith("-") or word in RUNS or word.startswith("--module=")
        if is_run and not has_value:
            break
        found.append(word)
        has_value = word in WITH_VALUE and not has_value
    return found


def expanded(words: Sequence[str]) -> list[str]:
    """The words of `java` with those of argument files, `@FILE`, in their places."""
    found: list[str] = []
    left = list(words)
    while left and len(java_options(found)) == len(found) and "--disable-@files" not in found:
        word = left.pop(0)
        if word.startswith("@") and not word.startswith("@@"):
            try:
                found += shlex.split(Path(word[1:]).read_text(), comments=True)
            except (OSError, ValueError) as error:
                raise Failure(f"{word}: this file of java's arguments: {error}") from error
        else:
            found.append(word)
    return found + left


def program_of(words: Sequence[str], asked: str | None, gleaner: Path) -> Program:
    """The program with what runs it, looked at unless the command line says it."""
    path = shutil.which(words[0])
    if path is None:
        raise Failure(f"{words[0]}: there is no such program: give its path, or mend PATH")
    kind = asked or _kind_of(Path(path).absolute(), words[0], gleaner)
    said = {name: value for name, value in os.environ.items() if SPEAK[kind].fullmatch(name)}
    for word in said.get(STRONGEST, "").split():
        if any(pattern.match(word) for pattern in (HEAP, THREADS, COLLECTOR)):
            raise Failure(
                f"{STRONGEST} says {word}, which java obeys whatever else is tried: take it out"
            )
    return Program(tuple(words), kind, gleaner, tuple(sorted(said.items())), asked is not None)


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


#: What looks at options and runs nothing: as one does for a program of libgc, or for any.
CHECKS = {"libgc": ("run", "--check", "gc_bench"), "gleaner": ("run", "--check")}


def check_heap(heap: str, program: Program, bench: Path) -> None:
    """Refuses options of Gleaner's heap that there are not, or that have no such value."""
    asked = [str(bench), *CHECKS[program.kind]]
    for option in program.options(Cell(heap=heap)):
        asked += ["--opt", option]
    if program.kind == "gleaner":
        asked += ["--", "true"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("gleaner-bench: ")
        raise Failure(
            f"--heap {heap}: {said}. A limit is a size such as 64m; options are NAME=VALUE, with "
            "a + between two"
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
