"""The questions that can be asked; each stands here with its arguments and their defaults."""

import datetime
import functools
import os
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from wirelens import _wirelens
from wirelens.errors import OptionError
from wirelens.results import Stream, Table, table_of

if TYPE_CHECKING:
    from wirelens._wirelens import InputOptions, PacketOptions

Path: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = Path | Iterable[Path]
Duration: TypeAlias = str | float | datetime.timedelta


class Packet(NamedTuple):
    """One packet; a value that it does not have is None.

    `docs/guide/python.md` and ``packets(...).fields`` tell what each means.
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
    dst_ip: str | None
    src_port: int | None
    dst_port: int | None
    tcp_flags: int | None
    payload_len: int | None
    malformed: str | None
    frame: bytes | None = None
    payload: bytes | None = None


def top(
    source: Source,
    by: Literal["source", "destination", "pair", "port", "protocol", "flow"] = "source",
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
    max_keys: int = 16_000_000,
) -> Table[Any]:
    """Who sends what: packets and bytes on the wire by a key.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them; ``"-"`` is standard input. What a
        file holds is told from its content: pcap or pcapng, plain, gzip or zstd.
    by
        What to add up by: ``"source"`` or ``"destination"`` address, ``"pair"`` of both,
        ``"port"`` (transport protocol and the lower port), ``"protocol"``, or ``"flow"``
        (both directions of a 5-tuple together, with Community ID).
    n
        Rows, of each window if there are windows; 0 for all.
    window
        Add up each window of this length for itself: seconds, text such as ``"100ms"`` or
        ``"5m"``, or a ``timedelta``. Windows are aligned to the epoch.
    sort
        Order of the rows, largest first.
    filter
        Only frames that pass this expression (pcap-filter(7)); needs libpcap.
    threads
        Threads to use, one per core by default; results do not depend on it.
    seed
        Seed of the hash that spreads keys, drawn by default.
    decapsulate
        Whether GRE, VXLAN, IP-in-IP and GTP-U are opened, and inner headers reported.
    count
        Stop after this many frames, in order of time.
    snaplen
        Use only so many bytes of each frame, as if captured with this limit.
    max_keys
        Keys kept at most, of each window if there are windows; packets of keys beyond are
        counted together.

    Returns
    -------
    Table
        A row for each key: its columns (and ``window_start_ns`` before them with `window`,
        in nanoseconds since the epoch), then ``packets`` and ``bytes``.

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        Where `source` cannot be opened.
    FilterError, FilterUnavailableError
        Where `filter` cannot be used.
    OptionError
        Where another argument cannot mean what was given.

    Warns
    -----
    DamagedCaptureWarning
        Where a capture cannot be read to its end; rows cover what came before.

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
    inputs = _inputs(source, filter, threads, decapsulate, count, snaplen)
    reader = _wirelens.top(
        inputs,
        {
            "by": by,
            "n": n,
            "sort": sort,
            "window": None if window is None else _duration(window),
            "max_keys": max_keys,
            "seed": seed,
        },
    )
    return table_of(reader, _row_of)


def packets(
    source: Source,
    filter: str | None = None,
    *,
    frame: int = 0,
    payload: int = 0,
    batch_size: int = 8192,
    decapsulate: bool = True,
    count: int | None = None,
    snaplen: int | None = None,
) -> Stream[Packet]:
    """Every packet as a row, in batches, however large the capture.

    Packets of several captures come in order of time.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them; ``"-"`` is standard input, which
        can be read once.
    filter
        Only frames that pass this expression (pcap-filter(7)); needs libpcap.
    frame
        Add the column ``frame``: so many of the first bytes that were captured, link header
        included, at most.
    payload
        Add the column ``payload``: so many of the first bytes that the transport carries, at
        most.
    batch_size
        Rows of a batch at most. A batch also ends when it holds 16 MiB of bytes.
    decapsulate
        Whether GRE, VXLAN, IP-in-IP and GTP-U are opened, and inner headers reported.
    count
        Stop after this many frames, in order of time.
    snaplen
        Use only so many bytes of each frame, as if captured with this limit.

    Returns
    -------
    Stream
        Iterates over `Packet` rows; ``.batches()`` gives Arrow record batches.

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        Where `source` cannot be opened.
    FilterError, FilterUnavailableError
        Where `filter` cannot be used.
    OptionError
        Where another argument cannot mean what was given.

    Warns
    -----
    DamagedCaptureWarning
        At the end, where a capture cannot be read to its own.

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
    inputs = _inputs(source, filter, None, decapsulate, count, snaplen)
    options: PacketOptions = {
        "batch_size": batch_size,
        "frame": frame,
        "payload": payload,
    }
    start = functools.partial(_wirelens.packets, inputs, options)
    names = [os.fspath(name) for name in inputs["names"]]
    name = f"packets of {', '.join(names[:3])}{', …' if len(names) > 3 else ''}"
    # Only a packet that has no `frame` has its payload in another place than the row wants it.
    has_payload_alone = payload > 0 and frame <= 0
    return Stream(name, start, _packet_without_frame if has_payload_alone else Packet)


def _packet_without_frame(*values: Any) -> Packet:
    return Packet._make((*values[:-1], None, values[-1]))


@functools.cache
def _row_type(columns: tuple[str, ...]) -> Callable[..., Any]:
    return namedtuple("Row", columns)


def _row_of(columns: list[str]) -> Callable[..., Any]:
    return _row_type(tuple(columns))


def _inputs(
    source: Source,
    filter: str | None,
    threads: int | None,
    decapsulate: bool,
    count: int | None,
    snaplen: int | None,
) -> "InputOptions":
    names = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not names:
        raise OptionError("source: an empty list; give a capture, or a folder of captures")
    return {
        "names": names,
        "filter": filter,
        "count": count,
        "snaplen": snaplen,
        "decapsulate": decapsulate,
        "threads": threads,
    }


def _duration(duration: Duration) -> str:
    """As the command takes it."""
    if isinstance(duration, str):
        return duration
    if isinstance(duration, datetime.timedelta):
        return f"{duration // datetime.timedelta(microseconds=1)}us"
    return f"{duration:.9f}s"
