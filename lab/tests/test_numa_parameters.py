"""The box of the model's parameters, and the part of it in which a statement holds."""

from dataclasses import asdict, replace

import pytest

from gleaner_lab.numa.parameters import MIDDLE, PARAMETERS, Assumptions, box
from gleaner_lab.numa.region import region

POINTS = box(100)


def test_each_parameter_has_its_interval_its_source_and_a_field():
    assert [one.name for one in PARAMETERS] == list(Assumptions.__dataclass_fields__)
    for one in PARAMETERS:
        assert one.low < one.middle < one.high
        assert one.source and one.words
    assert asdict(MIDDLE) == {one.name: one.middle for one in PARAMETERS}


def test_points_fill_each_interval_evenly_and_are_always_the_same():
    for one in PARAMETERS:
        width = (one.high - one.low) / len(POINTS)
        cells = [int((getattr(point, one.name) - one.low) / width) for point in POINTS]
        assert sorted(cells) == list(range(100)), one.name
    box.cache_clear()
    assert box(100) == POINTS


def test_a_point_gives_a_machine_and_costs():
    point = replace(MIDDLE, in_flight=1.0, apart=0.25, latency_ns=90.0)
    assert (point.costs.in_flight, point.costs.apart) == (1.0, 0.25)
    assert point.machine.local_ns * point.machine.in_flight == pytest.approx(90)
    assert MIDDLE.costs.wake_ns == MIDDLE.wake_ns


def test_a_statement_that_holds_everywhere_or_nowhere_needs_no_cut():
    everywhere, nowhere = (region(POINTS, [held] * 100) for held in (True, False))
    assert everywhere.verdict == "holds for all parameters in their intervals"
    assert everywhere.reason == "it holds at 100 of 100 points"
    assert nowhere.verdict == "does not hold"


@pytest.mark.parametrize(("at", "above"), [(2.0, True), (3.1, False)])
def test_the_parameter_that_decides_is_named_with_its_flip(at, above):
    found = region(POINTS, [(one.in_flight > at) is above for one in POINTS])
    assert found.cut.parameter.name == "in_flight"
    assert found.cut.is_clear
    flip = found.cut.low if above else found.cut.high
    assert flip == pytest.approx(at, abs=0.03)
    ends = [flip, 4] if above else [1, flip]
    shown = ", ".join(f"{end:.3g}" for end in ends)
    words = "lines that a collecting thread waits for at once"
    assert found.verdict == f"holds for {words} in [{shown}]"
    assert found.reason.endswith("else at 0 of " + str(100 - found.held))


def test_a_statement_may_flip_twice_along_a_parameter():
    found = region(POINTS, [1.5 < one.in_flight < 3 for one in POINTS])
    assert (found.cut.low, found.cut.high) == (
        pytest.approx(1.5, abs=0.03),
        pytest.approx(3, abs=0.03),
    )
    assert found.cut.inside == (found.held, found.held)
    assert found.cut.is_clear


def test_where_two_parameters_decide_together_none_is_said_to():
    held = [one.apart + one.left_cache > 1 for one in POINTS]
    found = region(POINTS, held)
    assert found.cut.parameter.name in ("apart", "left_cache")
    corner = [one.apart > 0.5 and one.spinning > 0.5 and one.hop > 0.6 for one in POINTS]
    assert region(POINTS, corner).verdict == f"holds at {sum(corner)} of 100 points"
    assert "no parameter decides alone" in region(POINTS, corner).reason


def test_a_few_points_at_an_end_are_no_part_of_an_interval():
    """A cut leaves a tenth of the points on each side."""
    found = region(POINTS, [one.hop > 0.99 for one in POINTS])
    held, points = found.cut.inside
    assert min(points, 100 - points) >= 10
    assert held <= 2 and not found.cut.is_clear
