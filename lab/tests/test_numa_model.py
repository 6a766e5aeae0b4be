"""The model of a machine with memory nodes: its bounds, its monotony, and the paper's machine."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gleaner_lab.failure import Failure
from gleaner_lab.numa import MODELLED, placement
from gleaner_lab.numa.collection import (
    Costs,
    Run,
    Synchronisation,
    collection_time,
    curve,
    pauses_of,
)
from gleaner_lab.numa.hardware import Link, Machine, connected, fitted
from gleaner_lab.numa.host import fits
from gleaner_lab.numa.locality import Locality
from gleaner_lab.numa.parameters import MIDDLE, PAPER, PARAMETERS, box
from gleaner_lab.numa.placement import Placement
from gleaner_lab.numa.queues import predict

times = st.floats(0.5, 100)


@st.composite
def machines(draw, least=1):
    nodes, cores = draw(st.integers(least, 6)), draw(st.integers(1, 4))
    bare = connected(nodes, cores, PAPER)
    return replace(
        bare,
        local_ns=draw(times),
        hop_ns=draw(times),
        controller_ns=draw(times),
        link_ns=draw(times),
        in_flight=draw(st.integers(1, 6)),
    )


@st.composite
def loads(draw, least=1):
    """A machine, lines between its nodes, and a worker or more on each."""
    machine = draw(machines(least))
    row = st.lists(st.integers(0, 10**6), min_size=machine.nodes, max_size=machine.nodes)
    square = st.lists(row, min_size=machine.nodes, max_size=machine.nodes)
    lines = np.array(draw(square), dtype=float)
    assume(lines.sum() > 0)
    many = st.lists(st.integers(1, 6), min_size=machine.nodes, max_size=machine.nodes)
    return machine, lines, np.array(draw(many))


# ---- the machine ----


def test_the_papers_machine_has_its_processors_links_and_distances():
    assert (PAPER.nodes, PAPER.cores, PAPER.hops.max()) == (8, 6, 2)
    # Four links a node, as its four ports.
    assert [(PAPER.hops[node] == 1).sum() for node in range(8)] == [4] * 8
    # 13 GB/s a controller; a fourth of the nominal 6.4 GB/s a link of 8 bits.
    assert PAPER.controller_ns == pytest.approx(MIDDLE.controller_ns)
    assert PAPER.link_ns == pytest.approx(44.5, abs=0.1)
    assert PAPER.local_ns * PAPER.in_flight == pytest.approx(MIDDLE.latency_ns)


@given(machines())
def test_a_line_crosses_as_many_directions_as_there_are_hops(machine):
    assert machine.routes.sum(axis=0) == pytest.approx(machine.hops)


def test_lines_split_over_equal_paths():
    assert PAPER.routes.sum(axis=0) == pytest.approx(PAPER.hops)
    by_way = dict(zip([way[:2] for way in PAPER.directions], PAPER.routes, strict=True))
    # From node 0's memory to a worker of node 3 it goes through node 1 or through node 2.
    assert [by_way[way][3, 0] for way in ((0, 1), (1, 3), (0, 2), (2, 3))] == [0.5] * 4
    assert by_way[(3, 1)][3, 0] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 0, "links": ()}, "1 or more of each"),
        ({"local_ns": 0}, "a local line takes some"),
        ({"link_ns": -1.0}, "times are 0 ns or more"),
        ({"links": (Link(0, 1, 0.0),)}, "a width above 0"),
        ({"links": ()}, "not linked"),
    ],
)
def test_impossible_machines_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(PAPER, **changes)


# ---- the queues ----


@given(loads())
def test_a_prediction_lies_between_its_bounds(load):
    """No less than each station's time; no more than one worker that waits at all of them."""
    machine, lines, workers = load
    found = predict(machine, lines, workers)
    assert found.label == MODELLED
    assert found.bound_s <= found.queued_s * (1 + 1e-9)
    busy = [part * found.bound_s for part in found.utilisation.values()]
    assert max(busy) <= found.bound_s * (1 + 1e-9)
    assert all(part >= 0 for part in found.utilisation.values())
    alone = (lines * machine.line_ns).sum() * 1e-9
    assert found.bound_s <= alone + sum(busy)
    assert found.queued_s <= max(found.bound_s, alone + sum(busy)) * (1 + 1e-9)


