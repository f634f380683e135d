"""What the two pages of a call ask their host, and tell it."""

from __future__ import annotations

import threading
from typing import Any

from wirelens_testbed.browser import Answer, NothingYet
from wirelens_testbed.calls.plan import CALLEE, CALLER, KEEPS, Plan
from wirelens_testbed.calls.statistics import Statistics
from wirelens_testbed.failure import LabError


class Exchange:
    """Hands out and takes in: settings, offer, answer, states and statistics."""

    def __init__(self, plan: Plan) -> None:
        self.statistics = Statistics(plan.warm_up_s)
        self.states: dict[str, list[str]] = {CALLER.host: [], CALLEE.host: []}
        self._plan = plan
        self._lock = threading.Lock()
        self._descriptions: dict[str, Any] = {}
        self._failures: list[str] = []

    def answers(self) -> dict[str, Answer]:
        return {
            "settings": self._settings,
            "offer": lambda host, sent: self._description("offer", sent),
            "answer": lambda host, sent: self._description("answer", sent),
            "state": self._take_state,
            "statistics": self._take_statistics,
            "failure": self._take_failure,
        }

    def is_settled(self) -> bool:
        """Whether both ends are connected, or one has told why it cannot."""
        connected = all("connected" in states for states in self.states.values())
        return connected or bool(self._failures)

    def raise_failure(self) -> None:
        if self._failures:
            raise LabError(f"the call's page failed: {'; '.join(self._failures)}")

    def _settings(self, host: str, _: Any) -> dict[str, Any]:
        plan, camera = self._plan, self._plan.camera
        content_hint, preference = KEEPS[plan.keeps]
        return {
            "calls": host == CALLER.host,
            "sends": host in {end.host for end in plan.senders},
            "audio": plan.audio,
            "codec": plan.codec,
            "width": camera.width,
            "height": camera.height,
            "frames_per_second": camera.frames_per_second,
            "content_hint": content_hint,
            "degradation_preference": preference,
            "bits_per_s_max": plan.bits_per_s_max,
        }

    def _description(self, name: str, sent: Any) -> Any:
        with self._lock:
            if sent is not None:
                self._descriptions[name] = sent
            if name not in self._descriptions:
                raise NothingYet
            return self._descriptions[name]

    def _take_state(self, host: str, sent: Any) -> None:
        self.states[host].append(sent["state"])

    def _take_statistics(self, host: str, sent: Any) -> None:
        with self._lock:
            self.statistics.take(host, sent)

    def _take_failure(self, host: str, sent: Any) -> None:
        self._failures.append(f"{host}: {sent['message']}")
