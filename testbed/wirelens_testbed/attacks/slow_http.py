"""Slow HTTP: many connections that a web server must keep because each says a little, seldom."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.scenario import Table

PROGRAMS = {"slowhttptest": "slowhttptest"}

MODES = {
    "slow_headers": ("-H",),
    "slow_body": ("-B",),
    "slow_read": ("-X",),
    "slow_range": ("-R",),
}

# Handshake, request, close, and the acknowledgements of what the server sends meanwhile.
FRAMES_PER_CONNECTION = 40
FRAMES_PER_FOLLOW_UP = 3
# It closes its connections one by one when the time is up.
END_S = 15.0


@dataclass
class SlowHttp(Attack):
    """One of slowhttptest's ways, against the web server."""

    programs = PROGRAMS

    name: str
    connection_count: int
    connections_per_s: int
    interval_s: int
    duration_s: int
    needs: frozenset[str] = frozenset({"web"})

    def __post_init__(self) -> None:
        follow_ups = self.duration_s // self.interval_s + 1
        per_connection = FRAMES_PER_CONNECTION + FRAMES_PER_FOLLOW_UP * follow_ups
        packets_max = OVERHEAD_PACKETS + self.connection_count * per_connection
        self.bounds = Bounds(packets_max, self.duration_s + END_S)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["web"]
        options = ["-x", str(scene.rng.randint(4, 40))]
        if self.name == "slow_read":
            # The window it offers, drawn between these, and the bytes it reads at a time.
            options = ["-w", "8", "-y", "64", "-z", "16", "-k", "3", "-n", str(self.interval_s)]
        said = scene.run_tool(
            "slowhttptest", *MODES[self.name], "-c", str(self.connection_count),
            "-r", str(self.connections_per_s), "-i", str(self.interval_s),
            "-l", str(self.duration_s), "-p", "3", *options,
            "-u", f"http://{target.address}{target.large_path}",
        )  # fmt: skip
        plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", said)
        counts = dict(re.findall(r"^(initializing|pending|connected|error|closed):\s+(\d+)", plain,
                                 re.MULTILINE))  # fmt: skip
        ended = re.findall(r"Exit status: *(.*)", plain)
        return {"target": target.address, **counts, "said": ended[-1].strip() if ended else ""}


def parse(name: str, table: Table) -> Attack:
    return SlowHttp(
        name=name,
        connection_count=table.take("connections", int, 50, minimum=1, maximum=1000),
        connections_per_s=table.take("connections_per_s", int, 20, minimum=1, maximum=200),
        interval_s=table.take("interval_s", int, 3, minimum=1, maximum=60),
        duration_s=table.take("duration_s", int, 20, minimum=2, maximum=300),
    )


ATTACKS = dict.fromkeys(MODES, parse)
