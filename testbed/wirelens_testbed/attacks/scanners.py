"""Scans by other scanners than nmap: of hosts, ports, TLS settings, telephones and devices."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.network import DEVICE, SWEPT_PREFIX_LENGTH_MIN, Victim
from wirelens_testbed.attacks.victims import SNMP_COMMUNITY
from wirelens_testbed.scenario import Table

MASSCAN_PROGRAMS = {"masscan": "masscan"}
SWEEP_PROGRAMS = {"arp_scan_sweep": {"arp-scan": "arp-scan"}, "fping_sweep": {"fping": "fping"}}
SSLSCAN_PROGRAMS = {"sslscan": "sslscan"}
SVWAR_PROGRAMS = {"svwar": "sipvicious"}
SNMPWALK_PROGRAMS = {"snmpwalk": "snmp"}
PROGRAMS = {
    name: package
    for programs in (
        MASSCAN_PROGRAMS, *SWEEP_PROGRAMS.values(), SSLSCAN_PROGRAMS, SVWAR_PROGRAMS,
        SNMPWALK_PROGRAMS,
    )
    for name, package in programs.items()
}  # fmt: skip

# masscan waits for late answers; an open port's answer makes the attacker's kernel reset.
MASSCAN_WAIT_S = 1
# fping's tries of an address that is not there cost three ARP requests each.
FRAMES_PER_ADDRESS = {"arp_scan_sweep": 2, "fping_sweep": 10}
# A connection for each version, cipher and group: some are asked for one by one.
SSLSCAN_CONNECTIONS_MAX, FRAMES_PER_CONNECTION = 300, 14
SIP_PORT = 5060
SNMP_TREES = (".1.3.6.1.2.1.1", ".1.3.6.1.2.1.2", ".1.3.6.1.2.1.4", ".1.3.6.1.2.1.25.1")
SNMP_ROWS_MAX = 400  # of one of those trees, on a machine of few interfaces


@dataclass
class Masscan(Attack):
    """A SYN scan by a scanner with a TCP stack of its own, at a steady rate."""

    programs = MASSCAN_PROGRAMS

    name: str
    host_count: int
    port_count: int
    rate_per_s: float
    needs: frozenset[str] = frozenset({"web"})

    def __post_init__(self) -> None:
        probes = self.host_count * self.port_count
        per_host_s = self.port_count / self.rate_per_s + MASSCAN_WAIT_S + 8
        self.bounds = Bounds(2 * probes + OVERHEAD_PACKETS, self.host_count * per_host_s)

    def launch(self, scene: Scene) -> dict[str, object]:
        targets = draw_targets(scene, self.host_count)
        first = scene.rng.choice((1, 1, 1, 20, 80))
        ports = f"{first}-{first + self.port_count - 1}"
        open_ports = 0
        for target in targets:
            said = scene.run_tool(
                "masscan", "-e", DEVICE, "--adapter-ip", scene.attacker.address,
                # It sends everything to its router; here the target is its own.
                "--adapter-mac", scene.attacker.mac, "--router-mac", target.mac,
                "--rate", f"{self.rate_per_s:g}", "--wait", str(MASSCAN_WAIT_S),
                "--seed", str(scene.rng.getrandbits(31)), "-p", ports, target.address,
            )  # fmt: skip
            open_ports += said.count("Discovered open port")
        return {"targets": " ".join(target.address for target in targets), "open_ports": open_ports}


@dataclass
class Sweep(Attack):
    """Which addresses of the network are alive, by ARP or by ICMP echo."""

    name: str
    prefix_length: int
    interval_ms: int
    retries: int

    def __post_init__(self) -> None:
        self.programs = SWEEP_PROGRAMS[self.name]
        addresses = 1 << (32 - self.prefix_length)
        frames = addresses * (1 + self.retries) * FRAMES_PER_ADDRESS[self.name]
        sending_s = addresses * (1 + self.retries) * self.interval_ms / 1000
        self.bounds = Bounds(OVERHEAD_PACKETS + frames, 2 * sending_s + 15)

    def launch(self, scene: Scene) -> dict[str, object]:
        network = f"{scene.network.network_address}/{self.prefix_length}"
        if self.name == "arp_scan_sweep":
            said = scene.run_tool(
                "arp-scan", f"--interface={DEVICE}", f"--interval={self.interval_ms}",
                f"--retry={1 + self.retries}", "--plain", network,
            )  # fmt: skip
        else:
            said = scene.run_tool(
                "fping", "-a", "-q", "-r", str(self.retries), "-i", str(self.interval_ms),
                "-g", network, statuses_wanted=(0, 1),  # 1: some did not answer
            )  # fmt: skip
        return {"targets": network, "alive": len(said.splitlines())}


@dataclass
class TlsScan(Attack):
    """Which versions, ciphers and groups a TLS server accepts."""

    programs = SSLSCAN_PROGRAMS

    name: str
    pause_ms: int
    lists_groups: bool
    needs: frozenset[str] = frozenset({"secure"})

    def __post_init__(self) -> None:
        packets_max = OVERHEAD_PACKETS + SSLSCAN_CONNECTIONS_MAX * FRAMES_PER_CONNECTION
        time_max_s = 20 + 2 * SSLSCAN_CONNECTIONS_MAX * self.pause_ms / 1000
        self.bounds = Bounds(packets_max, time_max_s)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["secure"]
        said = scene.run_tool(
            "sslscan", "--no-colour", f"--sleep={self.pause_ms}",
            *([] if self.lists_groups else ["--no-groups"]),
            f"{target.address}:{target.server.port}",
        )  # fmt: skip
        accepted = re.findall(r"^(?:Preferred|Accepted) ", said, re.MULTILINE)
        return {"target": target.address, "accepted": len(accepted)}


@dataclass
class ExtensionScan(Attack):
    """Which extensions a telephone server has."""

    programs = SVWAR_PROGRAMS

    name: str
    extension_count: int
    method: str
    needs: frozenset[str] = frozenset({"phones"})

    def __post_init__(self) -> None:
        # What is not answered is repeated a few times; svwar acknowledges some answers.
        packets_max = OVERHEAD_PACKETS + 6 * self.extension_count
        self.bounds = Bounds(packets_max, 20 + self.extension_count / 10)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["phones"]
        first = scene.rng.choice((100, 200, 1000, 6000))
        scene.run_tool(
            "svwar", "--force", "-m", self.method, "-e",
            f"{first}-{first + self.extension_count - 1}", "-x", target.address,
            "-p", str(SIP_PORT), target.address,
        )  # fmt: skip
        return {"target": target.address, "extensions": self.extension_count}


@dataclass
class SnmpWalk(Attack):
    """Reads what a device with a default community reveals of itself, tree by tree."""

    programs = SNMPWALK_PROGRAMS

    name: str
    tree_count: int
    pause_s: float
    needs: frozenset[str] = frozenset({"devices"})

    def __post_init__(self) -> None:
        packets_max = OVERHEAD_PACKETS + 2 * SNMP_ROWS_MAX * self.tree_count
        self.bounds = Bounds(packets_max, 20 + self.tree_count * (self.pause_s * 2 + 5))

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["devices"]
        rows = 0
        for tree in scene.rng.sample(SNMP_TREES, self.tree_count):
            said = scene.run_tool(
                "env", "MIBS=", f"SNMP_PERSISTENT_DIR={scene.folder}",
                "snmpwalk", "-v2c", "-c", SNMP_COMMUNITY, target.address, tree,
            )  # fmt: skip
            rows += len(said.splitlines())
            scene.lab.pause(self.pause_s * scene.rng.uniform(0.5, 1.5))
        return {"target": target.address, "rows": rows}


def draw_targets(scene: Scene, count: int) -> Sequence[Victim]:
    """Some of the servers that attacks may aim at."""
    names = sorted(scene.servers)
    return [scene.servers[name] for name in scene.rng.sample(names, min(count, len(names)))]


def parse_masscan(name: str, table: Table) -> Attack:
    return Masscan(
        name=name,
        host_count=table.take("hosts", int, 1, minimum=1, maximum=8),
        port_count=table.take("ports", int, 200, minimum=1, maximum=5000),
        rate_per_s=table.take("rate_per_s", float, 200.0, minimum=1, maximum=5000),
    )


def parse_sweep(name: str, table: Table) -> Attack:
    return Sweep(
        name=name,
        prefix_length=table.take(
            "prefix_length", int, 26, minimum=SWEPT_PREFIX_LENGTH_MIN, maximum=30
        ),
        interval_ms=table.take("interval_ms", int, 20, minimum=1, maximum=1000),
        retries=table.take("retries", int, 0, minimum=0, maximum=3),
    )


def parse_tls(name: str, table: Table) -> Attack:
    return TlsScan(
        name=name,
        pause_ms=table.take("pause_ms", int, 0, minimum=0, maximum=1000),
        lists_groups=table.take("lists_groups", bool, True),
    )


def parse_extensions(name: str, table: Table) -> Attack:
    return ExtensionScan(
        name=name,
        extension_count=table.take("extensions", int, 50, minimum=1, maximum=1000),
        method=table.take("method", str, "OPTIONS", among=("OPTIONS", "REGISTER")),
    )


def parse_walk(name: str, table: Table) -> Attack:
    return SnmpWalk(
        name=name,
        tree_count=table.take("trees", int, 2, minimum=1, maximum=len(SNMP_TREES)),
        pause_s=table.take("pause_s", float, 1.0, minimum=0, maximum=60),
    )


ATTACKS: Mapping[str, Callable[[str, Table], Attack]] = {
    "masscan_syn": parse_masscan,
    **dict.fromkeys(SWEEP_PROGRAMS, parse_sweep),
    "sslscan_settings": parse_tls,
    "svwar_extensions": parse_extensions,
    "snmpwalk_discovery": parse_walk,
}
