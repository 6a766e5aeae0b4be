"""The command gleaner-lab."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gleaner_lab import experiment as experiments
from gleaner_lab.advise import command as advise
from gleaner_lab.cells import cells_of
from gleaner_lab.experiment import MOST_REPETITIONS, Experiment
from gleaner_lab.failure import Failure, Missing, nearest
from gleaner_lab.tree import ROOT, data
from gleaner_lab.written import FULL, unwritten, write

if TYPE_CHECKING:
    from gleaner_lab.report.modelled import Page
    from gleaner_lab.store import ResultSet

EXPERIMENTS = data("experiments", ROOT)
RESULTS = ROOT / "target" / "lab"
#: What is said where a command was stopped that another goes on with.
RESUMES = "gleaner-lab resume goes on from there"

EXAMPLES = """\
examples:
  gleaner-lab list                       the experiments
  gleaner-lab show boehm-table1          its cells, and how many runs they make
  gleaner-lab run boehm-table1           run it; the result set goes to target/lab/
  gleaner-lab init my.yaml -- ./program  a commented experiment about a program of yours
  gleaner-lab run my.yaml --repetitions 3
  gleaner-lab run my.yaml --until all --repetitions 40 --budget 30m
  gleaner-lab resume target/lab/DIR      go on where a run was stopped
  gleaner-lab report target/lab/DIR      writes report.html and PNG files there
  gleaner-lab compare DIR DIR            two result sets of one experiment
  gleaner-lab export DIR --format csv    its runs for other programs
  gleaner-lab minheap gc_bench           the smallest heap limit that works
  gleaner-lab model figure-3             the NUMA paper's Figure 3, modelled
  gleaner-lab model collection run.json  collection time against threads, modelled from counts
  gleaner-lab advise -- java -jar x.jar  which placement, threads and heap suit a program
  gleaner-lab findings target/lab/DIR    the NUMA paper's evaluation, from a run of naps-paper

