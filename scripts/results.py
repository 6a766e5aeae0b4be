#!/usr/bin/env python3
"""The pages of docs/results: a picture and a list of tables for each, and one line of each in docs/measured.md.

    results.py generate    write the pictures and what the pages have between markers
    results.py check       all of that is fresh, and every table of docs/results/tables belongs to a page
    results.py --self-test prove that each rule can fail

A page is written by hand. Its title is a question, and its first sentence, a line in bold type, answers it. A ratio there that
has no interval stands once more below. A comment says in TOML what is shown from the tables:

    <!-- shown
    tables = ["NAME", ...]      the tables behind the page, in docs/results/tables
    title = "..."               what the picture shows
    axis = "..."                what its axis is, and which side is good
    [[dots]]                    rows of a table as dots with intervals
    table = "NAME"              without it, the page's own tables are searched
    where = { COLUMN = "x" }    which rows; several values are a list, and * is any text
    label = "COLUMN"            what a row is called
    value = "COLUMN"            a figure, or a ratio with its interval
    name = "..."                these dots in the legend; dots of one name have one colour
    kind = "mean"               a row on top in bold type; "control" is the A/A, in grey behind the others
    called = { x = "y" }        other names of rows; "*" is the name of all others
    strip = "..."               an ending that the names of rows lose
    -->

What is generated stands between `<!-- written: NAME -->` and `<!-- end -->`: `picture` and `tables` in a page, `answers` in
docs/measured.md, where the order is that of docs/SUMMARY.md. The last line is "N passed, N failed".
"""

import glob
import math
import os
import re
import sys
import tomllib
from fnmatch import fnmatchcase
from xml.sax.saxutils import escape

from check_pages import plain
from checks import compared, report
from papers import facts_of, tables_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INDEX = "docs/measured.md"
SUMMARY = "docs/SUMMARY.md"
SHOWN = re.compile(r"<!-- shown\n(.*?)-->", re.S)
WRITTEN = re.compile(r"(<!-- written: (\w+) -->\n).*?(<!-- end -->)", re.S)
ANSWER = re.compile(r"\A# (.+)\n\n\*\*(.+?)\*\*")
LISTED = re.compile(r"\]\((results/[\w-]+\.md)\)")
FIGURE = re.compile(r"(-?\d+(?:\.\d+)?)(?: \[(\d+\.\d+), (\d+\.\d+)\])?")
# A number with a fraction, and one with its interval, which scripts/check_pages.py looks up in the tables.
RATIO = re.compile(r"(?<![\w.=-])\d+\.\d+(?!\w|\.\d)")
BRACKETED = re.compile(r"\d+\.\d+\s\[[^]]*\]")
KINDS = {"dot", "mean", "control"}
KEYS = {"table", "where", "label", "value", "name", "kind", "called", "strip"}
# A picture is a screen: more rows are another picture. Longer texts do not fit.
MOST_ROWS, MOST_LETTERS = 36, 100
# What docs/measured.md shows of a page is two lines.
MOST_WORDS = 22


# --- what a page shows --------------------------------------------------------------------------


def shown_of(text):
    """What a page says of its picture and tables; nothing if it has no such comment."""
    found = SHOWN.search(text)
    return tomllib.loads(found[1]) if found else {}


def answer_of(text):
    """(question, answer) of a page."""
    found = ANSWER.match(text)
    return found.groups() if found else None


def rows_of(dots, text):
    """{label: (value, low, high) or None} of the rows that `dots` chooses from the tables of `text`."""
    where = {column: value if isinstance(value, list) else [value] for column, value in dots.get("where", {}).items()}
    wanted = {dots["label"], dots["value"], *where}
    table = next((table for table in tables_of(text) if wanted <= set(table[0])), [])
    chosen = [row for row in table if all(
        any(fnmatchcase(row[column], value) for value in values) for column, values in where.items())]
    return {name_of(row[dots["label"]], dots): figure_of(row[dots["value"]]) for row in chosen}


def name_of(label, dots):
    label = label.replace("`", "").removesuffix(dots.get("strip", ""))
    called = dots.get("called", {})
    return called.get(label, called.get("*", label))


def figure_of(cell):
    """(value, low, high) of a cell; without an interval all three are the value; nothing if it has no figure."""
    found = FIGURE.match(cell)
    if not found:
        return None
    value = float(found[1])
    return (value, float(found[2] or value), float(found[3] or value))


def series_of(shown, read_table, own):
    """[(dots, {label: figure})] of a page."""
    return [(dots, rows_of(dots, read_table(dots["table"]) if "table" in dots else own)) for dots in shown.get("dots", [])]


