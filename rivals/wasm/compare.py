#!/usr/bin/env python3
"""Run each module of rivals/wasm/programs on all machines, doing little, and compare what it prints; and what ends badly.

    rivals/wasm/compare.py                     everything
    rivals/wasm/compare.py kotlin/trees        these modules, and no refusals

The last line is "N passed, N failed".
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RIVALS = ROOT / "target/rivals"
MODULES = RIVALS / "wasm"
TESTED = ROOT / "crates/wasm/tests/modules"
#: The machines, and how each is told that its heap, or what it calls so, has that many MB.
MACHINES = {
    "wasmtime": lambda heap: [RIVALS / "wasmtime", *([] if heap is None else ["--heap", heap])],
    "node": lambda heap: [RIVALS / "node", *([] if heap is None else ["--heap", heap])],
    "gleaner": lambda heap: [RIVALS / "gleaner", "run", *([] if heap is None else ["--opt", f"heap-limit={heap}m"])],
}
#: Modules of the engine's tests with their arguments, and the exit status that each machine must give.
ENDINGS = [
    ([TESTED / "kotlin/uncaught.wasm"], 134),
    ([TESTED / "ocaml/uncaught.wasm"], 2),
    (["--dir", "{scratch}::/d", TESTED / "ocaml/files.wasm", "/d"], 3),
]


def run(command):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)


def printed(machine, module, heap=None):
    """What a module prints; of a program that prints measurements, its result."""
    done = run([*MACHINES[machine](heap), module, "--tiny"])
    if done.returncode != 0:
        raise ValueError(f"{machine}: exit status {done.returncode}: {done.stderr.strip()}")
    last = done.stdout.splitlines()[-1]
    return json.loads(last)["result"] if last.startswith("{") else done.stdout


def module_problems(module):
    try:
        found = {machine: printed(machine, module) for machine in MACHINES}
        found |= {f"{machine} in 64 MB": printed(machine, module, "64") for machine in MACHINES}
    except (OSError, ValueError) as error:
        return [str(error)]
    first, *others = found
    return [f"{first} printed {found[first]!r}, {other} {found[other]!r}" for other in others if found[other] != found[first]]


def ending_problems(machine, words, status, scratch):
    scratch.mkdir(parents=True, exist_ok=True)
    words = [str(word).replace("{scratch}", str(scratch)) for word in words]
    done = run([*MACHINES[machine](None), *words])
    if done.returncode != status:
        return [f"exit status {done.returncode}, not {status}: {done.stderr.strip()}"]
    return []


def refusal_problems(machine):
    """A module that is not there."""
    done = run([*MACHINES[machine](None), "no-such-module.wasm"])
    if done.returncode == 0 or "no-such-module.wasm" not in done.stderr:
        return [f"exit status {done.returncode}, said: {done.stderr.strip()}"]
    return []


def checks(names):
    for name in names:
        yield name, module_problems(MODULES / f"{name}.wasm")


def all_endings():
    for machine in MACHINES:
        for words, status in ENDINGS:
            module = next(word for word in words if str(word).endswith(".wasm"))
            what = f"{machine} ends with {status} after {module.relative_to(TESTED)}"
            yield what, ending_problems(machine, words, status, ROOT / "target/tmp/rivals-wasm")
        yield f"{machine} names a module that is not there", refusal_problems(machine)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = sorted(f"{path.parent.name}/{path.stem}" for path in MODULES.glob("*/*.wasm"))
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="LANGUAGE/NAME, all unless given")
    chosen = parser.parse_args().modules
    if unknown := set(chosen) - set(every):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(every) or 'none: make rivals-wasm'}")
    if not every:
        parser.error(f"{MODULES} has no modules: make rivals-wasm")
    passed = failed = 0
    for what, problems in itertools.chain(checks(chosen or every), [] if chosen else all_endings()):
        print(f"{'FAILED' if problems else 'ok'}: {what}", flush=True)
        for problem in problems:
            print(f"    {problem}")
        failed += bool(problems)
        passed += not problems
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
