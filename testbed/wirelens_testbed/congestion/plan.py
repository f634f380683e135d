"""What a congestion scenario says: a link, hosts, and flows that share the link."""

from __future__ import annotations

from dataclasses import dataclass

from wirelens_testbed.controls import kernel_name
from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.run import take_late_max_ms
from wirelens_testbed.scenario import Table

# One address a flow, so that each can have a propagation delay of its own: 10.1.HOST.FLOW.
FLOWS_PER_SENDER_MAX = 200
SENDERS_MAX = 64
FULL_PACKET_BYTES = 1514


@dataclass(frozen=True)
class Link:
    """The bottleneck: a token bucket, and the queue before it."""

    shaper: str
    rate_mbit: float
    buffer_bytes: int
    burst_bytes: int
    offloads: bool
    ecn: bool
    ce_threshold_bytes: int  # 0: no marking


@dataclass(frozen=True)
class Flow:
    """One TCP flow: bytes as fast as its congestion control allows, from `start_s` to `stop_s`."""

    number: int
    sender: int
    control: str
    role: str
    rtt_ms: float
    start_s: float
    stop_s: float
    size_bytes: int  # 0: until stop_s

    @property
    def kernel_control(self) -> str:
        return kernel_name(self.control)

    @property
    def source(self) -> str:
        return f"10.1.{self.sender + 1}.{self.number % FLOWS_PER_SENDER_MAX + 10}"


@dataclass(frozen=True)
class Plan:
    duration_s: float
    senders: int
    receivers: int
    link: Link
    flows: tuple[Flow, ...]
    snaplen: int
    packet_truth: bool
    late_max_ms: float
    single_taps: bool = False
    """Also records each place that data and acknowledgements pass, upstream of the queue and at the
    receivers, both directions in one file."""


def parse(table: Table) -> Plan:
    """Reads a drawn scenario."""
    duration_s = table.take("duration_s", float, minimum=0.5, maximum=3600.0)
    link = _parse_link(table.take_table("link"))
    hosts = table.take_table("hosts")
    senders = hosts.take("senders", int, 3, minimum=1, maximum=SENDERS_MAX)
    receivers = hosts.take("receivers", int, 1, minimum=1, maximum=SENDERS_MAX)
    hosts.finish()
    flows = tuple(
        _parse_flow(each, number, number % senders, duration_s)
        for number, each in enumerate(table.take_tables("flows"))
    )
    if not flows:
        raise ScenarioError("there are no flows; wanted at least one, begun by [[flows]]")
    if len(flows) > senders * FLOWS_PER_SENDER_MAX:
        raise ScenarioError(
            f"{len(flows)} flows for {senders} senders; a sender takes {FLOWS_PER_SENDER_MAX}: "
            "raise hosts.senders"
        )
    packet_truth = table.take("packet_truth", bool, not link.offloads)
    if packet_truth and link.offloads:
        raise ScenarioError(
            "packet_truth with link.offloads: what comes to the queue leaves it in other pieces; "
            "turn one of them off"
        )
    return Plan(
        duration_s=duration_s,
        senders=senders,
        receivers=receivers,
        link=link,
        flows=flows,
        snaplen=table.take("snaplen", int, 96, minimum=80, maximum=262_144),
        packet_truth=packet_truth,
        late_max_ms=take_late_max_ms(table),
        single_taps=table.take("single_taps", bool, False),
    )


def _parse_link(table: Table) -> Link:
    link = Link(
        shaper=table.take("shaper", str, "tbf", among=("tbf", "htb")),
        rate_mbit=table.take("rate_mbit", float, minimum=0.1, maximum=10_000.0),
        buffer_bytes=table.take("buffer_bytes", int, minimum=2 * FULL_PACKET_BYTES),
        # Below the size of any offloaded burst: each departure is one packet.
        burst_bytes=table.take("burst_bytes", int, 10_000, minimum=FULL_PACKET_BYTES),
        offloads=table.take("offloads", bool, False),
        ecn=table.take("ecn", bool, False),
        ce_threshold_bytes=table.take("ce_threshold_bytes", int, 0, minimum=0),
    )
    table.finish()
    return link


def _parse_flow(table: Table, number: int, sender: int, duration_s: float) -> Flow:
    start_s = table.take("start_s", float, 0.0, minimum=0.0, maximum=duration_s)
    flow = Flow(
        number=number,
        sender=sender,
        control=table.take("control", str),
        role=table.take("role", str, "measured", among=("measured", "background")),
        rtt_ms=table.take("rtt_ms", float, 20.0, minimum=0.0, maximum=2000.0),
        start_s=start_s,
        stop_s=table.take("stop_s", float, duration_s, minimum=start_s, maximum=duration_s),
        size_bytes=table.take("size_bytes", int, 0, minimum=0),
    )
    table.finish()
    return flow
