"""Databases of addresses in MaxMind's format, as tests need them."""

import struct
from ipaddress import ip_network
from typing import Any

MARKER = b"\xab\xcd\xefMaxMind.com"

Value = str | int | dict[str, Any] | list[Any]


def encoded(value: Value, kind: int | None = None) -> bytes:
    """A value of the data section; whole numbers are of 32 bits unless `kind` says otherwise."""
    match value:
        case str():
            body = value.encode()
            return head(2, len(body)) + body
        case int():
            body = value.to_bytes({5: 2, 6: 4, 9: 8}[kind or 6])
            return head(kind or 6, len(body)) + body
        case dict():
            pairs = (encoded(key) + encoded(inner) for key, inner in value.items())
            return head(7, len(value)) + b"".join(pairs)
        case list():
            return head(11, len(value)) + b"".join(map(encoded, value))


def head(kind: int, size: int) -> bytes:
    assert size < 29 + 256
    short, more = min(size, 29), bytes([size - 29]) if size >= 29 else b""
    first = bytes([short, kind - 7]) if kind > 7 else bytes([kind << 5 | short])
    return first + more


def database(networks: dict[str, Value], kind: str = "Tests") -> bytes:
    """Over IPv6, addresses of IPv4 in ::/96, with records of 32 bits."""
    nodes: list[list[Any]] = [[None, None]]
    data = bytearray()
    for name, value in networks.items():
        network = ip_network(name)
        before = 96 if network.version == 4 else 0
        bits = int(network.network_address) >> (network.max_prefixlen - network.prefixlen)
        path = [0] * before + [bits >> place & 1 for place in reversed(range(network.prefixlen))]
        node = 0
        for bit in path[:-1]:
            if nodes[node][bit] is None:
                nodes.append([None, None])
                nodes[node][bit] = len(nodes) - 1
            node = nodes[node][bit]
        nodes[node][path[-1]] = f"{len(data)}"
        data += encoded(value)
    tree = bytearray()
    for record in (record for node in nodes for record in node):
        match record:
            case None:
                number = len(nodes)
            case str():
                number = len(nodes) + 16 + int(record)
            case _:
                number = record
        tree += struct.pack(">I", number)
    facts = {
        "binary_format_major_version": (2, 5), "binary_format_minor_version": (0, 5),
        "build_epoch": (1_700_000_000, 9), "ip_version": (6, 5), "record_size": (32, 5),
        "node_count": (len(nodes), 6), "database_type": (kind, None),
        "description": ({"en": "Networks of the tests"}, None), "languages": (["en"], None),
    }  # fmt: skip
    metadata = head(7, len(facts))
    for name, (value, of) in facts.items():
        metadata += encoded(name) + encoded(value, of)
    return bytes(tree + bytes(16) + data + MARKER + metadata)


def system(number: int, organization: str) -> Value:
    """A record of GeoLite2-ASN."""
    return {
        "autonomous_system_number": number,
        "autonomous_system_organization": organization,
    }


def country(code: str) -> Value:
    """A record of GeoLite2-Country, in part."""
    return {"continent": {"code": "EU"}, "country": {"iso_code": code, "names": {"en": code}}}
