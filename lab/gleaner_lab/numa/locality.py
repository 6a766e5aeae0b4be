"""How evenly the accesses of a run are spread over memory nodes, and how many are remote.

The collector counts, by the worker's node and the object's node, objects scanned, objects copied
and slots updated. The ASPLOS 2013 paper (its Table 4) makes two figures of such counts:

imbalance     population standard deviation of the nodes' shares over their mean: 0 when all nodes
              get the same, sqrt(n - 1) when one of n gets all (2.65 of 8). As the paper prints the
              formula, without the mean, no value above 0.33 could come out on 8 nodes.
non-locality  the share of the accesses whose worker runs on another node than the object's.

Both are given for scanned, copied and updated each apart: their sum would mix reads with writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gleaner_lab.failure import Failure

Matrix = NDArray[np.float64]

#: What is counted by the worker's node (row) and the object's node (column).
KINDS = ("scanned", "copied", "updated")
#: The same of young spaces alone: scanned there, copied from there; and what left them.
PARTS = ("scanned_young", "copied_from", "promoted")
#: Counted in the same way; a run without messages or stealing may leave them out.
EXTRAS = ("stolen", "messages", "message_bytes")
#: Pages by node.
PAGES = ("eden_pages", "survivor_pages", "old_pages")

#: The figures of one run, as metrics of an experiment.
METRICS = (
    *(f"imbalance.{space.removesuffix('_pages')}" for space in PAGES),
    *(f"non-locality.{kind}" for kind in (*KINDS, *PARTS)),
)


def imbalance(counts: ArrayLike) -> float:
    """The population standard deviation of the nodes' counts over their mean; NaN if all are 0."""
    values = np.asarray(counts, dtype=float)
    mean = values.mean()
    return float(values.std() / mean) if mean > 0 else math.nan


def non_locality(counts: ArrayLike) -> float:
    """The share of a matrix (worker's node, object's node) off the diagonal; NaN if all are 0."""
    matrix = np.asarray(counts, dtype=float)
    total = matrix.sum()
    return float(1 - np.trace(matrix) / total) if total > 0 else math.nan


@dataclass(frozen=True)
class Locality:
    """The counts of one run: matrices by kind, and pages by node."""

    nodes: int
    workers: int
    counts: Mapping[str, Matrix]
    pages: Mapping[str, Matrix]

    @classmethod
    def parse(cls, document: Any, where: str) -> Locality:
        """From the object `locality` of a run's JSON; `where` names the input in errors."""
        if not isinstance(document, dict):
            raise Failure(f"{where}: locality is no object; the run prints one when it counts")
        nodes = natural(document, "nodes", f"{where}: locality")
        workers = natural(document, "workers", f"{where}: locality")
        counts = {kind: _counts(document, kind, (nodes, nodes), where) for kind in (*KINDS, *PARTS)}
        for kind in EXTRAS:
            if kind in document:
                counts[kind] = _counts(document, kind, (nodes, nodes), where)
        pages = {
            space: _counts(document, space, (nodes,), where) for space in PAGES if space in document
        }
        return cls(nodes, workers, counts, pages)

    def imbalance(self, kind: str) -> float:
        """How unevenly the objects of a kind of access lie on the nodes."""
        return imbalance(self.counts[kind].sum(axis=0))

    def non_locality(self, kind: str) -> float:
        """Which share of a kind of access is remote."""
        return non_locality(self.counts[kind])

    def figures(self) -> dict[str, float]:
        """Of `METRICS` those of which the run counted anything."""
        found = {
            f"imbalance.{space.removesuffix('_pages')}": imbalance(pages)
            for space, pages in self.pages.items()
        }
        found |= {
            f"non-locality.{kind}": self.non_locality(kind)
            for kind in (*KINDS, *PARTS)
            if kind in self.counts
        }
        return {name: value for name, value in found.items() if not math.isnan(value)}


def read_run(path: Path) -> dict[str, Any]:
    """The JSON object of a run: a file that is one, or whose last line is, as programs print it."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise Failure(f"{path}: not a text in UTF-8; give the JSON that a run printed") from None
    for candidate in (text, *text.splitlines()[-1:]):
        try:
            document = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(document, dict):
            return document
    raise Failure(f"{path}: neither the file nor its last line is a JSON object")


def natural(document: dict[str, Any], name: str, where: str) -> int:
    """A field that holds a whole number of 1 or more."""
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Failure(f"{where}: {name} is {value!r}, not a whole number of 1 or more")
    return value


def _counts(document: dict[str, Any], name: str, shape: tuple[int, ...], where: str) -> Matrix:
    what = f"{where}: locality: {name}"
    shown = " x ".join(str(length) for length in shape)
    try:
        values = np.asarray(document[name], dtype=float)
    except KeyError:
        raise Failure(f"{what} is missing") from None
    except (TypeError, ValueError):
        raise Failure(f"{what} is no array of {shown} numbers") from None
    if values.shape != shape:
        found = " x ".join(str(length) for length in values.shape) or "one number"
        raise Failure(f"{what} has {found}, not {shown}")
    if not np.isfinite(values).all() or (values < 0).any():
        raise Failure(f"{what} has a negative or infinite count")
    return values
