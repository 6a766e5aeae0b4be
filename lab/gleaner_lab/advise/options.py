"""Which options of Gleaner's heap a cell may set: those of the program's heap that change its size
or its speed.

`gleaner options --all` lists all options with their group and with the heap that they serve.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gleaner_lab.failure import Failure

#: The heap of a program, by what runs it.
HEAPS = {"libgc": "libgc", "gleaner": "precise"}
#: The variable with options of Gleaner's heap.
VARIABLE = "GLEANER_OPTIONS"
#: The group of options for people who look for a bug.
TESTING = "testing"
#: Options that change what a run tells or which machine it is of, and why they are in no cell.
ASIDE = {
    "log": "the advisor has a log written itself, and reads pauses from it",
    **dict.fromkeys(
        ("stats", "snapshot", "snapshot-at", "snapshot-process", "array-report"),
        "it has something written, which takes time and makes no program faster",
    ),
    "topology": "the answer is about this machine, and it makes up another one",
}
GROUP = re.compile(r"(\w+) options$")
FIRST = re.compile(r"  ([a-z][a-z0-9-]*)=(\S*)")


@dataclass(frozen=True)
class Option:
    """What `gleaner options` says of one."""

    name: str
    default: str
    #: `user`, `tuning` or `testing`.
    group: str
    accepted: str
    #: `libgc`, `precise` or `both`.
    heap: str

    def accepts(self, value: str) -> bool:
        """Whether an option whose values are words has this one."""
        return value in self.accepted.split("|")


def listed(gleaner: Path) -> list[Option]:
    """All options; a name that both heaps have with other values stands there twice."""
    variables = {name: text for name, text in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [gleaner, "options", "--all"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=variables,
    )
    if done.returncode != 0:
        raise Failure(f"{gleaner} options: {done.stderr.strip() or 'it failed'}: run make build")
    return parse(done.stdout)


def parse(text: str) -> list[Option]:
    """Options as `gleaner options` prints them."""
    found: list[Option] = []
    group = name = default = accepted = ""
    for line in text.splitlines():
        if is_group := GROUP.match(line):
            group = is_group[1]
        elif is_first := FIRST.match(line):
            name, default = is_first.groups()
        elif line.startswith("      accepted: "):
            accepted = line.partition(": ")[2]
        elif line.startswith("      heaps: "):
            heap = line.partition(": ")[2]
            found.append(Option(name, default, group, accepted, heap))
    return found


def check_option(setting: str, kind: str, known: Sequence[Option]) -> None:
    """Refuses NAME=VALUE in a cell if it is of the other heap, or about something else.

    A name or a value that there is not is left to gleaner-bench, which knows the nearest one.
    """
    name, _, value = setting.partition("=")
    found = [one for one in known if one.name == name]
    if not found:
        return
    heap = HEAPS[kind]
    mine = [one for one in found if one.heap in (heap, "both")]
    theirs = [one for one in found if one not in mine]
    if not mine or (theirs and not mine[0].accepts(value) and theirs[0].accepts(value)):
        what = setting if mine else name
        raise Failure(
            f"--heap: {what} belongs to the {theirs[0].heap} heap, and this program has the "
            f"{heap} heap: leave it out, or say with --runtime what runs it"
        )
    if mine[0].group == TESTING:
        reason = "it is for people who look for a bug, and slows each run down or breaks it"
    elif name in ASIDE:
        reason = ASIDE[name]
    else:
        return
    raise Failure(f"--heap: {setting} is no candidate: {reason}. Leave it out")


def check_own(settings: Sequence[str], kind: str, known: Sequence[Option]) -> None:
    """Refuses options for people who look for a bug in the user's environment."""
    heaps = (HEAPS[kind], "both")
    testing = {one.name: one for one in known if one.group == TESTING and one.heap in heaps}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name in testing and value != testing[name].default:
            raise Failure(
                f"{VARIABLE} has {setting}, which is for people who look for a bug: each run would "
                "be slowed down or broken by it. Take it out"
            )
