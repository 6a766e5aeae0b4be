"""The NAPS paper's evaluation from made-up runs, of which it is known what must come out."""

import csv
import json
import math
import re

import numpy as np
import pytest
from pydantic import ValidationError
from screens import SCHEMES, look

from gleaner_lab import cli, workload
from gleaner_lab import experiment as experiments
from gleaner_lab.failure import Failure
from gleaner_lab.numa import evidence as evidences
from gleaner_lab.numa import findings
from gleaner_lab.numa.application import Application
from gleaner_lab.numa.collection import Costs, Run, collection_time
from gleaner_lab.numa.evidence import ALONE, BOUND, COUNTED, ONCE, QUEUED, Evidence
from gleaner_lab.numa.findings import Statement, judge, statements
from gleaner_lab.numa.hardware import LINE
from gleaner_lab.numa.locality import Locality
from gleaner_lab.numa.parameters import MIDDLE, PAPER, PARAMETERS, box
from gleaner_lab.report import evaluation
from gleaner_lab.store import ResultSet

EXPERIMENT = cli.EXPERIMENTS / "naps-paper.yaml"
EVENTS = {"phases": 20, "tasks": 2000, "wakeups": 900, "lock_acquisitions": 0, "failed_cas": 0}
NODES = 8


def matrix(pattern, total):
    """A total of something: all of node 0, anywhere, or each on its own node."""
    rows = np.full((NODES, NODES), 1 / NODES) / NODES
    if pattern == "one":
        rows = np.outer(np.full(NODES, 1 / NODES), np.arange(NODES) == 0)
    elif pattern == "own":
        rows = np.eye(NODES) / NODES
    return (rows * total).tolist()


def pattern_of(configuration):
    name = configuration.split("-")[0]
    if name in ("baseline", "synchronised"):
        return "one"
    return "any" if name == "interleaved" else "own"


def record(workload, configuration, number=0, **changes):
    """A run that did always the same, on nodes as its configuration has it."""
    pattern = pattern_of(configuration)
    workers = int(configuration[-1]) if configuration[-2:] in ("-1", "-2") else 48
    total = 8_000_000
    alone = [[total] + [0] * 7] + [[0] * 8] * 7
    near = matrix("own" if pattern == "own" else "any", total) if workers > 1 else alone
    eden = matrix(pattern, total) if workers > 1 else alone
    locality = {kind: near for kind in ("scanned", "scanned_young", "copied", "updated")}
    locality |= {"copied_from": eden, "promoted": matrix("any", 0)}
    eden = [80_000] + [0] * 7 if pattern == "one" else [10_000] * 8
    locality |= {"nodes": NODES, "workers": workers, "eden_pages": eden}
    if configuration.startswith("segregated"):
        locality["messages"] = matrix("any", 0.12 * total)
    is_free = configuration.startswith("naps") or "synchronised" in configuration
    queue, parking = ("lock-free", "futex") if is_free else ("locked", "monitor")
    events = {**EVENTS, "task_queue": queue, "parking": parking}
    if not is_free:
        events["lock_acquisitions"] = 4000
    values = {
        "printed.allocated_bytes": 8e9,
        "printed.wall_s": 5.0,
        "printed.cpu_s": 4.0,
        "printed.total_pause_s": 1.0,
        "printed.collections": 10,
        "printed.mutators": 8,
        "phase.copy_s": 0.8,
        "phase.resize_s": 0.2,
        **Locality.parse(locality, "made up").figures(),
    }
    counts = {"collections": 10, "locality": locality, "synchronisation": events}
    return {
        "key": f"{workload}: {configuration} | round {number}",
        "workload": workload,
        "variant": configuration,
        "control": False,
        "canary": None,
        "round": number,
        "values": {**values, **changes},
        "counts": counts,
    }


def everything(rounds=2):
    experiment = experiments.read(EXPERIMENT)
    return [
        record(one.name, name, number)
        for one in experiment.workloads
        for name, configuration in experiment.variants().items()
        for number in range(rounds)
        if one.name not in configuration.lacks
    ]


