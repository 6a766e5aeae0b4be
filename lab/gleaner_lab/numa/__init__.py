"""Memory nodes: figures from a run's counts, and a model of a machine that the host is not.

What the collector counted is counted, what this package computes of another machine is `MODELLED`,
and every result object and every table that shows one says so.
"""

#: The label of every prediction. It stands beside each figure that is not measured.
MODELLED = "modelled"
