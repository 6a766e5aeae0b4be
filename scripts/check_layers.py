#!/usr/bin/env python3
"""Check that the layers stay layers.

From `cargo metadata` and the sources of each crate:

 1. a crate depends only on crates of lower rank;
 2. only the crates named in LIBC_USERS depend on `libc` (a dev-dependency is
    not counted: a test may ask the kernel what the code may not);
 3. above the port layer nothing is compiled conditionally, except on the
    predicates in FREE_PREDICATES, in SMALLER on a feature that leaves
    something out of a small library (ARCHITECTURE.md), and in PROCESSORS on the
    processor, for a module with a file for each; a `compile_error!` that refuses a target is
    no variant and may be conditional on anything;
 4. the inner crates are `no_std` outside tests and models;
 5. each crate takes its lints from the workspace;
 6. each outside dependency has a row with its reason in ARCHITECTURE.md, and
    each row is about one;
 7. what belongs to one heap does not name what belongs to the other, and what
    is shared names neither;
 8. only the object model, the collector and the files of the accessors know
    where the elements of an array lie (invariant I10): nobody else names what
    says so, in Rust or in C;
 9. no two files of a crate need each other, by way of others or not
    (scripts/uses.py);
10. each file of Rust is a module of another, or cargo finds it by its place: the
    compiler says nothing of a file that nobody names, and its tests never run.

Run without arguments: the self-test (each rule must reject a bad fixture),
then the workspace. The last line is "N passed, N failed".
"""

import json
import os
import re
import subprocess
import sys

import uses
from checks import report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A crate may depend on those of a strictly lower rank.
RANKS = {
    "gleaner-base": 0, "gleaner-os": 1, "gleaner-mem": 2, "gleaner-work": 3,
    "gleaner-spaces": 4, "gleaner-plans": 5,
    "gleaner": 6, "gleaner-libgc": 6, "gleaner-place": 6, "gleaner-eventlog": 6, "gleaner-heapgraph": 6, "gleaner-capi": 7, "gleaner-workloads": 7, "gleaner-wasm": 8, "gleaner-bench": 8, "gleaner-cli": 9,
}
NO_STD = [name for name, rank in RANKS.items() if rank < 6]
# The port layer, the door with a C interface, the two programs, and the door that maps memory for code.
LIBC_USERS = {"gleaner-os", "gleaner-libgc", "gleaner-bench", "gleaner-cli", "gleaner-wasm"}
PORT_LAYER = "gleaner-os"
FREE_PREDICATES = {"test", "loom", "miri", "debug_assertions"}
# The one file in which a collector is left out, and the two in which a subcommand is.
SMALLER = {
    "crates/gleaner/src/body.rs": {"feature"},
    "crates/cli/src/arguments.rs": {"feature"}, "crates/cli/src/main.rs": {"feature"},
}
# The files that choose the module of a processor: `#[cfg(...)] #[path = "..."] mod name;`. What other code needs of a
# processor is a function of such a module.
PROCESSORS = {
    "crates/base/src/sync/mod.rs", "crates/mem/src/lib.rs", "crates/mem/src/shared_bytes.rs", "crates/mem/src/zero/kernels.rs",
    "crates/mem/src/zero/processor.rs", "crates/libgc/src/messages_api.rs",
}
COMBINATORS = {"not", "any", "all"}
NO_STD_LINE = "#![cfg_attr(not(any(test, loom)), no_std)]"


# Where the sources of each heap lie, and the modules that are that heap's.
LIBGC_HEAP, PRECISE_HEAP = ("mark_sweep",), ("precise", "scavenge")
HEAP_OF_SOURCES = [
    ("crates/spaces/src/mark_sweep/", LIBGC_HEAP), ("crates/plans/src/mark_sweep/", LIBGC_HEAP),
    ("crates/libgc/src/", LIBGC_HEAP),
    ("crates/spaces/src/precise/", PRECISE_HEAP), ("crates/plans/src/scavenge/", PRECISE_HEAP),
    ("crates/gleaner/src/", PRECISE_HEAP), ("crates/capi/src/", PRECISE_HEAP),
    ("crates/plans/src/shared/", ()),
]


