#!/usr/bin/env python3
"""Every experiment of the lab, with one round, and on tiny inputs where its programs have such: whether it can be run at all.

    experiments.py [--out DIR] [NAME]...    those, or all; results go to DIR (target/experiments)
    experiments.py --self-test              prove what is left out

An experiment that compares with rivals or with an earlier commit is run where that was built (`make rivals`,
`make before COMMIT=...`), and named otherwise. The last line is "N passed, N failed".
"""

import argparse
import json
import pathlib
import re
import shutil
import sys
import tempfile
import time

from checks import compared, ends_when_told, left_running, only_one, report, run_to_end

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXPERIMENTS = ROOT / "lab/experiments"
LAB = ROOT / "target/lab/venv/bin/gleaner-lab"
# Seconds after which a process on tiny inputs counts as hung, as Guile may in a heap that is too small for it.
HUNG_S = 60
# What `make rivals` does not build, by the ends of the targets that do.
TARGETS = {"java-real": "-java-real", "wasmtime": "-wasm", "node": "-wasm", "gleaner": "-wasm", "wasm": "-wasm"}
# Configurations of stock libgc that end some programs by themselves: with its incremental mode some system calls of theirs
# write to memory that is write-protected.
CRASHES = ("libgc-incremental",)


def lacks(text, exists):
    """What an experiment, given the text of its file, needs that is not built, if anything."""
    text = re.sub(r"^ *#.*$", "", text, flags=re.M)
    if builds := [path for path in re.findall(r"\bbuild: *([^\s,}]+)", text) if not exists(path)]:
        return f"{builds[0]}: make before COMMIT=..."
    for rival in sorted(set(re.findall(r"\{rivals\}/([\w-]+)", text))):
        if not exists(f"target/rivals/{rival}"):
            return f"a rival, {rival}: make rivals{TARGETS.get(rival, '')}"
    return None


def gone(makefile, names):
    """What a Makefile measures that is no experiment of these names."""
    lists = re.findall(r"^(?:BENCH_EXPERIMENTS|\w+_BENCHES) := ((?:.*\\\n)*.*)", makefile, flags=re.M)
    return sorted({word.removeprefix("bench-") for words in lists for word in words.replace("\\", "").split()} - set(names))


def shorter(text):
    """What leaves out most of an experiment whose programs have no tiny inputs: real ones of Java take hours. The first and the
    last of them stay, in the largest of its heaps."""
    if "{rivals}/java-real" not in text:
        return []
    names = re.findall(r"^  - \{name: ([\w-]+)", text, flags=re.M)
    words = [word for name in (names[0], names[-1]) for word in ("--only", name)]
    if multiples := re.search(r"multiples: \[(.*?)\]", text):
        words += ["--multiple", max(multiples[1].split(", "), key=float)]
    return [*words, "--iteration", "2"]


def crashes_alone(record):
    """Whether a run failed as stock libgc does without us."""
    return record["problem"].startswith("signal: 11") and any(f": {name} |" in record["key"] for name in CRASHES)


def problems(out, status, said):
    """What went wrong: not that a bar is violated, of which tiny inputs say nothing."""
    runs = out / "runs.jsonl"
    try:
        records = [json.loads(line) for line in runs.read_text().splitlines()] if runs.exists() else []
    except json.JSONDecodeError as error:
        return [f"{runs} is cut off: {error}"]
    failed = [f"{record['key']}: {record['problem']}" for record in records if "problem" in record and not crashes_alone(record)]
    if failed or not records or status not in (0, 1, 3):
        return [*failed[:10], *(f"| {line}" for line in said[-20:])] or [f"exit status {status}"]
    return []


# One experiment by a lab that runs a command, which is told to end.
TOLD = """
import pathlib, sys
import experiments
command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
experiments.LAB = folder / "lab"
experiments.LAB.write_text(f"#!/bin/sh\\n{command}\\n")
experiments.LAB.chmod(0o755)
sys.argv = ["experiments.py", "--out", str(folder / "out"), "hot-costs"]
experiments.main()
"""


