#!/usr/bin/env python3
"""Break the collector on purpose, one place at a time, and see a test fail.

    mutants.py run [--short] [--only WORD]... [--crate NAME]... [--keep-caught]
    mutants.py check          every entry fits the tree, and each filter a test in it; nothing is built
    mutants.py report         write docs/mutants.md from the results
    mutants.py --self-test    prove the script itself

The breakages are data: tests/mutants/CRATE.toml, a list of [[mutant]] with

    name      of letters, digits and hyphens, unique
    file      what is changed
    find      the exact text that stands there once; many lines are one text
    replace   what it becomes
    why       what is broken then, as a sentence
    tests     commands of which one must fail; without it those of the file
    short     true: one of the few of `run --short`
    survives  why no test can see it; only if that is so

A command is one of

    cargo ARGS                  cargo test ARGS
    loom ARGS                   the same with --cfg loom
    conformance PROGRAM...      tests/conformance on the library
    capi                        tests/capi
    limits                      tests/limits

The tree is copied to target/mutants/tree; nothing is changed in place. Mutant
by mutant, the text is changed, the tests are compiled, the commands run until
one fails, and the text is put back. A command that failed must pass without the
mutant, or it judges nothing; nor does one whose filter fits no test. A mutant that does not compile, or whose text is
not found once, is an error of the list. A test that does not end has failed.

Results lie in target/mutants/results.json after each mutant, so a run that was
stopped goes on: what was run on the same tree is not run again. --keep-caught
also keeps those caught on an older tree, if their own file is the same. The
last report's lie in tests/mutants/results.json, where a new checkout begins.
The last line is "N passed, N failed": caught or explained, and not.
"""

import argparse
import functools
import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib

from checks import ends_when_told, only_one

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CRATES = ["base", "os", "mem", "work", "spaces", "plans", "gleaner", "capi", "libgc", "eventlog", "heapgraph", "bench", "cli"]
KEYS = {"name", "file", "find", "replace", "why", "tests", "short", "survives"}
# What a command's first word stands for, and the step of `make test` that runs it.
VERBS = {"cargo": "test-rust", "loom": "test-loom", "conformance": "test-conformance-gleaner", "capi": "test-capi",
         "limits": "test-limits"}
# No command takes a tenth of this on an idle machine.
LIMIT_SECONDS = int(os.environ.get("MUTANT_LIMIT", "900"))
# What is copied: all that the tests build or read.
COPIED = ["Cargo.toml", "Cargo.lock", "Makefile", "rustfmt.toml", "crates", "examples", "fuzz", "tests", "clients", "benchmarks",
          "docs", "scripts"]


class ListError(Exception):
    """An entry that does not fit."""


def read_list(folder):
    """All entries, in the order of the layers."""
    entries = []
    order = {f"{crate}.toml": number for number, crate in enumerate(CRATES)}
    paths = sorted(glob.glob(os.path.join(folder, "*.toml")),
                   key=lambda path: (order.get(os.path.basename(path), 99), path))
    for path in paths:
        with open(path, "rb") as file:
            try:
                data = tomllib.load(file)
            except tomllib.TOMLDecodeError as error:
                raise ListError(f"{os.path.relpath(path, ROOT)}: {error}") from None
        # A word that is misspelt would leave out entries, and nobody would miss them.
        if set(data) - {"tests"} != {"mutant"}:
            raise ListError(f"{os.path.relpath(path, ROOT)}: has {', '.join(sorted(data)) or 'nothing'}; there are [[mutant]] and tests")
        for entry in data["mutant"]:
            entry.setdefault("tests", data.get("tests", []))
            entry["crate"] = os.path.basename(path).removesuffix(".toml")
            entries.append(entry)
    return entries


