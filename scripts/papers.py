#!/usr/bin/env python3
"""One page for the five papers: what each says, where it is in the tree, and what came of it here.

    papers.py generate    write docs/papers.md
    papers.py check       the page is fresh, and every row names what exists
    papers.py --self-test prove that each rule can fail

The rows are data: lab/papers/rows/PAPER.toml, which begins with

    title, venue       the paper
    tables, figures    how many it has, by number
    findings           how many findings it numbers; `finding` is what they are called
    statements         a page of docs/results/tables that tries the paper's statements: each is a row, as the page has it
    numbered           the same, of a page whose statements belong to the numbered findings
    experiments        those from which the statements are computed

and has a list of [[row]] with

    item        "table 1", "figure 3", "finding 2", or "mechanism", "policy", "method", "program"
    section     where the paper says it
    says        what the paper says, in other words
    file        where it is in the tree, one path or a list
    options     NAME=VALUE of the option table that choose it
    place       NAME=VALUE,... of `gleaner place`
    experiment  names of lab/experiments; none if it is left out
    data        files of lab/papers that have the paper's figures, without their ending
    verdict     one of VERDICTS; what is DECIDED has LEAST_ROUNDS rounds or more on each page that has rounds
    why         what a verdict of WITH_REASON needs; of `modelled` what the model says; of `undecided` how many rounds, where no
                page does
    ours        what our tables say
    tried       intervals of `ours` with what the paper wants of them, "1.05 [1.03, 1.06] below 1"; the verdict is theirs
    pages       pages of docs/results/tables, without their ending, or of docs/, with it
    deviates    how ours is not the paper's
    proxy       what stands for what the paper is about, on our machines; the verdict names it

Rounds, machine and commit stand in the head of a measured page, and are taken from there. The last line is
"N passed, N failed".
"""

import glob
import os
import re
import sys
import tomllib

from checks import report, wrong

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROWS = os.path.join(ROOT, "lab", "papers", "rows")
PAGE = os.path.join(ROOT, "docs", "papers.md")
# In the order of their years, as they stand on the page.
PAPERS = ["cache-misses", "zrays", "zeroing", "multicore-java", "naps"]
VERDICTS = ["holds", "holds in part", "does not hold here", "undecided", "modelled", "cannot be measured here", "not there",
            "not measured"]
# These are claims about runs, so they name a page and say what it shows.
CLAIMS = VERDICTS[:5]
WITH_REASON = {"modelled", "cannot be measured here", "not there"}
# Of a model whose parameters are intervals, a statement may hold in a part of them, which is named.
MODELLED = re.compile(r"holds( in part| at \d+ of \d+ points| for all parameters in their intervals| for .+ in \[\S+, \S+\].*)?|does not hold|undecided")
# What statements of measured pages are called here.
STATEMENT_WORDS = {"does not hold": "does not hold here", "cannot be tested here": "cannot be measured here"}
HEAD = {"title", "venue", "tables", "figures", "findings", "finding", "statements", "numbered", "experiments", "row"}
KEYS = {"item", "section", "says", "file", "options", "place", "experiment", "data", "verdict", "why", "ours", "pages",
        "deviates", "proxy", "tried"}
DECIDED = CLAIMS[:3]
LEAST_ROUNDS = 3
# Pages of what was counted and not timed: one round decides.
COUNTED = {"array-counts", "arrays-fragmentation", "naps-paper"}
LISTS = {"file", "options", "place", "experiment", "data", "pages", "tried"}
MOST_WORDS = 39
# An interval as `ours` has it, and on which side of a bound the paper has it.
TRIED = re.compile(r"(.* \[(-?[\d.]+), (-?[\d.]+)\]) (below|above) (-?[\d.]+)")
ITEM = re.compile(r"mechanism|policy|method|program|(table|figure|finding) ([1-9]\d*)")
# A row of the option table: its name, and which values are accepted.
OPTION = re.compile(r'^    \w+: [^=]+ = .*?, "([a-z-]+)", \w+, \w+, (?:None|Some\(".*?"\)), (.*);$', re.M)
CHOICE = re.compile(r"^    (\w+) \{\n(.*?)^    \}", re.M | re.S)
SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def listed(value):
    """A value that may be one text or a list of them, as a list."""
    return [value] if isinstance(value, str) else list(value)


