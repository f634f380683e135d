"""Makes planned attacks at their times, and cuts off at the switch what exceeds its bounds."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from wirelens_testbed.attacks import network
from wirelens_testbed.attacks.attack import Scene
from wirelens_testbed.attacks.network import Machine, Network
from wirelens_testbed.attacks.plan import Plan, PlannedAttack
from wirelens_testbed.failure import LabError
from wirelens_testbed.lab import checked
from wirelens_testbed.run import Run

GUARD_INTERVAL_S = 0.25
# Ends after the attack's own time, so that a tool that keeps to its time is never cut off.
GUARD_GRACE_S = 3.0


@dataclass
class Attempt:
    """An attack as it went."""

    planned: PlannedAttack
    scene: Scene
    start_ns: int = 0
    end_ns: int = 0
    facts: dict[str, object] = field(default_factory=dict)
    complaint: str = ""  # empty: the tool ended as it should
    cut_off: str = ""  # empty: it kept its bounds

    @property
    def name(self) -> str:
        return self.planned.attack.name


def set_scenes(plan: Plan, run: Run, lan: Network) -> list[Attempt]:
    """Gives each attack its machines, its addresses and its own generator."""
    attempts: list[Attempt] = []
    victims = {name: victim for name, victim in lan.victims.items()}
    (run.folder / "logs").mkdir(exist_ok=True)
    for planned in plan.planned:
        name = f"attack{planned.number:02d}-{planned.attack.name}"
        folder = run.lab.run_dir / name
        folder.mkdir()
        scene = Scene(
            lab=run.lab,
            number=planned.number,
            rng=random.Random(f"{run.seed}:attack{planned.number}"),
            attackers=lan.attackers[planned.number],
            bounds=planned.attack.bounds,
            servers=victims,
            clients=lan.clients,
            network=network.NETWORK,
            spoofed=network.spoofed_by(planned.number),
            victim_ports=network.victim_ports_of(planned.number),
            folder=folder,
            log=run.folder / "logs" / f"{name}.log",
            ends_s=0.0,
        )
        attempts.append(Attempt(planned, scene))
    return attempts


def make_attempts(run: Run, attempts: list[Attempt]) -> None:
    """Makes all attacks, each at its time, and returns when the last has ended."""
    if not attempts:
        return
    started_s = time.monotonic()
    guard = Guard(run, attempts)
    with ThreadPoolExecutor(len(attempts) + 1) as pool:
        try:
            guarding = pool.submit(guard.watch)
            futures = [pool.submit(_make, run, each, started_s) for each in attempts]
            for future in futures:
                future.result()
            guard.end()
            guarding.result()
        except BaseException:
            # Leaving the pool waits for its threads, and they wait for programs.
            guard.end()
            run.lab.abandon()
            raise


def _make(run: Run, attempt: Attempt, started_s: float) -> None:
    planned, scene = attempt.planned, attempt.scene
    run.lab.pause(started_s + planned.start_s - time.monotonic())
    run.event("attack_starts", attack=planned.number, tool=attempt.name)
    run.progress(f"{attempt.name} starts")
    scene.ends_s = time.monotonic() + scene.bounds.time_max_s
    attempt.start_ns = time.time_ns()
    try:
        attempt.facts = planned.attack.launch(scene)
    except LabError as failure:
        # The other attacks and the recording are worth keeping to look at; a check will say so.
        attempt.complaint = str(failure)
    attempt.end_ns = time.time_ns()
    run.event(
        "attack_ends", attack=planned.number, tool=attempt.name, **attempt.facts,
        complaint=attempt.complaint,
    )  # fmt: skip


class Guard:
    """Watches what each attacker sends, at the switch, and unplugs one that exceeds its bounds.

    The attacks bound themselves; this bound holds even if a tool ignores its options.
    """

    def __init__(self, run: Run, attempts: list[Attempt]) -> None:
        self._run = run
        self._attempts = attempts
        self._ended = threading.Event()

    def watch(self) -> None:
        """Looks until `end`."""
        while not self._ended.wait(GUARD_INTERVAL_S):
            self.look()

    def look(self) -> None:
        """Unplugs every attacker that is over a bound now."""
        counts = self._sent_counts()
        for attempt in self._attempts:
            if attempt.start_ns and not attempt.cut_off:
                self._look_at(attempt, counts)

    def end(self) -> None:
        self._ended.set()

    def _look_at(self, attempt: Attempt, counts: Mapping[str, int]) -> None:
        scene = attempt.scene
        sent = sum(counts.get(_port(machine), 0) for machine in scene.attackers)
        sent_max = scene.bounds.packets_max + scene.bounds.forwarded_max
        if sent > sent_max:
            reason = f"{sent} frames sent, wanted at most {sent_max}"
        elif not attempt.end_ns and time.monotonic() > scene.ends_s + GUARD_GRACE_S:
            reason = f"still running after {scene.bounds.time_max_s:g} s"
        else:
            return
        attempt.cut_off = reason
        self._run.lab.ip(
            network.SWITCH, *(f"link set {_port(machine)} down" for machine in scene.attackers)
        )
        self._run.event("attack_cut_off", attack=scene.number, tool=attempt.name, reason=reason)

    def _sent_counts(self) -> dict[str, int]:
        namespace = self._run.lab.namespace(network.SWITCH)
        links = json.loads(checked(["ip", "-n", namespace, "-s", "-j", "link", "show"]))
        return {link["ifname"]: link["stats64"]["rx"]["packets"] for link in links}


def _port(machine: Machine) -> str:
    return f"p-{machine.name}"