def self_test():
    """Each case is (what, got, wanted)."""
    there, missing = (lambda _: True), (lambda _: False)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        silent = problems(out, 0, [])
        (out / "runs.jsonl").write_text('{"key": "a"}\n')
        whole, ended = problems(out, 1, []), problems(out, 2, ["no"])
        (out / "runs.jsonl").write_text('{"key": "a", "problem": "b"}\n')
        told = problems(out, 0, [])
        (out / "runs.jsonl").write_text('{"key": "a: libgc-incremental | 0", "problem": "signal: 11 (SIGSEGV)"}\n')
        stock = problems(out, 1, [])
        (out / "runs.jsonl").write_text('{"key": "a: incremental | 0", "problem": "signal: 11 (SIGSEGV)"}\n')
        ours = problems(out, 1, [])
        (out / "runs.jsonl").write_text('{"key": "a"}\n{"key')
        cut = problems(out, 0, [])
    cases = [
        ("an experiment that made no run", silent, ["exit status 0"]),
        ("one that made runs, and violates a bar", whole, []),
        ("one that ends otherwise", ended, ["| no"]),
        ("a run that failed", told, ["a: b"]),
        ("stock libgc that crashes in its incremental mode", stock, []),
        ("a heap of ours that crashes", ours, ["a: incremental | 0: signal: 11 (SIGSEGV)"]),
        ("results that are cut off", ["cut off" in problem for problem in cut], [True]),
        ("an experiment that needs nothing", lacks("name: x", missing), None),
        ("rivals that are not built", lacks("command: '{rivals}/mmtk'", missing), "a rival, mmtk: make rivals"),
        ("an earlier build that is there", lacks("before: {build: target/before/release, options: {}}",
                                                 "target/before/release".__eq__), None),
        ("rivals of which one is built", lacks("[\"{rivals}/go\", \"{rivals}/java-real\"]", "target/rivals/go".__eq__),
         "a rival, java-real: make rivals-java-real"),
        ("a machine for WebAssembly", lacks("prefix: ['{rivals}/node']", missing), "a rival, node: make rivals-wasm"),
        ("rivals that are", lacks("command: '{rivals}/mmtk'", there), None),
        ("a remark on them", lacks("# {rivals} come later\nname: x", missing), None),
        ("an experiment with tiny inputs", shorter("workloads:\n  - {name: a}\n"), []),
        ("one with programs of Java", shorter("  - {name: a}\n  - {name: b, command: [{rivals}/java-real]}\n  - {name: c}\nmultiples: [1.5, 3, 2]\n"),
         ["--only", "a", "--only", "c", "--multiple", "3", "--iteration", "2"]),
        ("measured and no experiment", gone("BENCH_EXPERIMENTS := a b \\\n\tc\nX_BENCHES := bench-d\n", ["a", "d"]), ["b", "c"]),
        ("what the Makefile measures", gone((ROOT / "Makefile").read_text(), [file.stem for file in EXPERIMENTS.glob("*.yaml")]), []),
        ("an earlier build", lacks("before: {build: target/before/release}", missing), "target/before/release: make before COMMIT=..."),
        ("what the lab runs when this is told to end", left_running(TOLD), []),
    ]
    return report(compared(cases))


def main():
    """The command."""
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/experiments")
    parser.add_argument("names", nargs="*")
    chosen = parser.parse_args()
    files = {file.stem: file for file in sorted(EXPERIMENTS.glob("*.yaml"))}
    if unknown := set(chosen.names) - set(files):
        raise SystemExit(f"experiments.py: there is no experiment {min(unknown)}; lab/experiments has them all")
    if not LAB.exists():
        raise SystemExit(f"experiments.py: there is no {LAB.relative_to(ROOT)}: make lab")
    only_one(chosen.out)
    ends_when_told()
    checks = []
    for name in chosen.names or files:
        text = files[name].read_text(encoding="utf-8")
        if need := lacks(text, lambda path: (ROOT / path).exists()):
            print(f"{name}: left out, since it needs {need}", flush=True)
            continue
        out = chosen.out / name
        shutil.rmtree(out, ignore_errors=True)
        began = time.monotonic()
        words = ["--size", "tiny", "--limit", str(HUNG_S), "--repetitions", "1", *shorter(text), "--out", out]
        status, said = run_to_end([LAB, "run", name, *words], cwd=ROOT)
        found = problems(out, status, said.splitlines())
        print(f"# took {time.monotonic() - began:.1f} s: {name}{', with problems' if found else ''}", *found, sep="\n    ", flush=True)
        checks.append((name, found))
    return report(checks)


if __name__ == "__main__":
    sys.exit(main())
