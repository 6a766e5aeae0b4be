"""The files that a command names: when one of them changes, it is another program.

These are the program itself, what starts it if it is a script, each word that is a file's name,
also behind `=`, and for `java` what its class path and module path name: jars, directories with
their class files, and `DIR/*`. What a file names in turn is not followed, but the first line of a
script and an argument file of `java` are.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from gleaner_lab.advise.runtime import CLASS_PATH, Program, expanded, java_options

#: Names of directories are taken for class paths behind these, and behind `--class-path=`.
PATHS = (*CLASS_PATH, "-p", "--module-path", "--upgrade-module-path")
#: Files of a directory that are looked at: somebody's home is no class path.
MOST = 20_000
#: A file of more bytes is not read whole.
LARGE = 1 << 30


def digests(program: Program) -> dict[str, str]:
    """The hash of each file that is named, by its name in the command."""
    names = sorted({str(path) for path in _named(program)})
    return {
        name: digest_of(name) for name in names if os.path.isfile(name) and os.access(name, os.R_OK)
    }


def digest_of(name: str | Path) -> str:
    """The beginning of the hash of a file's bytes; of a very large one, its size and its time."""
    if (facts := os.stat(name)).st_size > LARGE:
        return f"{facts.st_size} bytes of {facts.st_mtime_ns}"
    with open(name, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def _named(program: Program) -> Iterator[Path]:
    words = list(program.words)
    yield from _started(words[0])
    said = dict(program.said)
    if program.kind == "java":
        if Path(words[0]).name != "java":
            yield from _started("java")
        words = [*words, *expanded(words[1:])]
        yield from _classes(words[len(program.words) :], said.get("CLASSPATH", ""))
    for text in said.values():
        words += text.split()
    for word in words[1:]:
        for name in (word, word.lstrip("@"), word.partition("=")[2], word.rpartition("=")[0]):
            if name:
                yield Path(name)
                # As in -javaagent:agent.jar=options.
                yield Path(name.partition("=")[0].partition(":")[2])


def _started(name: str) -> Iterator[Path]:
    """A program, what its first line says that starts it, and the library of a JVM."""
    path = shutil.which(name)
    if path is None:
        return
    yield Path(path)
    yield Path(path).resolve().parent.parent / "lib" / "server" / "libjvm.so"
    line = b""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        line = file.readline(200)
    if line.startswith(b"#!"):
        for word in shlex.split(line[2:].decode(errors="replace")):
            if by := shutil.which(word):
                yield Path(by)


def _classes(words: list[str], variable: str) -> Iterator[Path]:
    """Files of the class path and of the module path of `java`."""
    own = java_options(words)
    paths = [value for name, value in pairwise(own) if name in PATHS]
    paths += [one.partition("=")[2] for one in own if "=" in one and one.partition("=")[0] in PATHS]
    has_classes = any(one.partition("=")[0] in CLASS_PATH for one in own)
    if not has_classes and words[len(own) : len(own) + 1] != ["-jar"]:
        paths.append(variable or ".")
    for entry in (part for path in paths for part in path.split(":")):
        if entry.endswith("*"):
            yield from sorted(Path(entry[:-1] or ".").glob("*.jar"))
        elif Path(entry or ".").is_dir():
            yield from _inside(Path(entry or "."))
        else:
            yield Path(entry)


def _inside(directory: Path) -> Iterator[Path]:
    seen = 0
    for folder, inner, names in os.walk(directory):
        inner.sort()
        for name in sorted(names):
            seen += 1
            if seen > MOST:
                return
            if name.endswith((".class", ".jar")):
                yield Path(folder) / name
