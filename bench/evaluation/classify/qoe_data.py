"""The testbed's calls as windows of a second with the tier of their frame rate."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from wirelens.classify.windows import SECOND_NS, WindowFeatures, windows

Array = Any

TIER_FPS = 3
CLASSES = [*(f"{low}-{low + TIER_FPS}" for low in range(0, 30, TIER_FPS)), "30+"]
# What a tier stands for where an error in frames a second is told.
TIER_MIDDLES = numpy.array([*(low + TIER_FPS / 2 for low in range(0, 30, TIER_FPS)), 30.0])
# A label's second ends so near to a second of the clock, or it is left out.
TOLERANCE_NS = 100_000_000


def tier(frames_per_second: Array) -> Array:
    """The tier of a frame rate: 0 for below 3, 10 for 30 and more."""
    return numpy.minimum(numpy.asarray(frames_per_second) // TIER_FPS, 10).astype(numpy.int64)


@dataclass(frozen=True)
class Call:
    """One call's labelled seconds."""

    name: str
    codec: str
    audio: bool
    numbers: Array
    bits: Array
    fps: Array
    window_ns: Array
    left_out: int
    seed: int
    # Numbers of its windows with RTP that have no label here, such as those of the warm-up.
    unlabelled: Array


def load(folder: Path, features: WindowFeatures, bit_names: list[str]) -> Call:
    """The seconds of one run after its warm-up that have a label and packets."""
    capture = next(p for p in sorted(folder.glob("receiver.pcapng*")))
    with (folder / "receiver.tsv").open() as lines:
        labels = [r for r in csv.DictReader(lines, delimiter="\t") if r["warm_up"] == "0"]
    with (folder / "flows.tsv").open() as lines:
        flow = next(csv.DictReader(lines, delimiter="\t"))
    table = windows(capture, features, idle_timeout="120s")
    keys = table.keys()
    place = {
        start: row
        for row, (start, flow_id) in enumerate(
            zip(keys["window_start_ns"], keys["community_id"], strict=True)
        )
        if flow_id == flow["community_id"]
    }
    rows, fps = [], []
    for label in labels:
        end = round(int(label["time_ns"]) / SECOND_NS) * SECOND_NS
        row = place.get(end - SECOND_NS)
        if row is not None and abs(int(label["time_ns"]) - end) <= TOLERANCE_NS:
            rows.append(row)
            fps.append(float(label["frames_per_second"]))
    chosen = numpy.array(rows)
    # The way that counts as main leads to who sees the video.
    forward = numpy.array([keys["main"][row] == "forward" for row in rows])
    source = numpy.array([keys["src_ip"][row] for row in rows])
    callee = flow["src_ip"] if flow["src_ip"].startswith("10.2.") else flow["dst_ip"]
    if not ((source == callee) != forward).all():
        print(f"{folder.name}: {int(((source == callee) == forward).sum())} s of another way")
    numbers = numpy.asarray(table.numbers).astype(numpy.float32)
    # By place: any number of the window itself that counts RTP packets.
    rtp = [list(features.numbers).index(f"{way}_rtp_packets") for way in ("main", "back")]
    rest = numpy.setdiff1d(numpy.array(list(place.values())), chosen)
    return Call(
        folder.name,
        flow["codec"],
        "audio" in flow["media"],
        numbers[chosen],
        numpy.asarray(table.bits(bit_names))[chosen],
        numpy.array(fps),
        numpy.array([keys["window_start_ns"][row] for row in rows]),
        len(labels) - len(rows),
        int(json.loads((folder / "run.json").read_text())["seed"]),
        numbers[rest[(numbers[rest][:, rtp] > 0).any(axis=1)]],
    )
