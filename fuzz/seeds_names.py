"""Seeds of what reads names: ClientHellos, Initial packets and pieces of handshakes."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

# The sample packets of RFC 9001 and RFC 9369, as the crate's tests have them.
VECTORS = Path(__file__).resolve().parent.parent / "crates/names/src/quic/vectors.rs"


def u16(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


def vector(data: bytes) -> bytes:
    return u16(len(data)) + data


def vectors() -> dict[str, bytes]:
    found = re.findall(r'const ([A-Z0-9_]+): &str = "([^"]*)";', VECTORS.read_text())
    return {name: bytes.fromhex(re.sub(r"[\\\s]", "", text)) for name, text in found}


def hello() -> bytes:
    """As a browser's: GREASE, names of protocols, versions, and two extensions of the same kind."""
    extensions = [
        (0x1A1A, b""),
        (0, vector(b"\0" + vector(b"www.example.com"))),
        (16, vector(b"\2h2\x08http/1.1")),
        (43, b"\6\x3a\x3a\3\4\3\3"),
        (13, vector(u16(0x0403, 0x0804, 0x0401))),
        (0xFE0D, bytes(20)),
        (51, bytes(8)),
        (16, vector(b"\2h3")),
    ]
    told = b"".join(u16(kind) + vector(data) for kind, data in extensions)
    suites = u16(0x2A2A, 0x1301, 0x1302, 0xC02B)
    body = u16(0x0303) + bytes(32) + b"\4sess" + vector(suites) + b"\1\0" + vector(told)
    return b"\1" + len(body).to_bytes(3, "big") + body


def in_records(message: bytes, size: int) -> bytes:
    parts = [message[start : start + size] for start in range(0, len(message), size)]
    return b"".join(b"\x16\3\1" + vector(part) for part in parts)


def name_seeds() -> Iterator[tuple[str, str, bytes]]:
    known = vectors()
    messages = {"browser": hello(), "rfc9001": known["CLIENT_CRYPTO_FRAME"][4:]}
    old = b"\1\0\0\x2b" + u16(0x0301) + bytes(32) + b"\0" + vector(u16(5, 4)) + b"\1\0"
    for name, message in (messages | {"old": old}).items():
        yield "tls_hello", name, u16(60) + message
        yield "tls_hello", f"{name}-record", u16(90) + in_records(message, 1 << 14)
        yield "tls_hello", f"{name}-records", u16(120) + in_records(message, 50)
    for side in ("CLIENT", "SERVER", "RETRY"):
        for version in ("V1", "V2"):
            datagram = known[f"{side}_{version}"]
            yield "quic_initial", f"{side}-{version}".lower(), b"\1" + vector(datagram) * 2
    both = vector(known["CLIENT_V1"] + known["SERVER_V1"]) + vector(known["CLIENT_V2"] + bytes(9))
    yield "quic_initial", "coalesced", b"\1" + both
    close = b"\x1c\0\6\2no"
    frames = b"\0\0\1" + known["SERVER_PAYLOAD"] + b"\6\x40\x80\3abc" + b"\3\1\1\0\0\1\1\1" + close
    yield "quic_initial", "frames", b"\0" + known["CLIENT_CRYPTO_FRAME"] + frames
    lend, insert, give_back = b"\0\0\0\0", b"\2", b"\1\0\0\0"
    pieces = [(0, 2), (16, 3), (100, 1), (8, 6), (3500, 20), (60_000, 1), (0, 20)]
    steps = b"".join(
        insert + u16(offset) + bytes([count]) + bytes([offset % 251]) * (16 * count)
        for offset, count in pieces
    )
    yield "gather", "pieces", b"\3" + lend + steps
    yield "gather", "evicted", b"\1" + lend * 4 + steps[:200] + give_back + lend * 2
    yield from flow_seeds(known, hello())


def dns_label(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def flow_seeds(known: dict[str, bytes], message: bytes) -> Iterator[tuple[str, str, bytes]]:
    """Messages of DNS, and packets of flows that carry names."""
    question = dns_label("www.example.com") + u16(1, 1)
    query = u16(7, 0x100, 1, 0, 0, 0) + question
    alias = u16(0xC00C, 5, 1, 0, 60, 6) + b"\3cdn\xc0\x0c"
    address = u16(0xC02B, 1, 1, 0, 60, 4) + bytes([192, 0, 2, 7])
    answer = u16(7, 0x8180, 1, 2, 0, 0) + question + alias + address
    loop = u16(7, 0x100, 1, 0, 0, 0) + b"\xc0\x0c" + u16(1, 1)
    request = b"GET / HTTP/1.1\r\nHost: www.example.com:80\r\n\r\n"
    texts = {"query": query, "answer": answer, "loop": loop, "request": request}
    yield from (("dns_message", name, data) for name, data in texts.items())

    def packet(kind: int, offset: int, data: bytes) -> bytes:
        return bytes([kind]) + u16(offset) + bytes([len(data)]) + data

    answer_bit, syn, udp, dns_port, mail_port = 1, 2, 4, 1 << 3, 3 << 3
    stream = in_records(message, 1 << 14)
    parts = [(at, stream[at : at + 60]) for at in range(0, len(stream), 60)]
    opening = packet(syn, 0, b"")
    pieces = b"".join(packet(0, 1 + at, part) for at, part in parts[::-1])
    yield "names", "pieces", opening + pieces
    asked = packet(udp | dns_port, 0, query) + packet(udp | dns_port | answer_bit, 0, answer)
    yield "names", "dns", asked + opening + packet(0, 1, stream[:255])
    greeting = packet(mail_port | answer_bit, 0, b"220 mail ESMTP\r\n")
    yield "names", "starttls", greeting + packet(mail_port, 9, stream[:250])
    yield "names", "quic", packet(udp, 0, known["CLIENT_V1"][:255])
    yield "names", "http", opening + packet(0, 1, request)
