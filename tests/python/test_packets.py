"""`wirelens.packets`: every packet, once, with what the capture says of it."""

import ipaddress
import struct
from collections import Counter
from pathlib import Path

import pytest
import wirelens
from captures import Frame, write_pcap, write_pcapng
from command import DEMO

DEMO_LEN = 4944


def datagram(text: bytes, vlan: int | None = None) -> bytes:
    """A frame with a datagram from 10.0.0.1:1000 to 10.0.0.2:53."""
    udp = struct.pack(">4H", 1000, 53, 8 + len(text), 0) + text
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
    ip += ipaddress.ip_address("10.0.0.1").packed + ipaddress.ip_address("10.0.0.2").packed
    tag = b"" if vlan is None else struct.pack(">HH", 0x8100, vlan)
    return bytes(12) + tag + b"\x08\x00" + ip + udp


def test_a_row_says_what_the_frame_holds(tmp_path: Path) -> None:
    frame = datagram(b"question", vlan=7)
    write_pcap(tmp_path / "one.pcap", [Frame(1_700_000_000_123_456_789, frame, len(frame) + 10)])
    (packet,) = wirelens.packets(tmp_path / "one.pcap", frame=16, payload=100)
    assert packet == wirelens.Packet(
        time_ns=1_700_000_000_123_456_789,
        wire_len=len(frame) + 10,
        captured_len=len(frame),
        interface=0,
        direction=None,
        segments=1,
        vlan=7,
        protocol="udp",
        src_ip="10.0.0.1",
        dst_ip="10.0.0.2",
        src_port=1000,
        dst_port=53,
        tcp_flags=None,
        payload_len=8,
        malformed=None,
        frame=frame[:16],
        payload=b"question",
    )


def test_bytes_are_where_their_names_say(tmp_path: Path) -> None:
    frame = datagram(b"question")
    padded = frame + bytes(6)
    write_pcapng(tmp_path / "one.pcapng", [Frame(10**18, padded, len(padded))])
    path = tmp_path / "one.pcapng"
    (bare,) = wirelens.packets(path)
    (with_frame,) = wirelens.packets(path, frame=10**6)
    (with_payload,) = wirelens.packets(path, payload=3)
    assert (bare.frame, bare.payload) == (None, None)
    assert (with_frame.frame, with_frame.payload) == (padded, None)
    assert (with_payload.frame, with_payload.payload) == (None, b"que")
    (all_of_it,) = wirelens.packets(path, payload=10**6)
    assert all_of_it.payload == b"question", "the link's padding is no payload"


@pytest.mark.parametrize("batch_size", [1, 7, 4944, 8192])
def test_every_packet_comes_once_and_in_order(batch_size: int) -> None:
    whole = list(wirelens.packets(DEMO))
    assert len(whole) == DEMO_LEN
    stream = wirelens.packets(DEMO, batch_size=batch_size)
    assert max(len(batch) for batch in stream.batches()) == min(batch_size, DEMO_LEN)
    assert list(stream) == whole


def test_packets_add_up_to_what_top_says() -> None:
    packets, sizes = Counter[str](), Counter[str]()
    for packet in wirelens.packets(DEMO):
        if packet.src_ip is not None:
            packets[packet.src_ip] += 1
            sizes[packet.src_ip] += packet.wire_len
    table = wirelens.top(DEMO, n=0)
    assert {row.src_ip: row.packets for row in table} == packets
    assert {row.src_ip: row.bytes for row in table} == sizes
    protocols = Counter(packet.protocol for packet in wirelens.packets(DEMO))
    by_protocol = wirelens.top(DEMO, by="protocol", n=0)
    assert {row.protocol: row.packets for row in by_protocol} == protocols


def test_filter_count_and_snaplen() -> None:
    some = list(wirelens.packets(DEMO, "tcp[tcpflags] == tcp-syn", count=5))
    assert len(some) == 5
    assert {packet.tcp_flags for packet in some} == {2}
    stream = wirelens.packets(DEMO, "arp")
    assert len(list(stream)) == 8
    wanted = {"received": DEMO_LEN, "filtered": DEMO_LEN - 8, "clamped_stamps": 0, "undecoded": {}}
    assert stream.counts == wanted | {"duplicates": 0}
    assert max(packet.captured_len for packet in wirelens.packets(DEMO, snaplen=60)) == 60


def test_captures_are_merged_by_time(tmp_path: Path) -> None:
    for name, start in (("late", 2), ("early", 1)):
        frames = [Frame(10**18 + i * 10 + start, datagram(name.encode()), 60) for i in range(50)]
        write_pcap(tmp_path / name, frames)
    stream = wirelens.packets([tmp_path / "late", tmp_path / "early"], payload=9)
    payloads = [packet.payload for packet in stream]
    assert payloads == [b"early", b"late"] * 50


def test_columns_are_documented() -> None:
    stream = wirelens.packets(DEMO, frame=1, payload=1)
    assert stream.columns == list(wirelens.Packet._fields)
    assert all(field.about.endswith(".") for field in stream.fields)
    assert [f.nullable for f in stream.fields if f.name in ("wire_len", "src_port")] == [
        False,
        True,
    ]
