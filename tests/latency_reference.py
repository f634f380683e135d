"""What tshark and tcptrace say of round trips: the references that `wirelens latency` is held to."""

import csv
import io
import ipaddress
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from command import wirelens

# A packet: when it was seen, by whom it was sent, its first sequence number.
Key = tuple[int, str, str, str]

FIELDS = (
    "frame.number", "frame.time_epoch", "ip.src", "ipv6.src", "tcp.srcport", "tcp.seq_raw",
    "tcp.len", "tcp.flags", "tcp.analysis.acks_frame", "tcp.analysis.ack_rtt",
    "tcp.analysis.retransmission", "tcp.analysis.out_of_order", "tcp.analysis.keep_alive",
    "tcp.analysis.spurious_retransmission",
)  # fmt: skip


def ns(seconds: str) -> int:
    """Nanoseconds of a decimal fraction of seconds."""
    whole, _, part = seconds.partition(".")
    return int(whole) * 10**9 + int(part.ljust(9, "0")[:9])


@dataclass
class Reference:
    """What tshark finds."""

    rtts: dict[Key, int] = field(default_factory=dict)
    """`tcp.analysis.ack_rtt`, by the packet that the ACK is of (`tcp.analysis.acks_frame`)."""
    places: dict[Key, str] = field(default_factory=dict)
    """What tshark calls each packet with data, SYN or FIN."""


def place_of(values: dict[str, str]) -> str:
    for name in ("keep_alive", "spurious_retransmission", "retransmission", "out_of_order"):
        if values[f"tcp.analysis.{name}"]:
            return name
    return "new"


def tshark(path: Path) -> Reference:
    """Every ACK's round trip, and every retransmission, as tshark sees them."""
    arguments = ["tshark", "-n", "-r", str(path), "-Y", "tcp", "-T", "fields"]
    arguments += ["-E", "separator=,", "-E", "occurrence=l"]
    arguments += [word for name in FIELDS for word in ("-e", name)]
    done = subprocess.run(arguments, capture_output=True, check=True, text=True, timeout=300)
    found, keys = Reference(), dict[str, Key]()
    for line in done.stdout.splitlines():
        values = dict(zip(FIELDS, line.split(","), strict=True))
        source = values["ip.src"] or values["ipv6.src"]
        key = (ns(values["frame.time_epoch"]), source, values["tcp.srcport"],
               values["tcp.seq_raw"])  # fmt: skip
        keys[values["frame.number"]] = key
        if int(values["tcp.len"] or 0) or int(values["tcp.flags"], 16) & 3:
            found.places[key] = place_of(values)
        if values["tcp.analysis.ack_rtt"]:
            found.rtts[keys[values["tcp.analysis.acks_frame"]]] = ns(values["tcp.analysis.ack_rtt"])
    return found


def packets(path: Path, *arguments: str) -> dict[Key, dict[str, str]]:
    """The TCP packets of `wirelens latency --by packet`."""
    ran = wirelens("latency", "-q", "-r", path, "--by", "packet", "--format", "csv", *arguments)
    assert ran.status == 0, ran.stderr
    return {
        (int(row["time_ns"]), row["src_ip"], row["src_port"], row["seq"]): row
        for row in csv.DictReader(io.StringIO(ran.stdout.decode()))
        if row["protocol"] == "tcp"
    }


def compare_rtts(reference: Reference, ours: dict[Key, dict[str, str]]) -> Counter[str]:
    """Each of tshark's values by what we say of the same packet."""
    classes: Counter[str] = Counter()
    for key, rtt in reference.rtts.items():
        row = ours.get(key)
        if row is None:
            classes[f"no row ({reference.places.get(key)})"] += 1
        elif not row["latency_ns"]:
            classes[row["missing"]] += 1
        elif int(row["latency_ns"]) == rtt:
            classes["equal"] += 1
        else:
            classes[f"differs ({row['method']})"] += 1
    for key, row in ours.items():
        if row["answered"] == "1" and key not in reference.rtts:
            late = ", late" if row["place"] == "late" else ""
            classes[f"ours alone ({row['method']}{late})"] += 1
    return classes


def compare_places(
    reference: Reference, ours: dict[Key, dict[str, str]]
) -> Counter[tuple[str, str]]:
    """What tshark calls a packet, and what we do."""
    pairs: Iterable[tuple[str, str]] = (
        (place, ours[key]["place"] if key in ours else "none")
        for key, place in reference.places.items()
    )
    return Counter(pairs)


@dataclass(frozen=True)
class TcptraceRow:
    """What tcptrace says of one direction of a connection."""

    samples: int
    min_ms: float
    avg_ms: float
    max_ms: float
    retransmitted: int


def plain(host: str) -> str:
    """An address as everybody else writes it: tcptrace pads the groups of IPv6."""
    address, _, port = host.rpartition(":")
    return f"{ipaddress.ip_address(address)}:{port}"


def tcptrace(path: Path) -> dict[tuple[str, str], TcptraceRow]:
    """RTT samples by sender and receiver, each an address and a port."""
    done = subprocess.run(
        ["tcptrace", "-lrn", str(path)], capture_output=True, check=True, text=True, timeout=300
    )
    found = {}
    for block in re.split(r"^TCP connection \d+:$", done.stdout, flags=re.M)[1:]:
        hosts = re.findall(r"^\s+host \w+:\s+(\S+)$", block, re.M)
        if len(hosts) != 2:
            continue

        def both(name: str, text: str = block) -> list[str]:
            row = re.search(rf"^\s+{re.escape(name)}:\s+(\S+).*?{re.escape(name)}:\s+(\S+)",
                            text, re.M)  # fmt: skip
            return list(row.groups()) if row else ["0", "0"]

        rows = [both(name) for name in ("RTT samples", "RTT min", "RTT avg", "RTT max",
                                        "rexmt data pkts")]  # fmt: skip
        hosts = [plain(host) for host in hosts]
        for side, pair in enumerate((hosts, hosts[::-1])):
            values = [row[side] for row in rows]
            found[(pair[0], pair[1])] = TcptraceRow(
                int(values[0]), *map(float, values[1:4]), int(values[4])
            )
    return found