exit status of run and resume: 0 all runs finished and all bars are met; 1 a run failed or a bar is
violated; 2 the command or its input is wrong; 3 nothing failed and no bar is violated, but some are
undecided; 130 it was stopped.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    chosen = _parser().parse_args(arguments)
    try:
        if "quiet" in chosen:
            from gleaner_lab import commands

            commands.console.quiet = chosen.quiet
        with _stopped_by_signals():
            status = chosen.act(chosen)
            sys.stdout.flush()
            return status
    except KeyboardInterrupt:
        hint = f"; {chosen.goes_on}" if "goes_on" in chosen else ""
        print(f"\ngleaner-lab: stopped{hint}", file=sys.stderr)
        return 130
    except Failure as failure:
        print(f"gleaner-lab: {failure}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Who reads has enough, as head does.
        sys.stdout = None
        return 128 + signal.SIGPIPE
    except OSError as error:
        # A result set that is there is not run again, but gone on with.
        again = chosen.goes_on if "goes_on" in chosen else "give the command again"
        remedy = f": make room, and {again}" if error.errno in FULL else ""
        what = f"output: {error.strerror}"
        if error.filename is not None:
            what = unwritten(Path(str(error.filename)), error)
        print(f"gleaner-lab: {what}{remedy}", file=sys.stderr)
        # What is in the buffer cannot be written when the program ends, either.
        sys.stdout = None
        return 2


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Signals that ask to end raise KeyboardInterrupt, again each second until one came through.

    Python drops an exception that meets a destructor or another of its own callbacks; a module
    that is being imported may make another one of it.
    """
    is_stopped = False

    def stop(*_: object) -> None:
        nonlocal is_stopped
        is_stopped = True
        signal.alarm(1)
        raise KeyboardInterrupt

    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGALRM]
    # Ignored, as nohup has it, it stays so.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    before = [signal.signal(one, stop) for one in signals]
    try:
        yield
    except ImportError as error:
        if is_stopped:
            raise KeyboardInterrupt from error
        raise
    finally:
        # Nothing is left to stop: the others are to do no harm on the way out.
        for one in signals:
            signal.signal(one, signal.SIG_IGN)
        signal.alarm(0)
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gleaner-lab",
        description="Runs experiments on garbage collectors and reports them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("list", help="the experiments that come with Gleaner")
    one.set_defaults(act=_list)

    one = commands.add_parser("show", help="what an experiment would run")
    one.add_argument("experiment", help="a name from the list, or a YAML file")
    _bench(one)
    one.set_defaults(act=_show)

    one = commands.add_parser("init", help="write an experiment about a program of one's own")
    one.add_argument("file", type=Path, help="the YAML file to write")
    one.add_argument("program", nargs="*", metavar="PROGRAM", help="the program and its arguments")
    one.set_defaults(act=_init)

    one = commands.add_parser("run", help="run an experiment and report it")
    one.add_argument("experiment", help="a name from the list, or a YAML file")
    one.add_argument("--out", type=Path, help="the directory of the result set")
    one.add_argument(
        "--repetitions",
        type=repetitions,
        metavar="N",
        help="runs of each cell, instead of the file's",
    )
    one.add_argument(
        "--size", choices=["tiny", "ci", "full"], help="the workloads' size, instead of the file's"
    )
    one.add_argument(
        "--limit",
        type=seconds,
        metavar="SECONDS",
        dest="limit_s",
        help="instead of the file's: a process that takes longer is ended, and counts as hung",
    )
    one.add_argument(
        "--heaps", type=Path, metavar="DIR", help="take the heap sizes that an earlier run found"
    )
    one.add_argument("--only", action="append", metavar="NAME", help="only this workload")
    one.add_argument(
        "--configuration",
        action="append",
        metavar="NAME",
        help="only this configuration, beside the baseline",
    )
    one.add_argument(
        "--threads",
        action="append",
        metavar="N",
        help="only with N collecting threads, one of the file's numbers",
    )
    one.add_argument(
        "--multiple",
        action="append",
        type=float,
        metavar="X",
        help="only heaps of X times the minimum, one of the file's multiples",
    )
    one.add_argument(
        "--iteration", type=int, metavar="N", help="the iteration that counts, not the file's"
    )
    one.add_argument(
        "--until",
        choices=["all", "first"],
        help="stop when all bars are decided, or the first one, after --repetitions at the latest; "
        "intervals are then wider, so that looking early misleads nobody",
    )
    one.add_argument(
        "--warm-up",
        type=warm_up,
        metavar="N",
        help="run each cell N times before its first run that counts",
    )
    one.add_argument(
        "--prepare", type=words, metavar="COMMAND", help="run it before each run; it is not counted"
    )
    one.add_argument(
        "--cleanup", type=words, metavar="COMMAND", help="run it after each run; it is not counted"
    )
    _execution(one)
    one.set_defaults(act=_run, goes_on=RESUMES)

    one = commands.add_parser("resume", help="make the runs that a result set lacks")
    one.add_argument("results", type=Path)
    one.add_argument("--failed", action="store_true", help="make the runs that failed again, too")
    _execution(one)
    one.set_defaults(act=_resume, goes_on=RESUMES)

    one = commands.add_parser("report", help="write the page and the pictures of a result set")
    one.add_argument("results", type=Path)
    one.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also the tables, for a page of documentation"
    )
    one.set_defaults(act=_report)

    one = commands.add_parser("export", help="the runs of a result set for other programs")
    one.add_argument("results", type=Path)
    one.add_argument(
        "--format",
        choices=["csv", "hyperfine", "jmh"],
        default="csv",
        help="csv: all runs with all that is known of each; hyperfine, jmh: the JSON of these "
        "programs; default: csv",
    )
    one.add_argument("--out", type=Path, metavar="FILE", help="where it goes, if not to the output")
    one.set_defaults(act=_export)

    one = commands.add_parser(
        "completion", help="what a shell needs to complete commands: docs in lab/README.md"
    )
    one.add_argument("shell", choices=["bash", "zsh", "fish"])
    one.set_defaults(act=_completion)

    one = commands.add_parser(
        "compare", help="compare two result sets of one experiment, cell by cell"
    )
    one.add_argument("before", type=Path)
    one.add_argument("after", type=Path)
    one.set_defaults(act=_compare)

    one = commands.add_parser(
        "minheap", help="find the smallest heap limit under which programs work"
    )
    one.add_argument("workload", nargs="+")
    one.add_argument("--size", choices=["tiny", "ci", "full"], default="full")
    one.add_argument(
        "--start-mb",
        type=int,
        choices=range(1, 65537),
        default=64,
        metavar="MB",
        help="a limit that should work, up to 65536",
    )
    _bench(one)
    one.set_defaults(act=_minheap)

    advise.add(commands)

    one = commands.add_parser("model", help="a model of a machine with 8 memory nodes")
    _model(one.add_subparsers(required=True, metavar="WHAT"))

    one = commands.add_parser("arrays", help="the evaluation of arrays in pieces")
    _arrays(one.add_subparsers(required=True, metavar="WHAT"))

    one = commands.add_parser("placement", help="the evaluation of where threads run")
    _placement(one.add_subparsers(required=True, metavar="WHAT"))

    one = commands.add_parser(
        "findings", help="the NUMA paper's tables, figures and findings, from a run of naps-paper"
    )
    one.add_argument("results", type=Path)
    one.add_argument(
        "--out", type=Path, metavar="DIR", help="where the page goes; default: the result set"
    )
    one.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also the tables, for a page of documentation"
    )
    one.set_defaults(act=_findings)
    return parser


def _model(commands: argparse._SubParsersAction) -> None:
    """The predictions. None of them measures anything."""
    one = commands.add_parser("figure-3", help="threads that read memory placed in four ways")
    one.add_argument("--out", type=Path, metavar="DIR", help="also a page, plots and CSV files")
    one.set_defaults(act=_model_figure_3)

    one = commands.add_parser(
        "collection", help="collection time against threads, from what a run counted"
    )
    one.add_argument(
        "run", type=Path, help="a file whose last line is the JSON that the run printed"
    )
    one.add_argument(
        "--one-worker",
        type=Path,
        metavar="FILE",
        help="the same for one collecting thread, whose pauses give the time for an object",
    )
    one.add_argument("--out", type=Path, metavar="DIR", help="also a page, plots and CSV files")
    one.set_defaults(act=_model_collection)


def _arrays(commands: argparse._SubParsersAction) -> None:
    """What is told from several result sets together."""
    one = commands.add_parser("findings", help="the paper's findings, checked on result sets")
    one.add_argument("results", type=Path, nargs="+", help="one of each experiment, in any order")
    _shown(one)
    one.set_defaults(act=_arrays_findings)

    one = commands.add_parser(
        "model", help="predicted overheads beside measured ones, from what one access costs"
    )
    one.add_argument("costs", type=Path, help="what `gleaner-bench accesses --json` printed")
    one.add_argument(
        "results",
        type=Path,
        nargs=2,
        help="of array-counts, and of an experiment with contiguous and perf-zray",
    )
    _shown(one)
    one.set_defaults(act=_arrays_model)


def _placement(commands: argparse._SubParsersAction) -> None:
    """What is told from several result sets together."""
    one = commands.add_parser("findings", help="the paper's findings, checked on result sets")
    one.add_argument("results", type=Path, nargs="+", help="one of each experiment, in any order")
    _shown(one)
    one.set_defaults(act=_placement_findings)

    one = commands.add_parser(
        "modelled", help="two sockets, from a run of placement-modelled: an estimate"
    )
    one.add_argument("results", type=Path)
    _shown(one)
    one.set_defaults(act=_placement_modelled)


def _shown(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, metavar="DIR", help="also a page and CSV files")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also the tables, for a page of documentation"
    )


def _execution(parser: argparse.ArgumentParser) -> None:
    _bench(parser)
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tcp://127.0.0.1:8786"
    )
    parser.add_argument(
        "--budget",
        type=duration,
        metavar="TIME",
        dest="budget_s",
        help="begin no round after this time, such as 90s, 30m or 2h; resume goes on",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="print errors alone; the exit status says the rest"
    )


def _bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bench", type=Path, help="gleaner-bench, if not from target/release")


def find(name: str) -> Path:
    """An experiment by the name of its file, or by path."""
    path = EXPERIMENTS / f"{name}.yaml"
    if path.exists():
        return path
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return Path(name)
    known = sorted(path.stem for path in EXPERIMENTS.glob("*.yaml"))
    hint = nearest(name, known).removesuffix("?")
    raise Failure(f"no experiment {name}{hint}; there are {', '.join(known)}, or give a YAML file")


def _list(_: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    paths = sorted(EXPERIMENTS.glob("*.yaml"))
    if not paths:
        raise Failure(f"no experiments in {EXPERIMENTS}: install the lab anew")
    table = Table("experiment", "question", "runs")
    for path in paths:
        one = experiments.read(path)
        table.add_row(path.stem, one.question, str(_count(one)))
    Console().print(table)
    return 0


def _count(experiment: Experiment) -> int:
    from gleaner_lab.schedule import tasks_of

    return len(tasks_of(experiment, list(cells_of(experiment))))


def _show(chosen: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from gleaner_lab import commands

    experiment = experiments.read(find(chosen.experiment))
    table = Table("workload", "configuration", "library", "options", "threads", "heap")
    for cell in cells_of(experiment):
        if cell.control:
            continue
        options = ", ".join(
            f"{name}={experiments.shown(value)}"
            for name, value in cell.configuration.options.items()
            if not isinstance(value, list)
        )
        heap = "" if cell.multiple is None else f"{cell.multiple:g} x minimum"
        table.add_row(
            cell.workload.name,
            cell.variant,
            cell.configuration.library,
            options,
            str(cell.threads or "default"),
            heap or experiment.heap.mode,
        )
    console = Console()
    console.print(f"[bold]{experiment.title}[/bold]\n{experiment.question}")
    console.print(table)
    most = "at most " if experiment.until else ""
    count = f"{most}{_count(experiment)} runs with controls"
    console.print(f"{most}{experiment.repetitions} rounds, {count}")
    try:
        commands.refuse_misspelt(experiment, chosen.bench)
        for workload, program in commands.missing_programs(experiment, chosen.bench):
            console.print(
                f"there is no program {program}, which {workload} runs: install or build it, or "
                f"correct the workload's command in {find(chosen.experiment)}",
                soft_wrap=True,
                highlight=False,
            )
    except Missing as missing:
        console.print(f"whether options are misspelt is not known: {missing}", soft_wrap=True)
    except Failure as failure:
        raise Failure(f"run would refuse this: {failure}") from failure
    return 0


def _init(chosen: argparse.Namespace) -> int:
    from gleaner_lab import starter

    starter.write(chosen.file, chosen.program)
    print(f"{chosen.file}: change it as it says, then: gleaner-lab show {chosen.file}")
    return 0


def repetitions(text: str) -> int:
    """The number that a command line gives, if an experiment could have it."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= MOST_REPETITIONS:
        raise argparse.ArgumentTypeError(f"{text} is no whole number from 1 to {MOST_REPETITIONS}")
    return number


def seconds(text: str) -> int:
    """A whole number of seconds, at least one."""
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text} is no whole number of seconds above 0")
    return int(text)