@given(loads(), st.floats(1.1, 8))
def test_faster_controllers_and_links_are_never_slower(load, factor):
    machine, lines, workers = load
    before = predict(machine, lines, workers)
    for name in ("controller_ns", "link_ns", "hop_ns"):
        faster = replace(machine, **{name: getattr(machine, name) / factor})
        assert predict(faster, lines, workers).bound_s <= before.bound_s


@given(machines(least=2), st.integers(1, 6), st.integers(1, 5))
def test_more_controllers_are_never_slower(machine, threads, more):
    """The same threads on the same local lines, over more nodes, each with its controller."""
    larger = connected(machine.nodes + more, machine.cores, machine)
    before = placement.read(machine, Placement.BALANCED_LOCAL, threads)
    after = placement.read(larger, Placement.BALANCED_LOCAL, threads)
    assert after.bound_s <= before.bound_s * (1 + 1e-9)


@given(loads())
def test_more_workers_are_never_slower(load):
    machine, lines, workers = load
    for shared in (False, True):
        before = predict(machine, lines, workers, shared=shared)
        after = predict(machine, lines, workers + 1, shared=shared)
        assert after.bound_s <= before.bound_s * (1 + 1e-9)
        assert predict(machine, lines, workers, shared=True).bound_s <= before.bound_s * (1 + 1e-9)


@given(machines(), st.integers(1, 24))
def test_on_one_node_all_placements_are_equal(machine, threads):
    single = connected(1, machine.cores * machine.nodes, machine)
    found = {placement.read(single, one, threads).bound_s for one in Placement}
    assert max(found) == pytest.approx(min(found))


@given(loads(), st.floats(0.1, 10))
def test_twice_the_lines_take_twice_the_time(load, factor):
    machine, lines, workers = load
    before, after = (predict(machine, lines * by, workers) for by in (1, factor))
    assert after.bound_s == pytest.approx(before.bound_s * factor)
    assert after.queued_s == pytest.approx(before.queued_s * factor)


def test_a_queue_by_hand():
    """Two workers, one controller: each has one line in flight and 1 ns to think.

    With D = Z = 1 the population recursion gives X(1) = 1/2 and X(2) = 4/5.
    """
    machine = Machine(
        1, 2, (), local_ns=2.0, hop_ns=0.0, controller_ns=1.0, link_ns=0.0, in_flight=1
    )
    found = predict(machine, [[6e9]], [2])
    assert found.queued_s == pytest.approx(6 / (4 / 5))
    assert found.bound_s == pytest.approx(6)
    assert found.utilisation == {"controller 0": 1.0}


def test_with_many_lines_in_flight_queues_come_to_the_bound():
    lines, workers = np.eye(8) * 1e6, PAPER.round_robin(48)
    found = [predict(replace(PAPER, in_flight=n), lines, workers) for n in (1, 5, 200)]
    assert found[0].queued_s > found[1].queued_s > found[2].queued_s
    assert found[2].queued_s == pytest.approx(found[2].bound_s, rel=0.01)


def test_no_lines_take_no_time_and_workers_without_processors_add_none():
    idle = predict(PAPER, np.zeros((8, 8)), PAPER.round_robin(4))
    assert (idle.bound_s, idle.queued_s) == (0, 0)
    lines = np.eye(8)
    full, more = (predict(PAPER, lines, PAPER.round_robin(n)) for n in (48, 480))
    assert full.bound_s == more.bound_s
    with pytest.raises(ValueError, match="a node without workers has work"):
        predict(PAPER, lines, PAPER.round_robin(4))
    with pytest.raises(ValueError, match="not those of 8 nodes"):
        predict(PAPER, np.eye(4), [1] * 4)


