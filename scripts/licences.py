#!/usr/bin/env python3
"""The licences of all that is linked into the binaries, in one text.

    licences.py              print it
    licences.py --self-test  prove the reading

Which crates are linked cargo says (`cargo tree`), and each crate brings the texts of its own licence. Equal texts stand once, with
the crates that have them. A crate without one is an error unless its licence is one of those that Gleaner itself is under,
whose texts stand at the end; then its authors are named. A link to a file that was not packed is no text. The standard library of
Rust is linked, too.
"""

import json
import os
import re
import subprocess
import sys

from checks import compared, report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INSTALLED = ["gleaner-cli", "gleaner-libgc", "gleaner-capi"]
TEXT = re.compile(r"(licen[cs]e|copying|notice|unlicense|copyright)([-_.].*)?", re.I)
OWN = {"MIT", "Apache-2.0"}


def linked(tree):
    """(name, version) of each crate of others in what `cargo tree` prints: `name vVERSION`, and a path behind those of this tree."""
    found = {tuple(line.split()[:2]) for line in tree.splitlines() if line and " (/" not in line}
    return sorted((name, version.removeprefix("v")) for name, version in found)


def alternatives(expression):
    """The licences of which one is enough, in SPDX's words or in the older ones with a slash."""
    return {word.strip(" ()") for word in re.split(r"\bOR\b|/", expression)}


def normal(text):
    """A text as it is compared: without the lengths of its lines."""
    return " ".join(text.split())


def grouped(texts):
    """[(text, [who])] of these (who, text), in order; those with equal texts together."""
    groups = {}
    for who, text in texts:
        groups.setdefault(normal(text), (text, []))[1].append(who)
    return list(groups.values())


def page(crates, own):
    """The text; `crates` are (name, version, expression, texts, authors), `own` the texts of Gleaner's own licences."""
    lacking = [name for name, _, expression, texts, _ in crates if not texts and not alternatives(expression) & OWN]
    if lacking:
        raise SystemExit(f"licences.py: no text of the licence of {', '.join(lacking)}")
    lines = ["Gleaner is under MIT or Apache-2.0. What its binaries contain besides, and under which licences:", "",
             "  the standard library of Rust: MIT OR Apache-2.0; copyright The Rust Project Contributors"]
    lines += [f"  {name} {version}: {expression}" + ("" if texts else f"; copyright {', '.join(authors) or 'its authors'}")
              for name, version, expression, texts, authors in crates]
    for text, who in grouped([(f"{name} {version}", text) for name, version, _, texts, _ in crates for text in texts]):
        lines += ["", "-" * 80, ", ".join(dict.fromkeys(who)), "-" * 80, "", text.strip("\n")]
    for text in own:
        lines += ["", "-" * 80, "Gleaner, and those above without a text of their own", "-" * 80, "", text.strip("\n")]
    return "\n".join(lines) + "\n"


def texts_in(folder):
    """The texts of licences that lie in the folder of a crate."""
    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if TEXT.fullmatch(name) and os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            if not is_link(text):
                found.append(text)
    return found


def is_link(text):
    """Whether that is where a link led to, which was packed as a file on a system without links."""
    return len(text.split()) <= 1


def said_by(*argv):
    return subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def self_test():
    crates = [("a", "1", "MIT", ["It  is\nmine."], ["A"]), ("b", "2", "MIT/Apache-2.0", ["It is mine."], []),
              ("c", "3", "Zlib OR Apache-2.0", [], ["C"])]
    text = page(crates, ["Own."])

    def refused():
        try:
            page([("d", "1", "Zlib", [], [])], [])
        except SystemExit as end:
            return str(end)
        return ""

    return report(compared([
        ("crates of others", linked("b v2\na v1 (proc-macro)\na v1\ngleaner v0 (/x/y)\n\n"), [("a", "1"), ("b", "2")]),
        ("one of several licences", alternatives("(MIT OR Zlib)"), {"MIT", "Zlib"}),
        ("an older expression", alternatives("MIT/Apache-2.0"), {"MIT", "Apache-2.0"}),
        ("equal texts stand once", (text.count("mine."), "a 1, b 2" in text), (1, True)),
        ("own texts stand at the end", text.endswith("Own.\n"), True),
        ("a crate is listed", "  b 2: MIT/Apache-2.0\n" in text, True),
        ("one without a text, with its authors", "  c 3: Zlib OR Apache-2.0; copyright C\n" in text, True),
        ("a link is no text", (is_link("../LICENSE\n"), is_link("MIT License")), (True, False)),
        ("a crate without a text is refused", "licence of d" in refused(), True),
        ("files of licences", [name for name in ("LICENSE-MIT", "COPYING", "UNLICENSE", "licence.md", "src", "README.md")
                               if TEXT.fullmatch(name)], ["LICENSE-MIT", "COPYING", "UNLICENSE", "licence.md"]),
    ]))


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    tree = said_by("cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none",
                   *(word for name in INSTALLED for word in ("--package", name)))
    packages = {(package["name"], package["version"]): package for package in json.loads(
        said_by("cargo", "metadata", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu", "--format-version", "1"))["packages"]}
    crates = [(name, version, packages[name, version]["license"], texts_in(os.path.dirname(packages[name, version]["manifest_path"])),
               packages[name, version]["authors"]) for name, version in linked(tree)]
    own = []
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            own.append(file.read())
    print(page(crates, own), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
