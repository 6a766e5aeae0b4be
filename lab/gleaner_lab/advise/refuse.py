"""What is refused before anything is run or written: what cannot be tried, or says nothing."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from gleaner_lab.advise.advisor import (
    COLLECTORS,
    JVM_MULTIPLES,
    PRECISE_MULTIPLES,
    Wishes,
    libgc_heaps,
    placements_of,
    space_of,
    threads_of,
)
from gleaner_lab.advise.measure import Energy
from gleaner_lab.advise.options import check_own, listed
from gleaner_lab.advise.race import Race, Rules
from gleaner_lab.advise.runtime import (
    COLLECTOR,
    SIZE,
    Program,
    check_collector,
    check_heap,
    check_placement,
    check_threads,
)
from gleaner_lab.advise.space import INSTALLED, Cell, Machine
from gleaner_lab.failure import Failure

#: What says how many threads collect: options of the two heaps, and a placement's `collectors`.
COUNT, COUNTS = "threads", ("markers", "workers")
#: What to do about two settings that contradict each other, and if they are of that.
REMEDY = (
    "try one value at a time, with a comma between them instead of the +",
    "list the numbers to try in --threads alone, or give --threads default",
)
#: Heaps that are tried beside the program's own unless the command line says which.
HEAPS = {"java": len(JVM_MULTIPLES), "gleaner": len(PRECISE_MULTIPLES)}

#: How the command line says something, of what, and which value.
Said = tuple[str, str, str]


def check(program: Program, wishes: Wishes, machine: Machine, rules: Rules, bench: Path) -> None:
    """All of it."""
    for one in filter(None, wishes.collectors or []):
        if program.kind == "java":
            check_collector(one, program)
        elif program.kind != "libgc" or one != INSTALLED:
            raise Failure(
                f"--collector {one}: only a JVM has several; a program that uses libgc may be "
                f"tried on the installed one, which is {INSTALLED}"
            )
    for one in placements_of(program, wishes, machine):
        check_placement(one, program.gleaner)
    _check_heaps(program, wishes, bench)
    for count in filter(None, wishes.threads or [] if program.kind != "java" else []):
        check_threads(count, program, bench)
    _check_contradictions(program, wishes, machine)
    if rules.goals == ("energy_j",) and not Energy.here().domains:
        raise Failure(
            "--goal energy: this machine has no counter of energy that may be read "
            "(/sys/class/powercap/intel-rapl:*/energy_uj): ask for another goal"
        )
    Race(expected(program, wishes, machine), rules).check()


def _check_heaps(program: Program, wishes: Wishes, bench: Path) -> None:
    heaps = [one for one in wishes.heaps or [] if one]
    if program.kind == "java":
        for one in heaps:
            if not SIZE.fullmatch(one):
                raise Failure(f"--heap: {one} is no size for a JVM, such as 256m, and not default")
    elif heaps or program.own_options:
        known = listed(program.gleaner)
        check_own(program.own_options, program.kind, known)
        for one in heaps:
            check_heap(one, program, bench, known)


def _check_contradictions(program: Program, wishes: Wishes, machine: Machine) -> None:
    """Refuses a space with a cell that has one setting twice, with two values."""
    placements = placements_of(program, wishes, machine)
    threads = threads_of(program, wishes, machine)
    for placement, count, heap in product(placements, threads, wishes.heaps or [""]):
        seen: dict[str, Said] = {}
        for said in _settings(program, wishes, Cell(placement, threads=count, heap=heap)):
            how, what, value = seen.setdefault(said[1], said)
            if value != said[2]:
                raise Failure(f"{how} and {said[0]} contradict each other: {REMEDY[what == COUNT]}")


def _settings(program: Program, wishes: Wishes, cell: Cell) -> list[Said]:
    found = []
    for one in cell.placement.split(","):
        name, _, value = one.partition("=")
        if name == "collectors" and value not in ("", "0"):
            found.append((f"--placement {cell.placement}", COUNT, value))
    if cell.threads:
        how = f"--threads {cell.threads}"
        if wishes.threads is None:
            how += ", which is tried unless --threads says otherwise,"
        found.append((how, COUNT, str(cell.threads)))
    for one in program.options(Cell(heap=cell.heap)):
        name, _, value = one.partition("=")
        found.append((f"--heap {one}", COUNT if name in COUNTS else name, value))
    return found


def expected(program: Program, wishes: Wishes, machine: Machine) -> list[Cell]:
    """As many cells as there will be, as far as that can be told: heaps are still to be found."""
    heaps = wishes.heaps
    if heaps is None and program.kind == "libgc":
        heaps = libgc_heaps(1)
    elif heaps is None:
        heaps = ["", *(f"heap {number}" for number in range(HEAPS[program.kind]))]
    return space_of(program, wishes, machine, _own_collector(program, machine), heaps)


def runs_of(
    program: Program,
    wishes: Wishes,
    machine: Machine,
    rules: Rules,
    rounds: int,
    is_checked: bool,
) -> int:
    """How many runs there will be at most, but for those that find the smallest heap."""
    race = Race(expected(program, wishes, machine), rules)
    if not is_checked:
        return race.budget
    # Beside each other are the choices, the best cells by medians and by the model, and the
    # program as it is.
    beside = 1 + 3 * len(rules.goals)
    return race.budget + len(race.cells) * rules.repetitions + rounds * beside


def _own_collector(program: Program, machine: Machine) -> str:
    """What a JVM takes by itself, as far as its words tell; G1 where it has two processors."""
    said = [*program.words, *(word for _, text in program.said for word in text.split())]
    for one, word in product(COLLECTORS, said):
        if COLLECTOR.match(word) and f"+Use{one}GC" in word:
            return one
    return "G1" if len(machine.processors) > 1 else "Serial"