def shown_problems(page, text, read_table, exists):
    """What is wrong with what a page shows."""
    if not answer_of(text):
        return [f"{page}: does not begin with a question and an answer in bold type"]
    if len(plain(answer_of(text)[1]).split()) > MOST_WORDS:
        return [f"{page}: its answer has more than {MOST_WORDS} words"]
    below = re.sub(SHOWN, "", text[ANSWER.match(text).end():])
    problems = [f"{page}: its answer alone has {ratio}" for ratio in RATIO.findall(BRACKETED.sub("", answer_of(text)[1]))
                if ratio not in RATIO.findall(below)]
    shown = shown_of(text)
    problems += [f"{page}: has no table {name}" for name in shown.get("tables", []) if not exists(name)]
    problems += [f"{page}: has no place for {name}" for name in (["picture"] if shown.get("dots") else []) + (
        ["tables"] if shown.get("tables") else []) if f"<!-- written: {name} -->" not in text]
    problems += [f"{page}: does not fit into the picture: {shown[key]}" for key in ("title", "axis")
                 if len(shown.get(key, "")) > MOST_LETTERS + (key == "axis") * 30]
    for dots in shown.get("dots", []):
        problems += [f"{page}: has what nobody reads: {key}" for key in sorted(set(dots) - KEYS)]
        if dots.get("kind", "dot") not in KINDS:
            problems.append(f"{page}: no kind of dots: {dots['kind']}")
        if "table" in dots and not exists(dots["table"]):
            problems.append(f"{page}: has no table {dots['table']}")
        elif not any(rows_of(dots, read_table(dots["table"]) if "table" in dots else text).values()):
            problems.append(f"{page}: no row for {dots}")
    return problems


# --- the picture --------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT, ROW, TOP = 820, 215, 175, 15, 58
COLOURS = ["#2a78b8", "#c8642a", "#4a9440", "#8a5ab8"]
STYLE = """text { font: 12px system-ui, sans-serif; fill: #24292f } .small { font-size: 11px; fill: #59636e }
.title { font-size: 14px; font-weight: 600 } .mean { font-weight: 600 } .ground { fill: #ffffff } .grid { stroke: #d8dee4 }
.one { stroke: #59636e } .control { stroke: #8c959f; fill: none }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .ground { fill: #0d1117 }
.grid { stroke: #30363d } .one { stroke: #9198a1 } .control { stroke: #6e7681 } }"""


def ticks_of(low, high):
    """Round numbers of a logarithmic axis between two figures, few enough to be read."""
    spans = ((1.5, (1, 1.1, 1.2, 1.3, 7, 8, 9, 9.5)), (4, (1, 1.2, 1.5, 2, 3, 4, 5, 6, 7, 8)), (12, (1, 1.5, 2, 3, 5, 7)),
             (60, (1, 2, 5)), (math.inf, (1,)))
    digits = next(digits for span, digits in spans if high / low <= span)
    steps = (round(digit * 10.0**power, 9) for power in range(-5, 7) for digit in digits)
    return sorted(step for step in steps if low <= step <= high)


def order_of(series):
    """The labels from top to bottom: means first, then by the first dots that have them."""
    first = {}
    for dots, rows in series:
        if dots.get("kind", "dot") == "control":
            continue
        for label, figure in rows.items():
            first.setdefault(label, (dots.get("kind") != "mean", figure[0] if figure else math.inf))
    return sorted(first, key=lambda label: first[label])


def picture(shown, series):
    """The rows as dots with intervals on a logarithmic axis, sorted, as SVG."""
    labels = order_of(series)
    figures = [figure for _, rows in series for label, figure in rows.items() if figure and label in labels]
    low, high = (edge(figures, position) for position in (1, 2))
    if low < 3 and high > 0.33:  # ratios: 1 is shown, too
        low, high = min(low, 0.97), max(high, 1.03)
    low, high = low / 1.02, high * 1.02
    names = list(dict.fromkeys(dots.get("name", "") for dots, _ in series if dots.get("kind") != "control"))
    top = TOP + (ROW if legend(series, names) else 0)
    height = top + ROW * len(labels) + 42
    width = WIDTH - LEFT - RIGHT

    def across(figure):
        return round(LEFT + width * math.log(figure / low) / math.log(high / low), 1)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
             f'role="img"><title>{escape(shown["title"])}</title><style>{STYLE}</style>',
             f'<rect class="ground" width="{WIDTH}" height="{height}" rx="6"/>',
             f'<text class="title" x="12" y="24">{escape(shown["title"])}</text>',
             *legend(series, names)]
    bottom = top + ROW * len(labels)
    for tick in ticks_of(low, high):
        parts.append(f'<line class="{"one" if tick == 1 else "grid"}" x1="{across(tick)}" x2="{across(tick)}" '
                     f'y1="{top - 10}" y2="{bottom - 2}"/>')
        parts.append(f'<text class="small" x="{across(tick)}" y="{bottom + 12}" text-anchor="middle">{tick:g}</text>')
    parts.append(f'<text class="small" x="12" y="{bottom + 32}">{escape(shown["axis"])}</text>')
    for number, label in enumerate(labels):
        parts += row_of(label, top + ROW * number, series, names, across)
    return "\n".join([*parts, "</svg>", ""])


