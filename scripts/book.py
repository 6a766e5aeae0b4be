#!/usr/bin/env python3
"""The documents for those who read them elsewhere: the site, which `make docs` builds with mdBook, and what a release brings.

    book.py assemble     put together what mdBook reads, in target/book-source
    book.py check        every link of target/book leads somewhere; last line "N passed, N failed"
    book.py ship DIR     the pages that a release brings, to DIR
    book.py --self-test  prove the reading and the rules

The source is a copy of the pages of docs/SUMMARY.md, each at its place in the tree, so that the links between them hold as they
are. What they link to besides, such as source files and pictures, is copied beside them; instead of a directory there is a page
that lists it. The tables behind a page of docs/results are chapters below that page.

A release brings the first pages and the guides. Where these link to what it does not bring, the words stay and the link goes; the
command is bin/gleaner there.
"""

import html.parser
import os
import re
import shutil
import sys
import urllib.parse

from check_pages import links
from checks import compared, report
from results import shown_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.join(ROOT, "target", "book-source")
BOOK = os.path.join(ROOT, "target", "book")
SHIPPED = re.compile(r"(README|CHANGELOG|SECURITY)\.md|docs/[^/]+\.md")
CHAPTER = re.compile(r"^( *)(?:- )?\[([^\]]*)\]\(([^)]*)\)$")


# --- what mdBook reads --------------------------------------------------------------------------


def chapters_of(summary):
    """[(indentation, title, path from the root)] of docs/SUMMARY.md."""
    found = filter(None, map(CHAPTER.match, summary.splitlines()))
    return [(len(indent), title, os.path.normpath(os.path.join("docs", path))) for indent, title, path in map(re.Match.groups, found)]


def summary_for_book(summary, tables):
    """The same from the root of the tree, with the tables of each page below it, once each; `tables` gives those of a page."""
    lines, listed = [], set()
    for line in summary.splitlines():
        chapter = CHAPTER.match(line)
        if not chapter:
            lines.append(line)
            continue
        path = os.path.normpath(os.path.join("docs", chapter[3]))
        lines.append(line.replace(f"]({chapter[3]})", f"]({path})"))
        lines += [f"{chapter[1]}  - [{name}](docs/results/tables/{name}.md)" for name in tables(path) if name not in listed]
        listed |= set(tables(path))
    return "\n".join(lines) + "\n"


def linked(page, text):
    """The paths from the root of the tree to which a page links."""
    targets = (target for target, _ in links(text))
    return {os.path.normpath(os.path.join(os.path.dirname(page), target)) for target in targets if target and "://" not in target}


def listing(path, names):
    """A page in place of a directory."""
    return f"# {path}\n\n" + "".join(f"- {name}\n" for name in sorted(names))


def without_directories(page, text, is_directory):
    """A page whose links to directories lead to the pages that list them."""
    def led(found):
        path = os.path.normpath(os.path.join(os.path.dirname(page), found[1]))
        return f"]({found[1].rstrip('/')}/listing.md)" if "://" not in found[1] and is_directory(path) else found[0]

    return re.sub(r"\]\(([^)#\s]+)\)", led, text)


def assemble():
    """Write all pages, and what they link to."""
    def read(path):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            return file.read()

    def write(path, text):
        path = os.path.join(SOURCE, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def is_directory(path):
        return os.path.isdir(os.path.join(ROOT, path))

    shutil.rmtree(SOURCE, ignore_errors=True)
    summary = read("docs/SUMMARY.md")
    summary = summary_for_book(summary, lambda path: shown_of(read(path)).get("tables", []) if "/results/" in path else [])
    # Paths are from the root here, where chapters_of expects those from docs/.
    pages = [os.path.relpath(path, "docs") for _, _, path in chapters_of(summary)]
    texts = {page: read(page) for page in pages}
    targets = {target for page, text in texts.items() for target in linked(page, text)} - set(pages)
    listings = sorted(filter(is_directory, targets))
    summary += "\n# Directories\n\n" + "".join(f"- [{path}]({path}/listing.md)\n" for path in listings)
    write("src/SUMMARY.md", summary)
    write("book.toml", read("docs/book.toml"))
    for page, text in texts.items():
        write(f"src/{page}", without_directories(page, text, is_directory))
    for path in listings:
        write(f"src/{path}/listing.md", listing(path, os.listdir(os.path.join(ROOT, path))))
    for path in targets - set(listings):
        os.makedirs(os.path.dirname(os.path.join(SOURCE, "src", path)), exist_ok=True)
        shutil.copyfile(os.path.join(ROOT, path), os.path.join(SOURCE, "src", path))
    return 0


# --- what a release brings ----------------------------------------------------------------------


def as_shipped(page, text, is_shipped):
    """A page whose links lead to shipped pages, or elsewhere than to this tree."""
    def led(found):
        picture, words, target = found.groups()
        path = os.path.normpath(os.path.join(os.path.dirname(page), target.partition("#")[0]))
        if "://" in target or target.startswith("#") or is_shipped(path):
            return found[0]
        return "" if picture else words

    text = re.sub(r"<img [^>]*>\n*", "", text)
    text = re.sub(r"(!?)\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^)\s]+)\)", led, text)
    return text.replace("target/release/gleaner ", "bin/gleaner ")


def ship(folder):
    """Write the pages."""
    with open(os.path.join(ROOT, "docs/SUMMARY.md"), encoding="utf-8") as file:
        pages = {os.path.relpath(path, "docs") for _, _, path in chapters_of(summary_for_book(file.read(), lambda _: []))}
    pages = {page for page in pages | {"CHANGELOG.md", "SECURITY.md"} if SHIPPED.fullmatch(page)}
    for page in sorted(pages):
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            text = as_shipped(page, file.read(), pages.__contains__)
        path = os.path.join(folder, page)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


# --- what mdBook wrote --------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """The links of a page, and the names to which links may lead."""

    def __init__(self):
        super().__init__()
        self.links, self.names = [], set()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.names |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        self.links += [attributes[key] for key in ("href", "src") if attributes.get(key)]


def parsed(text):
    page = Page()
    page.feed(text)
    return page


def link_problems(path, page, exists, names):
    """Links of a page that lead nowhere; `names` gives those of another page."""
    problems = []
    for link in page.links:
        if re.match(r"[a-z]+:|//", link):
            continue
        target, _, name = link.partition("#")
        where = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(target))) if target else path
        if not exists(where):
            problems.append(f"{path}: {link} leads nowhere")
        elif name and where.endswith(".html") and urllib.parse.unquote(name) not in names(where):
            problems.append(f"{path}: {where} has nothing that is called {name}")
    return problems


