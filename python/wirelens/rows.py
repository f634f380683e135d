"""Columns of rows, for type checkers and editors.

Made of the columns that the compiled half declares, by tests/python/test_rows.py; changes by hand
are lost. `window_start_ns` is there with windows, `src_mac` and `dst_mac` where they are asked for,
and `capture` where several captures are read.
"""

from typing import Final

from wirelens.row import Row

__all__ = [
    "ALL",
    "DestinationLatency",
    "DestinationTotals",
    "Flow",
    "FlowLatency",
    "FlowStatistics",
    "FlowTotals",
    "HeavyFlow",
    "HostVerdict",
    "NameTotals",
    "NamedFlow",
    "NamedFlowStatistics",
    "NfstreamFlow",
    "OneWayLatency",
    "PacketLatency",
    "PairTotals",
    "PeriodLatency",
    "PortTotals",
    "ProtocolTotals",
    "QueuedFlow",
    "SourceTotals",
    "TOTALS",
    "Unanswered",
    "Verdict",
]


class SourceTotals(Row):
    """Totals by source."""

    __slots__ = ()

    src_ip: str
    packets: int
    bytes: int
    window_start_ns: int


class DestinationTotals(Row):
    """Totals by destination."""

    __slots__ = ()

    dst_ip: str
    packets: int
    bytes: int
    window_start_ns: int


class PairTotals(Row):
    """Totals by pair."""

    __slots__ = ()

    src_ip: str
    dst_ip: str
    packets: int
    bytes: int
    window_start_ns: int


class PortTotals(Row):
    """Totals by port."""

    __slots__ = ()

    protocol: str
    port: int
    packets: int
    bytes: int
    window_start_ns: int


class ProtocolTotals(Row):
    """Totals by protocol."""

    __slots__ = ()

    protocol: str
    packets: int
    bytes: int
    window_start_ns: int


class FlowTotals(Row):
    """Totals by flow."""

    __slots__ = ()

    community_id: str
    protocol: str
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int
    packets: int
    bytes: int
    window_start_ns: int


class NameTotals(Row):
    """Totals by name."""

    __slots__ = ()

    name: str | None
    packets: int
    bytes: int
    window_start_ns: int


class Flow(Row):
    """A flow that has ended."""

    __slots__ = ()

    community_id: str
    protocol: str
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int
    first_ns: int | None
    last_ns: int | None
    src_packets: int
    src_bytes: int
    dst_packets: int
    dst_bytes: int
    src_tcp_flags: int
    dst_tcp_flags: int
    end_reason: str
    vlan: int | None
    window_start_ns: int
    src_mac: str | None
    dst_mac: str | None
    capture: str | None


class FlowStatistics(Flow):
    """A flow with sizes, gaps and flags."""

    __slots__ = ()

    both_size_min: int | None
    both_size_mean: float | None
    both_size_std: float | None
    both_size_max: int | None
    both_gap_min_ns: int | None
    both_gap_mean_ns: float | None
    both_gap_std_ns: float | None
    both_gap_max_ns: int | None
    src_size_min: int | None
    src_size_mean: float | None
    src_size_std: float | None
    src_size_max: int | None
    src_gap_min_ns: int | None
    src_gap_mean_ns: float | None
    src_gap_std_ns: float | None
    src_gap_max_ns: int | None
    dst_size_min: int | None
    dst_size_mean: float | None
    dst_size_std: float | None
    dst_size_max: int | None
    dst_gap_min_ns: int | None
    dst_gap_mean_ns: float | None
    dst_gap_std_ns: float | None
    dst_gap_max_ns: int | None
    src_first_ns: int | None
    src_last_ns: int | None
    dst_first_ns: int | None
    dst_last_ns: int | None
    both_fin_packets: int
    both_syn_packets: int
    both_rst_packets: int
    both_psh_packets: int
    both_ack_packets: int
    both_urg_packets: int
    both_ece_packets: int
    both_cwr_packets: int
    src_fin_packets: int
    src_syn_packets: int
    src_rst_packets: int
    src_psh_packets: int
    src_ack_packets: int
    src_urg_packets: int
    src_ece_packets: int
    src_cwr_packets: int
    dst_fin_packets: int
    dst_syn_packets: int
    dst_rst_packets: int
    dst_psh_packets: int
    dst_ack_packets: int
    dst_urg_packets: int
    dst_ece_packets: int
    dst_cwr_packets: int


class NamedFlow(Flow):
    """A flow with names from its payload."""

    __slots__ = ()

    app_protocol: str | None
    server_name: str | None
    resolved_name: str | None
    dns_query: str | None
    dns_query_type: str | None
    tls_version: str | None
    alpn: str | None
    ja4: str | None
    ech_offered: int | None


