#!/usr/bin/env python3
"""Run test steps over the processors and add up what they report.

    steps.py STEP:KIND[:MARK]...
    steps.py --self-test          prove the order and the table

STEP is a make target, KIND how it reports (see scripts/tally.py). One step more runs at once than there are processors that
this process may use, since steps also wait, in the order given; a step marked `alone` runs while no other does, and none after one marked `first`
starts before it ended, but others so marked. A failed step does not stop the others. Once the step `build` has passed, make gets IS_BUILT=1:
later steps build nothing. What a step prints appears when it ends. Logs lie in target/steps/, with what each step took
(times.tsv: seconds, seconds of processor time); the last line, also in target/steps/result, is "N passed, N failed". A step
that takes a fifth more of the whole's processor time than scripts/step-times.tsv says is named, and so are the tests that
took longest; what failed is told again before the last line. One run at a time in a tree, since logs are the tree's; one
that a signal ends takes the steps under way with it.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import tally
from checks import compared, end_with_family, ends_when_told, left_running, only_one, report

LOGS = pathlib.Path("target/steps")
KEPT = pathlib.Path(__file__).with_name("step-times.tsv")
# Seconds of silence after which the steps under way are named, and seconds below which growing is noise; tests named as slow, and lines of failures at the end.
SILENCE, SMALL = 60, 10
SLOWEST = 10
MOST_FAILURES = 60
# Targets that are called like steps and are none: they run others, or need what few machines have, or hours.
NO_STEPS = {"check-quick", "test-clients", "test-conformance", "test-embed", "test-long", "test-miri", "test-mutants", "test-mutants-pure"}


class Step:
    """A step: first waiting, then under way, then with what it took."""

    def __init__(self, spec):
        self.name, _, rest = spec.partition(":")
        self.kind, *marks = rest.split(":")
        if self.kind not in tally.KINDS or self.name.startswith("-"):
            raise SystemExit(f"steps.py: {spec} is no STEP:KIND[:MARK]; kinds are {', '.join(tally.KINDS)}")
        if marks not in ([], ["alone"], ["first"]):
            raise SystemExit(f"steps.py: {spec}: a step has one mark, alone or first")
        self.alone, self.first = marks == ["alone"], marks == ["first"]
        self.passed = self.failed = 0
        self.wall = self.cpu = 0.0
        self.took = []
        self.failures = []

    def start(self):
        """Its make target, writing to its log."""
        self.log = LOGS / f"{self.name}.log"
        self.began = time.monotonic()
        make = [os.environ.get("MAKE", "make"), "--no-print-directory", self.name]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(make, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def stop(self):
        """Ends the step with all that it has started."""
        end_with_family(self.process)

    def end(self, status, usage):
        """It ended so, after this use of processors by it and its children."""
        self.wall = time.monotonic() - self.began
        self.cpu = usage.ru_utime + usage.ru_stime
        self.process.returncode = os.waitstatus_to_exitcode(status)
        text = self.log.read_text(errors="replace")
        self.passed, self.failed = tally.count(self.kind, self.process.returncode, text)
        self.took = [(seconds, f"{self.name}: {test}") for seconds, test in tally.took(text)]
        self.failures = [f"{self.name}: {line}" for line in tally.failures(text)] if self.failed else []
        if self.name == "build" and not self.failed:
            os.environ["IS_BUILT"] = "1"  # what make passes on: later steps build nothing
        print(f"\n== make {self.name}\n{text}", end="" if text.endswith("\n") else "\n", flush=True)


def may_start(step, running, lanes):
    """Whether a step may start beside those that run."""
    if any(other.first for other in running) and not step.first:
        return False
    if step.alone or any(other.alone for other in running):
        return not running
    return len(running) < lanes


def run(steps, lanes):
    """Runs them all, in order; if that is interrupted, nothing goes on."""
    running = {}
    try:
        run_in_order(list(steps), running, lanes)
    finally:
        for step in running.values():
            step.stop()


def run_in_order(waiting, running, lanes):
    """Runs those that wait; `running` has those under way."""
    told = time.monotonic()
    while waiting or running:
        while waiting and may_start(waiting[0], running.values(), lanes):
            step = waiting.pop(0)
            step.start()
            running[step.process.pid] = step
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid in running:
            running.pop(pid).end(status, usage)
            told = time.monotonic()
        elif pid == 0:
            time.sleep(0.1)
        if time.monotonic() - told > SILENCE:
            told = time.monotonic()
            under_way = ", ".join(f"{step.name} for {told - step.began:.0f} s" for step in running.values())
            print(f"... {under_way}; {len(waiting)} to come", flush=True)


def grown(times, kept):
    """(name, seconds, seconds expected) of the steps that grew by a fifth, given what both runs took in all."""
    common = [name for name in times if name in kept]
    scale = sum(times[name] for name in common) / (sum(kept[name] for name in common) or 1)
    return [(name, times[name], kept[name] * scale) for name in common
            if times[name] > max(kept[name] * scale * 1.2, kept[name] * scale + SMALL)]


def parse_times(text, name):
    """Seconds of processor time by step, in the text of that file."""
    times = {}
    for number, line in enumerate(text.splitlines()[1:], 2):
        try:
            step, _, cpu = line.split("\t")
            times[step] = float(cpu)
        except ValueError:
            raise SystemExit(f"steps.py: line {number} of {name} is no step with two numbers: {line!r};"
                             " copy target/steps/times.tsv of a whole run there") from None
    return times


def left_out(makefile):
    """The checks and tests of a Makefile that none of its lists of steps has."""
    targets = {word for words in re.findall(r"^([a-z][a-z0-9 -]*):(?!=)", makefile, re.M) for word in words.split()
               if word.startswith(("check-", "test-"))}
    steps = re.findall(rf"(?<![\w-])([a-z0-9-]+):(?:{'|'.join(tally.KINDS)})\b", makefile)
    return sorted(targets - set(steps) - NO_STEPS)


def unproved(makefile, scripts):
    """The scripts, by name, that can prove themselves and that a Makefile does not ask to."""
    return sorted(name for name, text in scripts.items()
                  if '"--self-test"' in text and f"scripts/{name} --self-test\n" not in makefile)


def refused(text):
    """Whether times are refused."""
    try:
        return parse_times(text, "times") is None
    except SystemExit:
        return True


def second_is_refused():
    """Whether a folder of logs serves one run."""
    with tempfile.TemporaryDirectory() as folder:
        lock = only_one(folder)
        try:
            return only_one(folder) is None
        except SystemExit:
            return True
        finally:
            os.close(lock)


def grandchild_is_stopped():
    """Whether what a step has started ends with it."""
    step = Step("a:status")
    step.process = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE)
    # Its output ends when nobody holds it any more.
    started = step.process.stdout.readline()
    step.stop()
    return bool(started) and step.process.stdout.read() == b""


def self_test():
    """Each case is (what, got, wanted)."""
    makefile = (KEPT.parent.parent / "Makefile").read_text()
    plain, lone, first = Step("a:status"), Step("b:tally:alone"), Step("c:status:first")
    cases = [
        ("the first step", may_start(plain, [], 1), True),
        ("one processor, one step", may_start(plain, [plain], 1), False),
        ("two processors", may_start(plain, [plain], 2), True),
        ("a step that runs alone waits", may_start(lone, [plain], 2), False),
        ("and is left alone", may_start(plain, [lone], 2), False),
        ("it runs when nothing does", may_start(lone, [], 2), True),
        ("what others need runs beside those before it", may_start(first, [plain], 2), True),
        ("and nothing after it starts", may_start(plain, [first], 2), False),
        ("but for what others need, too", may_start(first, [first], 2), True),
        ("a machine of half the speed", grown({"a": 100, "b": 200}, {"a": 50, "b": 100}), []),
        ("a step that grew", [name for name, *_ in grown({"a": 100, "b": 200, "c": 99}, {"a": 100, "b": 100, "c": 100})], ["b"]),
        ("a new step", grown({"a": 100, "b": 900}, {"a": 100}), []),
        ("a test that is no step", left_out("S := test-a:cargo\ntest-a: build\ntest-b: build\ncheck-quick:\n"), ["test-b"]),
        ("the second of two targets, and one with a number", left_out("S := test-a:cargo\ntest-a test-b: build\ntest-2:\n"), ["test-2", "test-b"]),
        ("tests of the Makefile that are no steps", left_out(makefile), []),
        ("a self-test that is not run", unproved("\tpython3 scripts/a.py --self-test\n", dict.fromkeys(("a.py", "b.py"), '"--self-test"')), ["b.py"]),
        ("self-tests of scripts that are not run", unproved(makefile, {path.name: path.read_text() for path in KEPT.parent.glob("*.py")}), []),
        ("times", parse_times("step\twall_s\tprocessor_s\na\t3\t2\n", "times"), {"a": 2.0}),
        ("times that are cut off", [refused(f"step\nb\t1\t1\n{line}") for line in ("a", "a\t3", "a\t3\t")], [True] * 3),
        ("the times that are kept", refused(KEPT.read_text()), False),
        ("a second run in one tree", second_is_refused(), True),
        ("a step that is stopped", grandchild_is_stopped(), True),
        ("what a script runs when it is told to end", left_running(
            "import sys, checks; checks.ends_when_told(); checks.run_to_end(['sh', '-c', sys.argv[1]])"), []),
        ("a few seconds", grown({"a": 9, "b": 100}, {"a": 2, "b": 100}), []),
    ]
    return report(compared(cases))


def main():
    """The command."""
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if not sys.argv[1:]:
        raise SystemExit(__doc__)
    steps = [Step(spec) for spec in sys.argv[1:]]
    kept = parse_times(KEPT.read_text(), KEPT.name) if KEPT.exists() else {}
    os.chdir(pathlib.Path(__file__).parent.parent)
    LOGS.mkdir(parents=True, exist_ok=True)
    only_one(LOGS)
    ends_when_told()
    for old in LOGS.iterdir():
        old.unlink()
    result = LOGS / "result"
    result.write_text("0 passed, 1 failed\n")  # stands if this process is killed
    began = time.monotonic()
    run(steps, len(os.sched_getaffinity(0)) + 1)
    wall = time.monotonic() - began

    print(f"\n{'step':28} {'passed':>6} {'failed':>6} {'time':>8} {'processor':>10}")
    for step in steps:
        print(f"{step.name:28} {step.passed:6} {step.failed:6} {step.wall:7.0f}s {step.cpu:9.0f}s")
    print(f"{'':28} {'':6} {'':6} {wall:7.0f}s {sum(step.cpu for step in steps):9.0f}s")
    rows = "".join(f"{step.name}\t{step.wall:.0f}\t{step.cpu:.0f}\n" for step in steps)
    (LOGS / "times.tsv").write_text("step\twall_s\tprocessor_s\n" + rows)
    for name, seconds, expected in grown({step.name: step.cpu for step in steps}, kept):
        print(f"{name} grew: {seconds:.0f} s of processor time, {expected:.0f} expected ({KEPT.name})")
    slowest = sorted((pair for step in steps for pair in step.took), reverse=True)[:SLOWEST]
    print("\nthe slowest tests:", *(f"{seconds:7.1f}s {test}" for seconds, test in slowest), sep="\n")
    failures = [line for step in steps for line in step.failures]
    if failures:
        print("\nwhat failed:", *(f"    {line}" for line in failures[:MOST_FAILURES]), sep="\n")
        if len(failures) > MOST_FAILURES:
            print(f"    and {len(failures) - MOST_FAILURES} more, in {LOGS}/")
    line = f"{sum(step.passed for step in steps)} passed, {sum(step.failed for step in steps)} failed"
    result.write_text(line + "\n")
    print(f"\n{line}", flush=True)
    return 1 if any(step.failed for step in steps) else 0


if __name__ == "__main__":
    sys.exit(main())
