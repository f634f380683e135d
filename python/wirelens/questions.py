"""The functions of the package, with their arguments and defaults."""

import contextlib
import datetime
import functools
import os
from collections.abc import Callable, Iterable
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    TypedDict,
    Unpack,
    overload,
)

from wirelens import _wirelens, interrupts, rows
from wirelens.errors import OptionError
from wirelens.results import Stream, Table, table_of
from wirelens.row import Row, row_of

if TYPE_CHECKING:
    from wirelens._wirelens import (
        ClassifyOptions,
        FlowsOptions,
        InputOptions,
        LatencyOptions,
        PacketOptions,
    )

Path: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = Path | Iterable[Path]
Duration: TypeAlias = str | float | datetime.timedelta


class Packet(NamedTuple):
    """One packet; a value that it does not have is None.

    `docs/guide/python.md` and ``packets(...).fields`` describe each.
    """

    time_ns: int | None
    wire_len: int
    captured_len: int
    interface: int
    direction: Literal["inbound", "outbound"] | None
    segments: int
    vlan: int | None
    protocol: str | None
    src_ip: str | None
    src_port: int | None
    dst_ip: str | None
    dst_port: int | None
    tcp_flags: int | None
    payload_len: int | None
    malformed: str | None
    frame: bytes | None = None
    payload: bytes | None = None


class _TopArguments(TypedDict, total=False):
    """Arguments of `top` that do not change what its rows are."""

    threads: int | None
    seed: int | None
    decapsulate: bool
    count: int | None
    snaplen: int | None
    drop_duplicates: Duration | None
    max_keys: int


class _FlowsArguments(TypedDict, total=False):
    """The same of `flows`."""

    filter: str | None
    idle_timeout: Duration
    active_timeout: Duration
    window: Duration | None
    max_flows: int
    threads: int | None
    seed: int | None
    share: tuple[int, int] | None
    decapsulate: bool
    count: int | None
    snaplen: int | None
    drop_duplicates: Duration | None
    batch_size: int
    interface: str | None
    duration: Duration | None


class _ClassifyArguments(TypedDict, total=False):
    """The same of `classify_flows`."""

    every: Duration | None
    unknown_below: float | None
    filter: str | None
    consumers: int
    waiting_max: int
    max_flows: int
    hosts_max: int
    seed: int | None
    share: tuple[int, int] | None
    count: int | None
    snaplen: int | None
    drop_duplicates: Duration | None
    batch_size: int
    interface: str | None
    duration: Duration | None


