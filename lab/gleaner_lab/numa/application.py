"""The application's time on a machine with memory nodes: run time minus pauses, as modelled.

The collector counts its own accesses, not those of mutators. What is known of them is how many
bytes they allocated, on which nodes eden's pages lie, and on which nodes they ran: mutator i on
node i mod n. So the model takes each allocated line to be fetched and written back once, in order,
and what else they read to be in caches. Under fragmented and segregated spaces a mutator allocates
on its own node; under the other policies what it is given lies where eden's pages do. All mutators
are taken to allocate and to compute the same. Processor time is that of the host, without what the
same lines take there, times what the other machine is slower.

The paper's gain (its Figure 6) comes from a balance of the mutators' accesses, which is what this
shows. It does not show objects that are read again later, nor caches that eden fits into.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gleaner_lab.failure import Failure
from gleaner_lab.numa.hardware import LINE, Machine
from gleaner_lab.numa.locality import Locality
from gleaner_lab.numa.queues import Prediction, predict


@dataclass(frozen=True)
class Application:
    """What the mutators of a run did."""

    mutators: int
    allocated_bytes: float
    #: Processor time of them all on the host, in seconds.
    processor_s: float

    def time(
        self,
        machine: Machine,
        locality: Locality,
        *,
        on_own_node: bool,
        slowdown: float = 1.0,
        host_line_ns: float = 0.0,
    ) -> Prediction:
        """Their time on a machine, with eden's pages where the run that counted has them.

        Its processors are `slowdown` times slower than the host, whose lines take `host_line_ns`.
        """
        eden = locality.pages.get("eden_pages")
        if eden is None or not eden.any():
            raise Failure("no pages of eden were counted")
        workers = machine.round_robin(self.mutators)
        shares = self.allocated_bytes / LINE * workers / workers.sum()
        lines = np.diag(shares) if on_own_node else np.outer(shares, eden / eden.sum())
        near_s = shares.sum() * host_line_ns * 1e-9
        own_s = slowdown * max(0.0, self.processor_s - near_s)
        computing = own_s * 1e9 * workers / workers.sum()
        return predict(machine, lines, workers, computing, written=lines)
