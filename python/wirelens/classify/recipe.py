"""What models are told of a flow's first packets: blocks of header bits, payload, numbers."""

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy

from wirelens.classify.features import FlowFeatures
from wirelens.errors import OptionError
from wirelens.learn.metrics import Array

# Numbers of the flow, and of each of its packets; see docs/specs/feature-schema.md.
FLOW_NUMBERS = ("protocol", "server_port", "client_port")
PACKET_NUMBERS = ("size_bytes", "direction", "gap_ns", "payload_bytes")
# What the port table looks at.
PORT_NUMBERS = ("protocol", "server_port")

# Left out unless asked for. A model would learn them by heart, and they mean nothing elsewhere:
# addresses say which hosts the captures were made with; checksums are a function of these and of
# the rest; sequence numbers and identifications are drawn at random or count what a host has
# sent, so they tell one run of a host and not a class.
DROPPED = (
    "ipv4_src_*", "ipv4_dst_*", "ipv6_src_*", "ipv6_dst_*",
    "ipv4_cksum_*", "tcp_cksum_*", "udp_cksum_*", "icmp_cksum_*",
    "ipv4_id_*", "ipv6_fl_*", "tcp_seq_*", "tcp_ackn_*",
)  # fmt: skip
# What --no-ports takes away in addition.
PORTS = ("tcp_sprt_*", "tcp_dprt_*", "udp_sport_*", "udp_dport_*", "server_port", "client_port")

_PACKET = re.compile(r"pkt(\d+)_(.*)")
# byte:16, byte:34-63, and either of some packets alone: byte:0-27@0-2.
_BYTES = re.compile(r"byte:(\d+)(?:-(\d+))?(?:@(\d+)(?:-(\d+))?)?")


def packet_of(column: str) -> int:
    """The packet that a column of a row is of; 0 for numbers of the flow."""
    found = _PACKET.fullmatch(column)
    return int(found[1]) if found else 0


def _bare(column: str) -> str:
    """A column's name without its packet."""
    found = _PACKET.fullmatch(column)
    return found[2] if found else column


@dataclass(frozen=True)
class Recipe:
    """What is extracted of each flow, whatever the depth."""

    blocks: tuple[str, ...] = ("ipv4", "tcp", "udp")
    payload_bytes: int = 0
    # As typed: numbers of the flow, `size_bytes` and the like for every packet, `byte:N` for
    # the first N bytes of every packet's payload, `byte:A-B` for these, `@P-Q` behind it for those
    # of packets P to Q (from 0), or full names such as `pkt1_gap_ns`.
    numbers: tuple[str, ...] = (
        "protocol",
        "server_port",
        "size_bytes",
        "direction",
        "gap_ns",
        "payload_bytes",
    )
    dropped: tuple[str, ...] = DROPPED
    headers: str = "innermost"
    # Columns in which no more training flows than this differ from the rest are left out.
    rare_max: int = 0
    identity: str = "kept"

    def number_names(self, packets: int) -> list[str]:
        """The numbers of a row of so many packets: of the flow, then packet by packet."""
        of_flow, by_packet = [], []
        named: list[str] = []
        for word in self.numbers:
            if word in FLOW_NUMBERS:
                of_flow.append(word)
            elif word in PACKET_NUMBERS:
                by_packet.append(word)
            elif _BYTES.fullmatch(word):
                named += _bytes(word, packets)
            elif _PACKET.fullmatch(word):
                named.append(word)
            else:
                raise OptionError(
                    f"number {word!r}; wanted: {', '.join((*FLOW_NUMBERS, *PACKET_NUMBERS))}, "
                    "byte:16, byte:0-27@0-2 or such as pkt1_gap_ns"
                )
        names = list(of_flow)
        for k in range(packets):
            names += [f"pkt{k}_{kind}" for kind in by_packet]
            names += [name for name in named if packet_of(name) == k]
        return [name for name in dict.fromkeys(names) if not self.is_dropped(name)]

    def is_dropped(self, column: str) -> bool:
        """Whether a column, with its packet or without, is left out."""
        bare = _bare(column)
        return any(fnmatch.fnmatchcase(bare, pattern) for pattern in self.dropped)

    def idle_patterns(self, packets: int) -> list[str]:
        """Patterns beyond the usual ones that no column has."""
        bits = FlowFeatures(self.headers, self.blocks, self.payload_bytes, 1).bit_columns()
        numbers = replace(self, dropped=()).number_names(packets)
        names = {_bare(name) for name in (*bits, *numbers)}
        asked = [pattern for pattern in self.dropped if pattern not in (*DROPPED, *PORTS)]
        return [pattern for pattern in asked if not fnmatch.filter(names, pattern)]

    def bit_column_count(self) -> int:
        """How many bits of a packet are not left out."""
        names = FlowFeatures(self.headers, self.blocks, self.payload_bytes, 1).bit_columns()
        return sum(not self.is_dropped(name) for name in names)

    def features(self, packets: int, numbers: Sequence[str] | None = None) -> FlowFeatures:
        """The schema of a model of so many packets."""
        return FlowFeatures(
            headers=self.headers,
            blocks=self.blocks,
            payload_bytes=self.payload_bytes,
            packets=packets,
            numbers=self.number_names(packets) if numbers is None else numbers,
            identity=self.identity,
        )


def _bytes(word: str, packets: int) -> list[str]:
    """Names of the payload bytes that `byte:…` asks of a row of so many packets."""
    found = _BYTES.fullmatch(word)
    assert found is not None
    first, last, packet, packet_last = (None if g is None else int(g) for g in found.groups())
    assert first is not None
    if last is None:
        first, last = 0, first - 1
    if packet is None:
        packet, packet_last = 0, packets - 1
    rows = range(packet, min(packets - 1, packet if packet_last is None else packet_last) + 1)
    return [f"pkt{row}_byte_{index}" for row in rows for index in range(first, last + 1)]


class Sifter:
    """Columns worth keeping: not constant, and not the same as one before, on training flows.

    Columns are offered packet by packet, so what is kept for a depth is what begins the list for
    a greater one.
    """

    def __init__(self, rare_max: int = 0) -> None:
        self._seen: set[bytes] = set()
        self._rare_max = rare_max
        self.constant = 0
        self.duplicate = 0

    def _is_constant(self, column: Array) -> bool:
        if len(column) == 0 or (column == column[0]).all():
            return True
        if self._rare_max == 0:
            return False
        return bool(
            len(column) - numpy.unique(column, return_counts=True)[1].max() <= self._rare_max
        )

    def keep(self, values: Array, names: Iterable[str]) -> list[str]:
        """Of these columns, values by row and column, the names of those to keep."""
        columns = numpy.ascontiguousarray(numpy.asarray(values).T)
        kept = []
        for name, column in zip(names, columns, strict=True):
            if self._is_constant(column):
                self.constant += 1
                continue
            # As numbers, so that a bit and a number of the same values are the same.
            plain = column.astype(numpy.float64).tobytes()
            # 128 bits: two columns that differ are never taken for one.
            digest = hashlib.blake2b(plain, digest_size=16).digest()
            if digest in self._seen:
                self.duplicate += 1
                continue
            self._seen.add(digest)
            kept.append(name)
        return kept
