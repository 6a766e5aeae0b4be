#!/usr/bin/env python3
"""The table of libgc's dynamic symbols: docs page, completeness, and exports.

docs/libgc-symbols.tsv is the source. It has one row for each dynamic symbol
that stock libgc.so.1 defines in Debian 12 or later, or that public headers of
its development branch declare, with the columns

    symbol  kind (function | data)  header  since (the version of libgc, of those
    of Debian 12 and later: 8.2.2, 8.2.8, 8.2.12; or development)
    state (done | no-op | missing)  note

A no-op must carry its reason in the note. A missing function is normally not
exported; if its note begins with "refuses", it is exported and stops the
program with a message when called.

    symbols.py generate               write docs/libgc-symbols.md
    symbols.py check                  the table is well formed, lists exactly
                                      what stock defines, and the page is fresh
    symbols.py check --lib LIB        and LIB exports what the table says, with
                                      stock's type and, for data, stock's size,
                                      and needs no library beyond NEEDED
    symbols.py --self-test            prove that each rule can fail

Our own additions to the exported names begin with "gleaner_", except for the
functions of EXTRAS, which public headers declare although stock's library does
not define them; any other extra name is an error. The last line is "N passed, N failed".
"""

import argparse
import collections
import glob
import os
import re
import subprocess
import sys

from checks import report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "docs", "libgc-symbols.tsv")
PAGE = os.path.join(ROOT, "docs", "libgc-symbols.md")
COLUMNS = ["symbol", "kind", "header", "since", "state", "note"]
VERSIONS = ["8.2.2", "8.2.8", "8.2.12", "development"]
NO_HEADER = "no public header"
HEADERS = [
    "gc.h", "gc_mark.h", "gc_typed.h", "gc_inline.h", "gc_disclaim.h",
    "gc_gcj.h", "javaxfc.h", "gc_pthread_redirects.h", NO_HEADER,
]
STATES = ["done", "no-op", "missing"]
OWN_PREFIX = "gleaner_"
# gc.h: a program built with GC_DEBUG calls it where it says GC_WCSDUP.
EXTRAS = {"GC_debug_wcsdup"}
# The C library, the loader, and the compiler's unwinder.
NEEDED = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libgcc_s.so.1"}

Row = collections.namedtuple("Row", COLUMNS)
Export = collections.namedtuple("Export", "kind size")


def read_table(path):
    """The rows of the table, in file order; malformed lines are kept as they are."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    if not lines or lines[0].split("\t") != COLUMNS:
        raise SystemExit(f"{path}: the first line must name the columns {COLUMNS}")
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split("\t")
        if len(fields) != len(COLUMNS):
            raise SystemExit(f"{path}:{number}: {len(fields)} columns instead of {len(COLUMNS)}")
        rows.append(Row(*fields))
    return rows


def parse_nm(text):
    """Symbol -> Export, from the output of `nm -D -S --defined-only`."""
    exports = {}
    for line in text.splitlines():
        fields = line.split()
        # The size column is absent for symbols of size zero.
        size = int(fields[1], 16) if len(fields) == 4 else 0
        letter, name = fields[-2], fields[-1].split("@")[0]
        exports[name] = Export("function" if letter in "TtWi" else "data", size)
    return exports


def read_exports(library):
    """The dynamic symbols that a library defines."""
    try:
        done = subprocess.run(
            ["nm", "-D", "-S", "--defined-only", library],
            check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit("symbols.py: nm is missing; install the package binutils")
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"symbols.py: cannot read {library}: {error.stderr.strip()}")
    return parse_nm(done.stdout)


def needed_problems(text):
    """Which libraries it should not need, from the output of `objdump -p`."""
    return [f"it needs {name}" for name in re.findall(r"^ +NEEDED +(\S+)", text, re.M) if name not in NEEDED]


def find_stock():
    """The stock library that Debian's package libgc1 installs."""
    found = sorted(glob.glob("/usr/lib/*/libgc.so.1") + glob.glob("/usr/lib/libgc.so.1"))
    if not found:
        raise SystemExit("symbols.py: no stock libgc.so.1 under /usr/lib; install the package libgc1")
    return found[0]


