"""Where the project's files are: its experiments, what it has built, and what runs leave behind."""

from __future__ import annotations

from pathlib import Path


def _is_tree(place: Path) -> bool:
    return (place / "lab" / "experiments").is_dir()


def find(package: Path, current: Path) -> Path:
    """The tree that the package lies in, else the one around a directory, else that directory."""
    places = [package.parents[1], current, *current.parents]
    return next((place for place in places if _is_tree(place)), current)


ROOT = find(Path(__file__).resolve().parent, Path.cwd())
