"""A first experiment about a program of one's own, with what there is to say about it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from gleaner_lab import experiment as experiments
from gleaner_lab.failure import Failure
from gleaner_lab.written import named

TEXT = """\
# An experiment of the lab. Look at it with `gleaner-lab show {file}`, run it with
# `gleaner-lab run {file}`; lab/README.md has all that a file may say.
name: {name}
title: "{title} on Gleaner beside the installed libgc"
question: Does {title} take less processor time on Gleaner than on the installed libgc?

# What is run: each word of the command by itself, with no shell. `measure: process` takes what the
# kernel knows of any program: time and memory. Without it the program has to print a JSON object in
# its last line, whose numbers are metrics (`printed.NAME`).
workloads:
  - name: {title}
    command: {command}
    measure: process

# The ways to run it. `stock` is the installed libgc, `gleaner` ours in its place, `none` neither:
# then `prefix` and `arguments` say what is different. A list of values multiplies.
configurations:
  libgc: {{library: stock}}
  gleaner: {{}}
  # lazy: {{options: {{sweep: lazy, free-space-divisor: [1, 3]}}}}
  # other: {{library: none, prefix: [./another-runtime]}}

# How many threads collect; `default` leaves that to the library.
threads: [default]

# Each round runs everything once, in random order. Ten rounds tell differences of some percent.
repetitions: 10
# until: all            # stop as soon as all bars are decided, after `repetitions` at the latest
limit_s: 900            # a run that takes longer is ended, and counts as hung
warm_up: 0              # runs of each configuration before the first that counts
# prepare: [sync]       # a command before each run, which is not measured
# cleanup: [rm, -rf, /tmp/my-output]   # and one after it

# Ratios are to the baseline's run in the same round. Metrics: wall_s, cpu_s, peak_kb, and what the
# libraries log, such as total_pause_s.
statistics: {{baseline: libgc, metric: cpu_s, also: [wall_s, peak_kb]}}

# What is to be shown. A bar is met when the whole interval of the ratio is on its side.
bars:
  - {{configuration: gleaner, below: 1.0}}
"""


def write(path: Path, program: Sequence[str]) -> None:
    """Writes the file, unless there is one."""
    words = list(program) or ["./my-program", "10"]
    title = re.sub(r"[^A-Za-z0-9_.+-]", "-", Path(words[0]).name).lstrip("_.+-") or "program"
    name = re.sub(r"[^A-Za-z0-9_.+-]", "-", path.stem).lstrip("_.+-") or "mine"
    # JSON is YAML, and spells every word.
    text = TEXT.format(file=path, name=name, title=title, command=json.dumps(words))
    experiments.parse(text, path)
    try:
        with named(path), path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise Failure(f"{path} exists: name another file, or remove it first") from error