def warm_up(text: str) -> int:
    """How many runs do not count."""
    return 0 if text == "0" else repetitions(text)


def words(text: str) -> list[str]:
    """A command as a shell would split it; nothing takes the file's away."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error


#: Seconds of the units of a time.
UNITS = {"s": 1, "m": 60, "h": 3600}


def duration(text: str) -> float:
    """A time in seconds, minutes or hours: a bare number might mean rounds, or any of them."""
    number = text[:-1] if text[-1:] in UNITS else text
    if not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise argparse.ArgumentTypeError(f"{text} is no time such as 90s, 30m or 2h")
    if number == text:
        raise argparse.ArgumentTypeError(f"{text} has no unit: write {text}s, {text}m or {text}h")
    return float(int(number) * UNITS[text[-1]])


def _run(chosen: argparse.Namespace) -> int:
    from gleaner_lab import commands

    path = find(chosen.experiment)
    changes = {
        "repetitions": chosen.repetitions,
        "size": chosen.size,
        "limit_s": chosen.limit_s,
        "only": chosen.only,
        "configurations": chosen.configuration,
        "threads": chosen.threads,
        "multiples": chosen.multiple,
        "iteration": chosen.iteration,
        "until": chosen.until,
        "warm_up": chosen.warm_up,
        "prepare": chosen.prepare,
        "cleanup": chosen.cleanup,
    }
    out = chosen.out
    if out is None:
        out = RESULTS / f"{path.stem}-{datetime.now():%Y%m%d-%H%M%S}"
    command = command_of(chosen)
    return commands.start(
        path,
        out,
        changes,
        chosen.heaps,
        chosen.bench,
        chosen.scheduler,
        command,
        chosen.budget_s,
    )


def command_of(chosen: argparse.Namespace) -> str:
    """The command that makes the same runs again; where results go does not matter to them."""
    words = ["gleaner-lab", "run", chosen.experiment]
    options = {
        "repetitions": "",
        "size": "",
        "limit_s": "limit",
        "iteration": "",
        "until": "",
        "warm_up": "warm-up",
    }
    for name, shown in options.items():
        option, value = shown or name, getattr(chosen, name)
        words += [f"--{option}", str(value)] if value is not None else []
    chosen_names = [
        ("--only", chosen.only),
        ("--configuration", chosen.configuration),
        ("--threads", chosen.threads),
    ]
    for option, names in chosen_names:
        for name in names or []:
            words += [option, name]
    for multiple in chosen.multiple or []:
        words += ["--multiple", f"{multiple:g}"]
    for option, step in [("--prepare", chosen.prepare), ("--cleanup", chosen.cleanup)]:
        words += [option, shlex.join(step)] if step is not None else []
    words += ["--heaps", str(chosen.heaps)] if chosen.heaps is not None else []
    return shlex.join(words)


def _resume(chosen: argparse.Namespace) -> int:
    from gleaner_lab import commands

    return commands.resume(
        chosen.results, chosen.failed, chosen.bench, chosen.scheduler, chosen.budget_s
    )


def _opened(path: Path) -> ResultSet:
    """A result set that is read; what is odd about it is said."""
    from gleaner_lab.store import ResultSet

    results = ResultSet.open(path)
    for one in results.warnings():
        print(f"gleaner-lab: {one}", file=sys.stderr)
    return results


def _report(chosen: argparse.Namespace) -> int:
    from gleaner_lab import report

    results = _opened(chosen.results)
    print(report.write(results))
    if chosen.markdown is not None:
        write(chosen.markdown, report.markdown(results))
        print(chosen.markdown)
    return 0


def _export(chosen: argparse.Namespace) -> int:
    from gleaner_lab import exports

    text = exports.text_of(_opened(chosen.results), chosen.format)
    if chosen.out is None:
        sys.stdout.write(text)
    else:
        write(chosen.out, text)
        print(chosen.out)
    return 0


def _completion(chosen: argparse.Namespace) -> int:
    import shtab

    parser = _parser()
    _complete(parser, sorted(path.stem for path in EXPERIMENTS.glob("*.yaml")))
    print(shtab.complete(parser, chosen.shell))
    return 0


def _complete(parser: argparse.ArgumentParser, names: list[str]) -> None:
    """Says of each argument of the commands what completes it: files, or the experiments."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                _complete(one, names)
        elif action.dest == "experiment":
            action.choices = names
        elif action.type is Path or action.dest == "program":
            action.complete = shtab.FILE  # type: ignore[attr-defined]


