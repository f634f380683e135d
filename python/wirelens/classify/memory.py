"""A memory of hosts: what a host's flows were taken for before, for a cascade that remembers it.

The runtime keeps for each flow's source how much of its flows' verdicts each class had; half is
forgotten in some minutes. A flow's probabilities are multiplied by these shares. This is the same
for training: flows are followed in the order of time, each host of each capture by itself.
`docs/evaluation/memory.md` says what it is worth.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from wirelens.classify.dataset import Sample
from wirelens.classify.thresholds import uncertainty
from wirelens.learn.metrics import Array, floor_for

# The runtime remembers at marks, which are at each second.
_MARK_S = 1.0
# Whoever has no address yet sends from these.
_NOBODY = ("0.0.0.0", "::")
_NS_PER_S = 1e9


@dataclass(frozen=True)
class MemoryRule:
    """How hosts are in memory."""

    half_life_s: float = 600.0
    # So many verdicts, spread evenly over the classes, are there at first.
    prior: float = 1.0
    # No class is less probable by the model.
    floor: float = 0.01

    def of(self, class_count: int) -> "MemoryRule":
        """The same with a floor that so many classes can have."""
        return replace(self, floor=floor_for(class_count, self.floor))

    def told(self) -> dict[str, float]:
        """As `cascade.json` has it."""
        half_life_ns = round(self.half_life_s * _NS_PER_S)
        return {"half_life_ns": half_life_ns, "prior": self.prior, "floor": self.floor}

    @classmethod
    def read(cls, told: dict[str, Any]) -> "MemoryRule":
        """From what `cascade.json` has."""
        half_life_s = float(told["half_life_ns"]) / _NS_PER_S
        return cls(half_life_s, float(told["prior"]), float(told["floor"]))

    def mixed(self, scores: Array, kept: Array | None) -> Array:
        """Probabilities of one flow, with what is left of its host's shares."""
        found: Array = scores * (1 - len(scores) * self.floor) + self.floor
        if kept is not None:
            found = found * (kept + self.prior / len(scores))
        return found / found.sum()


@dataclass(frozen=True)
class Stages:
    """Stages of a cascade: for how many packets each waits, and when its answer is enough."""

    packets: Sequence[int]
    measures: Sequence[str]
    # Of all but the last, by class.
    thresholds: Sequence[Array]


@dataclass(frozen=True)
class MemoryAnswers:
    """What stages say of some flows with memory."""

    # By stage: probabilities of every flow, whether the stage decides it or not.
    scores: list[Array]
    # Which stage decides.
    stages: Array
    # What is remembered of each host in the end, by capture and address.
    hosts: dict[tuple[int, str], Array]


class _Hosts:
    """Shares of all hosts."""

    def __init__(self, rule: MemoryRule) -> None:
        self._rule = rule
        self.kept: dict[tuple[int, str], tuple[Array, float]] = {}

    def left(self, host: tuple[int, str], time_s: float) -> Array | None:
        """What is left of a host's shares at a time."""
        found = self.kept.get(host)
        if found is None:
            return None
        passed_s = max(time_s - found[1], 0.0)
        return found[0] * 0.5 ** (passed_s / self._rule.half_life_s)

    def add(self, host: tuple[int, str], time_s: float, own: Array) -> None:
        """Remembers what a model says by itself of one more flow."""
        left = self.left(host, time_s)
        before_s = self.kept[host][1] if host in self.kept else time_s
        self.kept[host] = (own if left is None else left + own, max(before_s, time_s))


def remember(
    rule: MemoryRule, sample: Sample, own: Sequence[Array], stages: Stages
) -> MemoryAnswers:
    """Follows flows through time. `own` has what each stage says of all flows by itself."""
    hosts, first_s = sample.hosts, sample.first_s
    asked_s = [first_s + sample.waiting_us(packets) / 1e6 for packets in stages.packets]
    found = [numpy.zeros_like(scores) for scores in own]
    decided = numpy.zeros(len(sample), dtype=numpy.int64)
    is_open = numpy.ones(len(sample), dtype=bool)
    memory = _Hosts(rule)
    # What is remembered at a mark is known to flows from there on.
    events = [(asked_s[stage][row], 1, stage, row)
              for stage in range(len(own)) for row in range(len(sample))]  # fmt: skip
    heapq.heapify(events)
    while events:
        time_s, kind, stage, row = heapq.heappop(events)
        host = hosts[row]
        if kind == 0:
            memory.add(host, asked_s[stage][row], own[stage][row])
            continue
        mixed = rule.mixed(own[stage][row], memory.left(host, first_s[row]))
        found[stage][row] = mixed
        if is_open[row] and _is_enough(stages, stage, mixed):
            is_open[row], decided[row] = False, stage
            if host[1] in _NOBODY:
                continue
            mark_s = (time_s // _MARK_S + 1) * _MARK_S
            heapq.heappush(events, (mark_s, 0, stage, row))
    shares = {host: kept for host, (kept, _) in memory.kept.items()}
    return MemoryAnswers(found, decided, shares)


def _is_enough(stages: Stages, stage: int, scores: Array) -> bool:
    if stage >= len(stages.thresholds):
        return True
    unsure = uncertainty(scores[None], stages.measures[stage])[0]
    return bool(unsure <= stages.thresholds[stage][scores.argmax()])