# What says where elements lie, and who may name it. In a test of fast paths a compiler's code is written out.
ELEMENT_PLACES = re.compile(r"\bELEMENTS\b|\bobject_model::element\b|\bGLEANER_ELEMENT\b|\belements_offset\b")
ELEMENT_IMPORT = re.compile(r"object_model::\{[^}]*\belement\b[^}]*\}")
KNOW_ELEMENTS = (
    "crates/mem/", "crates/spaces/", "crates/plans/", "crates/gleaner/src/elements.rs", "crates/gleaner/src/elements/",
    "crates/gleaner/src/fast_paths.rs", "crates/gleaner/tests/fast_paths.rs", "crates/capi/include/gleaner.h",
    "crates/capi/include/gleaner_elements.h",
    "crates/wasm/src/translate/arrays.rs",
)
C_FOLDERS = ("crates/capi", "examples", "tests/capi")


def is_ours(name):
    return name == "gleaner" or name.startswith("gleaner-")


def layer_problems(packages):
    """Rule 1."""
    problems = []
    for package in packages:
        name = package["name"]
        if name not in RANKS:
            problems.append(f"{name}: has no rank; give it one in scripts/check_layers.py")
            continue
        for dependency in package["dependencies"]:
            target = dependency["name"]
            if is_ours(target) and RANKS.get(target, 99) >= RANKS[name]:
                problems.append(f"{name}: depends on {target}, which is not below it")
    return problems


def libc_problems(packages):
    """Rule 2."""
    return [
        f"{package['name']}: depends on libc"
        for package in packages
        for dependency in package["dependencies"]
        if dependency["name"] == "libc" and dependency["kind"] != "dev"
        and package["name"] not in LIBC_USERS
    ]


def strip_comments(text):
    """The text without comments, line numbers kept. Strings stay as they are."""
    text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group().count("\n"), text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def predicates(text):
    """(line number, identifiers) of each conditional in a source text."""
    text = strip_comments(text)
    for found in re.finditer(r"\bcfg(_attr)?!?\s*\(", text):
        depth, position = 1, found.end()
        while position < len(text) and depth:
            letter = text[position]
            if letter == "," and depth == 1 and found.group(1):
                break  # what follows in a cfg_attr is the attribute, not the condition
            depth += {"(": 1, ")": -1}.get(letter, 0)
            position += 1
        condition = re.sub(r'"[^"]*"', "", text[found.end():position])
        names = set(re.findall(r"[A-Za-z_]\w*", condition)) - COMBINATORS
        if re.match(r"\s*\]\s*(::\s*)?((core|std)\s*::\s*)?compile_error!", text[position:]):
            continue
        yield text.count("\n", 0, found.start()) + 1, names


def cfg_problems(sources):
    """Rule 3; `sources` are (crate, path, text)."""
    problems = []
    for crate, path, text in sources:
        if crate == PORT_LAYER:
            continue
        for line, names in predicates(text):
            extra = names - FREE_PREDICATES - SMALLER.get(str(path), set())
            extra -= {"target_arch"} if str(path) in PROCESSORS else set()
            if extra:
                problems.append(f"{path}:{line}: compiled conditionally on {', '.join(sorted(extra))}")
    return problems


def no_std_problems(sources):
    """Rule 4."""
    roots = {crate: text for crate, path, text in sources
             if crate in NO_STD and path.endswith("src/lib.rs")}
    return [f"{crate}: src/lib.rs does not say {NO_STD_LINE}"
            for crate, text in sorted(roots.items()) if NO_STD_LINE not in text]


def lint_problems(manifests):
    """Rule 5; `manifests` are (crate, text)."""
    return [f"{crate}: Cargo.toml does not say `[lints] workspace = true`"
            for crate, text in manifests
            if not re.search(r"^\[lints\]\s*\nworkspace\s*=\s*true", text, flags=re.M)]


def dependency_problems(packages, page):
    """Rule 6; `page` is the text of ARCHITECTURE.md."""
    section = page.partition("\n## Dependencies\n")[2].partition("\n## ")[0]
    rows = set(re.findall(r"^\| `([^`]+)` \|[^|]*\| [^|]*\w[^|]* \|$", section, flags=re.M))
    used = {dependency["name"] for package in packages
            for dependency in package["dependencies"]
            if not is_ours(dependency["name"])}
    return ([f"{name}: has no row under Dependencies" for name in sorted(used - rows)]
            + [f"{name}: has a row under Dependencies, but nothing uses it" for name in sorted(rows - used)])


