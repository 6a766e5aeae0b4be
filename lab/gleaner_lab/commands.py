"""What the commands do, with what they show meanwhile."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table
from ruamel.yaml import YAML

from gleaner_lab import __version__ as VERSION
from gleaner_lab import experiment as experiments
from gleaner_lab import machine, runner, sequential, workload
from gleaner_lab.analysis import Grouped, failures_of, judge, lines_of, status_of
from gleaner_lab.build import build_of, differences, missing, missing_steps
from gleaner_lab.cells import Cell, cells_of
from gleaner_lab.executors import Cluster, Here
from gleaner_lab.experiment import Experiment
from gleaner_lab.failure import Failure, Refused, nearest
from gleaner_lab.heap import (
    GRANULE,
    STOCK,
    EqualPeak,
    Measure,
    Options,
    Sample,
    median_of,
    minimum_heap,
)
from gleaner_lab.schedule import Task
from gleaner_lab.statistics import paired_ratio
from gleaner_lab.store import ResultSet
from gleaner_lab.tree import ROOT
from gleaner_lab.workload import Tools

SCRATCH = ROOT / "target" / "lab" / "scratch"
#: Runs for each setting near the end of a search.
SEARCH_RUNS = 3
MEGABYTE = 1 << 20

console = Console()


def start(
    path: Path,
    out: Path,
    changes: dict[str, Any],
    heaps: Path | None,
    bench: Path | None,
    scheduler: str | None,
    command: str = "",
    budget_s: float | None = None,
) -> int:
    """Runs an experiment into a new result set, with the heap sizes of an earlier one if given."""
    text = changed(path, changes)
    known = None if heaps is None else ResultSet.open(heaps).heaps()
    refuse_misspelt(experiments.parse(text, path), bench, scheduler)
    results = ResultSet.create(out, text)
    with results.locked():
        if known is not None:
            results.note_heaps(known)
        console.print(f"result set: {out}", soft_wrap=True)
        try:
            return _go_on(results, bench, scheduler, command=command, budget_s=budget_s)
        except Failure as failure:
            if not isinstance(failure, Refused) and any(results.records()):
                raise
            if results.heaps() != (known or {}):
                raise Failure(f"{failure}; the heap sizes in {out} go on with --heaps") from failure
            # The corrected command is to find room for its own.
            shutil.rmtree(out)
            raise


def resume(
    path: Path,
    failed: bool,
    bench: Path | None,
    scheduler: str | None,
    budget_s: float | None = None,
) -> int:
    """Goes on with a result set; with `failed`, runs that failed are made again."""
    results = ResultSet.open(path)
    with results.locked():
        command = f"gleaner-lab resume DIR{' --failed' if failed else ''}"
        return _go_on(results, bench, scheduler, failed, command, budget_s)


def refuse_misspelt(
    experiment: Experiment, bench: Path | None, scheduler: str | None = None
) -> None:
    """Asks gleaner-bench about each command before the first one runs.

    A step without its program would fail each run. Those of a cluster are on other machines.
    """
    if scheduler is not None and bench is None:
        return
    tools, anywhere = Tools.find(bench, SCRATCH), experiment.model_copy(update={"pin": None})
    for name, step, program in missing_steps(experiment, tools) if scheduler is None else []:
        raise Failure(
            f"there is no program {program}, with which {step} of {name} begins: install or build "
            f"it, or correct {step}"
        )
    cells = cells_of(experiment)
    commands = [tuple(workload.command_of(one, anywhere, tools, log=False)) for one in cells]
    for command in dict.fromkeys(commands):
        tools.check(command)


def missing_programs(experiment: Experiment, bench: Path | None) -> list[tuple[str, str]]:
    """Workloads whose program is not on this machine, and that program."""
    return missing(experiment, Tools.find(bench, SCRATCH))


#: Fields of an experiment that the command line gives as they are.
CHANGED = (
    *("repetitions", "size", "limit_s", "iteration"),
    *("until", "prepare", "cleanup", "warm_up"),
)


def changed(path: Path, changes: dict[str, Any]) -> str:
    """The text of an experiment with what the command line says instead."""
    experiment = experiments.read(path)
    yaml = YAML()
    document = yaml.load(path.read_text(encoding="utf-8"))
    for name in CHANGED:
        if changes.get(name) is not None:
            document[name] = changes[name]
    if only := changes.get("only"):
        known = [one.name for one in experiment.workloads]
        if unknown := set(only) - set(known):
            raise Failure(
                f"no workload {', '.join(sorted(unknown))} among {', '.join(known)}"
                f"{nearest(min(unknown), known)}"
            )
        kept = [one for one, name in zip(document["workloads"], known, strict=True) if name in only]
        document["workloads"] = kept
        outliers = document.get("statistics", {}).get("outliers", {})
        for name in [name for name in outliers if name not in only]:
            del outliers[name]
        for configuration in document["configurations"].values():
            if lacks := (configuration or {}).get("lacks"):
                configuration["lacks"] = [name for name in lacks if name in only]
        for paper in document.get("papers", []):
            for benchmark, name in list(paper.get("stand_ins", {}).items()):
                if name not in only:
                    del paper["stand_ins"][benchmark]
        document["bars"] = [
            bar for bar in (_of_workloads(one, only) for one in document.get("bars", [])) if bar
        ]
    if wanted := changes.get("configurations"):
        known = list(document["configurations"])
        if unknown := set(wanted) - set(known):
            raise Failure(
                f"no configuration {', '.join(sorted(unknown))} among {', '.join(known)}"
                f"{nearest(min(unknown), known)}"
            )
        _keep_configurations(document, {*wanted, _name_of(experiment.statistics.baseline)})
    if threads := changes.get("threads"):
        known = [str(one) for one in experiment.threads]
        if unknown := [one for one in threads if one not in known]:
            raise Failure(
                f"nothing runs with {unknown[0]} collecting threads: {experiment.name} has"
                f" {' and '.join(known)}"
            )
        document["threads"] = [one for one in experiment.threads if str(one) in threads]
        document["bars"] = [
            bar
            for bar in document.get("bars", [])
            if bar.get("threads") is None or str(bar["threads"]) in threads
        ]
    if multiples := changes.get("multiples"):
        known = [f"{one:g}" for one in experiment.heap.multiples or []]
        kept = [f"{one:g}" for one in multiples]
        if unknown := sorted(set(kept) - set(known)):
            has = " and ".join(known) or "none, since its heaps are no multiples of a minimum"
            raise Failure(
                f"no heaps of {unknown[0]} times the minimum: {experiment.name} has {has}"
            )
        document["heap"]["multiples"] = [one for one in multiples]
    out = StringIO()
    yaml.dump(document, out)
    # What was given on the command line may be wrong, too: find out before anything is written.
    experiments.parse(out.getvalue(), path)
    return out.getvalue()


def _of_workloads(bar: dict[str, Any], only: list[str]) -> dict[str, Any] | None:
    """A bar as far as it is about these workloads, or nothing of it."""
    if "workloads" in bar:
        bar["workloads"] = [name for name in bar["workloads"] if name in only]
        if not bar["workloads"]:
            return None
    return bar


def _name_of(variant: str) -> str:
    """The configuration that a variant is of."""
    return variant.split("+")[0]


def _keep_configurations(document: dict[str, Any], kept: set[str]) -> None:
    """Leaves the other configurations out, and what is about them."""
    for name in [name for name in document["configurations"] if name not in kept]:
        del document["configurations"][name]
    bars = []
    for bar in document.get("bars", []):
        against = [name for name in bar.get("against", []) if _name_of(name) in kept]
        if _name_of(bar["configuration"]) in kept and (against or not bar.get("against")):
            bars.append({**bar, "against": against})
    document["bars"] = bars
    for paper in document.get("papers", []):
        columns = paper.get("columns", {})
        for column, rule in list(columns.items()):
            if _name_of(rule["configuration"]) not in kept:
                del columns[column]


def _go_on(
    results: ResultSet,
    bench: Path | None,
    scheduler: str | None,
    failed: bool = False,
    command: str = "",
    budget_s: float | None = None,
) -> int:
    if scheduler is not None and budget_s is not None:
        raise Failure("--budget: a cluster is given all runs at once; take fewer --repetitions")
    deadline = None if budget_s is None else time.monotonic() + budget_s
    experiment = results.read_experiment()
    log = experiment.statistics.equal is not None or experiment.log
    if scheduler is None:
        SCRATCH.mkdir(parents=True, exist_ok=True)
        tools = Tools.find(bench, SCRATCH)
        facts = machine.describe()
        _is_one_build(results, experiment, tools)
        _is_one_machine(results, facts)
        executor: runner.Executor = Here(experiment, tools, log, results.note_build)
        cells = sized(results, experiment, tools)
    else:
        executor = Cluster(
            scheduler, experiment, str(bench or ""), log, results.note_machine, results.note_build
        )
        cells = sized(results, experiment, None)
    for one in results.warnings():
        console.print(f"[yellow]{escape(one)}[/yellow]", soft_wrap=True, highlight=False)
    results.note_start({"command": command, "commit": machine.commit(ROOT), "lab": VERSION})
    with progress_bar() as bar:
        shown = bar.add_task("starting", total=None)

        def watch(progress: runner.Progress, task: Task) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            bar.update(
                shown,
                total=progress.total,
                completed=progress.finished,
                description=f"{task.cell.workload.name}{failed}",
            )

        made = max((one["round"] + 1 for one in results.records()), default=0)
        for rounds in sequential.looks_of(experiment, made):
            part = experiment.model_copy(update={"repetitions": rounds})
            progress = runner.run(part, cells, results, executor, watch, failed, deadline)
            if progress.is_late or _is_decided(results, experiment):
                break
            failed = False
    if progress.is_late:
        console.print(
            f"stopped, for the time of --budget is over: gleaner-lab resume {results.path} goes on",
            soft_wrap=True,
        )
    from gleaner_lab import report

    page = report.write(results)
    return summarise(results, experiment, page)


def _is_one_machine(results: ResultSet, facts: dict[str, Any]) -> None:
    """Rounds of two machines are not compared: half of a result set would be of no use."""
    now, known = machine.identity(facts), results.machines()
    if known and now not in known:
        before = list(known.values())[-1]
        changed = [
            f"{name}: {before.get(name)}, and now {facts.get(name)}"
            for name in sorted({*before, *facts})
            if before.get(name) != facts.get(name)
        ]
        raise Failure(
            f"{results.path} was measured on {before.get('host', 'another machine')}, and this is "
            f"not the same machine ({'; '.join(changed)}): go on there, or run the experiment anew "
            "here"
        )
    results.note_machine(now, facts)


def _is_decided(results: ResultSet, experiment: Experiment) -> bool:
    """Whether an experiment that may stop early does. The machine's processors do not matter:
    a bar that it has too few for is not decided by more rounds, either."""
    if experiment.until is None:
        return False
    return sequential.is_decided(experiment, judge(results.table(), experiment))


def _is_one_build(results: ResultSet, experiment: Experiment, tools: Tools) -> None:
    """Ratios between two builds would be called ratios between configurations."""
    now = build_of(experiment, tools)
    results.note_build(now.identity, now.files)
    known = results.builds()
    for other in sorted({one["build"] for one in results.records() if "build" in one}):
        if other == now.identity:
            continue
        changed = differences(known[other], now.files) if other in known else ["what it measured"]
        raise Failure(
            f"{results.path} was measured with build {other}, and this is build {now.identity}; "
            f"not the same: {', '.join(changed)}; run the experiment anew, and gleaner-lab compare "
            "the two"
        )


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """How many runs are made, on the terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console) as bar:
        yield bar


