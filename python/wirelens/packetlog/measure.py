"""How good a judge of packets is, and how much would be kept in each mode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy

from wirelens.learn.metrics import Array
from wirelens.packetlog.truth import BENIGN, Capture, Truth

# What the figures below are made of, beside what a judge reads.
SIZE_COLUMNS = ("wire_bytes", "network", "ip_header_bytes", "transport_header_bytes")
_LINK_HEADER_LEN = 14
_OTHER_LEN = 64
_PARTIAL_LEN = 128
# No capture holds more of a packet, whatever a damaged one says of its length.
_PACKET_LEN_MAX = 262_144
_ONE_IN = 8
# As `wirelens packetlog` has them: of marked packets and of the others, what is kept.
MODES = {
    "default": ("full", "header"),
    "log-all": ("full", "full"),
    "log-partial": ("partial", "header"),
    "log-sampled": ("full", "sampled"),
    "log-minimum": ("partial", "sampled"),
}
# Attacks are rare where networks are logged; ours are not.
RARE = 0.01


def kept_lens(sizes: Array) -> dict[str, Array]:
    """Of packets the bytes that are kept at each granularity; of sampled ones on average.

    `sizes` has `SIZE_COLUMNS`. The link header is taken for Ethernet's without tags.
    """
    wire, network, ip_header, transport_header = sizes.astype(numpy.int64).T
    wire = wire.clip(0, _PACKET_LEN_MAX)
    headers = _LINK_HEADER_LEN + ip_header.clip(0) + transport_header.clip(0)
    is_ip = (network >= 4) & (ip_header > 0)
    header = numpy.minimum(wire, numpy.where(is_ip, headers, _LINK_HEADER_LEN + _OTHER_LEN))
    return {
        "full": wire.astype(float),
        "header": header.astype(float),
        "partial": numpy.minimum(wire, header + _PARTIAL_LEN).astype(float),
        "sampled": header / _ONE_IN,
    }


@dataclass
class Part:
    """Packets of one capture, label and role, added up."""

    capture: str
    family: str
    label: str
    # The family of attacks.
    kind: str
    role: str
    packets: int
    bytes: int
    # By judge.
    marked: dict[str, int]
    # By judge and mode: bytes, and packets of which anything.
    kept_bytes: dict[str, dict[str, float]] = field(default_factory=dict)
    kept_packets: dict[str, dict[str, float]] = field(default_factory=dict)


def parts(
    capture: Capture, found: Truth, sizes: Array, marks: dict[str, Array]
) -> list[Part]:
    """Adds up what judges marked of a capture."""
    kept = kept_lens(sizes)
    keys = found.codes.astype(numpy.int64) * len(found.roles) + found.role_codes
    made = []
    for key in numpy.unique(keys[found.codes >= 0]):
        code, role = divmod(int(key), len(found.roles))
        mine = keys == key
        part = Part(
            capture.name, capture.family, found.labels[code],
            found.families.get(found.labels[code], found.labels[code]), found.roles[role],
            int(mine.sum()), round(kept["full"][mine].sum()), {},
        )  # fmt: skip
        for judge, marked in marks.items():
            yes, no = mine & marked, mine & ~marked
            part.marked[judge] = int(yes.sum())
            part.kept_bytes[judge], part.kept_packets[judge] = {}, {}
            for mode, (of_marked, of_others) in MODES.items():
                total = kept[of_marked][yes].sum() + kept[of_others][no].sum()
                part.kept_bytes[judge][mode] = float(total)
                share = 1 / _ONE_IN if of_others == "sampled" else 1
                part.kept_packets[judge][mode] = float(yes.sum() + share * no.sum())
        made.append(part)
    return made


@dataclass(frozen=True)
class Quality:
    """A judge on some captures."""

    # Of each attack the part of its packets that was marked.
    recalls: dict[str, float]
    # Of benign packets the part that was marked: of all, and the mean over families of captures.
    false_alarms: float
    false_alarms_by_family: float
    # Of marked packets the part that is anomalous: as the captures are, and were attacks rare.
    precision: float
    precision_if_rare: float
    # Of anomalous packets, all attacks together, the part that was marked.
    recall: float
    accuracy: float

    @property
    def mean_recall(self) -> float:
        """Mean over attacks."""
        return float(numpy.mean(list(self.recalls.values()))) if self.recalls else 0.0

    def found(self, wanted: float) -> int:
        """Attacks of which at least this part was marked."""
        return sum(recall >= wanted for recall in self.recalls.values())


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def quality(made: Sequence[Part], judge: str) -> Quality:
    """How good a judge is."""
    benign = [part for part in made if part.label == BENIGN]
    attacks = [part for part in made if part.label != BENIGN]
    recalls = {
        label: _ratio(*_of([part for part in attacks if part.label == label], judge))
        for label in sorted({part.label for part in attacks})
    }
    wrong, benign_packets = _of(benign, judge)
    right, anomalous_packets = _of(attacks, judge)
    alarms = _ratio(wrong, benign_packets)
    by_family = [
        _ratio(*_of([part for part in benign if part.family == name], judge))
        for name in sorted({part.family for part in benign})
    ]
    recall = _ratio(right, anomalous_packets)
    return Quality(
        recalls,
        alarms,
        float(numpy.mean(by_family)) if by_family else 0.0,
        _ratio(right, right + wrong),
        _ratio(RARE * recall, RARE * recall + (1 - RARE) * alarms),
        recall,
        _ratio(right + benign_packets - wrong, anomalous_packets + benign_packets),
    )


def _of(some: Sequence[Part], judge: str) -> tuple[int, int]:
    return sum(part.marked[judge] for part in some), sum(part.packets for part in some)


def kept(made: Sequence[Part], judge: str, mode: str) -> tuple[float, float]:
    """The parts of packets and of bytes that a mode keeps."""
    packets = sum(part.packets for part in made)
    size = sum(part.bytes for part in made)
    return (
        _ratio(sum(part.kept_packets[judge][mode] for part in made), packets),
        _ratio(sum(part.kept_bytes[judge][mode] for part in made), size),
    )


def by(made: Sequence[Part], key: Callable[[Part], str]) -> dict[str, list[Part]]:
    """Parts put together by something that they have."""
    found: dict[str, list[Part]] = {}
    for part in made:
        found.setdefault(key(part), []).append(part)
    return dict(sorted(found.items()))
