"""What this host's processor takes for collecting, from runs with one collecting thread.

The time of a copying phase is that of its objects, that of its lines of memory and a fixed part.
One fit over the runs of all workloads tells objects and fixed part apart, since some workloads have
many objects in few phases, and others the reverse; the time of a line is measured apart. Fitted to
each workload alone, the fixed part of short phases would be taken for time of their few objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from gleaner_lab.failure import Failure
from gleaner_lab.numa.collection import Costs, Run

#: With so many runs or more, the fits to all but one of them tell how far a fit can be trusted.
SEVERAL = 3


@dataclass(frozen=True)
class Host:
    """Processor time of this host."""

    #: For each scanned object, without its memory.
    object_ns: float
    #: For each parallel phase, by the thread that leads it.
    phase_ns: float


def fits(runs: Sequence[tuple[Run, float]], costs: Costs, line_ns: float) -> list[Host]:
    """The fit to all runs, with their seconds of copying, and the fits to all but each of them.

    The relative error is the least that it can be. Of one run alone all time that is not the
    memory's is that of its objects.
    """
    if not runs:
        raise Failure("no run has one collecting thread, by which the processor's time is fitted")
    several = [run.locality.workers for run, _ in runs if run.locality.workers != 1]
    if several:
        raise Failure(f"the run to calibrate by has {several[0]} workers; take one of 1")
    taken = np.array([seconds for _, seconds in runs]) * 1e9
    if (taken <= 0).any():
        raise Failure("a run to calibrate by took no time")
    objects = np.array([run.scanned(1).sum() for run, _ in runs])
    phases = np.array([run.synchronisation.phases * (len(runs) > 1) for run, _ in runs])
    lines = np.array([sum(part.sum() for part in run.fetched(1, costs)) for run, _ in runs])
    counts = np.column_stack([objects, phases]) / taken[:, np.newaxis]
    rest = np.maximum(0.0, 1 - lines * line_ns / taken)
    all_runs = np.arange(len(runs))
    kept = [all_runs, *(np.delete(all_runs, one) for one in all_runs if len(runs) >= SEVERAL)]
    return [Host(*map(float, nnls(counts[some], rest[some])[0])) for some in kept]