def read_papers(folder):
    """{name: head with its rows}, in the order of the page."""
    papers = {}
    for name in PAPERS:
        with open(os.path.join(folder, f"{name}.toml"), "rb") as file:
            try:
                papers[name] = tomllib.load(file)
            except tomllib.TOMLDecodeError as error:
                raise SystemExit(f"papers.py: {os.path.relpath(file.name, ROOT)}: {error}") from None
        if not papers[name].get("row"):
            raise SystemExit(f"papers.py: {os.path.relpath(file.name, ROOT)} has no [[row]]")
        for row in papers[name]["row"]:
            for key in LISTS & set(row):
                row[key] = listed(row[key])
    return papers


# --- what the rows may name ---------------------------------------------------------------------


def accepted_values(table, types):
    """{option: [function that tells whether it takes a value]} from the option table; two heaps may have one name."""
    choices = {name: re.findall(r'= "([^"]+)"', body) for name, body in CHOICE.findall(types)}
    options = {}
    for name, accepted in OPTION.findall(table):
        options.setdefault(name, []).append(taker(accepted, choices))
    return options


def taker(accepted, choices):
    """Whether a value is taken, by what the option table says is accepted."""
    if accepted == "SWITCH":
        return lambda value: value in ("off", "on")
    if choice := re.fullmatch(r"Accepted::Choice\((\w+)::NAMES\)", accepted):
        return lambda value: value in choices[choice[1]]
    if accepted.startswith(("size(", "number(", "Accepted::Number")):
        least = int(re.search(r"(?:size\(|number\(|least: )(\d+)", accepted)[1])
        shift = re.search(r"size\(\d+ << (\d+)", accepted)
        powers = "power_of_two: true" in accepted
        return lambda value: number_is_taken(value, least << int(shift[1] if shift else 0), powers)
    return lambda value: bool(value)


def number_is_taken(value, least, powers):
    found = re.fullmatch(r"(\d+)([kmgt]?)", value)
    if not found:
        return False
    number = int(found[1]) * SUFFIXES[found[2]]
    return number == 0 or (number >= least and not (powers and number & (number - 1)))


def place_values(settings, sources):
    """(names, words) of `gleaner place`: its settings, and what stands in quotes in its sources."""
    names = re.search(r"const NAMES.*?\];", settings, re.S)[0]
    return set(re.findall(r'"([a-z-]+)"', names)), set(re.findall(r'"([a-z][a-z-]*)"', sources))


def option_problems(name, row, options, place):
    """Options and values that are not there."""
    problems = []
    for setting in row.get("options", []):
        option, _, value = setting.partition("=")
        if option not in options:
            problems.append(f"{name}: {option} is no option")
        elif not any(takes(value) for takes in options[option]):
            problems.append(f"{name}: {option} does not take {value}")
    names, words = place
    for setting in ",".join(row.get("place", [])).split(",") if row.get("place") else []:
        option, _, value = setting.partition("=")
        if option not in names:
            problems.append(f"{name}: `gleaner place` has no option {option}")
        problems += [f"{name}: `gleaner place` knows no {word} for {option}"
                     for word in value.split("+") if not (word.isdigit() or word in words)]
    return problems


def page_path(page):
    """Where a page of a row lies below docs/."""
    return page.partition("#")[0] if ".md" in page else f"results/tables/{page}.md"


def name_problems(name, row, exists):
    """Files, experiments, pages and tables that do not exist; `exists` is asked for paths from the root."""
    paths = list(row.get("file", []))
    paths += [f"lab/experiments/{experiment}.yaml" for experiment in row.get("experiment", [])]
    paths += [f"lab/papers/{table}.csv" for table in row.get("data", [])]
    paths += [f"docs/{page_path(page)}" for page in row.get("pages", [])]
    return [f"{name}: {path} does not exist" for path in paths if not exists(path)]


# --- the rows themselves ------------------------------------------------------------------------