def edge(figures, position):
    """The least lower or the greatest upper bound, but no further out than the axis can show: half and twice the dots."""
    dots = [figure[0] for figure in figures]
    if position == 1:
        return max(min(figure[1] for figure in figures), min(dots) / 2)
    return min(max(figure[2] for figure in figures), max(dots) * 2)


def legend(series, names):
    """What the dots of each name are."""
    parts, x = [], 18
    for name in dict.fromkeys(dots["name"] for dots, _ in series if dots.get("name")):
        parts.append(mark(x, 44, COLOURS[names.index(name)] if name in names else None))
        parts.append(f'<text class="small" x="{x + 10}" y="48">{escape(name)}</text>')
        x += 34 + round(6.2 * len(name))
    return parts


def mark(x, y, colour, kind="dot"):
    """A dot; without a colour that of the control."""
    if colour is None:
        return f'<circle class="control" cx="{x}" cy="{y}" r="3.5"/>'
    return f'<circle cx="{x}" cy="{y}" r="{5 if kind == "mean" else 4}" fill="{colour}"/>'


def row_of(label, y, series, names, across):
    """One row: its name, the control behind, then the dots, and the first of them in figures."""
    means = any(dots.get("kind") == "mean" and label in rows for dots, rows in series)
    bold = ' class="mean"' if means else ""
    parts = [f'<text{bold} x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(label)}</text>']
    there = [(number, dots.get("kind", "dot"), rows[label]) for number, (dots, rows) in enumerate(series) if label in rows]
    measured = [(number, kind, figure) for number, kind, figure in there if figure and kind != "control"]
    # Dots of one row lie above each other, so that intervals do not hide intervals.
    spread = {number: y + 4 * (place - (len(measured) - 1) / 2) for place, (number, _, _) in enumerate(measured)}
    for number, kind, (value, low, high) in sorted(
            (one for one in there if one[2]), key=lambda one: one[1] != "control"):
        at = spread.get(number, y)
        left, right = (min(max(across(bound), LEFT), WIDTH - RIGHT) for bound in (low, high))
        colour = None if kind == "control" else COLOURS[names.index(series[number][0].get("name", ""))]
        stroke = f'stroke="{colour}" stroke-width="1.6"' if colour else 'class="control"'
        parts.append(f'<line {stroke} x1="{left}" x2="{right}" y1="{at}" y2="{at}"/>')
        parts.append(mark(across(value), at, colour, kind))
    if len(measured) <= 2:
        parts.append(f'<text{bold or " class=" + chr(34) + "small" + chr(34)} x="{WIDTH - RIGHT + 12}" y="{y + 4}">'
                     f'{figures_text(measured)}</text>')
    return parts


def figures_text(measured):
    """One figure with its interval, or two without."""
    if len(measured) == 1:
        value, low, high = measured[0][2]
        return f"{value:g}" if low == high else f"{value:.3f} [{low:.3f}, {high:.3f}]"
    return ", ".join(f"{value:g}" if low == high else f"{value:.3f}" for _, _, (value, low, high) in measured) or "no figure"


# --- what is written into pages -----------------------------------------------------------------


def picture_path(page):
    return f"docs/results/pictures/{os.path.basename(page).removesuffix('.md')}.svg"


def rounds_of(text):
    """How many rounds the rows of a measured table have, from the least to the most; nothing where no row says so."""
    counts = [int(row["rounds"]) for table in tables_of(text) for row in table if row.get("rounds", "").isdigit()]
    if not counts:
        return facts_of(text)[0]
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def table_list(shown, read_table):
    """The tables behind a page, with their rounds, and the machine and commit that the head of each names."""
    lines = ["The tables behind this page:", "", "| table | rounds | machine | commit |", "| --- | ---: | --- | --- |"]
    for name in shown["tables"]:
        text = read_table(name)
        _, machine, commit = facts_of(text)
        title = text.partition("\n")[0].removeprefix("# ")
        lines.append(f"| [{name}](tables/{name}.md): {title} | {rounds_of(text)} | {machine} | {commit} |")
    return "\n".join(lines) + "\n"