def table_problems(rows):
    """What is wrong with the table by itself."""
    problems = []
    seen = set()
    for row in rows:
        if row.symbol in seen:
            problems.append(f"{row.symbol}: listed twice")
        seen.add(row.symbol)
        if row.kind not in ("function", "data"):
            problems.append(f"{row.symbol}: unknown kind {row.kind!r}")
        if row.header not in HEADERS:
            problems.append(f"{row.symbol}: unknown header {row.header!r}")
        if row.since not in VERSIONS:
            problems.append(f"{row.symbol}: unknown version {row.since!r}")
        if row.state not in STATES:
            problems.append(f"{row.symbol}: unknown state {row.state!r}")
        if row.state == "no-op" and not row.note:
            problems.append(f"{row.symbol}: a no-op without a reason")
    return problems


def stock_problems(rows, stock):
    """Where the table and the stock library disagree, which is Debian 12's or a later one."""
    problems = []
    listed = {row.symbol: row for row in rows}
    for name in sorted(stock.keys() - listed.keys()):
        problems.append(f"{name}: defined by stock, not in the table")
    first = {row.symbol for row in rows if row.since == VERSIONS[0]}
    for name in sorted(first - stock.keys()):
        problems.append(f"{name}: in the table, not defined by stock")
    for name in sorted(listed.keys() & stock.keys()):
        if listed[name].kind != stock[name].kind:
            problems.append(f"{name}: the table says {listed[name].kind}, stock has {stock[name].kind}")
    return problems


def export_problems(rows, stock, ours):
    """Where our library's exports and the table disagree."""
    problems = []
    for row in rows:
        export = ours.get(row.symbol)
        refuses = row.state == "missing" and row.note.startswith("refuses")
        if export is None:
            if row.state != "missing" or refuses:
                problems.append(f"{row.symbol}: the table says {row.state}, but it is not exported")
            continue
        if row.state == "missing" and not refuses:
            problems.append(f"{row.symbol}: the table says missing, but it is exported")
        if export.kind != row.kind:
            problems.append(f"{row.symbol}: exported as {export.kind}, must be {row.kind}")
        elif row.kind == "data" and row.symbol in stock and export.size != stock[row.symbol].size:
            problems.append(
                f"{row.symbol}: exported with {export.size} bytes, must have {stock[row.symbol].size}")
    listed = {row.symbol for row in rows}
    for name in sorted(ours.keys() - listed):
        if not name.startswith(OWN_PREFIX) and name not in EXTRAS:
            problems.append(f"{name}: exported, but stock has no such symbol")
    return problems


def render(rows):
    """The docs page."""
    count = collections.Counter((row.kind, row.state) for row in rows)
    kinds = collections.Counter(row.kind for row in rows)
    lines = [
        "# Symbols of libgc.so.1",
        "",
        "<!-- Written by scripts/symbols.py from docs/libgc-symbols.tsv; edit that file. -->",
        "",
        "Every dynamic symbol that `libgc.so.1` of Debian 12 (8.2.2), 13 (8.2.8) and unstable (8.2.12)",
        "defines, and what Gleaner's library makes of it; *since* says which of these is the first with it.",
        "No later one lacks what an earlier one has. What *development* has is declared by headers of",
        "libgc's development branch, and by no release. *Done* means: it has libgc's documented meaning. *No-op* means: it is",
        "accepted, does nothing or only keeps a value, and the note says why that is harmless.",
        "*Missing* means: the library does not export it, so a program that needs it is stopped by",
        "the loader with the symbol's name; where the note begins with \"refuses\", it is exported and",
        "stops the program with a message when called.",
        "",
        "| | " + " | ".join(STATES) + " | all |",
        "| --- |" + " ---: |" * (len(STATES) + 1),
    ]
    for kind in ("function", "data"):
        cells = [str(count[kind, state]) for state in STATES] + [str(kinds[kind])]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    for header in HEADERS:
        group = [row for row in rows if row.header == header]
        if not group:
            continue
        title = f"`{header}`" if header != NO_HEADER else "No public header"
        lines += ["", f"## {title} ({len(group)})", "", "| symbol | kind | since | state | note |",
                  "| --- | --- | --- | --- | --- |"]
        group.sort(key=lambda row: (row.kind != "function", row.symbol))
        lines += [f"| `{row.symbol}` | {row.kind} | {row.since} | {row.state} | {row.note} |".replace("  |", " |")
                  for row in group]
    return "\n".join(lines) + "\n"