def row_problems(name, row):
    """What is wrong with a row by itself."""
    missing = {"item", "section", "says", "verdict"} - set(row)
    if missing:
        return [f"{name}: has no {', '.join(sorted(missing))}"]
    problems = [f"{name}: has what nobody reads: {key}" for key in sorted(set(row) - KEYS)]
    verdict = row["verdict"]
    if not ITEM.fullmatch(row["item"]):
        problems.append(f"{name}: an item of no kind: {row['item']}")
    if verdict not in VERDICTS:
        problems.append(f"{name}: a verdict of no kind: {verdict}")
    if verdict in WITH_REASON and not row.get("why"):
        problems.append(f"{name}: {verdict}: why?")
    if verdict == "modelled" and not MODELLED.fullmatch(row.get("why", "")):
        problems.append(f"{name}: a model says {MODELLED.pattern}")
    if verdict in CLAIMS and not (row.get("pages") and row.get("ours")):
        problems.append(f"{name}: {verdict}: names no page, or not what it says")
    if row["item"] in ("mechanism", "policy") and verdict != "not there" and not row.get("file"):
        problems.append(f"{name}: no file")
    for key in ("says", "ours", "deviates", "why"):
        for sentence in re.split(r"(?<=[.:;?]) ", row.get(key, "")):
            if len(sentence.split()) > MOST_WORDS:
                problems.append(f"{name}: a sentence of more than {MOST_WORDS} words: {sentence}")
    return problems


def coverage_problems(paper, head):
    """Each table, figure and finding by number has exactly one row."""
    problems = [f"{paper}: has what nobody reads: {key}" for key in sorted(set(head) - HEAD)]
    items = [row.get("item", "") for row in head["row"]]
    for kind in ("table", "figure", "finding"):
        wanted = [f"{kind} {number + 1}" for number in range(head[f"{kind}s"])]
        there = [item for item in items if item.startswith(f"{kind} ")]
        problems += [f"{paper}: {item} has {there.count(item)} rows" for item in wanted if there.count(item) != 1]
        problems += [f"{paper}: has no {item}" for item in there if item not in wanted]
    return problems


def tables_of(text):
    """Each table of a page, as a list of {column: cell}."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        lines = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in block.splitlines()]
        if len(lines) > 2 and set("".join(lines[1])) <= set("-: "):
            found.append([dict(zip(lines[0], cells)) for cells in lines[2:]])
    return found


def statements_of(text):
    """The statements that a page tries: the first table with both what the paper says and a verdict."""
    for table in tables_of(text):
        if {"the paper says", "verdict", "ours"} <= set(table[0]):
            return table
    return []


def word_of(verdict):
    """A verdict of a measured page by itself: behind it stand rounds that were too few, and what stood for what."""
    return re.split(r": | \(", verdict)[0]


def together(verdicts):
    """What several statements come to: one that cannot be tested says nothing."""
    verdicts = {word_of(verdict) for verdict in verdicts}
    if verdicts == {"cannot be tested here"}:
        return "cannot be measured here"
    verdicts.discard("cannot be tested here")
    if verdicts == {"holds"}:
        return "holds"
    if "does not hold" in verdicts:
        return "holds in part" if "holds" in verdicts else "does not hold here"
    return "undecided"


def numbered_problems(paper, head, statements):
    """A numbered finding has the verdict that its statements have together."""
    problems = []
    for row in head["row"]:
        number = row["item"].partition("finding ")[2]
        theirs = [statement["verdict"] for statement in statements if number and statement["finding"] == number]
        if theirs and row["verdict"] != together(theirs):
            problems.append(f"{paper}: {row['item']} is {together(theirs)} by its statements, and not {row['verdict']}")
    return problems


def tried_verdict(low, high, side, bound):
    """What an interval says of a bound, as statements of measured pages say it."""
    if side == "above":
        low, high, bound = -high, -low, -bound
    return "holds" if high < bound else "does not hold" if low > bound else "undecided"


def tried_problems(name, row):
    """Whether the intervals of a row carry its verdict."""
    if not row.get("tried"):
        return []
    found = [TRIED.fullmatch(one) for one in row["tried"]]
    problems = [f"{name}: it is not tried so: {one}" for one, it in zip(row["tried"], found) if not it]
    problems += [f"{name}: `ours` does not have {it[1]}" for it in found if it and it[1] not in row.get("ours", "")]
    if problems:
        return problems
    theirs = together([tried_verdict(float(it[2]), float(it[3]), it[4], float(it[5])) for it in found])
    return [] if row["verdict"] == theirs else [f"{name}: is {theirs} by its intervals, and not {row['verdict']}"]


# --- the page -----------------------------------------------------------------------------------


def facts_of(text):
    """(rounds, machine, commit) of a measured page; what it does not name is empty.

    The head has the rounds that were planned: those that were made stand in the rows, where these have them.
    """
    head = text.partition("\n|")[0]
    planned = re.search(r"^(?:at most )?(\d+) rounds", head, re.M)
    made = [int(row["rounds"]) for table in tables_of(text) for row in table if row.get("rounds", "").isdigit()]
    rounds = "" if not planned else str(max(made)) if made else planned[1]
    machine = re.search(r"runs on \d+ processors \((.*?), kernel", head)
    commit = re.search(r"; commit (?:[0-9a-f]{12} and )*([0-9a-f]{12})(, with changes)?;", head)
    short = re.sub(r"\(R\)| Processor", "", machine[1]) if machine else ""
    return (rounds, short, "".join(part or "" for part in commit.groups()) if commit else "")


def shown_verdict(row, rounds):
    """The verdict as the page has it; `rounds` are those of the row's first page that names some."""
    verdict = row["verdict"]
    if verdict == "undecided" and rounds and not row.get("why"):
        verdict += f": {rounds} round{'' if rounds == '1' else 's'}"
    elif row.get("why"):
        verdict += f": {row['why']}"
    return f"{verdict} ({row['proxy']})" if row.get("proxy") else verdict


