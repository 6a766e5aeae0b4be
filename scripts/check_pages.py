#!/usr/bin/env python3
"""Check what the pages say of the tree.

 1. a relative link leads to a file, and what follows its # is a heading there;
 2. a path that begins with a directory of the tree and stands in code type or
    in a shell example exists, unless it is under target/; so does a source file that
    is named without its directory;
 3. `make TARGET NAME=VALUE` names a target of the Makefile and what it reads, `-p gleaner-CRATE` a
    crate, `--test NAME` a file of tests;
 4. an option in an example (`--opt NAME=VALUE`, `NAME=VALUE` in code type) is in
    the option table, as docs/options.md prints it;
 5. README.md names the oldest Rust that Cargo.toml allows;
 6. a ratio with its interval, `1.02 [1.01, 1.04]` in the text of a page of docs/, stands so, or
    the other way up, in a table of docs/results/tables/; a block marked `text` is what a
    program printed, and not looked at;
 7. a block of C or Rust in docs/embedding.md stands so in an example, which the
    tests build and run;
 8. a block says what it is: commands (sh, console), which scripts/commands.py runs, or
    something else;
 9. a `--word` in code is an option of a program of the tree, or one of FOREIGN;
10. a word behind `gleaner`, `gleaner-bench` or `gleaner-lab` is one of its commands, and one behind
    `gleaner-lab run` an experiment;
11. docs/environment.md has each of libgc's variables that crates/libgc reads, and what it
    says is honoured is read;
12. no sentence of a page has more than forty words, but of those whose rows are looked up and not read. A piece of code is
    one word, and the interval behind a ratio none;
13. each page of docs/ is in docs/SUMMARY.md, or the site would not have it.

The pages are all that git knows, but for those that something else writes.

    check_pages.py               check the pages; last line "N passed, N failed"
    check_pages.py --self-test   prove that each rule can fail
"""

import glob
import os
import re
import subprocess
import sys

from checks import report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A page that a program or a table writes is checked where it is written; of docs/results/tables/ the lab writes all.
GENERATED = {"docs/rooms.md", "docs/libgc-symbols.md", "docs/options.md", "docs/system-calls.md"}
# Options of programs that are not Gleaner's: rustup, numactl, ecl, cargo doc, gdb, valgrind, pkg-config, nim, dask, objdump,
# wasm_of_ocaml, wasm-opt.
FOREIGN = {"--component", "--interleave", "--preferred", "--load", "--open", "--args", "--leak-check", "--suppressions",
           "--variable", "--mm", "--host", "--no-show-raw-insn", "--disassemble", "--enable", "--effects", "--translate-to-exnref"}
# Tables of generated rows, which are looked up and not read.
REFERENCES = GENERATED | {"docs/papers.md", "docs/mutants.md", "docs/SUMMARY.md"}
MOST_WORDS = 40
EXAMPLES = ["examples/lisp.c", "crates/gleaner/examples/lisp.rs", "crates/capi/include/gleaner.h",
            "crates/capi/include/gleaner_elements.h", "crates/capi/include/gleaner_roots.h"]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
