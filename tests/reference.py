"""What tshark finds in a capture: the reference that Wirelens is held to.

tshark is told to know only the protocols that Wirelens reads (`READ`): every other dissector is
switched off in a configuration of its own, so that neither the user's settings nor the rest of
Wireshark take part. What the rest of Wireshark would have opened is a test of its own.
"""

import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

# Wireshark's names of the protocols that Wirelens reads, and of what they hang on.
READ = frozenset(
    """frame file-pcap file-pcapng pkt_ccc _ws.malformed data communityid
    eth ethertype vlan ieee8021ad mpls pwethheuristic pwethcw pwethnocw pppoe pppoes pppoed ppp
    chdlc sll null raw nflog llc arp
    ip ipv6 ipv6.hopopts ipv6.dstopts ipv6.routing ipv6.fraghdr ah mip6 hip shim6
    gre erspan vxlan geneve gtp
    macsec wlan wlan_radio radiotap prism wlancap ppi pcap_pktdata wlan_aggregate
    tcp udp udplite dccp sctp icmp icmpv6""".split()
)

# Packets are taken as they are: nothing is put together, nothing is looked up.
PREFERENCES = (
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.analyze_sequence_numbers:FALSE",
)

# Protocol, and the prefix of its fields.
TRANSPORTS = {
    "tcp": "tcp", "udp": "udp", "udplite": "udp", "sctp": "sctp", "dccp": "dccp",
    "icmp": "icmp", "icmpv6": "icmpv6",
}  # fmt: skip
# Where each header that passes on to another keeps what comes next.
NEXT_HEADERS = {
    "ip": "ip.proto", "ipv6": "ipv6.nxt", "ipv6.hopopts": "ipv6.hopopts.nxt",
    "ipv6.dstopts": "ipv6.dstopts.nxt", "ipv6.routing": "ipv6.routing.nxt",
    "ipv6.fraghdr": "ipv6.fraghdr.nxt", "ah": "ah.next_header",
}  # fmt: skip
ETHER_TYPES = {
    "eth": "eth.type", "vlan": "vlan.etype", "sll": "sll.etype", "llc": "llc.type",
    "gre": "gre.proto", "chdlc": "chdlc.protocol", "geneve": "geneve.proto_type",
    "macsec": "macsec.etype",
}  # fmt: skip
FRAGMENTS = {
    "ip": ("ip.flags.mf", "ip.frag_offset"),
    "ipv6.fraghdr": ("ipv6.fraghdr.more", "ipv6.fraghdr.offset"),
}

# Messages that ask or answer, and their counterparts, in Community ID's list: one flow.
COUNTERPARTS = {
    "icmp": {8: 0, 13: 14, 15: 16, 10: 9, 17: 18},
    "icmpv6": {128: 129, 133: 134, 135: 136, 130: 131, 144: 145, 139: 140},
}
PORT_PROTOCOLS = {6, 17, 33, 132, 136}
# Ports of tunnels over UDP that are opened at their destination alone.
TUNNEL_PORTS = {"vxlan": 4789, "geneve": 6081}
# Tunnels that carry Ethernet: a tag in them is not the frame's.
OPENED = {"vxlan", "gre", "geneve"}

# Tags, and the field of each that holds the VLAN.
TAGS = {"vlan": "vlan.id", "ieee8021ad": "ieee8021ad.id"}

PROTOCOL_NAMES = {
    0: "hopopt", 1: "icmp", 2: "igmp", 4: "ipv4", 6: "tcp", 17: "udp", 33: "dccp", 41: "ipv6",
    43: "ipv6-route", 44: "ipv6-frag", 46: "rsvp", 47: "gre", 50: "esp", 51: "ah",
    58: "ipv6-icmp", 59: "ipv6-nonxt", 60: "ipv6-opts", 88: "eigrp", 89: "ospf", 103: "pim",
    112: "vrrp", 115: "l2tp", 132: "sctp", 135: "mobility-header", 136: "udplite", 139: "hip",
    140: "shim6",
}  # fmt: skip

# What tshark marks a header with that cannot be what it claims to be, or is not whole.
MARKS = (
    "_ws.malformed", "_ws.short", "ip.bogus_ip_length", "ip.bogus_ip_version",
    "ip.bogus_header_length", "ip.opt.len.invalid", "ipv6.bogus_ipv6_version",
    "ipv6.plen_exceeds_framing", "ipv6.invalid_header", "ipv6.opt.invalid_len",
    "ipv6.routing.invalid_length", "udp.length.bad", "udp.length.bad_zero", "tcp.short_segment",
    "tcp.bogus_header_length", "tcp.option.len.invalid",
)  # fmt: skip

