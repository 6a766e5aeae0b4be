"""Five kinds of report, and a browser that looks at them.

The first screen of each, light and dark, is kept in `screens/`. Who has changed what a page looks
like looks at the new ones and keeps them: target/lab/venv/bin/python lab/tests/screens.py
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from simulated import Truth, curves, document, result_set

from gleaner_lab import report
from gleaner_lab.experiment import Experiment

DIRECTORY = Path(__file__).parent / "screens"
SCHEMES = ("light", "dark")
WIDTHS = (1200, 800, 1600)
HEIGHT = 900
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # Whatever the page wanted from a network, it would not get it.
    "--host-resolver-rules=MAP * ~NOTFOUND",
]


def one_case(path):
    """One program, two configurations, with pauses."""
    text = document(workloads=1, rounds=3, question="What does the collector cost the program?")
    experiment = Experiment.model_validate(text)
    truth = Truth(experiment, 1, {"gleaner": 0.47}, noise=0.02)
    return result_set(path, text, truth, curves)


def means(path):
    """Means over many workloads, of several configurations and metrics."""
    rules = {"baseline": "libgc", "also": ["wall_s", "total_pause_s", "peak_kb"]}
    text = document(workloads=24, configurations=6, rounds=4, statistics=rules)
    experiment = Experiment.model_validate(text)
    ratios = {name: 0.6 + 0.15 * n for n, name in enumerate(experiment.variants())}
    return result_set(path, text, Truth(experiment, 2, ratios, scatter=0.3))


def bars(path):
    """Bars of all kinds on two machines."""
    of = {"configuration": "gleaner"}
    rules = [
        {**of, "below": 0.8},
        {**of, "below": 0.75, "of": "mean"},
        {**of, "below": 0.5, "of": "set"},
        {**of, "below": 0.1, "figure": "value", "metric": "longest_pause_s"},
    ]
    text = document(workloads=5, rounds=5, bars=rules)
    experiment = Experiment.model_validate(text)
    truth = Truth(experiment, 3, {"gleaner": 0.75}, scatter=0.1, noise=0.05)
    return result_set(path, text, truth, machines=("first", "second"))


def beside_a_paper(path):
    """A paper's table with ours beside it."""
    speedup = {"configuration": "gleaner", "figure": "speedup"}
    share = {"configuration": "libgc", "figure": "share", "metric": "phase.mark_s"}
    columns = {
        "mark_percent": share,
        "sweep_percent": {**share, "metric": "phase.sweep_s"},
        "prefetch_speedup_percent": speedup,
    }
    names = ["gc_bench", "a-workload-with-a-very-long-name-that-nobody-would-choose"]
    text = document(papers=[{"table": "cache-misses-table-1", "columns": columns}])
    text["workloads"] = names
    truth = Truth(Experiment.model_validate(text), 4, {"gleaner": 0.9})
    return result_set(path, text, truth)


def busy(path):
    """A machine on which nothing can be told."""
    text = document(workloads=2, configurations=3, rounds=4)
    return result_set(path, text, Truth(Experiment.model_validate(text), 5, noise=0.4))


KINDS = {
    "one-case": one_case,
    "means": means,
    "bars": bars,
    "beside-a-paper": beside_a_paper,
    "busy": busy,
}

#: Looks into the page at each width for what a reader would stumble over. It is a page of its own,
#: since the report lets no script run.
HARNESS = DIRECTORY / "harness.html"


def browser():
    """Chromium."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise AssertionError(
            "chromium is not installed: scripts/install-packages.sh test installs it"
        )
    return found


def look(page, scheme, directory):
    """What there is to complain of and to see, and a picture of the first screen at 1200."""
    text = json.dumps(page.read_text()).replace("</", "<\\/")
    harness = HARNESS.read_text().replace("SOURCE", text).replace("WIDTHS", json.dumps(WIDTHS))
    path, picture = directory / f"{scheme}.html", directory / f"{scheme}.png"
    path.write_text(harness.replace("HEIGHT", str(HEIGHT)))
    flags = [*FLAGS, f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"]
    flags += [f"--user-data-dir={directory / 'profile'}", f"--window-size={WIDTHS[0]},{HEIGHT}"]
    flags += ["--virtual-time-budget=20000", f"--screenshot={picture}", "--dump-dom"]
    done = subprocess.run(
        [browser(), *flags, path.as_uri()], capture_output=True, text=True, check=True
    )
    probe = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert probe is not None, "the page did not load"
    seen = json.loads(probe[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return seen["found"], seen["shown"], Image.open(picture).convert("RGB")


def difference(one, other):
    """How far two pictures are apart, by coarse fields: letters and edges may differ a little."""
    size = (WIDTHS[0] // 24, HEIGHT // 24)
    fields = [
        np.asarray(picture.resize(size, Image.Resampling.BOX), float) for picture in (one, other)
    ]
    return float(np.abs(fields[0] - fields[1]).mean())


def kept(kind, scheme):
    """The picture that is kept."""
    return DIRECTORY / f"{kind}-{scheme}.png"


def main():
    """Keeps what the pages look like now."""
    DIRECTORY.mkdir(exist_ok=True)
    for kind, make in KINDS.items():
        with tempfile.TemporaryDirectory() as name:
            page = report.write(make(Path(name) / "results"))
            for scheme in SCHEMES:
                found, _, picture = look(page, scheme, Path(name))
                print(kind, scheme, found)
                half = picture.resize((WIDTHS[0] // 2, HEIGHT // 2), Image.Resampling.LANCZOS)
                half.quantize(64, Image.Quantize.FASTOCTREE).save(kept(kind, scheme), optimize=True)


if __name__ == "__main__":
    sys.exit(main())