def decided_problems(name, row, pages):
    """What holds or does not is known from enough rounds."""
    if row["verdict"] not in DECIDED:
        return []
    rounds = {page: facts_of(pages.get(page_path(page), ""))[0] for page in row.get("pages", []) if page not in COUNTED}
    return [f"{name}: {row['verdict']} by {number} of {LEAST_ROUNDS} rounds of {page}"
            for page, number in rounds.items() if number and int(number) < LEAST_ROUNDS]


def round_problems(name, row, pages):
    """An undecided row says after how many rounds, by its pages or by itself."""
    known = row["verdict"] != "undecided" or row.get("why") or any(
        facts_of(pages.get(page_path(page), ""))[0] for page in row.get("pages", []))
    return [] if known else [f"{name}: undecided after how many rounds?"]


def row_of_statement(statement, head):
    """A statement of a measured page as a row."""
    verdict = statement["verdict"]
    modelled = re.fullmatch(r"modelled: (.*)", verdict)
    word = word_of(verdict)
    row = {"item": "statement", "section": statement["section"], "says": statement["the paper says"],
           "verdict": "modelled" if modelled else STATEMENT_WORDS.get(word, word),
           "ours": f"{statement['ours']}; it holds if ours is {statement.get('holds if') or statement['holds if ours is']}",
           "experiment": [name for name in head["experiments"]
                          if re.search(rf"of {re.escape(name)}(?![\w-])", statement.get("what ours is", ""))]
           or head["experiments"]}
    row["pages"] = [head["statements"], *row["experiment"]]
    if modelled:
        row["why"] = modelled[1]
    elif few := re.match(r"undecided: (\d+ of \d+ rounds)", verdict):
        row["why"] = few[1]
    return row


