"""Flows in windows of time: what a model reads of each second of a flow, row by row.

A row is made by the same code as in `wirelens classify`: header bits of the window's first packets,
and numbers of the window, of the one before it, and of its first packets.
`docs/specs/feature-schema.md` defines each.

>>> features = WindowFeatures(packets=1, numbers=["main_packets", "previous_main_bytes"])
>>> table = windows("testdata/testbed/calls/receiver.pcapng.gz", features)
>>> len(table), table.keys()["main"][:2], table.numbers[1, 1]
(21, ['backward', 'forward'], 0.0)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wirelens import _wirelens
from wirelens.classify.tables import CaptureTable, HeaderFields, read_captures
from wirelens.questions import Duration, Source
from wirelens.trees import HeaderBits
from wirelens.views import rows_of

if TYPE_CHECKING:
    from wirelens._wirelens import RowBatches, WindowRows

__all__ = [
    "QUANTITIES",
    "RTP_QUANTITIES",
    "WindowFeatures",
    "WindowTable",
    "window_numbers",
    "windows",
]

SECOND_NS = 1_000_000_000
# What is counted of the packets that go one way.
QUANTITIES = (
    "packets", "bytes", "payload_bytes",
    "size_min_bytes", "size_max_bytes", "size_mean_bytes", "size_variance", "sizes_distinct",
    "gap_min_ns", "gap_max_ns", "gap_mean_ns", "gap_variance",
    "gaps_above_5ms", "gaps_above_15ms", "gaps_above_30ms", "frames_by_size",
)  # fmt: skip
# What is told by RTP headers, where these are readable.
RTP_QUANTITIES = ("rtp_packets", "rtp_timestamps", "rtp_markers", "rtp_streams")
PACKET_NUMBERS = ("size_bytes", "direction", "gap_ns", "offset_ns", "payload_bytes")


def window_numbers(
    packets: int, *, whole: bool = False, previous: bool = True, rtp: bool = False
) -> list[str]:
    """Names of numbers: of the first packets of a window, of the window before, of all of it.

    Parameters
    ----------
    packets
        First packets of the window.
    whole
        Add what is counted of all the window's packets: the row is known at its end only.
    previous
        Add what was counted of the window before.
    rtp
        Add what RTP headers tell.
    """
    quantities = (*QUANTITIES, *RTP_QUANTITIES) if rtp else QUANTITIES
    before = [""] * whole + ["previous_"] * previous
    counted = [
        f"{b}{way}_{what}" for b in before for way in ("main", "back") for what in quantities
    ]
    return [*counted, *(f"pkt{k}_{what}" for k in range(packets) for what in PACKET_NUMBERS)]


@dataclass(frozen=True)
class WindowFeatures(HeaderFields):
    """Which features a flow has in a window.

    Parameters
    ----------
    every_ns
        How long a window is; windows are aligned to the epoch.
    headers
        Of packets in tunnels, the ``"innermost"`` headers or the ``"outermost"``.
    blocks, payload_bytes
        Header bits of each of the first packets, as of `wirelens.classify.features.FlowFeatures`.
    packets
        First packets of the window, 1 to 255.
    numbers
        Names of numbers, in the order of the row; see `window_numbers`.

    Raises
    ------
    OptionError
        If the options contradict each other.
    """

    every_ns: int = SECOND_NS
    headers: str = "innermost"
    blocks: Sequence[str] = ("ipv4", "udp")
    payload_bytes: int = 0
    packets: int = 1
    numbers: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._keep_tuples()
        self.hash()

    def hash(self) -> str:
        """The SHA-256 of the schema, which a model carries."""
        return _wirelens.window_schema(self._options(), self.every_ns)[0]

    def schema(self) -> str:
        """The schema as text: what is hashed."""
        return _wirelens.window_schema(self._options(), self.every_ns)[1]

    def header_bits(self) -> HeaderBits:
        """The same as `wirelens.trees.to_forest` takes it."""
        columns = self._packet_columns()
        return HeaderBits(columns, self.packets, self.headers, self.numbers, self.every_ns)


class WindowTable(CaptureTable):
    """Windows of flows, a row each: those of a flow in order of time."""

    def __init__(
        self,
        rows: "RowBatches",
        features: WindowFeatures,
        files: list[str],
        counts: dict[str, Any],
        summary: str,
    ) -> None:
        super().__init__(rows, files, counts, summary)
        self.features = features
        """What was read of each window."""
        options = features._options()
        self._rows: WindowRows = _wirelens.WindowRows(rows, options, features.every_ns)

    def __repr__(self) -> str:
        return f"<wirelens.WindowTable: {len(self)} windows, {len(self.files)} captures>"

    def keys(self) -> dict[str, list[Any]]:
        """What names each window, column by column.

        Returns
        -------
        dict
            ``file`` (index into `files`), ``community_id``, ``protocol``, ``src_ip``,
            ``src_port``, ``dst_ip``, ``dst_port``, ``first_ns`` (of the flow),
            ``window_start_ns``, ``packets`` (in the window), and ``main``: ``forward`` where the
            way from the source is the main one, or ``backward``.
        """
        return super().keys()

    @property
    def numbers(self) -> "memoryview[float]":
        """The numbers, rows × names, 64-bit floating point."""
        return rows_of(self._rows.numbers(), "d", len(self.features.numbers))

    @property
    def records(self) -> bytes:
        """Compact records of all rows, end to end, as `wirelens.trees.score` takes them."""
        return self._rows.records()


def windows(
    source: Source,
    features: WindowFeatures,
    *,
    filter: str | None = None,
    idle_timeout: Duration = "120s",
    active_timeout: Duration = "1800s",
    max_flows: int = 4_194_304,
    snaplen: int | None = None,
    seed: int | None = None,
) -> WindowTable:
    """The features of every window of every flow of some captures.

    Captures are read one after the other and not merged by time; flows do not continue across them.
    A window in which a flow has no packet is no row.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them; ``"-"`` is standard input.
    features
        What is read of each window; its `headers` set whether tunnels are decapsulated.
    filter, idle_timeout, active_timeout, max_flows, snaplen, seed
        As of `wirelens.classify.features.first_packets`.

    Returns
    -------
    WindowTable
        A row for each window with packets of each flow, of any protocol.

    Raises
    ------
    CaptureNotFoundError, CaptureUnreadableError, NotACaptureError, EmptyCaptureError
        If a capture cannot be opened.
    FilterError, FilterUnavailableError
        If `filter` cannot be used.
    OptionError
        If another argument is invalid.

    Warns
    -----
    DamagedCaptureWarning
        If a capture cannot be read to its end; rows cover the part before.
    """
    rows, files, counts, summary = read_captures(
        lambda inputs, asked, options: _wirelens.windows(inputs, asked, features.every_ns, options),
        source, features, filter=filter, idle_timeout=idle_timeout,
        active_timeout=active_timeout, max_flows=max_flows, snaplen=snaplen, seed=seed,
    )  # fmt: skip
    return WindowTable(rows, features, files, counts, summary)