@overload
def top(
    source: Source,
    by: Literal["source"] = "source",
    n: int = 10,
    window: Duration | None = None,
    sort: Literal["bytes", "packets"] = "bytes",
    filter: str | None = None,
    **arguments: Unpack[_TopArguments],
) -> Table[rows.SourceTotals]: ...
@overload
def top(
    source: Source,
    by: Literal["destination"],
    n: int = 10,
    window: Duration | None = None,
    sort: Literal["bytes", "packets"] = "bytes",
    filter: str | None = None,
    **arguments: Unpack[_TopArguments],
) -> Table[rows.DestinationTotals]: ...
@overload
def top(
    source: Source,
    by: Literal["pair"],
    n: int = 10,
    window: Duration | None = None,
    sort: Literal["bytes", "packets"] = "bytes",
    filter: str | None = None,
    **arguments: Unpack[_TopArguments],
) -> Table[rows.PairTotals]: ...
@overload
def top(
    source: Source,
    by: Literal["port"],
    n: int = 10,
    window: Duration | None = None,
    sort: Literal["bytes", "packets"] = "bytes",
    filter: str | None = None,
    **arguments: Unpack[_TopArguments],
) -> Table[rows.PortTotals]: ...
@overload
def top(
    source: Source,
    by: Literal["protocol"],
    n: int = 10,
    window: Duration | None = None,
    sort: Literal["bytes", "packets"] = "bytes",
    filter: str | None = None,
    **arguments: Unpack[_TopArguments],
) -> Table[rows.ProtocolTotals]: ...
@overload
def top(
    source: Source,
    by: Literal["flow"],
    n: int = 10,
    window: Duration | None = None,
    sort: Literal["bytes", "packets"] = "bytes",
    filter: str | None = None,
    **arguments: Unpack[_TopArguments],
) -> Table[rows.FlowTotals]: ...
@overload
def top(
    source: Source,
    by: Literal["name"],
    n: int = 10,
    window: Duration | None = None,
    sort: Literal["bytes", "packets"] = "bytes",
    filter: str | None = None,
    *,
    hash_names: Path | None = None,
    **arguments: Unpack[_TopArguments],
) -> Table[rows.NameTotals]: ...
@overload
def top(
    *,
    interface: str,
    by: Literal["source", "destination", "pair", "port", "protocol", "flow", "name"] = "source",
    n: int = 10,
    window: Duration | None = None,
    sort: Literal["bytes", "packets"] = "bytes",
    filter: str | None = None,
    duration: Duration | None = None,
    **arguments: Unpack[_TopArguments],
) -> Table[Any]: ...
def top(
    source: Source | None = None,
    by: Literal["source", "destination", "pair", "port", "protocol", "flow", "name"] = "source",
    n: int = 10,
    window: Duration | None = None,
    sort: Literal["bytes", "packets"] = "bytes",
    filter: str | None = None,
    *,
    threads: int | None = None,
    seed: int | None = None,
    decapsulate: bool = True,
    count: int | None = None,
    snaplen: int | None = None,
    drop_duplicates: Duration | None = None,
    max_keys: int = 3_000_000,
    hash_names: Path | None = None,
    interface: str | None = None,
    duration: Duration | None = None,
) -> Table[Any]:
    """Report top talkers: packets and bytes on the wire by a key.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them; ``"-"`` is standard input. The format is
        detected by content: pcap or pcapng, plain, gzip or zstd.
    by
        Key to aggregate by: ``"source"`` or ``"destination"`` address, ``"pair"`` of both,
        ``"port"`` (transport protocol and the lower port), ``"protocol"``, ``"flow"`` (both
        directions of a 5-tuple together, with Community ID), or ``"name"`` (the server name that
        the client sent in TLS, QUIC or HTTP, or queried in DNS; reads payload).
    n
        Rows, with `window` per window; 0 for all.
    window
        Report totals for each window of this length: seconds, text such as ``"100ms"`` or
        ``"5m"``, or a ``timedelta``. Windows are aligned to the epoch.
    sort
        Sort rows by this measure, largest first.
    filter
        Read only frames that match this filter (pcap-filter(7)); needs libpcap.
    threads
        Threads to use, one per core by default; results do not depend on it.
    seed
        Seed of the hash table, random by default.
    decapsulate
        Whether GRE, ERSPAN, VXLAN, Geneve, IP-in-IP and GTP-U are decapsulated, and inner headers
        reported.
    count
        Stop after this many frames, in order of time.
    snaplen
        Use only this many bytes of each frame, as if captured with this snapshot length.
    drop_duplicates
        Drop duplicates, such as those of a SPAN port: packets equal to one this long before, such
        as ``"5ms"``, except for link header, TTL and header checksum; reads on one thread.
    max_keys
        Maximum number of keys, with `window` per window; packets of further keys are counted
        together.
    hash_names
        With ``by="name"``: a file with a key of 32 bytes or more, with which names become
        pseudonyms (HMAC-SHA-256).
    interface
        An interface to listen on instead of `source`; needs root, or CAP_NET_RAW. Capture starts
        with this call; Ctrl-C ends it as `duration` does.
    duration
        Stop listening after this time: seconds, text such as ``"10s"``, or a ``timedelta``.

    Returns
    -------
    Table
        One row per key: its columns (and ``window_start_ns`` before them with `window`,
        in nanoseconds since the epoch), then ``packets`` and ``bytes``.

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        If `source` cannot be opened.
    FilterError, FilterUnavailableError
        If `filter` cannot be used.
    OptionError
        If another argument is invalid.

    Warns
    -----
    DamagedCaptureWarning
        If a capture cannot be read to its end; rows cover the part before.

    Examples
    --------
    >>> import wirelens
    >>> wirelens.top("testdata/demo.pcapng", by="protocol", n=3)
    protocol   packets    bytes
    tcp           3550  1967801
    udp           1130   219304
    ipv6-icmp      149    16813
    >>> table = wirelens.top("testdata/demo.pcapng", by="port", window="10s", n=1)
    >>> [(row.window_start_ns // 10**9, row.port) for row in table]
    [(1795299090, 22), (1795299100, 22), (1795299110, 5001), (1795299120, 5201)]
    """
    inputs = _inputs(
        source, filter, threads, decapsulate, count, snaplen, interface, duration,
        drop_duplicates,
    )  # fmt: skip
    reader = _wirelens.top(
        inputs,
        {
            "by": by,
            "n": n,
            "sort": sort,
            "window": None if window is None else _duration(window),
            "max_keys": max_keys,
            "hash_names": _file(hash_names),
            "seed": seed,
        },
    )
    with interrupts.stopping(reader) if interface is not None else contextlib.nullcontext():
        return table_of(reader, functools.partial(row_of, rows.TOTALS.get(by, Row)))