def cells(row, pages):
    """The cells of a row's line."""
    facts = [(page, facts_of(pages.get(page_path(page), ""))) for page in row.get("pages", [])]
    rounds = next((found[0] for _, found in facts if found[0]), "")
    where = [f"[`{os.path.basename(path.rstrip('/'))}`](../{path})" for path in row.get("file", [])]
    where += [f"`{setting}`" for setting in row.get("options", [])]
    where += [f"`gleaner place --opt {setting}`" for setting in row.get("place", [])]
    about = [part for part in (row.get("ours"), row.get("deviates") and f"*Deviates:* {row['deviates']}") if part]
    shown = []
    for page, (its_rounds, machine, commit) in facts:
        name = page.partition("#")[0].removesuffix(".md")
        link = page if ".md" in page else page_path(page)
        shown.append(f"[{name}]({link})" + "".join(f", {fact}" for fact in (
            its_rounds and f"{its_rounds} round{'' if its_rounds == '1' else 's'}", machine, commit) if fact))
    kind, _, number = row["item"].partition(" ")
    item = f"{kind.capitalize()} {number}".strip()
    if row.get("data"):
        item += " (" + ", ".join(f"[data](../lab/papers/{table}.csv)" for table in row["data"]) + ")"
    return [item, row["section"], row["says"], ", ".join(where), 
            ", ".join(f"[{name}](../lab/experiments/{name}.yaml)" for name in row.get("experiment", [])) or "none",
            shown_verdict(row, rounds), " ".join(about), "; ".join(shown)]


def render(papers, pages):
    """The page; `pages` are the texts of the pages of docs/, by their path below it."""
    lines = [
        "# The papers",
        "",
        "<!-- Written by scripts/papers.py from lab/papers/rows and the measured pages; edit those. -->",
        "",
        "You want to repeat one of the five papers: each row below is something that a paper says, with the option that chooses it",
        "here and the experiment that repeats it. A verdict is what the measured page of the row decides about our machines, and",
        "about nothing else; machine and commit are those in the head of that page, and rounds those that were made. The experiments run after",
        "`make lab`, most of them also by `make bench`:",
        "",
        "```sh",
        "target/lab/venv/bin/gleaner-lab run NAME --out DIR; target/lab/venv/bin/gleaner-lab report DIR --markdown FILE",
        "```",
        "",
        "Where the page of a row ends in `-findings`, a further command tries the paper's statements on such runs: `gleaner-lab findings DIR`",
        "for NAPS, `gleaner-lab arrays findings DIR...` for z-rays, and `gleaner-lab placement findings DIR...`. The page has the whole command.",
        "",
        "*Undecided* is what the rounds were too few, or the machine too restless, to decide. *Modelled* is computed for a machine",
        "that we have not, from what runs counted. *Not measured* is there, or is a description, and no page judges it.",
        "[measured.md](measured.md) has a page for each question that our tables answer. A door for WebAssembly has not landed.",
        "",
        "| paper | " + " | ".join(VERDICTS) + " | rows |",
        "| --- | " + " | ".join(["---:"] * len(VERDICTS)) + " | ---: |",
    ]
    tables = []
    sums = [0] * (len(VERDICTS) + 1)
    for head in papers.values():
        rows = list(head["row"])
        if head.get("statements"):
            rows += [row_of_statement(it, head) for it in statements_of(pages[page_path(head["statements"])])]
        counts = [sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS] + [len(rows)]
        sums = [one + other for one, other in zip(sums, counts)]
        anchor = re.sub(r"[^\w -]", "", f"{head['venue']}: {head['title']}".lower()).replace(" ", "-")
        lines.append(f"| [{head['venue']}](#{anchor}) | " + " | ".join(map(str, counts)) + " |")
        tables += ["", f"## {head['venue']}: {head['title']}", "",
                   "| what | section | the paper says | where, and how it is chosen | experiment | verdict | ours | page |",
                   "| --- | --- | --- | --- | --- | --- | --- | --- |"]
        tables += ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells(row, pages)) + " |" for row in rows]
    lines.append("| all | " + " | ".join(map(str, sums)) + " |")
    return "\n".join(lines + tables) + "\n"


# --- the commands -------------------------------------------------------------------------------


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def read_pages():
    """The pages of docs/ that rows may name, by their path below it."""
    paths = glob.glob(os.path.join(ROOT, "docs", "*.md")) + glob.glob(os.path.join(ROOT, "docs", "results", "**", "*.md"), recursive=True)
    return {os.path.relpath(path, os.path.join(ROOT, "docs")): read(path) for path in sorted(paths) if path != PAGE}