IMAGE = re.compile(r'<img [^>]*\bsrc="([^"]*)"')
HEADING = re.compile(r"^#+ +(.*?) *$", re.M)
SPAN = re.compile(r"`([^`\n]+)`")
PRINTED = re.compile(r"^ *```text\n.*?^ *```", re.M | re.S)
BLOCK = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.M | re.S)
EXAMPLE = re.compile(r"^```(?:c|rust)\n(.*?)^```", re.M | re.S)
RATIO = re.compile(r"(\d+\.\d+)\s+\[(\d+\.\d+),\s+(\d+\.\d+)\]")
INFO = re.compile(r"^ *```([^\n]*)\n.*?^ *```", re.M | re.S)
# Text behind an empty line that is a block because it is indented. In a list it is a paragraph; no list of ours goes so deep.
INDENTED = re.compile(r"\n\n {4,}(\S[^\n]*)")
KINDS = {"sh", "console", "text", "c", "rust", "yaml", "json", "toml"}
MAKE = re.compile(r"\bmake ([a-z][a-z0-9-]*)\b")
ASSIGNED = re.compile(r"\bmake(?: [a-z-]+)?((?: [A-Z_]+=\S*)+)")
CALLED = re.compile(r"(?<![\w.-])(gleaner(?:-bench|-lab)?) ([a-z][\w-]*)(?: ([a-z][a-z0-9-]*)(?![\w./]))?")
VARIANT = re.compile(r"^    ([A-Z]\w+)\(\w+\),", re.M)
PARSER = re.compile(r'\badd_parser\(\s*"([\w-]+)"')
OPTION = re.compile(r"(?:--opt |^|,)([a-z][a-z-]+)=")
SOURCE = re.compile(r"(?<![\w./{}*$-])[\w-]+\.(?:rs|py|sh|tsv|toml|c|h)\b(?![./])")
CRATE = re.compile(r"\s-p (gleaner[\w-]*)")
TEST = re.compile(r"\s--test (\w+)")
TEST_FILE = re.compile(r"crates/\w+/tests/(\w+)(?:/main)?\.rs")
WORD = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# A field of Rust that clap makes an option of, by its own name or by another.
COMMENT = re.compile(r"<!--.*?-->", re.S)
ITEM = re.compile(r"^(?:[-*]|\d+\.) +")
# Where a sentence ends: at the end of a paragraph, or before a word that begins with a capital, a number, code or a link.
SENTENCE_END = re.compile(r"""(?<=[.?!])[)*"]* +(?=[A-Z0-9`*("[])""")
FIELD = re.compile(r"#\[arg\(([^\]]*\blong\b[^\]]*)\)\]\s*(?:pub(?:\(crate\))? )?(\w+):")
RENAMED = re.compile(r'\blong = "([\w-]+)"')


def code(text):
    """The code spans and, line by line, the code blocks of a page."""
    pieces = []
    for block in BLOCK.findall(text):
        pieces += block.splitlines()
    return pieces + SPAN.findall(BLOCK.sub("", text))


