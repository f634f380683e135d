"""What re-marking by predicted latencies comes to in the kernel: real TCP through the testbed's
router, with `wirelens l4s --act` at sender 1.

    sudo .venv/bin/python bench/evaluation/l4s/kernel_marking.py --model models/l4s \\
        -o bench/results/2026-11-25-l4s-kernel

SwiftQueue's topology with web search messages (testbed/scenarios/l4s-paper.toml, world `kernel`):
6 L4S and 4 CUBIC flows of sender 1, 10 L4S flows of sender 2, 100 Mbit/s, 20 ms each way. For each
router and seed the same messages are sent under each control: without re-marking, by the model, and
at random with the share that the model re-marked. A run takes 30 s; all 36 take 21 minutes on a
machine with nothing else to do, and need root.

Rows are appended to marking.jsonl as they are made; what is there is not made again. A disturbed
run is written to rejected.jsonl and repeated, at most twice. This is decided before any delay is
looked at: a run is disturbed if the testbed rejects it (packets 1 ms late at the 99th percentile,
an account or a replay that does not hold), if the hypervisor took more than 5 % of the processors'
time, or if other processes used more than 20 % of it in the second before the run or after it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy
from wirelens.l4s import read_trace

ROOT = Path(__file__).resolve().parents[3]
WIRELENS = ROOT / "target/release/wirelens"
SCENARIO = ROOT / "testbed/scenarios/l4s-paper.toml"
ROUTERS = {
    "partitioned-20": ("partitioned", "l4s-share=20,step=5ms"),
    "dualpi2": ("dualpi2", ""),
    "partitioned-50": ("partitioned", "l4s-share=50,step=5ms"),
}
NONE, PREDICTED, RANDOM = "none", "predicted", "random, rate of predicted"
# The random control needs the rate of the predicted one.
CONTROLS = (NONE, PREDICTED, RANDOM)
WARMUP_S = 2.0
ATTEMPTS_MAX = 3
STATUS_REJECTED = 3
# Of the rule above.
STOLEN_MAX, BUSY_MAX = 0.05, 0.20
SENT, NOT_ECT, DATA_BYTES = 0, 0, 200


@dataclass(frozen=True)
class RunRequest:
    model: Path
    output: Path
    routers: Sequence[str]
    seeds: Sequence[int]
    duration_s: float
    margin: str
    max_share: float
    keeps_disturbed: bool


class Processors:
    """How the processors' time was used between two looks."""

    def __init__(self) -> None:
        self._before = self._read()

    @staticmethod
    def _read() -> list[int]:
        return [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]

    def shares(self) -> tuple[float, float]:
        """Busy and stolen, as shares of all."""
        spent = [now - before for now, before in zip(self._read(), self._before, strict=True)]
        _, _, _, idle, waiting, _, _, stolen = spent
        whole = max(sum(spent), 1)
        return 1 - (idle + waiting) / whole, stolen / whole


def busy() -> float:
    """How busy others keep the processors, over a second."""
    processors = Processors()
    time.sleep(1.0)
    return processors.shares()[0]


def steering(asked: RunRequest, control: str, remarked: float) -> list[str]:
    if control == PREDICTED:
        rule = f"predicted:{asked.margin}:{asked.max_share:g}"
        return ["--set", f"steering={rule}", "--set", f"model={asked.model.resolve()}"]
    return ["--set", f"steering=random:{remarked:.6f}"] if control == RANDOM else []