def check():
    pages = {}
    for folder, _, files in os.walk(BOOK):
        for file in files:
            # The page for wrong addresses has links from the root of a server.
            if file.endswith(".html") and file not in ("404.html", "toc.html"):
                path = os.path.join(folder, file)
                with open(path, encoding="utf-8") as opened:
                    pages[os.path.relpath(path, BOOK)] = parsed(opened.read())
    problems = [problem for path, page in sorted(pages.items()) for problem in link_problems(
        path, page, lambda where: os.path.exists(os.path.join(BOOK, where)),
        lambda where: pages[where].names if where in pages else set())]
    return report([(f"the links of {len(pages)} pages of the site", problems if pages else ["there are no pages"])])


def self_test():
    summary = "# Summary\n\n[A](../README.md)\n\n# Part\n\n- [B](b.md)\n  - [C](results/c.md)\n"
    page = parsed('<a id="x"></a><a href="b.html#y"></a><img src="c.svg"><a href="https://z/"></a>')

    def fails(problems):
        return [] if problems else ["was accepted"]

    return report([
        *compared([
            ("chapters from the root of the tree", chapters_of(summary),
             [(0, "A", "README.md"), (0, "B", "docs/b.md"), (2, "C", "docs/results/c.md")]),
            ("tables are below their pages",
             summary_for_book(summary, lambda path: ["t"] if path == "docs/results/c.md" else []).splitlines()[-2:],
             ["  - [C](docs/results/c.md)", "    - [t](docs/results/tables/t.md)"]),
            ("a table of two pages is a chapter of the first", summary_for_book("- [a](a.md)\n- [b](b.md)\n", lambda _: ["t"]).count("/t.md"), 1),
            ("what a page links to", linked("docs/p.md", "[a](../crates/a.rs) [b](b.md#c) [d](https://e.f) [g](#h)"),
             {"crates/a.rs", "docs/b.md"}),
            ("a directory has a listing", without_directories("docs/p.md", "[a](../a/) [b](b.md)", {"a"}.__contains__),
             "[a](../a/listing.md) [b](b.md)"),
            ("shipped pages link to each other, and elsewhere",
             as_shipped("docs/p.md", "[a](../a.rs) [`b[0]`](b.md#c) [d](https://e.f) ![h](h.svg)[g](#h) `target/release/gleaner x`",
                        {"docs/b.md"}.__contains__),
             "a [`b[0]`](b.md#c) [d](https://e.f) [g](#h) `bin/gleaner x`"),
            ("links and names of a page", (page.links, page.names), (["b.html#y", "c.svg", "https://z/"], {"x"})),
        ]),
        ("accepts links", link_problems("p.html", page, {"b.html", "c.svg"}.__contains__, lambda _: {"y"})),
        ("rejects a link to no page", fails(link_problems("p.html", page, {"c.svg"}.__contains__, lambda _: {"y"}))),
        ("rejects a link to no name", fails(link_problems("p.html", page, {"b.html", "c.svg"}.__contains__, lambda _: {"z"}))),
    ])


def main():
    commands = {"assemble": assemble, "check": check, "--self-test": self_test}
    if len(sys.argv) == 3 and sys.argv[1] == "ship":
        return ship(sys.argv[2])
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        print(__doc__)
        return 2
    return commands[sys.argv[1]]()


if __name__ == "__main__":
    sys.exit(main())
