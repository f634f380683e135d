"""Scans of ports, hosts, versions and operating systems, by nmap and by a scanner of our own."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from wirelens_testbed.attacks import frames
from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.frame_sender import evenly
from wirelens_testbed.attacks.network import SWEPT_PREFIX_LENGTH_MIN
from wirelens_testbed.scenario import Table

PROGRAMS = {"nmap": "nmap"}

OPTIONS_OF = {
    "nmap_syn": ("-sS",),
    "nmap_connect": ("-sT",),
    "nmap_udp": ("-sU",),
    "nmap_ack": ("-sA",),
    "nmap_fin": ("-sF",),
    "nmap_xmas": ("-sX",),
    "nmap_null": ("-sN",),
    "nmap_maimon": ("-sM",),
    "nmap_window": ("-sW",),
    "nmap_version": ("-sV",),
    "nmap_os": ("-O", "--max-os-tries", "2"),
    "nmap_scripts": ("-sC",),
}
# An open port answers a SYN, and the attacker's kernel resets; a version scan or a script talks.
FRAMES_PER_PROBE = {"nmap_connect": 4, "nmap_version": 60, "nmap_scripts": 150}
FRAMES_PER_PROBE_DEFAULT = 2
# Sixteen probes in each of two tries, and the port scan's own again (nmap book, chapter 8).
FRAMES_FOR_SYSTEM = 120
# nmap repeats a probe now and then to learn the time that answers take.
TIMING_PROBES_FACTOR = 1.5

PING_KINDS = {
    "arp": ("-PR",),
    "echo": ("--disable-arp-ping", "-PE"),
    "mixed": ("--disable-arp-ping", "-PE", "-PP", "-PS443", "-PA80"),
}
FRAMES_PER_PING = {"arp": 2, "echo": 4, "mixed": 10}

FORGED_WINDOW = 1024
# MSS 1460: a SYN with no options at all is rare, and says which tool sent it.
FORGED_OPTIONS = bytes([2, 4, 0x05, 0xB4])
SOURCE_PORTS = (49152, 65535)


@dataclass
class NmapScan(Attack):
    """A scan of one server or a few, of the ports that are most often open."""

    programs = PROGRAMS

    name: str
    host_count: int
    port_count: int
    timing: int
    retries: int
    time_max_s: float
    version_intensity: int
    targets: Sequence[str]

    def __post_init__(self) -> None:
        self.needs = frozenset(self.targets or {"web"})
        per_probe = FRAMES_PER_PROBE.get(self.name, FRAMES_PER_PROBE_DEFAULT)
        probes = self.port_count * (1 + self.retries) * TIMING_PROBES_FACTOR
        per_host = probes * per_probe + FRAMES_FOR_SYSTEM
        packets_max = OVERHEAD_PACKETS + round(self.host_count * per_host)
        self.bounds = Bounds(packets_max, self.time_max_s)

    def launch(self, scene: Scene) -> dict[str, object]:
        names = self.targets or sorted(scene.servers)
        names = scene.rng.sample(names, min(self.host_count, len(names)))
        targets = [scene.servers[name].address for name in names]
        options = list(OPTIONS_OF[self.name])
        if self.name == "nmap_version":
            options += ["--version-intensity", str(self.version_intensity)]
        said = scene.run_tool(
            "nmap", *options, "-n", f"-T{self.timing}", "--max-retries", str(self.retries),
            "--top-ports", str(self.port_count), "--host-timeout", f"{self.time_max_s:.0f}s",
            *targets,
        )  # fmt: skip
        return {"targets": " ".join(targets), **_nmap_said(said)}


@dataclass
class PingSweep(Attack):
    """Which addresses of the network are alive."""

    programs = PROGRAMS

    name: str
    kind: str
    timing: int
    prefix_length: int
    time_max_s: float

    def __post_init__(self) -> None:
        addresses = 1 << (32 - self.prefix_length)
        packets_max = OVERHEAD_PACKETS + addresses * FRAMES_PER_PING[self.kind]
        self.bounds = Bounds(packets_max, self.time_max_s)

    def launch(self, scene: Scene) -> dict[str, object]:
        network = f"{scene.network.network_address}/{self.prefix_length}"
        said = scene.run_tool(
            "nmap", "-sn", *PING_KINDS[self.kind], "-n", f"-T{self.timing}", "--max-retries", "1",
            network,
        )  # fmt: skip
        return {"targets": network, **_nmap_said(said)}


@dataclass
class ForgedScan(Attack):
    """A SYN scan by frames of our own: steady rate, shuffled ports, no answer looked at."""

    name: str
    host_count: int
    port_count: int
    rate_per_s: float
    needs: frozenset[str] = frozenset({"web"})

    def __post_init__(self) -> None:
        probes = self.host_count * self.port_count
        self.bounds = Bounds(2 * probes + OVERHEAD_PACKETS, probes / self.rate_per_s + 10)

    def launch(self, scene: Scene) -> dict[str, object]:
        victims = sorted(scene.servers.values(), key=lambda victim: victim.address)
        targets = scene.rng.sample(victims, min(self.host_count, len(victims)))
        well_known = range(1, self.port_count + 1)
        probes = [(target, port) for target in targets for port in well_known]
        scene.rng.shuffle(probes)
        attacker = scene.attacker
        source_mac = frames.mac_bytes(attacker.mac)
        sent = []
        for target, port in probes:
            ports = (scene.rng.randint(*SOURCE_PORTS), port)
            segment = frames.tcp(
                attacker.address, target.address, ports,
                flags=frames.TCP_SYN, sequence=scene.rng.getrandbits(32),
                window=FORGED_WINDOW, options=FORGED_OPTIONS,
            )  # fmt: skip
            packet = frames.ipv4(
                attacker.address, target.address, socket.IPPROTO_TCP, segment,
                ident=scene.rng.getrandbits(16),
            )  # fmt: skip
            mac = frames.mac_bytes(target.mac)
            sent.append(frames.ethernet(source_mac, mac, frames.ETHER_TYPE_IPV4, packet))
        scene.send_frames(evenly(sent, self.rate_per_s))
        return {
            "targets": " ".join(target.address for target in targets),
            "probes": len(sent),
        }


def parse_scan(name: str, table: Table) -> Attack:
    return NmapScan(
        name=name,
        host_count=table.take("hosts", int, 1, minimum=1, maximum=16),
        port_count=table.take("ports", int, 100, minimum=1, maximum=5000),
        timing=table.take("timing", int, 4, minimum=2, maximum=5),
        retries=table.take("retries", int, 1, minimum=0, maximum=5),
        time_max_s=table.take("time_max_s", float, 60.0, minimum=1, maximum=600),
        targets=table.take_list("targets", str),
        version_intensity=table.take("version_intensity", int, 5, minimum=0, maximum=9),
    )


def parse_sweep(name: str, table: Table) -> Attack:
    return PingSweep(
        name=name,
        kind=table.take("ping", str, "arp", among=tuple(PING_KINDS)),
        timing=table.take("timing", int, 4, minimum=2, maximum=5),
        prefix_length=table.take(
            "prefix_length", int, 25, minimum=SWEPT_PREFIX_LENGTH_MIN, maximum=30
        ),
        time_max_s=table.take("time_max_s", float, 60.0, minimum=1, maximum=600),
    )


def parse_forged(name: str, table: Table) -> Attack:
    return ForgedScan(
        name=name,
        host_count=table.take("hosts", int, 1, minimum=1, maximum=16),
        port_count=table.take("ports", int, 200, minimum=1, maximum=5000),
        rate_per_s=table.take("rate_per_s", float, 200.0, minimum=1, maximum=5000),
    )


ATTACKS = {
    **dict.fromkeys(OPTIONS_OF, parse_scan),
    "nmap_ping_sweep": parse_sweep,
    "forged_syn_scan": parse_forged,
}


def _nmap_said(text: str) -> dict[str, object]:
    open_ports = len(re.findall(r"^\d+/(?:tcp|udp)\s+open\s", text, re.MULTILINE))
    done = re.search(r"Nmap done: .*", text)
    return {"open_ports": open_ports, "said": done[0] if done else ""}