# ---- Figure 3 ----


def test_the_model_says_what_the_text_says_of_figure_3():
    found = placement.statements(placement.curves(PAPER))
    assert [one.holds for one in found] == [True] * 5
    assert [one.fitted for one in found] == [False, True, True, False, False]
    assert all(MODELLED in one.verdict for one in found)


def test_a_machine_that_disagrees_does_not_hold():
    quick = replace(PAPER, link_ns=0.0, controller_ns=0.1)
    found = placement.statements(placement.curves(quick))
    assert [one.holds for one in found[:3]] == [False] * 3
    assert found[1].verdict.startswith("does not hold (modelled")


@pytest.mark.parametrize("hop_ns", [2, 6, 12, 20, 30])
@pytest.mark.parametrize("local_ns", [10, 20, 40])
def test_where_unbalanced_remote_stops_does_not_hang_on_what_is_assumed(local_ns, hop_ns):
    """The two other curves are fitted; that this one stops at 8 threads then follows."""
    machine = fitted(replace(PAPER, local_ns=local_ns, hop_ns=hop_ns), 40, 32)
    stops = {name: curve.stops for name, curve in placement.curves(machine).items()}
    assert stops[Placement.BALANCED_LOCAL] == 40
    assert stops[Placement.BALANCED_REMOTE] == 32
    assert stops[Placement.UNBALANCED_REMOTE] == 8


@pytest.mark.parametrize("end", ["low", "middle", "high"])
def test_the_whole_box_of_parameters_has_the_knees_of_figure_3(end):
    """40 and 32 threads are put in, to a mark of the paper's axis; that the third is 8 follows."""
    ends = {one.name: getattr(one, end) for one in PARAMETERS}
    for assumed in (replace(MIDDLE, **ends), *box(12)):
        machine = assumed.machine
        stops = {name: curve.stops for name, curve in placement.curves(machine).items()}
        assert stops[Placement.BALANCED_LOCAL] == 40
        assert stops[Placement.BALANCED_REMOTE] == 32
        assert stops[Placement.UNBALANCED_REMOTE] == 8
        # In closed form: as many threads as fill all controllers, and the busiest link.
        full = machine.nodes * machine.local_ns / machine.controller_ns
        assert full == pytest.approx(assumed.local_stop)
        last = placement.read(machine, Placement.BALANCED_REMOTE, 48)
        one = placement.read(machine, Placement.BALANCED_REMOTE, 1)
        mean_ns = machine.local_ns + machine.hops.mean() * machine.hop_ns
        assert last.bound_s == pytest.approx(placement.LINES * mean_ns * 1e-9 / assumed.remote_stop)
        assert one.bound_s > last.bound_s * (assumed.remote_stop - 1)


def test_a_speedup_is_at_most_the_threads():
    for curve_of in placement.curves(PAPER).values():
        for threads in curve_of.threads:
            assert curve_of.speedup(threads) <= threads * (1 + 1e-9)
            assert curve_of.queued_speedup(threads) <= threads * (1 + 1e-9)


# ---- collections ----


def matrix(objects, rows, columns):
    """`objects` objects by the shares of workers' and of objects' nodes."""
    return objects * np.outer(np.array(rows) / np.sum(rows), np.array(columns) / np.sum(columns))


def run_of(workers=48, eden=None, copied=None, events=None, **extra):
    """A million objects, copied from eden as its pages lie, each to the worker's node."""
    even = PAPER.round_robin(workers)
    near = np.diag(1e6 * even / workers) if copied is None else copied
    counts = {
        "scanned": near,
        "scanned_young": near,
        "copied_from": matrix(1e6, even, [1] * 8 if eden is None else eden),
        "copied": near,
        "promoted": np.zeros((8, 8)),
        "updated": near,
        **extra,
    }
    quiet = Synchronisation(phases=0, tasks=0, wakeups=0, lock_acquisitions=0, failed_cas=0)
    return Run(Locality(8, workers, counts, {}), quiet if events is None else events)


