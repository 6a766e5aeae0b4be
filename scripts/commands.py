#!/usr/bin/env python3
"""Run the commands that the pages show.

    commands.py run [--long] [PAGE...]   run them; last line "N passed, N failed"
    commands.py list                     print each command, and what becomes of it
    commands.py --self-test              prove the reading

A block of README.md, CONTRIBUTING.md, HACKING.md, docs/ or another README that is marked `sh` holds commands and comments; one that is marked
`console` holds commands behind "$ " and what they print. A block marked `text NAME` is a file of that name.

The commands of a page run one after the other in a new directory: what tests/commands/files has lies there, and the
directories of the tree by their names; its programs, and Gleaner's, are on the PATH. `cargo` runs in the tree, `make TARGET`
is looked up and not run: the steps of the tests do that. A command has passed when it ends with status 0.

tests/commands/marks.toml says what else is done: an entry names a command as the page has it, and has one of

    long      it takes longer than a test should: why; run with --long only
    never     why it is not run at all
    as        what is run in its place, where the page has a placeholder or a large number
    needs     programs; without one of them the command is left out, and that is said

and `before`, which is run first. An entry that fits no command is an error.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

from checks import compared, ends_when_told, left_running, only_one, report, run_to_end

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ROOT / "tests/commands/files"
MARKS = ROOT / "tests/commands/marks.toml"
SCRATCH = ROOT / "target/commands"
PAGES = ["README.md", "CONTRIBUTING.md", "HACKING.md", "examples/README.md", "fuzz/README.md", "lab/README.md", "rivals/mmtk/README.md", "tests/conformance/README.md"]
# What a page may name by its place in the tree.
TREE = ["crates", "examples", "scripts", "target", "tests"]
FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^ *```", re.M | re.S)
# A line of a shell as far as its comment.
UNCOMMENTED = re.compile(r"""(?:'[^']*'|"[^"]*"|(?<!\s)#|[^'"#])*""")
# No command of a page takes a tenth of this.
LIMIT_SECONDS = 1800


def blocks(text):
    """(marks, body) of each block of a page, without the indentation of the list that it is in."""
    return [(marks.split(), re.sub(f"^{indent}", "", body, flags=re.M)) for indent, marks, body in FENCE.findall(text)]


def commands(text):
    """The commands of a page, in order, without comments."""
    found = []
    for marks, body in blocks(text):
        if marks[:1] == ["sh"]:
            lines = body.replace("\\\n", " ").splitlines()
        elif marks[:1] == ["console"]:
            lines = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
        else:
            continue
        plain = (UNCOMMENTED.match(line)[0] for line in lines if not line.startswith("#"))
        found += [" ".join(line.split()) for line in plain if line.strip()]
    return found


def files(text):
    """{name: content} of the files that a page shows."""
    return {marks[1]: body for marks, body in blocks(text) if marks[:1] == ["text"] and len(marks) == 2}


def pages():
    """The pages that are read, by name."""
    docs = sorted(str(path.relative_to(ROOT)) for folder in ("docs", "docs/results") for path in (ROOT / folder).glob("*.md"))
    return {name: (ROOT / name).read_text() for name in PAGES + docs}


def read_marks(known):
    """The marks by command; `known` are the commands that pages have."""
    marks = {}
    for mark in tomllib.loads(MARKS.read_text()).get("mark", []):
        command = mark.pop("command", None)
        if command is None:
            raise SystemExit(f"commands.py: a mark of marks.toml names no command: {mark}")
        if command not in known:
            raise SystemExit(f"commands.py: no page has the command that marks.toml names: {command}")
        if not mark or set(mark) - {"long", "never", "as", "needs", "before"} or command in marks:
            raise SystemExit(f"commands.py: the mark of {command} is empty, has what nobody reads, or is there twice")
        marks[command] = mark
    return marks


def targets_of(command):
    """The targets, if the command is `make` with some and nothing else."""
    words = [word for word in command.removeprefix("sudo ").split() if "=" not in word]
    return words[1:] if words[:1] == ["make"] and all(re.fullmatch(r"[a-z0-9-]+", word) for word in words) else []


