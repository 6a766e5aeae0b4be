#!/usr/bin/env python3
"""Count what a test step reported.

    tally.py KIND STATUS LOG      print "PASSED FAILED" for one step
    tally.py --self-test          prove the counting

STATUS is the step's exit status, LOG its captured output, and KIND says how
the step reports:

    status   it has no tally: it is one check, passed if it exits with 0
    cargo    `cargo test`: the sum of its "test result:" lines
    tally    the sum of its "N passed, N failed" lines
    total    the last of them, which is the sum of the others
    pytest   its last summary line, such as "1 failed, 54 passed in 3.41s"

A step that should report a tally and does not, or reports that nothing ran (of
kind tally: that nothing ran in one of its runs), or exits with an error without
naming a failure, counts as one failure: silence is never success.
"""

import re
import sys
from itertools import takewhile

from checks import compared, report

KINDS = ("status", "cargo", "tally", "total", "pytest")
BINARY = re.compile(r"^ +Running (?:unittests )?(\S+) \((\S+)\)|^test result: .* finished in ([\d.]+)s", re.M)
TOOK = re.compile(r"^# took ([\d.]+) s: (.+)$", re.M)
DURATION = re.compile(r"^([\d.]+)s (?:call|setup|teardown) +(\S+)", re.M)
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;", re.M)
TALLY = re.compile(r"^(\d+) passed, (\d+) failed\s*$", re.M)
PYTEST = re.compile(r"^=* ?((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.M)
FAILURE = re.compile(r"^(?:FAILED\b.*|not ok .*|ERROR tests?/.*|error(?:\[\w+\])?: .*|test .* \.\.\. FAILED)$", re.M)
CARGO_TEST = re.compile(r"test (\S+) \.\.\. FAILED$")
MOST_REASONS = 8
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def count(kind, status, text):
    """(passed, failed) of one step."""
    if kind not in KINDS:
        raise SystemExit(f"tally.py: unknown kind {kind!r}")
    text = COLOUR.sub("", text).replace("\r", "\n")
    if kind == "status":
        return (1, 0) if status == 0 else (0, 1)
    if kind == "cargo":
        pairs = CARGO.findall(text)
    elif kind in ("tally", "total"):
        pairs = TALLY.findall(text)[-1 if kind == "total" else 0:]
    else:
        summary = PYTEST.findall(text)[-1:]
        named = [dict((word, number) for number, word in re.findall(r"(\d+) (\w+)", line)) for line in summary]
        pairs = [(line.get("passed", 0), sum(int(line.get(word, 0)) for word in ("failed", "error", "errors")))
                 for line in named]
    passed = sum(int(pair[0]) for pair in pairs)
    failed = sum(int(pair[1]) for pair in pairs)
    if kind == "tally":
        failed += pairs.count(("0", "0"))
    if failed == 0 and (status != 0 or passed == 0):
        failed = 1
    return passed, failed


def took(text):
    """[(seconds, test)] of what a step's log says of single tests: test binaries of cargo, tests of pytest that it names
    as slow, and lines "# took SECONDS s: TEST" of other runners."""
    text = COLOUR.sub("", text)
    found, binary = [], None
    for source, program, seconds in BINARY.findall(text):
        if source:
            binary = f"{source} ({program.rsplit('/', 1)[-1].rsplit('-', 1)[0]})"
        elif binary:
            found.append((float(seconds), binary))
    found += [(float(seconds), name) for seconds, name in TOOK.findall(text) + DURATION.findall(text)]
    return found


def failures(text):
    """The lines of a failed step's log that name what failed, each once and followed by what the log says of it, indented;
    where none does, the last lines that say anything."""
    lines = COLOUR.sub("", text).replace("\r", "\n").splitlines()
    named = {line.strip(): reasons(lines, number) for number, line in reversed(list(enumerate(lines))) if FAILURE.match(line)}
    if not named:
        return [line.strip() for line in lines if line.strip()][-3:]
    return [line for name in reversed(named) for line in [name, *named[name]]]


def reasons(lines, number):
    """What a log says of the failure that its line of this number names: comments before a test's line, the block that cargo
    prints of a test, lines that are set in after one."""
    before, after = lines[max(number - MOST_REASONS, 0):number][::-1], lines[number + 1:]
    name = CARGO_TEST.match(lines[number])
    if name:
        block = f"---- {name[1]} stdout ----"
        after = after[after.index(block) + 1:] if block in after else []
        after = [line for line in takewhile(lambda line: not line.startswith(("stack backtrace:", "---- ")), after) if line.strip()]
    elif lines[number].startswith("not ok "):
        after = list(takewhile(lambda line: line.startswith("#"), before))[::-1]
    else:
        after = list(takewhile(lambda line: line.startswith("  "), after))
    return [f"    {line.strip()}" for line in after[:MOST_REASONS]]


def self_test():
    """Each case is (what, got, wanted)."""
    cargo = ("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n"
             "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n")
    binaries = ("     Running tests/place.rs (target/debug/deps/place-64ae)\n"
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.19s\n")
    cases = [
        ("what a test binary took", took(binaries), [(0.19, "tests/place.rs (place)")]),
        ("what a program took", took("# took 3.2 s: typed\n1 passed, 0 failed\n"), [(3.2, "typed")]),
        ("what pytest says", took("12.50s call     tests/a.py::test_b\n"), [(12.5, "tests/a.py::test_b")]),
        ("what failed, of every kind", failures("ok: a\nFAILED: b\n    1 instead of 2\ntest c ... FAILED\ntest d ... ok\nnot ok 3 - e\nFAILED tests/f.py::g - h\n"
                                                "\x1b[31merror[E0308]\x1b[0m: i\n"),
         ["FAILED: b", "    1 instead of 2", "test c ... FAILED", "not ok 3 - e", "FAILED tests/f.py::g - h", "error[E0308]: i"]),
        ("a failure that is named twice", failures("test c ... FAILED\ntest c ... FAILED\n"), ["test c ... FAILED"]),
        ("what a test of cargo said", failures("test c ... FAILED\nfailures:\n\n---- c stdout ----\n\nthread 'c' panicked at d.rs:1:\n1 is not 2\nstack backtrace:\n   0: e\n"),
         ["test c ... FAILED", "    thread 'c' panicked at d.rs:1:", "    1 is not 2"]),
        ("what a program said before", failures("ok 1 - a\n# b.c:3: x == 0\n#   left 1, right 0\nnot ok 2 - c\n#   stderr: d\n"),
         ["not ok 2 - c", "    # b.c:3: x == 0", "    #   left 1, right 0"]),
        ("a failure without a name", failures("a\nb\n\nc\nd\n"), ["b", "c", "d"]),
        ("a check that passes", count("status", 0, ""), (1, 0)),
        ("a check that fails", count("status", 2, "9 passed, 0 failed\n"), (0, 1)),
        ("the sum over test binaries", count("cargo", 101, cargo), (5, 1)),
        ("tests that do not compile", count("cargo", 101, "error[E0308]\n"), (0, 1)),
        ("a test binary that dies", count("cargo", 101, cargo.splitlines()[0]), (3, 1)),
        ("no tests at all", count("cargo", 0, ""), (0, 1)),
        ("a step of two runs", count("tally", 0, "4 passed, 0 failed\n9 passed, 0 failed\n"), (13, 0)),
        ("a step whose first run failed", count("tally", 2, "4 passed, 1 failed\n"), (4, 1)),
        ("a step that adds up itself", count("total", 0, "4 passed, 0 failed\n9 passed, 0 failed\n"), (9, 0)),
        ("a failure behind exit status 0", count("tally", 0, "4 passed, 2 failed\n"), (4, 2)),
        ("a tally in colour", count("tally", 0, "\x1b[32m4 passed, 0 failed\x1b[0m\n"), (4, 0)),
        ("a runner that says nothing", count("tally", 0, "done\n"), (0, 1)),
        ("a runner that dies after its tally", count("tally", 139, "4 passed, 0 failed\n"), (4, 1)),
        ("pytest", count("pytest", 0, "....\n54 passed, 3 warnings in 3.41s\n"), (54, 0)),
        ("pytest with failures", count("pytest", 1, "== 1 failed, 54 passed, 2 errors in 3.4s (0:00:03) ==\n"), (54, 3)),
        ("pytest that collects nothing", count("pytest", 5, "no tests ran in 0.01s\n"), (0, 1)),
        ("a step of two runs, one of them empty", count("tally", 0, "4 passed, 0 failed\n0 passed, 0 failed\n"), (4, 1)),
        ("an empty run", count("tally", 0, "0 passed, 0 failed\n"), (0, 1)),
    ]
    return report(compared(cases))


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    kind, status, log = sys.argv[1:]
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            print(*count(kind, int(status), file.read()))
    except (OSError, ValueError) as error:
        raise SystemExit(f"tally.py: STATUS is a number and LOG a file: {error}") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
