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
from gleaner_lab.advise.race import CERTAINTY, LEAST, Race, Rules, Standing, Trials
from gleaner_lab.advise.runtime import Program
from gleaner_lab.advise.space import DEFAULT, REFERENCE, Cell, Machine
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
        figures={"advice": _plot(standings)},
        command=shlex.join(
            ["gleaner-lab", "advise", *_asked(whole, race, check), "--", *whole.program.words]
        ),
        label="measured",
    )


def _asked(whole: Advisor, race: Race, check: Check | None) -> list[str]:
    """What the command line said, as far as it makes other runs."""
    wishes, rules, usual = whole.wishes, race.rules, Rules()
    goals = {figure: name for name, figure in GOALS.items()}
    said = [("goal", goals[one]) for one in rules.goals if rules.goals != tuple(goals)]
    if whole.program.is_told:
        said.append(("runtime", whole.program.kind))
    said += [("placement", one or DEFAULT) for one in wishes.placements or []]
    lists = (("collector", wishes.collectors), ("threads", wishes.threads), ("heap", wishes.heaps))
    for name, levels in lists:
        if levels:
            said.append((name, ",".join(str(one or DEFAULT) for one in levels)))
    if rules.budget:
        said.append(("budget", rules.budget))
    if rules.margin != usual.margin:
        said.append(("margin", f"{rules.margin * 100:g}"))
    if rules.seed != usual.seed:
        said.append(("seed", rules.seed))
    if check or rules.repetitions != usual.repetitions:
        said.append(("repetitions", rules.repetitions))
    if check and (rounds := len({number for _, number, _ in check.duel})):
        said.append(("rounds", rounds))
    asked = [word for name, value in said for word in (f"--{name}", str(value))]
    return [*asked, "--check"] if check else asked