def answers(order, texts):
    """One line for each page: its question, which leads to it, and its answer."""
    lines = []
    for page in order:
        question, answer = answer_of(texts[page])
        lines.append(f"- [{question}](results/{os.path.basename(page)}) {answer}")
    return "\n".join(lines) + "\n"


def filled(text, pieces):
    """A page with its written parts replaced."""
    return WRITTEN.sub(lambda found: found[1] + pieces.get(found[2], "") + found[3], text)


def all_files(read, pages):
    """{path: content} of all that is generated."""
    def read_table(name):
        return read(f"docs/results/tables/{name}.md")

    files, texts = {}, {page: read(page) for page in pages}
    for page, text in texts.items():
        shown, pieces = shown_of(text), {}
        if shown.get("dots"):
            files[picture_path(page)] = picture(shown, series_of(shown, read_table, text))
            pieces["picture"] = f"![{shown['title']}](pictures/{os.path.basename(picture_path(page))})\n"
        if shown.get("tables"):
            pieces["tables"] = table_list(shown, read_table)
        files[page] = filled(text, pieces)
    order = [f"docs/{name}" for name in LISTED.findall(read(SUMMARY))]
    files[INDEX] = filled(read(INDEX), {"answers": answers([page for page in order if page in texts], texts)})
    return files


# --- the commands -------------------------------------------------------------------------------


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def pages_there():
    return sorted(glob.glob("docs/results/*.md", root_dir=ROOT))


def exists(name):
    return os.path.exists(os.path.join(ROOT, "docs/results/tables", f"{name}.md"))


def page_problems(pages):
    return [problem for page in pages for problem in shown_problems(
        page, read(page), lambda name: read(f"docs/results/tables/{name}.md"), exists)]


def row_problems(pages, texts, read_table):
    """Pictures with more rows than a screen has."""
    counts = {page: len(order_of(series_of(shown_of(texts[page]), read_table, texts[page]))) for page in pages}
    return [f"{page}: {count} rows in one picture" for page, count in counts.items() if count > MOST_ROWS]


def owner_problems(texts, tables):
    """Tables of no page."""
    owned = {name for text in texts.values() for name in shown_of(text).get("tables", [])}
    return [f"docs/results/tables/{name}.md belongs to no page" for name in sorted(set(tables) - owned)]


def order_problems(pages, summary):
    """Pages that docs/SUMMARY.md does not have once."""
    listed = [f"docs/{name}" for name in LISTED.findall(summary)]
    return [f"{SUMMARY}: has {page} {listed.count(page)} times" for page in pages if listed.count(page) != 1]


def check():
    pages = pages_there()
    wrong = page_problems(pages)
    texts = {page: read(page) for page in pages}
    tables = [os.path.basename(path).removesuffix(".md") for path in glob.glob("docs/results/tables/*.md", root_dir=ROOT)]
    stale, rows = ["not looked for: a page is wrong"], []
    if not wrong:
        files = all_files(read, pages)
        stale = [f"{path}: run: make generate" for path, text in files.items()
                 if not os.path.exists(os.path.join(ROOT, path)) or read(path) != text]
        left = set(glob.glob("docs/results/pictures/*.svg", root_dir=ROOT)) - set(files)
        stale += [f"{path} is no page's picture" for path in sorted(left)]
        rows = row_problems(pages, texts, lambda name: read(f"docs/results/tables/{name}.md"))
    return report([
        (f"what {len(pages)} pages of results show", wrong + rows),
        ("every table belongs to a page", owner_problems(texts, tables)),
        ("every page is in the book", order_problems(pages, read(SUMMARY))),
        ("pictures, lists of tables and docs/measured.md are generated", stale),
    ])


def generate():
    pages = pages_there()
    if problems := page_problems(pages):
        return report([("what the pages show", problems)])
    os.makedirs(os.path.join(ROOT, "docs/results/pictures"), exist_ok=True)
    for path, text in all_files(read, pages).items():
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(text)
    return 0