# ---- the statements ----


def test_the_experiment_runs_all_that_the_statements_are_about():
    experiment = experiments.read(EXPERIMENT)
    variants, names = experiment.variants(), [one.name for one in experiment.workloads]
    assert set(COUNTED) < set(variants)
    assert {form for forms in evidences.TIMED.values() for form in forms.values()} < set(variants)
    for statement in statements():
        ours = statement.ours
        assert ours.workload in names
        for name in filter(None, (ours.configuration, ours.against)):
            assert name in variants, statement.says
            assert ours.workload not in variants[name].lacks, statement.says
    # All workloads have every cure, and the runs that the model takes times and meetings from.
    needed = (*COUNTED, ALONE, *evidences.MEETING.values())
    assert not any(variants[name].lacks for name in needed)


@pytest.mark.parametrize("statement", statements(), ids=lambda one: one.says[:40])
def test_each_statement_can_hold_and_can_fail(statement, monkeypatch):
    least, most = statement.bounds
    inside = least if math.isfinite(least) else most
    outside = most * 1.01 + 0.01 if math.isfinite(most) else least * 0.99 - 0.01

    def verdict(*values):
        samples = {(number, ONCE): value for number, value in enumerate(values)}
        old = findings.QUANTITIES[statement.ours.quantity]
        new = findings.Quantity(lambda *_: samples, old.takes, old.is_modelled)
        with monkeypatch.context() as patch:
            patch.setitem(findings.QUANTITIES, statement.ours.quantity, new)
            return judge(statement, Evidence([]))

    is_modelled = statement.ours.source == "modelled"
    if is_modelled:
        everywhere = "modelled: holds for all parameters in their intervals"
        assert verdict(inside, inside).verdict == everywhere
        for one in (verdict(outside, outside), verdict(inside, outside)):
            assert one.verdict == "modelled: does not hold"
            assert "it holds at 0 of 100 points" in one.reason
    else:
        assert verdict(inside, inside).verdict == "holds"
        assert verdict(outside, outside).verdict == "does not hold"
        assert verdict(inside, outside).verdict == "undecided"
        assert "it holds of 1 of 2 samples" in verdict(inside, outside).reason
    assert verdict(math.nan).reason.startswith("no data")
    assert verdict(outside).reason.startswith(statement.ours.source)


@pytest.mark.parametrize("statement", statements(), ids=lambda one: one.says[:40])
def test_a_statement_without_runs_says_so(statement):
    found = judge(statement, Evidence([]))
    assert (found.verdict, found.ours) == ("undecided", "no data")
    assert found.reason.startswith(f"no data: no run of {statement.ours.workload} under ")


def test_a_number_of_threads_for_which_it_fails_is_enough(monkeypatch):
    statement = next(one for one in statements() if len(one.ours.threads) == 6)

    def rule(_evidence, _ours, threads):
        return {(0, BOUND): 0.2 if threads == 32 else 0.0}

    quantity = findings.Quantity(rule, frozenset({"against", "threads"}), True)
    monkeypatch.setitem(findings.QUANTITIES, statement.ours.quantity, quantity)
    found = judge(statement, Evidence([]))
    assert found.verdict == "modelled: does not hold"
    assert found.ours == "0 % to 20 %; 0 % to 20 % at all points"