def _compare(chosen: argparse.Namespace) -> int:
    from gleaner_lab import commands

    return commands.compare(chosen.before, chosen.after)


def _minheap(chosen: argparse.Namespace) -> int:
    from gleaner_lab import commands

    return commands.minheap(chosen.workload, chosen.size, chosen.start_mb << 20, chosen.bench)


def _model_figure_3(chosen: argparse.Namespace) -> int:
    from gleaner_lab.numa.parameters import PAPER
    from gleaner_lab.report import modelled

    return _present(modelled.figure_3(PAPER, "gleaner-lab model figure-3 --out DIR"), chosen.out)


def _model_collection(chosen: argparse.Namespace) -> int:
    from gleaner_lab.numa.collection import Run, curve, pauses_of
    from gleaner_lab.numa.locality import read_run
    from gleaner_lab.numa.parameters import MIDDLE
    from gleaner_lab.report import modelled

    run = Run.parse(read_run(chosen.run), str(chosen.run))
    costs = MIDDLE.costs
    words = ["gleaner-lab", "model", "collection", str(chosen.run)]
    if chosen.one_worker is not None:
        single, where = read_run(chosen.one_worker), str(chosen.one_worker)
        costs = MIDDLE.costs_on([(Run.parse(single, where), pauses_of(single, where))])
        words += ["--one-worker", where]
    machine = MIDDLE.machine
    page = modelled.collection(
        run, curve(run, machine, costs), machine, costs, shlex.join([*words, "--out", "DIR"])
    )
    return _present(page, chosen.out)


