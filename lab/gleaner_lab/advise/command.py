"""The command `gleaner-lab advise`."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gleaner_lab.failure import Failure, nearest
from gleaner_lab.written import write

if TYPE_CHECKING:
    from gleaner_lab.advise.advisor import Advisor, Wishes
    from gleaner_lab.advise.check import Check
    from gleaner_lab.advise.race import Race, Standing
    from gleaner_lab.report.modelled import Page

DESCRIPTION = """\
Finds on this machine which placement of threads, how many collector threads, which heap size and,
for a JVM, which collector suit a program: for time, for pauses, for core-seconds, and for energy
if the machine counts it. The command runs the program many times, so take a run that is short, does
the same each time and needs no input. Cells that are surely worse get no more runs. The command
makes at most a quarter of the runs of an exhaustive measurement, unless --budget says otherwise.
"""
EXAMPLES = """\
examples:
  gleaner-lab advise -- guile script.scm                    a program that uses libgc
  gleaner-lab advise -- java -jar app.jar                   any JVM
  gleaner-lab advise --runtime java -- ./start.sh           a script that ends with java
  gleaner-lab advise --goal pauses --goal time -- ./server-benchmark
  gleaner-lab advise --threads default,1,2 --heap default,256m,1g -- java -jar app.jar
  gleaner-lab advise --placement default --placement isolated,isolate=jvm -- java -jar app.jar
  gleaner-lab advise --heap free-space-divisor=1,initial-heap=64m -- guile script.scm

