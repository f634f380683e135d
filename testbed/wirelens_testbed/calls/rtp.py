"""What a capture of a call says by itself: RTP headers stay readable when the media is encrypted.

All packets of one video frame carry the frame's time, so the distinct times of a second are its
frames. That ties the captures to what the browser counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wirelens_testbed.pcapng import CapturedPacket, read_packets

ETHERNET_SIZE_BYTES, UDP_SIZE_BYTES, RTP_SIZE_BYTES = 14, 8, 12
ETHERTYPE_IPV4, PROTOCOL_UDP = 0x0800, 17
RTP_VERSION = 2
# RFC 5761, section 4: RTCP shares the port; its packet types are this range of the second byte.
RTCP_TYPES = range(192, 224)


@dataclass(frozen=True, slots=True)
class RtpPacket:
    ts_ns: int
    source: bytes  # the sender's IPv4 address
    ssrc: int
    payload_type: int
    sequence: int
    media_time: int


def read_rtp(path: Path) -> Iterator[RtpPacket]:
    """The RTP packets of a capture."""
    return (rtp for packet in read_packets(path) if (rtp := parse_rtp(packet)))


def parse_rtp(packet: CapturedPacket) -> RtpPacket | None:
    """The RTP header of an Ethernet frame, if it holds one."""
    data = packet.data
    if len(data) < ETHERNET_SIZE_BYTES + 20 or data[12:14] != ETHERTYPE_IPV4.to_bytes(2, "big"):
        return None
    ip_size_bytes = (data[ETHERNET_SIZE_BYTES] & 0x0F) * 4
    offset = ETHERNET_SIZE_BYTES + ip_size_bytes + UDP_SIZE_BYTES
    if data[ETHERNET_SIZE_BYTES + 9] != PROTOCOL_UDP or len(data) < offset + RTP_SIZE_BYTES:
        return None
    first, second, sequence, media_time, ssrc = struct.unpack_from("!BBHII", data, offset)
    if first >> 6 != RTP_VERSION or second in RTCP_TYPES:
        return None
    source = data[ETHERNET_SIZE_BYTES + 12 : ETHERNET_SIZE_BYTES + 16]
    return RtpPacket(packet.ts_ns, source, ssrc, second & 0x7F, sequence, media_time)


def frames_per_interval(
    packets: Iterable[RtpPacket], ssrc: int, ends_ns: Sequence[int]
) -> list[int]:
    """How many frames of a stream were complete in each interval between the given times.

    A frame counts where its last packet arrived, as the browser counts it when it is complete.
    """
    last_ns: dict[int, int] = {}
    for packet in packets:
        if packet.ssrc == ssrc:
            last_ns[packet.media_time] = packet.ts_ns
    completed_ns = sorted(last_ns.values())
    counts = [0] * (len(ends_ns) - 1)
    index = 0
    for at_ns in completed_ns:
        if at_ns <= ends_ns[0]:
            continue
        while index < len(counts) and at_ns > ends_ns[index + 1]:
            index += 1
        if index == len(counts):
            break
        counts[index] += 1
    return counts