def _findings(chosen: argparse.Namespace) -> int:
    from gleaner_lab.numa import findings
    from gleaner_lab.numa.evidence import Evidence
    from gleaner_lab.report import evaluation
    from gleaner_lab.store import ResultSet

    evidence = Evidence.read(ResultSet.open(chosen.results))
    if not evidence.workloads:
        raise Failure(f"{chosen.results} has no runs yet: gleaner-lab resume {chosen.results}")
    page = evaluation.page(evidence, shlex.join(["gleaner-lab", "findings", str(chosen.results)]))
    for one in findings.findings(evidence):
        print(f"{one.verdict}: {one.statement.says}; ours {one.ours} ({one.reason})")
    for path in page.write(chosen.out or chosen.results):
        print(path)
    if chosen.markdown is not None:
        write(chosen.markdown, page.markdown())
        print(chosen.markdown)
    return 0


def _arrays_findings(chosen: argparse.Namespace) -> int:
    from gleaner_lab import tried
    from gleaner_lab.arrays import findings

    words = ["gleaner-lab", "arrays", "findings", *map(str, chosen.results)]
    found = findings.findings(tried.read(chosen.results))
    return _present(findings.page(found, shlex.join(words)), chosen.out, chosen.markdown)


def _placement_findings(chosen: argparse.Namespace) -> int:
    from gleaner_lab import placement, tried

    words = ["gleaner-lab", "placement", "findings", *map(str, chosen.results)]
    found = placement.findings(tried.read(chosen.results))
    return _present(placement.page(found, shlex.join(words)), chosen.out, chosen.markdown)


