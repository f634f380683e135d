"""What an attack is to the rest: a name, bounds, what it needs, and how it is launched."""

from __future__ import annotations

import random
import shlex
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

from wirelens_testbed.attacks import frame_sender
from wirelens_testbed.attacks.labels import Reflection
from wirelens_testbed.attacks.network import DEVICE, Machine, Victim

if TYPE_CHECKING:
    from wirelens_testbed.lab import Lab, Program
    from wirelens_testbed.scenario import Table

# What every attack may send beside its own packets: address resolution, and a few stray ones.
OVERHEAD_PACKETS = 100


@dataclass(frozen=True)
class Bounds:
    """What an attack may do at most; the switch cuts it off beyond."""

    packets_max: int  # sent by the attacker's machines, every frame of their own counted
    time_max_s: float
    forwarded_max: int = 0  # others' packets, sent on by who is in the middle


@dataclass
class Scene:
    """Where one attack takes place. What it draws, it draws from `rng`."""

    lab: Lab
    number: int  # of the attack in the run, from 1
    rng: random.Random
    attackers: Sequence[Machine]
    bounds: Bounds
    servers: Mapping[str, Victim]  # by what they serve
    clients: Sequence[Machine]
    network: IPv4Network
    spoofed: IPv4Network  # addresses that this attack alone may make up
    victim_ports: range  # ports of a victim that are this attack's alone
    folder: Path  # for the files of this attack; gone with the lab
    log: Path
    ends_s: float  # when the time is up, by the monotonic clock

    @property
    def attacker(self) -> Machine:
        return self.attackers[0]

    def time_left_s(self) -> float:
        return max(self.ends_s - time.monotonic(), 0.1)

    def run_tool(
        self,
        *argv: str | Path,
        data_in: bytes = b"",
        statuses_wanted: Collection[int] = (0,),
        time_max_s: float | None = None,
    ) -> str:
        """Runs a program on the attacker's first machine to its end; what it prints is logged."""
        self.write_log(f"$ {shlex.join(map(str, argv))}\n")
        printed = self.lab.run(
            self.attacker.name, *self._at_home(*argv),
            data_in=data_in,
            statuses_wanted=statuses_wanted,
            time_max_s=min(time_max_s or self.time_left_s(), self.time_left_s()),
        ).decode(errors="replace")  # fmt: skip
        self.write_log(printed)
        return printed

    def start_tool(self, machine: Machine, *argv: str | Path, takes_input: bool = False) -> Program:
        """Starts a program that runs beside the attack; whoever starts it stops it."""
        self.write_log(f"$ {shlex.join(map(str, argv))}\n")
        return self.lab.start(
            machine.name, *self._at_home(*argv), log_name=f"{self.log.stem}-beside",
            stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
        )  # fmt: skip

    def _at_home(self, *argv: str | Path) -> list[str | Path]:
        # Tools leave files where they stand, in their user's home, or among temporary files.
        places = f"HOME={self.folder}", f"TMPDIR={self.folder}"
        return ["env", "-C", self.folder, *places, *argv]

    def send_frames(self, frames: Sequence[frame_sender.DueFrame]) -> str:
        """Sends frames of our own making from the attacker's first machine."""
        return self.run_tool(
            *frame_sender.command(),
            data_in=frame_sender.pack(DEVICE, self.time_left_s(), frames),
        )

    def write_log(self, text: str) -> None:
        with self.log.open("a") as log:
            log.write(text)


class Attack(ABC):
    """One attack with its parameters; it knows how to do it and the most that it may do."""

    name: str
    bounds: Bounds
    programs: Mapping[str, str] = {}  # each with its Debian package
    needs: frozenset[str] = frozenset()  # services of the network
    machine_count: int = 1  # the attacker's
    intercepts: bool = False
    spoofs: bool = False

    @abstractmethod
    def launch(self, scene: Scene) -> dict[str, object]:
        """Does it, and returns what the tool said of itself, in few words."""

    def visits_meanwhile(self, scene: Scene) -> list[tuple[float, str, Machine]]:
        """Benign visits that the attack would be pointless without: seconds from its start, the
        server's name, and the client."""
        return []

    def reflection(self, scene: Scene) -> Reflection | None:
        """How the answers of reflectors are known, where there are any."""
        return None


# Each family's module has ATTACKS, name → parser of its parameters, and PROGRAMS.
Parser = Callable[[str, "Table"], Attack]
