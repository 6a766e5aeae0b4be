"""What the model of a NUMA machine predicts, as a page, as files and on the terminal.

Every table's caption, every plot and every row of a CSV file says that it is modelled, or that it
was counted.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Column
from rich.table import Table as Shown

from gleaner_lab import papers
from gleaner_lab.numa import MODELLED, placement
from gleaner_lab.numa.collection import CollectionTime, Costs, Run
from gleaner_lab.numa.hardware import LINE, Machine
from gleaner_lab.numa.locality import KINDS, PAGES, imbalance
from gleaner_lab.numa.parameters import PARAMETERS
from gleaner_lab.numa.placement import Curve, Placement
from gleaner_lab.numa.sockets import MACHINE, REREAD, Sockets, Time
from gleaner_lab.report import figures
from gleaner_lab.report.page import template
from gleaner_lab.written import named, write

#: Instead of a figure where nothing was counted.
NOTHING = "none counted"
#: What is compared with all threads on one socket, and which of its times.
PLACED = (Sockets.ISOLATED, Sockets.DIVIDED)
PARTS = {
    "application": lambda time: time.application_s,
    "collections": lambda time: time.collecting_s,
    "run": lambda time: time.run_s,
}
#: The paper: isolated collectors cost no more than this for most programs.
MOST_LOSS = 1.17


@dataclass(frozen=True)
class Table:
    """Rows of text under a caption, which says where the figures are from."""

    name: str
    caption: str
    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Page:
    """All that is shown of one prediction."""

    name: str
    title: str
    notes: list[str]
    tables: list[Table]
    #: By the names of their files.
    figures: dict[str, Figure]
    command: str
    label: str = MODELLED

    def markdown(self) -> str:
        """The tables, for a page of documentation."""
        return template("modelled.md.j2", escape=False).render(page=self)

    def show(self) -> None:
        """Prints the tables."""
        console = Console()
        for one in self.tables:
            columns = [Column(head, overflow="fold") for head in one.head]
            shown = Shown(*columns, title=one.caption, title_justify="left")
            for row in one.rows:
                shown.add_row(*row)
            console.print(shown)

    def write(self, out: Path) -> list[Path]:
        """Writes the page, its plots as SVG and PNG, and each table as CSV; returns the files."""
        out.mkdir(parents=True, exist_ok=True)
        drawings = {name: figures.svg(figure) for name, figure in self.figures.items()}
        page = out / f"{self.name}.html"
        text = template("modelled.html.j2", escape=True).render(page=self, drawings=drawings)
        write(page, text)
        found = [page]
        for name, drawing in drawings.items():
            plain, image = (out / f"{name}.{end}" for end in ("svg", "png"))
            write(plain, drawing)
            figures.save_png(self.figures[name], str(image))
            plt.close(self.figures[name])
            found += [plain, image]
        return [*found, *(self._csv(out, table) for table in self.tables)]

    def _csv(self, out: Path, table: Table) -> Path:
        path = out / f"{self.name}-{table.name}.csv"
        with named(path), path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*table.head, "source"])
            writer.writerows([*row, table.caption] for row in table.rows)
        return path


def figure_3(machine: Machine, command: str) -> Page:
    """Figure 3 of the ASPLOS 2013 paper on the modelled machine."""
    curves = placement.curves(machine)
    return Page(
        "figure-3",
        "Influence of the memory placement: Figure 3 of ASPLOS 2013",
        [
            "No machine was measured. Threads, spread round robin over the nodes, read a fixed "
            "number of cache lines together from buffers that are placed in four ways. Speedup is "
            "over one thread of the same placement; the last thread to end counts.",
            "Bound: the asymptotic bound of a closed queueing network. With queues: mean value "
            "analysis with exponential service times, which rounds the knees off. A curve stops "
            "improving where no greater number of threads that loads all nodes alike is faster by "
            f"more than {placement.GAIN:.0%}.",
            "The paper's knees are those of the bound: with exponential service times its curves "
            "would still rise at 48 threads.",
            "Not shown: caches, open memory pages, coherence traffic as such, the scheduler.",
        ],
        [_statements(curves), _stops(curves), _speedups(curves), parameters(machine)],
        {"figure-3": figures.speedups(list(curves.values()))},
        command,
    )


def _statements(curves: dict[Placement, Curve]) -> Table:
    rows = [[one.paper, one.ours, one.verdict] for one in placement.statements(curves)]
    caption = f"What the paper says of Figure 3 ({MODELLED})"
    return Table("statements", caption, ["the paper", "the model", "verdict"], rows)


def _stops(curves: dict[Placement, Curve]) -> Table:
    rows = []
    for curve in curves.values():
        said = placement.STOPS.get(curve.placement)
        rows.append(
            [
                str(curve.placement),
                "not said" if said is None else str(said[0]),
                str(curve.stops),
                str(curve.queued_stops),
                curve.times[-1].limit,
            ]
        )
    head = ["placement", "the paper", "bound", "with queues", f"limit at {curve.threads[-1]}"]
    return Table("stops", f"Threads at which a curve stops improving ({MODELLED})", head, rows)


def _speedups(curves: dict[Placement, Curve]) -> Table:
    found = list(curves.values())
    shown = sorted({threads for curve in found for threads in curve.judged if threads != 1} | {1})
    shown = [threads for threads in shown if threads <= 8 or threads % 8 == 0]
    rows = [
        [str(threads)]
        + [f"{one.speedup(threads):.2f} ({one.queued_speedup(threads):.2f})" for one in found]
        for threads in shown
    ]
    caption = f"Speedup over one thread: bound, and with queues in parentheses ({MODELLED})"
    return Table("speedup", caption, ["threads", *(str(one.placement) for one in found)], rows)


def parameters(machine: Machine, origin: str = "fitted") -> Table:
    """The machine that is modelled; `origin` says where the capacities of its stations are from."""
    rate = lambda time: f"{time:.3g} ns, {LINE / time:.3g} GB/s" if time else "0 ns"  # noqa: E731
    widths = sorted({link.width for link in machine.links})
    rows = [
        ["nodes x processors", f"{machine.nodes} x {machine.cores}"],
        ["links", f"{len(machine.links)}, at most {machine.hops.max():.0f} hops"],
        ["relative widths of links", ", ".join(f"{width:g}" for width in widths) or "none"],
        [f"a worker alone, a local line in order ({origin})", rate(machine.local_ns)],
        ["each hop adds (assumed)", f"{machine.hop_ns:.3g} ns"],
        [f"a controller, a line ({origin})", rate(machine.controller_ns)],
        [f"a link of width 1, a line in one direction ({origin})", rate(machine.link_ns)],
        ["lines in flight of a worker that reads in order", f"{machine.in_flight:.3g}"],
    ]
    return Table("parameters", f"The machine ({MODELLED})", ["parameter", "value"], rows)


def intervals() -> Table:
    """The parameters of the paper's machine and of collecting."""
    rows = [
        [one.words, f"{one.low:g}", f"{one.high:g}", one.unit, f"{one.middle:.4g}", one.source]
        for one in PARAMETERS
    ]
    head = ["parameter", "from", "to", "unit", "middle", "why"]
    return Table("intervals", f"What the model assumes ({MODELLED})", head, rows)