def test_the_counts_of_a_run_are_scaled_to_other_numbers_of_threads():
    run = run_of()
    for workers in (1, 4, 8, 48):
        lines = sum(run.fetched(workers, Costs()))
        assert lines.sum() == pytest.approx(sum(run.fetched(48, Costs())).sum())
        assert ((lines.sum(axis=1) > 0) == (PAPER.round_robin(workers) > 0)).all()
        assert run.scanned(workers).sum() == pytest.approx(1e6)


@given(st.lists(st.integers(0, 100), min_size=8, max_size=8))
def test_balanced_memory_is_never_slower_with_all_threads(eden):
    assume(sum(eden) > 0)
    balanced, other = (
        collection_time(run_of(eden=shares), PAPER, 48, Costs()) for shares in (None, eden)
    )
    assert balanced.memory.bound_s <= other.memory.bound_s * (1 + 1e-9)


def test_fragmented_is_ahead_of_interleaved_and_both_of_one_node():
    """The copies of fragmented spaces stay on the node, those of interleaved ones go anywhere."""
    even = PAPER.round_robin(48)
    anywhere = matrix(1e6, even, [1] * 8)
    fragmented = curve(run_of(), PAPER, Costs(processor_ns=20))
    interleaved = curve(run_of(copied=anywhere), PAPER, Costs(processor_ns=20))
    single = curve(run_of(eden=[95] + [5 / 7] * 7, copied=anywhere), PAPER, Costs(processor_ns=20))
    for one, other in zip(fragmented, interleaved, strict=True):
        assert one.bound_s <= other.bound_s
    assert single[-1].bound_s > 1.3 * interleaved[-1].bound_s


@pytest.mark.parametrize("processor_ns", [0, 20, 50])
def test_eden_on_one_node_limits_48_threads_and_balance_cures_that(processor_ns):
    """The paper's main effect: 95 % of eden on a node, and its pages on all nodes in turn.

    By hand: of a million objects of one line each old place has 1 + 7/16 lines, and a header is
    written back; 95 % of these 2.44 lines wait for one controller, 1.5 times as long as in order.
    """
    anywhere = matrix(1e6, PAPER.round_robin(48), [1] * 8)
    costs = Costs(processor_ns=processor_ns)
    one_node = run_of(eden=[95] + [5 / 7] * 7, copied=anywhere)
    single = collection_time(one_node, PAPER, 48, costs)
    balanced = collection_time(run_of(copied=anywhere), PAPER, 48, costs)
    assert single.limit == "controller 0"
    lines = 0.95 * (1 + 7 / 16 + 1) + (1.5 + 1.5) / 8
    assert single.bound_s == pytest.approx(1e6 * lines * 1.5 * PAPER.controller_ns * 1e-9)
    assert not balanced.limit.startswith("controller")
    assert single.bound_s > 1.3 * balanced.bound_s
    # With few threads it is the workers that limit both.
    assert {collection_time(one_node, PAPER, 4, costs).limit} == {"workers"}


def test_an_object_takes_the_lines_that_it_lies_in():
    """Two lines each, half of them between dead objects, and half of the copies leave the cache."""
    run = replace(run_of(), survived_bytes=2 * 64 * 1e6)
    costs = Costs(apart=0.5, left_cache=0.5)
    old, new = (part.sum() / 1e6 for part in run.fetched(48, costs))
    assert (old, new) == (pytest.approx(2 + 7 / 16), pytest.approx(2 * 1.5))
    # One header, and the copies.
    assert run.written(48, costs).sum() / 1e6 == pytest.approx(1 + 3)
    small = replace(run, survived_bytes=16e6)
    close = Costs(apart=0.0, left_cache=0.0)
    assert sum(part.sum() for part in small.fetched(48, close)) / 1e6 == pytest.approx(0.5)
    assert small.written(48, close).sum() / 1e6 == pytest.approx(0.5)