def unknown_names(command, names):
    """What a command names that is not there, or has no test; `names` gives what a folder has, as `names_of` does."""
    verb, *words = shlex.split(command)
    crate = re.search(r"-p gleaner-?(\w*)", command)
    if verb not in ("cargo", "loom", "conformance") or verb != "conformance" and not crate:
        return []
    known = names("tests/conformance" if verb == "conformance" else f"crates/{crate[1] or 'gleaner'}")
    unknown = []
    for before, word in zip(["", *words], words):
        if before in ("-p", "--opt"):
            continue
        if before == "--test" or word in ("--lib", "--bins"):
            program = "src" if word.startswith("-") else f"tests/{word}"
            known = {(of, test) for of, test in known if of == program}
            unknown += [] if known else [word]
        elif verb == "conformance" and not word.startswith("-"):
            # Cases that only Gleaner has are called gleaner:CASE.
            parts = re.split(":(?:gleaner:)?", word)
            unknown += [part for part in parts if not any(part in name for name in known)]
        elif not word.startswith("-") and not any(word in test for _, test in known):
            unknown.append(word)
    return unknown


def rust_tests(path, text):
    """The tests in a file of a crate, as cargo's filters see them: (program, test). A program is src, or tests/NAME."""
    parts = os.path.splitext(path)[0].split("/")
    program, modules = ("src", parts[1:]) if parts[0] == "src" else ("/".join(parts[:2]), parts[2:])
    modules = [part for part in modules if part not in ("lib", "main", "mod")]
    functions = re.findall(r"#\[test\]\s(?:\s*(?:#\[|//)[^\n]*\n)*\s*fn (\w+)", text)
    # What a macro of that name makes tests of.
    functions += re.findall(r"\w+", " ".join(re.findall(r"\btests! \{(.*?)\n\}", text, re.DOTALL)))
    inner = [[], *([name] for name in re.findall(r"\bmod (\w+) \{", text))]
    return {(program, "::".join([*modules, *within, function])) for function in functions for within in inner}


def names_of(folder, read):
    """What commands may name: the tests of a crate, or the programs of another folder and the functions in them."""
    found = set()
    for path in glob.glob(os.path.join(ROOT, folder, "**"), recursive=True):
        inside = os.path.relpath(path, os.path.join(ROOT, folder))
        if path.endswith(".rs"):
            found |= rust_tests(inside, read(path))
        elif path.endswith((".c", ".cc")):
            found.add(os.path.splitext(inside)[0])
            found.update(re.findall(r"\bvoid (\w+)", read(path)))
    return found


def entry_problems(entries, read, names=None):
    """What is wrong with the list; `read` gives the text of a file, or nothing, and `names` is as above."""
    problems, seen = [], set()
    for entry in entries:
        name = entry.get("name", "?")
        say = lambda text: problems.append(f"{name}: {text}")
        missing = {"name", "file", "find", "replace", "why"} - set(entry)
        if missing:
            say(f"has no {', '.join(sorted(missing))}")
            continue
        unknown = set(entry) - KEYS - {"crate"}
        if unknown:
            say(f"has what nobody reads: {', '.join(sorted(unknown))}")
        if not re.fullmatch(r"[a-z0-9-]+", name) or name in seen:
            say("the name is not of letters, digits and hyphens, or is there twice")
        seen.add(name)
        if not entry["tests"]:
            say("has no tests")
        for command in entry["tests"]:
            if command.split()[0] not in VERBS:
                say(f"a test that begins with none of {', '.join(sorted(VERBS))}: {command}")
            elif names and (unknown := unknown_names(command, names)):
                say(f"no test is called {unknown[0]}: {command}")
        if entry["find"] == entry["replace"]:
            say("changes nothing")
        text = read(entry["file"])
        if text is None:
            say(f"{entry['file']} does not exist")
        elif (count := text.count(entry["find"].strip("\n"))) != 1:
            say(f"its text stands {count} times in {entry['file']}")
    return problems


def mutated(text, entry):
    """The text of the file with the mutant in it."""
    find, replace = entry["find"].strip("\n"), entry["replace"].strip("\n")
    if text.count(find) != 1:
        raise ListError(f"{entry['name']}: its text stands {text.count(find)} times in {entry['file']}")
    return text.replace(find, replace)


def digest(*texts):
    joined = hashlib.sha256()
    for text in texts:
        joined.update(hashlib.sha256(text.encode()).digest())
    return joined.hexdigest()[:16]


def digest_of(entry):
    """Of what decides about the outcome."""
    return digest(json.dumps([entry[key] for key in ("file", "find", "replace", "tests")]))