def collection(
    run: Run, times: list[CollectionTime], machine: Machine, costs: Costs, command: str
) -> Page:
    """Mean time of a collection against collecting threads, with what the run counted."""
    return Page(
        "collection",
        "Collection time against collecting threads",
        [
            f"Of a run with {run.locality.workers} collecting threads on {run.locality.nodes} "
            "nodes the accesses and the synchronisation events were counted; the times are "
            "computed for another machine from these counts. No time was measured on it. Counts "
            "for other numbers of threads are scaled from this run's.",
        ],
        [
            _times(times),
            _locality(run),
            printed("naps-table-4"),
            _costs(costs),
            parameters(machine),
        ],
        {"collection": figures.collection_times(times)},
        command,
    )


def _times(times: list[CollectionTime]) -> Table:
    rows = [
        [
            str(one.threads),
            *(
                f"{seconds / one.collections * 1e3:.4g}"
                for seconds in (one.bound_s, one.queued_s, one.synchronisation_s)
            ),
            one.limit,
        ]
        for one in times
    ]
    head = ["threads", "bound, ms", "with queues, ms", "of it synchronisation, ms", "limit"]
    return Table("times", f"Mean time of a collection ({MODELLED})", head, rows)


def _locality(run: Run) -> Table:
    counted = run.locality
    rows = [
        [kind, _figure(counted.imbalance(kind)), _figure(counted.non_locality(kind))]
        for kind in KINDS
    ]
    rows += [
        [space.replace("_", " "), _figure(imbalance(counted.pages[space])), ""]
        for space in PAGES
        if space in counted.pages
    ]
    head = ["what", "imbalance", "non-locality"]
    return Table("locality", "Imbalance and non-locality of the run (counted)", head, rows)