def test_promoted_objects_lay_where_survivors_did_and_the_rest_in_eden():
    even = PAPER.round_robin(48)
    run = run_of(eden=[1] + [0] * 7, promoted=matrix(2e6, even, [1] * 8))
    pages = {"survivor_pages": np.array([0, 1, 0, 0, 0, 0, 0, 0], dtype=float)}
    run = replace(run, locality=replace(run.locality, pages=pages))
    old, _ = run.fetched(48, Costs(apart=0.0))
    # A million were copied from node 0; of two million promoted as many lay on node 1.
    assert old.sum(axis=0) / 1e6 == pytest.approx([2, 1, 0, 0, 0, 0, 0, 0])
    apart = replace(
        run,
        locality=replace(run.locality, counts=run.locality.counts | {"messages": np.ones((8, 8))}),
    )
    old, _ = apart.fetched(48, Costs(apart=0.0))
    assert (old - run.locality.counts["copied_from"])[0, 0] == pytest.approx(2e6 / 8)


def test_lines_that_are_written_back_load_the_other_direction_and_no_worker():
    lines = np.zeros((8, 8))
    lines[0, 1] = 1e6
    read, both = (predict(PAPER, lines, [6] * 8, written=back) for back in (0.0, lines))
    assert set(_busy(read)) == {"controller 1", "link 1 to 0"}
    assert set(_busy(both)) == {"controller 1", "link 1 to 0", "link 0 to 1"}
    assert _busy(both)["controller 1"] == pytest.approx(2 * _busy(read)["controller 1"])
    assert _busy(both)["link 0 to 1"] == pytest.approx(_busy(read)["link 1 to 0"])
    alone = predict(replace(PAPER, controller_ns=0.0, link_ns=0.0), lines, [1] * 8, written=lines)
    assert alone.bound_s == pytest.approx(1e6 * (PAPER.local_ns + PAPER.hop_ns) * 1e-9)


def _busy(found):
    """Seconds by station that had anything to do."""
    return {name: part * found.bound_s for name, part in found.utilisation.items() if part > 0}


def test_a_thread_with_fewer_lines_in_flight_takes_longer_for_each():
    slow = PAPER.at_random(in_flight=1, scattered=2)
    assert slow.local_ns == pytest.approx(MIDDLE.latency_ns)
    assert slow.hop_ns / slow.local_ns == pytest.approx(PAPER.hop_ns / PAPER.local_ns)
    assert (slow.controller_ns, slow.link_ns) == (2 * PAPER.controller_ns, PAPER.link_ns)


def events_of(task_queue, parking, workers=48, phases=10, tasks=2000):
    """What a collector with these options counts: a worker looks once for a task in vain."""
    locks = tasks + phases * workers if task_queue == "locked" else 0
    locks += 2 * phases * workers if parking == "monitor" else 0
    return Synchronisation(
        phases, tasks, phases * (workers - 1), locks, 0, task_queue=task_queue, parking=parking
    )


def test_locks_cost_more_the_more_threads_there_are():
    found = {
        pair: curve(run_of(events=events_of(*pair)), PAPER, Costs())
        for pair in (
            ("lock-free", "futex"),
            ("locked", "futex"),
            ("lock-free", "monitor"),
            ("locked", "monitor"),
        )
    }
    by_pair = {pair: [one.synchronisation_s for one in times] for pair, times in found.items()}
    free, worst = by_pair["lock-free", "futex"], by_pair["locked", "monitor"]
    for seconds in by_pair.values():
        assert seconds == sorted(seconds)
        assert all(low <= one for low, one in zip(free, seconds, strict=True))
        assert all(one <= high for one, high in zip(seconds, worst, strict=True))
    # Without locks the time grows as the threads, with them as their square.
    bare = Costs(wake_ns=0, switch_ns=0, spinning=1.0)
    growth = {}
    for pair in (("lock-free", "futex"), ("locked", "monitor")):
        times = [
            one.synchronisation_s
            for one in curve(run_of(events=events_of(*pair)), PAPER, bare, (24, 48))
        ]
        growth[pair] = times[1] / times[0]
    assert growth["lock-free", "futex"] == pytest.approx(2, rel=0.1)
    assert growth["locked", "monitor"] == pytest.approx(4, rel=0.1)