def _placement_modelled(chosen: argparse.Namespace) -> int:
    from gleaner_lab.numa.evidence import Evidence
    from gleaner_lab.numa.sockets import MACHINE
    from gleaner_lab.report import modelled
    from gleaner_lab.store import ResultSet

    results = ResultSet.open(chosen.results)
    evidence = replace(Evidence.read(results), machine=MACHINE)
    if not evidence.workloads:
        raise Failure(f"{chosen.results} has no runs yet: gleaner-lab resume {chosen.results}")
    found = {workload: evidence.on_sockets(workload) for workload in evidence.workloads}
    words = ["gleaner-lab", "placement", "modelled", str(chosen.results)]
    return _present(modelled.sockets(found, shlex.join(words)), chosen.out, chosen.markdown)


def _arrays_model(chosen: argparse.Namespace) -> int:
    from gleaner_lab import tried
    from gleaner_lab.arrays import model

    words = ["gleaner-lab", "arrays", "model", str(chosen.costs), *map(str, chosen.results)]
    found = model.predictions(model.Costs.read(chosen.costs), tried.read(chosen.results))
    return _present(model.page(found, shlex.join(words)), chosen.out, chosen.markdown)


def _present(page: Page, out: Path | None, markdown: Path | None = None) -> int:
    page.show()
    if out is not None:
        for path in page.write(out):
            print(path)
    if markdown is not None:
        write(markdown, page.markdown())
        print(markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