class NamedFlowStatistics(FlowStatistics):
    """A flow with sizes, gaps, flags and names from its payload."""

    __slots__ = ()

    app_protocol: str | None
    server_name: str | None
    resolved_name: str | None
    dns_query: str | None
    dns_query_type: str | None
    tls_version: str | None
    alpn: str | None
    ja4: str | None
    ech_offered: int | None


class NfstreamFlow(Row):
    """A flow with the names and units of NFStream."""

    __slots__ = ()

    id: int
    expiration_id: int
    src_ip: str
    src_mac: str | None
    src_oui: str | None
    src_port: int
    dst_ip: str
    dst_mac: str | None
    dst_oui: str | None
    dst_port: int
    protocol: int
    ip_version: int
    vlan_id: int
    bidirectional_first_seen_ms: int
    bidirectional_last_seen_ms: int
    bidirectional_duration_ms: int
    bidirectional_packets: int
    bidirectional_bytes: int
    src2dst_first_seen_ms: int
    src2dst_last_seen_ms: int
    src2dst_duration_ms: int
    src2dst_packets: int
    src2dst_bytes: int
    dst2src_first_seen_ms: int
    dst2src_last_seen_ms: int
    dst2src_duration_ms: int
    dst2src_packets: int
    dst2src_bytes: int
    bidirectional_min_ps: int
    bidirectional_mean_ps: float
    bidirectional_stddev_ps: float
    bidirectional_max_ps: int
    src2dst_min_ps: int
    src2dst_mean_ps: float
    src2dst_stddev_ps: float
    src2dst_max_ps: int
    dst2src_min_ps: int
    dst2src_mean_ps: float
    dst2src_stddev_ps: float
    dst2src_max_ps: int
    bidirectional_min_piat_ms: int
    bidirectional_mean_piat_ms: float
    bidirectional_stddev_piat_ms: float
    bidirectional_max_piat_ms: int
    src2dst_min_piat_ms: int
    src2dst_mean_piat_ms: float
    src2dst_stddev_piat_ms: float
    src2dst_max_piat_ms: int
    dst2src_min_piat_ms: int
    dst2src_mean_piat_ms: float
    dst2src_stddev_piat_ms: float
    dst2src_max_piat_ms: int
    bidirectional_syn_packets: int
    bidirectional_cwr_packets: int
    bidirectional_ece_packets: int
    bidirectional_urg_packets: int
    bidirectional_ack_packets: int
    bidirectional_psh_packets: int
    bidirectional_rst_packets: int
    bidirectional_fin_packets: int
    src2dst_syn_packets: int
    src2dst_cwr_packets: int
    src2dst_ece_packets: int
    src2dst_urg_packets: int
    src2dst_ack_packets: int
    src2dst_psh_packets: int
    src2dst_rst_packets: int
    src2dst_fin_packets: int
    dst2src_syn_packets: int
    dst2src_cwr_packets: int
    dst2src_ece_packets: int
    dst2src_urg_packets: int
    dst2src_ack_packets: int
    dst2src_psh_packets: int
    dst2src_rst_packets: int
    dst2src_fin_packets: int
    capture: str | None


class Verdict(Row):
    """Verdict of a model on a flow."""

    __slots__ = ()

    community_id: str
    protocol: str
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int
    first_ns: int | None
    label: str
    confidence: float | None
    guess: str
    guess_confidence: float
    stage: str
    packets_used: int
    decided_ns: int | None
    wait_ns: int
    latency_ns: int | None
    cause: str
    model: str
    other_segmentation: int
    window_start_ns: int
    capture: str | None


class HostVerdict(Row):
    """Verdict on a host, from those on its flows."""

    __slots__ = ()

    host: str
    label: str
    confidence: float | None
    guess: str
    guess_confidence: float
    flow_count: int
    first_ns: int | None
    decided_ns: int | None
    model: str


class QueuedFlow(Row):
    """A heavy flow in a period, of two taps: bytes in the queue and congestion control."""

    __slots__ = ()

    start_ns: int
    period_ns: int
    community_id: str
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int
    cbiq_bytes: float | None
    cbiq_max_bytes: float | None
    queue_share: float | None
    drops: float | None
    ingress_bytes: int
    egress_bytes: int
    delay_max_s: float | None
    control: str | None
    confidence: float | None
    interval_s: float | None
    unnamed: str | None
    missing: str
    departures: str | None
    unseen_bytes: int | None


class HeavyFlow(Row):
    """A heavy flow in a period: bytes in flight, RTT and congestion control."""

    __slots__ = ()

    start_ns: int
    period_ns: int
    community_id: str
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int
    flight_bytes: float | None
    flight_max_bytes: int | None
    sacked_max_bytes: int | None
    sent_bytes: int
    acked_bytes: int
    resent_packets: int
    drops: float
    rtt_s: float | None
    rtt_min_s: float | None
    control: str | None
    confidence: float | None
    interval_s: float | None
    unnamed: str | None
    missing: str


