"""Who visits what and when; and the threads that make it so."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from wirelens_testbed.failure import LabError
from wirelens_testbed.lab import Lab
from wirelens_testbed.services.service import Host, Server, Visit
from wirelens_testbed.truth import CLOCK_SLACK_NS

# Visits of one client to one server keep this distance, or a flow could belong to either.
PAIR_GAP_S = 1.2 * CLOCK_SLACK_NS / 1e9
WAIT_S = 0.1


@dataclass(frozen=True)
class Appointment:
    """A visit to come."""

    number: int
    start_s: float
    service: str
    client: Host
    seed: int

    @property
    def pair(self) -> tuple[str, str]:
        return self.client.name, self.service


@dataclass(frozen=True)
class Outcome:
    """A visit that was; without `visit` it failed, and `complaint` says how."""

    appointment: Appointment
    start_ns: int
    end_ns: int
    visit: Visit | None
    complaint: str = ""


def plan_visits(
    rng: random.Random, counts: Mapping[str, int], clients: Sequence[Host], duration_s: float
) -> list[Appointment]:
    """Draws times and clients for so many visits of each service, in the order of time."""
    drawn = [
        (rng.uniform(0.0, duration_s), service, rng.choice(clients), rng.getrandbits(64))
        for service, count in counts.items()
        for _ in range(count)
    ]
    drawn.sort(key=lambda row: row[0])
    return [Appointment(number, *row) for number, row in enumerate(drawn, start=1)]


class Visitors:
    """Makes visits at their times, a bounded number at once; late ones follow as soon as may be."""

    def __init__(
        self,
        lab: Lab,
        servers: Mapping[str, Server],
        worker_count: int,
        tell: Callable[[Outcome], None],
    ) -> None:
        self._lab = lab
        self._servers = servers
        self._worker_count = worker_count
        self._tell = tell
        self._change = threading.Condition()
        self._running: set[tuple[str, str]] = set()
        self._free_at_s: dict[tuple[str, str], float] = {}

    def make(self, appointments: Sequence[Appointment]) -> list[Outcome]:
        """Makes all, and returns when the last has ended; the order is that of their ends."""
        outcomes: list[Outcome] = []
        pending = list(appointments)
        futures: list[Future[None]] = []
        started_s = time.monotonic()
        with ThreadPoolExecutor(self._worker_count) as pool:
            try:
                while pending:
                    self._lab.pause(0)  # raises once the lab is being taken down
                    # What is no failure of a visit but a fault of ours ends all, and at once.
                    futures = [each for each in futures if not each.done() or each.result()]
                    with self._change:
                        due = self._next(pending, started_s)
                        if due is None:
                            self._change.wait(WAIT_S)
                            continue
                        self._running.add(due.pair)
                    pending.remove(due)
                    futures.append(pool.submit(self._keep, due, outcomes))
                for future in futures:
                    future.result()
            except BaseException:
                # Leaving the pool waits for its threads, and they wait for programs.
                self._lab.abandon()
                raise
        return outcomes

    def _next(self, pending: Sequence[Appointment], started_s: float) -> Appointment | None:
        now_s = time.monotonic()
        if len(self._running) >= self._worker_count:
            return None
        for appointment in pending:
            if started_s + appointment.start_s > now_s:
                return None
            is_free = self._free_at_s.get(appointment.pair, 0.0) <= now_s
            if is_free and appointment.pair not in self._running:
                return appointment
        return None

    def _keep(self, appointment: Appointment, outcomes: list[Outcome]) -> None:
        start_ns = time.time_ns()
        visit, complaint = None, ""
        try:
            server = self._servers[appointment.service]
            try:
                visit = server.visit(appointment.client, random.Random(appointment.seed))
            except LabError as failure:
                complaint = " ".join(str(failure).split())
            outcome = Outcome(appointment, start_ns, time.time_ns(), visit, complaint)
            with self._change:
                outcomes.append(outcome)
                self._tell(outcome)
        finally:
            with self._change:
                self._running.discard(appointment.pair)
                self._free_at_s[appointment.pair] = time.monotonic() + PAIR_GAP_S
                self._change.notify()
