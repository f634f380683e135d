"""Systems under a load of new flows, emulated: consumers whose clocks advance by measured times.

A flow comes, its packets come after it as they did in the capture, and a consumer does one thing
after the other: nothing here runs for as long as it would. Definitions are the paper's (section
5.2): the service rate counts flows with a verdict for each second, latency is from a flow's first
packet to its verdict, missed are flows without a verdict.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
from loads_models import Chain, Flows, StageCost

Array = Any

# Flows come for so long; the first seconds, in which nobody has waited for long, are not counted.
EVENT_S = 60.0
WARM_S = 10.0
# More than this a second come for a shorter time, since they would not fit into memory.
PAPER_MOST = 60_000
SHORT_EVENT_S = 20.0
# Verdicts that come later than the load's end and the longest wait are not counted either.
WAIT_S = 10.0
# Flows that a system without a queue can hold while it is busy.
BUFFER = 64
# Rows that a model is asked about at once, where it is asked in batches.
TOGETHER = 64


@dataclass(frozen=True)
class System:
    """Models, and what waits for them."""

    name: str
    chain: Chain
    # Whether flows wait in a queue without end; else in a buffer of BUFFER flows.
    has_queue: bool
    consumers: int = 1
    # Whether whoever is ready when a consumer is free is asked about together.
    in_batches: bool = False


@dataclass
class Load:
    """New flows, in order of their first packets."""

    per_s: float
    event_s: float
    # Index of the held-out flow that each repeats.
    rows: Array
    # Microseconds since the beginning.
    first_us: Array

    @property
    def end_us(self) -> float:
        """Later verdicts are not counted."""
        return (self.event_s + WAIT_S) * 1e6


@dataclass
class Times:
    """What became of each flow, microseconds; not a number where there was no verdict.

    The first four are the parts of a latency and its end; `spent` is what a consumer worked for
    the flow, also while it still waited for packets.
    """

    verdict: Array
    packets: Array
    queued: Array
    worked: Array
    spent: Array


@dataclass
class _Visits:
    """Flows at a consumer, in order of when they can be asked about."""

    flow: Array
    ready: Array
    # One by one.
    work: Array
    # By stage: whether it is asked.
    asked: list[Array]
    # Packets made into records.
    records_us: Array


def make_load(per_s: float, flow_count: int, seed: int) -> Load:
    """Flows drawn with replacement, at times that are independent of each other."""
    event_s = EVENT_S if per_s <= PAPER_MOST else SHORT_EVENT_S
    dice = numpy.random.default_rng([seed, round(per_s)])
    count = round(per_s * event_s)
    first_us = numpy.sort(dice.random(count)) * event_s * 1e6
    return Load(per_s, event_s, dice.integers(0, flow_count, count), first_us)


def emulate(system: System, flows: Flows, load: Load, seed: int) -> Times:
    """Sends a load through a system; each consumer has the flows that a hash gives it."""
    count = len(load.rows)
    if system.consumers == 1:
        return _emulate_one(system, flows, load)
    times = Times(*(numpy.full(count, numpy.nan) for _ in range(5)))
    consumer_of = numpy.random.default_rng([seed, 7]).integers(0, system.consumers, count)
    for consumer in range(system.consumers):
        mine = numpy.flatnonzero(consumer_of == consumer)
        part = Load(load.per_s, load.event_s, load.rows[mine], load.first_us[mine])
        found = _emulate_one(system, flows, part)
        for name, values in vars(found).items():
            getattr(times, name)[mine] = values
    return times


def _emulate_one(system: System, flows: Flows, load: Load) -> Times:
    if not system.has_queue:
        return _without_queue(system.chain, flows, load)
    return _with_queue(system, flows, load)


def _records_us(stage: StageCost, flows: Flows, seen: int) -> Array:
    """Processor time of a stage's packets by row, those `seen` before left out."""
    packets = numpy.maximum(numpy.minimum(flows.packets, stage.packets) - seen, 0)
    return packets * flows.packet_us


def _visits(chain: Chain, flows: Flows, load: Load) -> _Visits:
    """Stages of one depth are asked in one visit; the next depth is another."""
    parts: list[tuple[Array, ...]] = []
    seen = 0
    for depth in dict.fromkeys(stage.packets for stage in chain.stages):
        own = [index for index, stage in enumerate(chain.stages) if stage.packets == depth]
        comes = chain.decided >= own[0]
        records = _records_us(chain.stages[own[0]], flows, seen)
        asked = [
            (chain.decided >= index if index in own else numpy.zeros(len(comes), dtype=bool))
            for index in range(len(chain.stages))
        ]
        work = records + sum(
            numpy.where(asked[index], chain.stages[index].alone_us, 0.0) for index in own
        )
        flow = numpy.flatnonzero(comes[load.rows])
        rows = load.rows[flow]
        ready = load.first_us[flow] + flows.waiting_us[depth][rows]
        parts.append((flow, ready, work[rows], records[rows], *(one[rows] for one in asked)))
        seen = depth
    flow, ready, work, records, *asked = (
        numpy.concatenate([part[place] for part in parts]) for place in range(len(parts[0]))
    )
    # Of visits at one time the shallower is first.
    order = numpy.argsort(ready, kind="stable")
    return _Visits(
        flow[order], ready[order], work[order], [one[order] for one in asked], records[order]
    )


