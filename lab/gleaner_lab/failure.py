"""What the user can repair: it is printed without a traceback."""

import difflib
from collections.abc import Iterable


class Failure(Exception):
    """A message that names the input and the remedy."""


class Missing(Failure):
    """A program of the project that was not built."""


class Refused(Failure):
    """The experiment asks for what its runs do not have: what was measured for it is of no use."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A question that names the nearest of the known names, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""
