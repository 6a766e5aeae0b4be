"""Gleaner's lab: experiments described as data, run interleaved, reported with intervals."""