def show(whole: Page, verdicts: Sequence[str] = ()) -> None:
    """The page on the terminal, as text: a command is to be copied in one piece."""
    for note in whole.notes:
        if note not in verdicts:
            print(f"- {note}")
    tables = {table.name: table for table in whole.tables}
    commands = dict(tables["paste"].rows)
    for goal, placement, collectors, heap, takes, ratio_, sure in tables["answer"].rows:
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
        best = one.best
        unit, scale = UNITS[one.goal]
        value = middle(race, one.goal, best)
        rows.append(
            [
                NAMES[one.goal],
                best.placement or DEFAULT,
                f"{best.collector} {best.threads or DEFAULT}".strip(),
                best.heap or DEFAULT,
                f"{'at most ' if value <= LEAST else ''}{scale * value:.3g} {unit}",
                _relative(one, best),
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


def _relative(one: Standing, best: Cell) -> str:
    if best == REFERENCE:
        return "the program as it is"
    return f"{ratio(one, best, REFERENCE)} of the program as it is"


def _sureness(race: Race, one: Standing) -> str:
    trials = race.trials()[one.best]
    runs = trials.worked + trials.failed
    failed = f" ({trials.failed} failed)" if trials.failed else ""
    return (
        f"{_share(one.sureness)} that no cell is more than {race.rules.margin:.1%} better; "
        f"{CERTAINTY:.0%} that none is more than {one.regret:.1%}; {runs} runs of it{failed}, "
        f"{len(one.alive) - 1} other cells may be better"
    )


def _share(value: float) -> str:
    return "more than 99 %" if value > 0.99 else f"{100 * value:.0f} %"


def _paste(standings: Sequence[Standing], program: Program) -> Table:
    rows = [[NAMES[one.goal], program.shown(one.best)] for one in standings]
    return Table("paste", "To paste", ["best for", "command"], rows)


def _idle(race: Race, standings: Sequence[Standing], machine: Machine) -> Table:
    caption = f"What it costs to leave {machine.idle} idle"
    head = ["of", "best there:", "ratio to the best of all:"]
    rows = []
    for one in standings:
        means = zip(one.posterior.cells, one.posterior.means, strict=True)
        inside = [(mean, cell) for cell, mean in means if machine.half == cell.placement != ""]
        if inside:
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
        ratios = [ratio(one, cell, one.best) if cell in working else "" for one in standings]
        rows.append([cell.key, str(tried.worked + tried.failed), *ratios, problem])
    return Table("cells", "All cells, by the model", head, rows)


def ratio(one: Standing, cell: Cell, other: Cell) -> str:
    """A ratio of two cells with its interval."""
    if other not in one.posterior.cells:
        return "unknown"
    value, low, high = one.posterior.ratio(cell, other)
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def middle(race: Race, goal: str, cell: Cell) -> float:
    """The median of the runs."""
    return float(np.median([math.exp(value) for one, _, value in race.runs(goal) if one == cell]))


def _notes(whole: Advisor, race: Race, standings: Sequence[Standing], why: str) -> list[str]:
    count = len(whole.machine.sockets)
    where = f"{len(whole.machine.processors)} processors on {count} socket"
    names = [one["processor"] for one in whole.results.machines().values()]
    where += f"{'s' if count > 1 else ''} ({', '.join(names)})"
    tried = len({cell for cell, _, _ in race.made})
    noise = ", ".join(f"{one.posterior.noise:.1%} of {NAMES[one.goal]}" for one in standings)
    found = [
        f"{len(race.cells)} cells on {where}; {race.spent} runs of {tried} of them, of "
        f"{race.budget} allowed. One run scatters by {noise}.",
        why or _why(race, standings),
    ]
    if any(one.goal == "wall_s" and one.posterior.noise > RESTLESS for one in standings):
        found.append(
            "The machine is restless, or the program is: what is pinned to a processor that others "
            "use waits for them. Ask again on a quiet machine, or trust core-seconds."
        )
    if count == 1:
        found.append(
            "One socket: threads cannot be isolated on another one, and leaving a socket idle "
            "cannot be measured; placements set cores apart."
        )
    if whole.program.kind == "libgc":
        found.append("The program as it is: on Gleaner's libgc with its defaults.")
    if missing := [name for name, figure in GOALS.items() if figure not in race.goals()]:
        wanted = [name for name in missing if GOALS[name] in race.rules.goals]
        if wanted:
            found.append(f"Not measured here: {', '.join(wanted)}.")
    return [*found, *_failures(race)]


def _failures(race: Race) -> list[str]:
    """How often runs failed, and what that did."""
    failed, found = race.failed, []
    if failed:
        cell, problem = next(iter(failed.items()))
        reason = " ".join(problem.split())
        found.append(f"{len(failed)} cells failed and are out, the first: {cell.key}: {reason}")
    if given_up := race.given_up:
        reasons = sorted(set(given_up.values()))
        found.append(f"{len(given_up)} more are not run further: {'; '.join(reasons)}")
    now_and_then = [
        (cell, one) for cell, one in race.trials().items() if one.failed and cell not in failed
    ]
    if now_and_then:
        cell, one = max(now_and_then, key=lambda it: it[1].failed)
        found.append(
            f"Runs of {len(now_and_then)} other cells failed, too rarely to be out, most often of "
            f"{cell.key}: {' '.join(one.shown.split())}"
        )
    return found


def _why(race: Race, standings: Sequence[Standing]) -> str:
    if all(one.is_settled for one in standings):
        return "It ended because more runs would hardly change the answer."
    unsettled = ", ".join(NAMES[one.goal] for one in standings if not one.is_settled)
    return f"It ended because the budget was spent; not settled: {unsettled}. --budget N goes on."


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
        axes.errorbar(values[:, 0], range(count), xerr=errors, fmt="o", capsize=3)
        axes.set_yticks(range(count), [cell.key for cell in cells], fontsize=7)
        axes.set_xlabel(f"{NAMES[one.goal]}, of the best")
        axes.axvline(1, linewidth=0.8, color="grey")
    figure.tight_layout()
    return figure