def outcome_of(entry, results):
    """What came of an entry as it is now."""
    result = results.get(entry["name"])
    return result["outcome"] if result and result["entry"] == digest_of(entry) else "not run"


def copy_tree(root, target):
    """Copy what git knows of COPIED, keeping times, and only what differs; remove what is gone. The digest of all."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *COPIED],
                            cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    listed = sorted({path for path in listed if os.path.isfile(os.path.join(root, path))})
    whole = hashlib.sha256()
    for path in listed:
        source, copy = os.path.join(root, path), os.path.join(target, path)
        with open(source, "rb") as file:
            data = file.read()
        if not path.startswith(("docs/", "tests/mutants/", "scripts/")):
            whole.update(path.encode() + b"\0" + hashlib.sha256(data).digest())
        old = None
        if os.path.exists(copy):
            with open(copy, "rb") as file:
                old = file.read()
        if old != data:
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            with open(copy, "wb") as file:
                file.write(data)
            shutil.copymode(source, copy)
    for folder, _, files in os.walk(target):
        for name in files:
            path = os.path.relpath(os.path.join(folder, name), target)
            if path not in set(listed):
                os.remove(os.path.join(target, path))
    return whole.hexdigest()[:16]


class Runner:
    """Runs the commands in the copy."""

    def __init__(self, tree, target, log):
        self.tree, self.target, self.log = tree, target, log

    def environment(self, **more):
        environment = dict(os.environ, CARGO_TARGET_DIR=self.target, CARGO_PROFILE_DEV_DEBUG="0",
                           CARGO_PROFILE_RELEASE_LTO="off", CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16",
                           CARGO_PROFILE_RELEASE_DEBUG="0", CARGO_TERM_COLOR="never", RUST_BACKTRACE="0")
        environment.pop("GLEANER_OPTIONS", None)
        environment.update(more)
        return environment

    def steps(self, command):
        """(argument list, environment) of what compiles, and of what tests."""
        verb, *words = shlex.split(command)
        library = os.path.join(self.target, "release", "libgc.so")
        release = ["cargo", "build", "--locked", "--release"]
        if verb == "cargo":
            test = ["cargo", "test", "--locked", "--quiet", *words]
            return [with_no_run(test)], test, self.environment()
        if verb == "loom":
            test = ["cargo", "test", "--locked", "--quiet", "--release", "--tests", *words]
            environment = self.environment(RUSTFLAGS="--cfg loom", CARGO_TARGET_DIR=self.target + "-loom")
            return [with_no_run(test)], test, environment
        if verb == "conformance":
            build = os.path.join(self.target, "conformance")
            test = ["tests/conformance/run.sh", "--quiet", "--build", build, "--lib", library, *words]
            return [[*release, "-p", "gleaner-libgc"]], test, self.environment(GLEANER="1")
        if verb == "limits":
            test = ["tests/limits/run.sh", "--quiet", "--lib", library]
            return [[*release, "-p", "gleaner-libgc"]], test, self.environment()
        test = ["tests/capi/run.sh", "--until-failure", "--lib", os.path.join(self.target, "release")]
        return [[*release, "-p", "gleaner-capi"]], test, self.environment()

    def run(self, words, environment):
        """'passed', 'failed' or 'hangs'."""
        with open(self.log, "ab") as log:
            log.write(f"\n+ {shlex.join(words)}\n".encode())
            log.flush()
            process = subprocess.Popen(words, cwd=self.tree, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log, start_new_session=True)
            try:
                return "passed" if process.wait(LIMIT_SECONDS) == 0 else "failed"
            except subprocess.TimeoutExpired:
                return "hangs"
            finally:
                # Its own session: nobody else's programs are in it.
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()

    def compiles(self, command):
        builds, _, environment = self.steps(command)
        return all(self.run(build, environment) == "passed" for build in builds)

    def test(self, command):
        """As `run`; or 'runs no test', if no name fits the command's filter."""
        _, test, environment = self.steps(command)
        begin = os.path.getsize(self.log)
        outcome = self.run(test, environment)
        with open(self.log, "rb") as log:
            log.seek(begin)
            said = log.read().decode(errors="replace")
        return "runs no test" if outcome == "passed" and test[0] == "cargo" and runs_no_test(said) else outcome