def anchors(text):
    """What a link may name of a page: its headings, in small letters, without marks and with hyphens for blanks."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(BLOCK.sub("", text))}


def links(text):
    """[(target, anchor)] of a page, pictures among them."""
    text = BLOCK.sub("", text)
    return LINK.findall(text) + [(target, "") for target in IMAGE.findall(text)]


def link_problems(page, text, exists, content):
    """Rule 1; `content` gives the text of a page."""
    problems = []
    for target, anchor in links(text):
        path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
        if "://" in target:
            continue
        if not exists(path):
            problems.append(f"{page}: link to {target}, which does not exist")
        elif anchor and anchor not in anchors(content(path)):
            problems.append(f"{page}: link to {target}#{anchor}, and no heading of {path} is called so")
    return problems


def path_problems(page, text, exists, folders, names):
    problems = []
    for piece in code(text):
        for word in re.findall(r"(?<![\w./$-])[\w.-]+(?:/[\w.-]+)+", piece):
            if word.split("/")[0] in folders and not exists(word):
                problems.append(f"{page}: {word} does not exist")
        problems += [f"{page}: no file is called {name}" for name in SOURCE.findall(piece) if name not in names]
    return problems


def cargo_problems(page, text, tracked):
    """The second half of rule 3."""
    crates = {"gleaner" if path == "crates/gleaner/Cargo.toml" else f"gleaner-{path.split('/')[1]}"
              for path in tracked if re.fullmatch(r"crates/\w+/Cargo.toml", path)}
    tests = {found[1] for path in tracked if (found := TEST_FILE.fullmatch(path))}
    problems = []
    for piece in code(text):
        problems += [f"{page}: no crate is called {name}" for name in CRATE.findall(piece) if name not in crates]
        problems += [f"{page}: no file of tests is called {name}" for name in TEST.findall(piece) if name not in tests]
    return problems


def target_problems(page, text, targets, variables):
    problems = []
    for piece in code(text):
        piece = piece.partition("#")[0]
        problems += [f"{page}: `make {target}` is no target of the Makefile"
                     for target in MAKE.findall(piece) if target not in targets]
        problems += [f"{page}: the Makefile does not read {name}"
                     for words in ASSIGNED.findall(piece) for name in re.findall(r" (\w+)=", words) if name not in variables]
    return problems


def call_problems(page, text, commands, experiments):
    """Rule 10; `commands` are those of each program."""
    problems = []
    for program, command, name in (call for piece in code(text) for call in CALLED.findall(piece.partition("#")[0])):
        if command not in commands[program]:
            problems.append(f"{page}: {program} has no command {command}")
        elif (program, command) == ("gleaner-lab", "run") and name and name not in experiments:
            problems.append(f"{page}: there is no experiment {name}")
    return problems


def option_problems(page, text, options):
    """Only in pieces that speak of options: spans of one assignment, and --opt."""
    problems = []
    for piece in code(text):
        quoted = re.search(r'GLEANER_OPTIONS="?([^"\s]+)', piece)
        found = OPTION.findall(quoted.group(1)) if quoted else []
        found += [name for words in re.findall(r"--opt (\S+)", piece) for name in OPTION.findall(words)]
        if re.fullmatch(r"[a-z][a-z-]+=\S+", piece):
            found += OPTION.findall(piece)
        problems += [f"{page}: {name} is no option" for name in found if name not in options]
    return problems


def option_words(path, text):
    """The options that a source file speaks of."""
    renamed = [(RENAMED.search(words), field) for words, field in FIELD.findall(text) if path.endswith(".rs")]
    return set(WORD.findall(text)) | {f"--{name[1] if name else field.replace('_', '-')}" for name, field in renamed}


def word_problems(page, text, words):
    """Rule 9."""
    return [f"{page}: no program has an option {word}"
            for word in sorted({word for piece in code(text) for word in WORD.findall(piece)}) if word not in words]


def variable_problems(page, source):
    """Rule 11."""
    honoured = re.findall(r"^\| `(GC_\w+)`", page.partition("## Honoured")[2].partition("\n## ")[0], re.M)
    read_there = set(re.findall(r'"(GC_[A-Z_]+)"', source))
    return [f"docs/environment.md: crates/libgc does not read {name}" for name in honoured if name not in read_there] + [
        f"docs/environment.md: nothing on {name}, which crates/libgc reads"
        for name in sorted(read_there) if f"`{name}`" not in page]


def rust_problems(readme, manifest):
    minimum = re.search(r'^rust-version = "(.*)"', manifest, re.M).group(1)
    named = re.findall(r"Rust toolchain, (\d[\d.]*\d)", readme)
    return [] if named == [minimum] else [f"README.md: names {named}, Cargo.toml says {minimum}"]


def example_problems(text, examples):
    """Rule 7; blanks and line breaks do not count."""
    plain = [" ".join(example.split()) for example in examples]
    problems = []
    for block in EXAMPLE.findall(text):
        if not any(" ".join(block.split()) in example for example in plain):
            problems.append(f"docs/embedding.md: no example has: {block.strip().splitlines()[0]}")
    return problems


def block_problems(page, text):
    """Rule 8."""
    problems = [f"{page}: a block is indented, which nobody checks: {line}" for line in INDENTED.findall(BLOCK.sub("", text))]
    return problems + [f"{page}: a block is marked {info!r}, which is none of {', '.join(sorted(KINDS))}"
            for info in INFO.findall(text) if info.split()[:1] == [] or info.split()[0] not in KINDS]


def figure_problems(page, text, tables):
    """Rule 6. A figure of the text is rounded; turned over, it has the table's rounding error, too."""
    problems = []
    for found in RATIO.finditer(PRINTED.sub("", text)):
        figures = [float(one) for one in found.groups()]
        half = 0.5 * 10 ** -len(found[1].partition(".")[2]) + 1e-9
        if not any(is_rounded(figures, row, half) for row in tables):
            problems.append(f"{page}: no table has {' '.join(found[0].split())}")
    return problems


