"""Gleaner's lab: experiments described as data, run interleaved, reported with intervals."""

__version__ = "0.1.0"