def runs_no_test(said):
    """Whether cargo's test programs, by what they said, had nothing to run."""
    return not any(int(count) for count in re.findall(r"^running (\d+) tests?$", said, re.MULTILINE))


def with_no_run(test):
    """Cargo's test command that stops before it runs what it compiled."""
    end = test.index("--") if "--" in test else len(test)
    return [*test[:end], "--no-run"]


def judge(entry, runner):
    """(outcome, by which command)."""
    for command in entry["tests"]:
        if not runner.compiles(command):
            return "does not compile", command
        outcome = runner.test(command)
        if outcome != "passed":
            return {"failed": "caught", "hangs": "caught: it hangs"}.get(outcome, outcome), command
    return "survived", ""


def is_kept(entry, result, tree, file_text, keep_caught):
    """Whether an earlier result still stands."""
    if not result or result["entry"] != digest_of(entry):
        return False
    if result["outcome"] == "does not compile":
        return False
    if result["tree"] == tree:
        return True
    return keep_caught and result["outcome"].startswith("caught") and result["file"] == digest(file_text)


def run_all(entries, tree_folder, tree, results, save, runner, keep_caught=False, say=print):
    """Runs what has no result yet, and saves after each; the names of the commands that fail on the tree as it is."""
    broken, sound = {}, set()
    for number, entry in enumerate(entries, 1):
        path = os.path.join(tree_folder, entry["file"])
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if is_kept(entry, results.get(entry["name"]), tree, text, keep_caught):
            continue
        with open(path, "w", encoding="utf-8") as file:
            file.write(mutated(text, entry))
        try:
            outcome, command = judge(entry, runner)
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        # What fails without the mutant, too, says nothing about it. What passes with it needs no proof.
        if command and command not in sound and command not in broken:
            state = runner.test(command) if runner.compiles(command) else "does not compile"
            if state == "passed":
                sound.add(command)
            else:
                broken[command] = entry["name"]
                say(f"FAILED: without any mutant: {command}: {state}", flush=True)
        if command in broken:
            continue
        results[entry["name"]] = {
            "outcome": outcome, "by": command, "tree": tree, "file": digest(text),
            "entry": digest_of(entry),
        }
        save(results)
        say(f"[{number}/{len(entries)}] {entry['name']}: {outcome}{' by ' + command if command else ''}", flush=True)
    return broken


def tally(entries, results, broken):
    """(lines, passed, failed)."""
    lines, passed, failed = [], 0, 0
    for entry in entries:
        outcome = outcome_of(entry, results)
        if outcome.startswith("caught"):
            passed += 1
            if "survives" in entry:
                lines.append(f"{entry['name']}: was caught; remove `survives`")
        elif outcome == "survived" and "survives" in entry:
            passed += 1
            lines.append(f"{entry['name']}: survived, and that is explained")
        else:
            failed += 1
            lines.append(f"FAILED: {entry['name']}: {outcome}: {entry['why']}")
    caught = sum(outcome_of(entry, results).startswith("caught") for entry in entries)
    run = sum(outcome_of(entry, results) == "survived" for entry in entries) + caught
    if run:
        lines.append(f"score: {caught} of {run} that were run were caught ({100 * caught / run:.1f} %), {len(entries)} in the list")
    lines += [f"FAILED: without any mutant: {command}" for command in broken]
    return lines, passed, failed + len(broken)


