"""What tshark finds in a capture: the reference that Wirelens is held to.

tshark is told to know only the protocols that Wirelens reads (`READ`): every other dissector is
switched off in a configuration of its own, so that neither the user's settings nor the rest of
Wireshark take part. What it then finds is compared without exceptions, but for those that
`test_against_tshark.py` lists. What the rest of Wireshark would have found is a test of its own.
"""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

# Wireshark's names of the protocols that Wirelens reads, and of what they hang on.
READ = frozenset(
    """frame file-pcap file-pcapng pkt_ccc _ws.malformed data communityid
    eth ethertype vlan ieee8021ad mpls pwethheuristic pwethcw pwethnocw pppoe pppoes pppoed ppp
    chdlc sll null raw llc arp
    ip ipv6 ipv6.hopopts ipv6.dstopts ipv6.routing ipv6.fraghdr ah mip6 hip shim6
    gre vxlan gtp
    tcp udp udplite dccp sctp icmp icmpv6""".split()
)

# Packets are taken as they are: nothing is put together, nothing is looked up.
PREFERENCES = (
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.analyze_sequence_numbers:FALSE",
)

TRANSPORTS = {
    "tcp": "tcp", "udp": "udp", "udplite": "udp", "sctp": "sctp", "dccp": "dccp",
    "icmp": "icmp", "icmpv6": "icmpv6",
}
# Where each header that passes on to another keeps what comes next.
NEXT_HEADERS = {
    "ip": "ip.proto", "ipv6": "ipv6.nxt", "ipv6.hopopts": "ipv6.hopopts.nxt",
    "ipv6.dstopts": "ipv6.dstopts.nxt", "ipv6.routing": "ipv6.routing.nxt",
    "ipv6.fraghdr": "ipv6.fraghdr.nxt", "ah": "ah.next_header",
}
ETHER_TYPES = {
    "eth": "eth.type", "vlan": "vlan.etype", "sll": "sll.etype", "llc": "llc.type",
    "gre": "gre.proto", "chdlc": "chdlc.protocol",
}
# Messages that ask or answer, and their counterparts: Community ID v1's list.
COUNTERPARTS = {
    "icmp": {8: 0, 0: 8, 13: 14, 14: 13, 15: 16, 16: 15, 10: 9, 9: 10, 17: 18, 18: 17},
    "icmpv6": {
        128: 129, 129: 128, 133: 134, 134: 133, 135: 136, 136: 135, 130: 131, 131: 130,
        144: 145, 145: 144, 139: 140, 140: 139,
    },
}

# What tshark marks a header with that cannot be what it claims to be, or is not whole.
MARKS = (
    "_ws.malformed", "_ws.short", "ip.bogus_ip_length", "ip.bogus_ip_version",
    "ip.bogus_header_length", "ip.opt.len.invalid", "ipv6.bogus_ipv6_version",
    "ipv6.plen_exceeds_framing", "ipv6.invalid_header", "ipv6.opt.invalid_len",
    "ipv6.routing.invalid_length", "udp.length.bad", "udp.length.bad_zero", "tcp.short_segment",
    "tcp.bogus_header_length", "tcp.option.len.invalid",
)  # fmt: skip

FIELDS = (
    "frame.time_epoch", "frame.len", "frame.cap_len", "frame.protocols",
    "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", *NEXT_HEADERS.values(),
    "ip.flags.mf", "ip.frag_offset", "ipv6.fraghdr.more", "ipv6.fraghdr.offset",
    "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport", "sctp.srcport", "sctp.dstport",
    "dccp.srcport", "dccp.dstport", "icmp.type", "icmp.code", "icmpv6.type", "icmpv6.code",
    *ETHER_TYPES.values(), "communityid", *MARKS,
)  # fmt: skip


@dataclass
class Network:
    """One network header and what it carries."""

    name: str
    source: str = ""
    destination: str = ""
    protocol: int = 0
    is_fragment: bool = False
    is_later_fragment: bool = False
    transport: str = ""
    ports: tuple[int, int] | None = None


@dataclass
class Packet:
    """One frame as tshark sees it."""

    # A simple packet block of pcapng has none.
    time_ns: int | None
    wire_len: int
    captured_len: int
    protocols: list[str]
    networks: list[Network] = field(default_factory=list)
    ether_type: int = 0
    community_id: str = ""
    marks: list[str] = field(default_factory=list)

    def network(self, decapsulate: bool) -> Network | None:
        """The header that describes the packet: the innermost one, or the outermost."""
        if not self.networks:
            return None
        return self.networks[-1 if decapsulate else 0]


