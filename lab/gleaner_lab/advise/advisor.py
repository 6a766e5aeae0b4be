"""The advisor: plans the space, makes the runs into a journal, and goes on from there.

The directory is a result set of the lab (`store.py`) whose experiment is the plan: the command, the
machine, and what of the space was given. Before the race some runs are probes: one of the program
as it is, which says how long a run may take, and those that find the smallest heap.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gleaner_lab.advise.files import digest_of, digests
from gleaner_lab.advise.measure import Bench
from gleaner_lab.advise.race import Race, Rules, Standing, Trials
from gleaner_lab.advise.runtime import Program, stock_variables
from gleaner_lab.advise.space import (
    DEFAULT,
    INSTALLED,
    REFERENCE,
    Cell,
    Machine,
    cells_of,
    placements,
    thread_counts,
)
from gleaner_lab.failure import Failure
from gleaner_lab.heap import minimum_heap
from gleaner_lab.store import ResultSet

#: What a goal is called, and which figure it is about.
GOALS = {
    "time": "wall_s",
    "pauses": "longest_pause_s",
    "core-seconds": "cpu_s",
    "energy": "energy_j",
}
MEGABYTE = 1 << 20
#: Heaps of a JVM and of a precise heap, in multiples of the smallest that works.
JVM_MULTIPLES, PRECISE_MULTIPLES = (2, 4), (1.5, 2, 3, 4, 6)
#: Of the heap of libgc, beside a start with twice its peak.
DIVISORS = (1, 2, 8)
#: How precisely the smallest heap is searched for.
PRECISION = 0.15
#: A run may take PATIENCE times what the program takes as it is, and at least LEAST_LIMIT seconds.
PATIENCE, LEAST_LIMIT = 10, 10
#: The limit of the first run.
FIRST_LIMIT = 3600
#: Collectors of a JVM that are tried, and those that it can be asked for by name.
COLLECTORS = ("Serial", "Parallel", "G1")
NAMED = (*COLLECTORS, "Z", "Shenandoah")

#: What is said of a directory of something else.
NO_ADVICE = "holds no advice: name another directory with --out"
#: How an advice goes on that was stopped.
GOES_ON = "give the same command again"

#: A run of an exhaustive measurement: the cell, the round, what it came to.
Made = tuple[Cell, int, dict[str, Any]]
#: Told before each run: its cell, and how many runs there are before and in all.
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Wishes:
    """What the command line says of the space; None is derived from the machine and the runtime."""

    placements: list[str] | None = None
    collectors: list[str] | None = None
    threads: list[int] | None = None
    heaps: list[str] | None = None


@dataclass
class Advisor:
    """One program on this machine."""

    program: Program
    bench: Bench
    results: ResultSet
    wishes: Wishes
    machine: Machine
    rules: Rules
    watch: Watch
    #: The hashes of the files that the command names, before the first run.
    files: dict[str, str] = field(default_factory=dict)
    #: The command that makes these runs again.
    command: str = ""
    #: Told once how many seconds the program takes as it is.
    tell: Callable[[float], None] = lambda _: None
    is_told: bool = False

    def race(self) -> tuple[Race, list[Standing]]:
        """All runs that are needed, and what they say."""
        self.results.mend()
        race = self.known()
        return race, race.run(lambda cell, number: self._run(race, cell, number))

    def known(self) -> Race:
        """The race as it stands in the journal."""
        cells = self.cells()
        of_key = {cell.key: cell for cell in cells}
        made = [
            (of_key[one["cell"]], one["round"], one)
            for one in self.results.records()
            if one["kind"] == "race" and one["cell"] in of_key
        ]
        return Race(cells, self.rules, made)

    def _run(self, race: Race, cell: Cell, number: int) -> dict[str, Any]:
        self.watch(cell.key, race.spent, race.budget)
        return self._record("race", cell, number)

    def cells(self) -> list[Cell]:
        """The space; it makes the probes that are missing."""
        first = self._probe(REFERENCE)
        if "problem" in first:
            raise Failure(f"the program fails as it is: {first['problem']}")
        self.bench.limit_s = max(LEAST_LIMIT, PATIENCE * first["values"]["wall_s"])
        if not self.is_told:
            self.is_told = True
            self.tell(first["values"]["wall_s"])
        own = first.get("collector", "")
        self.program = replace(self.program, own_collector=own if own in NAMED else "")
        self.bench.program = self.program
        heaps = self._heaps(first) if self.wishes.heaps is None else self.wishes.heaps
        return space_of(self.program, self.wishes, self.machine, own, heaps)

    def _heaps(self, first: dict[str, Any]) -> list[str]:
        peak = max(1, first["values"]["peak_kb"] >> 10)
        if self.program.kind == "libgc":
            # Its heap grows by a rule: a limit that is not reached changes nothing.
            return libgc_heaps(peak)
        found = minimum_heap(self._works, max(8, peak // 2) * MEGABYTE, PRECISION)
        if found is None:
            return [""]
        multiples = JVM_MULTIPLES if self.program.kind == "java" else PRECISE_MULTIPLES
        sizes = [max(1, round(found[0] * one / MEGABYTE)) for one in multiples]
        return ["", *(f"{one}m" for one in dict.fromkeys(sizes))]

    def _works(self, limit: int) -> bool:
        size = limit // MEGABYTE
        return size > 0 and "problem" not in self._probe(Cell(heap=f"{size}m"))

    def _probe(self, cell: Cell) -> dict[str, Any]:
        for one in self.results.records():
            # What kept the program from working as it is may have been mended.
            is_over = cell != REFERENCE or "problem" not in one
            if one["kind"] == "probe" and one["cell"] == cell.key and is_over:
                return one
        self.watch(f"first: {cell.key}", 0, 0)
        return self._record("probe", cell, 0)

    def _record(self, kind: str, cell: Cell, number: int) -> dict[str, Any]:
        started = datetime.now(UTC).isoformat()
        record = {
            "key": f"{kind} {number} | {cell.key}",
            "kind": kind,
            "cell": cell.key,
            "round": number,
            "started": started,
            **self.bench.run(cell),
        }
        if kind == "probe" and cell == REFERENCE:
            record["written"] = self._written()
        self.results.append(record)
        return record

    def _written(self) -> list[str]:
        """Files of the command that the program writes itself: they tell no other program."""
        now = digests(self.program)
        return [name for name in now if now[name] != self.files.get(name)]

    def exhaustive(self, race: Race) -> list[Made]:
        """Every cell as often as an exhaustive measurement has it, unless it fails."""
        done = {one["key"]: one for one in self.results.records() if one["kind"] == "check"}
        made: list[Made] = []
        trials = dict.fromkeys(race.cells, Trials())
        for number in range(self.rules.repetitions):
            order = sorted(cell for cell, one in trials.items() if not one.is_out)
            random.Random(f"{self.rules.seed}/{number}").shuffle(order)
            for cell in order:
                record = done.get(f"check {number} | {cell.key}")
                if record is None:
                    total = self.rules.repetitions * len(race.cells)
                    self.watch(f"check: {cell.key}", len(made), total)
                    record = self._record("check", cell, number)
                made.append((cell, number, record))
                trials[cell] = trials[cell].and_one(record)
        return made

    def duel(self, cells: Collection[Cell], rounds: int) -> list[Made]:
        """Cells beside each other: each once a round, in random order, and no others."""
        made: list[Made] = []
        kind = (
            "duel "
            + hashlib.sha256("|".join(sorted(it.key for it in cells)).encode()).hexdigest()[:8]
        )
        done = {one["key"]: one for one in self.results.records() if one["kind"] == kind}
        for number in range(rounds):
            order = sorted(cells)
            random.Random(f"{self.rules.seed}/duel/{number}").shuffle(order)
            whole = [done.get(f"{kind} {number} | {cell.key}") for cell in order]
            # A round that was stopped is made anew: its runs belong side by side.
            for place, cell in enumerate(order):
                if not all(whole):
                    self.watch(f"beside: {cell.key}", len(made), rounds * len(order))
                    made.append((cell, number, self._record(kind, cell, number)))
                else:
                    made.append((cell, number, whole[place]))
        return made


def libgc_heaps(peak: int) -> list[str]:
    """The heaps of libgc that are tried for a program with a peak of so many MB."""
    divisors = [f"free-space-divisor={one}" for one in DIVISORS]
    return ["", *divisors, f"initial-heap={2 * peak}m"]


def space_of(
    program: Program, wishes: Wishes, machine: Machine, own: str, heaps: list[str]
) -> list[Cell]:
    """All cells with these heaps; `own` is the collector that a JVM takes by itself."""
    collectors = wishes.collectors
    if collectors is None:
        is_jvm = program.kind == "java"
        collectors = ["", *(one for one in COLLECTORS if one != own)] if is_jvm else [""]
    threads = threads_of(program, wishes, machine)
    cells = cells_of(placements_of(program, wishes, machine), collectors, threads, heaps)
    if program.kind == "libgc" and wishes.collectors is None:
        # Where a user comes from. Which threads and placement would suit it is asked with
        # --collector.
        cells += [Cell(collector=INSTALLED, heap=heap) for heap in heaps]
    is_stock = lambda cell: cell.collector == INSTALLED  # noqa: E731
    return [cell for cell in cells if not (is_stock(cell) and stock_variables(cell) is None)]


def placements_of(program: Program, wishes: Wishes, machine: Machine) -> list[str]:
    """Those of the command line, or those that differ on the machine."""
    chosen = wishes.placements
    if chosen is None:
        chosen = placements(machine, program.kind == "java")
    return chosen or [""]


def threads_of(program: Program, wishes: Wishes, machine: Machine) -> list[int]:
    """Those of the command line, or those that differ from what the program does by itself."""
    is_small_jvm = program.kind == "java" and len(machine.processors) <= 8
    uses_all = program.kind == "gleaner" or is_small_jvm
    return wishes.threads or thread_counts(machine, uses_all)


def open_results(path: Path | None, plan: dict[str, Any], fresh: bool) -> ResultSet:
    """The directory of this command, which goes on if it is there and its plan is the same."""
    identity = json.dumps([plan["command"], plan["directory"]]).encode()
    place = path or _cache() / hashlib.sha256(identity).hexdigest()[:12]
    if not (place / "form").exists():
        return _created(place, plan)
    found = replace(ResultSet.open(place, of_advice=True), goes_on=GOES_ON)
    known = _plan_in(found)
    if fresh:
        if Path.cwd().is_relative_to(place.resolve()):
            raise Failure(f"{place} is where you are: leave it before it is dropped with --fresh")
        with found.locked():
            # In one step: half of a directory would be taken for one of something else.
            dropped = tempfile.mkdtemp(prefix=f"{place.name}.", dir=place.absolute().parent)
            place.rename(dropped)
            shutil.rmtree(dropped)
        return _created(place, plan)
    records = list(found.records())
    changed = changes(known, plan, {name for one in records for name in one.get("written", ())})
    if changed and not any("values" in one for one in records):
        # Nothing was measured yet: there is nothing to be compared with.
        return open_results(place, plan, fresh=True)
    if changed:
        raise Failure(
            f"{place} was begun with something else ({'; '.join(changed)}): go on with the same "
            "command, begin anew with --fresh, or keep both with --out DIR"
        )
    return found


def _created(place: Path, plan: dict[str, Any]) -> ResultSet:
    if place.is_dir():
        try:
            place.rmdir()
        except OSError as error:
            raise Failure(f"{place} {NO_ADVICE}") from error
    return replace(ResultSet.create(place, json.dumps(plan, indent=2) + "\n"), goes_on=GOES_ON)


def _plan_in(found: ResultSet) -> dict[str, Any]:
    """The plan that a directory was begun with; an experiment has none."""
    try:
        known = json.loads(found.experiment.read_text())
    except (OSError, ValueError) as error:
        raise Failure(f"{found.path} {NO_ADVICE}") from error
    if not (isinstance(known, dict) and "command" in known):
        raise Failure(f"{found.path} {NO_ADVICE}")
    return known


def plan_of(
    program: Program, wishes: Wishes, seed: int, machine: str, bench: Path
) -> dict[str, Any]:
    """What must be the same for runs to be compared."""
    tools = (bench, program.gleaner, bench.with_name("libgc.so"))
    return {
        "command": list(program.words),
        "directory": os.getcwd(),
        "runtime": program.kind,
        "files": digests(program),
        "environment": dict(program.said),
        "tools": {one.name: digest_of(one) for one in tools if one.is_file()},
        "machine": machine,
        "space": asdict(wishes),
        "seed": seed,
    }


def changes(known: dict[str, Any], plan: dict[str, Any], written: Collection[str]) -> list[str]:
    """In words, what a plan has otherwise than the one that runs were made by."""
    found = []
    for part, now in plan.items():
        before = known.get(part)
        if not (isinstance(now, dict) and isinstance(before, dict)):
            now, before = {"": now}, {"": before}
        for name in sorted({*now, *before} - (set(written) if part == "files" else set())):
            if before.get(name) != now.get(name):
                shown = f"{part} {name}".strip()
                found.append(f"{shown}: {before.get(name)}, and now {now.get(name)}")
    return found


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gleaner-lab" / "advise"


def levels(text: str) -> list[str]:
    """A list of the command line; `default` leaves a factor as the program has it."""
    words = [word.strip() for word in text.split(",")]
    return ["" if word == DEFAULT else word for word in words if word]