def check(papers, pages):
    options = accepted_values(read("crates/base/src/options.rs"), read("crates/base/src/options/types.rs"))
    sources = ["crates/base/src/roles.rs", *sorted(glob.glob("crates/place/src/**/*.rs", root_dir=ROOT, recursive=True))]
    place = place_values(read("crates/place/src/settings.rs"), "".join(map(read, sources)))

    def exists(path):
        return os.path.exists(os.path.join(ROOT, path))

    def over(rule, *arguments):
        return [problem for paper, head in papers.items() for number, row in enumerate(head["row"], 1)
                for problem in rule(f"{paper}, row {number} ({row.get('item')})", row, *arguments)]

    rows = sum(len(head["row"]) for head in papers.values())
    shown = read("docs/papers.md") if exists("docs/papers.md") else ""
    own = over(row_problems)
    return report([
        (f"{rows} rows of {len(papers)} papers", own),
        ("the files, experiments, tables and pages that they name", over(name_problems, exists)),
        ("the options and values that they name", over(option_problems, options, place)),
        ("each table, figure and finding has a row",
         [problem for paper, head in papers.items() for problem in coverage_problems(paper, head)]),
        ("rows that are undecided say after how many rounds", [] if own else over(round_problems, pages)),
        ("rows that are decided have the rounds for it", [] if own else over(decided_problems, pages)),
        ("verdicts of numbered findings are those of their statements",
         [problem for paper, head in papers.items() if head.get("numbered") for problem in numbered_problems(
             paper, head, statements_of(pages[page_path(head["numbered"])]))]),
        ("verdicts of rows are those of their intervals", over(tried_problems)),
        ("docs/papers.md is generated from the rows",
         own and ["not written: a row is wrong"] or ([] if shown == render(papers, pages) else ["run: make generate"])),
    ])


