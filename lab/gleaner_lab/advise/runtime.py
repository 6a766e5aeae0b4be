"""What runs the program, and how it is asked for a collector, a number of threads and a heap.

A JVM is asked in its own words behind `java`, which replace those of the command that say the
same, or in JAVA_TOOL_OPTIONS where a script starts it. A program that uses libgc runs on Gleaner's,
or on the installed one, which is asked in its own variables; and one that embeds Gleaner is asked
in GLEANER_OPTIONS.

A JVM that is told of one processor takes another collector by itself, and what that gains would be
put down to the placement. So under a placement it is asked for the collector that it takes without.
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

from gleaner_lab.advise.options import VARIABLE as OPTIONS
from gleaner_lab.advise.options import Option, check_option
from gleaner_lab.advise.space import INSTALLED, Cell
from gleaner_lab.failure import Failure
from gleaner_lab.heap import STOCK

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
JAVA_OPTIONS = "JAVA_TOOL_OPTIONS"
#: What `java` itself reads, and puts before the words of its command line.
LAUNCHER_OPTIONS = "JDK_JAVA_OPTIONS"
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
    #: The collector that a JVM takes by itself where nothing is placed, once that is known.
    own_collector: str = ""

    @property
    def own_options(self) -> list[str]:
        """Options of Gleaner's heap that the user's environment has; those of a cell win."""
        return [one for one in dict(self.said).get(OPTIONS, "").split(",") if one]

    def command(self, cell: Cell, log: Path | None = None) -> list[str]:
        """What is measured: under `gleaner place`, and a JVM with its words.

        The variables are around the placer, which adds to those of a JVM.
        """
        variables, words = self._asked(cell, log)
        return [*environment(variables), *self._placed(cell, str(self.gleaner)), *words]

    def options(self, cell: Cell) -> list[str]:
        """Options of Gleaner's heap."""
        if self.kind == "java" or cell.collector == INSTALLED:
            return []
        threads = "markers" if self.kind == "libgc" else "workers"
        found = [f"{threads}={cell.threads}"] if cell.threads else []
        if SIZE.fullmatch(cell.heap):
            return [*found, f"heap-limit={cell.heap}"]
        return found + [one for one in cell.heap.split("+") if one]

    def shown(self, cell: Cell) -> str:
        """The command to paste."""
        variables, words = self._asked(cell, None)
        variables = dict(self.said) | variables
        if self.kind == "libgc" and cell.collector != INSTALLED:
            # It adds its options to those of the environment, some of which serve another heap.
            asked = [word for one in self.options(cell) for word in ("--opt", one)]
            words = ["gleaner", "exec", *asked, "--", *words]
        elif cell.collector == INSTALLED:
            variables.pop(OPTIONS, None)
        elif options := [*self.own_options, *self.options(cell)]:
            variables[OPTIONS] = ",".join(options)
        return shlex.join([*environment(variables), *self._placed(cell, "gleaner"), *words])

    def _placed(self, cell: Cell, gleaner: str) -> list[str]:
        options = f"placement={cell.placement}"
        return [gleaner, "place", "--opt", options, "--"] if cell.placement else []

    def _asked(self, cell: Cell, log: Path | None) -> tuple[dict[str, str], list[str]]:
        """Variables and words that ask a JVM, or the installed libgc, for a cell.

        Other programs are left as they are.
        """
        if cell.collector == INSTALLED:
            return stock_variables(cell) or {}, list(self.words)
        if self.kind != "java":
            return {}, list(self.words)
        collector = cell.collector or (self.own_collector if cell.placement else "")
        said = [f"-XX:+Use{collector}GC"] if collector else []
        said += [f"-XX:ParallelGCThreads={cell.threads}"] if cell.threads else []
        said += [f"-Xmx{cell.heap}"] if cell.heap else []
        asked = [*said, *([f"-Xlog:gc,gc+init,safepoint:file={log}"] if log else [])]
        factors = ((HEAP, cell.heap), (THREADS, cell.threads), (COLLECTOR, collector))
        over = [pattern for pattern, value in factors if value]
        variables = self._without(over)
        if Path(self.words[0]).name != "java":
            before = variables.get(JAVA_OPTIONS, dict(self.said).get(JAVA_OPTIONS, ""))
            if asked:
                variables[JAVA_OPTIONS] = " ".join([before, *asked]).strip()
            return variables, list(self.words)
        words = expanded(self.words[1:])
        own = java_options(words)
        kept = [word for word in own if not any(one.match(word) for one in over)]
        return variables, [self.words[0], *kept, *asked, *words[len(own) :]]

    def _without(self, over: Sequence[re.Pattern[str]]) -> dict[str, str]:
        """Variables of a JVM without the words that a cell replaces: two collectors are refused."""
        found = {}
        for name, text in self.said:
            kept = [word for word in text.split() if not any(one.match(word) for one in over)]
            if name in (JAVA_OPTIONS, LAUNCHER_OPTIONS) and len(kept) < len(text.split()):
                found[name] = " ".join(kept)
        return found


