"""Traffic that nobody has seen: drawn, so that a forest learns where known traffic ends.

A forest that tells benign from known attacks calls whatever resembles neither by the side of a
threshold on which it happens to fall. So packets are drawn that are like benign ones in most
columns and like other benign ones in the rest: what goes together in known traffic does not
in these, and a leaf is benign only where benign packets are dense.
"""

from dataclasses import replace

import numpy

from wirelens.learn.metrics import Array
from wirelens.packetlog.rows import Rows

DRAWN = "drawn"
# Of the columns the part that is taken from another packet.
_SWAPPED = 0.3


def swapped(values: Array, part: float, random: numpy.random.Generator) -> Array:
    """Rows like these, a part of whose columns each are those of another row."""
    found = values.copy()
    for column in range(values.shape[1]):
        mine = numpy.flatnonzero(random.random(len(values)) < part)
        found[mine, column] = values[random.integers(0, len(values), len(mine)), column]
    return found


def with_drawn(rows: Rows, seed: int) -> Rows:
    """The same packets, and for each benign one a drawn one of the same capture."""
    random = numpy.random.default_rng([seed, 2])
    benign = numpy.flatnonzero(~rows.is_anomalous)
    labels = [*rows.labels, DRAWN]
    codes = numpy.full(len(benign), len(labels) - 1, dtype=rows.codes.dtype)
    return replace(
        rows,
        labels=labels,
        families=rows.families | {DRAWN: DRAWN},
        values=numpy.concatenate([rows.values, swapped(rows.values[benign], _SWAPPED, random)]),
        holds_flow=numpy.concatenate([rows.holds_flow, rows.holds_flow[benign]]),
        codes=numpy.concatenate([rows.codes, codes]),
        capture_of=numpy.concatenate([rows.capture_of, rows.capture_of[benign]]),
        counts=numpy.concatenate([rows.counts, rows.counts[benign]]),
    )
