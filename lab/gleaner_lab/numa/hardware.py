"""A machine of memory nodes as the model sees it: controllers, links, and what a line costs.

Each node has one memory controller and the same number of processors. Links lead from node to node
in both directions, each direction with a capacity of its own. A cache line that a worker reads
travels from the memory's node to the worker's along all shortest paths in equal parts.

The default is the machine of the ASPLOS 2013 paper: four packages of AMD's Opteron 6172, each of
two nodes with six cores; a node is linked to the other node of its package and to three of the six
others, so no two nodes are more than two hops apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gleaner_lab.numa.locality import Matrix

#: Bytes of a cache line.
LINE = 64


@dataclass(frozen=True)
class Link:
    """A link between two nodes, with its width relative to the narrowest."""

    one: int
    other: int
    width: float = 1.0


@dataclass(frozen=True)
class Machine:
    """Nodes, links and service times; times are in nanoseconds for a line of 64 bytes."""

    nodes: int
    #: Processors of a node. More workers than these share them.
    cores: int
    links: tuple[Link, ...]
    #: A worker's time for each line of its own node when nobody else uses the memory. A worker
    #: keeps several lines in flight, so this is less than the memory's latency.
    local_ns: float
    #: What each hop adds to that.
    hop_ns: float
    #: A controller is busy so long with a line.
    controller_ns: float
    #: A link of width 1 is busy so long with a line, in one direction.
    link_ns: float
    #: Lines that a worker has in flight: latency over `local_ns`.
    in_flight: float = 5

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.cores < 1 or self.in_flight < 1:
            raise ValueError("a machine has nodes, cores and lines in flight, 1 or more of each")
        times = (self.local_ns, self.hop_ns, self.controller_ns, self.link_ns)
        if not all(math.isfinite(time) and time >= 0 for time in times) or self.local_ns == 0:
            raise ValueError("times are 0 ns or more, and a local line takes some")
        if any(link.width <= 0 for link in self.links):
            raise ValueError("a link has a width above 0")
        if not np.isfinite(self.hops).all():
            raise ValueError("some nodes are not linked, directly or through others")

    @property
    def hops(self) -> Matrix:
        """Hops from node to node along a shortest path; infinite where there is none."""
        return _hops(self.nodes, self.links)

    @property
    def line_ns(self) -> Matrix:
        """A worker's time for a line by its node (row) and the memory's (column), uncontended."""
        return self.local_ns + self.hops * self.hop_ns

    @property
    def directions(self) -> list[tuple[int, int, float]]:
        """Each link twice: from, to, width."""
        return _directions(self.links)

    @property
    def routes(self) -> NDArray[np.float64]:
        """Which part of a line crosses a direction: [direction, worker's node, memory's node]."""
        return _routes(self.nodes, self.links)

    def round_robin(self, workers: int) -> NDArray[np.int64]:
        """How many of `workers` workers run on each node: worker i belongs to node i mod n."""
        return np.bincount(np.arange(workers) % self.nodes, minlength=self.nodes)

    def at_random(self, in_flight: float, scattered: float) -> Machine:
        """The machine as a thread sees it whose lines are scattered and `in_flight` at once.

        Latencies and links stay; a thread with fewer lines in flight takes longer for each, and a
        controller `scattered` times as long.
        """
        longer = self.in_flight / in_flight
        return replace(
            self,
            local_ns=self.local_ns * longer,
            hop_ns=self.hop_ns * longer,
            controller_ns=self.controller_ns * scattered,
            in_flight=in_flight,
        )


@cache
def _hops(nodes: int, links: tuple[Link, ...]) -> Matrix:
    hops = np.full((nodes, nodes), np.inf)
    np.fill_diagonal(hops, 0)
    for link in links:
        hops[link.one, link.other] = hops[link.other, link.one] = 1
    for middle in range(nodes):
        hops = np.minimum(hops, hops[:, [middle]] + hops[[middle], :])
    return hops


def _directions(links: tuple[Link, ...]) -> list[tuple[int, int, float]]:
    ways = [(link.one, link.other, link.width) for link in links]
    return ways + [(to, source, width) for source, to, width in ways]


@cache
def _routes(nodes: int, links: tuple[Link, ...]) -> NDArray[np.float64]:
    hops, directions = _hops(nodes, links), _directions(links)
    paths = _paths(hops)
    routes = np.zeros((len(directions), nodes, nodes))
    for number, (source, to, _) in enumerate(directions):
        for worker in range(nodes):
            on_path = hops[:, source] + 1 + hops[to, worker] == hops[:, worker]
            through = paths[:, source] * paths[to, worker] / paths[:, worker]
            routes[number, worker] = np.where(on_path, through, 0)
    return routes


def _paths(hops: Matrix) -> Matrix:
    """How many shortest paths lead from node to node."""
    paths, linked = np.eye(len(hops)), hops == 1
    for length in range(1, int(hops.max()) + 1):
        reached = (paths * (hops == length - 1)) @ linked
        paths = np.where(hops == length, reached, paths)
    return paths


def connected(nodes: int, cores: int, like: Machine) -> Machine:
    """A machine with a link between any two nodes and the service times of another one."""
    links = tuple(Link(one, other) for one in range(nodes) for other in range(one + 1, nodes))
    return replace(like, nodes=nodes, cores=cores, links=links)


def fitted(machine: Machine, balanced_local: float, balanced_remote: float) -> Machine:
    """The machine with controllers and links so fast that two curves of Figure 3 end where said.

    With local memory, balanced, only controllers can fill up: with k threads, a thread takes
    `local_ns` for a line and a controller 1/n of the lines, so all are busy from
    k = n * local_ns / controller_ns on. With pages round robin over the nodes, a thread takes the
    mean of `line_ns`, and the busiest link carries a known part of the lines.
    """
    controller_ns = machine.nodes * machine.local_ns / balanced_local
    if machine.nodes == 1:
        return replace(machine, controller_ns=controller_ns)
    uniform = np.full((machine.nodes, machine.nodes), machine.nodes**-2)
    width = np.array([width for _, _, width in machine.directions])
    busiest = (np.einsum("lij,ij->l", machine.routes, uniform) / width).max()
    link_ns = (machine.line_ns * uniform).sum() / balanced_remote / busiest
    return replace(machine, controller_ns=controller_ns, link_ns=float(link_ns))


def _magny_cours() -> tuple[Link, ...]:
    """Nodes 2p and 2p + 1 are a package, with a link of 16 bits; all others have 8 bits."""
    inside = [Link(node, node + 1, 2.0) for node in range(0, 8, 2)]
    across = [Link(one, other) for one in range(8) for other in range(one + 2, 8, 2)]
    return (*inside, *across)


def paper_machine(
    controller_ns: float, local_stop: float, remote_stop: float, hop: float, latency_ns: float
) -> Machine:
    """The paper's machine, from the threads at which two curves of Figure 3 stop improving.

    A thread that reads in order takes as long for a line as lets `local_stop` threads fill all
    controllers. The model's links come out at a sixth to a third of their nominal 6.4 GB/s for 8
    bits: requests and the probes of the coherence protocol share them, and the model does not
    count those apart.
    """
    local_ns = controller_ns * local_stop / 8
    machine = Machine(
        nodes=8,
        cores=6,
        links=_magny_cours(),
        local_ns=local_ns,
        hop_ns=hop * local_ns,
        controller_ns=controller_ns,
        link_ns=0.0,
        in_flight=latency_ns / local_ns,
    )
    return fitted(machine, local_stop, remote_stop)
