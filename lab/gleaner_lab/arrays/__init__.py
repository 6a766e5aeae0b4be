"""The evaluation of arrays in pieces (PLDI 2010): the paper's findings, and its model."""
