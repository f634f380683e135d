"""What chooses a queue, compared in simulated networks: rules that learn nothing, and a model.

Each network is simulated with each of them and each seed. A random rule re-marks as many packets as
the state-informed one did with the same seed, or as the model did, so that what it shows is the
cost of re-marking.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Self

from wirelens.l4s.simulated import Scenario, Summary, Traffic, simulate

_BPS = 5_000_000
TRACES = ("video-steady", "video-varying", "web-steady", "web-varying")
"""Of testbed/data/latencies: flows send messages of their sizes."""


def _of_paper(sizes: str | None) -> Sequence[Traffic]:
    """SwiftQueue, section 6.1: 6 L4S and 4 CUBIC flows of sender 1, 10 L4S flows of others."""
    load = "greedy" if sizes is None else f"messages:{sizes}:{_BPS}"
    return [
        Traffic("prague", 6, load=load),
        Traffic("cubic", 4, load=load),
        Traffic("prague", 10, sender=2, receiver=2, load=load),
    ]


SCENARIOS: Mapping[str, Sequence[Traffic]] = {
    **{sizes: _of_paper(sizes) for sizes in ("websearch", "hadoop", *TRACES)},
    "greedy": _of_paper(None),
    "10+4": [Traffic("prague", 10), Traffic("cubic", 4)],
    # Section 6.2.
    "sensitivity": [
        Traffic(congestion, count, load=f"messages:websearch:{_BPS}")
        for congestion, count in (("dctcp", 10), ("cubic", 4))
    ],
}
ROUTERS: Mapping[str, str] = {
    "dualpi2": "mode=dualpi2",
    "ts-fifo": "mode=dualpi2,scheduler=ts-fifo",
    "ramp": "mode=dualpi2,l4s-aqm=ramp",
    "partitioned-20": "mode=partitioned,l4s-share=20",
    "partitioned-50": "mode=partitioned,l4s-share=50",
    "tail-drop": "mode=tail-drop,limit=500",
}
NONE, STATE, LAST, RANDOM = "none", "state-informed", "last latency", "random, same rate"
PREDICTED, RANDOM_AS_PREDICTED = "predicted", "random, rate of predicted"
RULES = (NONE, STATE, LAST, RANDOM)
CONTROLS = (*RULES, PREDICTED, RANDOM_AS_PREDICTED)
# What one axis may be set to, as in SwiftQueue's section 6.2: the queue in bandwidth-delay
# products, the L4S flows of sender 1, the propagation delay in ms.
AXES = ("queue", "flows", "delay")
_PACKET_BITS = 1_500 * 8
# Queues are filling before this.
_WARMUP_S = 2.0


@dataclass(frozen=True)
class Row:
    """What one run came to for the L4S flows of sender 1, which are steered, and for the others.

    Shares are of the steered packets; P90 and P99 are queueing delays in ms.
    """

    scenario: str
    router: str
    control: str
    rule: str
    seed: int
    p90_ms: float
    p99_ms: float
    remarked: float
    dropped: float
    reordered: float
    throughput_mbps: float
    classic_p99_ms: float | None
    cross_p99_ms: float | None

    @classmethod
    def read(cls, line: str) -> Self:
        """A row as `text` wrote it."""
        return cls(**json.loads(line))

    def text(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Setting:
    """A value of an axis."""

    axis: str
    value: int

    def text(self) -> str:
        """As tables have it."""
        unit = {"queue": " BDP", "delay": " ms"}.get(self.axis, "")
        return f"{self.axis} {self.value}{unit}"

    def applied(self, scenario: Scenario) -> Scenario:
        """The scenario with this value."""
        if self.axis == "delay":
            return scenario.having(delay_s=self.value / 1_000)
        if self.axis == "flows":
            steered, *others = scenario.traffic
            return scenario.having(traffic=[replace(steered, count=self.value), *others])
        product = scenario.rate_bps * 2 * scenario.delay_s / _PACKET_BITS
        return scenario.having(router=f"{scenario.router},limit={round(self.value * product)}")


@dataclass(frozen=True)
class Request:
    """What is compared. Names are of `SCENARIOS` and `ROUTERS`."""

    scenarios: Sequence[str]
    routers: Sequence[str]
    seeds: Sequence[int]
    duration_s: float
    recovery: str
    varied: Sequence[Setting] = ()
    state: str = "1ms"
    last: str = "1ms"
    jobs: int = 2
    model: str | None = None
    """Folder of a model that is compared with the rules."""
    margin: str = "5ms"
    """How much faster the classic queue has to be predicted to be."""
    share: float = 0.8
    """Share of packets that a model may re-mark."""


Run = Callable[[Scenario], Summary]


def compare(
    request: Request, shown: Callable[[int, int, str], None], run: Run = simulate
) -> list[Row]:
    """Simulates all that is asked, `jobs` at a time, in one order whatever ends first."""
    asked = [
        (scenario, router, setting, seed)
        for scenario in request.scenarios
        for router in request.routers
        for setting in request.varied or (None,)
        for seed in request.seeds
    ]
    rows: list[Row] = []
    with ThreadPoolExecutor(request.jobs) as pool:
        made = pool.map(lambda one: _of_seed(request, one, run), asked)
        for done, (found, (scenario, router, *_)) in enumerate(zip(made, asked, strict=True), 1):
            rows += found
            shown(done, len(asked), f"{scenario}, {router}")
    return rows


def _of_seed(request: Request, one: tuple[str, str, Setting | None, int], run: Run) -> list[Row]:
    name, router, setting, seed = one
    scenario = Scenario(
        SCENARIOS[name],
        router=ROUTERS[router],
        duration_s=request.duration_s,
        warmup_s=min(_WARMUP_S, request.duration_s / 4),
        recovery=request.recovery,
        seed=seed,
    )
    if setting is not None:
        scenario, name = setting.applied(scenario), f"{name}, {setting.text()}"
    rows: list[Row] = []
    rules = {NONE: "none", STATE: f"state:{request.state}", LAST: f"last:{request.last}"}
    for control, rule in rules.items():
        found = run(scenario.having(control=rule))
        rows.append(_row(name, router, control, rule, found, seed))
    pairs = {RANDOM: STATE}
    if request.model is not None:
        rule = f"predicted:{request.margin}:{request.share:g}"
        found = simulate(scenario.having(control=rule), model=request.model)
        rows.append(_row(name, router, PREDICTED, rule, found, seed))
        pairs[RANDOM_AS_PREDICTED] = PREDICTED
    for control, as_often_as in pairs.items():
        rate = next(row.remarked for row in rows if row.control == as_often_as)
        rule = f"random:{rate:.6f}"
        rows.append(_row(name, router, control, rule, run(scenario.having(control=rule)), seed))
    return rows


def _row(name: str, router: str, control: str, rule: str, found: Summary, seed: int) -> Row:
    steered = found.groups[0]
    others = [group for group in found.groups if group.sender != steered.sender]
    classic = [group for group in found.groups[1:] if group.sender == steered.sender]
    packets = max(steered.delays.packets + steered.dropped, 1)
    return Row(
        name,
        router,
        control,
        rule,
        seed,
        steered.delays.p90_ms or 0.0,
        steered.delays.p99_ms or 0.0,
        steered.remarked / packets,
        steered.dropped / packets,
        steered.reordered / packets,
        steered.throughput_bps / 1e6,
        classic[0].delays.p99_ms if classic else None,
        others[0].delays.p99_ms if others else None,
    )
