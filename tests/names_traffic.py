"""Traffic that carries names, frame by frame, with what is to be read of each flow.

Hellos are OpenSSL's, the packets of QUIC those that RFC 9001 and RFC 9369 print; the rest is
written by hand. `testdata/names.pcap` is what this module writes when it is run.
"""

import ipaddress
import re
import ssl
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from captures import Frame, write_pcap

ROOT = Path(__file__).parent.parent
START_NS = 1_764_000_000 * 10**9
STEP_NS = 10_000_000
CLIENT = "192.0.2.10"
RESOLVER = "192.0.2.53"
SYN, ACK, PSH = 2, 16, 8
ETHERNET = bytes.fromhex("020000000001020000000002")


def hello(name: str | None, alpn: Iterable[str] = ("h2", "http/1.1")) -> bytes:
    """A ClientHello in its record, as OpenSSL sends it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(alpn))
    sent = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name)
    try:
        connection.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without a server")


def quic_packet(name: str) -> bytes:
    """A packet that an RFC prints, out of the tests of the decryption."""
    text = (ROOT / "crates/names/src/quic/vectors.rs").read_text()
    found = re.search(rf'const {name}: &str = "([^"]*)"', text)
    assert found, name
    return bytes.fromhex(re.sub(r"[^0-9a-f]", "", found[1]))


def ip(source: str, destination: str, protocol: int, payload: bytes) -> bytes:
    """A frame of Ethernet with an IP header before `payload`."""
    addresses = [ipaddress.ip_address(address).packed for address in (source, destination)]
    if len(addresses[0]) == 16:
        header = struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + b"".join(addresses)
        return ETHERNET + b"\x86\xdd" + header + payload
    size = 20 + len(payload)
    header = struct.pack("!BBHHHBBH", 0x45, 0, size, 0, 0x4000, 64, protocol, 0)
    header += b"".join(addresses)
    return ETHERNET + b"\x08\x00" + header + payload


def datagram(source: tuple[str, int], destination: tuple[str, int], payload: bytes) -> bytes:
    """A frame with UDP."""
    header = struct.pack("!HHHH", source[1], destination[1], 8 + len(payload), 0)
    return ip(source[0], destination[0], 17, header + payload)


def segment(
    source: tuple[str, int], destination: tuple[str, int], seq: int, flags: int, payload: bytes
) -> bytes:
    """A frame with TCP."""
    ports = source[1], destination[1]
    header = struct.pack("!HHIIBBHHH", *ports, seq % 2**32, 1, 5 << 4, flags, 65535, 0, 0)
    return ip(source[0], destination[0], 6, header + payload)


class Connection:
    """A TCP connection, of which each side says some bytes."""

    def __init__(self, port: int, server: tuple[str, int], isn: int = 1000) -> None:
        self.ends = ((CLIENT, port), server)
        self.next = [isn, isn + 2**31]

    def opening(self) -> list[bytes]:
        """SYN and its answer."""
        frames = [self.say(0, b"", flags=SYN), self.say(1, b"", flags=SYN | ACK)]
        self.next = [number + 1 for number in self.next]
        return frames

    def say(self, side: int, payload: bytes, at: int | None = None, flags: int = ACK) -> bytes:
        """A segment: the next bytes of a side, or bytes at a place of its stream."""
        source, destination = self.ends[side], self.ends[1 - side]
        if at is not None:
            return segment(source, destination, self.next[side] + at, flags, payload)
        frame = segment(source, destination, self.next[side], flags, payload)
        self.next[side] += len(payload)
        return frame


def labels(name: str) -> bytes:
    """A name as DNS writes it."""
    parts = [part.encode("latin1") for part in name.split(".") if part]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def query(number: int, name: str, kind: int = 1) -> bytes:
    """A DNS query."""
    header = struct.pack("!6H", number, 0x100, 1, 0, 0, 0)
    return header + labels(name) + struct.pack("!HH", kind, 1)


def response(number: int, name: str, address: str, ttl: int = 60, kind: int = 1) -> bytes:
    """A DNS response: an alias of the name, and the address of that."""
    question = labels(name) + struct.pack("!HH", kind, 1)
    alias = b"\x03cdn" + struct.pack("!H", 0xC00C)
    records = struct.pack("!HHHIH", 0xC00C, 5, 1, 300, len(alias)) + alias
    place = 0xC000 | 12 + len(question) + 12
    packed = ipaddress.ip_address(address).packed
    records += struct.pack("!HHHIH", place, kind, 1, ttl, len(packed)) + packed
    return struct.pack("!6H", number, 0x8180, 1, 2, 0, 0) + question + records


def asked(port: int, number: int, name: str, address: str) -> list[bytes]:
    """A query and its response."""
    ends = (CLIENT, port), (RESOLVER, 53)
    kind = 28 if ":" in address else 1
    answer = response(number, name, address, kind=kind)
    return [datagram(*ends, query(number, name, kind)), datagram(*ends[::-1], answer)]


def pieces(data: bytes, count: int) -> list[tuple[int, bytes]]:
    """Bytes in pieces of the same size, with their places."""
    size = -(-len(data) // count)
    return [(at, data[at : at + size]) for at in range(0, len(data), size)]


def encrypted() -> Iterator[list[bytes]]:
    """TLS and QUIC."""
    yield asked(40001, 1, "www.example.com", "198.51.100.1")
    plain = Connection(50001, ("198.51.100.1", 443))
    yield [*plain.opening(), plain.say(0, hello("www.example.com"))]
    # Without a name of its own: that of DNS remains.
    yield asked(40002, 2, "quiet.example.net", "198.51.100.2")
    quiet = Connection(50002, ("198.51.100.2", 443))
    yield [*quiet.opening(), quiet.say(0, hello(None, ["mqtt"]))]
    split = Connection(50003, ("198.51.100.3", 443), isn=2**32 - 100)
    parts = pieces(hello("split.example.com"), 20)
    order = parts[1::2][::-1] + parts[::2] + parts[:3]
    yield [*split.opening(), *(split.say(0, part, at) for at, part in order)]
    # Another name in a second version of the same bytes: the first ones count.
    two = Connection(50004, ("198.51.100.4", 443))
    first, other = hello("first.example.com"), hello("other.example.com")
    yield [
        *two.opening(),
        two.say(0, first[:200], 0),
        two.say(0, other[100:300], 100),
        two.say(0, first[200:], 200),
    ]
    for port, name in ((50005, "CLIENT_V1"), (50006, "CLIENT_V2")):
        yield [datagram((CLIENT, port), ("198.51.100.5", 443), quic_packet(name))]
    hostile = Connection(50007, ("198.51.100.7", 443))
    clears = hello("xyz[2Jevil.example").replace(b"xyz", b"x\x1bz")
    yield [*hostile.opening(), hostile.say(0, clears)]
    half = Connection(50008, ("198.51.100.8", 443))
    yield [*half.opening(), half.say(0, hello("half.example.com")[:150])]
    tunnel = Connection(50009, ("198.51.100.9", 3128))
    yield [
        *tunnel.opening(),
        tunnel.say(0, b"CONNECT proxied.example.com:443 HTTP/1.1\r\n\r\n"),
        tunnel.say(1, b"HTTP/1.1 200 OK\r\n\r\n"),
        tunnel.say(0, hello("inside.example.com")),
    ]
    mail = Connection(50010, ("198.51.100.10", 587))
    yield [
        *mail.opening(),
        mail.say(1, b"220 mail.example.org ESMTP Postfix\r\n"),
        mail.say(0, b"EHLO me\r\n"),
        mail.say(1, b"250 STARTTLS\r\n"),
        mail.say(0, b"STARTTLS\r\n"),
        mail.say(1, b"220 ready\r\n"),
        mail.say(0, hello("mail.example.org", [])),
    ]
    yield [tunnel.say(0, hello("late.example.com"), 5000)]


def in_the_clear() -> Iterator[list[bytes]]:
    """HTTP, and servers and clients that greet."""
    web = Connection(50020, ("198.51.100.20", 8080))
    yield [
        *web.opening(),
        web.say(0, b"GET / HTTP/1.1\r\nAccept: */*\r\nHo"),
        web.say(0, b"st: plain.example.com:8080\r\n\r\n"),
    ]
    greetings = [
        (22, 1, b"SSH-2.0-OpenSSH_9.2\r\n"),
        (21, 1, b"220 (vsFTPd 3.0.3)\r\n"),
        (143, 1, b"* OK IMAP4rev1 ready\r\n"),
        (1883, 0, b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x03abc"),
        (3306, 1, b"\x4a\0\0\0\x0a8.0.36\0\x08\0\0\0abcdefgh\0"),
        (6379, 0, b"*1\r\n$4\r\nPING\r\n"),
        (4242, 0, b"something else entirely\n"),
    ]
    for port, side, payload in greetings:
        flow = Connection(50100 + port % 100, ("198.51.100.21", port))
        yield [*flow.opening(), flow.say(side, payload)]
    # Answers alone, as a tap of one direction sees them.
    server_hello = b"\x16\x03\x03\x00\x5a\x02\0\0\x56\x03\x03"
    for port, payload in ((443, server_hello), (80, b"HTTP/1.1 200 OK\r\n")):
        answer = Connection(50050 + port % 10, ("198.51.100.50", port))
        yield [answer.say(1, payload)]
    database = Connection(50030, ("198.51.100.30", 5432))
    yield [
        *database.opening(),
        database.say(0, b"\0\0\0\x08\x04\xd2\x16\x2f"),
        database.say(1, b"S"),
        database.say(0, hello("db.example.com", ["postgresql"])),
    ]


def names() -> Iterator[list[bytes]]:
    """DNS in its forms, and what tries to mislead."""
    group = ("224.0.0.251", 5353)
    address = ipaddress.ip_address("192.0.2.77").packed
    own = labels("printer.local") + struct.pack("!HHIH", 1, 0x8001, 120, 4) + address
    announced = struct.pack("!6H", 0, 0x8400, 0, 1, 0, 0) + own
    yield [datagram(("192.0.2.77", 5353), group, announced)]
    # Not its own address: nobody believes that.
    yield [datagram(("192.0.2.66", 5353), group, announced.replace(b"printer", b"pretend"))]
    yield [datagram((CLIENT, 60001), ("224.0.0.252", 5355), query(9, "neighbour"))]
    printing = Connection(50040, ("192.0.2.77", 9100))
    yield [*printing.opening(), printing.say(0, b"@PJL SET COPIES=1\r\n")]
    loop = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + b"\xc0\x0c\0\x01\0\x01"
    yield [datagram((CLIENT, 40010), (RESOLVER, 53), loop)]
    unasked = response(8, "bank.example.com", "203.0.113.66")
    yield [datagram((RESOLVER, 53), (CLIENT, 40011), unasked)]
    misled = Connection(50041, ("203.0.113.66", 443))
    yield [*misled.opening(), misled.say(0, hello(None, []))]
    yield [datagram((CLIENT, 40012), (RESOLVER, 53), query(10, "a\x1b[31mred.example.com"))]
    stream = Connection(40013, (RESOLVER, 53))
    asks = query(11, "long.example.com", 16)
    framed = struct.pack("!H", len(asks)) + asks
    yield [*stream.opening(), stream.say(0, framed[:5]), stream.say(0, framed[5:])]
    yield asked(40014, 12, "six.example.com", "2001:db8::6")


def all_frames() -> list[Frame]:
    """All of it, in order of time."""
    parts = (encrypted, in_the_clear, names)
    steps = [frame for part in parts for step in part() for frame in step]
    return [
        Frame(START_NS + index * STEP_NS, data, len(data)) for index, data in enumerate(steps)
    ]


if __name__ == "__main__":
    write_pcap(Path(sys.argv[1]), all_frames())
