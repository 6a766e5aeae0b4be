#!/usr/bin/env python3
"""Run each rival on tiny workloads and compare its results with `gleaner-bench native`.

A run has enough iterations for collections in its small heap, where the rival collects at all.
The last line is "N passed, N failed".

    rivals/compare.py                        everything
    rivals/compare.py go hotspot             these rivals
    rivals/compare.py go --workload jbb      this workload, too
"""

import argparse
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(ROOT, "target", "release", "gleaner-bench")
RIVALS = os.path.join(ROOT, "target", "rivals")
WORKLOADS = [["gcbench"], ["holes"], ["queue"], ["refarray"], ["quads"], ["cipher"],
             ["ephemerons"], ["ephemerons", "--threads", "2"], ["finalizers"], ["finalizers", "--threads", "3"],
             ["jbb"], ["jbb", "--threads", "1"], ["jbb", "--threads", "4"], ["index"], ["index", "--wasteful"],
             ["index", "--threads", "3"], ["xml"], ["xml", "--threads", "2"], ["producer"],
             ["producer", "--threads", "1"], ["agents"], ["agents", "--threads", "3"], ["render"],
             ["render", "--threads", "5"], ["tiny"], ["tiny", "--threads", "3"]]
#: What has no counterpart in a rival, which says so: it has no ephemerons, or nothing that a collector finalizes.
LACKS = {"hotspot": {"ephemerons"}, "hotspot-25": {"ephemerons"}, "go": {"ephemerons"}, "libgc": {"ephemerons"},
         "malloc": {"ephemerons", "finalizers"}, "mimalloc": {"ephemerons", "finalizers"}}
#: MB of heap where those of the case are too few: HotSpot's references wait for a thread of its own, which a busy machine does not
#: run at once.
HEAPS = {("hotspot", "finalizers"): "32", ("hotspot-25", "finalizers"): "64"}
#: Workloads that HotSpot alone has, with arguments for both sides.
ZEROING = [[name, "--working-set", kilobytes]
           for name in ["initnone", "initfresh", "initstale"] for kilobytes in ["0", "64"]]
PLANS = ["StickyImmix", "GenImmix", "GenCopy", "SemiSpace", "Immix", "MarkSweep"]
NAMES = {workload[0] for workload in WORKLOADS + ZEROING}
ITERATIONS = 40
#: Fields that every rival prints.
FIELDS = {"benchmark", "result", "wall_s", "cpu_s", "peak_kb", "iterations"}

# Program, arguments, and whether it has a collector that must have run.
CASES = [("mmtk", ["--heap", "8", "--plan", plan, *compressed], True)
         for plan in PLANS for compressed in ([], ["--compressed"])]
HOTSPOT = [("hotspot", ["--heap", "8", *arguments], True)
           for arguments in ([], ["--compressed"], ["--young", "2"])]
HOTSPOT_25 = [("hotspot-25", ["--heap", heap, "--collector", collector], True)
              for collector, heap in [("parallel", "16"), ("g1", "8"), ("zgc", "24")]]
CASES += HOTSPOT + HOTSPOT_25
CASES += [("libgc", ["--heap", "4"], True), ("go", ["--heap", "8"], True)]
CASES += [("malloc", [], False), ("mimalloc", [], False)]

# Arguments that are refused, by whom, and what the message names.
REFUSED = [(rival, words, named) for rival in ["mmtk", "hotspot", "libgc", "malloc", "go"]
           for words, named in [(["gcbenhc"], "gcbench"), (["queue", "--iterations", "0"], "0"),
                                (["queue", "--heap", "x"], "heap")]]
REFUSED += [(rival, ["queue", "--compressed"], "--compressed") for rival in ["libgc", "go"]]
REFUSED += [("mmtk", ["queue", "--plan", "MarkCompact"], "MarkCompact")]
REFUSED += [("hotspot", ["initnone", "--working-set", "-1"], "working set"),
            ("hotspot", ["queue", "--young", "0"], "young"),
            ("hotspot-25", ["queue", "--collector", "epsilon"], "epsilon"),
            ("hotspot-25", ["queue", "--collector", "zgc", "--compressed"], "compressed")]