def check(library, stock_path):
    """The real check."""
    rows = read_table(TABLE)
    stock_path = stock_path or find_stock()
    stock = read_exports(stock_path)
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    stale = [] if page == render(rows) else ["run: python3 scripts/symbols.py generate"]
    checks = [
        ("the table is well formed", table_problems(rows)),
        (f"the table lists what {stock_path} defines", stock_problems(rows, stock)),
        ("docs/libgc-symbols.md is generated from the table", stale),
    ]
    if library:
        checks.append((f"{library} exports what the table says",
                       export_problems(rows, stock, read_exports(library))))
        headers = subprocess.run(["objdump", "-p", library], check=True, stdout=subprocess.PIPE, text=True).stdout
        checks.append((f"{library} needs no other library", needed_problems(headers)))
    return report(checks)


def self_test():
    """Each rule accepts a good fixture and rejects a bad one."""
    stock = parse_nm("0000000000001000 0000000000000010 T GC_f\n"
                     "0000000000002000 0000000000000008 B GC_d\n"
                     "0000000000003000 B _end\n")
    f = Row("GC_f", "function", "gc.h", "8.2.2", "done", "")
    d = Row("GC_d", "data", "gc.h", "8.2.2", "done", "")
    end = Row("_end", "data", NO_HEADER, "8.2.2", "missing", "")
    good = [f, d, end]
    ours = {"GC_f": Export("function", 99), "GC_d": Export("data", 8),
            "gleaner_version": Export("function", 1), "GC_debug_wcsdup": Export("function", 1)}

    def without(exports, name):
        return {key: value for key, value in exports.items() if key != name}

    accepted = [
        ("a good table", table_problems(good)),
        ("a table like stock", stock_problems(good, stock)),
        ("what a later version has", stock_problems(good + [f._replace(symbol="GC_g", since="8.2.8")], stock)),
        ("exports like the table", export_problems(good, stock, ours)),
        ("the C library", needed_problems("  NEEDED               libc.so.6\n")),
        ("a missing function that refuses", export_problems(
            [f._replace(state="missing", note="refuses: why"), d, end], stock, ours)),
    ]
    rejected = [
        ("another library", needed_problems("  NEEDED               libc.so.6\n  NEEDED               libm.so.6\n")),
        ("a row listed twice", table_problems([f, f])),
        ("a no-op without a reason", table_problems([f._replace(state="no-op")])),
        ("an unknown version", table_problems([f._replace(since="9.9")])),
        ("an unknown state", table_problems([f._replace(state="soon")])),
        ("an unknown header", table_problems([f._replace(header="x.h")])),
        ("an unknown kind", table_problems([f._replace(kind="macro")])),
        ("a symbol left out", stock_problems([f, end], stock)),
        ("a symbol invented", stock_problems(good + [f._replace(symbol="GC_g")], stock)),
        ("a function listed as data", stock_problems([f._replace(kind="data"), d, end], stock)),
        ("a done symbol not exported", export_problems(good, stock, without(ours, "GC_f"))),
        ("a no-op not exported", export_problems(
            [f._replace(state="no-op", note="why"), d, end], stock, without(ours, "GC_f"))),
        ("a missing symbol exported", export_problems(
            [f._replace(state="missing"), d, end], stock, ours)),
        ("a refusing symbol not exported", export_problems(
            [f._replace(state="missing", note="refuses: why"), d, end], stock,
            without(ours, "GC_f"))),
        ("data exported as a function", export_problems(
            good, stock, {**ours, "GC_d": Export("function", 8)})),
        ("data of the wrong size", export_problems(
            good, stock, {**ours, "GC_d": Export("data", 4)})),
        ("a foreign symbol exported", export_problems(
            good, stock, {**ours, "rust_eh_personality": Export("function", 1)})),
    ]
    checks = [(f"accepts {name}", problems) for name, problems in accepted]
    checks += [(f"rejects {name}", [] if problems else ["was accepted"])
               for name, problems in rejected]
    return report(checks)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=["generate", "check"])
    parser.add_argument("--lib", help="our libgc.so, to compare its exports")
    parser.add_argument("--stock", help="the stock libgc.so.1 (found under /usr/lib if not given)")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.command == "generate":
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(render(read_table(TABLE)))
        return 0
    if options.command == "check":
        return check(options.lib, options.stock)
    parser.print_usage(sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
