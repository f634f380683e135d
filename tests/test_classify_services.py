"""The model `services` that ships: names for what everybody knows, `unknown` for what it does not.

Flows are built here, byte by byte, as programs on any network send them; the last test judges the
model on captures of families that trained nothing and chose nothing, and needs the data set beside
the repository.
"""

import csv
import hashlib
import ipaddress
import json
import random
import re
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
from captures import Frame, write_pcap
from command import ROOT, WIDE_DATA, wirelens

MODEL = ROOT / "models/services"
START_NS = 1_700_000_000 * 10**9
CLIENT, SERVER = b"\x0a\x01\x02\x03", b"\xc6\x33\x64\x07"
CLIENT6, SERVER6 = (
    bytes.fromhex("20010db8000100000000000000000003"),
    bytes.fromhex("20010db8000200000000000000000007"),
)

TLS_HELLO = (
    bytes.fromhex("1603010200010001fc0303")
    + bytes(range(32))
    + bytes.fromhex(
        "20"
        + "55" * 32
        + "003e130213031301c02cc030009fcca9cca8ccaac02bc02f009ec024c028006bc023c0270067"
    )
    + bytes(390)
)
TLS_ANSWER = bytes.fromhex("160303007a020000760303") + bytes(range(100, 211))
SSH = [b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", b"SSH-2.0-OpenSSH_8.4\r\n"]
LDAP = [
    bytes.fromhex("300c020101600702010304008000"),
    bytes.fromhex("300c02010161070a010004000400"),
]
DNS = [
    bytes.fromhex("1a2b01000001000000000000") + b"\x07example\x03org\x00" + b"\0\1\0\1",
    bytes.fromhex("1a2b81800001000100000000")
    + b"\x07example\x03org\x00"
    + b"\0\1\0\1"
    + bytes.fromhex("c00c000100010000012c0004c6336407"),
]
HTTP = [
    b"GET /index.html HTTP/1.1\r\nHost: example.org\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n",
]


def ip(protocol: int, body: bytes, is_back: bool, version: int = 4) -> bytes:
    """A frame on Ethernet; checksums are left out, as offloads do."""
    if version == 6:
        ends = SERVER6 + CLIENT6 if is_back else CLIENT6 + SERVER6
        packet = struct.pack(">IHBB", 6 << 28, len(body), protocol, 64) + ends + body
        return b"\2" * 12 + b"\x86\xdd" + packet
    ends = SERVER + CLIENT if is_back else CLIENT + SERVER
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 7, 0x4000, 64, protocol, 0)
    return b"\2" * 12 + b"\x08\0" + head + ends + body


def udp(client: int, server: int, payloads: Iterable[bytes]) -> list[bytes]:
    """Datagrams that go and come in turn."""
    frames = []
    for turn, payload in enumerate(payloads):
        ports = (server, client) if turn % 2 else (client, server)
        frames.append(ip(17, struct.pack(">HHHH", *ports, 8 + len(payload), 0) + payload, turn % 2))
    return frames


def tcp(client: int, server: int, payloads: Iterable[bytes]) -> list[bytes]:
    """A handshake, then segments that go and come in turn."""

    def segment(is_back: bool, flags: int, seq: int, ack: int, payload: bytes = b"") -> bytes:
        ports = (server, client) if is_back else (client, server)
        return ip(6, struct.pack(">HHIIBBHHH", *ports, seq, ack, 0x50, flags, 64240, 0, 0)
                  + payload, is_back)  # fmt: skip

    frames = [segment(False, 2, 100, 0), segment(True, 18, 900, 101), segment(False, 16, 101, 901)]
    sent = [101, 901]
    for turn, payload in enumerate(payloads):
        side = turn % 2
        frames.append(segment(bool(side), 24, sent[side], sent[1 - side], payload))
        sent[side] += len(payload)
    return frames


def said_of(frames: list[bytes], tmp_path: Path, *options: str) -> dict[str, str]:
    """The verdict on the one flow of these frames, a millisecond apart."""
    capture = tmp_path / "flow.pcap"
    stamps = range(START_NS, START_NS + 10**6 * len(frames), 10**6)
    frame = [Frame(ns, data, len(data)) for ns, data in zip(stamps, frames, strict=True)]
    write_pcap(capture, frame)
    ran = wirelens("classify", "-q", "-r", capture, "--model", MODEL, "--format", "csv", *options)
    assert ran.status == 0, ran.stderr
    (row,) = ran.rows
    return row


@pytest.mark.parametrize(
    ("name", "frames"),
    [
        ("dns", udp(53123, 53, DNS)),
        ("tls", tcp(50123, 443, [TLS_HELLO, TLS_ANSWER])),
        ("tls", tcp(33567, 443, [TLS_HELLO, TLS_ANSWER])),
        ("ssh", tcp(41234, 22, [SSH[0], SSH[1]])),
        ("ldap", tcp(49201, 389, LDAP)),
        ("ldap", udp(49202, 389, LDAP)),
        ("http", tcp(41666, 80, HTTP)),
        ("ipv6-icmp", [ip(58, bytes.fromhex("8000aaaa00010001") + bytes(8), False, 6)]),
        ("icmp", [ip(1, bytes.fromhex("0800aaaa00010001") + bytes(48), False)]),
        ("igmp", [ip(2, bytes.fromhex("1164ee9b00000000"), False)]),
        ("esp", [ip(50, bytes.fromhex("0000100100000001") + bytes(64), False)]),
        ("sctp", [ip(132, bytes.fromhex("0b590b5900000000") + bytes(24), False)]),
    ],
)
def test_what_everybody_knows_is_named(name: str, frames: list[bytes], tmp_path: Path) -> None:
    row = said_of(frames, tmp_path)
    assert (row["label"], row["guess"]) == (name, name), row
    assert float(row["confidence"]) > 0.5


