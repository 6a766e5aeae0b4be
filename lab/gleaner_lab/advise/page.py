"""The answer on one page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from gleaner_lab.advise.advisor import GOALS, Advisor
from gleaner_lab.advise.check import NAMES, Check
from gleaner_lab.advise.race import CERTAINTY, LEAST, Race, Standing, Trials
from gleaner_lab.advise.runtime import Program
from gleaner_lab.advise.space import DEFAULT, INSTALLED, REFERENCE, Cell, Machine
from gleaner_lab.report.modelled import Page, Table

#: What a figure is in, and by how much it is multiplied for that.
UNITS = {
    "wall_s": ("s", 1),
    "cpu_s": ("s", 1),
    "longest_pause_s": ("ms", 1e3),
    "energy_j": ("J", 1),
}
#: From this scatter of one run's time on, the answer says that the machine is not quiet.
RESTLESS = 0.1
#: From which probability on the answer is called how sure.
WORDS = ((CERTAINTY, "very"), (0.75, "fairly"), (0.5, "not very"), (0.0, "hardly"))
#: A run of fewer seconds is mostly the program's start.
SHORT = 0.1
#: With so few repeated runs, the answer says how many tell how far one scatters.
FEW = 5
#: What is named best where no cell ran twice.
NOTHING = "nothing is named yet"
#: Cells in the plot of a goal.
SHOWN = 15


def page(
    whole: Advisor,
    race: Race,
    standings: Sequence[Standing],
    check: Check | None = None,
    why: str = "",
) -> Page:
    """What to take for each goal, what it saves, how sure that is, and what to paste."""
    known = [one for one in standings if one.is_known]
    tables = [
        _answer(race, standings),
        _paste(standings, whole.program),
        _idle(race, standings, whole.machine),
        *(check.tables(race) if check else []),
        _cells(race, standings),
    ]
    words = shlex.join(whole.program.words)
    return Page(
        name="advice",
        title=f"Advice for {words}",
        notes=[*_notes(whole, race, standings, why), *(check.verdicts(race) if check else [])],
        tables=tables,
        figures={"advice": _plot(known)} if known else {},
        command=whole.command,
        label="measured",
    )


def show(whole: Page, verdicts: Sequence[str] = ()) -> None:
    """The page on the terminal, as text: a command is to be copied in one piece."""
    for note in whole.notes:
        if note not in verdicts:
            print(f"- {note}")
    tables = {table.name: table for table in whole.tables}
    commands = dict(tables["paste"].rows)
    for goal, placement, collectors, heap, takes, ratio_, sure in tables["answer"].rows:
        if goal not in commands:
            print(f"\nbest for {goal}: {placement}\n    {sure}")
            continue
        print(f"\nbest for {goal}: {takes}, {ratio_}")
        print(f"    placement {placement}, collector threads {collectors}, heap {heap}")
        print(f"    sure: {sure}")
        print(f"    {commands[goal]}")
    for name in ("idle", "check", "duel"):
        if name in tables:
            print(f"\n{tables[name].caption}:")
            for row in tables[name].rows:
                named = zip(tables[name].head, row, strict=True)
                print("    " + "; ".join(f"{head} {value}" for head, value in named))
    for verdict in verdicts:
        print(f"\n{verdict}")


def _answer(race: Race, standings: Sequence[Standing]) -> Table:
    rows = []
    for one in standings:
        if not one.is_known:
            rows.append([NAMES[one.goal], NOTHING, *[""] * 4, _sureness(race, one)])
            continue
        best = one.best
        unit, scale = UNITS[one.goal]
        value = middle(race, one.goal, best)
        rows.append(
            [
                NAMES[one.goal],
                best.placement or DEFAULT,
                f"{best.collector} {best.threads or DEFAULT}".strip(),
                best.heap or DEFAULT,
                f"{'at most ' if is_least(value) else ''}{scale * value:.3g} {unit}",
                _relative(race, one),
                _sureness(race, one),
            ]
        )
    head = [
        "best for",
        "placement",
        "collector threads",
        "heap",
        "takes",
        "ratio",
    ]
    return Table("answer", "What to take", [*head, "how sure"], rows)


def _relative(race: Race, one: Standing) -> str:
    if one.best == REFERENCE:
        return "the program as it is"
    once = [cell for cell in (one.best, REFERENCE) if worked(race, cell) < 2]
    if not once:
        _, low, high = one.posterior.ratio(one.best, REFERENCE)
        doubt = ", and may be no better" if low <= 1 <= high else ""
        return f"{ratio(one, one.best, REFERENCE)} of the program as it is{doubt}"
    if REFERENCE not in one.posterior.cells:
        return "the program as it is failed, and is out"
    value, _, _ = one.posterior.ratio(one.best, REFERENCE)
    return f"{value:.3f} of the program as it is, with no interval: that needs two runs of both"


def worked(race: Race, cell: Cell) -> int:
    """How many runs of a cell worked."""
    return race.trials().get(cell, Trials()).worked


def _sureness(race: Race, one: Standing) -> str:
    """In words and in numbers, and what makes it surer."""
    trials = race.trials()[one.best]
    failed = f" ({trials.failed} failed)" if trials.failed else ""
    surer = "" if one.is_settled else f"; {_remedy(race)} makes it surer"
    if not one.is_known:
        return f"no cell ran twice, and one run may have been lucky{surer}"
    word = next(word for least, word in WORDS if one.sureness >= least)
    bound = f"{CERTAINTY:.0%} that none is more than {one.regret:.1%}"
    if one.regret >= 1:
        bound = "one may be twice as good"
    return (
        f"{word}: {_share(one.sureness)} that no cell is more than {race.rules.margin:.1%} "
        f"better; {bound}; {trials.worked + trials.failed} runs of it{failed}, "
        f"{one.others} other {'cell' if one.others == 1 else 'cells'} may be better{surer}"
    )


def _remedy(race: Race) -> str:
    return "going on" if race.spent < race.budget else f"--budget {race.more}"


def _share(value: float) -> str:
    return "more than 99 %" if value > 0.99 else f"{100 * value:.0f} %"


def _paste(standings: Sequence[Standing], program: Program) -> Table:
    rows = [[NAMES[one.goal], program.shown(one.best)] for one in standings if one.is_known]
    return Table("paste", "To paste", ["best for", "command"], rows)


def _idle(race: Race, standings: Sequence[Standing], machine: Machine) -> Table:
    caption = f"What it costs to leave {machine.idle} idle"
    head = ["of", "best there:", "ratio to the best of all:"]
    rows = []
    for one in standings:
        means = zip(one.posterior.cells, one.posterior.means, strict=True)
        inside = [(mean, cell) for cell, mean in means if machine.half == cell.placement != ""]
        if inside and one.is_known:
            cell = min(inside)[1]
            cost = "the best of all is there" if one.best.placement == machine.half else ""
            rows.append([NAMES[one.goal], cell.key, cost or ratio(one, cell, one.best)])
    if not rows:
        rows = [["all goals", "no cell leaves any idle", "unknown"]]
    return Table("idle", caption, head, rows)


def _cells(race: Race, standings: Sequence[Standing]) -> Table:
    head = ["cell", "runs", *(f"{NAMES[one.goal]}, of the best" for one in standings), "problem"]
    rows = []
    trials, given_up, working = race.trials(), race.given_up, set(race.working)
    for cell in race.cells:
        tried = trials.get(cell, Trials())
        problem = "; ".join(filter(None, (tried.shown, given_up.get(cell, ""))))
        ratios = [
            ratio(one, cell, one.best) if cell in working and one.is_known else ""
            for one in standings
        ]
        rows.append([cell.key, str(tried.worked + tried.failed), *ratios, problem])
    return Table("cells", "All cells, by the model", head, rows)


def ratio(one: Standing, cell: Cell, other: Cell) -> str:
    """A ratio of two cells with its interval."""
    if other not in one.posterior.cells:
        return "unknown"
    value, low, high = one.posterior.ratio(cell, other)
    interval = f" [{low:.3f}, {high:.3f}]" if one.posterior.repeats else ", with no interval"
    return f"{value:.3f}{interval}"


def middle(race: Race, goal: str, cell: Cell) -> float:
    """The median of the runs."""
    return float(np.median([math.exp(value) for one, _, value in race.runs(goal) if one == cell]))


def is_least(value: float) -> bool:
    """Whether a figure is too small to be told from nothing."""
    return value <= LEAST * 1.001


def _notes(whole: Advisor, race: Race, standings: Sequence[Standing], why: str) -> list[str]:
    count = len(whole.machine.sockets)
    where = f"{len(whole.machine.processors)} processors on {count} socket"
    names = [one["processor"] for one in whole.results.machines().values()]
    where += f"{'s' if count > 1 else ''} ({', '.join(names)})"
    tried = len({cell for cell, _, _ in race.made})
    found = [
        f"{len(race.cells)} cells on {where}; {race.spent} runs of {tried} of them, of "
        f"{race.budget} allowed. {_scatter(standings)}",
        why or _why(race, standings),
    ]
    restless = [one.posterior for one in standings if one.goal == "wall_s"]
    if any(one.repeats and one.noise > RESTLESS for one in restless):
        found.append(
            "The machine is restless, or the program is: what is pinned to a processor that others "
            "use waits for them. Ask again on a quiet machine, or trust core-seconds."
        )
    if (takes := middle(race, "wall_s", standings[0].best)) < SHORT:
        found.append(
            f"A run takes {takes:.2g} s: to start the program, and the machine's own noise, weigh "
            "more than how it collects. Take a larger input."
        )
    if whole.program.kind != "java" and not any(_paused(race)):
        found.append(
            "No run stopped to collect: what the heap and the collector threads are told changes "
            "nothing here. Take a larger input, or say with --runtime what runs it."
        )
    if count == 1:
        found.append(
            "One socket: threads cannot be isolated on another one, and leaving a socket idle "
            "cannot be measured; placements set cores apart."
        )
    if whole.program.kind == "libgc":
        found.append(_of_libgc(standings))
    if missing := [name for name, figure in GOALS.items() if figure not in race.goals()]:
        wanted = [name for name in missing if GOALS[name] in race.rules.goals]
        if wanted:
            found.append(f"Not measured here: {', '.join(wanted)}.")
    return [*found, *_decided(race), *_failures(race)]


def _of_libgc(standings: Sequence[Standing]) -> str:
    """What the program as it is stands for, and how the installed libgc compares with it."""
    text = "The program as it is: on Gleaner's libgc with its defaults."
    stock = Cell(collector=INSTALLED)
    found = [
        f"{NAMES[one.goal]} {ratio(one, stock, REFERENCE)}"
        for one in standings
        if stock in one.posterior.cells and one.is_known
    ]
    if not found:
        return text
    return f"{text} On the installed libgc ({INSTALLED}) it takes, of that: {', '.join(found)}."


def _decided(race: Race) -> list[str]:
    """Placements under which a JVM decided otherwise than without them."""
    runs = [(cell, one["decided"]) for cell, _, one in race.made if one.get("decided")]
    usual = {}
    for cell, decided in runs:
        if not cell.placement:
            usual.setdefault((cell.collector, cell.threads), decided)
    changed = {}
    for cell, decided in runs:
        before = usual.get((cell.collector, cell.threads), decided)
        if decided != before:
            changed.setdefault(cell.placement, (decided, before))
    return [
        f"Under the placement {placement} the JVM itself decided otherwise: {decided}, in place of "
        f"{before}. What such cells gain or lose is not the placement's alone."
        for placement, (decided, before) in sorted(changed.items())
    ]


def _paused(race: Race) -> list[bool]:
    """Which of the runs that worked had a pause."""
    values = [one["values"] for _, _, one in race.made if "values" in one]
    return [one.get("total_pause_s", 0) > 0 for one in values]


def _scatter(standings: Sequence[Standing]) -> str:
    """How far one run is off, as far as runs that repeat a cell tell."""
    repeats = min(one.posterior.repeats for one in standings)
    if not repeats:
        return "How far one run scatters is not known: no cell ran twice."
    noise = ", ".join(f"{one.posterior.noise:.1%} of {NAMES[one.goal]}" for one in standings)
    few = f", as far as {repeats} repeated {'run' if repeats == 1 else 'runs'} can tell"
    return f"One run scatters by {noise}{few if repeats < FEW else ''}."


def _failures(race: Race) -> list[str]:
    """How often runs failed, and what that did."""
    failed, found = race.failed, []
    if failed:
        cell, problem = next(iter(failed.items()))
        reason = " ".join(problem.split())
        count = "1 cell is" if len(failed) == 1 else f"{len(failed)} cells are"
        found.append(f"{count} out, for runs failed, the first: {cell.key}: {reason}")
    if given_up := race.given_up:
        reasons = sorted(set(given_up.values()))
        found.append(f"{len(given_up)} more are not run further: {'; '.join(reasons)}")
    now_and_then = [
        (cell, one) for cell, one in race.trials().items() if one.failed and cell not in failed
    ]
    if (own := race.trials().get(REFERENCE, Trials())).failed:
        found.append(
            f"The program as it is failed in {own.failed} of its {own.failed + own.worked} runs: "
            "mend that first, for cells that fail may not be to blame."
        )
    if now_and_then:
        cell, one = max(now_and_then, key=lambda it: it[1].failed)
        found.append(
            f"Runs that failed too rarely to put a cell out: of {len(now_and_then)} of the others, "
            f"most often of {cell.key}: {' '.join(one.shown.split())}"
        )
    return found


def _why(race: Race, standings: Sequence[Standing]) -> str:
    if all(one.is_settled for one in standings):
        return "It ended because more runs would hardly change the answer."
    unsettled = ", ".join(NAMES[one.goal] for one in standings if not one.is_settled)
    return (
        f"It ended because the budget was spent; not settled: {unsettled}. "
        f"--budget {race.more} goes on."
    )


def _plot(standings: Sequence[Standing]) -> Figure:
    """The best cells of each goal with their intervals."""
    count = min(SHOWN, len(standings[0].posterior.cells))
    size = (9, len(standings) * (0.3 * count + 0.8))
    figure, rows = plt.subplots(len(standings), figsize=size, squeeze=False)
    for axes, one in zip(rows[:, 0], standings, strict=True):
        order = np.argsort(one.posterior.means)[:count][::-1]
        cells = [one.posterior.cells[index] for index in order]
        values = np.asarray([one.posterior.ratio(cell, one.best) for cell in cells])
        errors = np.abs(values[:, 1:].T - values[:, 0])
        # What is not known has no bar.
        errors[~np.isfinite(errors)] = 0
        axes.errorbar(values[:, 0], range(count), xerr=errors, fmt="o", capsize=3)
        axes.set_yticks(range(count), [cell.key for cell in cells], fontsize=7)
        axes.set_xlabel(f"{NAMES[one.goal]}, of the best")
        axes.axvline(1, linewidth=0.8, color="grey")
    figure.tight_layout()
    return figure
