"""What an L4S scenario says: a router, hosts, and flows that share the router."""

from __future__ import annotations

from dataclasses import dataclass

from wirelens_testbed.controls import BOTH_ENDS, kernel_name
from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.l4s import messages, steering
from wirelens_testbed.run import take_late_max_ms
from wirelens_testbed.scenario import Table

FLOWS_PER_SENDER_MAX = 200
HOSTS_MAX = 64
MODES = ("dualpi2", "partitioned", "tail-drop")
KERNEL = "kernel"
WORLDS = (KERNEL, "simulator", "ns3")
# What both simulators have.
SIMULATED = ("prague", "dctcp", "cubic", "reno", "bbr")
GREEDY = "greedy"


@dataclass(frozen=True)
class Router:
    """The queues of the way to the receivers, their rate, and the propagation delay each way."""

    mode: str
    limit_packets: int
    more: str  # further settings, as the relay takes them
    rate_mbit: float
    delay_ms: float
    loss: float

    @property
    def settings(self) -> str:
        own = f"mode={self.mode},limit={self.limit_packets}"
        return f"{own},{self.more}" if self.more else own


@dataclass(frozen=True)
class Flow:
    """One TCP flow: bytes as fast as its congestion control allows, from `start_s` to `stop_s`."""

    number: int
    sender: int
    control: str
    is_l4s: bool
    start_s: float
    stop_s: float
    size_bytes: int  # 0: until stop_s
    load: str  # greedy, or messages: `messages:websearch:5000000`

    @property
    def kernel_control(self) -> str:
        return kernel_name(self.control)

    @property
    def source(self) -> str:
        return f"10.1.{self.sender + 1}.{self.number % FLOWS_PER_SENDER_MAX + 10}"


@dataclass(frozen=True)
class Plan:
    world: str
    steering: str  # which packets of the first sender's L4S flows leave their queue
    model: str  # folder of the model of a steering `predicted:…`
    duration_s: float
    senders: int
    receivers: int
    classic_ecn: bool
    router: Router
    flows: tuple[Flow, ...]
    late_max_ms: float
    one_segment: bool = False  # packets of the senders, which TCP may hand over several at a time


def parse(table: Table) -> Plan:
    """Reads a drawn scenario."""
    world = table.take("world", str, KERNEL, among=WORLDS)
    steering = table.take("steering", str, "none")
    model = table.take("model", str, "")
    duration_s = table.take("duration_s", float, minimum=0.5, maximum=3600.0)
    router = _parse_router(table.take_table("router"))
    hosts = table.take_table("hosts")
    senders = hosts.take("senders", int, 2, minimum=1, maximum=HOSTS_MAX)
    receivers = hosts.take("receivers", int, 1, minimum=1, maximum=HOSTS_MAX)
    classic_ecn = hosts.take("classic_ecn", bool, False)
    one_segment = hosts.take("one_segment", bool, False)
    hosts.finish()
    flows = tuple(
        _parse_flow(each, number, senders, duration_s)
        for number, each in enumerate(table.take_tables("flows"))
    )
    if not flows:
        raise ScenarioError("there are no flows; wanted at least one, begun by [[flows]]")
    if len(flows) > FLOWS_PER_SENDER_MAX:
        raise ScenarioError(f"{len(flows)} flows; wanted at most {FLOWS_PER_SENDER_MAX}")
    plan = Plan(
        world=world,
        steering=steering,
        model=model,
        duration_s=duration_s,
        senders=senders,
        receivers=receivers,
        classic_ecn=classic_ecn,
        router=router,
        flows=flows,
        late_max_ms=take_late_max_ms(table),
        one_segment=one_segment,
    )
    _check_world(plan)
    return plan


def _check_world(plan: Plan) -> None:
    """Refuses what a world does not have."""
    refused: list[tuple[str, bool]] = []
    if plan.world == KERNEL:
        _check_kernel(plan)
    else:
        refused += [
            ("loss", plan.router.loss > 0),
            ("classic_ecn", plan.classic_ecn),
            *((f"control {flow.control}", flow.control not in SIMULATED) for flow in plan.flows),
            *(
                ("stop_s or size_bytes", flow.stop_s < plan.duration_s or flow.size_bytes > 0)
                for flow in plan.flows
            ),
        ]
    for what, is_asked in refused:
        if is_asked:
            others = ", ".join(world for world in WORLDS if world != plan.world)
            raise ScenarioError(f"{what}: world {plan.world!r} does not have it; wanted {others}")


def _check_kernel(plan: Plan) -> None:
    is_predicted = steering.parse(plan.steering).kind == steering.PREDICTED
    if is_predicted != bool(plan.model):
        wanted = "a folder" if is_predicted else "none without steering = 'predicted:…'"
        raise ScenarioError(f"model = {plan.model!r}; wanted {wanted}")
    for flow in plan.flows:
        if flow.load == GREEDY:
            continue
        messages.parse(flow.load)
        if flow.size_bytes:
            raise ScenarioError(
                f"flow {flow.number}: load = {flow.load!r} and size_bytes; wanted one of them"
            )


def _parse_router(table: Table) -> Router:
    router = Router(
        mode=table.take("mode", str, MODES[0], among=MODES),
        limit_packets=table.take("limit_packets", int, 10_000, minimum=1, maximum=1_000_000),
        more=table.take("settings", str, ""),
        rate_mbit=table.take("rate_mbit", float, minimum=0.1, maximum=1_000.0),
        delay_ms=table.take("delay_ms", float, 10.0, minimum=0.0, maximum=1_000.0),
        loss=table.take("loss", float, 0.0, minimum=0.0, maximum=1.0),
    )
    table.finish()
    return router


def _parse_flow(table: Table, number: int, senders: int, duration_s: float) -> Flow:
    control = table.take("control", str)
    is_scalable = kernel_name(control) in BOTH_ENDS
    start_s = table.take("start_s", float, 0.0, minimum=0.0, maximum=duration_s)
    flow = Flow(
        number=number,
        sender=table.take("sender", int, number % senders, minimum=0, maximum=senders - 1),
        control=control,
        is_l4s=table.take("l4s", bool, is_scalable),
        start_s=start_s,
        stop_s=table.take("stop_s", float, duration_s, minimum=start_s, maximum=duration_s),
        size_bytes=table.take("size_bytes", int, 0, minimum=0),
        load=table.take("load", str, GREEDY),
    )
    table.finish()
    if flow.is_l4s and not is_scalable:
        ours = ", ".join(sorted(name.removeprefix("wl_") for name in BOTH_ENDS))
        raise ScenarioError(
            f"flow {number}: l4s = true under {control}, which answers a mark as a loss; wanted "
            f"one of {ours}, or l4s = false"
        )
    return flow