def test_noise_between_ports_that_hosts_draw_is_unknown(tmp_path: Path) -> None:
    dice = random.Random(5)
    named = []
    for number in range(20):
        sizes = [dice.randrange(40, 900) for _ in range(4)]
        payloads = [dice.randbytes(size) for size in sizes]
        ports = dice.randrange(20_001, 32_000), dice.randrange(49_152, 65_000)
        way = udp if number % 2 else tcp
        row = said_of(way(ports[1], ports[0], payloads), tmp_path)
        assert row["guess"] and 0 <= float(row["guess_confidence"]) <= 1
        if row["label"] != "unknown":
            named.append(row["label"])
        else:
            assert row["confidence"] == ""
    # A tenth is what the card promises of foreign flows at most, more or less.
    assert len(named) <= 4, named


def test_the_caller_has_the_last_word_about_unknown(tmp_path: Path) -> None:
    frames = udp(53123, 53, DNS)
    row = said_of(frames, tmp_path, "--unknown-below", "1")
    assert (row["label"], row["guess"], row["confidence"]) == ("unknown", "dns", "")
    refused = wirelens("classify", "-r", tmp_path, "--model", MODEL, "--unknown-below", "2")
    assert refused.status == 2 and "a probability from 0 to 1" in refused.stderr


SEALED = 0.2


def is_sealed(family: str) -> bool:
    """As training seals families: by a hash of their names."""
    digest = hashlib.sha256(family.encode()).digest()
    return int.from_bytes(digest[:8], "big") < SEALED * 2**64


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table, delimiter="\t"))


def ends_of(protocol: str, src: str, sport: str, dst: str, dport: str) -> tuple[object, ...]:
    def end(address: str, port: str) -> tuple[str, int]:
        try:
            return str(ipaddress.ip_address(address)), int(port)
        except ValueError:
            return address, int(port)

    return (protocol.lower(), *sorted((end(src, sport), end(dst, dport))))


def sealed_flows() -> list[tuple[str, str, str]]:
    """Of each labelled flow of TCP or UDP in sealed families: what it is, what the model says, and
    what a table of known ports says; empty where nothing is said.
    """
    data = WIDE_DATA / "services"
    noted = {
        row["file"]: re.search(r"family=(\S+)", row["note"])
        for row in rows_of(data / "MANIFEST.tsv")
    }
    files = [name for name, found in noted.items() if found and is_sealed(found[1].rstrip(";"))]
    names = {
        row["label"]: row["class"] for row in rows_of(ROOT / "models/recipes/services-classes.tsv")
    }
    classes = set(json.loads((MODEL / "cascade.json").read_text(encoding="utf-8"))["classes"])
    known = {
        (row["proto"], int(row["port"])): row["class"]
        for row in rows_of(ROOT / "models/recipes/services-ports.tsv")
        if row["class"] in classes
    }
    truth: dict[str, dict[tuple[object, ...], str]] = {}
    for row in rows_of(data / "flows.tsv"):
        label = row["ndpi_proto"]
        name = names.get(label, names.get(label.partition(".")[0], "unknown"))
        ends = ends_of(*(row[column] for column in ("proto", "src", "sport", "dst", "dport")))
        truth.setdefault(row["file"], {})[ends] = name if name in classes else "unknown"
    found = []
    for name in files:
        ran = wirelens("classify", "-q", "-r", data / name, "--model", MODEL, "--format", "csv")
        for row in ran.rows:
            ports = int(row["dst_port"]), int(row["src_port"])
            ends = ends_of(
                row["protocol"], row["src_ip"], str(ports[1]), row["dst_ip"], str(ports[0])
            )
            label = truth.get(name, {}).get(ends)
            if label is None or row["protocol"] not in ("tcp", "udp"):
                continue
            of_ports = [known.get((row["protocol"], port), "") for port in sorted(ports)]
            table = next((one for one in of_ports if one), "")
            found.append((label, "" if row["label"] == "unknown" else row["label"], table))
    return found


@pytest.mark.wide
def test_on_sealed_families_it_is_as_good_as_the_card_says_and_as_a_table_of_ports() -> None:
    flows = sealed_flows()
    own = [(label, said, table) for label, said, table in flows if label != "unknown"]
    foreign = [said for label, said, _ in flows if label == "unknown"]
    assert len(own) > 800 and len(foreign) > 50
    named = sum(bool(said) for _, said, _ in own) / len(own)
    right = sum(label == said for label, said, _ in own) / len(own)
    of_table = sum(label == table for label, _, table in own) / len(own)
    assert right >= of_table, (right, of_table)
    card = (MODEL / "card.md").read_text(encoding="utf-8")
    line = next(line for line in card.splitlines() if line.startswith("| this cascade |"))
    figures = [float(cell.split()[0]) for cell in line.split("|")[2:7] if cell.strip()]
    assert abs(figures[0] - named) < 0.02, (figures, named)
    assert abs(figures[2] - right) < 0.02, (figures, right)
    assert abs(figures[4] - sum(map(bool, foreign)) / len(foreign)) < 0.05, (figures, foreign)
