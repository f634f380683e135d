"""What latency models are trained and judged on: rows, targets, weights."""

from dataclasses import dataclass
from typing import Any

import numpy

from wirelens.l4s.packets import BATCHING, Batching, Packets, Rows
from wirelens.l4s.sharp import LEAST_MS, LEAST_SHARE, WITHIN, before, changes

Array = Any
# A prediction is what is added to the base, in this many ms.
UNIT_MS = 100.0
RESIDUAL_MAX = 20.0
ALPHA = 10.0


@dataclass(frozen=True)
class Changes:
    """Of each packet how its latency differs from that of its flow's packet `before`, −1 where none
    has a target. `step` is what is added to the difference of the two targets, `threshold` how
    large a sharp change is, both in `UNIT_MS`; `sign` is 1 where it rises sharply, −1 where it
    falls, else 0."""

    before: Array
    step: Array
    threshold: Array
    sign: Array

    @classmethod
    def of(cls, latency_ms: Array, base_ms: Array, places: Array) -> "Changes":
        """By the packets before, as `sharp.before` has them."""
        has = ~numpy.isnan(latency_ms) & ~numpy.isnan(base_ms)
        found = numpy.where((places >= 0) & has & has[places.clip(0)], places, -1)
        was = found.clip(0)
        step = numpy.where(found >= 0, base_ms - base_ms[was], 0) / UNIT_MS
        least = numpy.where(found >= 0, LEAST_SHARE * abs(latency_ms[was]), 0)
        threshold = numpy.maximum(least, LEAST_MS) / UNIT_MS
        sign = changes(latency_ms, found)
        return cls(found, step.astype("f4"), threshold.astype("f4"), sign.astype("f4"))


@dataclass(frozen=True)
class Material:
    """Packets of one sender with what a model reads of them, in the order in which they left.

    `target` is the latency above the base in `UNIT_MS`; `weight` is 0 where there is no target, and
    α at sharp changes, as SwiftQueue's loss has it (section 4.1.1).
    """

    packets: Packets
    rows: Rows
    target: Array
    weight: Array
    changes: Changes

    @classmethod
    def of(
        cls, packets: Packets, batching: Batching = BATCHING, *, alpha: float = ALPHA
    ) -> "Material":
        """Reads packets; an `alpha` of 1 makes the loss the mean squared error."""
        rows = Rows.of(packets, batching)
        latency = packets.latency_ms
        residual = (latency - rows.base_ms) / UNIT_MS
        has = ~numpy.isnan(residual)
        is_sharp = numpy.zeros(len(packets), dtype=bool)
        for within in ("sender", "flow"):
            is_sharp |= changes(latency, cls.places(packets, within)) != 0
        target = numpy.where(has, residual.clip(-RESIDUAL_MAX, RESIDUAL_MAX), 0)
        weight = numpy.where(has, numpy.where(is_sharp, alpha, 1.0), 0.0)
        of_flow = Changes.of(latency, rows.base_ms, cls.places(packets, "flow"))
        return cls(packets, rows, target.astype("f4"), weight.astype("f4"), of_flow)

    @staticmethod
    def places(packets: Packets, within: str) -> Array:
        """For each packet the one before it, as `sharp.before` has it."""
        assert within in WITHIN
        records = packets.records
        return before(within, records["flow"], records["queue"], packets.latency_ms)

    def __len__(self) -> int:
        return len(self.packets)

    def span(self, start_s: float, end_s: float) -> slice:
        """Packets that left from one time to another, in seconds since the first one."""
        first, end = numpy.searchsorted(self.packets.since_s, [start_s, end_s])
        return slice(int(first), int(end))

    def predicted_ms(self, residual: Array, span: slice = slice(None)) -> Array:
        """What is added to the base of packets as their latencies, none of them below 0."""
        return numpy.maximum(self.rows.base_ms[span] + residual * UNIT_MS, 0)

    def batches(self, span: slice) -> tuple[Array, Array]:
        """Of packets: the number of tokens that each batch knows, and where its packets begin."""
        known = self.rows.known[span].astype(numpy.int64)
        begins = numpy.flatnonzero(numpy.diff(known, prepend=-1))
        return known[begins], begins + span.start
