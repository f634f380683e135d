"""Windows of flows over simulated bottlenecks, to train a model of one tap. None ships yet.

    .venv/bin/python models/onetap_traces.py FOLDER --runs 400

Each run of `target/ns3/onetap` has a path drawn from two decades of rates, round trips, buffers,
losses and cross traffic, one to four flows of controls drawn from all, and captures at four places.
Of each flow and place some windows are drawn, read as `wirelens cca` reads them, and kept. The same
numbers give the same windows; runs that are there are not made again.
"""

import argparse
import json
import math
import random
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from wirelens.cca import FlightFlow, flight_slots, flight_windows, row_slots

PROGRAM = Path("target/ns3/onetap")
CONTROLS = (
    "bic", "cubic", "highspeed", "htcp", "hybla", "illinois", "reno", "scalable", "vegas", "veno",
    "westwood", "yeah",
)  # fmt: skip
"""Those of ns-3 that also hold a path full there; its BBR and LP do not."""
PLACES = ("sender", "before", "behind", "receiver")
INPUTS = (
    "flight_bytes", "sent_bytes", "flight_max_bytes", "acked_bytes", "resent_packets", "rtt_s",
    "upstream_rtt_s",
)  # fmt: skip
SLOT = "1ms"
ROWS, ROWS_PER_RTT, WINDOWS = 256, 4, 3
SEED = 2_400_000
SETTLED_S = 2.0
PACKETS_MAX = 50_000
"""Of a run; a faster path is simulated for a shorter time."""


def scenario(number: int) -> dict[str, Any]:
    """The path of a number, and the flows over it."""
    dice = random.Random(SEED + number)

    def log_between(low: float, high: float) -> float:
        drawn: float = low * (high / low) ** dice.random()
        return drawn

    rate_bps, rtt_s = log_between(1e6, 1e8), log_between(0.01, 0.2)
    path_bytes = rate_bps * rtt_s / 8
    flows = dice.choice((1, 1, 2, 3, 4))
    loss = 0 if dice.random() < 0.6 else log_between(1e-5, 2e-3)
    settled_s = SETTLED_S + 1.25 * ROWS / ROWS_PER_RTT * rtt_s
    duration_s = max(settled_s, min(60.0, PACKETS_MAX * 12_000 / rate_bps))
    equal = dice.random() < 0.5
    # Of the round trip of the path a part lies on either side of the bottleneck.
    sides = [
        (dice.random(), dice.random(), rtt_s if equal else log_between(0.01, 0.2))
        for _ in range(flows)
    ]
    bottleneck_s = min(rtt for _, _, rtt in sides) * 0.1
    return {
        "number": number,
        "rate_bps": round(rate_bps),
        "buffer_bytes": max(15_000, round(path_bytes * log_between(0.25, 4))),
        "delay_ns": round(bottleneck_s / 2 * 1e9),
        "loss_ppm": round(loss * 1e6),
        "delayed_acks": dice.choice((1, 2)),
        "duration_ns": round(duration_s * 1e9),
        "seed": SEED + number,
        "short_bps": dice.choice((0, 0, round(rate_bps * dice.uniform(0.02, 0.2)))),
        "flows": [
            {
                "control": dice.choice(CONTROLS),
                "start_ns": round(dice.random() * 1e9),
                "rtt_s": rtt,
                "sender_delay_ns": _delay_ns(rtt, bottleneck_s, one / (one + other)),
                "receiver_delay_ns": _delay_ns(rtt, bottleneck_s, other / (one + other)),
            }
            for one, other, rtt in sides
        ],
    }


def _delay_ns(rtt_s: float, bottleneck_s: float, share: float) -> int:
    return max(1_000, round((rtt_s - bottleneck_s) / 2 * share * 1e9))


def _arguments(path: dict[str, Any]) -> list[str]:
    numbers = [f"{key}={value}" for key, value in path.items() if key not in ("number", "flows")]
    keys = ("control", "start_ns", "sender_delay_ns", "receiver_delay_ns")
    return numbers + ["flow=" + ",".join(str(flow[key]) for key in keys) for flow in path["flows"]]


def windows(flow: FlightFlow, dice: random.Random) -> tuple[list[Any], list[float]]:
    """Some windows at any moment, rows × inputs, and how long a row of each is, in seconds."""
    found, lengths = [], []
    for _ in range(WINDOWS):
        row = row_slots(flow, flow.last_slot, slot=SLOT, rows_per_rtt=ROWS_PER_RTT)
        if row is None:
            break
        first = min(flow.last_slot, flow.first_slot + round(SETTLED_S * 1000) + ROWS * row)
        end = dice.randint(first, flow.last_slot)
        row = row_slots(flow, end, slot=SLOT, rows_per_rtt=ROWS_PER_RTT) or row
        seen = flight_windows(flow, [end - ROWS * row], ROWS, row_slots=row, inputs=INPUTS)
        if seen.missing == (None,):
            found.append(np.asarray(seen.values)[0])
            lengths.append(row / 1000)
    return found, lengths


def make(number: int, folder: Path) -> None:
    """Simulates a run and keeps its windows."""
    output = folder / f"{number:05}.npz"
    if output.exists():
        return
    path = scenario(number)
    dice = random.Random(f"windows {SEED + number}")
    pieces: list[Any] = []
    about: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as captures:
        command: list[str | Path] = [PROGRAM, captures, *_arguments(path)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{PROGRAM}: run {number}: {done.stderr.strip()}")
        taps = flight_slots([Path(captures) / f"{place}.pcap" for place in PLACES], slot=SLOT)
    for place, tap in zip(PLACES, taps, strict=True):
        for way, flow in tap.items():
            at = way.dst_port - 5001
            if not 0 <= at < len(path["flows"]) or flow.last_slot - flow.first_slot < 3000:
                continue
            found, lengths = windows(flow, dice)
            pieces += found
            about += [
                {"place": place, "flow": at, "control": path["flows"][at]["control"], "row_s": row}
                for row in lengths
            ]
    values = np.stack(pieces) if pieces else np.zeros((0, ROWS, len(INPUTS)), np.float32)
    partial = output.with_suffix(".partial")
    with partial.open("wb") as file:
        kept = json.dumps({"path": path, "windows": about})
        np.savez_compressed(file, codes=encoded(values), about=kept)
    partial.rename(output)


def encoded(values: Any) -> Any:
    """Numbers as steps of 2 % in 16 bits; 0 stays 0. Times are in nanoseconds, the rest as it is."""
    scale = np.array([1e9 if name.endswith("_s") else 1 for name in INPUTS])
    raised = np.log1p(np.maximum(values * scale, 0)) / math.log(1.02)
    return np.rint(raised).astype(np.uint16)


def decoded(codes: Any) -> Any:
    """The numbers again."""
    scale = np.array([1e9 if name.endswith("_s") else 1 for name in INPUTS])
    return (np.expm1(codes.astype(np.float64) * math.log(1.02)) / scale).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=2)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(asked.parallel) as pool:
        numbers = range(asked.first, asked.first + asked.runs)
        list(pool.map(lambda number: make(number, asked.folder), numbers))


if __name__ == "__main__":
    main()
