"""A link with propagation delay, and loss if wanted: two TUN devices and a relay between them.

The relay adds delay and loss. Rate and buffer of the link are the kernel's, a tbf on each of the
two devices, or one way has the queues of an L4S router, which are the relay's. The kernel's own
emulator, netem, is not in every kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wirelens_testbed.companion import Companion
from wirelens_testbed.lab import Lab

Direction = Literal["ab", "ba"]
End = tuple[str, str]


@dataclass(frozen=True)
class Queues:
    """Rate and queues of the way from `a` to `b`; what happens to each packet goes to two files."""

    settings: str  # as `wirelens testbed relay --router` takes them
    rate_mbit: float
    trace: Path
    journal: Path
    # Prefixes of sources and destinations, in the order in which the trace numbers them.
    senders: Sequence[str]
    receivers: Sequence[str]

    def arguments(self) -> list[str]:
        arguments = ["--router", self.settings, "--rate", f"{self.rate_mbit:g}mbit"]
        arguments += ["--trace", str(self.trace), "--journal", str(self.journal)]
        for flag, prefixes in (("--sender", self.senders), ("--receiver", self.receivers)):
            for prefix in prefixes:
                arguments += [flag, prefix]
        return arguments


class Relay:
    """The running relay between device `a` and device `b`, each given as (host, device).

    Delays are in µs and go for all packets of a direction, save those to the destination prefixes
    in `classes_ab` and `classes_ba`, which have delays of their own. The devices exist when the
    constructor returns; addresses and routes are the caller's.
    """

    def __init__(
        self,
        lab: Lab,
        wirelens: Path,
        a: End,
        b: End,
        *,
        delay_ab_us: int = 0,
        delay_ba_us: int = 0,
        classes_ab: Mapping[str, int] | None = None,
        classes_ba: Mapping[str, int] | None = None,
        loss_ab: float = 0.0,
        loss_ba: float = 0.0,
        seed: int = 0,
        queues: Queues | None = None,
    ) -> None:
        arguments = ["relay", "--seed", str(seed)]
        for flag, (host, device) in (("--a", a), ("--b", b)):
            arguments += [flag, f"{lab.namespace(host)}:{device}"]
        for direction, delay_us, loss, classes in (
            ("ab", delay_ab_us, loss_ab, classes_ab),
            ("ba", delay_ba_us, loss_ba, classes_ba),
        ):
            arguments += [f"--delay-{direction}", f"{delay_us}us", f"--loss-{direction}", str(loss)]
            for prefix, class_delay_us in (classes or {}).items():
                arguments += [f"--class-{direction}", f"{prefix}={class_delay_us}us"]
        arguments += queues.arguments() if queues else []
        self._companion = Companion(lab, wirelens, arguments, f"relay-{a[0]}-{b[0]}")

    def delay(self, direction: Direction, delay_us: int) -> None:
        """Changes the delay of a direction, for packets that enter from now on."""
        self._companion.tell(f"delay {direction} {delay_us}us")

    def loss(self, direction: Direction, probability: float) -> None:
        """Changes the share of packets that a direction loses."""
        self._companion.tell(f"loss {direction} {probability}")

    def stop(self) -> dict[str, Any]:
        """Ends the link; the report has counts and lateness of `ab` and `ba`, and of queues."""
        return self._companion.finish()
