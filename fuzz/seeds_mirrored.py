"""Headers for seeds, and frames as clouds, switches and radios mirror them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAC = bytes.fromhex("02574c000011 02574c000001")
V4 = bytes([192, 0, 2, 1, 198, 51, 100, 2])
V6 = bytes.fromhex("20010db8000000000000000000000001 20010db8000000000000000000000002")


def u16(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


def u32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


# --- Headers, around what they carry ----------------------------------------------------------


def ethernet(ether_type: int, payload: bytes) -> bytes:
    return MAC + u16(ether_type) + payload


def ipv4(protocol: int, payload: bytes, options: bytes = b"", fragment: int = 0) -> bytes:
    words = 5 + len(options) // 4
    head = bytes([0x40 | words, 0]) + u16(words * 4 + len(payload), 7, fragment)
    return head + bytes([64, protocol, 0, 0]) + V4 + options + payload


def ipv6(protocol: int, payload: bytes) -> bytes:
    return u32(6 << 28) + u16(len(payload)) + bytes([protocol, 64]) + V6 + payload


def udp(source: int, destination: int, payload: bytes) -> bytes:
    return u16(source, destination, 8 + len(payload), 0) + payload


def inner() -> bytes:
    return ipv4(17, udp(53, 50000, b"inside"))


GENEVE = bytes([5, 0x40]) + u16(0x0800) + bytes([0, 0, 5, 0, 1, 8, 1, 2]) + bytes(8)
GENEVE += bytes([1, 8, 3, 1]) + bytes(4)
ERSPAN = {
    "ii": u16(0x1007, 1, 0, 0),
    "iii": u16(0x2007, 1, 0, 1, 0, 0),
    "iii-subheader": u16(0x2007, 0x0401, 0, 1, 0, 0x0801, 0, 0, 0, 0),
}


def wlan(flags: int, subtype: int, qos: int, body: bytes) -> bytes:
    head = bytes([subtype << 4 | 8, flags]) + bytes(2) + MAC + MAC[:6] + bytes(2)
    head += MAC[6:] if flags & 3 == 3 else b""
    if subtype & 8:
        head += struct.pack("<H", qos) + (bytes(4) if flags & 0x80 else b"")
    return head + body


def mirrored_frames() -> Iterator[tuple[str, int, bytes]]:
    carried = ethernet(0x0800, inner())
    yield "geneve", 0, ethernet(0x0800, ipv4(17, udp(9999, 6081, GENEVE + inner())))
    yield "erspan-i", 0, ethernet(0x0800, ipv4(47, u16(0, 0x88BE) + carried))
    for name, head in ERSPAN.items():
        kind = 0x88BE if name == "ii" else 0x22EB
        payload = inner() if name == "iii-subheader" else carried
        mirrored = u16(0x1000, kind, 0, 1) + head + payload
        yield f"erspan-{name}", 0, ethernet(0x0800, ipv4(47, mirrored))
    for name, control in {"macsec": 0x00, "macsec-channel": 0x20, "macsec-sealed": 0x2C}.items():
        tag = bytes([control, 0]) + u32(9) + (bytes(8) if control & 0x20 else b"")
        yield name, 0, ethernet(0x88E5, tag + u16(0x0800) + inner() + bytes(16))


def radio_frames() -> Iterator[tuple[str, int, bytes]]:
    llc = bytes.fromhex("aaaa03000000") + u16(0x0800) + inner()
    subframe = MAC + u16(len(llc)) + llc
    frames = {
        "wlan": wlan(1, 0, 0, llc),
        "wlan-wds": wlan(0x83, 8, 0, llc),
        "wlan-aggregate": wlan(2, 8, 0x80, subframe),
        "wlan-mesh": wlan(3, 8, 0x100, bytes([1, 9]) + bytes(10) + llc),
        "wlan-protected": wlan(0x41, 8, 0, bytes(40)),
        "wlan-fragment": wlan(0x05, 0, 0, llc[:40]),
        "wlan-beacon": bytes([0x80, 0]) + bytes(34),
    }
    for name, frame in frames.items():
        yield name, 14, frame
    heads = {
        "radiotap": (16, struct.pack("<BBHIQB", 0, 0, 17, 3, 7, 0x10)),
        "prism": (17, struct.pack("<II", 0x44, 144) + bytes(136)),
        "prism-avs": (17, struct.pack(">II", 0x80211001, 24) + bytes(16)),
        "avs": (18, struct.pack(">II", 0x80211002, 24) + bytes(16)),
        "ppi": (19, struct.pack("<BBHI", 0, 0, 8, 105)),
    }
    for name, (link, head) in heads.items():
        yield name, link, head + frames["wlan-aggregate"] + bytes(4)
