"""The cells of an experiment: workload x configuration x threads x heap size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gleaner_lab.experiment import Configuration, Experiment, Workload


@dataclass(frozen=True)
class Cell:
    """What is run again and again."""

    workload: Workload
    variant: str
    configuration: Configuration
    #: How many threads collect; None leaves it to the library.
    threads: int | None
    #: The heap limit in multiples of the workload's minimum; None where no limit is set.
    multiple: float | None = None
    #: The baseline a second time: what differs between the two is noise (A/A).
    control: bool = False
    #: Why it cannot be run: then each of its runs fails with this.
    obstacle: str | None = None

    @property
    def group(self) -> str:
        """Cells of one group are compared with each other."""
        size = "" if self.multiple is None else f" at {self.multiple:g} times the minimum"
        return f"{self.workload.name}{self.threads_shown}{size}"

    @property
    def threads_shown(self) -> str:
        """The number of collecting threads as a part of a name."""
        if self.threads is None:
            return ""
        return f", {self.threads} thread{'s' if self.threads > 1 else ''}"

    @property
    def key(self) -> str:
        """The identity of the cell within its experiment."""
        return f"{self.group}: {self.variant}{' again' if self.control else ''}"

    def with_options(self, **options: str | int) -> Cell:
        """The same cell with further options of Gleaner's."""
        changed = {**self.configuration.options, **options}
        return replace(
            self, configuration=self.configuration.model_copy(update={"options": changed})
        )


def cells_of(experiment: Experiment) -> Iterator[Cell]:
    """All cells, in the order of the file, and the control of each group."""
    multiples: list[float | None] = list(experiment.heap.multiples) or [None]
    for workload in experiment.workloads:
        for number in experiment.threads:
            threads = None if number == "default" else number
            for multiple in multiples:
                for name, configuration in experiment.variants().items():
                    if workload.name in configuration.lacks:
                        continue
                    cell = Cell(workload, name, configuration, threads, multiple)
                    yield cell
                    if name == experiment.statistics.baseline:
                        yield replace(cell, control=True)