def heap_problems(sources):
    """Rule 7."""
    problems = []
    for _, path, text in sources:
        for folder, own in HEAP_OF_SOURCES:
            if not path.startswith(folder):
                continue
            foreign = "|".join(sorted({*LIBGC_HEAP, *PRECISE_HEAP} - {*own}))
            # By a path, or in the braces of one; a room may have a file of that name, which is its own.
            names = rf"(?<!\bself::)\b({foreign})::|(?<!\bself)::({foreign})\b|::\{{(?:[^;{{}}]*,)?\s*({foreign})\s*(?:as\b|[,}}])"
            for found in re.finditer(names, strip_comments(text)):
                line = text.count("\n", 0, found.start()) + 1
                name = next(filter(None, found.groups()))
                problems.append(f"{path}:{line}: names {name}, of another heap")
    return problems


def element_problems(sources):
    """Rule 8."""
    problems = []
    for _, path, text in sources:
        if path.startswith(KNOW_ELEMENTS):
            continue
        text = strip_comments(text)
        for pattern in (ELEMENT_PLACES, ELEMENT_IMPORT):
            for found in pattern.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                problems.append(f"{path}:{line}: says where elements of arrays lie; there are accessors for them")
    return problems


def circle_problems(sources):
    """Rule 9."""
    files = {}
    for _, path, text in sources:
        folder, found, name = path.partition("/src/")
        if found:
            files.setdefault(folder, []).append((name, text))
    return [f"{folder}: these need each other: {', '.join(circle)}"
            for folder, of_crate in sorted(files.items()) for circle in uses.Crate(of_crate).circles()]


# What cargo compiles by itself: of a folder of programs, its files and the main.rs one folder below.
FOUND_BY_CARGO = re.compile(r"(build|src/lib|src/main|(src/bin|tests|examples|benches)/(\w+|\w+/main))\.rs")


def lone_problems(sources):
    """Rule 10."""
    texts = {path: strip_comments(text) for _, path, text in sources}
    # Files that another names by their path, from its own folder on.
    named = {os.path.normpath(os.path.join(os.path.dirname(path), found))
             for path, text in texts.items() for found in re.findall(r'#\[path = "([^"]+)"\]', text)}

    def is_module(path):
        folder, name = path.removesuffix("/mod.rs").removesuffix(".rs").rsplit("/", 1)
        above = [f"{folder}.rs", *(f"{folder}/{root}.rs" for root in ("mod", "lib", "main"))]
        if folder.endswith("/tests"):  # each program there may have it
            above += [other for other in texts if os.path.dirname(other) == folder]
        return any(re.search(rf"\bmod {name}\s*;", texts.get(place, "")) for place in above)

    return [f"{path}: no `mod` names it, so nothing compiles it" for path in texts
            if not FOUND_BY_CARGO.fullmatch(path.split("/", 2)[2]) and path not in named and not is_module(path)]


