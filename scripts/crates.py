#!/usr/bin/env python3
"""Check that the crates can be published as they are, from what cargo says of them.

 1. a crate is called after its folder, with the prefix `gleaner-`, but for `gleaner` itself;
 2. a crate that is published has a description, keywords, a known category, the workspace's version, licence and oldest
    Rust, and both licences' texts beside its manifest;
 3. it depends on published crates of this tree alone; and each crate names the version of those of this tree that it depends on;
 4. one that is not published says in its manifest why;
 5. its package has its sources and texts, and nothing else: `cargo package --list`;
 6. docs/stability.md says what is promised of each published crate;
 7. the forms for issues in .github name `gleaner doctor`, and the log.

    crates.py check        check all of that; last line "N passed, N failed"
    crates.py --self-test  prove that each rule can fail
"""

import glob
import json
import os
import re
import subprocess
import sys

from checks import report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]
# Those of https://crates.io/category_slugs that ours have: a registry leaves out a wrong one without a word.
CATEGORIES = {"memory-management", "development-tools::profiling", "parser-implementations"}
MOST_KEYWORDS, LONGEST_KEYWORD, LONGEST_DESCRIPTION = 5, 20, 120
# What a package may have: what cargo adds, and sources with their tests.
PACKED = re.compile(r"(\.cargo_vcs_info\.json|Cargo\.(toml|toml\.orig|lock)|README\.md|LICENSE-(MIT|APACHE)|(src|tests|examples)/.*)")


def is_published(package):
    """Whether it may go to a registry: cargo has a list of registries, or null for all."""
    return package["publish"] is None


def name_problems(packages):
    """Rule 1."""
    folders = {package["name"]: os.path.basename(os.path.dirname(package["manifest_path"])) for package in packages}
    return [f"crates/{folder} is called {name}" for name, folder in folders.items()
            if name != ("gleaner" if folder == "gleaner" else f"gleaner-{folder}")]


def description_problems(packages, workspace, exists=os.path.exists):
    """Rule 2; `workspace` has what its manifest says for all."""
    problems = []
    for package in filter(is_published, packages):
        name, keywords = package["name"], package["keywords"]
        if not package["description"] or len(package["description"]) > LONGEST_DESCRIPTION or package["description"].endswith("."):
            problems.append(f"{name}: a description of one line is wanted, without a full stop")
        if not 0 < len(keywords) <= MOST_KEYWORDS or any(len(word) > LONGEST_KEYWORD for word in keywords):
            problems.append(f"{name}: one to {MOST_KEYWORDS} keywords are wanted, of {LONGEST_KEYWORD} letters at most")
        if not package["categories"] or set(package["categories"]) - CATEGORIES:
            problems.append(f"{name}: categories {package['categories']}")
        problems += [f"{name}: {key} is {package[key]}, and {value} in Cargo.toml of the workspace"
                     for key, value in workspace.items() if package[key] != value]
        folder = os.path.dirname(package["manifest_path"])
        problems += [f"{name}: {text} is not beside its manifest" for text in LICENCES if not exists(os.path.join(folder, text))]
    return problems


def dependency_problems(packages):
    """Rule 3. Dependencies of tests alone are left out of a package where they have no version."""
    versions = {package["name"]: package["version"] for package in packages}
    published = {package["name"] for package in packages if is_published(package)}
    problems = []
    for package in packages:
        for dependency in package["dependencies"]:
            if dependency.get("path") is None or dependency["kind"] == "dev":
                continue
            if is_published(package) and dependency["name"] not in published:
                problems.append(f"{package['name']}: depends on {dependency['name']}, which is not published")
            elif dependency["req"] != f"^{versions[dependency['name']]}":
                problems.append(f"{package['name']}: wants {dependency['name']} {dependency['req']}, not {versions[dependency['name']]}")
    return problems


def reason_problems(manifests):
    """Rule 4; `manifests` are texts by name."""
    return [f"{name}: no comment above `publish = false` says why" for name, text in manifests.items()
            if "publish = false" in text and not re.search(r"^# .+\npublish = false$", text, re.M)]


def content_problems(lists):
    """Rule 5; `lists` are the paths in a package by its name."""
    problems = []
    for name, paths in lists.items():
        problems += [f"{name}: {path} would be packed" for path in paths if not PACKED.fullmatch(path)]
        problems += [f"{name}: {path} would not be packed" for path in ["src/lib.rs", *LICENCES] if path not in paths]
    return problems


def promise_problems(packages, page):
    """Rule 6."""
    named = set(re.findall(r"`(gleaner[\w-]*)`", page))
    return [f"docs/stability.md: nothing on {package['name']}" for package in packages
            if is_published(package) and package["name"] not in named]


