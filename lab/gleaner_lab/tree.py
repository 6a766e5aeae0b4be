"""Where the project's files are: its experiments, what it has built, and what runs leave behind.

`data/` has links to the experiments and the papers' tables, which an installed package has as
copies: these serve where the lab is called outside of a checkout.
"""

from __future__ import annotations

from pathlib import Path


def _is_tree(place: Path) -> bool:
    return (place / "lab" / "experiments").is_dir()


def find(package: Path, current: Path) -> Path:
    """The tree that the package lies in, else the one around a directory, else that directory."""
    places = [package.parents[1], current, *current.parents]
    return next((place for place in places if _is_tree(place)), current)


def data(name: str, root: Path) -> Path:
    """The experiments or the papers' tables: those of the tree, or those of the package."""
    place = root / "lab" / name
    return place if place.is_dir() else PACKAGE / "data" / name


PACKAGE = Path(__file__).resolve().parent
ROOT = find(PACKAGE, Path.cwd())