@overload
def flows(
    source: Source | None = None,
    *,
    stats: Literal[False] = False,
    names: Literal["wirelens"] = "wirelens",
    **arguments: Unpack[_FlowsArguments],
) -> Stream[rows.Flow]: ...
@overload
def flows(
    source: Source | None = None,
    *,
    stats: Literal[True],
    names: Literal["wirelens"] = "wirelens",
    **arguments: Unpack[_FlowsArguments],
) -> Stream[rows.FlowStatistics]: ...
@overload
def flows(
    source: Source | None = None,
    *,
    stats: Literal[False] = False,
    read_names: Literal[True],
    hash_names: Path | None = None,
    **arguments: Unpack[_FlowsArguments],
) -> Stream[rows.NamedFlow]: ...
@overload
def flows(
    source: Source | None = None,
    *,
    stats: Literal[True],
    read_names: Literal[True],
    hash_names: Path | None = None,
    **arguments: Unpack[_FlowsArguments],
) -> Stream[rows.NamedFlowStatistics]: ...
@overload
def flows(
    source: Source | None = None,
    *,
    stats: bool = False,
    names: Literal["nfstream"],
    **arguments: Unpack[_FlowsArguments],
) -> Stream[rows.NfstreamFlow]: ...
def flows(
    source: Source | None = None,
    *,
    filter: str | None = None,
    idle_timeout: Duration = "120s",
    active_timeout: Duration = "1800s",
    window: Duration | None = None,
    stats: bool = False,
    macs: bool = False,
    names: Literal["wirelens", "nfstream"] = "wirelens",
    read_names: bool = False,
    hash_names: Path | None = None,
    max_flows: int = 4_194_304,
    threads: int | None = None,
    seed: int | None = None,
    share: tuple[int, int] | None = None,
    decapsulate: bool = True,
    count: int | None = None,
    snaplen: int | None = None,
    drop_duplicates: Duration | None = None,
    batch_size: int = 8192,
    interface: str | None = None,
    duration: Duration | None = None,
) -> Stream[Any]:
    """Report flows: one row per flow, from its first packet to its end.

    A flow is both directions of one 5-tuple; `docs/guide/flows.md` defines when it ends. Rows are
    produced as flows end, so memory grows with the number of open flows only.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them; ``"-"`` is standard input, which
        can be read once. The format is detected by content.
    filter
        Read only frames that match this filter (pcap-filter(7)); needs libpcap.
    idle_timeout
        Idle timeout: end a flow after this long without a packet: seconds, text such as ``"100ms"``
        or ``"5m"``, or a ``timedelta``.
    active_timeout
        Active timeout: end a flow at this age; its next packet starts a new one.
    window
        Return one row per flow and window of this length in which it has packets. Windows are
        aligned to the epoch.
    stats
        Add 52 columns: sizes in bytes, gaps between packets in nanoseconds, and packets by TCP
        flag, of both directions together and of each.
    macs
        Add ``src_mac`` and ``dst_mac``, the MAC addresses of the flow's first frame; None if the
        link has none.
    names
        Whose names, units and order the columns have: ours, or those of NFStream with
        ``statistical_analysis=True`` (then `stats` and MAC addresses are included, times are in
        milliseconds, and missing values are 0, as there).
    read_names
        Add 9 columns of names from the payload: application protocol, server (SNI, HTTP host, DNS),
        ALPN, TLS version, JA4. Payload is read only then, on one thread.
    hash_names
        The same, with names as pseudonyms (HMAC-SHA-256), with the key in this file, 32 bytes or
        more.
    max_flows
        Maximum number of open flows; beyond, idle ones are evicted, which `end_reason` shows.
    threads
        Threads to use, one per core by default; results do not depend on it.
    seed
        Seed of the hash table, random by default.
    share
        ``(index, count)``: only the flows of this one of `count` shares, at most 64. All shares,
        each read with the same `seed`, together have the rows of one reading. Not with
        `read_names`.
    decapsulate
        Whether GRE, ERSPAN, VXLAN, Geneve, IP-in-IP and GTP-U are decapsulated, and inner headers
        reported.
    count
        Stop after this many frames, in order of time.
    snaplen
        Use only this many bytes of each frame, as if captured with this snapshot length.
    drop_duplicates
        Drop duplicates, such as those of a SPAN port: packets equal to one this long before, such
        as ``"5ms"``, except for link header, TTL and header checksum; reads on one thread.
    batch_size
        Maximum number of rows of a batch.
    interface
        An interface to listen on instead of `source`; needs root, or CAP_NET_RAW. Capture starts
        with this call.
    duration
        Stop listening after this time: seconds, text such as ``"10s"``, or a ``timedelta``.

    Returns
    -------
    Stream
        Iterates over rows; a value that a flow does not have is None. ``.fields`` has the meaning
        and unit of each column, ``.counts`` at the end how flows ended. If `source` is a folder or
        a list, the last column, ``capture``, names the capture of the first packet.

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        If `source` cannot be opened.
    FilterError, FilterUnavailableError
        If `filter` cannot be used.
    OptionError
        If another argument is invalid.

    Warns
    -----
    DamagedCaptureWarning
        At the end, if a capture cannot be read to its end.

    Examples
    --------
    >>> import wirelens
    >>> flows = wirelens.flows("testdata/demo.pcapng", stats=True)
    >>> largest = max(flows, key=lambda flow: flow.src_bytes + flow.dst_bytes)
    >>> print(largest.src_ip, largest.dst_ip, largest.dst_port, largest.end_reason)
    10.20.0.11 203.0.113.10 5001 fin
    >>> {reason: count for reason, count in flows.counts["ended"].items() if count}
    {'fin': 63, 'rst': 2, 'end': 247}
    """
    inputs = _inputs(
        source, filter, threads, decapsulate, count, snaplen, interface, duration,
        drop_duplicates, share,
    )  # fmt: skip
    options: FlowsOptions = {
        "idle_timeout": _duration(idle_timeout),
        "active_timeout": _duration(active_timeout),
        "window": None if window is None else _duration(window),
        "stats": stats,
        "macs": macs,
        "names": names,
        "max_flows": max_flows,
        "read_names": read_names,
        "hash_names": _file(hash_names),
        "batch_size": batch_size,
        "seed": seed,
    }
    start = functools.partial(_wirelens.flows, inputs, options)
    if read_names or hash_names is not None:
        kind: type[Row] = rows.NamedFlowStatistics if stats else rows.NamedFlow
    elif names == "nfstream":
        kind = rows.NfstreamFlow
    else:
        kind = rows.FlowStatistics if stats else rows.Flow
    return Stream(_named("flows", inputs), start, functools.partial(row_of, kind))


