"""Real TCP through the testbed's L4S router while `wirelens l4s` runs at its sender; and a small
model whose verdict is known."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import testbed_runs  # noqa: F401  (puts the library on the path)
from command import PROGRAM, ROOT
from lab import Listening, inside
from wirelens_testbed import controls
from wirelens_testbed.congestion import transfers
from wirelens_testbed.congestion.network import (
    ENTRY,
    EXIT,
    receiver_address,
    receiver_name,
    sender_name,
)
from wirelens_testbed.l4s import network
from wirelens_testbed.l4s.marking import MARK, Counts, Ect1Marking
from wirelens_testbed.l4s.plan import KERNEL, Flow, Plan, Router
from wirelens_testbed.lab import Lab, Program
from wirelens_testbed.relay import Queues, Relay

WIDTH, HEADS, HIDDEN, INNER, TOKEN_LEN, QUERY_LEN = 8, 2, 8, 8, 22, 34
NOT_ECT, ECT1 = 0, 1
LEAD_S = 0.4
# The header of a trace, and a record: docs/specs/l4s-trace.md.
MAGIC_LEN, RECORD = 8, struct.Struct("<6Q4I2H6B6x")


def write_model(folder: Path, l4s_added_ms: float, **changed: Any) -> Path:
    """A model that predicts the newest latency of a queue, and of the L4S queue so much more."""
    rust = (ROOT / "crates/l4s/src/history/numbers.rs").read_text()

    def names(constant: str) -> list[str]:
        listed = rust.partition(f"pub const {constant}: [&str; ")[2].partition("];")[0]
        return [line.strip(' ",') for line in listed.partition("= [")[2].strip().splitlines()]

    shapes = {
        "input.weight": (WIDTH, TOKEN_LEN), "input.bias": (WIDTH,),
        "layers.0.self_attn.in_proj_weight": (3 * WIDTH, WIDTH),
        "layers.0.self_attn.in_proj_bias": (3 * WIDTH,),
        "layers.0.self_attn.out_proj.weight": (WIDTH, WIDTH),
        "layers.0.self_attn.out_proj.bias": (WIDTH,),
        "layers.0.linear1.weight": (HIDDEN, WIDTH), "layers.0.linear1.bias": (HIDDEN,),
        "layers.0.linear2.weight": (WIDTH, HIDDEN), "layers.0.linear2.bias": (WIDTH,),
        "layers.0.norm1.weight": (WIDTH,), "layers.0.norm1.bias": (WIDTH,),
        "layers.0.norm2.weight": (WIDTH,), "layers.0.norm2.bias": (WIDTH,),
        "head.0.weight": (INNER, WIDTH + QUERY_LEN), "head.0.bias": (INNER,),
        "head.1.weight": (1, INNER), "head.1.bias": (1,),
    }  # fmt: skip
    # ReLU makes 1 of the L4S queue (1) and 0 of the classic one (-1).
    ones = {"head.0.weight": (WIDTH, 1.0), "head.1.weight": (0, l4s_added_ms / 100)}
    said = {
        "format": "wirelens-l4s 1", "window": 16, "heads": HEADS, "layers": 1, "width": WIDTH,
        "hidden": HIDDEN, "batch_packets": 8, "batch_span_ns": 2_000_000,
        "token": names("TOKEN_NAMES"), "query": names("QUERY_NAMES"),
    } | changed  # fmt: skip
    header: dict[str, Any] = {"__metadata__": {"wirelens": json.dumps(said)}}
    data = b""
    for name, shape in sorted(shapes.items()):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [0.0] * count
        if name in ones:
            place, value = ones[name]
            values[place] = value
        start = len(data)
        data += struct.pack(f"<{count}f", *values)
        offsets = [start, len(data)]
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": offsets}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    content = struct.pack("<Q", len(text)) + text + data
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(content)
    sums = f"{hashlib.sha256(content).hexdigest()}  model.safetensors\n"
    (folder / "SHA256SUMS").write_text(sums)
    return folder


class Sender:
    """A sender of real TCP before a router with two queues; flows begin when they are told to."""

    def __init__(self, lab: Lab, plan: Plan, folder: Path) -> None:
        self.lab = lab
        self.plan = plan
        self.folder = folder
        self.acked_bytes: list[int] = []
        self.report: dict[str, Any] = {}
        self.ect1: Counts | None = None
        self._programs: list[Program] = []
        self._begin_s = 0.0

    @contextmanager
    def here(self) -> Iterator[None]:
        """In the sender's network namespace."""
        with (
            self.lab.namespace_path(sender_name(0)).open() as namespace,
            inside(namespace.fileno()),
        ):
            yield

    def listening(self, *words: str | Path) -> Listening:
        """`wirelens l4s` on the interface by which packets leave."""
        with self.here():
            return Listening(self.folder, "l4s", "-i", "eth0", *words)

    def shown(self, *words: str) -> str:
        """What a program says of the sender's namespace."""
        with self.here():
            return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def target(self, flow: int) -> str:
        return receiver_address(flow % self.plan.receivers)

    def start(self) -> None:
        orders = [
            {
                "number": flow.number, "control": flow.kernel_control, "source": flow.source,
                "source_port": 40_000 + flow.number, "port": transfers.port(flow.kernel_control),
                "target": self.target(flow.number), "start_s": flow.start_s,
                "stop_s": flow.stop_s, "size_bytes": 0, "mark": MARK if flow.is_l4s else 0,
            }
            for flow in self.plan.flows
        ]  # fmt: skip
        sender = self.lab.start_module(
            sender_name(0), "wirelens_testbed.congestion.sender",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        samples = self.lab.run_dir / "sockets.tsv"
        self._tell(sender, json.dumps({"flows": orders, "samples": str(samples)}))
        assert sender.stdout is not None
        assert sender.stdout.readline().strip() == b"ready", self.lab.log_tails()
        self._programs.append(sender)
        self._begin_s = time.time() + LEAD_S
        self._tell(sender, str(self._begin_s))

    @staticmethod
    def _tell(program: Program, line: str) -> None:
        assert program.stdin is not None
        program.stdin.write(f"{line}\n".encode())
        program.stdin.flush()

    def wait_until(self, second: float) -> None:
        time.sleep(max(0.0, self._begin_s + second - time.time()))

    def finish(self) -> None:
        """Waits for all flows to end: what they say was received."""
        for program in self._programs:
            assert program.stdout is not None
            ends = json.loads(program.stdout.readline())
            assert not [end["error"] for end in ends if end["error"]], ends
            self.acked_bytes = [end["acked_bytes"] for end in sorted(
                ends, key=lambda end: end["number"]
            )]  # fmt: skip

    def packets(self, after_s: float = 0.0) -> dict[int, Counter[int]]:
        """Data packets by ECN field as the router received them, for each of our flows; those that
        came at least so long after the first."""
        numbers = {
            number: flow["source_port"] - 40_000
            for number, flow in enumerate(self.report["trace"]["flows"])
        }
        raw = (self.folder / "trace.l4s").read_bytes()
        found: dict[int, Counter[int]] = {flow.number: Counter() for flow in self.plan.flows}
        records = list(RECORD.iter_unpack(raw[MAGIC_LEN:]))
        after_ns = records[0][1] + round(after_s * 1e9)
        for record in records:
            entered, flow, size, ecn_sent = record[1], record[6], record[7], record[12]
            if size > 200 and entered >= after_ns:
                found[numbers[flow]][ecn_sent] += 1
        return found


@contextmanager
def l4s_sender(
    folder: Path, mode: str, flow_controls: Sequence[str], *, duration_s: float
) -> Iterator[Sender]:
    """A sender whose flows go to two receivers in turn, and that has not begun."""
    flows = tuple(
        Flow(number, 0, control, control == "prague", 0.0, duration_s, 0, "greedy")
        for number, control in enumerate(flow_controls)
    )
    router = Router(mode, 10_000, "", 50.0, 5.0, 0.0)
    plan = Plan(KERNEL, "none", "", duration_s, 1, 2, False, router, flows, 1.0)
    wanted = {flow.kernel_control for flow in flows}
    with ExitStack() as ends:
        ends.enter_context(controls.registered(wanted))
        lab = ends.enter_context(closing(Lab()))
        network.build(lab, plan)
        relay = Relay(
            lab, PROGRAM, (ENTRY, network.LINK), (EXIT, network.LINK),
            delay_ab_us=round(router.delay_ms * 1000), delay_ba_us=round(router.delay_ms * 1000),
            queues=Queues(
                settings=router.settings, rate_mbit=router.rate_mbit, trace=folder / "trace.l4s",
                journal=folder / "journal.l4s", senders=[network.sender_prefix(0)],
                receivers=[network.receiver_prefix(index) for index in range(plan.receivers)],
            ),
        )  # fmt: skip
        network.connect(lab)
        marking = Ect1Marking(lab, [sender_name(0)], "eth0")
        ports = [
            f"{port}={control}" if port != transfers.PORT_FIRST else str(port)
            for control, port in sorted((one, transfers.port(one)) for one in wanted)
        ]
        for index in range(plan.receivers):
            lab.start_module(
                receiver_name(index), "wirelens_testbed.congestion.receiver",
                receiver_address(index), *ports,
            )  # fmt: skip
            for control in wanted:
                lab.wait_for_listener(receiver_name(index), transfers.port(control))
        sender = Sender(lab, plan, folder)
        yield sender
        lab.pause(0.3)
        sender.ect1 = marking.stop()
        sender.report = relay.stop()
