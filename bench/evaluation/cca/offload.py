"""Bytes against packets where segments travel in large packets (segmentation offload).

    .venv/bin/python bench/evaluation/cca/offload.py OUT.jsonl RUN [RUN]

Each RUN is a run of the testbed (`wirelens testbed run bench/evaluation/cca/offload.toml`), with
its captures. Of each flow: how far CBIQ is from what was in the queue, told by sequence numbers and
by counting packets, and how well bytes and packets of a slot tell what was sent in it.
The truth is made packet by packet by tshark's reading of the captures. Prints a table.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from wirelens.cca import tap_slots, windows
from wirelens.cca.slots import SLOT_LEN, TapFlow

SLOT_NS = 1_000_000
SEGMENT_BYTES = 1448
# The second in which flows begin is left out, and what has not left at the end.
BEGIN, END = 1000, 200
FIELDS = ("frame.time_epoch", "tcp.srcport", "tcp.seq_raw", "tcp.len")
Packet = tuple[int, int, int]


def packets(capture: Path) -> dict[int, list[Packet]]:
    """Time, sequence number and bytes of data of each packet that has any, by source port."""
    command = ["tshark", "-r", capture, "-n", "-Y", "tcp.len > 0", "-T", "fields"]
    for field in FIELDS:
        command += ["-e", field]
    found = defaultdict(list)
    for line in subprocess.check_output(command, text=True).splitlines():
        time, port, sequence, length = line.split("\t")
        seconds, fraction = time.split(".")
        time_ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
        found[int(port)].append((time_ns, int(sequence), int(length)))
    return found


def occupancy(came: list[Packet], left: list[Packet], start: int, slots: int) -> np.ndarray:
    """Bytes in the queue at the end of each slot: of what left, each segment since it came."""
    events = [(time, 0, sequence, length) for time, sequence, length in came]
    events += [(time, 1, sequence, length) for time, sequence, length in left]
    change = np.zeros(slots + 1)
    waits: dict[int, int] = {}
    for time, is_left, sequence, length in sorted(events):
        for at in range(0, length, SEGMENT_BYTES):
            segment = (sequence + at) % 2**32
            if not is_left:
                waits[segment] = time
            elif (since := waits.pop(segment, None)) is not None:
                size = min(SEGMENT_BYTES, length - at)
                for when, sign in ((since, 1), (time, -1)):
                    change[min(max(when // SLOT_NS - start, 0), slots)] += sign * size
    return np.cumsum(change)[:slots]


def column(flow: TapFlow, start: int, slots: int, offset: int) -> np.ndarray:
    """A field of 32 bits of each slot."""
    rows = np.frombuffer(flow.slots, np.uint8).reshape(-1, SLOT_LEN)
    numbers = rows[:, :8].copy().view(np.int64)[:, 0] - start
    values = rows[:, offset : offset + 4].copy().view(np.uint32)[:, 0]
    inside = (numbers >= 0) & (numbers < slots)
    found = np.zeros(slots)
    found[numbers[inside]] = values[inside]
    return found


def alike(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one, other)[0, 1])


def of_run(run: Path) -> list[dict[str, Any]]:
    told = json.loads((run / "run.json").read_text())
    buffer = next(
        int(line.split("=")[1].replace("_", ""))
        for line in (run / "scenario.toml").read_text().splitlines()
        if line.startswith("buffer_bytes")
    )
    offload = "offloads = true" in (run / "scenario.toml").read_text()
    captures = [run / "before.pcapng", run / "after.pcapng"]
    came, left = (packets(capture) for capture in captures)
    before, after = tap_slots(captures)
    found = []
    for way, tap in before.items():
        if way not in after or len(tap) < BEGIN:
            continue
        start = tap.first_slot
        slots = tap.last_slot - start - END
        true = occupancy(came[way.src_port], left[way.src_port], start, slots)[BEGIN:]
        row: dict[str, Any] = {
            "run": run.name, "accepted": told["accepted"], "offload": offload,
            "buffer_bytes": buffer, "port": way.src_port, "slots": slots - BEGIN,
            "true_mean_bytes": round(true.mean()),
        }  # fmt: skip
        for passed in ("highest", "first"):
            made = windows(tap, after[way], [start], slots, passed=passed)
            cbiq = np.asarray(made.values)[0, BEGIN:, 0]
            row[f"{passed}_error"] = round(float(np.abs(cbiq - true).mean() / buffer), 5)
        in_queue = (
            column(tap, start, slots, 32).cumsum() - column(after[way], start, slots, 32).cumsum()
        )
        by_packets = np.maximum(in_queue[BEGIN:], 0) * SEGMENT_BYTES
        row["packets_error"] = round(float(np.abs(by_packets - true).mean() / buffer), 5)
        made = windows(
            tap, after[way], [start], slots,
            inputs=["ingress_bytes", "ingress_packets", "ingress_segments"],
        )  # fmt: skip
        values = np.asarray(made.values)[0, BEGIN:]
        sent = np.zeros(slots)
        for time, _, length in came[way.src_port]:
            if 0 <= (slot := time // SLOT_NS - start) < slots:
                sent[slot] += length
        sent = sent[BEGIN:]
        for at, name in enumerate(("bytes", "packets", "segments")):
            row[f"{name}_alike"] = round(alike(values[:, at], sent), 4)
        row["bytes_a_packet"] = round(sent.sum() / values[:, 1].sum())
        found.append(row)
    return found


def main() -> None:
    out, *runs = map(Path, sys.argv[1:])
    rows = [row for run in runs for row in of_run(run)]
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    keys = ("offload", "bytes_a_packet", "highest_error", "first_error", "packets_error",
            "bytes_alike", "segments_alike", "packets_alike")  # fmt: skip
    print("| " + " | ".join(keys) + " |")
    for row in rows:
        print("| " + " | ".join(str(row[key]) for key in keys) + " |")


if __name__ == "__main__":
    main()
