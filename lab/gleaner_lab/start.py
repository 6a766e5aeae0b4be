"""The way in: what is loaded before a command is known may be stopped, too."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line."""
    try:
        from gleaner_lab import cli
    except KeyboardInterrupt:
        print("\ngleaner-lab: stopped", file=sys.stderr)
        return 130
    return cli.main()
