"""Packets as examples for a head: in any order, with what the encoder found of each.

The loss is SwiftQueue's (section 4.1.1), and with it 1 less the F1 of sharp changes. The squared
error alone draws predictions towards the middle of what can happen, and a change between two
middles is less than a sharp one; F1 has a slope where each threshold is a sigmoid.
`model::encoder` does the same where a model is fine-tuned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from wirelens.l4s.material import Material
from wirelens.learn.networks import tensor, torch

Array = Any
CHANGE_SHARE, CHANGE_SOFTNESS = 0.1, 0.02
# Added to what F1 is divided by.
_LEAST = 1e-3
# Packets that stay together where some are left out.
_RUN = 4_096
# How often an epoch draws an example at most.
_REPEATS_MAX = 16


@dataclass(frozen=True)
class Part:
    """Some packets of a trace."""

    material: Material
    span: slice

    def __len__(self) -> int:
        return int(self.span.stop) - int(self.span.start)


def thinned(parts: Sequence[Part], count_max: int, dice: Any) -> Sequence[Part]:
    """The parts, or of more packets than that some runs of packets drawn from all of them."""
    if sum(len(part) for part in parts) <= count_max:
        return parts
    runs = [
        Part(part.material, slice(first, min(first + _RUN, part.span.stop)))
        for part in parts
        for first in range(part.span.start, part.span.stop, _RUN)
    ]
    chosen = dice.permutation(len(runs))[: max(1, count_max // _RUN)]
    return [runs[at] for at in sorted(chosen)]


@dataclass(frozen=True)
class Examples:
    """Packets of parts. `rows` are those with a target, `repeats` how often an epoch draws each,
    each time with its part of the weight; all else is by packet, what PyTorch reads for PyTorch."""

    rows: Array
    repeats: Array
    before: Array
    hidden: Any
    queries: Any
    target: Any
    weight: Any
    share: Any
    step: Any
    threshold: Any
    sign: Any

    @classmethod
    def of(cls, parts: Sequence[Part], hidden: Sequence[Array]) -> "Examples":
        """`hidden` is what the encoder found of each packet of each part."""
        columns: dict[str, list[Array]] = {}
        offset = 0
        for part in parts:
            material, span = part.material, part.span
            change = material.changes
            before = change.before[span] - span.start
            there = {
                "queries": material.rows.queries[span], "target": material.target[span],
                "weight": material.weight[span], "step": change.step[span],
                "before": numpy.where(before >= 0, before + offset, -1),
                "threshold": change.threshold[span], "sign": change.sign[span],
            }  # fmt: skip
            for name, values in there.items():
                columns.setdefault(name, []).append(values)
            offset += len(part)
        whole = {name: numpy.concatenate(values) for name, values in columns.items()}
        repeats = numpy.ceil(whole["weight"]).astype(numpy.int64).clip(0, _REPEATS_MAX)
        share = 1 / repeats.clip(1)
        rows = numpy.flatnonzero(repeats)
        return cls(
            rows, repeats[rows], whole.pop("before"), tensor(numpy.concatenate(hidden)),
            share=tensor(share), **{name: tensor(values) for name, values in whole.items()},
        )  # fmt: skip

    def without(self, held: Array) -> "Examples":
        """None of these rows trains, nor is one before another."""
        is_there = ~numpy.isin(self.rows, held)
        # A last row for those that have none before them.
        is_held = numpy.zeros(len(self.before) + 1, dtype=bool)
        is_held[held] = True
        before = numpy.where(is_held[self.before], -1, self.before)
        return replace(
            self, rows=self.rows[is_there], repeats=self.repeats[is_there], before=before
        )

    def order(self, dice: Any) -> Array:
        """An epoch."""
        return dice.permutation(numpy.repeat(self.rows, self.repeats))

    def score(self, network: Any, rows: Any) -> Any:
        """Of rows, for PyTorch."""
        return network.score(self.hidden[rows], self.queries[rows])

    def loss(self, network: Any, rows: Array, change_share: float, *, is_drawn: bool) -> Any:
        """Of rows; those that were drawn as `order` says count in part each time."""
        has = self.before[rows] >= 0 if change_share > 0 else numpy.zeros(len(rows), dtype=bool)
        chosen, changed = tensor(rows), tensor(rows[has])
        share = self.share[chosen] if is_drawn else torch.ones(len(rows))
        weight, count = self.weight[chosen] * share, len(rows)
        scores = self.score(network, tensor(numpy.concatenate([rows, self.before[rows[has]]])))
        squared = weight * (scores[:count] - self.target[chosen]) ** 2
        loss = squared.sum() / weight.sum().clamp(min=1.0)
        if has.any():
            at = tensor(numpy.flatnonzero(has))
            difference = scores[:count][at] - scores[count:] + self.step[changed]
            loss = loss + change_share * self._unlike(difference, changed, share[at])
        return loss

    def _unlike(self, difference: Any, rows: Any, share: Any) -> Any:
        """1 less F1 of differences."""
        threshold, sign = self.threshold[rows], self.sign[rows]
        rise = torch.sigmoid((difference - threshold) / CHANGE_SOFTNESS)
        fall = torch.sigmoid((-difference - threshold) / CHANGE_SOFTNESS)
        right = (share * (rise * (sign > 0) + fall * (sign < 0))).sum()
        total = (share * (rise + fall + abs(sign))).sum() + _LEAST
        return 1 - 2 * right / total


def held_out(count: int) -> Array:
    """Which of so many examples are held out of a tuning: a tenth, in blocks spread over all of
    them, as `l4s::tuning` does."""
    block = min(max(count // 100, 1), 64)
    return numpy.arange(count) // block % 10 == 9
