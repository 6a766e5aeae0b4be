"""The report of an experiment: one page that needs nothing else, and its plots as PNG files."""

from gleaner_lab.report.page import UNITS, estimate, markdown, write

__all__ = ["UNITS", "estimate", "markdown", "write"]
