"""Gleaner's lab: experiments described as data, run interleaved, reported with intervals."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__version__ = "0.1.0"

THREADS = "OPENBLAS_NUM_THREADS"


@contextmanager
def one_thread_for_matrices() -> Iterator[None]:
    """For libraries that are imported: OpenBLAS reads this when it is loaded.

    The lab's matrices are small, and OpenBLAS's threads spin while they wait for each other: on
    processors that others use that takes minutes instead of seconds. Programs that are measured do
    not see it.
    """
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before


try:
    with one_thread_for_matrices():
        import scipy.linalg  # noqa: F401  (and numpy)
except KeyboardInterrupt:
    # The way in (start.py) is not loaded yet, and this takes a second.
    print("\ngleaner-lab: stopped", file=sys.stderr)
    sys.exit(130)