def summarise(results: ResultSet, experiment: Experiment, page: Path) -> int:
    """Prints the answers and where the report is; the exit status is `analysis.status_of`."""
    from gleaner_lab import report

    frame = results.table()
    failures = failures_of(frame)
    for _, one in failures.head(10).iterrows():
        console.print(f"[red]{one['key']}[/red]: {one['problem']}", highlight=False, soft_wrap=True)
    if len(failures) > 10:
        console.print(f"... and {len(failures) - 10} more runs failed; the report lists them")
    grouped = Grouped(frame, experiment)
    report.show(console, grouped, results.machines())
    console.print(f"report: {page}", soft_wrap=True)
    return status_of(grouped.judged(results.machines()), len(failures))


# ---- heap sizes ----


def sized(results: ResultSet, experiment: Experiment, tools: Tools | None) -> list[Cell]:
    """The cells with the heap sizes that the experiment asks for, searched for once.

    Without tools nothing is searched for: what the result set lacks is an error.
    """
    cells = list(cells_of(experiment))
    if experiment.heap.mode == "default":
        return cells
    known = results.heaps()
    search = _minimum if experiment.heap.mode == "times-minimum" else _equal
    with progress_bar() as bar:
        shown = bar.add_task("heap sizes", total=len(cells))
        found = []
        for cell in cells:
            bar.update(shown, description=f"heap size: {cell.workload.name}")
            found.append(search(cell, experiment, tools, known))
            results.note_heaps(known)
            bar.advance(shown)
    return found


