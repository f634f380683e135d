"""What tunnels share: both ends at machines of the attacker, and data sent in portions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.network import Machine

SINK_PORT, LOCAL_PORT = 9000, 9001
READY_TIME_MAX_S = 30.0


@dataclass
class Tunnel(Attack):
    """A tunnel through which some data is sent in portions."""

    name: str
    payload_size_bytes: int
    portion_count: int
    duration_s: float
    machine_count: int = 2  # one inside, and the server outside that the tunnel ends at

    def __post_init__(self) -> None:
        packets_max = OVERHEAD_PACKETS + self.carried_packets_max
        self.bounds = Bounds(packets_max, self.duration_s + READY_TIME_MAX_S + 10)

    def launch(self, scene: Scene) -> dict[str, object]:
        inside, outside = scene.attackers
        sink = ["socat", "-u", f"TCP-LISTEN:{SINK_PORT},fork,reuseaddr", "OPEN:/dev/null"]
        programs = [scene.start_tool(outside, *sink)]
        try:
            programs.append(scene.start_tool(outside, *self.server_command(scene, outside)))
            self.wait_for_server(scene, outside)
            programs.append(scene.start_tool(inside, *self.client_command(scene)))
            scene.lab.wait_until(
                lambda: self.is_ready(scene), f"{self.name} connected", READY_TIME_MAX_S
            )
            self._send(scene)
        finally:
            scene.lab.stop(*reversed(programs))
        return {"server": outside.address, "bytes": self.payload_size_bytes}

    def _send(self, scene: Scene) -> None:
        portion_size_bytes = self.payload_size_bytes // self.portion_count
        pause_s = self.duration_s / self.portion_count
        for _ in range(self.portion_count):
            data = scene.rng.randbytes(portion_size_bytes)
            scene.run_tool("socat", "-u", "-", self.entrance(scene), data_in=data)
            scene.lab.pause(pause_s * scene.rng.uniform(0.5, 1.0))

    @property
    @abstractmethod
    def carried_packets_max(self) -> int:
        """What both ends send at most to carry the data, and while there is none."""

    @abstractmethod
    def server_command(self, scene: Scene, outside: Machine) -> list[str]:
        """What runs outside, in the foreground."""

    @abstractmethod
    def wait_for_server(self, scene: Scene, outside: Machine) -> None:
        """Returns when a client can connect."""

    @abstractmethod
    def client_command(self, scene: Scene) -> list[str]:
        """What runs inside, in the foreground."""

    def is_ready(self, scene: Scene) -> bool:
        """Whether data can be sent."""
        return bool(scene.lab.run(scene.attacker.name, "ss", "-Hltn", f"sport = :{LOCAL_PORT}"))

    def entrance(self, scene: Scene) -> str:
        """Where data goes in, in socat's words."""
        return f"TCP:127.0.0.1:{LOCAL_PORT}"