def self_test():
    """Each rule accepts a good fixture and rejects a bad one."""
    def package(name, *dependencies):
        return {"name": name, "dependencies": [
            {"name": target, "kind": kind} for target, kind in dependencies]}

    def source(text, crate="gleaner-mem"):
        return [(crate, f"crates/{crate[8:]}/src/lib.rs", text)]

    def heap_source(folder, text):
        return [("gleaner-plans", f"crates/plans/src/{folder}/lib.rs", text)]

    def element_source(path, text):
        return [("gleaner", path, text)]

    def circles(**files):
        return circle_problems([("gleaner-mem", f"crates/mem/src/{name.replace('__', '/')}.rs", text) for name, text in files.items()])

    def lone(**files):
        return lone_problems([("gleaner-mem", f"crates/mem/{name.replace('__', '/')}.rs", text) for name, text in files.items()])

    page = "\n## Dependencies\n\n| `libc` | `os` | system calls |\n"
    accepted = [
        ("a lower crate", layer_problems([package("gleaner-os", ("gleaner-base", None))])),
        ("libc in the port layer", libc_problems([package("gleaner-os", ("libc", None))])),
        ("libc in the tests of a crate", libc_problems([package("gleaner-work", ("libc", "dev"))])),
        ("cfg(feature) where a collector is left out",
         cfg_problems([("gleaner", "crates/gleaner/src/body.rs", '#[cfg(feature = "compressed")] fn f() {}')])),
        ("cfg(test)", cfg_problems(source("#[cfg(all(test, not(loom)))] mod tests;"))),
        ("cfg_attr whose attribute has words", cfg_problems(source(NO_STD_LINE))),
        ("a target that is refused",
         cfg_problems(source('#[cfg(not(target_os = "linux"))]\ncompile_error!("Linux only");'))),
        ("a cfg in a comment", cfg_problems(source("// cfg(target_os) is for the port layer\n"))),
        ("cfg(target_os) in the port layer",
         cfg_problems(source('#[cfg(target_os = "linux")]', "gleaner-os"))),
        ("a no_std crate", no_std_problems(source(NO_STD_LINE))),
        ("a dependency with a reason",
         dependency_problems([package("gleaner-os", ("libc", None))], page)),
        ("lints of the workspace", lint_problems([("x", "[lints]\nworkspace = true\n")])),
        ("a heap's own space", heap_problems(heap_source("scavenge", "use gleaner_spaces::precise::bump;"))),
        ("what is shared", heap_problems(heap_source("mark_sweep", "use crate::shared::record;"))),
        ("a file of its own with that name", heap_problems(heap_source("scavenge", "use self::mark_sweep::MarkSweep;"))),
        ("elements in an accessor", element_problems(
            element_source("crates/gleaner/src/elements/copy.rs", "use gleaner_mem::object_model::{Shape, element};"))),
        ("elements in the collector", element_problems(
            element_source("crates/plans/src/scavenge/checks/mod.rs", "object.add(ELEMENTS)"))),
        ("another word, and a comment", element_problems(
            element_source("crates/gleaner/src/types.rs", "use crate::Elements; // ELEMENTS\nlet element = 1;"))),
        ("a file that another needs", circles(a="use crate::b::{self, B};", b="pub struct B; use gleaner_os::a::A;")),
        ("a room's front that passes a name on",
         circles(lib="mod room;", room__mod="mod part; pub use part::Part;", room__part="use super::Part;")),
        ("a circle in tests and comments",
         circles(a="use crate::b::B;", b="// crate::a::A\n#[cfg(test)]\nmod tests {\n use crate::a::A;\n}\n")),
        ("files that others name", lone(src__lib="mod a;\nmod b;", src__a="#[cfg(test)]\nmod tests;", src__a__tests="", src__b__mod="")),
        ("files that cargo finds", lone(tests__a="", tests__b__main="mod c;", tests__b__c="", tests__d__mod="", tests__e="mod d;")),
        ("a file that is named by its path", lone(tests__a='#[path = "b/c.rs"]\nmod c;', tests__b__c="")),
        ("the other heap in a comment", heap_problems(heap_source("scavenge", "// see mark_sweep::roots\n"))),
    ]
    accepted.append(("the module of a processor", cfg_problems(source('#[cfg(target_arch = "x86_64")] #[path = "x.rs"] mod processor;'))))
    rejected = [
        ("a higher crate", layer_problems([package("gleaner-mem", ("gleaner-plans", None))])),
        ("a door under a door", layer_problems([package("gleaner-libgc", ("gleaner", None))])),
        ("a higher crate in tests", layer_problems([package("gleaner-mem", ("gleaner-work", "dev"))])),
        ("a crate of the same rank", layer_problems([package("gleaner-wasm", ("gleaner-bench", None))])),
        ("a crate without a rank", layer_problems([package("gleaner-new")])),
        ("libc outside the port layer", libc_problems([package("gleaner-work", ("libc", None))])),
        ("libc in a build script", libc_problems([package("gleaner-mem", ("libc", "build"))])),
        ("cfg(target_os)", cfg_problems(source('#[cfg(target_os = "linux")] mod linux;'))),
        ("a nested cfg", cfg_problems(source('#[cfg(all(test, not(unix)))] mod other;'))),
        ("cfg!(feature)", cfg_problems(source('if cfg!(feature = "x") { f() }'))),
        ("cfg_attr on a target",
         cfg_problems([("gleaner-mem", "crates/mem/src/side.rs", '#[cfg_attr(target_arch = "x86_64", inline)] fn f() {}')])),
        ("a crate that uses std", no_std_problems(source("//! text\n"))),
        ("a dependency without a row",
         dependency_problems([package("gleaner-os", ("libc", None), ("rand", "dev"))], page)),
        ("a dependency without a reason", dependency_problems(
            [package("gleaner-os", ("libc", None))], page.replace("system calls", ""))),
        ("a row without a dependency", dependency_problems([package("gleaner-os")], page)),
        ("the other heap", heap_problems(heap_source("scavenge", "use gleaner_spaces::mark_sweep::block;"))),
        ("the other heap from the module above",
         heap_problems(heap_source("mark_sweep", "use super::{scavenge::roots, view};"))),
        ("a heap in what is shared", heap_problems(heap_source("shared", "use crate::mark_sweep;"))),
        ("the other heap by another name",
         heap_problems(heap_source("scavenge", "use gleaner_spaces::{mark_sweep as other, precise};"))),
        ("the other heap at the end of braces",
         heap_problems(heap_source("mark_sweep", "use gleaner_spaces::{mark_sweep::space, precise};"))),
        ("the other heap from a crate by another name",
         heap_problems(heap_source("scavenge", "use ourself::mark_sweep::roots;"))),
        ("elements in a workload", element_problems(
            element_source("crates/workloads/src/objects.rs", "array.add(ELEMENTS + index * 8)"))),
        ("an accessor's function elsewhere", element_problems(
            element_source("crates/gleaner/src/scope.rs", "use gleaner_mem::object_model::{Place,\n    element};"))),
        ("elements in C", element_problems(
            element_source("examples/lisp.c", "memcpy((void *)GLEANER_ELEMENT(array, 0, 1), name, 3);"))),
        ("two files that need each other", circles(a="use crate::b::B;", b="fn f(a: &crate::a::A) {}")),
        ("three files", circles(a="use crate::{x, b::{C, B}};", b="use super::c::D;", c="use crate::a::A;")),
        ("a file and its room's front", circles(room__mod="use part::Part;", room__part="use super::Front;")),
        ("a circle by a name that is passed on",
         circles(a="use crate::room::Part;", room__mod="mod part; pub use part::Part;", room__part="use crate::a::A;")),
        ("a front that passes on what it uses itself",
         circles(room__mod="mod part; pub use part::Part; fn f(_: Part) {}", room__part="use super::f;")),
        ("a file that nobody names", lone(src__lib="mod a;", src__a="// mod tests;", src__a__tests="")),
        ("a file of tests in a folder", lone(tests__a="", tests__b__c="")),
        ("lints of its own", lint_problems([("x", "[lints.rust]\nunused = 'allow'\n")])),
    ]
    checks = [(f"self-test: accepts {name}", problems) for name, problems in accepted]
    checks += [(f"self-test: rejects {name}", [] if problems else ["was accepted"])
               for name, problems in rejected]
    return checks