def self_test():
    table = ("# T\n\n5 rounds\n\n| workload | how | time |\n| --- | --- | --- |\n| a, 2 | x | 0.500 [0.400, 0.600] |\n"
             "| b, 2 | x | failed |\n| a, 2 | A/A | 1.0 |\n")
    page = ('# Q?\n\n**An answer.** More.\n\n<!-- shown\ntables = ["t"]\ntitle = "P"\naxis = "A"\n[[dots]]\ntable = "t"\n'
            'where = { how = "x" }\nlabel = "workload"\nvalue = "time"\nstrip = ", 2"\n-->\n'
            "<!-- written: picture -->\n<!-- end -->\n<!-- written: tables -->\nold\n<!-- end -->\n")
    texts = {"docs/results/tables/t.md": table, "docs/results/p.md": page, SUMMARY: "- [Q](results/p.md)\n",
             INDEX: "<!-- written: answers -->\n<!-- end -->\n"}
    files = all_files(texts.get, ["docs/results/p.md"])

    def problems(text):
        return shown_problems("p", text, lambda _: table, {"t"}.__contains__)

    def fails(problems):
        return [] if problems else ["was accepted"]

    def answers_of(text):
        return re.findall(r"\(results/(\w+)\.md\)", text)

    def has(text, *pieces):
        return [f"lacks {piece}" for piece in pieces if piece not in text]

    dots = shown_of(page)["dots"][0]
    return report([
        *compared([
            ("rounds of rows, from the least to the most",
             [rounds_of("| w | rounds |\n| --- | --- |\n" + "".join(f"| a | {one} |\n" for one in made))
              for made in ([10, 9, 10], [3, 0], [5, 5])], ["9 to 10", "0 to 3", "5"]),
            ("rows with figures and without", rows_of(dots, table), {"a": (0.5, 0.4, 0.6), "b": None}),
            ("names of rows", rows_of(dict(dots, called={"a": "c", "*": "d"}), table), {"c": (0.5, 0.4, 0.6), "d": None}),
            ("those without figures are last, means first",
             order_of([(dots, {"b": None, "a": (1, 1, 1)}), ({"kind": "mean"}, {"m": (9, 9, 9)})]), ["m", "a", "b"]),
            ("ticks of a short axis", ticks_of(0.9, 1.25), [0.9, 0.95, 1.0, 1.1, 1.2]),
            ("ticks of a long one", ticks_of(0.04, 3), [0.1, 1.0]),
            ("question and answer", answer_of(page), ("Q?", "An answer.")),
        ]),
        ("accepts a page", problems(page)),
        ("rejects one without an answer", fails(problems(page.replace("**", "")))),
        ("rejects an answer whose ratio the page does not have", fails(problems(page.replace("answer", "answer: 0.5 and 0.75")))),
        ("accepts one that it has", problems(page.replace("An answer.** More.", "0.5 [0.4, 0.6], 0.75.** It is 0.75."))),
        ("rejects a long answer", fails(problems(page.replace("An answer", "An" + " answer" * MOST_WORDS)))),
        ("rejects a table that is not there", fails(problems(page.replace('"t"]', '"u"]')))),
        ("rejects rows that are not there", fails(problems(page.replace('"x"', '"y"')))),
        ("rejects a column that is not there", fails(problems(page.replace('value = "time"', 'value = "space"')))),
        ("rejects a key that nobody reads", fails(problems(page.replace("strip", "cut")))),
        ("rejects a title that does not fit", fails(problems(page.replace('"P"', f'"{"P" * 101}"')))),
        ("rejects a page without a place for its picture", fails(problems(page.replace("written: picture", "x")))),
        ("writes picture, tables and answers",
         has(files["docs/results/p.md"], "](pictures/p.svg)\n<!-- end -->", "(tables/t.md): T | 5 |")
         + has(files[INDEX], "- [Q?](results/p.md) An answer.\n")
         + has(files["docs/results/pictures/p.svg"], "0.500 [0.400, 0.600]", "no figure", ">P</text>")),
        ("what was written is replaced", [] if "old" not in files["docs/results/p.md"] else ["it was kept"]),
        ("what is generated is fresh", [] if all_files({**texts, **files}.get, ["docs/results/p.md"]) == files else ["it changes"]),
        ("rejects too many rows", fails(row_problems(["p"], {"p": page}, lambda _: table + "".join(
            f"| w{number}, 2 | x | 1.0 |\n" for number in range(MOST_ROWS))))),
        ("rejects a table of no page", fails(owner_problems({"p": page}, ["t", "u"]))),
        ("answers stand in the order of the book", [] if answers_of(all_files(
            {**texts, "docs/results/b.md": page, SUMMARY: "- [Q](results/p.md)\n- [Q](results/b.md)\n"}.get,
            ["docs/results/b.md", "docs/results/p.md"])[INDEX]) == ["p", "b"] else ["they do not"]),
        ("rejects a page that is not in the book", fails(order_problems(["docs/results/q.md"], texts[SUMMARY]))),
    ])


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    commands = {"generate": generate, "check": check}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        print(__doc__)
        return 2
    return commands[sys.argv[1]]()


if __name__ == "__main__":
    sys.exit(main())