def _figure(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.2f}"


def sockets(found: Mapping[str, Sequence[Mapping[Sockets, Time]]], command: str) -> Page:
    """What placing threads on two sockets costs, by workload: a mapping a round."""
    head = [
        "workload",
        "collecting, of all",
        *(f"{one}: {part}" for one in PLACED for part in PARTS),
    ]
    rows, worst = [], 0.0
    for workload, rounds in found.items():
        base = [time[Sockets.ONE] for time in rounds]
        row = [workload, f"{median(one.collecting_s / one.run_s for one in base):.0%}"]
        for placed in PLACED:
            for part in PARTS.values():
                ratios = [part(time[placed]) / part(time[Sockets.ONE]) for time in rounds]
                row.append(f"{median(ratios):.3f}")
        rows.append(row)
        isolated = [time[Sockets.ISOLATED].run_s / time[Sockets.ONE].run_s for time in rounds]
        worst = max(worst, median(isolated))
    within = "agrees" if worst <= MOST_LOSS else "does not agree"
    return Page(
        "placement-modelled",
        "Where threads run, on two sockets",
        [
            "No machine with two sockets was measured. What collectors scanned, copied and updated "
            "was counted here, with a topology of two nodes; the times are computed from these "
            "counts for the machine below, with four application and four collecting threads.",
            "Each figure is a time over that with all threads on one socket; all by the bound of "
            "a closed queueing network, without caches. What survives is taken to be read "
            f"{REREAD:g} time a collection by the application, and to be copied out of eden each "
            "time, which overestimates what isolation costs.",
            f"The paper measured at most 17 % for collectors on another socket (finding 2); the "
            f"model's greatest loss is {worst - 1:.1%}, which {within}. That avrora gains, by "
            "twice the cache, is nothing that a model without caches can show.",
        ],
        [
            Table("ratios", f"Times over those with all on one socket ({MODELLED})", head, rows),
            parameters(MACHINE, "assumed"),
        ],
        {},
        command,
    )


def printed(name: str) -> Table:
    """A table of a paper as it is printed."""
    table = papers.read(name)
    rows = [[str(cell) for cell in row] for row in table.rows.itertuples(index=False)]
    head = [str(column).replace("_", " ") for column in table.rows.columns]
    return Table("paper-" + name, f"{table.caption} (the paper's own figures)", head, rows)


def _costs(costs: Costs) -> Table:
    rows = [[name.replace("_", " "), f"{value:.4g}"] for name, value in asdict(costs).items()]
    return Table("costs", f"What the counted things cost ({MODELLED})", ["cost", "value"], rows)
