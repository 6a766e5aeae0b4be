#!/usr/bin/env python3
"""page.py ROWS > page.html: a large page, rich in tables, always the same.

Every table has its own number of columns, some nested tables, spans, links,
entities and words of several scripts.  ROWS 40000 makes about 8 MB.
"""

import sys

WORDS = (
    "gather glean harvest sheaf field barley stubble straw winnow granary "
    "thresh furrow scythe rake bundle meadow Ähre Garbe épi moisson колос поле"
).split()


class Sequence:
    """A fixed pseudo-random sequence, the same in every Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit


def words(random, count):
    return " ".join(WORDS[random.below(len(WORDS))] for _ in range(count))


def cell(random, row, column):
    choice = random.below(24)
    text = words(random, 1 + random.below(6))
    if choice == 0:
        return f"<td><a href='#r{row}'>{text}</a> &amp; <b>{row * column}</b></td>"
    if choice == 1:
        return f"<td><i>{text}</i><br>&lt;{row}.{column}&gt;</td>"
    if choice == 2 and row % 16 == 0:
        return (
            f"<td><table border=1><tr><td>{text}</td><td>{row}</td></tr>"
            f"<tr><td colspan=2>{words(random, 3)}</td></tr></table></td>"
        )
    if choice == 3:
        return f"<td><ul><li>{text}</li><li>{column}</li></ul></td>"
    return f"<td>{text}</td>"


def table(random, first, rows, out):
    columns = 3 + random.below(5)
    out.write(f"<h2 id='r{first}'>{words(random, 4)}</h2>\n<table border=1>\n")
    out.write("<tr>" + "".join(f"<th>{WORDS[c]}</th>" for c in range(columns)) + "</tr>\n")
    for row in range(first, first + rows):
        cells = "".join(cell(random, row, column) for column in range(columns))
        out.write(f"<tr>{cells}</tr>\n")
    out.write(f"</table>\n<p>{words(random, 60)}</p>\n")


def main():
    rows = int(sys.argv[1])
    random = Sequence(2000)
    out = open(1, "w", encoding="utf-8", closefd=False)
    out.write("<html><head><meta charset='utf-8'><title>Gleaning</title></head><body>\n")
    row = 0
    while row < rows:
        size = min(rows - row, 20 + random.below(120))
        table(random, row, size, out)
        row += size
    out.write("</body></html>\n")
    out.flush()


main()
