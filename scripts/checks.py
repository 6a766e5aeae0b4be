"""What the checkers of this folder share: how they report (each check with its problems, then "N passed, N failed"), and the
pages that they write."""

import os


def wrong(condition):
    """The problems of a rule that must hold."""
    return [] if condition else ["the rule does not hold"]


def report(checks):
    """Print each of these (name, problems), and the tally; return the exit status."""
    failed = 0
    for name, problems in checks:
        print(f"{'ok' if not problems else 'FAILED'}: {name}")
        for problem in problems:
            print(f"    {problem}")
        failed += bool(problems)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


def compared(cases):
    """The checks of these (name, got, wanted)."""
    return [(name, [] if got == wanted else [f"{got} instead of {wanted}"]) for name, got, wanted in cases]


def written(path):
    """The text of a page that a script writes; nothing where there is none yet."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()