@overload
def classify_flows(
    source: Source | None = None,
    model: Path | None = None,
    *,
    by: Literal["flow"] = "flow",
    **arguments: Unpack[_ClassifyArguments],
) -> Stream[rows.Verdict]: ...
@overload
def classify_flows(
    source: Source | None = None,
    model: Path | None = None,
    *,
    by: Literal["host"],
    **arguments: Unpack[_ClassifyArguments],
) -> Stream[rows.HostVerdict]: ...
def classify_flows(
    source: Source | None = None,
    model: Path | None = None,
    *,
    by: Literal["flow", "host"] = "flow",
    every: Duration | None = None,
    unknown_below: float | None = None,
    filter: str | None = None,
    consumers: int = 1,
    waiting_max: int = 65_536,
    max_flows: int = 4_194_304,
    hosts_max: int = 65_536,
    seed: int | None = None,
    share: tuple[int, int] | None = None,
    count: int | None = None,
    snaplen: int | None = None,
    drop_duplicates: Duration | None = None,
    batch_size: int = 8192,
    interface: str | None = None,
    duration: Duration | None = None,
) -> Stream[Any]:
    """Classify flows, by service or device, from their first packets, with a trained model.

    The verdicts are those of the command `wirelens classify`; `docs/guide/classify.md` explains
    them. `wirelens.classify` trains such models.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them; ``"-"`` is standard input, which
        can be read once.
    model
        Name of a shipped cascade, such as ``"services"``, ``"categories"`` or ``"devices"``, or the
        folder of your own: a `pathlib.Path`, or a string with a separator, such as ``"./mine"``.
    by
        What each row describes: a ``"flow"``, or a ``"host"``, whenever its label changes and at
        the end, so that the last row of a host is its verdict. Hosts need a model with host memory.
    every
        Length of windows, such as ``"1s"``, with a model that was trained on windows: each flow is
        classified again in each window in which it has packets.
    unknown_below
        Label a flow ``"unknown"`` if the probability of its likeliest class is below this; 0 gives
        every flow a class. By default the model's threshold.
    filter
        Read only frames that match this filter (pcap-filter(7)); needs libpcap.
    consumers
        Threads for the models after the first; results do not depend on it.
    waiting_max
        Maximum number of flows that wait for more packets; a further one is decided by the last
        model used.
    max_flows
        Maximum number of flows; beyond, idle ones are evicted.
    hosts_max
        Maximum number of hosts in a model's host memory; beyond, the hosts idle for longest are
        evicted.
    seed
        Seed of the hash table, random by default.
    share
        ``(index, count)``: only the flows of this one of `count` shares, at most 64. All shares,
        each read with the same `seed`, together have the rows of one reading. Not with a model that
        reads names or has a memory of hosts.
    count
        Stop after this many frames, in order of time.
    snaplen
        Use only this many bytes of each frame, as if captured with this snapshot length.
    drop_duplicates
        Drop duplicates, such as those of a SPAN port: packets equal to one this long before, such
        as ``"5ms"``, except for link header, TTL and header checksum; reads on one thread.
    batch_size
        Maximum number of rows of a batch.
    interface
        An interface to listen on instead of `source`; needs root, or CAP_NET_RAW. Capture starts
        with this call.
    duration
        Stop listening after this time: seconds, text such as ``"10s"``, or a ``timedelta``.

    Returns
    -------
    Stream
        Iterates over verdicts, in the order in which they are decided. ``.fields`` has the meaning
        and unit of each column, ``.counts`` at the end the numbers of unusual flows. If `source` is
        a folder or a list, the last column, ``capture``, names the capture of the first packet.

    Raises
    ------
    ModelError
        If `model` is missing, was changed, or needs features that this version does not extract.
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        If `source` cannot be opened.
    FilterError, FilterUnavailableError
        If `filter` cannot be used.
    OptionError
        If another argument is invalid.

    Warns
    -----
    DamagedCaptureWarning
        At the end, if a capture cannot be read to its end.

    Examples
    --------
    >>> import collections
    >>> import wirelens
    >>> verdicts = wirelens.classify_flows("testdata/demo.pcapng", "services")
    >>> collections.Counter(verdict.label for verdict in verdicts).most_common(2)
    [('dns', 168), ('unknown', 49)]
    """
    if model is None:
        raise OptionError('model: missing; give "services", "devices" or a folder of yours')
    inputs = _inputs(
        source, filter, None, True, count, snaplen, interface, duration,
        drop_duplicates, share,
    )  # fmt: skip
    options: ClassifyOptions = {
        # A name is a string; a path is a path, whatever it looks like.
        "model": model if isinstance(model, str) else os.path.abspath(model),
        "every": None if every is None else _duration(every),
        "unknown_below": unknown_below,
        "consumers": consumers,
        "waiting_max": waiting_max,
        "max_flows": max_flows,
        "by": by,
        "hosts_max": hosts_max,
        "batch_size": batch_size,
        "seed": seed,
    }
    start = functools.partial(_wirelens.classify_flows, inputs, options)
    kind: type[Row] = rows.HostVerdict if by == "host" else rows.Verdict
    return Stream(_named("classify_flows", inputs), start, functools.partial(row_of, kind))


