"""Where the headers of a packet end, so that what comes after them can be left out.

A packet begins here with its IP header: the link's header, and a tunnel's, are left out. The header
is found by its addresses, which stand in it side by side, whatever the link is.
"""

import ipaddress

_ICMP, _TCP, _UDP, _DCCP, _ICMPV6, _SCTP, _UDP_LITE = 1, 6, 17, 33, 58, 132, 136
# Of a transport header whose length is always the same.
_LENS = {_ICMP: 8, _UDP: 8, _ICMPV6: 8, _SCTP: 12, _UDP_LITE: 8}
_TCP_MIN, _DCCP_MIN = 20, 12
_V4_MIN, _V4_ADDRESSES, _V6_LEN, _V6_ADDRESSES = 20, 12, 40, 8
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_FRAGMENT_OFFSET_V4, _FRAGMENT_OFFSET_V6 = 0x1FFF, 0xFFF8


def packet_at(frame: bytes, src: str, dst: str) -> int | None:
    """Where the IP header with these addresses begins in a frame; None where it is not there."""
    one, other = ipaddress.ip_address(src), ipaddress.ip_address(dst)
    if one.version != other.version:
        return None
    before, first = (_V4_ADDRESSES, 0x40) if one.version == 4 else (_V6_ADDRESSES, 0x60)
    addresses = one.packed + other.packed
    at = frame.find(addresses)
    while at >= 0:
        start = at - before
        if start >= 0 and frame[start] & 0xF0 == first:
            return start
        at = frame.find(addresses, at + 1)
    return None


def packet_len(packet: bytes, payload_bytes: int | None) -> int:
    """Bytes of a packet to keep: its headers and so many of the payload, or with None all of it.

    Bytes after the packet, such as a link's padding, are never kept. Of a later fragment and of a
    packet whose transport header is not known only the IP headers are.
    """
    total, transport_at, protocol = _ip(packet)
    if payload_bytes is None:
        return min(total, len(packet))
    end = transport_at
    if protocol is not None:
        header_len = _transport_len(packet[transport_at:], protocol)
        if header_len is not None:
            end += header_len + payload_bytes
    return min(end, total, len(packet))


def _ip(packet: bytes) -> tuple[int, int, int | None]:
    """The packet's length by its header, where the IP headers end, and the protocol after them;
    None where what follows is no beginning of it.
    """
    if packet[0] >> 4 == 4:
        if len(packet) < _V4_MIN:
            return len(packet), len(packet), None
        # An offload leaves the length at 0 for the link to write.
        total = int.from_bytes(packet[2:4], "big") or len(packet)
        is_later = int.from_bytes(packet[6:8], "big") & _FRAGMENT_OFFSET_V4 != 0
        return total, max((packet[0] & 15) * 4, _V4_MIN), None if is_later else packet[9]
    if len(packet) < _V6_LEN:
        return len(packet), len(packet), None
    length = int.from_bytes(packet[4:6], "big")
    total = _V6_LEN + length if length else len(packet)
    return total, *_after_extensions(packet)


def _after_extensions(packet: bytes) -> tuple[int, int | None]:
    """Where the extension headers of IPv6 end, and the protocol after them; None after that of a
    later fragment, and where the capture ends first.
    """
    protocol, at = packet[6], _V6_LEN
    while protocol in (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION):
        extension = packet[at : at + 8]
        if len(extension) < 8:
            return at, None
        if protocol == _FRAGMENT:
            at += 8
            if int.from_bytes(extension[2:4], "big") & _FRAGMENT_OFFSET_V6:
                return at, None
        elif protocol == _AUTHENTICATION:
            at += (extension[1] + 2) * 4
        else:
            at += (extension[1] + 1) * 8
        protocol = extension[0]
    return at, protocol


def _transport_len(transport: bytes, protocol: int) -> int | None:
    """The length of the transport header; None of protocols that have none here."""
    if protocol == _TCP:
        return max((transport[12] >> 4) * 4, _TCP_MIN) if len(transport) > 12 else _TCP_MIN
    if protocol == _DCCP:
        return max(transport[4] * 4, _DCCP_MIN) if len(transport) > 4 else _DCCP_MIN
    return _LENS.get(protocol)
