"""A simulated network: flows of many congestion controls through one L4S router."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from wirelens import _wirelens
from wirelens.errors import OptionError
from wirelens.l4s.served import read_model

_NS = 1_000_000_000
_TUNE_MAX_S = 86_400


@dataclass(frozen=True)
class Traffic:
    """Flows of one kind.

    `congestion` is prague, dctcp, cubic, reno or bbr; `load` greedy, or `messages:SIZES:BPS` with
    the message sizes of testbed/data/message-sizes.txt, such as `websearch`, at so many bits a
    second per flow. Flows of sender 1 are those that a control steers.
    """

    congestion: str
    count: int = 1
    sender: int = 1
    receiver: int = 1
    load: str = "greedy"
    start_s: float = 0.0

    def text(self) -> str:
        """The line of a scenario."""
        return (
            f"group congestion={self.congestion} count={self.count} sender={self.sender} "
            f"receiver={self.receiver} load={self.load} start_ns={round(self.start_s * _NS)}"
        )


@dataclass(frozen=True)
class Scenario:
    """A network and its flows; `text` is what the simulator and the ns-3 scenario read.

    `router` is text of `KEY=VALUE`, such as `mode=partitioned,l4s-share=20`; `control` is none,
    random:SHARE, last:TIME, state:TIME, or predicted:TIME[:SHARE[:RECENT]] of a model. `delay_s` is
    the propagation delay of one direction; `recovery` finds losses by dupacks, as ns-3 does, or by
    rack, as Linux does.
    """

    traffic: Sequence[Traffic]
    router: str = "mode=dualpi2"
    control: str = "none"
    rate_bps: int = 100_000_000
    delay_s: float = 0.020
    duration_s: float = 20.0
    warmup_s: float = 0.0
    recovery: str = "dupacks"
    delayed_acks: int = 1
    seed: int = 1

    def text(self) -> str:
        """The scenario as lines of `key value`."""
        lines = [
            f"rate_bps {self.rate_bps}",
            f"delay_ns {round(self.delay_s * _NS)}",
            f"duration_ns {round(self.duration_s * _NS)}",
            f"warmup_ns {round(self.warmup_s * _NS)}",
            f"seed {self.seed}",
            f"router {self.router}",
            f"control {self.control}",
            f"recovery {self.recovery}",
            f"delayed_acks {self.delayed_acks}",
            *(traffic.text() for traffic in self.traffic),
        ]
        return "\n".join(lines) + "\n"

    def having(self, **changed: Any) -> Self:
        """The same scenario with some values changed."""
        return replace(self, **changed)


@dataclass(frozen=True)
class Delays:
    """Queueing delays of packets that left the router, in ms; `None` where none did."""

    packets: int
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    max_ms: float | None


@dataclass(frozen=True)
class Queue:
    """A queue of the router. Counts are of the whole run: `received = sent + dropped + waiting`."""

    delays: Delays
    received: int
    sent: int
    dropped_full: int
    dropped_early: int
    dropped_late: int
    marked_pi: int
    marked_threshold: int
    waiting: int

    @property
    def dropped(self) -> int:
        """Packets dropped for any cause."""
        return self.dropped_full + self.dropped_early + self.dropped_late


@dataclass(frozen=True)
class Group:
    """What became of the flows of a `Traffic`, after the warm-up."""

    congestion: str
    count: int
    sender: int
    receiver: int
    delays: Delays
    throughput_bps: float
    dropped: int
    retransmissions: int
    reordered: int
    remarked: int


@dataclass(frozen=True)
class SteeringCounts:
    """What steering did to the L4S packets of sender 1. The last five are of a model alone:
    `asked = kept + remarked + rare + silent + unknown + limited`, as docs/guide/l4s-predict.md
    explains them."""

    asked: int
    remarked: int
    kept: int | None = None
    silent: int | None = None
    unknown: int | None = None
    limited: int | None = None
    rare: int | None = None


@dataclass(frozen=True)
class Tunings:
    """Fine-tunings of a model by outcome: `done` took over, `worse` were no better on a tenth of
    the packets, which did not train them, `skipped` had too few packets. `examples` are the packets
    of those that were done."""

    done: int
    worse: int
    failed: int
    skipped: int
    examples: int


@dataclass(frozen=True)
class Summary:
    """The outcome of a run; `tunings` is there where a model was fine-tuned."""

    seconds: float
    l4s: Queue
    classic: Queue
    groups: Sequence[Group]
    steered: SteeringCounts
    tunings: Tunings | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """The summary that a world prints as one JSON object."""
        found = json.loads(text)
        queues = {
            name: Queue(_delays(of), **_fields(Queue, of)) for name, of in found["queues"].items()
        }
        groups = [Group(delays=_delays(of), **_fields(Group, of)) for of in found["groups"]]
        tunings = Tunings(**found["tunings"]) if "tunings" in found else None
        steered = SteeringCounts(**found["steered"])
        return cls(
            found["seconds"], queues["l4s"], queues["classic"], groups, steered, tunings
        )


def _delays(found: Mapping[str, Any]) -> Delays:
    return Delays(**_fields(Delays, found))


def _fields(kind: type[Delays | Queue | Group], found: Mapping[str, Any]) -> dict[str, Any]:
    """What the class has of what a world prints; worlds may print more."""
    return {field.name: found[field.name] for field in fields(kind) if field.name != "delays"}


def simulate(
    scenario: Scenario | str,
    *,
    trace: str | os.PathLike[str] | None = None,
    journal: str | os.PathLike[str] | None = None,
    model: str | os.PathLike[str] | None = None,
    tune: float | None = None,
) -> Summary:
    """Simulates a scenario, or the text of one.

    `trace` is a file for a record of each packet (docs/specs/l4s-trace.md), `journal` one for
    each call of the router. `model` is the folder of a model of `wirelens train l4s`, for a control
    such as `predicted:1ms`; with `tune` it is fine-tuned on the last minute every so many simulated
    seconds, and packets wait for that. The same scenario and seed give the same bytes.

    Raises `OptionError` for a scenario that cannot be, `ModelError` for a model that cannot be
    read, and `OutputError` where a file cannot be written.

    >>> from wirelens import l4s
    >>> greedy = [l4s.Traffic("prague", 10), l4s.Traffic("cubic", 4)]
    >>> found = l4s.simulate(l4s.Scenario(greedy, duration_s=5, seed=7))
    >>> found.l4s.delays.p99_ms < 3 < found.classic.delays.p50_ms
    True
    """
    text = scenario if isinstance(scenario, str) else scenario.text()
    content = None if model is None else read_model(model)
    if tune is not None and not 0 < tune <= _TUNE_MAX_S:
        raise OptionError(f"tune: {tune}; wanted: seconds, more than 0, at most {_TUNE_MAX_S}")
    tune_ns = None if tune is None else max(round(tune * _NS), 1)
    found = _wirelens.simulate(
        text, trace=trace, journal=journal, model=content, tune_ns=tune_ns
    )
    return Summary.read(found)