def _searcher(tools: Tools | None, what: str) -> Tools:
    if tools is None:
        raise Failure(
            f"the {what} is not known, and a cluster does not search for heap sizes: run the "
            "experiment on one machine first, and give its result set with --heaps"
        )
    return tools


def _measure(
    cell: Cell, experiment: Experiment, tools: Tools, problems: list[str] | None = None
) -> Measure:
    """Runs a cell; why runs failed goes to `problems`."""

    def measure(options: Options) -> Sample | None:
        chosen = with_limit(cell, options)
        command = workload.command_of(chosen, experiment, tools, log=False)
        record = workload.run(command, chosen, experiment, tools)
        if "problem" in record:
            if problems is not None:
                problems.append(record["problem"])
            return None
        return Sample(record["values"]["peak_kb"], record["values"]["cpu_s"])

    return measure


def with_limit(cell: Cell, options: Options) -> Cell:
    """The cell under further settings of its heap, in the words of its library."""
    if not options:
        return cell
    if cell.configuration.library == "gleaner":
        return cell.with_options(**options)
    if cell.configuration.library == "stock":
        env = {STOCK[name]: str(value) for name, value in options.items()}
        merged = {**cell.configuration.env, **env}
        return replace(cell, configuration=cell.configuration.model_copy(update={"env": merged}))
    if options.keys() != {"heap-limit"} or not _has_heap(cell):
        raise Failure(
            f"{cell.key}: the lab cannot set the heap of a program that uses neither library; "
            'put "{heap}" in the arguments where its size in MB belongs, in mode times-minimum, or '
            "give heap sizes in its command and set heap.mode to default"
        )
    megabytes = str(-(-options["heap-limit"] // MEGABYTE))
    changed = {
        part: [word.replace("{heap}", megabytes) for word in getattr(cell.configuration, part)]
        for part in ("prefix", "arguments")
    }
    return replace(cell, configuration=cell.configuration.model_copy(update=changed))


def _has_heap(cell: Cell) -> bool:
    """Whether a program that uses neither library is told the size of its heap."""
    words = [*cell.configuration.prefix, *cell.configuration.arguments]
    return any("{heap}" in word for word in words)


#: The least heap of an experiment on tiny inputs, in bytes.
TINY_MINIMUM = 8 << 20


def _minimum(
    cell: Cell, experiment: Experiment, tools: Tools | None, known: dict[str, Any]
) -> Cell:
    key = f"minimum of {cell.workload.name}{cell.threads_shown}"
    if key not in known:
        problems: list[str] = []
        baseline, searcher = _baseline_of(cell, experiment), _searcher(tools, key)
        measure = _measure(baseline, experiment, searcher, problems)
        found = minimum_heap(lambda limit: measure({"heap-limit": limit}) is not None, 64 << 20)
        known[key] = problems[-1] if found is None else found[0]
    if isinstance(known[key], str):
        cause = f"{key}: it does not finish under any limit up to 64 GB: {known[key]}"
        return replace(cell, obstacle=cause)
    if (cell.workload.size or experiment.size) == "tiny":
        # Tiny inputs need hardly any heap: they only show that the experiment can be run.
        known[key] = max(known[key], TINY_MINIMUM)
    if known[key] <= GRANULE:
        return replace(
            cell,
            obstacle=f"{key}: it works under the smallest limit, so something else sizes its heap",
        )
    assert cell.multiple is not None
    return with_limit(cell, {"heap-limit": int(known[key] * cell.multiple)})


def _equal(cell: Cell, experiment: Experiment, tools: Tools | None, known: dict[str, Any]) -> Cell:
    baseline, library = experiment.statistics.baseline, cell.configuration.library
    if cell.variant == baseline or (library == "none" and not _has_heap(cell)):
        return cell
    if cell.key not in known:
        tools = _searcher(tools, f"setting of {cell.key}")
        model = cell.configuration.peak_of or baseline
        wanted_key = f"peak of {cell.group}" + ("" if model == baseline else f" under {model}")
        if wanted_key not in known:
            measure = _measure(_variant_of(cell, experiment, model), experiment, tools)
            samples = [measure({}) for _ in range(SEARCH_RUNS)]
            finished = None not in samples
            known[wanted_key] = median_of(samples).peak_kb if finished else 0
        if known[wanted_key] == 0:
            who = "the baseline" if model == baseline else model
            return replace(cell, obstacle=f"{wanted_key}: {who} does not finish")
        # What was found for another number of threads is often right here, too.
        others = [replace(cell, threads=None if n == "default" else n) for n in experiment.threads]
        search = EqualPeak(
            _measure(cell, experiment, tools),
            known[wanted_key],
            experiment.heap.within,
            SEARCH_RUNS,
            [known[other.key]["options"] for other in others if other.key in known],
            has_divisor=library != "none",
        )
        known[cell.key] = asdict(search.run())
    return with_limit(cell, known[cell.key]["options"])


def _baseline_of(cell: Cell, experiment: Experiment) -> Cell:
    return _variant_of(cell, experiment, experiment.statistics.baseline)


def _variant_of(cell: Cell, experiment: Experiment, name: str) -> Cell:
    return Cell(cell.workload, name, experiment.variants()[name], cell.threads)


def minheap(names: Sequence[str], size: str, start_bytes: int, bench: Path | None) -> int:
    """Prints the smallest heap limit under which each program works."""
    document = {
        "name": "minheap",
        "title": "",
        "question": "",
        "size": size,
        "workloads": list(names),
        "configurations": {"gleaner": {}},
        "statistics": {"baseline": "gleaner"},
    }
    experiment = experiments.check(document, Path("minheap"))
    refuse_misspelt(experiment, bench)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    tools = Tools.find(bench, SCRATCH)
    table = Table("workload", "minimum heap, MB", "runs")
    missing = 0
    for cell in cells_of(experiment):
        if cell.control:
            continue
        name, measure = cell.workload.name, _measure(cell, experiment, tools)
        works = lambda limit, measure=measure: measure({"heap-limit": limit}) is not None  # noqa: E731
        with console.status(f"searching for the minimum heap of {name}"):
            found = minimum_heap(works, start_bytes)
        missing += found is None
        row = (
            ("it does not finish", "")
            if found is None
            else (f"{found[0] / 2**20:.2f}", str(found[1]))
        )
        table.add_row(name, *row)
    console.print(table)
    return int(missing > 0)


# ---- two result sets ----


def compare(before: Path, after: Path) -> int:
    """Prints how each cell changed from one result set to another."""
    from gleaner_lab import report

    sets = [ResultSet.open(path) for path in (before, after)]
    one, other = (results.read_experiment() for results in sets)
    if one.statistics.metric != other.statistics.metric:
        raise Failure(
            f"{before} measures {one.statistics.metric}, {after} {other.statistics.metric}"
        )
    lines = [
        {(line.machine, line.group, line.variant, line.control): line for line in found}
        for found in (lines_of(sets[0].table(), one), lines_of(sets[1].table(), other))
    ]
    shared = [key for key in lines[0] if key in lines[1]]
    if not shared:
        raise Failure(
            f"{before} and {after} share no cell of the same machine: nothing can be compared"
        )
    table = Table("cell", "before", "after", "after / before")
    for key in shared:
        first, second = lines[0][key], lines[1][key]
        rounds = sorted(first.values.keys() & second.values.keys())
        ratio = paired_ratio(
            [second.values[number] for number in rounds],
            [first.values[number] for number in rounds],
            one.statistics.confidence,
        )
        table.add_row(
            f"{key[1]}: {key[2]}{' again' if key[3] else ''}",
            f"{first.mean.value:.4g}",
            f"{second.mean.value:.4g}",
            report.estimate(ratio),
        )
    console.print(table)
    console.print(
        "The result sets were not made in the same rounds: drift between them counts as change."
    )
    return 0
