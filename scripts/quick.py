#!/usr/bin/env python3
"""The checks of a change, in minutes: what a developer runs every few minutes.

    quick.py               against the last commit; against the one before, if nothing has changed since
    quick.py BASE          against another commit, such as main
    quick.py --self-test   prove what is chosen

Format; lints of the crates that changed; unit tests of those, and of the crates that depend on them; files of tests that changed;
the checks that only read (pages, layers, scripts); tests in C that changed; and a smoke test of each door that a change can reach: a program on the libgc door, an embedder in
C, one in Rust, and `gleaner place`. Everything is compiled as `make test-rust` compiles it, so nothing is compiled twice. The
last line is "N passed, N failed", and one before it names the targets of tests that the change asks for and that take longer.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

from checks import compared, ends_when_told, report, run_to_end

ROOT = pathlib.Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
DEBUG = ROOT / "target/debug"
# Which crates each door is made of.
DOORS = {"libgc": "gleaner-libgc", "native": "gleaner", "capi": "gleaner-capi", "place": "gleaner-cli"}

# What takes longer than minutes, or needs what is not installed, by what changed; of a folder of tests/ the target of its name.
LONGER = {"rivals/": ("check-rivals", "test-rivals"), "rivals/wasm/": ("check-rivals-wasm", "test-rivals-wasm"), "lab/": ("test-lab",), "clients/": ("test-clients-default",),
          "packaging/": ("test-package",), "fuzz/": ("fuzz",)}
FOLDERS = re.compile(r"tests/(bdwgc|debian|distros|limits|package|qemu|singlestep|commands)/")


def said(*command):
    """What a command prints."""
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def changed_since(base):
    """The files that differ from a commit."""
    done = subprocess.run(["git", "diff", "--name-only", "--no-renames", base, "--"], cwd=ROOT, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"quick.py: git knows no commit {base}: name one that this checkout has, as in make check-quick BASE=HEAD~3")
    return done.stdout.splitlines()


def workspace():
    """{crate: (directory, crates of the workspace that it depends on)}."""
    packages = json.loads(said(CARGO, "metadata", "--no-deps", "--format-version=1", "--locked"))["packages"]
    names = {package["name"] for package in packages}
    return {package["name"]: (str(pathlib.Path(package["manifest_path"]).parent.relative_to(ROOT)),
                              {dependency["name"] for dependency in package["dependencies"]} & names)
            for package in packages}


def changed_crates(files, crates):
    """The crates that have these files; all, if the workspace itself changed."""
    if {"Cargo.toml", "Cargo.lock"} & set(files):
        return set(crates)
    return {name for name, (folder, _) in crates.items() if any(file.startswith(f"{folder}/") for file in files)}


def dependents(changed, crates):
    """Those crates, and all that depend on one of them."""
    reached = set(changed)
    while more := {name for name, (_, needs) in crates.items() if needs & reached} - reached:
        reached |= more
    return reached


def packages(names):
    """The arguments of cargo that name them."""
    return [word for name in sorted(names) for word in ("-p", name)]


def changed_tests(files, crates):
    """{crate: files of tests}: those that changed, as cargo calls them. Models are compiled to nothing without loom."""
    found = {}
    for name, (folder, _) in crates.items():
        for file in files:
            program = re.fullmatch(rf"{folder}/tests/(\w+)(\.rs|/.*)", file)
            if program and any((ROOT / folder / "tests" / path).exists() for path in (f"{program[1]}.rs", f"{program[1]}/main.rs")):
                found.setdefault(name, set()).add(program[1])
    return found


def longer(files):
    """The targets that a change of these files asks for, and that are not run here."""
    targets = {target for file in files for folder, of_folder in LONGER.items() if file.startswith(folder) for target in of_folder}
    targets |= {f"test-{found[1]}" for file in files if (found := FOLDERS.match(file))}
    return sorted(targets | {"test-loom" for file in files if file.endswith(".rs") and (ROOT / file).exists()
                             and re.search(r"\bcfg\(.*(?<!not\()\bloom\b|^use (gleaner_base|crate)::sync\b", (ROOT / file).read_text(), re.M)})


def smoke(doors):
    """(name, command) of a program behind each of these doors."""
    gleaner, scratch = str(DEBUG / "gleaner"), str(ROOT / "target/quick-lisp")
    runs = []
    if "libgc" in doors:
        run = ["tests/conformance/run.sh", "--quiet", "--lib", str(DEBUG / "libgc.so"), "alloc", "threads", "finalize"]
        runs.append(("programs in C on the libgc door", run))
    if "native" in doors:
        runs.append(("an embedder in Rust", [CARGO, "test", "--locked", "--quiet", "-p", "gleaner", "--test", "heap", "basics::"]))
    if "capi" in doors:
        archive = str(DEBUG / "libgleaner_capi.a")
        build = ["gcc", "-Icrates/capi/include", "examples/lisp.c", "-o", scratch, archive, "-pthread", "-ldl", "-lm"]
        runs += [("an embedder in C is built", build), ("and runs", [scratch, "examples/demo.lisp"])]
    if "place" in doors:
        runs.append(("gleaner place", [gleaner, "place", "--opt", "placement=none", "--", "true"]))
    return runs


def suites(files, is_built):
    """(name, command) of the tests in C that changed; all are compiled if what they share did."""
    runs = []
    suite, conformance = "tests/conformance/", "tests/conformance/run.sh"
    changed = [pathlib.Path(file) for file in files if file.startswith(suite)]
    if changed:
        names = sorted({path.stem for path in changed if path.suffix in (".c", ".cc") and not path.stem.startswith("lib_")
                        and (ROOT / path).exists()})
        shared = [] if len(names) == len(changed) else ["alloc"]
        if not is_built:
            runs.append(("the libgc door is built", [CARGO, "build", "--locked", "-p", "gleaner-libgc"]))
        chosen = list(dict.fromkeys([*names, *shared]))
        runs.append(("the suite in C", ["env", "GLEANER=1", conformance, "--quiet", "--lib", str(DEBUG / "libgc.so"), *chosen]))
        runs.append(("the same on stock libgc", [conformance, "--quiet", *chosen]))
    if any(file.startswith(("tests/capi/", "examples/")) for file in files):
        runs.append(("the C interface", ["make", "--silent", "test-capi"]))
    if any(file.startswith("clients/") for file in files):
        runs.append(("the list of clients", [CARGO, "test", "--locked", "--quiet", "-p", "gleaner-bench", "--bins"]))
    return runs


def plan(files, crates):
    """(name, command) of all that is to be run after a change of these files."""
    runs = [("format", [CARGO, "fmt", "--all", "--", "--check"])]
    changed, doors = changed_crates(files, crates), set()
    reached = dependents(changed, crates)
    if changed:
        runs.append(("lints", [CARGO, "clippy", "--locked", *packages(changed), "--all-targets", "--", "-D", "warnings"]))
        # Crates without unit tests have nothing to run, and a crate that is compiled takes its time.
        tested = [name for name in reached if name not in ("gleaner-workloads", "gleaner-libgc")]
        # Cargo refuses --lib where no crate has a library.
        libraries = ["--lib"] if any((ROOT / crates[name][0] / "src/lib.rs").exists() for name in tested) else []
        if tested:
            runs.append(("unit tests", [CARGO, "test", "--locked", "--quiet", *libraries, "--bins", *packages(tested)]))
        runs += [(f"tests of {name} that changed", [CARGO, "test", "--locked", "--quiet", "-p", name, *(
            word for test in sorted(tests) for word in ("--test", test))]) for name, tests in changed_tests(files, crates).items()]
        doors = {door for door, crate in DOORS.items() if crate in reached}
        built = [crate for door, crate in DOORS.items() if door in doors]
        if built:
            runs.append(("the doors are built", [CARGO, "build", "--locked", *packages(built)]))
        runs += smoke(doors)
    runs += suites(files, bool(doors & {"libgc"}))
    # Nearly every file is read by one of these, and they take seconds.
    runs += [(f"make {target}", ["make", "--silent", target])
             for target in ("check-layers", "check-crates", "check-rooms", "check-papers", "check-results", "check-pages", "check-system-calls", "check-scripts")]
    if any(file.startswith("lab/") for file in files):
        runs.append(("the lab", ["make", "--silent", "check-lab"]))
    return runs


def self_test():
    """Each case is (what, got, wanted)."""
    crates = {"gleaner-os": ("crates/os", set()), "gleaner": ("crates/gleaner", {"gleaner-os"}),
              "gleaner-capi": ("crates/capi", {"gleaner"}), "gleaner-cli": ("crates/cli", set())}
    names = [name for name, _ in plan(["crates/gleaner/src/heap.rs"], crates)]
    cases = [
        ("the crate of a file", changed_crates(["crates/os/src/a.rs", "docs/a.md"], crates), {"gleaner-os"}),
        ("the workspace", changed_crates(["Cargo.lock"], crates), set(crates)),
        ("a name that begins like another", changed_crates(["crates/osx/a.rs"], crates), set()),
        ("what depends on it", dependents({"gleaner-os"}, crates), {"gleaner-os", "gleaner", "gleaner-capi"}),
        ("the doors that a change reaches", ["an embedder in Rust" in names, "and runs" in names, "gleaner place" in names],
         [True, True, False]),
        ("a test in C is run", [command[6:] for name, command in plan(["tests/conformance/alloc.c"], crates) if name == "the suite in C"],
         [["alloc"]]),
        ("what tests share is compiled", [command[-1] for name, command in suites(["tests/conformance/harness.h"], True)], ["alloc"] * 2),
        ("a file of tests is run", changed_tests(
            ["crates/gleaner/tests/heap/weak.rs", "crates/gleaner/tests/gone.rs", "crates/os/src/a.rs"], crates), {"gleaner": {"heap"}}),
        ("a rival, and a test of a machine", longer(["rivals/c/native.c", "tests/qemu/run.sh"]), ["check-rivals", "test-qemu", "test-rivals"]),
        ("a model", longer(["crates/plans/tests/loom_stop.rs"]), ["test-loom"]),
        ("a page asks for no more", longer(["README.md"]), []),
        ("a page alone compiles nothing", [name for name, _ in plan(["README.md"], crates)][:2], ["format", "make check-layers"]),
    ]
    return report(compared(cases))


def main():
    """The command."""
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) > 2 or sys.argv[1:2] in (["--help"], ["-h"]):
        raise SystemExit(__doc__)
    ends_when_told()
    bases = sys.argv[1:] or ["HEAD", "HEAD~1"]
    new = said("git", "ls-files", "--others", "--exclude-standard").splitlines()
    for base in bases:
        files = changed_since(base) + new
        if files:
            break
    if not files:
        print(f"nothing has changed since {base}\n0 passed, 0 failed")
        return 0
    print(f"{len(files)} files have changed since {base}")
    checks = []
    for name, command in plan(files, workspace()):
        began = time.monotonic()
        status, text = run_to_end(command, cwd=ROOT)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        lines = text.splitlines()
        checks.append((name, [] if status == 0 else [" ".join(command), *(f"| {line}" for line in lines[-60:])]))
    if more := longer(files):
        print(f"not run here, and worth it after this change: make {' '.join(more)}")
    return report(checks)


if __name__ == "__main__":
    sys.exit(main())