def test_the_parameter_at_which_a_statement_flips_is_carried_into_its_verdict(monkeypatch):
    statement = next(one for one in statements() if one.says.startswith("Interleaved spaces raise"))

    def rule(evidence, _ours, _threads):
        """The gain falls with the latency that a thread waits for at once."""
        return {(0, BOUND): 0.25 * evidence.assumed.in_flight, (0, QUEUED): 0.5}

    quantity = findings.Quantity(rule, frozenset({"against", "threads"}), True)
    monkeypatch.setitem(findings.QUANTITIES, statement.ours.quantity, quantity)
    found = judge(statement, Evidence([]))
    lines = sorted(point.in_flight for point in box())
    low, high = max(one for one in lines if one < 1.5), min(one for one in lines if one >= 1.5)
    words = "lines that a collecting thread waits for at once"
    assert found.verdict == f"modelled: holds for {words} in [{(low + high) / 2:.3g}, 4]"
    held = sum(one >= 1.5 for one in lines)
    assert f"it holds at {held} of 100 points, with" in found.reason
    assert f"at {held} of {held}, else at 0 of {100 - held}" in found.reason
    ends = " to ".join(f"{25 * one:.3g} %" for one in (lines[0], lines[-1]))
    assert found.ours == f"50 % to 62.5 %; {ends} at all points"


OURS = {"quantity": "throughput-gain", "workload": "jbb", "configuration": "naps"}
VALID = {
    "says": "x",
    "section": "4",
    "unit": "percent",
    "figure": 0.5,
    "within": 2,
    "ours": {**OURS, "against": "baseline", "threads": [48]},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"at_least": 1}, "either within, or"),
        ({"within": None}, "either within, or"),
        ({"figure": 0}, "within is about a figure above 0"),
        ({"unit": "times"}, "within is about a figure above 1"),
        ({"ours": OURS}, "throughput-gain takes against, threads"),
        ({"ours": {**OURS, "quantity": "speed"}}, "no quantity speed among"),
        ({"ours": {**OURS, "quantity": "metric", "metric": "colections"}}, "no metric colections"),
        ({"ours": {**VALID["ours"], "threads": [49]}}, "less than or equal to 48"),
        ({"verdict": "holds"}, "Extra inputs"),
    ],
)
def test_wrong_statements_are_refused(changes, message):
    assert Statement.model_validate(VALID).bounds == (0.25, 1)
    with pytest.raises(ValidationError, match=message):
        Statement.model_validate(VALID | changes)


def test_what_is_twice_as_much_is_one_more():
    found = Statement.model_validate(VALID | {"unit": "times", "figure": 2.0})
    assert found.bounds == (1.5, 3)
    assert found.shown_bounds == "at least 1.5 times, at most 3 times"


# ---- from runs to figures ----


def test_gc_throughput_is_bytes_over_the_models_time():
    evidence = Evidence([record("jbb", name) for name in ("naps", "naps-48", ALONE)])
    costs = evidence.costs
    (host,) = evidence.hosts()
    assert costs.processor_ns == MIDDLE.slowdown * host.object_ns > 0
    counts = record("jbb", "naps")["counts"]
    time = collection_time(Run.parse(counts, "x"), PAPER, 16, costs)
    found = evidence.throughput("jbb", "naps", 16)
    assert found == {
        (0, BOUND): pytest.approx(8e9 / time.bound_s),
        (0, QUEUED): pytest.approx(8e9 / time.queued_s),
    }
    assert evidence.pause("jbb", "naps", 16)[(0, BOUND)] == pytest.approx(time.bound_s / 10)
    # On the host one thread takes 0.8 s for its objects and their lines.
    ((_, alone, seconds),) = evidence.alone()
    lines = sum(alone.fetched(1, Costs())).sum() * MIDDLE.host_line_ns
    assert (8e6 * host.object_ns + lines) * 1e-9 == pytest.approx(seconds) == pytest.approx(0.8)


def test_samples_are_compared_within_their_round():
    one, two = ({(0, ONCE): 3.0, (1, ONCE): 8.0}, {(1, ONCE): 4.0, (2, ONCE): 1.0})
    assert evidences.gain(one, two) == {(1, ONCE): 1.0}
    assert evidences.saving(two, one) == {(1, ONCE): 0.5}
    assert evidences.ratio(one, two) == {(1, ONCE): 2.0}
    assert math.isnan(evidences.ratio({(0, ONCE): 1.0}, {(0, ONCE): 0.0})[(0, ONCE)])
    with pytest.raises(Failure, match="no round has both runs"):
        evidences.ratio({(0, ONCE): 1.0}, {(1, ONCE): 1.0})


