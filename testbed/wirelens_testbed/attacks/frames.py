"""Ethernet frames: read as far as the truth rules need, and built for the tools of our own.

Reading never fails: a frame that is cut or strange says less, and the rules see less of it.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

ETHER_TYPE_IPV4 = 0x0800
ETHER_TYPE_ARP = 0x0806
ETHER_TYPE_IPV6 = 0x86DD

PROTOCOL_ICMP = 1
PROTOCOL_TCP = 6
PROTOCOL_UDP = 17
PROTOCOL_HOP_BY_HOP, PROTOCOL_IPV6_FRAGMENT = 0, 44
# As `wirelens flows` says them.
PROTOCOL_NAMES = {
    PROTOCOL_ICMP: "icmp", 2: "igmp", PROTOCOL_TCP: "tcp", PROTOCOL_UDP: "udp", 58: "ipv6-icmp",
}  # fmt: skip

ARP_REQUEST, ARP_REPLY = 1, 2
ICMP_ECHO_REQUEST = 8
# Destination unreachable, source quench, redirect, time exceeded, parameter problem: those that
# quote the start of the packet they are about (RFC 792).
ICMP_QUOTING_TYPES = frozenset({3, 4, 5, 11, 12})

TCP_FIN, TCP_SYN, TCP_RST, TCP_PUSH, TCP_ACK, TCP_URG = 1, 2, 4, 8, 16, 32

DNS_CLASS_IN = 1

BROADCAST_MAC = b"\xff" * 6
ETHER_HEADER_SIZE_BYTES = 14
IPV4_HEADER_SIZE_BYTES = 20
IPV6_HEADER_SIZE_BYTES = 40
TTL_DEFAULT = 64


@dataclass(slots=True)
class Packet:
    """The addresses of an IPv4, IPv6 or ARP packet; ports are None where it has none."""

    source: bytes = b""  # of ARP: the sender's protocol address
    destination: bytes = b""  # of ARP: the target's
    protocol: int | None = None
    source_port: int | None = None
    destination_port: int | None = None
    arp_operation: int | None = None
    ident: int = 0
    is_first_fragment: bool = False
    is_later_fragment: bool = False
    quoted: Packet | None = None  # what an ICMP error is about


@dataclass(slots=True)
class Frame:
    destination_mac: bytes
    source_mac: bytes
    packet: Packet

    @property
    def is_arp(self) -> bool:
        return self.packet.arp_operation is not None


def read_frame(frame: bytes) -> Frame:
    packet = Packet()
    if len(frame) >= ETHER_HEADER_SIZE_BYTES:
        ether_type = int.from_bytes(frame[12:14], "big")
        rest = frame[ETHER_HEADER_SIZE_BYTES:]
        if ether_type == ETHER_TYPE_IPV4:
            packet = read_ipv4(rest)
        elif ether_type == ETHER_TYPE_IPV6:
            packet = _read_ipv6(rest)
        elif ether_type == ETHER_TYPE_ARP and len(rest) >= 28:
            packet = Packet(
                source=rest[14:18],
                destination=rest[24:28],
                arp_operation=int.from_bytes(rest[6:8], "big"),
            )
    return Frame(frame[:6], frame[6:12], packet)


def read_ipv4(data: bytes, is_quoted: bool = False) -> Packet:
    if len(data) < IPV4_HEADER_SIZE_BYTES:
        return Packet()
    header_size_bytes = (data[0] & 0x0F) * 4
    flags_and_offset = int.from_bytes(data[6:8], "big")
    has_more, offset = bool(flags_and_offset & 0x2000), flags_and_offset & 0x1FFF
    packet = Packet(
        source=data[12:16],
        destination=data[16:20],
        protocol=data[9],
        ident=int.from_bytes(data[4:6], "big"),
        is_first_fragment=has_more and offset == 0,
        is_later_fragment=offset != 0,
    )
    rest = data[header_size_bytes:]
    if offset == 0:
        _read_transport(packet, rest)
        if packet.protocol == PROTOCOL_ICMP and not is_quoted and rest[:1]:
            if rest[0] in ICMP_QUOTING_TYPES:
                packet.quoted = read_ipv4(rest[8:], is_quoted=True)
    return packet


def _read_ipv6(data: bytes) -> Packet:
    # Of the extension headers only those that kernels send: for multicast groups, and of fragments.
    if len(data) < IPV6_HEADER_SIZE_BYTES:
        return Packet()
    packet = Packet(source=data[8:24], destination=data[24:40], protocol=data[6])
    rest = data[IPV6_HEADER_SIZE_BYTES:]
    if packet.protocol == PROTOCOL_HOP_BY_HOP and len(rest) >= 8:
        packet.protocol = rest[0]
        rest = rest[8 * (1 + rest[1]) :]
    if packet.protocol == PROTOCOL_IPV6_FRAGMENT and len(rest) >= 8:
        offset_and_more = int.from_bytes(rest[2:4], "big")
        packet.protocol, packet.ident = rest[0], int.from_bytes(rest[4:8], "big")
        packet.is_later_fragment = offset_and_more >> 3 != 0
        packet.is_first_fragment = not packet.is_later_fragment and bool(offset_and_more & 1)
        rest = rest[8:]
    if not packet.is_later_fragment:
        _read_transport(packet, rest)
    return packet


def _read_transport(packet: Packet, data: bytes) -> None:
    if packet.protocol in (PROTOCOL_TCP, PROTOCOL_UDP) and len(data) >= 4:
        packet.source_port, packet.destination_port = struct.unpack("!HH", data[:4])


def mac_bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ethernet(source_mac: bytes, destination_mac: bytes, ether_type: int, payload: bytes) -> bytes:
    return destination_mac + source_mac + ether_type.to_bytes(2, "big") + payload


def arp(operation: int, sender: tuple[bytes, str], target: tuple[bytes, str]) -> bytes:
    """An ARP packet for IPv4 over Ethernet; sender and target are (MAC, address)."""
    fixed = struct.pack("!HHBBH", 1, ETHER_TYPE_IPV4, 6, 4, operation)
    (sender_mac, sender_address), (target_mac, target_address) = sender, target
    return (
        fixed
        + sender_mac
        + socket.inet_aton(sender_address)
        + target_mac
        + socket.inet_aton(target_address)
    )


def ipv4(
    source: str,
    destination: str,
    protocol: int,
    payload: bytes,
    *,
    ident: int,
    ttl: int = TTL_DEFAULT,
) -> bytes:
    size_bytes = IPV4_HEADER_SIZE_BYTES + len(payload)
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    start = struct.pack("!BBHHHBBH", 0x45, 0, size_bytes, ident, 0, ttl, protocol, 0)
    header_sum = checksum(start + addresses)
    return start[:10] + header_sum.to_bytes(2, "big") + addresses + payload


def tcp(
    source: str,
    destination: str,
    ports: tuple[int, int],
    *,
    flags: int,
    sequence: int,
    window: int = 1024,
    options: bytes = b"",
) -> bytes:
    """A TCP segment without data; the options are a multiple of four bytes."""
    offset_and_flags = ((5 + len(options) // 4) << 12) | flags
    start = struct.pack("!HHIIHHHH", *ports, sequence, 0, offset_and_flags, window, 0, 0) + options
    total = checksum(_pseudo_header(source, destination, PROTOCOL_TCP, len(start)) + start)
    return start[:16] + total.to_bytes(2, "big") + start[18:]


def udp(source: str, destination: str, ports: tuple[int, int], payload: bytes) -> bytes:
    size_bytes = 8 + len(payload)
    start = struct.pack("!HHHH", *ports, size_bytes, 0) + payload
    total = checksum(_pseudo_header(source, destination, PROTOCOL_UDP, size_bytes) + start)
    # Zero would say "no checksum" (RFC 768).
    return start[:6] + (total or 0xFFFF).to_bytes(2, "big") + payload


def icmp_echo_request(ident: int, sequence: int, payload: bytes) -> bytes:
    start = struct.pack("!BBHHH", ICMP_ECHO_REQUEST, 0, 0, ident, sequence) + payload
    return start[:2] + checksum(start).to_bytes(2, "big") + start[4:]


def dns_question(ident: int, name: str, kind: int, additional: bytes = b"") -> bytes:
    """A recursive question (RFC 1035), with one additional record if there are bytes of it."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    header = struct.pack("!6H", ident, 0x0100, 1, 0, 0, int(bool(additional)))
    return header + labels + b"\0" + struct.pack("!HH", kind, DNS_CLASS_IN) + additional


def _pseudo_header(source: str, destination: str, protocol: int, size_bytes: int) -> bytes:
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    return addresses + struct.pack("!BBH", 0, protocol, size_bytes)