def form_problems(forms):
    """Rule 7; `forms` are texts by path."""
    return [f"{path}: does not ask for {wanted}" for path, text in forms.items()
            for wanted in ("gleaner doctor", "log") if not re.search(rf"\b{wanted}\b", text)]


def self_test():
    def crate(name="gleaner-a", **changed):
        base = {"name": name, "manifest_path": "crates/a/Cargo.toml", "publish": None, "description": "x", "keywords": ["k"],
                "categories": ["memory-management"], "version": "1", "license": "L", "dependencies": []}
        return {**base, **changed}

    def needs(**changed):
        return [{"name": "gleaner-a", "path": "p", "kind": None, "req": "^1", **changed}]

    workspace = {"license": "L"}
    packed = ["src/lib.rs", *LICENCES]
    accepted = [
        ("a name", name_problems([crate()])),
        ("what a crate says", description_problems([crate()], workspace, lambda path: True)),
        ("a crate that is not published", description_problems([crate(publish=[], description=None)], workspace)),
        ("a version", dependency_problems([crate(), crate("gleaner-b", dependencies=needs())])),
        ("a dependency of tests", dependency_problems([crate(publish=[]), crate("gleaner-b", dependencies=needs(kind="dev", req="*"))])),
        ("a reason", reason_problems({"a": "# It is ours.\npublish = false\n"})),
        ("sources", content_problems({"a": [*packed, "tests/a.rs", "README.md"]})),
        ("a promise", promise_problems([crate()], "crate `gleaner-a`")),
        ("a form", form_problems({"a": "`gleaner doctor` and the log"})),
    ]
    rejected = [
        ("another name", name_problems([crate("a")])),
        ("no description", description_problems([crate(description=None)], workspace, lambda path: True)),
        ("too many keywords", description_problems([crate(keywords=list("abcdef"))], workspace, lambda path: True)),
        ("an unknown category", description_problems([crate(categories=["gc"])], workspace, lambda path: True)),
        ("another licence", description_problems([crate(license="M")], workspace, lambda path: True)),
        ("no text of a licence", description_problems([crate()], workspace, lambda path: False)),
        ("no version", dependency_problems([crate(), crate("gleaner-b", dependencies=needs(req="*"))])),
        ("no version in a crate that is not published",
         dependency_problems([crate(publish=[]), crate("gleaner-b", publish=[], dependencies=needs(req="*"))])),
        ("a crate that is not there", dependency_problems([crate(publish=[]), crate("gleaner-b", dependencies=needs())])),
        ("no reason", reason_problems({"a": "x = 1\npublish = false\n"})),
        ("what is no source", content_problems({"a": [*packed, "target/x"]})),
        ("no library", content_problems({"a": LICENCES})),
        ("no promise", promise_problems([crate()], "crate `gleaner-b`")),
        ("a form without the log", form_problems({"a": "`gleaner doctor`"})),
    ]
    return report([(f"self-test: accepts {name}", problems) for name, problems in accepted]
                  + [(f"self-test: rejects {name}", [] if problems else ["was accepted"]) for name, problems in rejected])


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def said_by(*argv):
    return subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def check():
    packages = json.loads(said_by("cargo", "metadata", "--format-version", "1", "--no-deps"))["packages"]
    common = read("Cargo.toml").partition("[workspace.package]")[2].partition("\n[")[0]
    workspace = {key.replace("-", "_"): value for key, value in re.findall(r'^(version|license|rust-version) = "(.*)"', common, re.M)}
    published = [package["name"] for package in packages if is_published(package)]
    lists = {name: said_by("cargo", "package", "--list", "--locked", "--allow-dirty", "--package", name).splitlines()
             for name in published}
    forms = {path: read(path) for path in glob.glob(".github/ISSUE_TEMPLATE/*.yml", root_dir=ROOT) if not path.endswith("config.yml")}
    return report([
        (f"the names of {len(packages)} crates", name_problems(packages)),
        (f"what {len(published)} published crates say of themselves", description_problems(packages, workspace)),
        ("what they depend on", dependency_problems(packages)),
        ("why others are not published", reason_problems(
            {package["name"]: read(package["manifest_path"]) for package in packages})),
        ("what is packed", content_problems(lists)),
        ("what is promised of them", promise_problems(packages, read("docs/stability.md"))),
        (f"{len(forms)} forms for issues", form_problems(forms)),
    ])


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    if sys.argv[1:] == ["check"]:
        sys.exit(check())
    print(__doc__, file=sys.stderr)
    sys.exit(2)