def test_bursts_follow_from_the_acquisitions():
    both = events_of("locked", "monitor")
    # First tasks, finding none, and two for each parking.
    assert both.lock_bursts(48) == pytest.approx(4 * both.phases)
    assert both.atomic_bursts() == both.phases
    free = events_of("lock-free", "futex")
    assert (free.lock_bursts(48), free.atomic_bursts()) == (0, 3 * free.phases)
    assert both.at(48, 8) == events_of("locked", "monitor", workers=8)
    assert both.at(48, 1).wakeups == 0


def test_tasks_that_are_taken_one_after_the_other_bound_the_time():
    events = Synchronisation(phases=1, tasks=10**8, wakeups=0, lock_acquisitions=0, failed_cas=0)
    found = collection_time(run_of(events=events), PAPER, 48, Costs())
    assert found.limit == "task queue"
    assert found.bound_s >= found.task_queue_s > found.memory.bound_s
    assert found.label == MODELLED


def test_segregated_spaces_keep_their_work_and_begin_with_a_thread_for_each_node():
    counts = np.diag(np.arange(1.0, 9.0)) * 1e5
    own = dict.fromkeys(("scanned", "scanned_young", "copied_from", "copied"), counts)
    run = run_of(**own, messages=np.ones((8, 8)))
    assert run.is_segregated
    assert [one.threads for one in curve(run, PAPER, Costs())] == [8, 16, 24, 32, 40, 48]
    with pytest.raises(Failure, match="segregated spaces need a worker on each of 8 nodes"):
        collection_time(run, PAPER, 4, Costs())
    # Node 7 has the most to do, and nobody else may do it.
    assert collection_time(run, PAPER, 8, Costs()).limit == "workers of node 7"


def test_messages_cost_lines():
    quiet, loud = (
        run_of(messages=np.ones((8, 8)), message_bytes=np.full((8, 8), size))
        for size in (0.0, 6400.0)
    )
    more = sum(loud.fetched(48, Costs())).sum() - sum(quiet.fetched(48, Costs())).sum()
    assert more == pytest.approx(6400)
    # The slot that a message is about is a line of the node that sent it.
    sent = np.zeros((8, 8))
    sent[2, 5] = 100
    lines = run_of(messages=sent).fetched(48, Costs())[1] - run_of().fetched(48, Costs())[1]
    assert lines[5, 2] == pytest.approx(100)
    assert lines.sum() == pytest.approx(100)


def alone(objects, phases):
    """A run with one worker."""
    lines = np.zeros((8, 8))
    lines[0, 0] = objects
    counts = dict.fromkeys(("scanned", "scanned_young", "copied_from", "copied"), lines)
    events = replace(events_of("locked", "monitor", workers=1), phases=phases)
    return run_of(workers=1, updated=lines, events=events, **counts)


def seconds_of(run, object_ns, phase_ns, line_ns):
    lines = sum(run.fetched(1, Costs())).sum()
    own = run.scanned(1).sum() * object_ns + run.synchronisation.phases * phase_ns
    return (own + lines * line_ns) * 1e-9


@pytest.mark.parametrize("wanted", [(0.0, 0.0), (15.0, 2e5), (140.0, 0.0), (0.0, 1e6)])
def test_runs_with_one_thread_tell_objects_and_phases_apart(wanted):
    """Few objects in many phases, and the reverse."""
    runs = [alone(1e3, 500), alone(1e7, 20), alone(1e5, 100)]
    taken = [(run, seconds_of(run, *wanted, line_ns=9.0)) for run in runs]
    found = fits(taken, Costs(), 9.0)
    assert len(found) == 4
    for one in found:
        assert (one.object_ns, one.phase_ns) == pytest.approx(wanted, abs=1e-6)