def _with_queue(system: System, flows: Flows, load: Load) -> Times:
    """A queue in the order in which flows can be asked about."""
    visits = _visits(system.chain, flows, load)
    count = len(load.rows)
    if system.in_batches:
        began, done, sizes = _in_batches(system.chain, visits)
        spent = (done - began) / sizes
    else:
        # Each begins when it can and the one before is done: the greatest lead of any so far.
        total = numpy.cumsum(visits.work)
        idle = numpy.maximum.accumulate(visits.ready - (total - visits.work))
        done, spent = total + idle, visits.work
        began = done - visits.work
    last = numpy.zeros(count, dtype=numpy.int64)
    # Visits of a flow come in order, so the last one stays.
    last[visits.flow] = numpy.arange(len(visits.flow))
    verdict = done[last]
    verdict[verdict > load.end_us] = numpy.nan
    return Times(
        verdict,
        visits.ready[last] - load.first_us,
        began[last] - visits.ready[last],
        done[last] - began[last],
        numpy.bincount(visits.flow, weights=spent, minlength=count),
    )


def _call_costs(chain: Chain) -> tuple[list[float], list[float]]:
    """Microseconds of a call about any number of rows, and of each row of it, by stage.

    From what a row costs alone and as one of 64.
    """
    calls, rows = [], []
    for stage in chain.stages:
        alone = float(stage.alone_us.mean())
        call = max(alone - stage.batch_us, 0.0) * TOGETHER / (TOGETHER - 1)
        calls.append(call)
        rows.append(alone - call)
    return calls, rows


def _in_batches(chain: Chain, visits: _Visits) -> tuple[Array, Array, Array]:
    """Whenever a consumer is free it takes whoever is ready, 64 at most; all are done together."""
    calls, rows = _call_costs(chain)
    count = len(visits.ready)
    work = visits.records_us + sum(
        asked * row for asked, row in zip(visits.asked, rows, strict=True)
    )

    def summed(values: Array) -> Any:
        return memoryview(numpy.concatenate([[0], numpy.cumsum(values)]))

    work_until = summed(work)
    asked_until = [
        (call, summed(asked)) for call, asked in zip(calls, visits.asked, strict=True) if call
    ]
    ready = memoryview(visits.ready)
    ends, begins, dones = [], [], []
    first, free = 0, 0.0
    while first < count:
        free = max(free, ready[first])
        begins.append(free)
        end = bisect_right(ready, free, first + 1, min(first + TOGETHER, count))
        free += work_until[end] - work_until[first]
        for call, until in asked_until:
            if until[end] > until[first]:
                free += call
        ends.append(end)
        dones.append(free)
        first = end
    sizes = numpy.diff(numpy.array(ends), prepend=0)
    return (
        numpy.repeat(numpy.array(begins), sizes),
        numpy.repeat(numpy.array(dones), sizes),
        numpy.repeat(sizes, sizes),
    )


def _without_queue(chain: Chain, flows: Flows, load: Load) -> Times:
    """One model on flows whose packets are there; what finds the buffer full is missed."""
    stage = chain.stages[0]
    waiting = flows.waiting_us[stage.packets][load.rows]
    work = (stage.alone_us + _records_us(stage, flows, 0))[load.rows]
    ready = load.first_us + waiting
    verdict = numpy.full(len(ready), numpy.nan)
    order = numpy.argsort(ready, kind="stable")
    verdict[order] = list(_served(ready[order], work[order]))
    queued = verdict - ready - work
    return Times(verdict, waiting, queued, work, numpy.where(numpy.isnan(verdict), 0.0, work))


def _served(ready: Array, work: Array) -> Iterator[float]:
    """When each is done; not a number where the buffer was full."""
    # When each of those in the buffer, or at work, will be done.
    held: deque[float] = deque()
    free = 0.0
    for now, takes in zip(memoryview(ready), memoryview(work), strict=True):
        while held and held[0] <= now:
            held.popleft()
        if len(held) > BUFFER:
            yield numpy.nan
            continue
        free = max(free, now) + takes
        held.append(free)
        yield free
