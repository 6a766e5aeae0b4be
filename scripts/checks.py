"""What the checkers of this folder share: how they report (each check with its problems, then "N passed, N failed"), the
pages that they write, what they start, and how they end."""

import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

# Seconds that a process has to end what it has started, when it is told to end.
PATIENCE = 20


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


def family_of(pid):
    """A process and all that it started, itself and by others. A process group would do, but sudo asks nobody for a password there."""
    family = [pid]
    for one in family:
        try:
            for children in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
                family += map(int, children.read_text().split())
        except OSError:
            pass  # it has ended
    return family


def end_with_family(process):
    """Ends a child of this process with all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in family_of(process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # it ended by itself
        try:
            process.wait(PATIENCE if number == signal.SIGTERM else None)
            return
        except subprocess.TimeoutExpired:
            pass  # it does not listen


def run_to_end(argv, limit=None, **options):
    """Runs a program without input; its exit status and what it said, errors among it. What it has started ends with it where this
    raises: subprocess.TimeoutExpired after so many seconds, or whatever a signal's handler raises."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as process:
        try:
            said, _ = process.communicate(timeout=limit)
        except BaseException:
            end_with_family(process)
            raise
    return process.returncode, said.decode(errors="replace")


def goes_on(pid):
    """Whether a process runs; one that has ended may not be waited for yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def left_running(code):
    """Problems of a script's Python code that is told to end while what it has started runs. Its first word is a command of a shell that
    starts that, its second a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        note = pathlib.Path(folder, "pid")
        command = f"sh -c 'echo $$ > {note}.new; mv {note}.new {note}; exec sleep 600' & wait"
        told = subprocess.Popen([sys.executable, "-c", code, command, folder], cwd=pathlib.Path(__file__).parent,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while not note.exists() and told.poll() is None:
            time.sleep(0.05)
        told.terminate()
        said = told.communicate()[1].decode(errors="replace")
        if not note.exists():
            return [f"it started nothing: {said}"]
        pid, began = int(note.read_text()), time.monotonic()
        while goes_on(pid) and time.monotonic() - began < 3 * PATIENCE:
            time.sleep(0.05)
        if not goes_on(pid):
            return [] if "stopped by SIGTERM" in said else [f"it did not say that it was stopped: {said}"]
        os.kill(pid, signal.SIGKILL)
        return ["it goes on"]