def test_the_control_failed_runs_and_the_canary_do_not_count():
    good = record("jbb", "naps")
    control, canary, failed = (record("jbb", "naps") for _ in range(3))
    control["control"], canary["canary"] = True, 0
    del failed["values"]
    assert Evidence([good, control, canary, failed]).rounds("jbb", "naps") == {0: good}
    with pytest.raises(Failure, match="no run of jbb under naps"):
        Evidence([control, canary, failed]).rounds("jbb", "naps")


def test_counted_figures():
    evidence = Evidence(everything(1))
    assert evidence.remote_discoveries("jbb", "segregated") == {(0, ONCE): pytest.approx(0.12)}
    with pytest.raises(Failure, match="jbb under naps sent no messages"):
        evidence.remote_discoveries("jbb", "naps")
    with pytest.raises(Failure, match="scanned no old object"):
        evidence.remote_old_scans("jbb", "naps")
    with pytest.raises(Failure, match=r"jbb under naps has no printed\.nothing"):
        evidence.values("jbb", "naps", "printed.nothing")
    with pytest.raises(Failure, match="segregated spaces need a worker on each of 8 nodes"):
        evidence.throughput("jbb", "segregated", 4)


def test_synchronisation_is_that_of_workers_that_met():
    alone, met = record("jbb", "naps"), record("jbb", "naps-48")
    alone["counts"]["synchronisation"]["wakeups"] = 0
    met["counts"]["collections"] = 5
    run = Evidence([alone, met]).events("jbb", "naps")[0]
    assert (run.collections, run.synchronisation.wakeups) == (10, 2 * EVENTS["wakeups"])
    with pytest.raises(Failure, match="no run of jbb under baseline-48"):
        Evidence([record("jbb", "fragmented"), met]).events("jbb", "fragmented")


def test_a_run_that_counted_no_synchronisation_is_named():
    one = record("jbb", "naps-48")
    del one["counts"]["synchronisation"]
    others = [record("jbb", name) for name in ("naps", "fragmented", "baseline-48", ALONE)]
    statement = next(said for said in statements() if said.says.startswith("Beside fragmented"))
    found = judge(statement, Evidence([one, *others]))
    assert found.verdict == "undecided"
    assert "jbb under naps-48: synchronisation is no object" in found.reason


def verdicts(records):
    return {one.statement.says: one for one in findings.findings(Evidence(records, points=8))}


def test_verdicts_of_made_up_runs():
    """All of eden on one node, then in turns, then near: the paper's order of things."""
    records = everything()
    for one in records:
        if one["variant"] == "fragmented-fixed":
            one["values"]["printed.collections"] = 18
    found = verdicts(records)
    by_start = lambda start: next(one for says, one in found.items() if says.startswith(start))  # noqa: E731
    assert by_start("Under segregated").verdict == "holds"
    assert by_start("Under segregated").ours == "12 %"
    assert by_start("Parallel Scavenge's own").verdict == "holds"
    assert by_start("Parallel Scavenge's own").ours == "1.8 times"
    assert by_start("They spend 20 %").verdict == "holds"
    assert by_start("When one thread initialises").verdict == "holds"
    assert by_start("Interleaved spaces raise").values[0] > 0.375
    assert "2 rounds" in by_start("Interleaved spaces raise").reason
    # 8 million objects: synchronisation is little beside them.
    assert max(by_start("Beside fragmented").values) < 0.15
    for one in records:
        if one["variant"] == "fragmented-fixed" and one["round"] == 1:
            one["values"]["printed.collections"] = 10
        if one["variant"] == "segregated":
            one["counts"]["locality"]["messages"] = matrix("any", 8_000_000)
    found = verdicts(records)
    assert by_start("Parallel Scavenge's own").verdict == "undecided"
    assert by_start("Under segregated").verdict == "does not hold"