def test_the_fits_to_all_runs_but_one_say_how_far_they_differ():
    """A run that took thrice as long as its objects say is what the fit without it lacks."""
    runs = [alone(1e7, 20), alone(1e6, 30), alone(1e6, 40), alone(1e5, 500)]
    taken = [(run, seconds_of(run, 40, 1e5, line_ns=9.0)) for run in runs]
    taken[0] = (runs[0], 3 * taken[0][1])
    whole, without, *_ = fits(taken, Costs(), 9.0)
    assert without.object_ns == pytest.approx(40)
    assert whole.object_ns > 42
    slow = replace(MIDDLE, slowdown=4.0, of_the_fit=0.5)
    costs, host = slow.costs_on(taken), slow.hosts(taken)[0]
    assert costs.processor_ns == pytest.approx(2 * host.object_ns)
    assert costs.phase_ns == pytest.approx(4 * host.phase_ns)


def test_of_one_run_all_time_but_the_memorys_is_that_of_its_objects():
    run = alone(1e6, 20)
    (host,) = fits([(run, seconds_of(run, 15, 0, 9))], Costs(), 9)
    assert host.object_ns == pytest.approx(15)
    # Less time than its lines take is met as nearly as it can be.
    assert fits([(run, 1e-6)], Costs(), 9)[0].object_ns == 0
    with pytest.raises(Failure, match="has 48 workers; take one of 1"):
        fits([(run_of(), 1.0)], Costs(), 9)
    with pytest.raises(Failure, match="took no time"):
        fits([(run, 0.0)], Costs(), 9)
    with pytest.raises(Failure, match="no run has one collecting thread"):
        fits([], Costs(), 9)


def test_what_a_phase_takes_alone_no_thread_shortens():
    events = events_of("lock-free", "futex")
    costs = Costs(phase_ns=1e6)
    times = curve(run_of(events=events), PAPER, costs)
    assert [one.serial_s for one in times] == pytest.approx([events.phases * 1e-3] * len(times))
    assert all(one.bound_s >= one.serial_s + one.memory.bound_s for one in times)


def test_what_a_run_cannot_tell_is_refused():
    with pytest.raises(Failure, match="a run with one worker does not tell"):
        collection_time(run_of(workers=1), PAPER, 2, Costs())
    four = Locality(4, 4, {}, {})
    with pytest.raises(Failure, match=r"counted 4 nodes and the machine has 8.*node:8 core:6 pu:1"):
        collection_time(replace(run_of(), locality=four), PAPER, 2, Costs())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phases": -1}, "phases is -1, not a whole number of 0 or more"),
        ({"failed_cas": 1.5}, "failed_cas is 1.5, not a whole number"),
        ({"task_queue": "lockfree"}, "task_queue is 'lockfree'.*did you mean lock-free"),
        ({"parking": None}, "parking is None, not futex or monitor"),
    ],
)
def test_wrong_events_are_named(changes, message):
    events = {
        "phases": 1,
        "tasks": 1,
        "wakeups": 1,
        "lock_acquisitions": 1,
        "failed_cas": 0,
        "task_queue": "locked",
        "parking": "monitor",
    }
    assert Synchronisation.parse(events, "run").parking == "monitor"
    with pytest.raises(Failure, match=f"run: synchronisation: {message}"):
        Synchronisation.parse(events | changes, "run")
    with pytest.raises(Failure, match="run: synchronisation is no object"):
        Synchronisation.parse([], "run")


def test_pauses_are_seconds():
    assert pauses_of({"total_pause_s": 2}, "run") == 2
    for wrong in ("1", -1, float("nan"), None):
        with pytest.raises(Failure, match="run: total_pause_s is"):
            pauses_of({"total_pause_s": wrong}, "run")