def is_rounded(figures, row, half):
    """Whether value, low and high are those of a table's row, or of the inverse ratio."""
    # Millions of these are asked: most end at their first figure.
    shown, shown_low, shown_high = figures
    value, low, high = row
    if abs(shown - value) <= half and abs(shown_low - low) <= half and abs(shown_high - high) <= half:
        return True

    def turned(one, other):
        return abs(one - 1 / other) <= half + 0.0005 / (other * other)

    return low > 0 and turned(shown, value) and turned(shown_low, high) and turned(shown_high, low)


def sentences(text):
    """The sentences of a page, each paragraph, item and cell of a table by itself."""
    pieces, current = [], []
    for line in COMMENT.sub("", BLOCK.sub("", text)).splitlines() + [""]:
        line = line.strip()
        begins = not line or line[0] in "#|" or ITEM.match(line)
        if begins:
            pieces.append(" ".join(current))
            current = []
        if line.startswith("|"):
            pieces += line.strip("|").split(" | ")
        elif line and line[0] != "#":
            current.append(ITEM.sub("", line))
    return [sentence for piece in pieces for sentence in SENTENCE_END.split(plain(piece))]


def plain(piece):
    """Text as it is read: links by their words, a piece of code as one word, ratios without their intervals."""
    piece = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", SPAN.sub("`code`", piece))
    return re.sub(r"(\d) \[[^\]]*\]", r"\1", piece)


def sentence_problems(page, text):
    """Rule 12."""
    return [f"{page}: {len(sentence.split())} words: {sentence[:120]}"
            for sentence in sentences(text) if len(sentence.split()) > MOST_WORDS]


def summary_problems(pages, summary):
    """Rule 13. Pages of results are looked for by scripts/results.py, which says where they belong."""
    listed = {os.path.normpath(os.path.join("docs", target)) for target, _ in links(summary)}
    return [f"docs/SUMMARY.md: does not have {page}" for page in pages
            if os.path.dirname(page) == "docs" and page not in listed | {"docs/SUMMARY.md"}]


def ratios(text):
    return {tuple(map(float, found)) for found in RATIO.findall(text)}