If the command was stopped, give it again to go on; --fresh begins anew. The answer is printed, and
written to the directory as advice.html and CSV files. Exit status: 0 there is an answer; 2 the
command is wrong or the program fails; 130 it was stopped.
"""


#: Rounds of a check unless --rounds says otherwise.
ROUNDS = 20


def add(commands: argparse._SubParsersAction) -> None:
    """The words of the command."""
    one = commands.add_parser(
        "advise",
        help="which placement, threads and heap suit a program on this machine",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("program", nargs="+", metavar="PROGRAM", help="the program and its arguments")
    one.add_argument(
        "--goal",
        action="append",
        metavar="GOAL",
        help="time, pauses, core-seconds or energy; may be repeated, and the first one gets every "
        "second run; default: all of them",
    )
    one.add_argument(
        "--runtime", choices=["java", "libgc", "gleaner"], help="what runs the program"
    )
    one.add_argument(
        "--placement",
        action="append",
        metavar="OPTIONS",
        help="a placement to try, as after placement= of 'gleaner place'; may be repeated",
    )
    one.add_argument("--threads", metavar="LIST", help="numbers of collector threads, or default")
    one.add_argument(
        "--heap",
        metavar="LIST",
        help="heap limits such as 64m, options of Gleaner's heap as NAME=VALUE+..., or default",
    )
    one.add_argument(
        "--collector",
        metavar="LIST",
        help="of a JVM: Serial, Parallel, G1, Z, ...; stock: the installed libgc, with all that "
        "is tried",
    )
    one.add_argument("--budget", type=_positive, default=0, metavar="N", help="at most N runs")
    one.add_argument(
        "--margin",
        type=_percent,
        default=0.01,
        metavar="PERCENT",
        help="how many percent do not matter (1)",
    )
    one.add_argument("--seed", type=_positive, default=1, help="decides the order of runs")
    one.add_argument("--out", type=Path, metavar="DIR", help="where runs and the answer are kept")
    one.add_argument("--fresh", action="store_true", help="drop the runs made so far")
    one.add_argument(
        "--check",
        action="store_true",
        help="afterwards measure every cell, and say how far the answer is from the best; slow",
    )
    one.add_argument(
        "--rounds",
        type=_positive,
        metavar="N",
        help="rounds in which --check runs the choice and the best cell beside each other "
        f"({ROUNDS})",
    )
    one.add_argument(
        "--repetitions",
        type=_positive,
        metavar="N",
        help="runs of a cell in an exhaustive measurement (10): the budget is a quarter of that",
    )
    one.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also the tables, for a page of documentation"
    )
    one.add_argument("--bench", type=Path, help="gleaner-bench, if not from target/release")
    one.add_argument("--quiet", action="store_true", help="print the answer and errors alone")
    one.set_defaults(act=act, goes_on="the same command goes on from there")


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0")
    return number


def _percent(text: str) -> float:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 < number < 100:
        raise argparse.ArgumentTypeError(f"{text} is no percentage above 0 and below 100")
    return number / 100


def act(chosen: argparse.Namespace) -> int:
    """Runs the advisor, and prints what it found."""
    from gleaner_lab import machine
    from gleaner_lab.advise import advisor, refuse
    from gleaner_lab.advise.check import compared
    from gleaner_lab.advise.measure import Bench
    from gleaner_lab.advise.race import REPETITIONS, Rules
    from gleaner_lab.advise.runtime import program_of
    from gleaner_lab.advise.space import Machine
    from gleaner_lab.commands import SCRATCH, progress_bar
    from gleaner_lab.workload import Tools

    bench = Tools.find(chosen.bench, SCRATCH).bench
    gleaner = bench.with_name("gleaner")
    if not gleaner.is_file():
        raise Failure(f"{gleaner} is not there: run make build, or name another --bench")
    if chosen.markdown is not None and not chosen.markdown.absolute().parent.is_dir():
        raise Failure(f"--markdown {chosen.markdown}: there is no such directory: make it first")
    if chosen.rounds is not None and not chosen.check:
        raise Failure(f"--rounds {chosen.rounds} is about --check: add that, or leave it out")
    program = program_of(chosen.program, chosen.runtime, gleaner)
    wishes = _wishes(chosen)
    goals = tuple(dict.fromkeys(_goal(one) for one in chosen.goal or advisor.GOALS))
    repetitions = chosen.repetitions or REPETITIONS
    rules = Rules(goals, chosen.budget, chosen.margin, chosen.seed, repetitions)
    here = Machine.here()
    refuse.check(program, wishes, here, rules, bench)
    facts = machine.describe()
    plan = advisor.plan_of(program, wishes, chosen.seed, machine.identity(facts), bench)
    results = advisor.open_results(chosen.out, plan, chosen.fresh)
    results.note_machine(plan["machine"], facts)
    scratch = results.path / "scratch"
    scratch.mkdir(exist_ok=True)
    if not chosen.quiet:
        print(f"runs are kept in {results.path}", file=sys.stderr)
    is_searched = program.kind != "libgc" and wishes.heaps is None
    searched = ", beside the runs that find the smallest heap" if is_searched else ""
    runs = refuse.runs_of(program, wishes, here, rules, chosen.rounds or ROUNDS, chosen.check)

    def tell(takes_s: float) -> None:
        left = max(0, runs - sum(one["kind"] != "probe" for one in results.records()))
        say(
            f"the program takes {takes_s:.3g} s as it is: at most {left} runs more, about "
            f"{_duration(left * takes_s)}{searched}"
        )

    def say(what: str) -> None:
        if not chosen.quiet:
            print(what, file=sys.stderr)

    say(f"at most {runs} runs; the first one tells how long they take")
    with results.locked(), progress_bar() as bar:
        shown = bar.add_task("starting", total=None)

        def watch(what: str, made: int, total: int) -> None:
            bar.update(shown, description=what[:60], completed=made, total=total or None)

        whole = advisor.Advisor(
            program,
            Bench(bench, program, scratch.resolve(), advisor.FIRST_LIMIT),
            results,
            wishes,
            here,
            rules,
            watch,
            plan["files"],
            command_of(chosen, program.said),
            tell,
        )
        try:
            race, standings = whole.race()
            check = (
                compared(whole, race, standings, chosen.rounds or ROUNDS) if chosen.check else None
            )
        except KeyboardInterrupt:
            signal.alarm(0)
            bar.stop()
            return _stopped(whole, command_of(chosen, program.said, is_whole=True))
    answer = _tell(whole, race, standings, check)
    if chosen.markdown is not None:
        write(chosen.markdown, answer.markdown())
        print(chosen.markdown)
    return 0


def _duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"


def _wishes(chosen: argparse.Namespace) -> Wishes:
    from gleaner_lab.advise.advisor import Wishes, levels

    def given(text: str | None, option: str) -> list[str] | None:
        if text is None:
            return None
        if not (found := levels(text)):
            raise Failure(f"{option}: the list is empty")
        return found

    threads = given(chosen.threads, "--threads")
    if wrong := [one for one in threads or [] if one and not (one.isdecimal() and int(one) > 0)]:
        raise Failure(f"--threads: {wrong[0]} is no number of threads, and not default")
    return Wishes(
        None if chosen.placement is None else [levels_of(one) for one in chosen.placement],
        given(chosen.collector, "--collector"),
        None if threads is None else [int(one or 0) for one in threads],
        _same_limits(given(chosen.heap, "--heap")),
    )


def _same_limits(heaps: list[str] | None) -> list[str] | None:
    """A limit alone is the same heap whether its option is named or not."""
    from gleaner_lab.advise.runtime import SIZE

    if heaps is None:
        return None
    named = "heap-limit="
    sizes = {one: one.removeprefix(named) for one in heaps}
    return list(dict.fromkeys(size if SIZE.fullmatch(size) else one for one, size in sizes.items()))


def levels_of(placement: str) -> str:
    """A placement as the options behind `placement=`; the program's own is nothing."""
    placement = placement.removeprefix("placement=")
    return "" if placement == "default" else placement


