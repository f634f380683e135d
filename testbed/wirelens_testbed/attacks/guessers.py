"""Guesses by other tools than hydra: of log-ins, and of the communities of a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wirelens_testbed.attacks import victims
from wirelens_testbed.attacks.attack import OVERHEAD_PACKETS, Attack, Bounds, Scene
from wirelens_testbed.attacks.logins import COMMON_ENDINGS, COMMON_PASSWORDS, draw_guesses
from wirelens_testbed.scenario import Table

ONESIXTYONE_PROGRAMS = {"onesixtyone": "onesixtyone"}
Guesses = Sequence[tuple[str, str]]
Command = Callable[[Path, str, Guesses, int], Sequence[str | Path]]


@dataclass(frozen=True)
class Guesser:
    """A tool, what it guesses at, and what it prints of a log-in that it found."""

    programs: Mapping[str, str]
    service: str
    frames_per_guess: int
    found_text: str
    command: Command


def _medusa(module: str) -> Command:
    def command(folder: Path, address: str, guesses: Guesses, tasks: int) -> Sequence[str | Path]:
        path = folder / "guesses"
        path.write_text("".join(f"{address}:{user}:{password}\n" for user, password in guesses))
        return ["medusa", "-b", "-M", module, "-C", path, "-t", str(tasks), "-f", "-r", "1"]

    return command


def _ncrack(folder: Path, address: str, guesses: Guesses, tasks: int) -> Sequence[str | Path]:
    users, passwords = folder / "users", folder / "passwords"
    users.write_text("".join(f"{user}\n" for user, _ in guesses))
    passwords.write_text("".join(f"{password}\n" for _, password in guesses))
    return [
        "ncrack", "--pairwise", "-U", users, "-P", passwords, "-f", "-v",
        "-g", f"cl=1,CL={tasks},at=2", f"http://{address}:80,path={victims.PRIVATE_PATH[1:]}",
    ]  # fmt: skip


MEDUSA_PROGRAMS, NCRACK_PROGRAMS = {"medusa": "medusa"}, {"ncrack": "ncrack"}
GUESSERS = {
    "medusa_ftp": Guesser(MEDUSA_PROGRAMS, "files", 30, "ACCOUNT FOUND", _medusa("ftp")),
    "medusa_ssh": Guesser(MEDUSA_PROGRAMS, "shell", 60, "ACCOUNT FOUND", _medusa("ssh")),
    "ncrack_http": Guesser(NCRACK_PROGRAMS, "intranet", 30, "Discovered credentials on", _ncrack),
}
PROGRAMS = MEDUSA_PROGRAMS | NCRACK_PROGRAMS | ONESIXTYONE_PROGRAMS


@dataclass
class LoginGuesses(Attack):
    """A list of users and passwords, tried by a few connections side by side."""

    name: str
    guess_count: int
    task_count: int
    finds: bool
    time_max_s: float

    def __post_init__(self) -> None:
        guesser = GUESSERS[self.name]
        self.programs = guesser.programs
        self.needs = frozenset({guesser.service})
        packets_max = OVERHEAD_PACKETS + self.guess_count * guesser.frames_per_guess
        self.bounds = Bounds(packets_max, self.time_max_s)

    def launch(self, scene: Scene) -> dict[str, object]:
        guesser = GUESSERS[self.name]
        server = scene.servers[guesser.service]
        right = server.login if self.finds else None
        guesses = draw_guesses(scene.rng, self.guess_count, right)
        said = scene.run_tool(
            *guesser.command(scene.folder, server.address, guesses, self.task_count)
        )
        return {
            "target": server.address,
            "guesses": len(guesses),
            "found": said.count(guesser.found_text),
        }


@dataclass
class CommunityGuesses(Attack):
    """A list of SNMP communities, one request each; the right one is answered, and no other."""

    programs = ONESIXTYONE_PROGRAMS

    name: str
    guess_count: int
    interval_ms: int
    finds: bool
    needs: frozenset[str] = frozenset({"devices"})

    def __post_init__(self) -> None:
        sending_s = self.guess_count * self.interval_ms / 1000
        self.bounds = Bounds(2 * self.guess_count + OVERHEAD_PACKETS, 2 * sending_s + 15)

    def launch(self, scene: Scene) -> dict[str, object]:
        target = scene.servers["devices"]
        guesses = [
            scene.rng.choice(COMMON_PASSWORDS) + scene.rng.choice(COMMON_ENDINGS)
            for _ in range(self.guess_count)
        ]
        if self.finds:
            guesses[scene.rng.randrange(len(guesses))] = victims.SNMP_COMMUNITY
        path = scene.folder / "communities"
        path.write_text("".join(f"{guess}\n" for guess in guesses))
        said = scene.run_tool(
            "onesixtyone", "-c", path, "-w", str(self.interval_ms), target.address
        )
        return {
            "target": target.address,
            "guesses": len(guesses),
            "found": said.count(f"[{victims.SNMP_COMMUNITY}]"),
        }


def parse(name: str, table: Table) -> Attack:
    return LoginGuesses(
        name=name,
        guess_count=table.take("guesses", int, 40, minimum=1, maximum=5000),
        task_count=table.take("tasks", int, 4, minimum=1, maximum=16),
        finds=table.take("finds", bool, False),
        time_max_s=table.take("time_max_s", float, 60.0, minimum=1, maximum=600),
    )


def parse_communities(name: str, table: Table) -> Attack:
    return CommunityGuesses(
        name=name,
        guess_count=table.take("guesses", int, 50, minimum=1, maximum=5000),
        interval_ms=table.take("interval_ms", int, 50, minimum=1, maximum=5000),
        finds=table.take("finds", bool, True),
    )


ATTACKS: Mapping[str, Callable[[str, Table], Attack]] = {
    **dict.fromkeys(GUESSERS, parse),
    "onesixtyone_communities": parse_communities,
}
