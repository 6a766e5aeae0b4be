"""How the checkers of this folder report: each check with its problems, then "N passed, N failed"."""


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