# ---- the application ----


def test_application_time_is_that_of_its_lines():
    """Memory-bound, all lines of one node go through one controller."""
    application = Application(8, 64e6, 0.0)
    lines = 64e6 / LINE
    counted = {
        pattern: Locality.parse(record("jbb", name)["counts"]["locality"], "x")
        for pattern, name in (("one", "baseline"), ("any", "interleaved"), ("own", "naps"))
    }
    one = application.time(PAPER, counted["one"], on_own_node=False)
    assert one.utilisation["controller 0"] * one.bound_s == pytest.approx(
        2 * lines * PAPER.controller_ns * 1e-9
    )
    evenly = application.time(PAPER, counted["any"], on_own_node=False)
    own = application.time(PAPER, counted["own"], on_own_node=True)
    assert own.bound_s == pytest.approx(lines / 8 * PAPER.local_ns * 1e-9)
    assert own.bound_s < evenly.bound_s < one.bound_s
    # What computes much gains little.
    busy = Application(8, 64e6, 10.0)
    own = busy.time(PAPER, counted["own"], on_own_node=True, slowdown=3.0)
    assert own.bound_s == pytest.approx(3 * 1.25 + lines / 8 * PAPER.local_ns * 1e-9)
    # What the lines take on the host is no processor time.
    fast = Application(8, 64e6, lines * 10e-9).time(
        PAPER, counted["own"], on_own_node=True, slowdown=3.0, host_line_ns=10.0
    )
    assert fast.bound_s == pytest.approx(lines / 8 * PAPER.local_ns * 1e-9)
    nothing = Locality(8, 48, counted["own"].counts, {})
    with pytest.raises(Failure, match="no pages of eden"):
        application.time(PAPER, nothing, on_own_node=False)


def test_an_eden_that_fits_into_a_cache_tells_nothing_of_the_application():
    small = record("jbb", "naps")
    small["counts"]["locality"]["eden_pages"] = [1000] * 8
    with pytest.raises(Failure, match=r"eden of jbb is 3\.1 MB under naps, less than a cache"):
        Evidence([small, record("jbb", ALONE)]).application("jbb", "naps")


def test_promoted_objects_are_copied_too():
    document = record("jbb", "naps")["counts"]
    before = sum(Run.parse(document, "x").fetched(48, Costs())).sum()
    document["locality"]["promoted"] = matrix("any", 1000)
    document["locality"]["scanned"] = matrix("own", 8_000_000 + 1000)
    after = Run.parse({**document, "promoted_bytes": 128_000}, "x")
    # Two lines each, from an old place of 2.44 to a new one, half of which leaves the caches.
    more = 1000 * (2 + 7 / 16 + 2 * 1.5)
    assert sum(after.fetched(48, Costs())).sum() == pytest.approx(before + more, rel=1e-3)


def test_survivors_bytes_come_from_what_a_run_printed():
    sized = record("jbb", "naps", **{"printed.survived_bytes": 8_000_000 * 32})
    run = Evidence([sized]).counted("jbb", "naps")[0]
    assert (run.survived_bytes, run.promoted_bytes) == (8_000_000 * 32, None)
    new = run.fetched(48, Costs(left_cache=0.0))[1]
    assert new.sum() == pytest.approx(4_000_000)


# ---- the page ----


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    directory = tmp_path_factory.mktemp("findings")
    results = ResultSet.create(directory / "runs", EXPERIMENT.read_text())
    for one in everything():
        if one["workload"] != "agents":
            results.append(one)
    words = ["findings", str(results.path), "--out", str(directory)]
    assert cli.main(words) == 0
    return directory


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_opens_fits_and_nothing_overlaps(out, tmp_path, scheme):
    text = (out / "findings.html").read_text()
    assert "(counted and modelled)" in re.search("<h1>.*</h1>", text)[0]
    found, _, _ = look(out / "findings.html", scheme, tmp_path)
    assert found == []