REFUSED += [(rival, [name], f"has no {name}") for rival, names in LACKS.items() for name in sorted(names)]
# MMTk's copying plans do not always notice in time, and crash.
REFUSED += [(rival, ["queue", "--heap", "8", *arguments], "out of memory")
            for rival, arguments in [("mmtk", ["--plan", "MarkSweep"]), ("hotspot", []), ("libgc", [])]]


def run(command, **env):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **env})


def line_of(done):
    if done.returncode != 0:
        raise ValueError(f"exit status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def problems_of(rival, arguments, collects, workload, expected):
    name = workload[0]
    command = [os.path.join(RIVALS, rival), *workload, "--tiny", "--workers", "2", *arguments]
    if heap := HEAPS.get((rival, name)):
        command[command.index("--heap") + 1] = heap
    try:
        once = line_of(run(command))
        often = line_of(run(command, ITERATIONS=str(ITERATIONS)))
    except (OSError, ValueError) as error:
        return [str(error)]
    problems = []
    for line in once, often:
        if (line["benchmark"], line["result"]) != (name, expected):
            problems.append(f"{line['benchmark']} {line['result']}, not {name} {expected}")
    if missing := FIELDS - often.keys():
        problems.append(f"does not print {', '.join(sorted(missing))}")
    elif len(often["iterations"]) != ITERATIONS:
        problems.append(f"{len(often['iterations'])} iterations, not {ITERATIONS}")
    elif any(one["wall_s"] <= 0 for one in often["iterations"]):
        problems.append("an iteration took no time: it did not run")
    if collects and often.get("collections", 0) < 1:
        problems.append("no collection in so many iterations")
    return problems


def refusal_problems(rival, words, named):
    done = run([os.path.join(RIVALS, rival), *words])
    if done.returncode != 2 or named not in done.stderr:
        return [f"exit status {done.returncode}, said: {done.stderr.strip()}"]
    return []


def started(rival, iterations):
    """How many threads a process of HotSpot's starts for one mutator that is apart."""
    command = [os.path.join(RIVALS, rival), "tiny", "--tiny", "--apart", "--threads", "1", "--heap", "16"]
    done = run(command, ITERATIONS=str(iterations), JDK_JAVA_OPTIONS="-Xlog:os+thread=info:stderr")
    line_of(done)
    return done.stderr.count("started (pthread id")


def mutator_problems(rival):
    """Whether each iteration has a mutator of its own, which nothing that places threads would have found yet."""
    try:
        once, often = started(rival, 1), started(rival, ITERATIONS)
    except (OSError, ValueError) as error:
        return [str(error)]
    if once == 0:
        return ["its log names no thread that was started"]
    # Its own threads may be more after a while, but not by so many.
    return [f"{often} threads in place of {once}"] if often - once > ITERATIONS // 2 else []


def checks(rivals, names):
    work = [(workload, CASES) for workload in WORKLOADS] + [(workload, HOTSPOT) for workload in ZEROING]
    for workload, cases in work:
        cases = [case for case in cases
                 if case[0] in rivals and workload[0] in names and workload[0] not in LACKS.get(case[0], ())]
        if not cases:
            continue
        expected = line_of(run([BENCH, "native", *workload, "--tiny"]))["result"]
        for rival, arguments, collects in cases:
            what = " ".join([rival, *workload, *arguments])
            yield what, problems_of(rival, arguments, collects, workload, expected)
    for rival in ["hotspot", "hotspot-25"]:
        if rival in rivals and names == NAMES:
            yield f"{rival}: one mutator runs all iterations", mutator_problems(rival)
    for rival, words, named in REFUSED:
        if rival in rivals and names == NAMES:
            yield " ".join([rival, *words, "is refused"]), refusal_problems(rival, words, named)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = sorted({rival for rival, _, _ in CASES})
    parser.add_argument("rivals", nargs="*", metavar="RIVAL", help=f"one of {', '.join(every)}; all unless given")
    parser.add_argument("--workload", action="append", metavar="NAME", choices=sorted(NAMES),
                        help="only this one, and no refusals; may be repeated")
    chosen = parser.parse_args()
    if unknown := set(chosen.rivals) - set(every):
        parser.error(f"no rival is called {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    passed = failed = 0
    for what, problems in checks(set(chosen.rivals or every), set(chosen.workload or NAMES)):
        print(f"{'FAILED' if problems else 'ok'}: {what}", flush=True)
        for problem in problems:
            print(f"    {problem}")
        failed += bool(problems)
        passed += not problems
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