def latency(
    source: Source | None = None,
    by: Literal["flow", "destination", "packet"] = "flow",
    every: Duration | None = None,
    filter: str | None = None,
    *,
    egress: Source | None = None,
    egress_offset: Duration | None = None,
    delayed_ack: Duration | None = None,
    sharp_change: Duration = "20ms",
    sharp_share: float = 0.2,
    max_flows: int = 262_144,
    max_waiting: int = 1_048_576,
    seed: int | None = None,
    share: tuple[int, int] | None = None,
    decapsulate: bool = True,
    count: int | None = None,
    snaplen: int | None = None,
    drop_duplicates: Duration | None = None,
    batch_size: int = 8192,
    interface: str | None = None,
    duration: Duration | None = None,
) -> Stream[Any]:
    """RTT, jitter, retransmissions and queueing delay of flows, destinations or packets.

    RTT is measured from the capture point to an end and back, by the answer to a packet: an ACK
    (cumulative or selective, with timestamps), a DNS response, QUIC's spin bit.
    `docs/guide/latency.md` defines every column.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them; ``"-"`` is standard input, which
        can be read once.
    by
        What each row describes: a ``"flow"`` that has ended, a ``"destination"``, which is an
        address that answers, or a ``"packet"`` and its latency.
    every
        Report destinations for each period of this length: seconds, text such as ``"10s"``, or a
        ``timedelta``.
    filter
        Read only frames that match this filter (pcap-filter(7)); needs libpcap.
    egress
        Captures of a second tap: rows are one-way delays of each direction of a flow, or of each
        packet with ``by="packet"``.
    egress_offset
        Added to the timestamps of the second tap; by default estimated from the smallest delays,
        ``0`` for taps of one clock.
    delayed_ack
        Shortest delayed-ACK timer, by default 35 ms: an ACK of a single packet that is later than
        the minimum RTT by this much is marked, and is no RTT sample.
    sharp_change, sharp_share
        A sharp change is at least this much, and at least this share of the latency before.
    max_flows, max_waiting
        Maximum numbers of flows measured, and of packets that wait for an ACK, over all flows;
        further ones are counted.
    seed
        Seed of the hash table, random by default.
    share
        ``(index, count)``: only the flows of this one of `count` shares, at most 64. All shares,
        each read with the same `seed`, together have the rows of one reading. Only with
        ``by="flow"`` and without `egress`.
    decapsulate
        Whether GRE, ERSPAN, VXLAN, Geneve, IP-in-IP and GTP-U are decapsulated, and inner headers
        reported.
    count
        Stop after this many frames, in order of time.
    snaplen
        Use only this many bytes of each frame, as if captured with this snapshot length.
    drop_duplicates
        Drop duplicates, such as those of a SPAN port: packets equal to one this long before, such
        as ``"5ms"``, except for link header, TTL and header checksum; reads on one thread.
    batch_size
        Maximum number of rows of a batch.
    interface
        An interface to listen on instead of `source`; needs root, or CAP_NET_RAW. Capture starts
        with this call.
    duration
        Stop listening after this time: seconds, text such as ``"10s"``, or a ``timedelta``.

    Returns
    -------
    Stream
        Iterates over rows; a value that a row does not have is None. ``.fields`` has the
        meaning and unit of each column, ``.counts`` at the end the packets not measured, by cause.

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        If `source` cannot be opened.
    FilterError, FilterUnavailableError
        If `filter` cannot be used.
    OptionError
        If another argument is invalid.

    Warns
    -----
    DamagedCaptureWarning
        At the end, if a capture cannot be read to its end.

    Examples
    --------
    >>> import wirelens
    >>> flows = wirelens.latency("testdata/demo.pcapng", filter="tcp port 5001")
    >>> for flow in flows:
    ...     print(flow.dst_ip, flow.dst_rtt_min_ns // 1000, flow.src_retransmissions, flow.slow_end)
    203.0.113.10 20139 36 destination
    >>> packets = wirelens.latency("testdata/demo.pcapng", by="packet")
    >>> sum(packet.method == "ack" for packet in packets)
    1748
    """
    inputs = _inputs(
        source, filter, None, decapsulate, count, snaplen, interface, duration,
        drop_duplicates, share,
    )  # fmt: skip
    paths = [egress] if isinstance(egress, (str, os.PathLike)) else list(egress or ())
    options: LatencyOptions = {
        "by": by,
        "every": None if every is None else _duration(every),
        "delayed_ack": None if delayed_ack is None else _duration(delayed_ack),
        "sharp_change": _duration(sharp_change),
        "sharp_share": sharp_share,
        "egress": paths,
        "egress_offset": None if egress_offset is None else _duration(egress_offset),
        "max_flows": max_flows,
        "max_waiting": max_waiting,
        "batch_size": batch_size,
        "seed": seed,
    }
    start = functools.partial(_wirelens.latency, inputs, options)
    kind: type[Row] = rows.FlowLatency
    if by == "packet":
        kind = rows.PacketLatency
    elif by == "destination":
        kind = rows.DestinationLatency if every is None else rows.PeriodLatency
    elif egress is not None:
        kind = rows.OneWayLatency
    return Stream(_named("latency", inputs), start, functools.partial(row_of, kind))