def measured(folder: Path) -> dict[str, Any]:
    """What a run came to for the L4S flows of sender 1, for its others and for sender 2."""
    trace = read_trace(folder / "trace.l4s")
    columns = {name: trace[name].to_numpy(zero_copy_only=False) for name in (
        "flow", "size", "outcome", "ecn_sent", "entered_ns", "left_ns", "received_ns"
    )}  # fmt: skip
    entered = columns["entered_ns"].astype(float)
    meta = json.loads((folder / "meta.json").read_text())
    late = entered >= entered.min() + WARMUP_S * 1e9
    # Until the senders stop: what is retransmitted after that is a tail of its own.
    late &= entered <= entered.min() + meta["duration_s"] * 1e9

    def of(sender: int, is_l4s: bool) -> Any:
        flows = [
            flow["flow"] for flow in meta["flows"]
            if flow["sender"] == sender and flow["l4s"] == is_l4s
        ]  # fmt: skip
        return late & numpy.isin(columns["flow"], flows) & (columns["size"] > DATA_BYTES)

    waits_ms = (columns["left_ns"].astype(float) - entered) / 1e6
    was_sent = columns["outcome"] == SENT

    def ranked(mine: Any, *shares: int) -> list[float | None]:
        waits = waits_ms[mine & was_sent]
        if not len(waits):
            return [None for _ in shares]
        return [round(float(numpy.percentile(waits, share)), 6) for share in shares]

    steered = of(0, True)
    packets = max(int(steered.sum()), 1)
    p50_ms, p90_ms, p99_ms = ranked(steered, 50, 90, 99)
    sent_bytes = int(columns["size"][steered & was_sent].sum())
    return {
        "packets": int(steered.sum()),
        "p50_ms": p50_ms,
        "p90_ms": p90_ms,
        "p99_ms": p99_ms,
        "remarked": int((columns["ecn_sent"][steered] == NOT_ECT).sum()) / packets,
        "dropped": int((~was_sent[steered]).sum()) / packets,
        "reordered": reordered(columns, steered & was_sent) / packets,
        "throughput_mbps": sent_bytes * 8 / (meta["duration_s"] - WARMUP_S) / 1e6,
        "classic_p99_ms": ranked(of(0, False), 99)[0],
        "cross_p99_ms": ranked(of(1, True), 99)[0],
    }


def reordered(columns: dict[str, Any], mine: Any) -> int:
    """Packets that arrived after one of their flow that had come to the router later."""
    count = 0
    for flow in numpy.unique(columns["flow"][mine]):
        arrived = columns["received_ns"][mine & (columns["flow"] == flow)].astype(float)
        arrived = arrived[~numpy.isnan(arrived)]
        first_after = numpy.minimum.accumulate(arrived[::-1])[::-1][1:]
        count += int((arrived[:-1] > first_after).sum())
    return count


def live(report: dict[str, Any]) -> dict[str, Any]:
    """What `wirelens l4s` said of itself; nothing where it did not run."""
    found = report.get("steering")
    if found is None:
        return {}
    asked = max(found["l4s_packets"], 1)
    shares = ("decided", "kept", "rare", "limited", "silent", "unknown", "late")
    shares += ("as_predicted", "otherwise", "missed")
    return {
        **{f"{name}_share": round(found[name] / asked, 6) for name in shares},
        **{name: found[name] for name in (
            "lag_p50_ms", "lag_p99_ms", "error_mean_ms", "budgets_expired"
        )},
        "cpu_share": found["cpu_share"],
    }  # fmt: skip


