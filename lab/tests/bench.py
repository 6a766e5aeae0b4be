"""A stand-in for gleaner-bench: an executable that answers as it does, by the workload's name."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPT = """#!{python}
import json, os, random, signal, sys, time
arguments = sys.argv[1:]
if "--check" in arguments:
    sys.exit()
assert arguments[:2] == ["run", "--json"], arguments
options = dict(zip(arguments, arguments[1:]))
if "--" in arguments:
    name = arguments[arguments.index("--") + 1]
else:
    name = arguments[-1]
pause = float(os.environ.get("BENCH_PAUSE", "0"))
if pause:
    time.sleep(pause)
before = [word.removeprefix("--before=") for word in arguments if word.startswith("--before=")]
if before:
    import subprocess
    subprocess.run([*before, "true"], check=True)
line = {{"workload": name, "library": options["--library"], "output": "1 bytes, 0"}}
if name == "crashes":
    line["problem"] = "signal: 11 (SIGSEGV)\\n"
elif name == "hangs":
    line["problem"] = "took longer than allowed\\n"
elif name == "needs":
    words = [word.split("=") for word in arguments if "=" in word]
    limits = [int(word[1]) for word in words if word[0] in ("heap-limit", "GC_MAXIMUM_HEAP_SIZE")]
    if limits and min(limits) < 3000000:
        line["problem"] = "out of memory\\n"
elif name == "silent":
    sys.exit("gleaner-bench: no client is named silent")
elif name == "garbled":
    print("this is not JSON")
    sys.exit(0)
speed = 0.8 if options["--library"] == "gleaner" else 1.0
seed = str(arguments) + str(time.time_ns())
if "BENCH_CALLS" in os.environ:
    # Chance that is the same each time: its seed is the number of the call.
    with open(os.environ["BENCH_CALLS"], "a") as calls:
        calls.write(".")
        seed = str(calls.tell())
source = random.Random(seed)
cpu = speed * source.lognormvariate(0, 0.005)
line.update(wall_s=cpu * 1.1, cpu_s=cpu, peak_kb=20000)
for word in arguments:
    # A process has so many KB, or a heap of so many MB and 3000 KB of its own.
    if word.startswith("peak="):
        line["peak_kb"] = int(word[5:])
    elif word.startswith("heap="):
        line["peak_kb"] = 3000 + 1024 * int(word[5:])
if name == "differs":
    line["output"] = f"1 bytes, {{source.random()}}"
if "--log" in arguments:
    line["collector"] = {{"collections": 10, "longest_pause_s": 0.01, "total_pause_s": 0.05,
                         "phase_s": {{"mark": 0.04}}}}
if name == "iterates":
    line["printed"] = {{"iterations": [{{"wall_s": 3.0}}, {{"wall_s": 1.0, "cpu_s": 0.9}}]}}
if name == "prints":
    line["printed"] = {{"steps": 7, "label": "x", "right": True}}
print(json.dumps(line))
"""


def make(directory: Path) -> Path:
    """Writes the executable."""
    path = directory / "bench"
    path.write_text(SCRIPT.format(python=sys.executable))
    path.chmod(0o755)
    return path


EXPERIMENT = """\
name: small
title: A small experiment
question: Is Gleaner faster?
workloads: [{workloads}]
configurations:
  libgc: {{library: stock}}
  gleaner: {{options: {{sweep: lazy}}}}
repetitions: {repetitions}
canary_every: 5
statistics: {{baseline: libgc}}
bars:
  - {{configuration: gleaner, below: 1.1}}
  - {{configuration: gleaner, below: 0.5, of: mean}}
"""


def experiment(directory: Path, workloads: str, repetitions: int = 6) -> Path:
    """Writes an experiment with these workloads."""
    path = directory / "small.yaml"
    path.write_text(EXPERIMENT.format(workloads=workloads, repetitions=repetitions))
    return path