def stock_variables(cell: Cell) -> dict[str, str] | None:
    """What asks the installed libgc for a cell; None if it has no word for something there."""
    heap = f"heap-limit={cell.heap}" if SIZE.fullmatch(cell.heap) else cell.heap
    settings = [one.partition("=")[::2] for one in heap.split("+") if one]
    if cell.threads:
        settings.append(("markers", str(cell.threads)))
    if any(name not in STOCK for name, _ in settings):
        return None
    return {STOCK[name]: value for name, value in settings}


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
    return Program(tuple(words), kind, gleaner, tuple(sorted(said.items())))


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


#: What is said of a heap that is neither a size nor options, and of a size beside options.
NO_HEAP = "is neither a size such as 64m nor NAME=VALUE"
BESIDE = "is a size, and beside options it is written heap-limit="
#: What looks at options and runs nothing: as one does for a program of libgc, or for any.
CHECKS = {"libgc": ("run", "--check", "gc_bench"), "gleaner": ("run", "--check")}


def check_heap(heap: str, program: Program, bench: Path, known: Sequence[Option]) -> None:
    """Refuses options that are of the other heap or no candidates, or that there are not."""
    settings = program.options(Cell(heap=heap))
    for one in settings:
        if "=" not in one:
            wrong = f"{BESIDE}{one}" if SIZE.fullmatch(one) else NO_HEAP
            raise Failure(f"--heap {heap}: {one} {wrong}")
        check_option(one, program.kind, known)
    if said := _refused(settings, program, bench):
        raise Failure(f"--heap {heap}: {said}")


def check_threads(count: int, program: Program, bench: Path) -> None:
    """Refuses a number of threads that Gleaner's heap cannot have."""
    if said := _refused(program.options(Cell(threads=count)), program, bench):
        raise Failure(f"--threads {count}: {said}")


def _refused(settings: Sequence[str], program: Program, bench: Path) -> str:
    """What gleaner-bench says against options, without its list of all of them."""
    asked = [str(bench), *CHECKS[program.kind]]
    for one in settings:
        asked += ["--opt", one]
    if program.kind == "gleaner":
        asked += ["--", "true"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().removeprefix("gleaner-bench: ")
    return said.partition("; options: ")[0] or "gleaner-bench refuses it"


def check_collector(collector: str, program: Program) -> None:
    """Refuses a collector that this `java` has not; what a script starts is not known."""
    if Path(program.words[0]).name != "java":
        return
    variables = dict(os.environ)
    for name in (JAVA_OPTIONS, LAUNCHER_OPTIONS):
        variables[name] = " ".join(_unlocking(variables.get(name, "").split()))
    unlocking = _unlocking(java_options(expanded(program.words[1:])))
    asked = [program.words[0], *unlocking, f"-XX:+Use{collector}GC", "-version"]
    done = subprocess.run(
        asked, capture_output=True, text=True, timeout=60, check=False, env=variables
    )
    if done.returncode != 0:
        said = [one for one in done.stderr.splitlines() if not one.startswith(("Picked", "NOTE"))]
        raise Failure(f"--collector {collector}: {' '.join(said[:2]) or 'java fails with it'}")


def _unlocking(words: Sequence[str]) -> list[str]:
    """Words of a JVM that allow others."""
    return [word for word in words if word.startswith("-XX:+Unlock")]


def check_placement(options: str, gleaner: Path) -> None:
    """Refuses a placement that `gleaner place` does not know."""
    if not options:
        return
    asked = [gleaner, "place", "--opt", f"placement={options}", "--plan", "application:1"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("gleaner: ")
        raise Failure(f"--placement {options}: {said}")