FIELDS = (
    "frame.interface_id", "frame.encap_type", "frame.time_epoch", "frame.len", "frame.cap_len",
    "frame.protocols", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", *NEXT_HEADERS.values(),
    *FRAGMENTS["ip"], *FRAGMENTS["ipv6.fraghdr"],
    "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport", "sctp.srcport", "sctp.dstport",
    "dccp.srcport", "dccp.dstport", "icmp.type", "icmp.code", "icmpv6.type", "icmpv6.code",
    *ETHER_TYPES.values(), *TAGS.values(), "tcp.hdr_len", "tcp.flags", "chdlc.address",
    "vxlan.flag_i", "geneve.version", "communityid", *MARKS,
)  # fmt: skip


@dataclass
class Network:
    """One network header and what it carries."""

    name: str
    source: str = ""
    destination: str = ""
    protocol: int = 0
    is_fragment: bool = False
    transport: str = ""
    # Of a message, type and code.
    ports: tuple[int, int] | None = None
    # As in the header's byte: FIN 1 to CWR 128.
    tcp_flags: int = 0


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
    # Of the frame itself, the outermost; tunnels are not looked into.
    vlan: int | None = None

    def network(self, decapsulate: bool) -> Network | None:
        """The header that describes the packet: the innermost one, or the outermost."""
        if not self.networks:
            return None
        return self.networks[-1 if decapsulate else 0]


@dataclass
class Reading:
    """All frames of a capture, and what tshark says about the capture itself."""

    packets: list[Packet] = field(default_factory=list)
    complaint: str = ""


