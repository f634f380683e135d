"""Features of flows: the input of a model from a flow's first packets, row by row.

A row is made by the same code as in `wirelens classify`, so that training and serving cannot
differ: header bits of the first packets, and numbers. `docs/specs/feature-schema.md` defines each,
to the bit.

>>> features = FlowFeatures(packets=2, numbers=["server_port", "pkt1_size_bytes"])
>>> table = first_packets("testdata/demo.pcapng", features)
>>> len(table), table.keys()["dst_port"][:3]
(312, [443, 443, 22])
>>> table.numbers[0, 1], table.bits(["pkt0_tcp_syn_0", "pkt0_udp_len_0"])[0, 0]
(80.0, 1)
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from wirelens import _wirelens, trees
from wirelens._wirelens import Forest
from wirelens.classify.tables import CaptureTable, HeaderFields, read_captures
from wirelens.errors import ModelError
from wirelens.questions import Duration, Source
from wirelens.views import rows_of

if TYPE_CHECKING:
    from wirelens._wirelens import FirstRows, RowBatches

__all__ = ["FirstPacketsTable", "FlowFeatures", "first_packets"]


@dataclass(frozen=True)
class FlowFeatures(HeaderFields):
    """Features of a flow: header bits of its first packets, and numbers.

    Parameters
    ----------
    headers
        Of packets in tunnels, the ``"innermost"`` headers or the ``"outermost"``.
    blocks
        Headers, out of ``"ipv4"``, ``"ipv6"``, ``"tcp"``, ``"udp"`` and ``"icmp"``; their order
        is always that of nPrint.
    payload_bytes
        This many of the first bytes after the transport header, as bits.
    packets
        First packets of a flow, 1 to 255.
    numbers
        Names of numbers, in the order of the row: ``protocol``, ``server_port``,
        ``client_port``, and of packet 0 and those after it ``pkt0_size_bytes``,
        ``pkt0_direction``, ``pkt0_gap_ns``, ``pkt0_payload_bytes``, and ``pkt0_byte_0`` and so on
        up to `payload_bytes`.
    identity
        ``"kept"``: bits and bytes as packets have them. ``"masked"``: only fields that every unit
        of a product fills in alike, in any network; addresses, names, ids and the like are absent.

    Raises
    ------
    OptionError
        If the options contradict each other.
    """

    headers: str = "innermost"
    blocks: Sequence[str] = ("ipv4", "tcp", "udp")
    payload_bytes: int = 0
    packets: int = 10
    numbers: Sequence[str] = ()
    identity: str = "kept"

    def __post_init__(self) -> None:
        self._keep_tuples()
        self.hash()

    def hash(self) -> str:
        """The SHA-256 of the schema, which a model carries."""
        return _wirelens.flow_schema(self._options())[0]

    def schema(self) -> str:
        """The schema as text: what is hashed."""
        return _wirelens.flow_schema(self._options())[1]

    def row_columns(self) -> list[str]:
        """Names of a row's columns: all header bits, then the numbers."""
        return [*self.bit_columns(), *self.numbers]

    def first(self, packets: int, numbers: Sequence[str] | None = None) -> "FlowFeatures":
        """The features of fewer packets: the beginning of these.

        `numbers` are those of these features that are of no later packet, unless told.
        """
        if numbers is None:
            later = tuple(f"pkt{packet}_" for packet in range(packets, self.packets))
            numbers = [name for name in self.numbers if not name.startswith(later)]
        return dataclasses.replace(self, packets=packets, numbers=numbers)

    def header_bits(self) -> trees.HeaderBits:
        """The same as `wirelens.trees.to_forest` takes it."""
        return trees.HeaderBits(
            self._packet_columns(), self.packets, self.headers, self.numbers, identity=self.identity
        )


class Timeouts(TypedDict):
    """When flows end, and how many are kept open."""

    idle_timeout: Duration
    active_timeout: Duration
    max_flows: int


