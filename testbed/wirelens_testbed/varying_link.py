"""A link whose rate, delay and loss change during a run, by a schedule.

    left host --- near router == link == far router --- right host

The rate and the buffer are the kernel's (a tbf at each end of the link), delay and loss the
relay's between the two. Every change is an event of the run, stamped by the clock of the captures.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.lab import Lab
from wirelens_testbed.relay import Relay
from wirelens_testbed.run import Run
from wirelens_testbed.scenario import Table
from wirelens_testbed.switch import add_link

NEAR, FAR = "near", "far"
HOST_DEVICE, LAN_DEVICE, LINK_DEVICE = "eth0", "lan0", "wan0"
LINK_NETWORK = "10.3.0"
TUN_QUEUE_LEN = 10_000

# Two full frames: with a larger bucket whole bursts would leave at once, with a smaller one the
# timers of the kernel would limit the rate.
BURST_BYTES_MIN = 3_100
BURST_S = 0.001
FRAME_BYTES_MAX = 1_514
# A video frame is sent as a burst of packets: a buffer below that would lose part of each.
BUFFER_FRAMES_MIN = 10


@dataclass(frozen=True)
class Step:
    """What the link is like for some seconds; the delay is one way."""

    seconds: float
    rate_mbit: float
    delay_ms: float
    loss: float


@dataclass(frozen=True)
class LinkPlan:
    """The schedule, and what stays the same all the time."""

    steps: tuple[Step, ...]
    is_shuffled: bool
    buffer_ms: float  # the buffer grows and shrinks with the rate,
    buffer_bytes: int  # unless its size is given
    is_same_both_ways: bool
    back_rate_mbit: float


def parse_link(table: Table) -> LinkPlan:
    """Reads `[link]`: its steps are run in order, or shuffled, and repeated."""
    steps = tuple(_parse_step(each) for each in table.take_tables("steps"))
    if not steps:
        raise ScenarioError(
            f"{table.place}.steps: there is none; wanted at least one, begun by [[link.steps]]"
        )
    plan = LinkPlan(
        steps=steps,
        is_shuffled=table.take("shuffled", bool, False),
        buffer_ms=table.take("buffer_ms", float, 200.0, minimum=1.0, maximum=10_000.0),
        buffer_bytes=table.take("buffer_bytes", int, 0, minimum=0),
        is_same_both_ways=table.take("same_both_ways", bool, False),
        back_rate_mbit=table.take("back_rate_mbit", float, 20.0, minimum=0.01, maximum=1_000.0),
    )
    table.finish()
    return plan


def _parse_step(table: Table) -> Step:
    step = Step(
        seconds=table.take("seconds", float, minimum=0.1, maximum=86_400.0),
        rate_mbit=table.take("rate_mbit", float, minimum=0.01, maximum=1_000.0),
        delay_ms=table.take("delay_ms", float, minimum=0.0, maximum=5_000.0),
        loss=table.take("loss", float, 0.0, minimum=0.0, maximum=1.0),
    )
    table.finish()
    return step


def schedule(steps: Sequence[Step], duration_s: float) -> Iterator[Step]:
    """The steps that fill a time, repeated when they are used up, the last one cut."""
    left_s = duration_s
    for step in itertools.cycle(steps):
        if left_s <= step.seconds:
            yield replace(step, seconds=left_s)
            return
        yield step
        left_s -= step.seconds


@dataclass(frozen=True)
class End:
    """A host at one end of the link; its router has address 1 in its network."""

    host: str
    network: str  # the first three numbers

    @property
    def address(self) -> str:
        return f"{self.network}.2"


class VaryingLink:
    """The four hosts and the link between them, from the start as the first step says."""

    def __init__(self, run: Run, plan: LinkPlan, left: End, right: End) -> None:
        self._run, self._plan = run, plan
        steps = list(plan.steps)
        if plan.is_shuffled:
            run.rng.shuffle(steps)
        self._steps, self._now = steps, steps[0]
        for router, end in ((NEAR, left), (FAR, right)):
            run.lab.add_host(router, forwarding=True, ipv6=False)
            run.lab.add_host(end.host, ipv6=False)
            _join(run.lab, router, end)
        self.relay = self._add_relay()
        for router, number, other in ((NEAR, 1, right), (FAR, 2, left)):
            run.lab.ip(
                router,
                # Long enough for what arrives while the relay waits for its turn on a processor.
                f"link set {LINK_DEVICE} mtu 1500 txqueuelen {TUN_QUEUE_LEN} up",
                f"address add {LINK_NETWORK}.{number}/30 dev {LINK_DEVICE}",
                f"route add {other.network}.0/24 via {LINK_NETWORK}.{3 - number}",
            )
            run.lab.tc(router, f"qdisc add dev {LINK_DEVICE} root {self._tbf(router)}")

    def follow(self, duration_s: float) -> None:
        """Goes through the schedule for a time; returns when it is over."""
        deadline_s = time.monotonic()
        for step in schedule(self._steps, duration_s):
            self._apply(step)
            deadline_s += step.seconds
            self._run.lab.pause(deadline_s - time.monotonic())

    def queue_drops(self) -> dict[str, int]:
        """Packets that the buffer at each end of the link had no room for."""
        drops: dict[str, int] = {}
        for host in (NEAR, FAR):
            queues = json.loads(self._run.lab.tc_show(host, "qdisc", "show", "dev", LINK_DEVICE))
            drops[host] = sum(queue["drops"] for queue in queues if queue["kind"] == "tbf")
        return drops

    def _apply(self, step: Step) -> None:
        self._now = step
        both = self._plan.is_same_both_ways
        for host in (NEAR, FAR) if both else (NEAR,):
            self._run.lab.tc(host, f"qdisc change dev {LINK_DEVICE} root {self._tbf(host)}")
        self.relay.delay("ab", round(step.delay_ms * 1000))
        self.relay.delay("ba", round(step.delay_ms * 1000))
        self.relay.loss("ab", step.loss)
        self.relay.loss("ba", step.loss if both else 0.0)
        self._run.event("link", rate_mbit=step.rate_mbit, delay_ms=step.delay_ms, loss=step.loss)

    def _add_relay(self) -> Relay:
        delay_us = round(self._now.delay_ms * 1000)
        near, far = (NEAR, LINK_DEVICE), (FAR, LINK_DEVICE)
        return self._run.relay(near, far, delay_ab_us=delay_us, delay_ba_us=delay_us)

    def _tbf(self, host: str) -> str:
        varies = host == NEAR or self._plan.is_same_both_ways
        rate_mbit = self._now.rate_mbit if varies else self._plan.back_rate_mbit
        bytes_per_ms = rate_mbit * 1e3 / 8
        return tbf(rate_mbit, self._plan.buffer_bytes or bytes_per_ms * self._plan.buffer_ms)


def _join(lab: Lab, router: str, end: End) -> None:
    add_link(lab, (end.host, HOST_DEVICE), (router, LAN_DEVICE))
    first, second, third = map(int, end.network.split("."))
    mac = f"02:{first:02x}:{second:02x}:{third:02x}:00"
    for host, device, own, other in (
        (router, LAN_DEVICE, 1, 2),
        (end.host, HOST_DEVICE, 2, 1),
    ):
        # Who has which address is told to both: asking would be one more kind of packet recorded.
        lab.ip(
            host,
            f"link set {device} address {mac}:{own:02x}",
            f"address add {end.network}.{own}/24 dev {device}",
            f"neighbour replace {end.network}.{other} lladdr {mac}:{other:02x} dev {device}",
        )
    lab.ip(end.host, f"route add default via {end.network}.1")


def tbf(rate_mbit: float, buffer_bytes: float) -> str:
    """The kernel's words for a rate and a buffer."""
    burst_bytes = max(BURST_BYTES_MIN, round(rate_mbit * 1e6 / 8 * BURST_S))
    limit_bytes = max(FRAME_BYTES_MAX * BUFFER_FRAMES_MIN, round(buffer_bytes))
    return f"tbf rate {round(rate_mbit * 1e6)}bit burst {burst_bytes} limit {limit_bytes}"