def prepared(folder, shown):
    """Makes the directory in which the commands of a page run; its environment."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(FILES, folder)
    for name in TREE:
        (folder / name).symlink_to(ROOT / name)
    for name, content in shown.items():
        (folder / name).write_text(content)
    status, said = run_to_end(["make", "--silent", "--file", "Build.make"], cwd=folder)
    if status != 0:
        raise SystemExit(f"commands.py: {FILES / 'Build.make'} ended with status {status}:\n{said}")
    path = [folder / "bin", ROOT / "target/release", ROOT / "target/lab/venv/bin"]
    return dict(os.environ, PATH=":".join([*map(str, path), os.environ["PATH"]]), TERM="dumb")


def outcome(command, mark, folder, environment):
    """(what is said of it, problems) of one command that is run."""
    missing = [name for name in mark.get("needs", []) if not shutil.which(name, path=environment["PATH"])]
    if missing:
        return f"left out: there is no {', no '.join(missing)}", []
    targets = targets_of(command)
    if targets:
        argv, where = ["make", "--dry-run", "--silent", *targets], ROOT
    else:
        line = mark.get("as", command)
        argv = ["bash", "-euo", "pipefail", "-c", f"{mark.get('before', ':')}; {line}"]
        where = ROOT if line.split()[0] == "cargo" else folder
    began = time.monotonic()
    try:
        ended, said = run_to_end(argv, LIMIT_SECONDS, cwd=where, env=environment)
        status, failed = f"it ended with status {ended}", ended != 0
    except subprocess.TimeoutExpired:
        said, status, failed = "", f"it did not end within {LIMIT_SECONDS} s", True
    took = time.monotonic() - began
    if took > 2:
        print(f"# took {took:.1f} s: {command}")
    if not failed:
        return "", []
    return "", [status, *(f"| {line}" for line in said.splitlines()[-12:])]


def run(names, long):
    """Runs the commands of these pages, or of all."""
    texts = pages()
    marks = marks_of(texts)
    if set(names) - set(texts):
        raise SystemExit(f"commands.py: no page {', '.join(sorted(set(names) - set(texts)))}; there are {', '.join(texts)}")
    only_one(SCRATCH)
    ends_when_told()
    checks = []
    for page, text in texts.items():
        lines = commands(text)
        if not lines or names and page not in names:
            continue
        folder = SCRATCH / page.replace("/", "-")
        environment = prepared(folder, files(text))
        for command in lines:
            mark = marks.get(command, {})
            why = mark.get("never") or (not long and mark.get("long"))
            said, problems = (f"left out: {why}", []) if why else outcome(command, mark, folder, environment)
            checks.append((f"{page}: {command}" + (f" ({said})" if said else ""), problems))
            sys.stdout.flush()
    return report(checks)


def marks_of(texts):
    """The marks of what these pages have."""
    return read_marks({command for text in texts.values() for command in commands(text)})


# A run of a page with one command, which is told to end.
TOLD = """
import os, pathlib, sys
import commands
command, folder = sys.argv[1:]
page = f"```sh\\n{command}\\n```\\n"
commands.SCRATCH = pathlib.Path(folder, "commands")
commands.pages = lambda: {"page.md": page}
commands.marks_of = lambda texts: {}
commands.prepared = lambda place, shown: place.mkdir() or dict(os.environ)
commands.run([], False)
"""


def self_test():
    """Each case is (what, got, wanted)."""
    page = ("```sh\nmake build   # a while\nrun a \\\n    b\n# nothing\n```\n```console\n$ say 'x # y'\nx\n```\n"
            "```text a.supp\n{\n}\n```\n```c\nint a;\n```\n")
    cases = [
        ("commands in a list", commands("1. It:\n\n   ```sh\n   run a \\\n       b\n   # nothing\n   ```\n"), ["run a b"]),
        ("commands of a page", commands(page), ["make build", "run a b", "say 'x # y'"]),
        ("files of a page", files(page), {"a.supp": "{\n}\n"}),
        ("a target", targets_of("sudo make install PREFIX=/x"), ["install"]),
        ("two", targets_of("make build lab"), ["build", "lab"]),
        ("no target", targets_of("make"), []),
        ("a target and more", targets_of("make build; run"), []),
        ("another program", targets_of("gcc make x"), []),
        ("a command that fails", bool(outcome("false", {}, ROOT, dict(os.environ))[1]), True),
        ("a command in the middle that fails", bool(outcome("false | true", {}, ROOT, dict(os.environ))[1]), True),
        ("a command that passes", outcome("true", {}, ROOT, dict(os.environ)), ("", [])),
        ("a target that is not there", bool(outcome("make no-such-target", {}, ROOT, dict(os.environ))[1]), True),
        ("what runs in its place", outcome("false", {"as": "true"}, ROOT, dict(os.environ)), ("", [])),
        ("marks of commands that pages have", bool(marks_of(pages())), True),
        ("what it needs", outcome("true", {"needs": ["no-such-program"]}, ROOT, dict(os.environ))[0],
         "left out: there is no no-such-program"),
        ("what a command started when this is told to end", left_running(TOLD), []),
    ]
    return report(compared(cases))


def main():
    """The command."""
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    runs = actions.add_parser("run")
    runs.add_argument("--long", action="store_true")
    runs.add_argument("pages", nargs="*", metavar="PAGE")
    actions.add_parser("list")
    arguments = parser.parse_args()
    if arguments.action == "run":
        return run(arguments.pages, arguments.long)
    texts = pages()
    marks = marks_of(texts)
    for page, text in texts.items():
        for command in commands(text):
            print(f"{page}: {command}" + "".join(f"\n    {key}: {value}" for key, value in marks.get(command, {}).items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