class FirstPacketsTable(CaptureTable):
    """Flows of captures, a row each, in the order of the captures and in each as flows ended."""

    def __init__(
        self,
        rows: "RowBatches",
        features: FlowFeatures,
        files: list[str],
        counts: dict[str, Any],
        summary: str,
        timeouts: Timeouts,
    ) -> None:
        super().__init__(rows, files, counts, summary)
        self.features = features
        """What was read of each flow."""
        self.timeouts = timeouts
        """When flows ended."""
        self._rows: FirstRows = _wirelens.FirstRows(rows, features._options())

    def __repr__(self) -> str:
        packets, numbers = self.features.packets, len(self.features.numbers)
        return (
            f"<wirelens.FirstPacketsTable: {len(self)} flows of {len(self.files)} captures, "
            f"{packets} packets and {numbers} numbers each>"
        )

    def keys(self) -> dict[str, list[Any]]:
        """What names each flow, column by column.

        Returns
        -------
        dict
            ``file`` (index into `files`), ``community_id``, ``protocol`` (as text, such as
            ``tcp``), ``src_ip``, ``src_port``, ``dst_ip``, ``dst_port``, ``first_ns``, ``last_ns``
            (None where a capture has no stamps), ``packets``, ``bytes`` (on the wire),
            ``long_packets`` (of those that were kept, above 1,500 bytes or known to be several
            that an offload merged) and ``end_reason``.
        """
        return super().keys()

    @property
    def numbers(self) -> "memoryview[float]":
        """The numbers, rows × names, 64-bit floating point."""
        return self.numbers_of(self.features.numbers)

    def numbers_of(self, names: Iterable[str]) -> "memoryview[float]":
        """Some of the numbers, rows × names, in the order of the names.

        Raises
        ------
        OptionError
            If a name is none of the features'.
        """
        chosen = list(names)
        return rows_of(self._rows.numbers_of(chosen), "d", len(chosen))

    @property
    def records(self) -> bytes:
        """Compact records of all rows, end to end, as `wirelens.trees.score` takes them."""
        return self._rows.records_of(self.features.packets)

    def records_of(self, packets: int) -> bytes:
        """The same of fewer packets of each row."""
        return self._rows.records_of(packets)

    @property
    def record_len(self) -> int:
        """Bytes of the record of one packet."""
        return self._rows.record_len

    def score(self, forest: Forest) -> "memoryview[float]":
        """A probability for each class of each row, by trees of these features or of fewer packets.

        Raises
        ------
        ModelError
            If the trees were trained on other features.
        """
        packets, numbers = forest.packet_count, forest.numbers
        own = None
        if packets <= self.features.packets and set(numbers) <= set(self.features.numbers):
            own = self.features.first(packets, numbers)
        if own is None or own.hash() != forest.schema:
            raise ModelError(
                f"trees of the schema {forest.schema[:12]}…, of {packets} packets and "
                f"{len(numbers)} numbers; wanted: that of the rows, or of fewer packets of them; "
                "extract the features that the model was trained on"
            )
        return trees.score(forest, self.records_of(packets), packets, self.numbers_of(numbers))

    def varying_bits(self, rows: Iterable[bool] | None = None) -> list[str]:
        """Names of the header bits that are not the same in all rows, in order.

        What never changes teaches nothing: ask for these, and for no matrix of all.

        Parameters
        ----------
        rows
            For each row whether it counts, as a list or a NumPy array of booleans; all do unless
            told.
        """
        if rows is None:
            return self._rows.varying()
        return self._rows.varying(bytes(map(bool, rows)))


def first_packets(
    source: Source,
    features: FlowFeatures,
    *,
    filter: str | None = None,
    idle_timeout: Duration = "120s",
    active_timeout: Duration = "1800s",
    max_flows: int = 4_194_304,
    snaplen: int | None = None,
    seed: int | None = None,
) -> FirstPacketsTable:
    """The features of every flow of some captures.

    Captures are read one after the other and not merged by time; flows do not continue across them.
    A flow ends as `wirelens.flows` ends it; one that continues after a timeout is another row.

    Parameters
    ----------
    source
        A capture, a folder of captures, or a list of them; ``"-"`` is standard input.
    features
        What is read of each flow; its `headers` set whether tunnels are decapsulated.
    filter
        Read only frames that match this filter (pcap-filter(7)); needs libpcap.
    idle_timeout
        Idle timeout: end a flow after this long without a packet: seconds, text such as ``"100ms"``
        or ``"5m"``, or a ``timedelta``.
    active_timeout
        Active timeout: end a flow at this age; its next packet starts a new one.
    max_flows
        Maximum number of open flows; beyond, idle ones are evicted, which `end_reason` shows.
    snaplen
        Use only this many bytes of each frame, as if captured with this snapshot length.
    seed
        Seed of the hash table, random by default.

    Returns
    -------
    FirstPacketsTable
        One row per flow, of any protocol.

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
    timeouts: Timeouts = {
        "idle_timeout": idle_timeout, "active_timeout": active_timeout, "max_flows": max_flows,
    }  # fmt: skip
    rows, files, counts, summary = read_captures(
        _wirelens.first_packets, source, features, filter=filter, snaplen=snaplen, seed=seed,
        **timeouts,
    )  # fmt: skip
    return FirstPacketsTable(rows, features, files, counts, summary, timeouts)