def _goal(name: str) -> str:
    from gleaner_lab.advise.advisor import GOALS

    if name not in GOALS:
        raise Failure(
            f"--goal: there is no goal {name}{nearest(name, GOALS)}; there are {', '.join(GOALS)}"
        )
    return GOALS[name]


def _tell(
    whole: Advisor,
    race: Race,
    standings: Sequence[Standing],
    check: Check | None,
    why: str = "",
) -> Page:
    from gleaner_lab.advise import page

    answer = page.page(whole, race, standings, check, why)
    page.show(answer, check.verdicts(race) if check else ())
    written = answer.write(whole.results.path)
    print(f"\nthe same with all cells: {written[0]}")
    return answer


def _stopped(whole: Advisor, command: str) -> int:
    """What is known so far, as far as that says anything; and how to go on."""
    if any(one["kind"] == "race" for one in whole.results.records()):
        race = whole.known()
        if race.has_begun:
            why = "It was stopped: this is what is known so far."
            _tell(whole, race, race.standings(), None, why)
    print(f"stopped; to go on: {command}", file=sys.stderr)
    return 130


#: Options of the command line in the order in which they are told, with what they are unless given.
TOLD = {
    "goal": None,
    "runtime": None,
    "placement": None,
    "collector": None,
    "threads": None,
    "heap": None,
    "budget": 0,
    "margin": 0.01,
    "seed": 1,
    "repetitions": None,
    "rounds": None,
    "check": False,
    "out": None,
    "bench": None,
    "markdown": None,
}
#: Those that make no other runs.
PASSING = ("markdown",)


def command_of(
    chosen: argparse.Namespace, said: Sequence[tuple[str, str]], is_whole: bool = False
) -> str:
    """The command that was given, but for --fresh, in the environment that it was given in.

    The page says of a check how often it measured; `is_whole` has also what makes no other runs.
    """
    from gleaner_lab.advise.race import REPETITIONS
    from gleaner_lab.advise.runtime import environment

    words = [*environment(dict(said)), "gleaner-lab", "advise"]
    given = dict(vars(chosen))
    if chosen.check:
        given |= {
            "repetitions": chosen.repetitions or REPETITIONS,
            "rounds": chosen.rounds or ROUNDS,
        }
    for name, usual in TOLD.items():
        if name in PASSING and not is_whole:
            continue
        for value in _values(given[name]) if given[name] != usual else ():
            words += _option(name, value)
    return shlex.join([*words, "--", *chosen.program])


def _values(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _option(name: str, value: object) -> list[str]:
    """An option as words; a value that begins with a dash would be taken for another option."""
    if value is True:
        return [f"--{name}"]
    text = f"{value * 100:g}" if name == "margin" else str(value)
    return [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]
