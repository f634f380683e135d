"""Systems under a load of new flows, emulated: consumers whose clocks advance by measured times.

A flow comes, its packets come after it as they did in the capture, and a consumer does one thing
after the other: nothing here runs for as long as it would. Definitions are the paper's (section
5.2): the service rate counts flows with a verdict for each second, latency is from a flow's first
packet to its verdict, missed are flows without a verdict.
"""

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy
from loads_models import Asked, Chain, Flows

Array = Any

# Flows come for so long; the first seconds, in which nobody has waited for long, are not counted.
EVENT_S = 60.0
WARM_S = 10.0
# Verdicts that come later than the load's end and the longest wait are not counted either.
END_S = 70.0
# Flows that a system without a queue can hold while it is busy.
BUFFER = 64


@dataclass(frozen=True)
class System:
    """Models, and what waits for them."""

    name: str
    chain: Chain
    # Whether flows wait in a queue without end; else in a buffer of BUFFER flows.
    has_queue: bool
    consumers: int = 1


@dataclass
class Load:
    """New flows, in order of their first packets."""

    per_s: float
    # Index of the held-out flow that each repeats.
    rows: Array
    # Microseconds since the beginning.
    first_us: Array


@dataclass
class Times:
    """What became of each flow, microseconds; not a number where there was no verdict."""

    verdict: Array
    # Waiting for packets, waiting for a consumer, being worked on.
    packets: Array
    queued: Array
    worked: Array


def make_load(per_s: float, flow_count: int, seed: int) -> Load:
    """Flows drawn with replacement, at times that are independent of each other."""
    dice = numpy.random.default_rng([seed, round(per_s)])
    count = round(per_s * EVENT_S)
    first_us = numpy.sort(dice.random(count)) * EVENT_S * 1e6
    return Load(per_s, dice.integers(0, flow_count, count), first_us)


def emulate(system: System, flows: Flows, load: Load, seed: int) -> Times:
    """Sends a load through a system; each consumer has the flows that a hash gives it."""
    count = len(load.rows)
    times = Times(*(numpy.full(count, numpy.nan) for _ in range(4)))
    consumer_of = numpy.random.default_rng([seed, 7]).integers(
        0, system.consumers, count
    )
    for consumer in range(system.consumers):
        mine = numpy.flatnonzero(consumer_of == consumer)
        part = Load(load.per_s, load.rows[mine], load.first_us[mine])
        if not system.has_queue:
            found = _without_queue(system.chain, flows, part)
        else:
            found = _one_by_one(system.chain, flows, part)
        for whole, of_mine in zip(
            (times.verdict, times.packets, times.queued, times.worked),
            found,
            strict=True,
        ):
            whole[mine] = of_mine
    return times


def _work_us(stage: Asked, flows: Flows, seen: int) -> Array:
    """Processor time of a stage by row: records of packets not `seen` before, and the model."""
    packets = numpy.maximum(numpy.minimum(flows.packets, stage.packets) - seen, 0)
    return stage.alone_us + packets * flows.extraction_us


def _steps(chain: Chain, flows: Flows) -> tuple[Array, Array, Array, Array]:
    """By row: work at the first visit, work at the second, when that may be, and if it is.

    Stages of one depth are asked in one visit.
    """
    count = len(chain.decided)
    first, second = numpy.zeros(count), numpy.zeros(count)
    depth = chain.stages[0].packets
    deeper = numpy.zeros(count, dtype=bool)
    ready, seen = numpy.zeros(count), 0
    for index, stage in enumerate(chain.stages):
        asked = chain.decided >= index
        work = numpy.where(asked, _work_us(stage, flows, seen), 0)
        seen = stage.packets
        if stage.packets == depth:
            first += work
        else:
            second += work
            deeper |= asked
            ready = flows.waiting_us[stage.packets]
    return first, second, ready, deeper


def _without_queue(chain: Chain, flows: Flows, load: Load) -> tuple[Array, ...]:
    """One model on flows whose packets are there; what finds the buffer full is missed."""
    stage = chain.stages[0]
    waiting = flows.waiting_us[stage.packets][load.rows]
    work = _work_us(stage, flows, 0)[load.rows]
    ready = load.first_us + waiting
    verdict = numpy.full(len(ready), numpy.nan)
    # When each of those in the buffer, or at work, will be done.
    held: deque[float] = deque()
    free = 0.0
    order = numpy.argsort(ready, kind="stable")
    for flow, now, takes in zip(
        order.tolist(), ready[order].tolist(), work[order].tolist(), strict=True
    ):
        while held and held[0] <= now:
            held.popleft()
        if len(held) > BUFFER:
            continue
        free = max(free, now) + takes
        held.append(free)
        verdict[flow] = free
    return verdict, waiting, verdict - ready - work, work


def _one_by_one(chain: Chain, flows: Flows, load: Load) -> tuple[Array, ...]:
    """A queue in the order in which flows can be asked about, one at a time."""
    first, second, deep, deeper = (part[load.rows] for part in _steps(chain, flows))
    depth = chain.stages[0].packets
    waiting = flows.waiting_us[depth][load.rows]
    ready = load.first_us + waiting
    order = numpy.argsort(ready, kind="stable")
    visits = [
        order,
        ready[order],
        first[order],
        deeper[order],
        (load.first_us + deep)[order],
    ]
    end = END_S * 1e6
    verdict, back = numpy.full(len(ready), numpy.nan), numpy.full(len(ready), numpy.nan)
    late: list[tuple[float, int]] = []
    again = second.tolist()
    free = 0.0
    for flow, now, takes, goes_on, due in zip(
        *(v.tolist() for v in visits), strict=True
    ):
        while late and late[0][0] <= now:
            since, other = heapq.heappop(late)
            free = max(free, since) + again[other]
            verdict[other] = free
        free = max(free, now) + takes
        if free > end:
            break
        if goes_on:
            due = max(due, free)
            back[flow] = due - free
            heapq.heappush(late, (due, flow))
        else:
            verdict[flow] = free
    while late and free <= end:
        since, other = heapq.heappop(late)
        free = max(free, since) + again[other]
        verdict[other] = free
    verdict[verdict > end] = numpy.nan
    waited = waiting + numpy.where(deeper, back, 0)
    worked = first + second
    return verdict, waited, verdict - load.first_us - waited - worked, worked