def test_pictures_and_tables_say_where_their_figures_are_from(out):
    for name in ("figure-4", "figure-5", "figure-6", "figure-7"):
        drawing = (out / f"{name}.svg").read_text()
        assert "MODELLED, not measured" in drawing
        assert "(modelled)" in drawing
        assert (out / f"{name}.png").stat().st_size > 10_000
    kinds = r"\((modelled|counted|measured|the paper's own figures|.*: last column)\)$"
    tables = sorted(out.glob("findings-*.csv"))
    assert len(tables) == 15
    for path in tables:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows, path
        assert all(re.search(kinds, row["source"]) for row in rows), path


def test_the_tables_hold_what_was_counted(out):
    def rows(name):
        with (out / f"findings-{name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    eden = {row["configuration"]: row["jbb"] for row in rows("table-4") if row["of"] == "eden"}
    assert eden == {name: "2.65" if pattern_of(name) == "one" else "0.00" for name in COUNTED}
    assert {row["space"]: row["load balancing"][0] for row in rows("table-2")} == {
        "Parallel Scavenge": "-",
        "Interleaved": "+",
        "Fragmented": "+",
        "Segregated": "+",
    }
    assert [row["young scan"][0] for row in rows("table-2")] == ["-", "-", "+", "+"]
    assert [row["old scan"] for row in rows("table-2")] == ["no data"] * 4
    pauses = {row["workload"]: row for row in rows("table-5")}
    assert pauses["cipher"]["the paper's, ms"] == "Crypto AES: 25.6 to 9"
    segregated = [row for row in rows("throughput") if row["configuration"] == "segregated"]
    assert segregated[0]["4"] == "no data"
    assert segregated[0]["8"] != "no data"
    limits = next(row for row in rows("limits") if row["workload"] == "gcbench-1")
    assert limits["baseline"] == "controller 0"
    assert "controller" not in limits["interleaved"] + limits["naps"]
    assert [row["parameter"] for row in rows("intervals")] == [one.words for one in PARAMETERS]
    fits = [row["fitted to"] for row in rows("costs")]
    assert fits[:2] == ["all workloads", "all but jbb"]
    host = rows("host")
    assert (host[0]["workload"], host[0]["GC throughput, GB/s"]) == ("jbb", "8")
    assert len(rows("statements")) == len(statements())


def test_the_tables_are_a_page_of_documentation_too():
    text = evaluation.page(Evidence([record("index", "baseline")]), "x").markdown()
    head, *rows = [line for line in text.splitlines() if line.startswith("| ")][:3]
    assert head.startswith("| section | the paper says |")
    assert all(row.count(" | ") == head.count(" | ") for row in rows)
    assert "\n\n\n" not in text
    assert "## Table 4 of our runs, means over rounds (counted)" in text


def test_a_result_set_without_runs_is_refused(tmp_path, capsys):
    results = ResultSet.create(tmp_path / "runs", EXPERIMENT.read_text())
    assert cli.main(["findings", str(results.path)]) == 2
    assert "has no runs yet" in capsys.readouterr().err


def test_one_workload_is_enough_for_a_page():
    page = evaluation.page(Evidence([record("index", "baseline")]), "x")
    assert list(page.figures) == ["figure-7"]
    assert page.tables[0].rows[0][5] == "undecided"


def test_a_run_keeps_what_it_counted_by_node():
    printed = {**record("jbb", "naps")["counts"], "wall_s": 1.0}
    line = json.dumps({"workload": "x", "library": "none", "wall_s": 1.0, "printed": printed})
    found = workload.read_line(line, "", 0, True, 1)
    assert found["counts"] == record("jbb", "naps")["counts"]
    assert found["values"]["imbalance.eden"] == 0
    del printed["locality"]
    line = json.dumps({"workload": "x", "library": "none", "wall_s": 1.0, "printed": printed})
    assert "counts" not in workload.read_line(line, "", 0, True, 1)
