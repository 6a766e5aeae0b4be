"""The model of collectors on another socket: what must hold whatever was counted."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gleaner_lab.numa.application import Application
from gleaner_lab.numa.collection import Costs, Run, Synchronisation
from gleaner_lab.numa.locality import Locality
from gleaner_lab.numa.sockets import MACHINE, Sockets, times
from gleaner_lab.report import modelled

numbers = st.integers(0, 10**6)
matrices = st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=2, max_size=2)


def run_of(scanned, copied, updated=((0, 0), (0, 0)), promoted=None):
    counts = {"scanned": scanned, "copied": copied, "copied_from": copied, "updated": updated}
    if promoted is not None:
        counts["promoted"] = promoted
    matrices = {kind: np.array(matrix, dtype=float) for kind, matrix in counts.items()}
    return Run(Locality(2, 4, matrices, {}), Synchronisation(10, 100, 30, 0, 5), collections=10)


mutators = st.builds(
    Application, st.just(4), st.floats(0, 1e10, allow_nan=False), st.floats(0, 100, allow_nan=False)
)


@given(matrices, matrices, matrices, mutators)
def test_isolation_never_gains_without_caches_and_costs_at_most_what_a_hop_does(
    scanned, copied, updated, application
):
    found = times(run_of(scanned, copied, updated), application, Costs())
    one, isolated = found[Sockets.ONE], found[Sockets.ISOLATED]
    # Two controllers take the lines of one, so that where a controller is the limit it may gain.
    if one.limit == "workers":
        assert isolated.collecting_s >= one.collecting_s * (1 - 1e-9)
    assert (
        isolated.collecting_s <= one.collecting_s * (1 + MACHINE.hop_ns / MACHINE.local_ns) + 1e-9
    )


def test_what_nothing_survives_costs_nothing_to_isolate():
    nothing = ((0, 0), (0, 0))
    found = times(run_of(nothing, nothing), Application(4, 1e9, 1.0), Costs())
    assert found[Sockets.ISOLATED] == found[Sockets.ONE]


def test_promoted_objects_are_fetched_from_eden_and_read_again_from_afar():
    nothing, promoted = ((0, 0), (0, 0)), ((10**6, 0), (0, 0))
    application = Application(4, 0.0, 0.0)
    found = times(run_of(nothing, nothing, promoted=promoted), application, Costs())
    one, isolated = found[Sockets.ONE], found[Sockets.ISOLATED]
    far = 10**6 * MACHINE.hop_ns / MACHINE.cores * 1e-9
    # The one node's controller is its limit: 3.8 ns a line against 13 shared by four.
    assert one.application_s == pytest.approx(10**6 * MACHINE.controller_ns * 1e-9)
    alone = 10**6 * MACHINE.local_ns / MACHINE.cores * 1e-9
    link = 10**6 * MACHINE.link_ns * 1e-9
    assert isolated.application_s == pytest.approx(max(alone + far, link))


def test_divided_threads_use_both_controllers():
    scanned, copied = ((10**6, 0), (0, 10**6)), ((10**6, 0), (0, 10**6))
    found = times(run_of(scanned, copied), Application(4, 1e9, 0.0), Costs())
    assert found[Sockets.DIVIDED].application_s < found[Sockets.ONE].application_s
    far = run_of(tuple(reversed(scanned)), tuple(reversed(copied)))
    assert times(far, Application(4, 1e9, 0.0), Costs())[Sockets.DIVIDED].collecting_s > (
        found[Sockets.DIVIDED].collecting_s
    )


def test_the_page_says_what_is_modelled_and_whether_it_agrees():
    scanned = copied = ((10**6, 0), (0, 10**6))
    rounds = [
        times(run_of(scanned, copied), Application(4, 1e9, 1.0), replace(Costs(), processor_ns=9.0))
    ]
    page = modelled.sockets({"jbb": rounds}, "gleaner-lab placement modelled DIR")
    text = page.markdown()
    assert "(modelled)" in text and "No machine with two sockets was measured" in text
    assert "which agrees" in text
    (row,) = page.tables[0].rows
    ratio = rounds[0][Sockets.ISOLATED].run_s / rounds[0][Sockets.ONE].run_s
    assert row[0] == "jbb" and row[4] == f"{ratio:.3f}"