def self_test():
    row = {"item": "mechanism", "section": "1", "says": "a", "file": ["a.rs"], "verdict": "holds", "ours": "b", "pages": ["p"]}
    head = {"title": "T", "venue": "V", "tables": 1, "figures": 0, "findings": 1, "row": [
        dict(row, item="table 1"), dict(row, item="finding 1")]}
    table = ('    a: Way = Way::A, "way", User, Both, None, Accepted::Choice(Way::NAMES);\n'
             '    b: bool = true, "flag", User, Both, Some("V, x"), SWITCH;\n'
             '    c: u32 = 0, "size", User, Both, None, size(64 << 10, "none");\n'
             '    d: u32 = 0, "power", User, Both, None, Accepted::Number { least: 64, most: 256, power_of_two: true, zero: "" };\n')
    options = accepted_values(table, '    Way {\n        /// A.\n        A = "a",\n        B = "b",\n    }\n')
    place = place_values('const NAMES: [&str; 1] = [\n"placement",\n];\n', '("paper", Placement::Paper)')
    page = ("# P\n\n2026, 1 of 1 runs on 2 processors (AMD EPYC, kernel 6).\n\n3 rounds, size full; commit 0123456789ab, with changes; "
            "build x.\n\n| finding | the paper says | section | holds if ours is | ours | verdict | what ours is |\n"
            "| --- | --- | --- | --- | --- | --- | --- |\n| 1 | a | 2 | at most 1 | 3 | does not hold | x of e |\n")
    statements = statements_of(page)

    def without(key, **changed):
        return {**{name: value for name, value in row.items() if name != key}, **changed}

    def option(*settings):
        return option_problems("r", {"options": list(settings)}, options, place)

    def placed(setting):
        return option_problems("r", {"place": [setting]}, options, place)

    def tried(*intervals, verdict="holds"):
        return tried_problems("r", dict(row, ours="It takes 1.05 [1.03, 1.06].", verdict=verdict,
                                        tried=intervals or ["1.05 [1.03, 1.06] below 1"]))

    def fails(problems):
        return wrong(problems)

    papers = {"p": dict(head, statements="p", experiments=["e"])}
    shown = render(papers, {"results/tables/p.md": page})
    return report([
        ("accepts a row", row_problems("r", row)),
        ("rejects a row without a verdict", fails(row_problems("r", without("verdict")))),
        ("rejects a key that nobody reads", fails(row_problems("r", dict(row, because="x")))),
        ("rejects an item of no kind", fails(row_problems("r", dict(row, item="chart 1")))),
        ("rejects a verdict of no kind", fails(row_problems("r", dict(row, verdict="proved")))),
        ("rejects a claim without a page", fails(row_problems("r", without("pages")))),
        ("rejects a claim that does not say what the page does", fails(row_problems("r", without("ours")))),
        ("rejects `cannot be measured here` without a reason",
         fails(row_problems("r", without("pages", verdict="cannot be measured here")))),
        ("rejects `not there` without a reason", fails(row_problems("r", without("pages", verdict="not there")))),
        ("rejects a model that says nothing", fails(row_problems("r", dict(row, verdict="modelled", why="maybe")))),
        ("rejects a part of the parameters without its ends", fails(row_problems("r", dict(row, verdict="modelled", why="holds for x")))),
        ("accepts a part of the parameters", row_problems("r", dict(row, verdict="modelled", why="holds for x in [1, 2.5] ns"))),
        ("accepts a part of the points", row_problems("r", dict(row, verdict="modelled", why="holds at 5 of 100 points"))),
        ("accepts all of them", row_problems("r", dict(row, verdict="modelled", why="holds for all parameters in their intervals"))),
        ("rejects a mechanism without a file", fails(row_problems("r", without("file")))),
        ("accepts one that is not there", row_problems("r", without("file", verdict="not there", why="later"))),
        ("rejects a long sentence", fails(row_problems("r", dict(row, says="a " * 40)))),
        ("accepts several short ones", row_problems("r", dict(row, says="a " * 30 + "a. " + "b " * 30))),
        ("accepts names", name_problems("r", dict(row, experiment=["e"], data=["t"]), lambda path: path in (
            "a.rs", "lab/experiments/e.yaml", "lab/papers/t.csv", "docs/results/tables/p.md"))),
        ("rejects a file", fails(name_problems("r", {"file": ["b.rs"]}, {"a.rs"}.__contains__))),
        ("rejects an experiment", fails(name_problems("r", {"experiment": ["f"]}, {"lab/experiments/e.yaml"}.__contains__))),
        ("rejects a table", fails(name_problems("r", {"data": ["u"]}, {"lab/papers/t.csv"}.__contains__))),
        ("rejects a measured page", fails(name_problems("r", {"pages": ["q"]}, {"docs/results/tables/p.md"}.__contains__))),
        ("accepts a page of docs/", name_problems("r", {"pages": ["z.md#a"]}, {"docs/z.md"}.__contains__)),
        ("accepts options", option("way=b", "flag=on", "size=64k", "size=0", "power=128")),
        ("rejects an option", fails(option("weigh=b"))),
        ("rejects a value of a choice", fails(option("way=c"))),
        ("rejects one of a switch", fails(option("flag=yes"))),
        ("rejects a size that is too small", fails(option("size=64"))),
        ("rejects what is no number", fails(option("size=large"))),
        ("rejects what is no power of two", fails(option("power=100"))),
        ("accepts an option of gleaner place", placed("placement=paper")),
        ("rejects another", fails(placed("placement=paper,placements=paper"))),
        ("rejects a word that it does not know", fails(placed("placement=plastic"))),
        ("accepts a paper whose tables and findings have rows", coverage_problems("p", head)),
        ("rejects one that lacks a table", fails(coverage_problems("p", dict(head, tables=2)))),
        ("rejects one that lacks a figure", fails(coverage_problems("p", dict(head, figures=1)))),
        ("rejects one that lacks a finding", fails(coverage_problems("p", dict(head, findings=2)))),
        ("rejects a table that has two rows",
         fails(coverage_problems("p", dict(head, row=head["row"] + [dict(row, item="table 1")])))),
        ("rejects a table that the paper has not", fails(coverage_problems("p", dict(head, tables=0)))),
        ("rejects a head that nobody reads", fails(coverage_problems("p", dict(head, pictures=1)))),
        ("rejects a finding that claims more than its statements", fails(numbered_problems("p", head, statements))),
        ("accepts one that does not", numbered_problems("p", {"row": [dict(row, item="finding 1", verdict="does not hold here")]},
                                                         statements)),
        ("accepts a verdict that its interval carries", tried(verdict="does not hold here")),
        ("rejects one that it does not", fails(tried())),
        ("rejects one that it leaves undecided", fails(tried("1.05 [1.03, 1.06] below 1.04", verdict="does not hold here"))),
        ("two that differ hold in part", tried("1.05 [1.03, 1.06] below 1", "1.05 [1.03, 1.06] above 1", verdict="holds in part")),
        ("rejects an interval that the row does not have", fails(tried("1.15 [1.13, 1.16] above 1"))),
        ("rejects what is no bound", fails(tried("1.05 [1.03, 1.06] beside 1"))),
        ("accepts undecided after the rounds of a page", round_problems("r", dict(row, verdict="undecided"), {"results/tables/p.md": page})),
        ("rejects undecided after nobody knows how many", fails(round_problems("r", dict(row, verdict="undecided"), {}))),
        ("statements of both kinds hold in part", wrong(together(["holds", "does not hold"]) == "holds in part")),
        ("one that is undecided decides nothing", wrong(together(["holds", "undecided"]) == "undecided")),
        ("nothing but such cannot be measured", wrong(together(["cannot be tested here (x for y)"]) == "cannot be measured here")),
        ("rounds and proxies behind a verdict are no part of it", wrong(
            together(["holds (x for y)", "does not hold (x: z)"]) == "holds in part")),
        ("too few rounds decide nothing", wrong(together(["holds", "undecided: 1 of 3 rounds (x for y)"]) == "undecided")),
        ("rejects a decided row of too few rounds", fails(decided_problems("r", row, {"results/tables/p.md": page.replace(
            "3 rounds", "2 rounds")}))),
        ("accepts one of enough", decided_problems("r", row, {"results/tables/p.md": page})),
        ("shows what stood for what", wrong(shown_verdict(dict(row, proxy="x for y"), "3") == "holds (x for y)")),
        ("one that cannot be tested says nothing", wrong(together(["holds", "cannot be tested here"]) == "holds")),
        ("takes rounds, machine and commit from the page",
         wrong(facts_of(page) == ("3", "AMD EPYC", "0123456789ab, with changes"))),
        ("takes the rounds that were made where rows have them", wrong(facts_of(
            page + "\n\n| workload | rounds |\n| --- | --- |\n| w | 2 |\n| v | 0 |\n")[0] == "2")),
        ("shows them", wrong("[p](results/tables/p.md), 3 rounds, AMD EPYC, 0123456789ab, with changes" in shown)),
        ("shows how many rounds did not decide", wrong(shown_verdict(dict(row, verdict="undecided"), "1") == "undecided: 1 round")),
        ("counts the verdicts, those of statements among them", wrong("| 2 | 0 | 1 | 0 | 0 | 0 | 0 | 0 | 3 |" in shown)),
        ("an experiment whose name begins with another's is another", wrong(row_of_statement(
            dict(statements[0], **{"what ours is": "x of e-f"}), dict(papers["p"], experiments=["e", "e-f"]))["experiment"] == ["e-f"])),
        ("shows too few rounds of a statement", wrong(shown_verdict(row_of_statement(
            dict(statements[0], verdict="undecided: 0 of 3 rounds (x for y)"), papers["p"]), "16") == "undecided: 0 of 3 rounds")),
        ("shows a model as one", wrong(row_of_statement(
            dict(statements[0], verdict="modelled: holds for x in [1, 2.5] ns"), papers["p"])["why"] == "holds for x in [1, 2.5] ns")),
    ])


def main():
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    if command == "--self-test":
        return self_test()
    if command not in ("generate", "check"):
        print(__doc__, file=sys.stderr)
        return 2
    papers, pages = read_papers(ROWS), read_pages()
    if command == "check":
        return check(papers, pages)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(render(papers, pages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