@cache
def configuration() -> TemporaryDirectory[str]:
    """A folder of settings in which all is switched off that is not in `READ`."""
    folder = TemporaryDirectory(prefix="wirelens-tshark-")
    listed = subprocess.run(
        ["tshark", "-G", "protocols"], capture_output=True, check=True, text=True
    ).stdout
    names = {line.split("\t")[2] for line in listed.splitlines()}
    settings = Path(folder.name) / "wireshark"
    settings.mkdir()
    (settings / "disabled_protos").write_text("".join(f"{n}\n" for n in sorted(names - READ)))
    return folder


def lines(path: Path, fields: tuple[str, ...], settings: str) -> Iterator[list[str]]:
    """The fields of every frame; what tshark complains of is found by the comparison."""
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=a"]
    for preference in PREFERENCES:
        command += ["-o", preference]
    for name in fields:
        command += ["-e", name]
    command += ["--enable-protocol", "communityid"]
    environment = os.environ | {"XDG_CONFIG_HOME": settings, "TZ": "UTC", "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, check=False, env=environment, timeout=300)
    for line in done.stdout.decode(errors="replace").splitlines():
        yield line.split("\t")


def read(path: Path) -> list[Packet]:
    """Every frame that tshark can read."""
    return [packet_of(line) for line in lines(path, FIELDS, configuration().name)]


def layers_in_full(path: Path) -> list[list[str]]:
    """The protocols of every frame with all that Wireshark knows."""
    with TemporaryDirectory(prefix="wirelens-tshark-") as settings:
        return [line[0].split(":") for line in lines(path, ("frame.protocols",), settings)]


def packet_of(line: list[str]) -> Packet:
    """One frame: its protocols in order, each with the next occurrence of its fields."""
    values = dict(zip(FIELDS, line, strict=True))
    rest = {name: iter(text.split(",")) for name, text in values.items() if text}

    def take(name: str) -> str:
        return next(rest.get(name, iter(())), "")

    def number(name: str) -> int:
        text = take(name)
        return int(text, 0) if text else 0

    packet = Packet(
        time_ns=nanoseconds(values["frame.time_epoch"]) if values["frame.time_epoch"] else None,
        wire_len=int(values["frame.len"]),
        captured_len=int(values["frame.cap_len"]),
        protocols=values["frame.protocols"].split(":"),
        community_id=values["communityid"],
        marks=[name for name in MARKS if values[name]],
    )
    at: Network | None = None
    for name in packet.protocols:
        if name in ETHER_TYPES and not (at and at.name == "arp"):
            packet.ether_type = number(ETHER_TYPES[name]) or packet.ether_type
        if name in ("ip", "ipv6"):
            at = Network(name, take(f"{name}.src"), take(f"{name}.dst"))
            packet.networks.append(at)
        elif name == "arp":
            packet.networks.append(Network(name))
            break
        if at is None:
            continue
        if name in NEXT_HEADERS:
            at.protocol = number(NEXT_HEADERS[name])
        if name in ("ip", "ipv6.fraghdr"):
            prefix = ("ip.flags.mf", "ip.frag_offset") if name == "ip" else (
                "ipv6.fraghdr.more", "ipv6.fraghdr.offset")
            more, offset = number(prefix[0]), number(prefix[1])
            at.is_fragment |= bool(more or offset)
            at.is_later_fragment |= bool(offset)
        if name in TRANSPORTS:
            at.transport = name
            at.ports = ports_of(name, take)
        if name in ("icmp", "icmpv6"):
            # What follows is what the message speaks of, not what the packet carries.
            break
    return packet


def ports_of(name: str, take) -> tuple[int, int] | None:
    """Source and destination port; type and code of a message."""
    first, second = (
        ("type", "code") if name.startswith("icmp") else ("srcport", "dstport")
    )
    texts = take(f"{TRANSPORTS[name]}.{first}"), take(f"{TRANSPORTS[name]}.{second}")
    return (int(texts[0]), int(texts[1])) if all(texts) else None


def nanoseconds(text: str) -> int:
    """Seconds with nine decimals, as an integer; a float would lose the last ones."""
    seconds, _, fraction = text.lstrip("-").partition(".")
    magnitude = int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9])
    return -magnitude if text.startswith("-") else magnitude
