"""A small home in packets: a lamp that gets an address, asks, announces itself and talks.

Everything that names a unit is in it: ARP, DHCP with a name, neighbour discovery, MLD, mDNS, SSDP,
NetBIOS, HTTP with a token, NTP, TLS.
"""

import struct
from dataclasses import dataclass

from captures import Frame

SECOND_NS = 1_000_000_000
BROADCAST, NOWHERE = b"\xff" * 6, bytes(4)


def labels(name: str) -> bytes:
    """A name as DNS writes it."""
    return b"".join(bytes([len(one)]) + one.encode() for one in name.split(".")) + b"\0"


@dataclass
class Home:
    """One network with one lamp."""

    lamp: bytes
    router: bytes
    net: bytes
    number: int
    name: str
    server: bytes = bytes([203, 0, 113, 9])

    @property
    def own(self) -> bytes:
        """The lamp's address."""
        return self.net + bytes([self.number])

    @property
    def gateway(self) -> bytes:
        """The router's address."""
        return self.net + b"\x01"

    @property
    def link_local(self) -> bytes:
        """The lamp's IPv6 address, made of its hardware address."""
        head = bytes([self.lamp[0] ^ 2])
        return b"\xfe\x80" + bytes(6) + head + self.lamp[1:3] + b"\xff\xfe" + self.lamp[3:]

    def _ip(self, protocol: int, ends: tuple[bytes, bytes], payload: bytes, to: bytes) -> bytes:
        head = struct.pack(
            ">BBHHHBBH", 0x45, 0, 20 + len(payload), self.number * 77, 0x4000, 64, protocol, 0
        )
        return to + self.lamp + b"\x08\0" + head + b"".join(ends) + payload

    def udp(
        self,
        ports: tuple[int, int],
        dst: bytes,
        data: bytes,
        to: bytes = BROADCAST,
        src: bytes = b"",
    ) -> bytes:
        """A datagram of the lamp."""
        head = struct.pack(">HHHH", *ports, 8 + len(data), 0x1234)
        return self._ip(17, (src or self.own, dst), head + data, to)

    def tcp(self, flags: int, sequence: int, data: bytes, port: int, options: bytes = b"") -> bytes:
        """A segment of the lamp to a server."""
        words = (20 + len(options)) // 4
        first = self.number * 1_000_003 % 2**32
        head = struct.pack(
            ">HHIIBBHHH",
            50_001,
            port,
            (first + sequence) % 2**32,
            first,
            words << 4,
            flags,
            512,
            7,
            0,
        )
        return self._ip(6, (self.own, self.server), head + options + data, self.router)

    def icmpv6(self, dst: bytes, body: bytes, to: bytes) -> bytes:
        """A message of the lamp."""
        head = struct.pack(">IHBB", 0x60000000, len(body), 58, 255)
        return to + self.lamp + b"\x86\xdd" + head + self.link_local + dst + body

    def dhcp(self, kind: int) -> bytes:
        """A message of the lamp, with who it is and what it asks for."""
        fixed = struct.pack(">BBBBIHH", 1, 1, 6, 0, self.number * 65_537, 3, 0x8000)
        body = fixed + (self.own if kind == 3 else NOWHERE) + bytes(12) + self.lamp + bytes(202)
        options = [(53, bytes([kind])), (61, b"\1" + self.lamp), (50, self.own)]
        options += [(12, self.name.encode()), (60, b"udhcp 1.19.4"), (55, bytes([1, 3, 6, 15]))]
        told = b"".join(bytes([code, len(data)]) + data for code, data in options)
        return self.udp(
            (68, 67), b"\xff" * 4, body + b"\x63\x82\x53\x63" + told + b"\xff", src=NOWHERE
        )

    def joined(self) -> list[bytes]:
        """How it gets its addresses."""
        solicited = bytes.fromhex("ff0200000000000000000001ff") + self.lamp[3:]
        group, reports = b"\x33\x33\xff" + self.lamp[3:], b"\x33\x33\0\0\0\x16"
        arp = struct.pack(">HHBBH", 1, 0x800, 6, 4, 1) + self.lamp + self.own + bytes(6)
        neighbour = b"\x87\0\0\0" + bytes(4) + self.link_local + b"\1\1" + self.lamp
        routers = bytes.fromhex("ff020000000000000000000000000016")
        return [
            BROADCAST + self.lamp + b"\x08\x06" + arp + self.gateway,
            self.dhcp(1),
            self.dhcp(3),
            self.icmpv6(solicited, neighbour, group),
            self.icmpv6(routers, b"\x8f\0\0\0\0\0\0\1\4\0\0\0" + solicited, reports),
        ]

    def announced(self) -> list[bytes]:
        """What it asks and tells in the network."""
        transaction, own = struct.pack(">H", self.number * 257), self.lamp.hex().encode()
        asked = transaction + b"\1\0\0\1" + bytes(6) + labels("time.example.org") + b"\0\1\0\1"
        instance = labels(f"{self.name}._hap._tcp.local")
        told = b"\0\0\x84\0\0\0\0\1\0\0\0\0" + instance + b"\0\1\x80\1\0\0\0\x78\0\4" + self.own
        fields = "HOST: 239.255.255.250:1900\r\nSERVER: FreeRTOS/6.0.5"
        uuid = f"2f402f80-da50-11e1-9b23-{self.lamp.hex()}"
        notify = f"NOTIFY * HTTP/1.1\r\n{fields}\r\nNT: uuid:{uuid}\r\n\r\n"
        name = b"\x20" + own + b"EEEFEGEHEIEJEKEL\0\0\x20\0\1"
        return [
            self.udp((40_001, 53), self.gateway, asked),
            self.udp((5353, 5353), bytes([224, 0, 0, 251]), told),
            self.udp((1900, 1900), bytes([239, 255, 255, 250]), notify.encode()),
            self.udp((137, 137), self.net + b"\xff", transaction + b"\1\x10\0\1" + bytes(6) + name),
            self.udp((123, 123), self.server, b"\x23\0\6\xec" + self.lamp * 7 + b"\1\2"),
        ]

    def talked(self) -> list[bytes]:
        """What it sends to its maker."""
        target = f"/scale/register?serial={self.lamp.hex()}&token=a b1"
        token = f"GET {target} HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
        stamp = b"\1\1\x08\x0a" + struct.pack(">II", self.number * 99_991, 0)
        random, session = self.lamp * 5 + b"\1\2", self.lamp * 5 + b"\3\4"
        hello = b"\x03\x03" + random + bytes([32]) + session + b"\0\x04\xc0\x2f\0\x35\1\0"
        lengths = struct.pack(">H", len(hello) + 4), struct.pack(">H", len(hello))
        record = b"\x16\3\1" + lengths[0] + b"\1\0" + lengths[1] + hello
        return [
            self.tcp(2, 0, b"", 80, b"\2\4\5\xb4" + stamp),
            self.tcp(0x18, 1, token.encode(), 80, stamp),
            self.tcp(0x18, 1, record, 443, stamp),
            self.udp((50_009, 20_002), self.server, self.lamp * 4, self.router),
        ]

    def frames(self) -> list[Frame]:
        """All of it, 100 ms between packets."""
        step, sent = SECOND_NS // 10, [*self.joined(), *self.announced(), *self.talked()]
        return [Frame(SECOND_NS + at * step, one, len(one)) for at, one in enumerate(sent)]


ONE = Home(
    bytes.fromhex("001788213f4d"),
    bytes.fromhex("20e52ac86a01"),
    bytes([192, 168, 1]),
    17,
    "Kitchen lamp 1",
)