def run_once(
    asked: RunRequest, router: str, seed: int, control: str, remarked: float
) -> tuple[dict[str, Any], list[str]]:
    """One run: its row, and what disturbed it."""
    mode, settings = ROUTERS[router]
    with tempfile.TemporaryDirectory() as runs:
        words = ["testbed", "run", SCENARIO, "--set", "world=kernel", "--seed", seed]
        words += ["--set", f"duration_s={asked.duration_s:g}", "--set", f"router.mode={mode}"]
        words += ["--set", f"router.settings={settings}"] if settings else []
        # While packets are re-marked each is handed over alone; without, several with one field.
        words += ["--set", "hosts.one_segment=true", *steering(asked, control, remarked)]
        before = busy()
        processors = Processors()
        done = subprocess.run(
            [str(word) for word in [WIRELENS, *words, "-q", "-o", runs]],
            stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        _, stolen = processors.shares()
        after = busy()
        if done.returncode not in (0, STATUS_REJECTED):
            sys.exit(f"kernel_marking.py: a run ended with status {done.returncode}")
        (folder,) = Path(runs).iterdir()
        report = json.loads((folder / "run.json").read_text())
        relay = report["relays"][0]
        row = {
            "router": router, "control": control, "seed": seed, **measured(folder), **live(report),
            "relay_late_p99_us": max(relay[way]["late_us"]["p99"] for way in ("ab", "ba")),
            "busy_before": round(before, 4), "busy_after": round(after, 4),
            "stolen": round(stolen, 4),
        }  # fmt: skip
    checks = [f"{check['name']}: {check['seen']}" for check in report["checks"]
              if not check["holds"]]  # fmt: skip
    causes = [f"testbed: {check}" for check in checks]
    causes += [f"stolen: {stolen:.1%}"] if stolen > STOLEN_MAX else []
    causes += [f"busy: {share:.1%}" for share in (before, after) if share > BUSY_MAX]
    shown = [str(word).replace(f"{ROOT}/", "") for word in words]
    return row | {"command": " ".join(["wirelens", *shown])}, causes


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def todo(asked: RunRequest) -> Iterator[tuple[str, int, str]]:
    for seed in asked.seeds:
        for router in asked.routers:
            for control in CONTROLS:
                yield router, seed, control


def make(asked: RunRequest) -> None:
    kept, rejected = asked.output / "marking.jsonl", asked.output / "rejected.jsonl"
    made = {
        "model": sha256((asked.model / "model.safetensors").read_bytes()).hexdigest()[:16],
        "margin": asked.margin, "max_share": asked.max_share,
        "duration_s": asked.duration_s, "warmup_s": WARMUP_S,
    }  # fmt: skip
    for router, seed, control in todo(asked):
        there = [row for row in rows(kept) if (row["router"], row["seed"]) == (router, seed)]
        if any(row["control"] == control for row in there):
            continue
        rate = next((row["remarked"] for row in there if row["control"] == PREDICTED), 0.0)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            row, causes = run_once(asked, router, seed, control, rate)
            row |= made | {"attempt": attempt}
            row["time"] = datetime.now(UTC).isoformat(timespec="seconds")
            if asked.keeps_disturbed:
                row, causes = row | {"causes": causes}, []
            path = rejected if causes else kept
            with path.open("a") as file:
                file.write(json.dumps(row | ({"causes": causes} if causes else {})) + "\n")
            print(
                f"{router}, seed {seed}, {control}: P99 {row['p99_ms']:.1f} ms, "
                f"{row['remarked']:.1%} re-marked, {'; '.join(causes) or 'kept'}",
                file=sys.stderr,
            )
            if not causes:
                break
        else:
            sys.exit("kernel_marking.py: this machine has too much else to do; try again later")


def environment(output: Path) -> None:
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    names = [
        line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]  # fmt: skip
    facts = {
        "date": datetime.now(UTC).date().isoformat(), "commit": commit,
        "cpu": names[0] if names else platform.machine(), "cores": os.cpu_count(),
        "kernel": platform.release(), "python": platform.python_version(),
        "data": "testbed/scenarios/l4s-paper.toml in world kernel",
        "note": "real TCP in network namespaces; disturbed runs were repeated, see rejected.jsonl",
    }  # fmt: skip
    (output / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--routers", default=",".join(ROUTERS))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--duration", type=float, default=30.0, metavar="SECONDS")
    parser.add_argument("--margin", default="3ms")
    parser.add_argument("--max-share", type=float, default=0.8)
    parser.add_argument(
        "--keep-disturbed", action="store_true", help="for trials: disturbed runs are rows, too"
    )
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    seeds = range(1, given.seeds + 1)
    asked = RunRequest(
        given.model, given.output, given.routers.split(","), seeds, given.duration, given.margin,
        given.max_share, given.keep_disturbed,
    )  # fmt: skip
    if not rows(given.output / "marking.jsonl"):
        environment(given.output)
    make(asked)


if __name__ == "__main__":
    main()