def report(entries, results, commit):
    """docs/mutants.md."""
    def state(entry):
        return outcome_of(entry, results)

    def step(entry):
        by = results.get(entry["name"], {}).get("by") or ""
        return f"`{VERBS[by.split()[0]]}`" if by and state(entry).startswith("caught") else ""

    run = [entry for entry in entries if state(entry) == "survived" or state(entry).startswith("caught")]
    caught = [entry for entry in run if state(entry) != "survived"]
    short = sum(bool(entry.get("short")) for entry in entries)
    lines = [
        "# Deliberate breakages", "",
        "<!-- Written by `scripts/mutants.py report` from the last results. -->", "",
        f"The project keeps {len(entries)} breakages of its own code ([tests/mutants](../tests/mutants)), each with the tests that must",
        "see it. A test suite is worth what it catches:", "",
        "```sh",
        f"make test-mutants-short    # {short} of them, in minutes; part of `make test`",
        "make test-mutants          # all; takes hours, and goes on where it was stopped",
        "python3 scripts/mutants.py run --only handles    # those with that word in their name",
        "python3 scripts/mutants.py report                # writes this page",
        "```", "",
        "A new protocol or a new decider brings its breakages with it: an entry names the file, the text, what it becomes,",
        "and the narrowest commands that must fail. One whose text is no longer found is an error: change it together with the code.", "",
        "## Score", "",
        f"Of all {len(entries)}, {len(caught)} were run and caught ({100 * len(caught) / max(len(entries), 1):.1f} %),"
        f" {len(run) - len(caught)} were run and missed"
        + (f", and {never} were never run: of those nothing is known." if (never := len(entries) - len(run)) else "."),
        f"The last results are of commit `{commit}`; those of earlier ones count until they are run again.", "",
        "| crate | in the list | run | caught |", "| --- | ---: | ---: | ---: |",
    ]
    for crate in dict.fromkeys(entry["crate"] for entry in entries):
        of = [entry for entry in entries if entry["crate"] == crate]
        if of:
            lines.append(f"| {crate} | {len(of)} | {sum(entry in run for entry in of)} | {sum(entry in caught for entry in of)} |")
    lines += ["", "| step | caught |", "| --- | ---: |"]
    for name in VERBS.values():
        lines.append(f"| `{name}` | {sum(step(entry) == f'`{name}`' for entry in caught)} |")
    survivors = [entry for entry in run if state(entry) == "survived"]
    lines += ["", "## Survivors", ""]
    if not survivors:
        lines.append("None." if run else "Nothing was run yet.")
    for entry in survivors:
        why = entry.get("survives", "No test sees it yet.")
        lines.append(f"- `{entry['name']}` (`{entry['file']}`): {entry['why']} {why}")
    lines += ["", "## All of them", "", "The last column has the step of `make test` that saw it first, in the order of the entry's commands.", "",
              "| name | what is broken | outcome | step |", "| --- | --- | --- | --- |"]
    for entry in entries:
        why = entry["why"].replace("|", chr(92) + "|")
        lines.append(f"| `{entry['name']}` | {why} | {state(entry)} | {step(entry)} |")
    return "\n".join(lines) + "\n"


class FakeRunner:
    """For the self-test: a command says what file must contain what word, and how it fails."""

    def __init__(self, tree):
        self.tree, self.ran = tree, []

    def compiles(self, command):
        return "syntax error" not in self.text()

    def test(self, command):
        self.ran.append(command)
        if command == "cargo none":
            return "runs no test"
        if "loop" in self.text():
            return "hangs"
        return "passed" if command.split()[1] in self.text() else "failed"

    def text(self):
        with open(os.path.join(self.tree, "a.rs"), encoding="utf-8") as file:
            return file.read()


