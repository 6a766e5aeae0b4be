"""The report of an experiment: one page that needs nothing else, and its plots as PNG files."""

from gleaner_lab.report.page import estimate, markdown, write
from gleaner_lab.report.terminal import show

__all__ = ["estimate", "markdown", "show", "write"]
