"""What clouds, switches and radios put around a packet leads to it, as in tshark.

Frames are put together by hand, where captures that may be shared have none: ERSPAN of types II
and III, Geneve with options, MACsec with integrity alone, and data frames of 802.11 in every form.
"""

import struct
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from reference import Tshark
from test_against_tshark import compare, tshark

__all__ = ["tshark"]

ETHERNET, WLAN, PRISM, RADIOTAP, AVS, PPI = 1, 105, 119, 127, 163, 192
MAC = bytes.fromhex("02574c000011 02574c000001")


def u16(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


def udp(destination: int, payload: bytes) -> bytes:
    return u16(50_000, destination, 8 + len(payload), 0) + payload


def ipv4(protocol: int, payload: bytes, host: int = 1) -> bytes:
    head = bytes([0x45, 0]) + u16(20 + len(payload), 7, 0) + bytes([64, protocol, 0, 0])
    return head + bytes([192, 0, 2, host, 198, 51, 100, host]) + payload


def ipv6(protocol: int, payload: bytes) -> bytes:
    addresses = bytes.fromhex("20010db8" + "00" * 11 + "01" + "20010db8" + "00" * 11 + "02")
    return u16(0x6000, 0, len(payload)) + bytes([protocol, 64]) + addresses + payload


def ethernet(ether_type: int, payload: bytes) -> bytes:
    return MAC + u16(ether_type) + payload


INNER4 = ipv4(17, udp(9999, b"inside"), host=77)
INNER6 = ipv6(17, udp(9998, b"inside"))
SNAP4, SNAP6 = (bytes.fromhex("aaaa03000000") + u16(kind) for kind in (0x0800, 0x86DD))
ARP = u16(1, 0x0800, 0x0604, 1) + bytes(20)


def gre(head: bytes, payload: bytes) -> bytes:
    return ethernet(0x0800, ipv4(47, head + payload))


def geneve(ether_type: int, options: bytes, payload: bytes) -> bytes:
    head = bytes([len(options) // 4, 0]) + u16(ether_type) + bytes([0, 0, 5, 0])
    return ethernet(0x0800, ipv4(17, udp(6081, head + options + payload)))


def macsec(control: int, short_length: int, payload: bytes) -> bytes:
    channel = bytes(8) if control & 0x20 else b""
    tag = bytes([control, short_length, 0, 0, 0, 9]) + channel
    return ethernet(0x88E5, tag + payload + bytes(16))


def mirrored() -> list[bytes]:
    sequence = u16(0x1000, 0x88BE, 0, 1)
    third = u16(0x1000, 0x22EB, 0, 1, 0x2007, 1, 0, 1, 0)
    options = bytes([1, 8, 1, 2]) + bytes(8) + bytes([1, 8, 3, 1]) + bytes(4)
    carried = u16(0x0800) + INNER4
    return [
        gre(u16(0, 0x88BE), ethernet(0x0800, INNER4)),
        gre(sequence + u16(0x1007, 1, 0, 0), ethernet(0x86DD, INNER6)),
        gre(sequence + u16(0x1007, 1, 0, 0), ethernet(0x8100, u16(9, 0x0800) + INNER4)),
        gre(third + u16(0), ethernet(0x0800, INNER4)),
        gre(third + u16(1) + bytes(8), ethernet(0x0806, ARP)),
        geneve(0x6558, b"", ethernet(0x0800, INNER4)),
        geneve(0x0800, options, INNER4),
        geneve(0x86DD, options, INNER6),
        macsec(0x00, 0, carried),
        macsec(0x20, len(carried), carried),
        macsec(0x20, 0, u16(0x8100, 9, 0x86DD) + INNER6),
        macsec(0x2C, 0, bytes(60)),
    ]


def data_frame(flags: int, subtype: int = 0, qos: int = 0, body: bytes = SNAP4 + INNER4) -> bytes:
    """Flags: 1 to, 2 from a distribution system, 4 more fragments, 0x40 protected, 0x80 order."""
    head = bytes([subtype << 4 | 8, flags, 0, 0]) + MAC + MAC[:6] + bytes(2)
    head += MAC[6:] if flags & 3 == 3 else b""
    if subtype & 8:
        head += struct.pack("<H", qos) + (bytes(4) if flags & 0x80 else b"")
    return head + body


def radio_frames() -> list[bytes]:
    subframe = MAC + u16(len(SNAP6 + INNER6)) + SNAP6 + INNER6
    mesh = bytes([1, 31, 0, 0, 0, 0]) + bytes(6)
    return [
        *(data_frame(flags) for flags in range(4)),
        *(data_frame(flags | 0x80, 8) for flags in range(4)),
        data_frame(0x80),
        data_frame(1, 8, body=SNAP4[:6] + u16(0x0806) + ARP),
        data_frame(1, 8, 0x80, subframe),
        data_frame(3, 8, 0x100, mesh + SNAP4 + INNER4),
        # Protected, without data, a beacon, an acknowledgment.
        data_frame(0x41, 8, body=bytes(60)),
        data_frame(1, 4, body=b""),
        bytes([0x80, 0, 0, 0]) + MAC + MAC[:6] + bytes(2 + 12),
        bytes([0xD4, 0, 0, 0]) + MAC[:6],
    ]


def radiotap(flags: int, frame: bytes) -> bytes:
    head = struct.pack("<BBHIQB", 0, 0, 17, 3, 7, flags)
    return head + frame + (bytes(4) if flags & 0x10 else b"")


@pytest.mark.parametrize(
    ("link", "frames"),
    [
        (ETHERNET, mirrored()),
        (WLAN, radio_frames()),
        (RADIOTAP, [radiotap(flags, f) for flags in (0, 0x10) for f in radio_frames()]),
        (RADIOTAP, [radiotap(0x20, data_frame(1, 8, 0, bytes(2) + SNAP4 + INNER4))]),
        (PRISM, [struct.pack("<II", 0x44, 144) + bytes(136) + f for f in radio_frames()]),
        (AVS, [struct.pack(">II", 0x80211001, 64) + bytes(56) + f for f in radio_frames()]),
        (PPI, [struct.pack("<BBHI", 0, 0, 8, 105) + f for f in radio_frames()]),
    ],
)
def test_what_is_mirrored_is_what_tshark_finds(
    tshark: Tshark, tmp_path: Path, link: int, frames: list[bytes]
) -> None:
    path = tmp_path / "mirrored.pcap"
    write_pcap(path, [Frame(at * 10**9, data, len(data)) for at, data in enumerate(frames)], link)
    reading = tshark.read(path)
    assert len(reading.packets) == len(frames)
    assert sum(len(packet.networks) > 0 for packet in reading.packets) > len(frames) // 2
    assert compare(path, reading) == []