def read_workspace():
    """(packages, sources, sources in C, manifests, page) of the checkout."""
    done = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    packages = json.loads(done.stdout)["packages"]
    sources, manifests = [], []
    for package in packages:
        manifest = package["manifest_path"]
        with open(manifest, encoding="utf-8") as file:
            manifests.append((package["name"], file.read()))
        for folder, _, files in os.walk(os.path.dirname(manifest)):
            for name in sorted(files):
                if name.endswith(".rs"):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        sources.append((package["name"], os.path.relpath(path, ROOT), file.read()))
    c_sources = []
    for root in C_FOLDERS:
        for folder, _, files in os.walk(os.path.join(ROOT, root)):
            for name in sorted(files):
                if name.endswith((".c", ".h")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        c_sources.append(("C", os.path.relpath(path, ROOT), file.read()))
    with open(os.path.join(ROOT, "ARCHITECTURE.md"), encoding="utf-8") as file:
        return packages, sources, c_sources, manifests, file.read()


def main():
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    packages, sources, c_sources, manifests, page = read_workspace()
    return report(self_test() + [
        (f"{len(packages)} crates depend only on lower ones", layer_problems(packages)),
        ("only the port layer and the doors depend on libc", libc_problems(packages)),
        (f"{len(sources)} files: nothing is conditional above the port layer", cfg_problems(sources)),
        ("the inner crates are no_std", no_std_problems(sources)),
        ("neither heap names the other", heap_problems(sources)),
        (f"{len(sources) + len(c_sources)} files: elements of arrays have accessors",
         element_problems(sources + c_sources)),
        ("no two files of a crate need each other", circle_problems(sources)),
        ("each file of Rust is compiled", lone_problems(sources)),
        ("each crate takes its lints from the workspace", lint_problems(manifests)),
        ("ARCHITECTURE.md gives each dependency its reason", dependency_problems(packages, page)),
    ])


if __name__ == "__main__":
    sys.exit(main())