class Tshark:
    """tshark with settings of its own; to be closed."""

    def __init__(self) -> None:
        self.folder = TemporaryDirectory(prefix="wirelens-tshark-")
        for name in ("read", "all"):
            (Path(self.folder.name) / name / "wireshark").mkdir(parents=True)
        listed = self.run(["-G", "protocols"], "all").stdout.decode()
        names = {line.split("\t")[2] for line in listed.splitlines()}
        disabled = Path(self.folder.name) / "read/wireshark/disabled_protos"
        disabled.write_text("".join(f"{name}\n" for name in sorted(names - READ)))

    def close(self) -> None:
        self.folder.cleanup()

    def run(
        self, arguments: list[str], settings: str, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        configuration = str(Path(self.folder.name) / settings)
        environment = os.environ | {"XDG_CONFIG_HOME": configuration, "TZ": "UTC", "LC_ALL": "C"}
        return subprocess.run(
            ["tshark", *arguments], input=stdin, capture_output=True, check=False, timeout=300,
            env=environment,
        )  # fmt: skip

    def fields(
        self, source: Path | bytes, names: Iterable[str], settings: str
    ) -> tuple[list[list[str]], str]:
        """The fields of every frame, and what was said on standard error."""
        is_path = isinstance(source, Path)
        arguments = ["-n", "-r", str(source) if is_path else "-", "-T", "fields"]
        arguments += [word for preference in PREFERENCES for word in ("-o", preference)]
        arguments += [word for name in names for word in ("-e", name)]
        arguments += ["--enable-protocol", "communityid"]
        done = self.run(arguments, settings, None if is_path else source)
        lines = done.stdout.decode(errors="replace").splitlines()
        said = done.stderr.decode(errors="replace").splitlines()
        complaint = " ".join(line for line in said if not line.startswith("Running as user"))
        return [line.split("\t") for line in lines], complaint

    def read(self, path: Path) -> Reading:
        """Every frame that tshark can read."""
        lines, complaint = self.fields(path, FIELDS, "read")
        return Reading([packet_of(values) for values in valued(lines)], complaint)

    def read_joined(self, paths: list[Path]) -> list[Reading]:
        """The same for many sound captures with one interface each, at the price of one."""
        joined = subprocess.run(
            ["mergecap", "-a", "-I", "none", "-F", "pcapng", "-w", "-", *paths],
            capture_output=True, check=False, timeout=300,
        )  # fmt: skip
        lines, complaint = self.fields(joined.stdout, FIELDS, "read")
        if joined.returncode or complaint:
            return [self.read(path) for path in paths]
        readings = [Reading() for _ in paths]
        for values in valued(lines):
            readings[int(values["frame.interface_id"])].packets.append(packet_of(values))
        return readings

    def layers_in_full(self, path: Path) -> list[list[str]]:
        """The protocols of every frame, with all that Wireshark knows."""
        lines, _ = self.fields(path, ("frame.encap_type", "frame.protocols"), "all")
        return [line[1].split(":") for line in lines if line[0]]


def valued(lines: list[list[str]]) -> Iterable[dict[str, str]]:
    """Frames by the names of their fields. What tshark shows of pcapng's custom blocks, and of
    others that hold no packet, has no link type and is left out."""
    for line in lines:
        values = dict(zip(FIELDS, line, strict=True))
        if values["frame.encap_type"]:
            yield values


def packet_of(values: dict[str, str]) -> Packet:
    """One frame: its protocols in order, each with the next occurrence of its fields."""
    rest = {name: iter(text.split(",")) for name, text in values.items() if text}

    def take(name: str) -> str:
        return next(rest.get(name, iter(())), "")

    def number(name: str) -> int:
        text = take(name)
        return int(text, 0) if text else 0

    time = values["frame.time_epoch"]
    packet = Packet(
        time_ns=nanoseconds(time) if time else None,
        wire_len=int(values["frame.len"]),
        captured_len=int(values["frame.cap_len"]),
        protocols=values["frame.protocols"].split(":"),
        community_id=values["communityid"],
        marks=[name for name in MARKS if values[name]],
    )
    at: Network | None = None
    is_inside = False
    for previous, name in zip(["", *packet.protocols], packet.protocols, strict=False):
        if name in ("ip", "ipv6") and previous == "udp":
            # VXLAN-GPE, which Wirelens leaves closed; tshark does not name it.
            break
        if name in ("ip", "ipv6"):
            at = Network(name, take(f"{name}.src"), take(f"{name}.dst"))
            packet.networks.append(at)
        elif name == "arp":
            packet.networks.append(Network(name))
            break
        elif name == "chdlc" and take("chdlc.address") not in ("0x0f", "0x8f"):
            packet.marks.append("chdlc.address")
        elif name in TUNNEL_PORTS and not opens_tunnel(name, at, take):
            break
        elif name.startswith("ipv6.") and at and at.name == "ip":
            # Hop-by-hop options are IPv6's; tshark follows them behind IPv4 as well.
            break
        is_inside |= name in OPENED
        if name in TAGS:
            vlan = number(TAGS[name])
            if packet.vlan is None and not is_inside:
                packet.vlan = vlan
        if name in ETHER_TYPES:
            packet.ether_type = ether_type(name, number) or packet.ether_type
        if at is None:
            continue
        if name in NEXT_HEADERS:
            at.protocol = number(NEXT_HEADERS[name])
        if name in FRAGMENTS:
            more, offset = (number(part) for part in FRAGMENTS[name])
            at.is_fragment |= bool(more or offset)
        if name in TRANSPORTS:
            at.transport = name
            at.ports = ports_of(name, take)
        if name == "tcp":
            at.tcp_flags = number("tcp.flags") & 0xFF
            if not take("tcp.hdr_len"):
                packet.marks.append("tcp header cut")
        if name in ("icmp", "icmpv6"):
            # What follows is what the message speaks of, not what the packet carries.
            break
    return packet


def opens_tunnel(name: str, at: Network | None, take: Callable[[str], str]) -> bool:
    """Wirelens opens what is sent to the tunnel's own port (RFC 7348 §5, RFC 8926 §3.3; tshark
    also what comes from it, and VXLAN-GPE), VXLAN whose identifier is said to be valid, and
    Geneve of version 0, the only one that is defined."""
    destination = at.ports[1] if at and at.ports else None
    valid = take("vxlan.flag_i") in ("1", "True") if name == "vxlan" else True
    if name == "geneve":
        valid = take("geneve.version") == "0"
    return valid and destination == TUNNEL_PORTS[name]


def ether_type(name: str, number: Callable[[str], int]) -> int:
    value = number(ETHER_TYPES[name])
    # On this link the number of RARP is Cisco's SLARP, which is no EtherType.
    return 0 if name == "chdlc" and value == 0x8035 else value


def ports_of(name: str, take: Callable[[str], str]) -> tuple[int, int] | None:
    """Source and destination port; type and code of a message."""
    names = ("type", "code") if name.startswith("icmp") else ("srcport", "dstport")
    first, second = (take(f"{TRANSPORTS[name]}.{part}") for part in names)
    return (int(first), int(second)) if first and second else None


def nanoseconds(text: str) -> int:
    """Seconds with nine decimals, as an integer; a float would lose the last ones."""
    seconds, _, fraction = text.lstrip("-").partition(".")
    magnitude = int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9])
    return -magnitude if text.startswith("-") else magnitude
