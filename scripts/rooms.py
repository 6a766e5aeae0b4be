#!/usr/bin/env python3
"""The list of source files, each with what it says of itself.

    rooms.py generate    write docs/rooms.md
    rooms.py check       the page is fresh, each file opens with `//!`, and none
                         is longer than MOST_LINES
    rooms.py --self-test prove that each rule can fail

The text of a file is the first sentence of its `//!` comment. Files of tests
are not listed. The last line is "N passed, N failed".
"""

import os
import re
import subprocess
import sys

from checks import report, wrong, written
from uses import Crate, is_test, reachable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "rooms.md")
CRATES = ["base", "os", "mem", "work", "spaces", "plans", "gleaner", "libgc", "capi", "wasm", "workloads", "eventlog", "heapgraph", "bench", "place", "cli"]
MOST_LINES = 800


def opening(text):
    """The first sentence of the `//!` comment that opens the text, or nothing."""
    words = []
    for line in text.splitlines():
        if not line.startswith("//!"):
            break
        if not line[3:].strip():
            break
        words.append(line[3:].strip())
    paragraph = " ".join(words)
    found = re.match(r"(.+?[.:])(?= [A-Z`\[]|$)", paragraph)
    return (found.group(1) if found else paragraph).rstrip(":")


def read_sources():
    """(path, text) of each Rust file under crates/ that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "crates/*.rs"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")
    for path in sorted(filter(None, set(listed))):
        full = os.path.join(ROOT, path)
        if os.path.exists(full):
            with open(full, encoding="utf-8") as file:
                yield path, file.read()


def heap_of(name):
    """The heading of a file that belongs to one of the two heaps."""
    folder = name.split("/")[1] if "/" in name else ""
    return {"mark_sweep": "mark_sweep: the libgc heap", "precise": "precise: the precise heap",
            "scavenge": "scavenge: the precise heap", "shared": "shared: both heaps"}.get(folder, "")


def render(sources):
    """The docs page."""
    lines = [
        "# The rooms",
        "",
        "<!-- Written by scripts/rooms.py from the files' own first sentences; edit those. -->",
        "",
        "Every source file that is not a test, in the order of the layers, lowest first, in its own",
        "words. ARCHITECTURE.md tells how they work together. The papers are named by conference and year:",
        "ISMM 2000, cache misses in mark-sweep collection; PLDI 2010, z-rays; OOPSLA 2011, zero initialisation;",
        "OOPSLA 2012, where application and service threads run; ASPLOS 2013, collection on NUMA machines.",
        "Each picture has the files and folders of one part: an arrow leads from a room to one that it uses.",
        "What it reaches through another room is not drawn.",
    ]
    for crate in CRATES:
        files = [(path, text) for path, text in sources
                 if path.startswith(f"crates/{crate}/") and not is_test(path)]
        if not files:
            continue
        lines += ["", f"## {crate}"]
        named = [(path.split("/", 2)[2], path, text) for path, text in files]
        for part in dict.fromkeys(heap_of(name) for name, _, _ in named):
            lines += ["", *([f"### {part}", ""] if part else []), "| file | what it is |", "| --- | --- |"]
            for name, path, text in named:
                if heap_of(name) == part:
                    sentence = re.sub(r"\[(`[^`]*`|[^\]]*)\](\([^)]*\))?", r"\1", opening(text))
                    sentence = sentence.replace("|", "\\|")
                    lines.append(f"| [`{name}`](../{path}) | {sentence} |")
            folder = (part.partition(":")[0],) if part else ()
            lines += diagram([(name.removeprefix("src/"), text) for name, _, text in named if name.startswith("src/")], folder)
    return "\n".join(lines) + "\n"


def diagram(files, folder):
    """What uses what in a folder of a crate, as a picture; `files` are (name below src/, text) of the whole crate."""
    edges = {}

    def room(module):
        """The file or folder directly in this one that has the module."""
        return module[len(folder)] if len(module) > len(folder) and module[:len(folder)] == folder else None

    for module, used in Crate(files).uses().items():
        if room(module):
            edges.setdefault(room(module), set()).update(filter(None, map(room, used)))
    edges = {name: used - {name} for name, used in edges.items()}
    reached = {name: reachable(edges, name) for name in edges}
    # What is reached by way of another is not drawn.
    drawn = [f"    {name} --> {used}" for name in sorted(edges) for used in sorted(edges[name])
             if not any(used in reached[by] and name not in reached[by] for by in edges[name])]
    return ["", "```mermaid", "flowchart BT", *drawn, "```"] if drawn else []


def crate_problems(sources):
    """A crate that has no place in the order would be left out of the page."""
    crates = {path.split("/")[1] for path, _ in sources}
    return [f"crates/{crate}: has no place in CRATES in scripts/rooms.py"
            for crate in sorted(crates - set(CRATES))]


def opening_problems(sources):
    return [f"{path}: does not open with a `//!` that says what it is"
            for path, text in sources if not is_test(path) and not opening(text)]


def length_problems(sources):
    return [f"{path}: {text.count(chr(10))} lines, more than {MOST_LINES}: two ideas"
            for path, text in sources if text.count("\n") > MOST_LINES]


def self_test():
    return report([
        ("a sentence over two lines is one",
         wrong(opening("//! What it\n//! is. More.\n") == "What it is.")),
        ("a paragraph without a full stop is taken whole",
         wrong(opening("//! What it is\n//!\n//! More.\n") == "What it is")),
        ("a number with a point does not end a sentence",
         wrong(opening("//! Debian's 8.2 library. More.\n") == "Debian's 8.2 library.")),
        ("rejects a file without an opening",
         wrong(opening_problems([("crates/os/src/a.rs", "use x;\n")]))),
        ("accepts a file of tests without an opening",
         opening_problems([("crates/os/src/a/tests.rs", "use x;\n")])),
        ("rejects a crate without a place",
         wrong(crate_problems([("crates/new/src/a.rs", "//! a\n")]))),
        ("rejects a long file", wrong(length_problems([("a.rs", "//! a\n" + "\n" * MOST_LINES)]))),
        ("draws what is used, and nothing that is reached by way of another",
         wrong(diagram([("a.rs", "use crate::b::B; use crate::c::C;"), ("b.rs", "use crate::c::C;"), ("c.rs", "")], ())
               == ["", "```mermaid", "flowchart BT", "    a --> b", "    b --> c", "```"])),
        ("draws a folder by itself",
         wrong(diagram([("a.rs", "use crate::b::c::C;"), ("b/c.rs", "use super::d::D;"), ("b/d.rs", "")], ("b",))
               == ["", "```mermaid", "flowchart BT", "    c --> d", "```"])),
        ("accepts a short file", length_problems([("a.rs", "//! a\n")])),
    ])


def main():
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    if command == "--self-test":
        return self_test()
    sources = list(read_sources())
    if command == "generate":
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(render(sources))
        return 0
    if command == "check":
        return report([
            (f"{len(sources)} files say what they are", opening_problems(sources)),
            ("every crate has a place", crate_problems(sources)),
            (f"no file is longer than {MOST_LINES} lines", length_problems(sources)),
            ("docs/rooms.md is generated from the files",
             [] if written(PAGE) == render(sources) else ["run: make generate"]),
        ])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