def self_test():
    failed = total = 0

    def holds(what, condition):
        nonlocal failed, total
        total += 1
        failed += not condition
        print(f"{'ok' if condition else 'FAILED'}: {what}")

    good = {"name": "one", "file": "a.rs", "find": "two", "replace": "three", "why": "It is broken.",
            "tests": ["cargo two"], "crate": "base"}
    files = {"a.rs": "one two\n", "b.rs": "two two\n"}
    problems = lambda entry: entry_problems([entry], files.get)
    holds("accepts an entry that fits", problems(good) == [])
    holds("rejects a text that is gone", problems(good | {"find": "four"}) != [])
    holds("rejects a text that is there twice", problems(good | {"file": "b.rs"}) != [])
    holds("rejects a file that is gone", problems(good | {"file": "c.rs"}) != [])
    holds("rejects an unknown key", problems(good | {"test": []}) != [])
    holds("rejects an entry without tests", problems(good | {"tests": []}) != [])
    holds("rejects an unknown command", problems(good | {"tests": ["make two"]}) != [])
    source = "mod tests {\n    #[test]\n    #[ignore = \"slow\"]\n    // Why.\n    fn runs() {}\n    fn helps() {}\n}\n"
    made = rust_tests("tests/c.rs", "all::tests! {\n    one,\n    other\n}\n")
    holds("finds the tests of a file", rust_tests("src/a/b.rs", source) == {("src", "a::b::runs"), ("src", "a::b::tests::runs")})
    holds("and those that a macro makes", made == {("tests/c", "one"), ("tests/c", "other")})
    names = {"crates/base": rust_tests("src/a/b.rs", source) | rust_tests("src/d.rs", "fn d() {}") | made,
             "tests/conformance": {"alloc", "basic"}}.get
    for command in ("cargo -p gleaner-base --lib a::b", "loom -p gleaner-base --test c", "cargo -p gleaner-base runs",
                    "cargo -p gleaner-base --test c other -- --exact", "conformance --opt x=y alloc:basic",
                    "conformance alloc:gleaner:basic", "capi"):
        holds(f"accepts a filter that fits: {command}", not unknown_names(command, names))
    for command in ("cargo -p gleaner-base --lib a::c", "cargo -p gleaner-base --lib d", "cargo -p gleaner-base helps",
                    "cargo -p gleaner-base --lib other", "loom -p gleaner-base --test b", "loom -p gleaner-base --test c runs",
                    "conformance alloc:a_b"):
        holds(f"rejects one that does not: {command}", unknown_names(command, names))
    holds("and names the entry", entry_problems([good | {"tests": ["conformance none"]}], files.get, names) != [])
    holds("rejects a mutant that changes nothing", problems(good | {"replace": "two"}) != [])
    holds("rejects two of one name", entry_problems([good, good], files.get) != [])
    holds("stops compilation before arguments of the tests",
          with_no_run(["cargo", "test", "--", "x"]) == ["cargo", "test", "--no-run"])

    summary = "running {} tests\n\ntest result: ok. 0 passed\n"
    holds("a filter that fits no test is noticed", runs_no_test(summary.format(0) * 2))
    holds("one that fits one in any program is not", not runs_no_test(summary.format(0) + "running 1 test\n"))
    for what, text in (("that is no TOML", "[[mutant]\n"), ("with a misspelt word", "[[mutant]]\n[[mutants]]\n"), ("of nothing", "")):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "base.toml"), "w", encoding="utf-8") as file:
                file.write(text)
            try:
                holds(f"a list {what} is named", read_list(folder) is None)
            except ListError as error:
                holds(f"a list {what} is named", "base.toml: " in str(error))

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.rs")
        with open(path, "w", encoding="utf-8") as file:
            file.write(files["a.rs"])
        entries = [good, good | {"name": "other", "tests": ["cargo one"]},
                   good | {"name": "again", "tests": ["cargo one", "cargo two"]},
                   good | {"name": "hang", "replace": "loop", "tests": ["cargo one"]},
                   good | {"name": "bad", "replace": "syntax error"},
                   good | {"name": "unfounded", "tests": ["cargo nothing"]}]
        results, saved = {}, []
        runner = FakeRunner(folder)
        quiet = lambda *_, **__: None
        save = lambda found: saved.append(len(found))
        broken = run_all(entries, folder, "t", results, save, runner, say=quiet)
        outcome = {name: result["outcome"] for name, result in results.items()}
        holds("a failing test catches", outcome["one"] == "caught")
        holds("passing tests let it survive", outcome["other"] == "survived")
        holds("the second command may catch it", outcome["again"] == "caught" and results["again"]["by"] == "cargo two")
        holds("a hang is caught", outcome["hang"] == "caught: it hangs")
        holds("one that does not compile is told", outcome["bad"] == "does not compile")
        holds("a command that fails anyway judges nothing", "unfounded" not in outcome and list(broken) == ["cargo nothing"])
        holds("the file is put back", runner.text() == files["a.rs"])
        holds("results are saved after each", saved == [1, 2, 3, 4, 5])
        lines, passed, bad = tally(entries, results, broken)
        holds("the tally", (passed, bad) == (3, 4) and any("score: 3 of 4" in line for line in lines))
        unfit = [good | {"name": "unfit", "tests": ["cargo none", "cargo two"]}]
        broken = run_all(unfit, folder, "t", results, save, runner, say=quiet)
        holds("a command that runs no test judges nothing", "unfit" not in results and list(broken) == ["cargo none"])
        explained = [entries[1] | {"survives": "Nobody can see it."}]
        holds("an explained survivor is no failure", tally(explained, results, {})[1:] == (1, 0))
        runner.ran.clear()
        run_all(entries[:4], folder, "t", results, save, runner, say=quiet)
        holds("what was run on the same tree is not run again", runner.ran == [])
        kept = lambda tree, entry, text, caught: is_kept(entry, results[entry["name"]], tree, text, caught)
        holds("another tree: again", not kept("u", good, files["a.rs"], False))
        holds("another tree, the same file, caught: kept if asked", kept("u", good, files["a.rs"], True))
        holds("another file: again", not kept("u", good, "two\n", True))
        holds("a survivor on another tree: again", not kept("u", entries[1], files["a.rs"], True))
        holds("a changed entry: again", not kept("t", good | {"replace": "four"}, files["a.rs"], True))
        page = report(entries, results, "abc")
        holds("the page has the score and the survivor", ", 3 were run and caught (" in page and "- `other`" in page)
    print(f"{total - failed} passed, {failed} failed")
    return 1 if failed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "check", "report"])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--crate", action="append", default=[])
    parser.add_argument("--keep-caught", action="store_true")
    chosen = parser.parse_args()
    try:
        everything = read_list(os.path.join(ROOT, "tests", "mutants"))
    except ListError as error:
        print(f"FAILED: {error}")
        print("0 passed, 1 failed")
        return 1

    def read(path):
        full = os.path.join(ROOT, path)
        if not os.path.isfile(full):
            return None
        with open(full, encoding="utf-8") as file:
            return file.read()

    names = functools.cache(lambda folder: names_of(folder, read))
    problems = entry_problems(everything, read, names)
    for problem in problems:
        print(f"FAILED: {problem}")
    if chosen.command == "check" or problems:
        print(f"{len(everything) - len(problems)} passed, {len(problems)} failed")
        return 1 if problems else 0
    folder = os.path.join(ROOT, "target", "mutants")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "results.json")
    reported = os.path.join(ROOT, "tests", "mutants", "results.json")
    results = {}
    known = path if os.path.exists(path) else reported
    if os.path.exists(known):
        with open(known, encoding="utf-8") as file:
            try:
                results = json.load(file)
            except json.JSONDecodeError as error:
                raise SystemExit(f"mutants.py: {os.path.relpath(known, ROOT)} cannot be read ({error}): remove it,"
                                 " or have it back from git") from None

    def save(found, path=path):
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1, sort_keys=True)
            file.write("\n")
        os.replace(path + ".new", path)

    if chosen.command == "report":
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True,
                                stdout=subprocess.PIPE, text=True).stdout.strip()
        with open(os.path.join(ROOT, "docs", "mutants.md"), "w", encoding="utf-8") as file:
            file.write(report(everything, results, commit))
        save(results, reported)
        return 0
    entries = [entry for entry in everything
               if (not chosen.short or entry.get("short"))
               and (not chosen.crate or entry["crate"] in chosen.crate)
               and (not chosen.only or any(word in entry["name"] for word in chosen.only))]
    if not entries:
        raise SystemExit("mutants.py: there is no such breakage: a file of tests/mutants is a crate, and --only is a part of a name")

    only_one(folder)
    ends_when_told()
    tree_folder = os.path.join(folder, "tree")
    tree = copy_tree(ROOT, tree_folder)
    # tests/capi and tests/limits build in the tree's own target/.
    os.makedirs(os.path.join(folder, "target"), exist_ok=True)
    link = os.path.join(tree_folder, "target")
    if not os.path.islink(link):
        os.symlink(os.path.join("..", "target"), link)
    runner = Runner(tree_folder, os.path.join(folder, "target"), os.path.join(folder, "log"))
    broken = run_all(entries, tree_folder, tree, results, save, runner, chosen.keep_caught)
    lines, passed, failed = tally(entries, results, broken)
    print("\n".join(lines))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