def packets(
    source: Source | None = None,
    filter: str | None = None,
    *,
    frame: int = 0,
    payload: int = 0,
    batch_size: int = 8192,
    decapsulate: bool = True,
    count: int | None = None,
    snaplen: int | None = None,
    drop_duplicates: Duration | None = None,
    interface: str | None = None,
    duration: Duration | None = None,
) -> Stream[Packet]:
    """Every packet as a row, in batches, however large the capture.

    Packets of several captures are merged in order of time.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them; ``"-"`` is standard input, which
        can be read once.
    filter
        Read only frames that match this filter (pcap-filter(7)); needs libpcap.
    frame
        Add the column ``frame``: at most this many of the first captured bytes, including the link
        header.
    payload
        Add the column ``payload``: at most this many of the first bytes of transport payload.
    batch_size
        Maximum number of rows of a batch. A batch also ends at 16 MiB.
    decapsulate
        Whether GRE, ERSPAN, VXLAN, Geneve, IP-in-IP and GTP-U are decapsulated, and inner headers
        reported.
    count
        Stop after this many frames, in order of time.
    snaplen
        Use only this many bytes of each frame, as if captured with this snapshot length.
    drop_duplicates
        Drop duplicates, such as those of a SPAN port: packets equal to one this long before, such
        as ``"5ms"``, except for link header, TTL and header checksum; reads on one thread.
    interface
        An interface to listen on instead of `source`; needs root, or CAP_NET_RAW. Capture starts
        with this call.
    duration
        Stop listening after this time: seconds, text such as ``"10s"``, or a ``timedelta``.

    Returns
    -------
    Stream
        Iterates over `Packet` rows; ``.batches()`` gives Arrow record batches.

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        If `source` cannot be opened.
    FilterError, FilterUnavailableError
        If `filter` cannot be used.
    OptionError
        If another argument is invalid.

    Warns
    -----
    DamagedCaptureWarning
        At the end, if a capture cannot be read to its end.

    Examples
    --------
    >>> import wirelens
    >>> for packet in wirelens.packets("testdata/demo.pcapng", payload=4, count=400):
    ...     if packet.dst_port == 80 and packet.payload:
    ...         print(packet.time_ns, packet.src_ip, packet.payload)
    ...         break
    1795299099207500682 10.20.0.11 b'GET '
    >>> syn = sum(p.tcp_flags == 2 for p in wirelens.packets("testdata/demo.pcapng"))
    >>> syn
    65
    """
    inputs = _inputs(
        source, filter, None, decapsulate, count, snaplen, interface, duration,
        drop_duplicates,
    )  # fmt: skip
    options: PacketOptions = {
        "batch_size": batch_size,
        "frame": frame,
        "payload": payload,
    }
    start = functools.partial(_wirelens.packets, inputs, options)
    return Stream(_named("packets", inputs), start, _packet_of)


