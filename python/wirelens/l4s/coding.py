"""Bins of a query's numbers: quantiles of what trains, so that bins are narrow where numbers are
dense.

Coded are delays and counts. Times since this and that are not: where the rate of a link changes,
bins of times are a clock by which a network learns the trace by heart (0035).
"""

from collections.abc import Sequence
from typing import Any

import numpy

from wirelens.l4s.packets import QUERY_NAMES

Array = Any
BINS = 16
# A bin is at least so wide, a tenth of a millisecond for a delay.
WIDTH_LEAST = 1e-3
_CODED = ("packets since", "newest delay", "delay by", "in flight")


def coded_numbers() -> list[int]:
    """Which numbers of a query are coded."""
    found: list[int] = []
    at = 0
    for name in QUERY_NAMES:
        count = int(name[name.rindex("(") + 1 : -1]) if name.endswith(")") else 1
        if name.startswith(_CODED):
            found += range(at, at + count)
        at += count
    return found


def bins_of(queries: Sequence[Array]) -> Array:
    """Rows of `networks.Coding`, by the queries of each trace that trains."""
    rows: list[tuple[float, float, float]] = []
    for number in coded_numbers():
        values = numpy.concatenate([part[:, number] for part in queries])
        edges = numpy.quantile(values, numpy.linspace(0, 1, BINS + 1)).astype("f4").tolist()
        low = edges[0]
        for high in edges[1:]:
            if high - low >= WIDTH_LEAST:
                rows.append((number, low, high))
                low = high
    return numpy.array(rows, dtype="f4").reshape(-1, 3)
