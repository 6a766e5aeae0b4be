"""What the checkers of this folder share: how they report (each check with its problems, then "N passed, N failed"), the
pages that they write, and how they end."""

import fcntl
import os
import signal
import sys


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


def only_one(folder):
    """The lock of a folder that a run has for itself, until its process ends: two would remove each other's files."""
    os.makedirs(folder, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise SystemExit(f"{os.path.basename(sys.argv[0])}: another run is under way, which has {folder}: wait for it, or stop it") from None
    return lock


def ends_when_told():
    """Signals that ask this process to end are exceptions from now on, so that it can end what it has started."""
    def end(number, _):
        raise SystemExit(f"{os.path.basename(sys.argv[0])}: stopped by {signal.Signals(number).name}")

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` wants it
            signal.signal(number, end)
