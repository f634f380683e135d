"""Another home with the same devices: a capture in which everything that names units and networks
is another.

Rewritten consistently, by a seed: MAC addresses, IPv4 addresses of private networks, IPv6
addresses, in headers and wherever else a packet holds them (ARP, DHCP, ICMPv6, mDNS, text); host
names that DHCP and mDNS tell, in datagrams;
identifications, sequence numbers, TCP stamps, DHCP and DNS
transactions, random numbers of TLS, UUIDs, ephemeral ports, hop counts on the way; checksums are
mended. Lengths, times and order stay. It knows nothing of `crates/model`: that its rows are the
same before and after is what tests hold.

  python bench/evaluation/classify/rewrite.py IN OUT [SEED]     # captures, or folders of them
"""

import hashlib
import re
import struct
import sys
from pathlib import Path
from typing import Any

Packet = bytearray
_MAGICS = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\x4d\x3c\xb2\xa1": "<"}
_ETHERNET = 1
_DYNAMIC = 32_768
_DOTTED = re.compile(
    rb"(?<![\d.])(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01])|169\.254)(?:\.\d{1,3}){2,3}(?![\d.])"
)
_REVERSE = re.compile(
    rb"[\x01-\x03](\d+)[\x01-\x03](\d+)[\x01-\x03](\d+)[\x01-\x03](\d+)\x07in-addr", re.I
)
_UUID = re.compile(rb"(?i)(?<=uuid:)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SSDP = bytes([239, 255, 255, 250])


def read_pcap(path: Path) -> tuple[bytes, str, list[tuple[bytes, Packet]]]:
    """Header, byte order, and each packet behind its own header."""
    data = path.read_bytes()
    order = _MAGICS.get(data[:4])
    if order is None or struct.unpack(order + "I", data[20:24])[0] & 0xFFFF != _ETHERNET:
        raise SystemExit(
            f"{path}: no classic pcap of Ethernet; convert it, such as with editcap -F pcap"
        )
    packets, at = [], 24
    while at + 16 <= len(data):
        (length,) = struct.unpack(order + "I", data[at + 8 : at + 12])
        packets.append((data[at : at + 16], bytearray(data[at + 16 : at + 16 + length])))
        at += 16 + length
    return data[:24], order, packets


def is_private(ip: bytes) -> bool:
    """Whether an IPv4 address is of a network of its own."""
    return (
        ip[0] == 10 or ip[:2] in (b"\xc0\xa8", b"\xa9\xfe") or (ip[0] == 172 and ip[1] & 0xF0 == 16)
    )


def word(data: bytes | bytearray, at: int) -> int:
    """Two bytes, the higher first."""
    return int.from_bytes(data[at : at + 2], "big")


class Rewriter:
    """Names of units and networks, and what they become."""

    def __init__(self, seed: int) -> None:
        self.key = hashlib.sha256(b"rewrite %d" % seed).digest()
        self.macs: dict[bytes, bytes] = {}
        self.ipv6: dict[bytes, bytes] = {}
        self.names: dict[bytes, bytes] = {}
        self.octets = [self._octets(b"third"), self._octets(b"fourth")]

    def drawn(self, what: bytes, count: int) -> bytes:
        """Bytes that look random and are the same for the same thing."""
        return hashlib.blake2b(what, key=self.key, digest_size=64).digest()[:count]

    def _octets(self, which: bytes) -> list[int]:
        """A permutation that keeps the number of digits, networks (0) and broadcast (255)."""
        found = [0] * 256
        for group in (range(1, 10), range(10, 100), range(100, 255), (0,), (255,)):
            drawn = sorted(group, key=lambda one: self.drawn(which + bytes([one]), 8))
            for one, other in zip(group, drawn, strict=True):
                found[one] = other
        return found

    def _low(self, low: bytes) -> bytes:
        """The last three bytes of a hardware address, and of what is made of it: one to one."""
        factor = int.from_bytes(self.drawn(b"factor", 3), "big") | 1
        number = int.from_bytes(low, "big") * factor + int.from_bytes(self.drawn(b"add", 3), "big")
        return (number % (1 << 24)).to_bytes(3, "big")

    def mac(self, mac: bytes) -> bytes:
        """Another unit's; those of groups stay, but for those made of an address."""
        if mac == b"\xff" * 6 or mac == b"\0" * 6:
            return mac
        if mac[:3] == b"\x33\x33\xff":
            return mac[:3] + self._low(mac[3:])
        if mac[0] & 1:
            return mac
        maker = self.drawn(b"maker" + mac[:3], 3)
        found = bytes([(maker[0] & 0xFC) | (mac[0] & 2), *maker[1:], *self._low(mac[3:])])
        self.macs[mac] = found
        return found

    def ip4(self, ip: bytes) -> bytes:
        """Another address of the private network; public ones and groups stay."""
        if not is_private(ip):
            return ip
        return ip[:2] + bytes([self.octets[0][ip[2]], self.octets[1][ip[3]]])

    def ip6(self, ip: bytes) -> bytes:
        """Another address of a host; groups stay, but for those made of an address."""
        if ip[:13] == bytes.fromhex("ff0200000000000000000001ff"):
            found = ip[:13] + self._low(ip[13:])
        elif ip[0] == 0xFF or ip == b"\0" * 16 or ip == b"\0" * 15 + b"\1":
            return ip
        else:
            prefix = ip[:8] if ip[:2] == b"\xfe\x80" else ip[:2] + self.drawn(b"net" + ip[:8], 6)
            if ip[11:13] == b"\xff\xfe":
                mac = self.mac(bytes([ip[8] ^ 2, ip[9], ip[10], *ip[13:]]))
                found = prefix + bytes([mac[0] ^ 2, mac[1], mac[2]]) + b"\xff\xfe" + mac[3:]
            else:
                found = prefix + self.drawn(b"host" + ip[8:13], 5) + self._low(ip[13:])
        self.ipv6[ip] = found
        return found

    def name(self, name: bytes) -> None:
        """A host's name: another one of its length."""
        # Shorter ones are in other words, too.
        if len(name) > 4 and name not in self.names:
            drawn = self.drawn(b"name" + name.lower(), min(len(name), 64))
            letters = bytes(b"abcdefghijklmnopqrstuvwxyz"[byte % 26] for byte in drawn)
            self.names[name] = letters.ljust(len(name), b"x")[: len(name)]

    # What is told of names and addresses is gathered first, so that all of it is replaced.

    def gather(self, packet: Packet) -> None:
        """Addresses of headers, and names."""
        self.mac(bytes(packet[0:6])), self.mac(bytes(packet[6:12]))
        kind, start = ethertype(packet)
        if kind == 0x86DD and len(packet) >= start + 40:
            self.ip6(bytes(packet[start + 8 : start + 24]))
            self.ip6(bytes(packet[start + 24 : start + 40]))
        body = udp_body(packet, kind, start)
        if body is None:
            return
        ports, data = body
        if ports & {67, 68} and data[236:240] == b"\x63\x82\x53\x63":
            at = 240
            while at + 1 < len(data) and data[at] != 255:
                length = data[at + 1] if data[at] else 0
                value = bytes(data[at + 2 : at + 2 + length])
                if data[at] == 12:
                    self.name(value)
                if data[at] == 81:
                    self.name(value[3:].lstrip(b"\0").partition(b".")[0])
                at += 2 + length if data[at] else 1
        if 5353 in ports:
            for found in re.finditer(
                rb"([\x03-\x3f])([^\x00-\x1f]+)(?=\x05_|\x04_|\x06_|\x05local\x00)", bytes(data)
            ):
                label = found[2]
                if len(label) == found[1][0] and not label.startswith(b"_"):
                    self.name(label)

    def replaced(self, body: bytes, is_local: bool = True) -> bytes:
        """Everything that names a unit, wherever it is; what may be a model's name in a maker's
        URL as well, in datagrams alone."""
        for old, new in self.macs.items():
            body = body.replace(old, new)
            for sign in ("", ":", "-"):
                plain, other = (
                    old.hex(sign) if sign else old.hex(),
                    new.hex(sign) if sign else new.hex(),
                )
                body = body.replace(plain.encode(), other.encode())
                body = body.replace(plain.upper().encode(), other.upper().encode())
        for old, new in self.ipv6.items():
            body = body.replace(old, new)
        for old, new in self.names.items() if is_local else ():
            body = body.replace(old, new)

        def dotted(found: re.Match[bytes]) -> bytes:
            parts = [int(part) for part in found[0].split(b".")]
            if len(parts) != 4 or max(parts) > 255:
                return found[0]
            return b".".join(b"%d" % part for part in self.ip4(bytes(parts)))

        def backwards(found: re.Match[bytes]) -> bytes:
            parts = bytes(int(part) % 256 for part in reversed(found.groups()))
            labels = [b"%d" % part for part in reversed(self.ip4(parts))]
            return b"".join(bytes([len(one)]) + one for one in labels) + b"\x07in-addr"

        def uuid(found: re.Match[bytes]) -> bytes:
            drawn = self.drawn(b"uuid" + found[0].lower(), 18).hex().encode()
            return bytes(d if o != 45 else 45 for o, d in zip(found[0], drawn, strict=True))

        body = _UUID.sub(uuid, _REVERSE.sub(backwards, _DOTTED.sub(dotted, body)))
        return body

    def ports(self, one: int) -> int:
        """An ephemeral port becomes another one."""
        if one < _DYNAMIC:
            return one
        return _DYNAMIC + ((one - _DYNAMIC) ^ (word(self.drawn(b"ports", 2), 0) % _DYNAMIC))

    def add(self, number: int, what: bytes, size_bytes: int) -> bytes:
        """A counter that began elsewhere."""
        offset = int.from_bytes(self.drawn(what, size_bytes), "big")
        return ((number + offset) % (1 << (8 * size_bytes))).to_bytes(size_bytes, "big")

    def packet(self, packet: Packet) -> Packet:
        """The same packet in the other home."""
        kind, start = ethertype(packet)
        found = bytearray(
            self.mac(bytes(packet[0:6])) + self.mac(bytes(packet[6:12])) + packet[12:]
        )
        if kind == 0x0806 and len(packet) >= start + 28:
            found[start + 8 : start + 14] = self.mac(bytes(packet[start + 8 : start + 14]))
            found[start + 14 : start + 18] = self.ip4(bytes(packet[start + 14 : start + 18]))
            found[start + 18 : start + 24] = self.mac(bytes(packet[start + 18 : start + 24]))
            found[start + 24 : start + 28] = self.ip4(bytes(packet[start + 24 : start + 28]))
        elif kind == 0x0800 and len(packet) >= start + 20:
            self._ipv4(found, start)
        elif kind == 0x86DD and len(packet) >= start + 40:
            self._ipv6(found, start)
        else:
            found[start:] = self.replaced(bytes(found[start:]))
        return found

    def _ipv4(self, packet: Packet, start: int) -> None:
        head = (packet[start] & 15) * 4
        source = bytes(packet[start + 12 : start + 16])
        packet[start + 4 : start + 6] = self.add(word(packet, start + 4), b"id" + source, 2)
        hops, base = (
            packet[start + 8],
            next(n for n in (4, 32, 64, 128, 255) if packet[start + 8] <= n),
        )
        if base > 4 and not is_private(source):
            # The way from servers is another.
            packet[start + 8] = max(base - 27, hops - self.drawn(b"hops" + source, 1)[0] % 5)
        packet[start + 12 : start + 16] = self.ip4(source)
        packet[start + 16 : start + 20] = self.ip4(bytes(packet[start + 16 : start + 20]))
        end = min(start + word(packet, start + 2), len(packet))
        is_whole = end == start + word(packet, start + 2)
        fragment = word(packet, start + 6) & 0x3FFF
        if not fragment:
            self._transport(packet, packet[start + 9], start + head, end, source)
        else:
            packet[start + head : end] = self.replaced(bytes(packet[start + head : end]))
        packet[start + 10 : start + 12] = b"\0\0"
        packet[start + 10 : start + 12] = checksum(packet[start : start + head])
        pseudo = bytes(packet[start + 12 : start + 20]) + struct.pack(
            ">HH", packet[start + 9], end - start - head
        )
        if is_whole and not fragment:
            mend(packet, packet[start + 9], start + head, end, pseudo)

    def _ipv6(self, packet: Packet, start: int) -> None:
        source = bytes(packet[start + 8 : start + 24])
        packet[start + 1] = (packet[start + 1] & 0xF0) | (self.drawn(b"label" + source, 1)[0] & 15)
        packet[start + 2 : start + 4] = self.drawn(b"label" + bytes(packet[start : start + 40]), 2)
        packet[start + 8 : start + 24] = self.ip6(source)
        packet[start + 24 : start + 40] = self.ip6(bytes(packet[start + 24 : start + 40]))
        end = min(start + 40 + word(packet, start + 4), len(packet))
        protocol, at = packet[start + 6], start + 40
        if protocol == 0 and at + 8 <= end:
            protocol, at = packet[at], at + 8 + 8 * packet[at + 1]
        self._transport(packet, protocol, at, end, source)
        pseudo = bytes(packet[start + 8 : start + 40]) + struct.pack(">II", end - at, protocol)
        if end == start + 40 + word(packet, start + 4):
            mend(packet, protocol, at, end, pseudo)

    def _transport(self, packet: Packet, protocol: int, at: int, end: int, source: bytes) -> None:
        if protocol == 6 and end >= at + 20:
            ports = (word(packet, at), word(packet, at + 2))
            way, back = (b"%d %d" % pair for pair in (ports, ports[::-1]))
            sequence = int.from_bytes(packet[at + 4 : at + 8], "big")
            packet[at + 4 : at + 8] = self.add(sequence, b"seq" + way, 4)
            if packet[at + 13] & 16:
                number = int.from_bytes(packet[at + 8 : at + 12], "big")
                packet[at + 8 : at + 12] = self.add(number, b"seq" + back, 4)
            body = at + max((packet[at + 12] >> 4) * 4, 20)
            self._options(packet, at + 20, min(body, end), way, back)
        elif protocol == 17 and end >= at + 8:
            ports, body = (word(packet, at), word(packet, at + 2)), at + 8
        else:
            packet[at:end] = self.replaced(bytes(packet[at:end]))
            return
        for place, port in zip((at, at + 2), ports, strict=True):
            packet[place : place + 2] = self.ports(port).to_bytes(2, "big")
        if body < end:
            packet[body:end] = self._body(
                protocol, set(ports), self.replaced(bytes(packet[body:end]), protocol == 17)
            )

    def _options(self, packet: Packet, at: int, end: int, way: bytes, back: bytes) -> None:
        while at < end and packet[at]:
            if packet[at] == 1:
                at += 1
                continue
            length = packet[at + 1] if at + 1 < end else 0
            if length < 2 or at + length > end:
                return
            if packet[at] == 8 and length == 10:
                for place, whose in ((at + 2, way), (at + 6, back)):
                    stamp = int.from_bytes(packet[place : place + 4], "big")
                    if stamp:
                        packet[place : place + 4] = self.add(stamp, b"stamp" + whose, 4)
            if packet[at] == 5:
                for place in range(at + 2, at + length - 3, 4):
                    edge = int.from_bytes(packet[place : place + 4], "big")
                    packet[place : place + 4] = self.add(edge, b"seq" + back, 4)
            at += length

    def _body(self, protocol: int, ports: set[int], body: bytes) -> bytes:
        """Transactions, random numbers and addresses of protocols."""
        drawn = self.drawn
        if protocol == 17 and ports & {67, 68} and len(body) > 44:
            own = b"".join(self.ip4(body[place : place + 4]) for place in range(12, 28, 4))
            fixed = body[:4] + drawn(b"xid" + body[4:8], 4) + body[8:12] + own + body[28:240]
            return fixed + self._dhcp_options(body[240:])
        if protocol == 17 and ports & {53, 5355, 137} and len(body) > 12:
            return drawn(b"dns" + body[:2], 2) + self._records(body[2:])
        if protocol == 17 and 5353 in ports:
            return self._records(body)
        if protocol == 17 and 123 in ports and len(body) >= 48:
            return body[:4] + drawn(body[4:48], 44) + body[48:]
        if protocol == 6 and body[:1] == b"\x16" and body[5:6] in (b"\1", b"\2") and len(body) > 44:
            session = 44 + body[43]
            return (
                body[:11]
                + drawn(body[11:43], 32)
                + body[43:44]
                + drawn(body[44:session], body[43])[: body[43]]
                + body[session:]
            )
        return body

    def _records(self, body: bytes) -> bytes:
        """A records of private addresses."""
        pattern = rb"(\x00\x01[\x00\x80]\x01.{4}\x00\x04)(.{4})"
        return re.sub(pattern, lambda found: found[1] + self.ip4(found[2]), body, flags=re.S)

    def _dhcp_options(self, options: bytes) -> bytes:
        found, at = bytearray(options), 0
        while at + 1 < len(found) and found[at] != 255:
            length = found[at + 1] if found[at] else -1
            if found[at] in (1, 3, 6, 28, 50, 54, 42, 44):
                for place in range(at + 2, at + 2 + length - 3, 4):
                    found[place : place + 4] = self.ip4(bytes(found[place : place + 4]))
            at += 2 + length
        return bytes(found)


def ethertype(packet: Packet) -> tuple[int, int]:
    """Type and start of what is in a frame, behind VLAN tags."""
    at = 12
    while word(packet, at) in (0x8100, 0x88A8):
        at += 4
    return word(packet, at), at + 2


def udp_body(packet: Packet, kind: int, start: int) -> tuple[set[int], Packet] | None:
    """Ports and payload of a UDP packet."""
    at = start + (packet[start] & 15) * 4 if kind == 0x0800 and len(packet) > start else start + 40
    place = {0x0800: start + 9, 0x86DD: start + 6}.get(kind)
    if place is None or len(packet) < at + 8 or packet[place] != 17:
        return None
    return {word(packet, at), word(packet, at + 2)}, packet[at + 8 :]


def checksum(data: bytes | bytearray) -> bytes:
    """The Internet checksum (RFC 1071)."""
    padded = bytes(data) + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)