class FlowLatency(Row):
    """RTT to both ends of a flow that has ended."""

    __slots__ = ()

    community_id: str
    protocol: str
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int
    first_ns: int | None
    last_ns: int | None
    rtt_min_ns: int | None
    slow_end: str | None
    dst_rtt_count: int
    dst_rtt_min_ns: int | None
    dst_rtt_p50_ns: int | None
    dst_rtt_p90_ns: int | None
    dst_rtt_p99_ns: int | None
    dst_rtt_max_ns: int | None
    dst_jitter_ns: int | None
    dst_queue_p50_ns: int | None
    dst_queue_p99_ns: int | None
    src_rtt_count: int
    src_rtt_min_ns: int | None
    src_rtt_p50_ns: int | None
    src_rtt_p90_ns: int | None
    src_rtt_p99_ns: int | None
    src_rtt_max_ns: int | None
    src_jitter_ns: int | None
    src_queue_p50_ns: int | None
    src_queue_p99_ns: int | None
    server_count: int
    server_p50_ns: int | None
    src_packets: int
    src_retransmissions: int
    src_late: int
    src_unmeasured: int
    src_held_acks: int
    src_sharp_changes: int
    src_sharp_prompt: int
    src_ce: int
    src_ce_echoed: int
    dst_packets: int
    dst_retransmissions: int
    dst_late: int
    dst_unmeasured: int
    dst_held_acks: int
    dst_sharp_changes: int
    dst_sharp_prompt: int
    dst_ce: int
    dst_ce_echoed: int
    ecn_echo: str | None


class DestinationLatency(Row):
    """RTT of an address that answers."""

    __slots__ = ()

    dst_ip: str
    rtt_count: int
    rtt_min_ns: int | None
    rtt_p50_ns: int | None
    rtt_p90_ns: int | None
    rtt_p99_ns: int | None
    rtt_max_ns: int | None
    jitter_ns: int | None
    queue_p50_ns: int | None
    queue_p99_ns: int | None
    packets: int
    retransmissions: int
    unmeasured: int
    held_acks: int
    sharp_changes: int
    sharp_prompt: int


class PeriodLatency(DestinationLatency):
    """RTT of an address that answers, in a period."""

    __slots__ = ()

    start_ns: int


class PacketLatency(Row):
    """A packet and its latency."""

    __slots__ = ()

    time_ns: int
    community_id: str
    protocol: str
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int
    seq: int | None
    wire_len: int
    len: int
    latency_ns: int | None
    method: str | None
    missing: str | None
    held: str | None
    wait_ns: int | None
    answered: int
    place: str
    ecn: str
    queue: str
    ce_echoed: int | None
    ce_bytes_echoed: int | None
    ect0_bytes_echoed: int | None
    ect1_bytes_echoed: int | None
    sharp_flow: int | None
    sharp_flow_prompt: int | None
    sharp_queue: int | None
    sharp_queue_prompt: int | None


class OneWayLatency(Row):
    """One-way delay of a direction of a flow, between two taps."""

    __slots__ = ()

    community_id: str
    protocol: str
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int
    first_tap: str
    packets: int
    lost: int
    unseen: int
    backwards: int
    delay_count: int
    delay_min_ns: int | None
    delay_p50_ns: int | None
    delay_p90_ns: int | None
    delay_p99_ns: int | None
    delay_max_ns: int | None
    jitter_ns: int | None
    queue_p50_ns: int | None
    queue_p99_ns: int | None
    sharp_changes: int


class Unanswered(Row):
    """A flow in which only one side sent packets."""

    __slots__ = ()

    community_id: str
    protocol: str
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int
    first_ns: int | None
    packets: int


TOTALS: Final[dict[str, type[Row]]] = {
    "source": SourceTotals,
    "destination": DestinationTotals,
    "pair": PairTotals,
    "port": PortTotals,
    "protocol": ProtocolTotals,
    "flow": FlowTotals,
    "name": NameTotals,
}
ALL: Final[tuple[type[Row], ...]] = (
    SourceTotals,
    DestinationTotals,
    PairTotals,
    PortTotals,
    ProtocolTotals,
    FlowTotals,
    NameTotals,
    Flow,
    FlowStatistics,
    NamedFlow,
    NamedFlowStatistics,
    NfstreamFlow,
    Verdict,
    HostVerdict,
    QueuedFlow,
    HeavyFlow,
    FlowLatency,
    DestinationLatency,
    PeriodLatency,
    PacketLatency,
    OneWayLatency,
    Unanswered,
)
