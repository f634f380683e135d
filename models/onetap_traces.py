"""Rows of flows over simulated bottlenecks, which train the model of one tap that ships.

    .venv/bin/python models/onetap_traces.py FOLDER --runs 1447
    .venv/bin/python models/onetap_traces.py FOLDER --pack testbed/data/onetap/ns3
    .venv/bin/python models/onetap_traces.py testbed-runs/congestion-single \\
        --pack testbed/data/onetap/linux.xz

Each run of `target/ns3/onetap` has a path drawn from two decades of rates, round trips, buffers,
losses and cross traffic, one to four flows of controls drawn from all, and captures at four places.
Of each flow and place rows that follow each other are kept, read as `wirelens cca` reads them. The
same numbers give the same rows; runs that are there are not made again. `--pack` writes what the
model reads of them as row files, which `wirelens train cca --taps 1` reads; also of labelled runs
with captures, such as those of testbed/datasets/congestion-single.toml.
"""

import argparse
import json
import lzma
import math
import random
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from wirelens.cca import flight_slots
from wirelens.cca.intervals import SETTLED_S
from wirelens.cca.onetap import rows as packing
from wirelens.cca.onetap.captures import SLOT, find_sets, rows_of
from wirelens.cca.onetap.rows import ROWS_MIN, ROWS_PER_RTT

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
ROWS_MAX = 1024
"""Of a flow at a place; of longer ones a part is kept."""
SEED = 2_500_000
PACKETS_MAX = 200_000
"""Of a run; a faster path is simulated for a shorter time."""


def scenario(number: int) -> dict[str, Any]:
    """The path of a number, and the flows over it."""
    dice = random.Random(SEED + number)

    def log_between(low: float, high: float) -> float:
        drawn: float = low * (high / low) ** dice.random()
        return drawn

    rate_bps, rtt_s = log_between(2e6, 2e8), log_between(0.01, 0.2)
    path_bytes = rate_bps * rtt_s / 8
    buffer_bytes = max(15_000, round(path_bytes * log_between(0.25, 2)))
    flows = dice.choice((1, 1, 2, 3, 4))
    loss = 0 if dice.random() < 0.6 else log_between(1e-5, 1e-3)
    equal = dice.random() < 0.5
    # Of the round trip of the path a part lies on either side of the bottleneck.
    sides = [
        (dice.random(), dice.random(), rtt_s if equal else log_between(0.01, 0.2))
        for _ in range(flows)
    ]
    bottleneck_s = min(rtt for _, _, rtt in sides) * 0.1
    loaded_s = max(rtt for _, _, rtt in sides) + buffer_bytes * 8 / rate_bps
    least_s, whole_s = (
        SETTLED_S + 1.1 * rows / ROWS_PER_RTT * loaded_s for rows in (ROWS_MIN, ROWS_MAX)
    )
    duration_s = max(least_s, min(whole_s, PACKETS_MAX * 12_000 / rate_bps))
    return {
        "number": number,
        "rate_bps": round(rate_bps),
        "buffer_bytes": buffer_bytes,
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


def make(number: int, folder: Path) -> None:
    """Simulates a run and keeps its rows."""
    output = folder / f"{number:05}.xz"
    if output.exists():
        return
    path = scenario(number)
    dice = random.Random(f"rows {SEED + number}")
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
            is_ours = 0 <= at < len(path["flows"])
            found = rows_of(flow, dice, INPUTS, ROWS_MAX) if is_ours else None
            if found is None:
                continue
            values, row_s = found
            pieces.append(values)
            control = path["flows"][at]["control"]
            about.append({"place": place, "flow": at, "control": control, "row_s": row_s,
                          "rows": len(values)})  # fmt: skip
    write(output, path, about, np.concatenate([np.zeros((0, len(INPUTS))), *pieces]))


STEP = 1.01
"""Numbers are kept as steps of 1 % in 16 bits, which is finer than any of them is measured."""
SCALE = np.array([1e9 if name.endswith("_s") else 1 for name in INPUTS])


def write(output: Path, path: dict[str, Any], flows: list[dict[str, Any]], rows: Any) -> None:
    """Keeps a run: a line of JSON, then input after input of all rows; 0 stays 0."""
    codes = np.rint(np.log1p(np.maximum(rows * SCALE, 0)) / math.log(STEP)).astype("<u2")
    line = json.dumps({"path": path, "flows": flows}).encode() + b"\n"
    partial = output.with_suffix(".partial")
    partial.write_bytes(lzma.compress(line + codes.T.tobytes(), preset=9))
    partial.rename(output)


def read(kept: Path) -> tuple[dict[str, Any], list[dict[str, Any]], Any]:
    """The path, what is known of each flow, and rows × inputs, flow after flow."""
    line, codes = lzma.decompress(kept.read_bytes()).split(b"\n", 1)
    about = json.loads(line)
    steps = np.frombuffer(codes, "<u2").reshape(len(INPUTS), -1).T.astype(np.float64)
    rows = (np.expm1(steps * math.log(STEP)) / SCALE).astype(np.float32)
    return about["path"], about["flows"], rows


PACKED_FILES = 6
"""Each is below the size at which a file of the repository is refused."""
PACKED_PATH = ("rate_bps", "buffer_bytes", "loss_ppm")


def packed(kept: Path) -> packing.Run:
    """A run as row files have it: the last rows of each flow and place, and what a model reads."""
    path, flows, rows = read(kept)
    columns = dict(zip(INPUTS, rows.T, strict=True))
    columns["path_rtt_s"] = columns["rtt_s"] + columns["upstream_rtt_s"]
    values = np.stack([columns[name] for name in packing.INPUTS], axis=1)
    series, at = [], 0
    for flow in flows:
        at += flow["rows"]
        last = values[at - min(flow["rows"], packing.ROWS_MAX) : at]
        series.append(
            packing.Series(flow["control"], flow["place"], flow["flow"], flow["row_s"], last)
        )
    about = {name: path[name] for name in PACKED_PATH}
    about["rtt_s"] = [round(flow["rtt_s"], 4) for flow in path["flows"]]
    return packing.Run(str(path["number"]), about, series)


def pack(folder: Path, output: Path) -> None:
    """Writes the row files of a folder of runs: of captures into one file."""
    kept = sorted(folder.glob("*.xz"))
    if not kept:
        (found,) = find_sets([folder])
        packing.write(output, found.runs)
        return
    each = -(-len(kept) // PACKED_FILES)
    for first in range(0, len(kept), each):
        runs = [packed(path) for path in kept[first : first + each]]
        packing.write(output / f"rows-{first // each}.xz", runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument(
        "--pack", type=Path,
        help="write row files of the runs to this folder, or of runs with captures this file",
    )
    asked = parser.parse_args()
    if asked.pack:
        pack(asked.folder, asked.pack)
        return
    asked.folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(asked.parallel) as pool:
        numbers = range(asked.first, asked.first + asked.runs)
        list(pool.map(lambda number: make(number, asked.folder), numbers))


if __name__ == "__main__":
    main()