def _packet_of(columns: list[str]) -> Callable[..., Packet]:
    # Only a packet that has no `frame` has its payload in another place than the row wants it.
    has_payload_alone = "payload" in columns and "frame" not in columns
    return _packet_without_frame if has_payload_alone else Packet


def _packet_without_frame(*values: Any) -> Packet:
    return Packet._make((*values[:-1], None, values[-1]))


def _named(question: str, inputs: "InputOptions") -> str:
    names = [os.fspath(name) for name in inputs["names"]] or [inputs["interface"] or ""]
    return f"{question} of {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"


def _inputs(
    source: Source | None,
    filter: str | None,
    threads: int | None,
    decapsulate: bool,
    count: int | None,
    snaplen: int | None,
    interface: str | None = None,
    duration: Duration | None = None,
    drop_duplicates: Duration | None = None,
    share: tuple[int, int] | None = None,
) -> "InputOptions":
    if (source is None) == (interface is None):
        raise OptionError("source, interface: give captures or an interface, not both")
    if source is None:
        names = []
    else:
        names = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not names and interface is None:
        raise OptionError("source: an empty list; give a capture, or a folder of captures")
    return {
        "names": names,
        "filter": filter,
        "count": count,
        "snaplen": snaplen,
        "decapsulate": decapsulate,
        "threads": threads,
        "interface": interface,
        "duration": None if duration is None else _duration(duration),
        "drop_duplicates": None if drop_duplicates is None else _duration(drop_duplicates),
        "share": share,
    }


def _file(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


def _duration(duration: Duration) -> str:
    """As the command takes it."""
    if isinstance(duration, str):
        return duration
    if isinstance(duration, datetime.timedelta):
        return f"{duration // datetime.timedelta(microseconds=1)}us"
    return f"{duration:.9f}s"