def self_test():
    here = {"a/b.md", "a", "p.md"}.__contains__
    variables = "## Honoured\n\n| `GC_A` | x |\n\n## Others\n\n| `GC_B` | y |\n"
    calls = {"gleaner": {"exec"}, "gleaner-lab": {"run"}}
    cargo = ["crates/a/Cargo.toml", "crates/gleaner/Cargo.toml", "crates/a/tests/b/main.rs", "crates/a/tests/b/c.rs"]
    fields = '#[arg(long)]\n    a_b: bool,\n    #[arg(long = "cc")]\n    dd: bool,'
    headed = {"a/b.md": "# A `b`, and c\n```sh\n# d\n```\n", "p.md": "## Here\n"}.get

    words = "Word " + "word " * 35

    def wrong(problems):
        return [] if problems else ["was accepted"]

    return report([
        ("accepts a link to a file", link_problems("p.md", "[x](a/b.md) [y](https://x.y#z)", here, headed)),
        ("rejects a dead link", wrong(link_problems("p.md", "[x](a/c.md)", here, headed))),
        ("rejects a picture that is not there", wrong(link_problems("p.md", '<img src="a/c.svg">', here, headed))),
        ("accepts a page of the site", summary_problems(["docs/a.md", "b.md"], "- [A](a.md)\n")),
        ("rejects one that is not there", wrong(summary_problems(["docs/b.md"], "- [A](a.md)\n"))),
        ("accepts a link to a heading", link_problems("p.md", "[x](a/b.md#a-b-and-c) [y](#here)", here, headed)),
        ("rejects one to none", wrong(link_problems("p.md", "[x](a/b.md#d)", here, headed))),
        ("and on the page itself", wrong(link_problems("p.md", "[y](#there)", here, headed))),
        ("accepts a path that exists", path_problems("p.md", "`a/b.md` `other/x` `b.c`", here, {"a"}, {"b.c"})),
        ("rejects a path that does not", wrong(path_problems("p.md", "`a/c.rs`", here, {"a"}, set()))),
        ("rejects a file that is named alone", wrong(path_problems("p.md", "`c.rs`", here, {"a"}, {"b.c"}))),
        ("rejects one in an example",
         wrong(path_problems("p.md", "```\nrun a/c.sh\n```\n", here, {"a"}, set()))),
        ("accepts a figure of a table, and of the inverse ratio",
         figure_problems("p.md", "1.02 [1.01, 1.04] 0.979\n[0.962, 0.991]", {(1.021, 1.009, 1.039)})
         + figure_problems("p.md", "```text\n7.02 [7.01, 7.04]\n```\n", {(1.021, 1.009, 1.039)})
         + figure_problems("p.md", "0.98 [0.96, 0.99]", {(1.021, 1.009, 1.039)})),
        ("rejects a figure that no table has",
         wrong(figure_problems("p.md", "1.02 [1.02, 1.04]", {(1.021, 1.009, 1.039)}))),
        ("accepts a target", target_problems("p.md", "`make test X=1`, make sure", {"test"}, {"X"})),
        ("rejects no target", wrong(target_problems("p.md", "```\nmake tests\n```\n", {"test"}, set()))),
        ("rejects what no target reads", wrong(target_problems("p.md", "`make test Y=1 X=2`", {"test"}, {"X"}))),
        ("accepts a command", call_problems("p.md", "`target/gleaner exec -- a` `x/gleaner-lab run b`", calls, {"b"})),
        ("rejects another", wrong(call_problems("p.md", "`gleaner run b`", calls, {"b"}))),
        ("rejects another experiment", wrong(call_problems("p.md", "`gleaner-lab run c`", calls, {"b"}))),
        ("accepts a crate and its tests", cargo_problems("p.md", "`cargo test -p gleaner-a --test b`", cargo)),
        ("rejects another crate", wrong(cargo_problems("p.md", "`cargo test -p gleaner-b`", cargo))),
        ("rejects other tests", wrong(cargo_problems("p.md", "`cargo test -p gleaner --test c`", cargo))),
        ("accepts an option", option_problems("p.md", "`--opt sweep=lazy` `CFLAGS=x`", {"sweep"})),
        ("rejects no option after --opt", wrong(option_problems("p.md", "`--opt swap=1`", {"sweep"}))),
        ("rejects no option in a span", wrong(option_problems("p.md", "`swap=1`", {"sweep"}))),
        ("rejects one in a list", wrong(
            option_problems("p.md", '`GLEANER_OPTIONS="sweep=lazy,swap=1" x`', {"sweep"}))),
        ("accepts an option of a program", word_problems("p.md", "`run --a-b --cc`", option_words("a.rs", fields))),
        ("rejects one of none", wrong(word_problems("p.md", "```sh\nrun --dd\n```\n", option_words("a.rs", fields)))),
        ("accepts variables", variable_problems(variables, 'x("GC_A", "GC_B")')),
        ("rejects one that is not read", wrong(variable_problems(variables, '"GC_B"'))),
        ("rejects one that no page has", wrong(variable_problems(variables, '"GC_A", "GC_C"'))),
        ("accepts the minimum", rust_problems("a Rust toolchain, 1.9", 'rust-version = "1.9"')),
        ("accepts code of an example", example_problems("```c\na = b;\n  c();\n```\n", ["x a = b; c(); y"])),
        ("rejects other code", wrong(example_problems("```rust\na = c;\n```\n", ["a = b;"]))),
        ("accepts a block of a kind", block_problems("p.md", "```sh\nmake\n```\n```text a.supp\nx\n```\n")),
        ("rejects a block that is indented", wrong(block_problems("p.md", "It:\n\n    make\n"))),
        ("rejects a block in a list", wrong(block_problems("p.md", "1. It:\n\n   ```\n   make\n   ```\n"))),
        ("rejects a block of none", wrong(block_problems("p.md", "```\nmake\n```\n"))),
        ("rejects another", wrong(rust_problems("a Rust toolchain, 1.8", 'rust-version = "1.9"'))),
        ("accepts short sentences", sentence_problems("p.md", f"{words} a.\n{words} b.\n- {words}\n- {words}\n\n{words}\n")),
        ("counts code as a word, and no interval", sentence_problems("p.md", f"{words} `a b c` 1.0 [0.9, 1.1] [x](y) z.\n")),
        ("rejects a long one", wrong(sentence_problems("p.md", f"It {words}\n{words} a.\n"))),
        ("rejects one in a table", wrong(sentence_problems("p.md", f"| a | b {words} {words} |\n"))),
    ])


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    os.chdir(ROOT)
    tracked = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout.split("\n")
    tracked = [path for path in tracked if os.path.isfile(path)]
    pages = {path: read(path) for path in tracked
             if path.endswith(".md") and path not in GENERATED and not path.startswith("docs/results/tables/")}
    words = FOREIGN.union(*(option_words(path, read(path)) for path in tracked
                            if path == "Makefile" or path.endswith((".rs", ".py", ".sh", ".java", ".go", ".c"))))
    folders = {path.split("/")[0] for path in tracked if "/" in path}
    alone = {os.path.basename(path) for path in tracked} | {"gc.h"}  # libgc's header
    targets = set(re.findall(r"^([a-z][a-z0-9-]*)(?=[^\n=]*:(?!=))", read("Makefile"), re.M))
    for line in re.findall(r"^([a-z][a-z0-9 -]*):(?!=)", read("Makefile"), re.M):
        targets |= set(line.split())
    measured = re.search(r"^BENCH_EXPERIMENTS := ((?:.*\\\n)*.*)", read("Makefile"), re.M)[1]
    targets |= {f"bench-{name}" for name in measured.replace("\\", "").split()}
    variables = set(re.findall(r"\$[({](\w+)", read("Makefile")))
    commands = {program: {re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
                          for name in VARIANT.findall(read(f"crates/{crate}/src/arguments.rs"))}
                for program, crate in (("gleaner", "cli"), ("gleaner-bench", "bench"))}
    commands["gleaner-lab"] = {name for path in glob.glob("lab/gleaner_lab/**/*.py", recursive=True)
                               for name in PARSER.findall(read(path))}
    experiments = {os.path.basename(path).removesuffix(".yaml") for path in glob.glob("lab/experiments/*.yaml")}
    options = set()
    if os.path.exists("docs/options.md"):
        options = set(re.findall(r"^\| `([a-z-]+)` \|", read("docs/options.md"), re.M))
        # The options of `gleaner place`, which no heap has.
        names = re.search(r"const NAMES.*?\];", read("crates/place/src/settings.rs"), re.S).group()
        options |= set(re.findall(r'"([a-z-]+)"', names))

    measured = {row for path in glob.glob("docs/results/tables/*.md") for row in ratios(read(path))}

    def over(rule, *arguments):
        return [problem for page, text in pages.items() for problem in rule(page, text, *arguments)]

    return report([
        (f"the links of {len(pages)} pages", over(link_problems, os.path.exists, read)),
        ("the paths they name", over(path_problems, os.path.exists, folders, alone)),
        ("the make targets they name", over(target_problems, targets, variables)),
        ("the crates and tests they name", over(cargo_problems, tracked)),
        ("the options they name", over(option_problems, options)),
        ("the options of programs they name", over(word_problems, words)),
        ("the commands of programs they name", over(call_problems, commands, experiments)),
        ("the figures they take from tables", [
            problem for page, text in pages.items()
            if os.path.dirname(page) in ("", "docs", "docs/results")
            for problem in figure_problems(page, text, measured)]),
        ("their place in the site", summary_problems(
            [path for path in tracked if path.endswith(".md")], read("docs/SUMMARY.md"))),
        ("the length of their sentences", [
            problem for page, text in pages.items()
            if page not in REFERENCES
            for problem in sentence_problems(page, text)]),
        ("the code of the guide", example_problems(
            read("docs/embedding.md"), [read(path) for path in EXAMPLES])),
        ("what their blocks are", over(block_problems)),
        ("libgc's variables", variable_problems(read("docs/environment.md"), "".join(
            read(path) for path in glob.glob("crates/libgc/src/**/*.rs", recursive=True)))),
        ("the oldest Rust", rust_problems(read("README.md"), read("Cargo.toml"))),
    ])


if __name__ == "__main__":
    sys.exit(main())
