"""Which files of a crate use which others, as their text says, and which of them lie in circles.

A file uses another if it names something of it, in a `use` or in a path that begins with `crate`, `super` or `self`. A name
that a module only passes on (`pub use`) belongs to the file that has it, so the front of a room uses nothing by that. Tests,
in files of their own or at the end of a file, are not looked at.
"""

import re

TEST_MODULE = re.compile(r"#\[cfg\((?:all\()?test[^\n]*\]\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{")
USE = re.compile(r"(\bpub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);")
PATH = re.compile(r"\b((?:crate|super|self)(?:::\w+)+)")


def is_test(path):
    """A file whose whole content is compiled for tests only."""
    parts = path.split("/")
    return parts[-1] == "tests.rs" or "tests" in parts or "benches" in parts


def code_of(text):
    """The text without comments and without the tests at its end. Where a thing may be seen is no use of that place."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    text = re.sub(r"\bpub\(in [\w:]+\)", "pub", text)
    tests = TEST_MODULE.search(text)
    return text[:tests.start()] if tests else text


def module_of(name):
    """The module that a file below src/ is: names from the crate's root on."""
    parts = name.removesuffix(".rs").split("/")
    return tuple(parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts)


def paths_of(tree, before=()):
    """The paths that a use tree names."""
    found = re.fullmatch(r"([\w:\s]*?)(?:::)?\s*\{(.*)\}", tree.strip(), flags=re.S)
    if not found:
        yield before + tuple(re.sub(r"\s+as\s+\w+$", "", tree.strip()).split("::"))
        return
    before += tuple(filter(None, found.group(1).strip().split("::")))
    depth, begin, inside = 0, 0, found.group(2) + ","
    for at, letter in enumerate(inside):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if inside[begin:at].strip():
                yield from paths_of(inside[begin:at], before)
            begin = at + 1


class Crate:
    """The modules of a crate; `files` are (name below src/, text)."""

    def __init__(self, files):
        self.files = {module_of(name): (name, code_of(text)) for name, text in files if not is_test(name)}
        self.passed_on = {}
        for module, (_, text) in self.files.items():
            for public, tree in USE.findall(text):
                for path in paths_of(tree) if public else ():
                    if target := self.absolute(path, module):
                        self.passed_on.setdefault(module, {})[path[-1]] = target

    def absolute(self, path, module):
        """A path from the crate's root on, or nothing if it leads out of the crate."""
        if path[0] == "crate":
            return path[1:]
        if path[0] not in ("super", "self"):
            return module + path if module + path[:1] in self.files else None
        while path and path[0] in ("super", "self"):
            module, path = module[:len(module) - (path[0] == "super")], path[1:]
        return module + path

    def owner(self, path, steps=8):
        """The module that has what a path names; nothing if that is compiled from a file elsewhere (`#[path]`)."""
        length = next(length for length in range(len(path), -1, -1) if path[:length] in self.files or not length)
        module, rest = path[:length], path[length:]
        if rest and module in self.files and re.search(rf"\bmod {rest[0]};", self.files[module][1]):
            return None
        target = self.passed_on.get(module, {}).get(rest[0]) if rest else None
        return self.owner(target + rest[1:], steps - 1) if target and steps else module

    def uses(self):
        """What each module uses of others."""
        graph = {}
        for module, (_, text) in self.files.items():
            rest = USE.sub("", text)
            # What is passed on is used here, too, where its name stands elsewhere in the file.
            named = [path for public, tree in USE.findall(text) for path in paths_of(tree)
                     if not public or re.search(rf"\b{path[-1]}\b", rest)]
            named += [tuple(path.split("::")) for path in PATH.findall(rest)]
            owners = {self.owner(path) for path in (self.absolute(path, module) for path in named) if path is not None}
            graph[module] = {owner for owner in owners if owner in self.files} - {module}
        return graph

    def circles(self):
        """Names of the files of each circle, sorted."""
        graph = self.uses()
        reached = {module: reachable(graph, module) for module in graph}
        found = {frozenset(other for other in reached[module] if module in reached[other])
                 for module in graph if module in reached[module]}
        return sorted(sorted(self.files[module][0] for module in circle) for circle in found)


def reachable(graph, module):
    """All modules that a module uses, or that these use, and so on."""
    reached, ahead = set(), [module]
    while ahead:
        for used in graph[ahead.pop()] - reached:
            reached.add(used)
            ahead.append(used)
    return reached