def mend(packet: Packet, protocol: int, at: int, end: int, pseudo: bytes) -> None:
    """Computes a checksum again; one that UDP leaves out stays so."""
    place = {6: 16, 17: 6, 1: 2, 58: 2}.get(protocol)
    if place is None or at + place + 2 > end:
        return
    if protocol == 17 and not word(packet, at + place):
        return
    packet[at + place : at + place + 2] = b"\0\0"
    found = checksum((b"" if protocol == 1 else pseudo) + packet[at:end])
    packet[at + place : at + place + 2] = (
        b"\xff\xff" if protocol == 17 and found == b"\0\0" else found
    )


def rewrite(source: Path, target: Path, seed: int = 1) -> dict[str, Any]:
    """Writes the capture anew; what there was to rewrite."""
    head, order, packets = read_pcap(source)
    rewriter = Rewriter(seed)
    for _, packet in packets:
        rewriter.gather(packet)
    with target.open("wb") as out:
        out.write(head)
        for header, packet in packets:
            found = rewriter.packet(packet)
            assert len(found) == len(packet), (source, len(found), len(packet))
            out.write(header + found)
    del order
    return {"macs": rewriter.macs, "ipv6": rewriter.ipv6, "names": rewriter.names}


def main(source: Path, target: Path, seed: int) -> None:
    """Rewrites a capture, or each one of a folder."""
    if not source.is_dir():
        rewrite(source, target, seed)
        return
    for path in sorted(source.rglob("*.pcap")):
        other = target / path.relative_to(source)
        other.parent.mkdir(parents=True, exist_ok=True)
        rewrite(path, other, seed)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
