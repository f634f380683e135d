"""Loads of new flows through `wirelens classify` itself: in real time, and as fast as it goes.

    .venv/bin/python bench/speed/classify/loads_live.py [--output DIR] [--testbed DIR]

Captures of held-out flows of the testbed's services (load_capture.py) are replayed with --pace,
and what comes out is set beside the emulation of the same flows at the same times (systems.py).
Then the same capture is read without --pace with one consumer and with two, in turns: the
counterpart of ServeFlow's Table 6.
Writes live.jsonl and live.md into a folder of results.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

# The parent folder has what all benchmarks tell of the machine.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evaluation/classify"))

import environment
import load_capture
import loads_tasks
import pyarrow.parquet
import systems
from loads import DEPTH, SEED, TESTBED
from loads_models import Models, onnx_library
from loads_table import portion, rate, table, told_us
from wirelens.learn.metrics import macro_f1

Array = Any
Row = dict[str, Any]

PROGRAM = Path("target/release/wirelens")
# New flows a second, for how many seconds, and packets of each at most.
LOADS: tuple[tuple[int, int, int | None], ...] = ((2_000, 15, None), (20_000, 15, 20))
KINDS = ("shipped", f"paper-{DEPTH}")
# More wait at once than there are flows, so that none is decided for want of room.
_WAITING_MAX = 1 << 20
_ROUNDS = 3
_PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Ran:
    """A run of the program."""

    wall_s: float
    cpu_s: float
    told: str


def run(typed: Sequence[str | Path]) -> Ran:
    """Runs a program; processor time is of all its threads."""
    began = time.perf_counter()
    environ = os.environ | {"ORT_DYLIB_PATH": onnx_library()}
    child = subprocess.Popen(typed, stderr=subprocess.PIPE, text=True, env=environ)
    assert child.stderr is not None
    told = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{typed[0]}: {told.strip() or child.returncode}")
    return Ran(time.perf_counter() - began, used.ru_utime + used.ru_stime, told)


def in_real_time() -> list[str | Path]:
    """What is typed before a program so that it goes before other work on the machine; only root
    may.
    """
    return ["chrt", "--fifo", "10"] if os.geteuid() == 0 and shutil.which("chrt") else []


def classify(capture: Path, model: Path, verdicts: Path, *more: str) -> Ran:
    """`wirelens classify` on a capture."""
    typed = in_real_time() if "--pace" in more else []
    typed += [PROGRAM, "classify", "--read", capture, "--model", model, "--output", verdicts]
    return run([*typed, "--force", f"--waiting-max={_WAITING_MAX}", *more])


@dataclass(frozen=True)
class Verdicts:
    """What the program said, by flow of the load; what no frame decided has no latency."""

    has: Array
    labels: Array
    is_first: Array
    wait_us: Array
    latency_us: Array


def read_verdicts(path: Path, flow_count: int, classes: list[str]) -> Verdicts:
    """Verdicts, joined by the addresses that tell flows apart."""
    found = pyarrow.parquet.read_table(path)
    flow = numpy.array([load_capture.flow_of(text) for text in found["src_ip"].to_pylist()])
    index = {name: place for place, name in enumerate(classes)}
    has = numpy.bincount(flow, minlength=flow_count) > 0
    labels = numpy.zeros(flow_count, dtype=numpy.int64)
    labels[flow] = [index[name] for name in found["label"].to_pylist()]
    is_first, wait_us, latency_us = (numpy.full(flow_count, numpy.nan) for _ in range(3))
    is_first[flow] = found["packets_used"].to_numpy() == 1
    wait_us[flow] = found["wait_ns"].to_numpy() / 1e3
    told = found["latency_ns"].to_numpy(zero_copy_only=False).astype(float)
    latency_us[flow] = told / 1e3
    return Verdicts(has, labels, is_first, wait_us, latency_us)


def judged(labels: Array, truth: Array, size: int) -> float:
    """Macro-F1."""
    counts = numpy.bincount(truth * size + labels, minlength=size * size).reshape(size, size)
    return float(macro_f1(counts))


def percentiles(name: str, values: Array) -> Row:
    """Some percentiles, as fields of a row."""
    found = numpy.percentile(values, _PERCENTILES)
    return {
        f"{name}_p{which}": float(value) for which, value in zip(_PERCENTILES, found, strict=True)
    }


class Live:
    """Loads of one task through the program."""

    def __init__(self, models: Models, output: Path) -> None:
        self.models, self.output = models, output
        self.flows = models.flows()
        # Rows of held-out flows by row of the dataset.
        self.place = {row: place for place, row in enumerate(models.plan.test.tolist())}

    def tell(self, row: Row) -> None:
        """A line more."""
        with (self.output / "live.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self.models.progress.tell(json.dumps(row))

    def replay(self, capture: Path, written: load_capture.Counts, load: Row, kind: str) -> None:
        """In real time, beside the emulation of the same flows."""
        place = self.models.folder(kind)
        verdicts = capture.with_suffix(".parquet")
        ran = classify(capture, place, verdicts, "--pace")
        told = read_verdicts(verdicts, written.flows, self.flows.classes)
        rows = numpy.array([self.place[row] for row in written.rows.tolist()])
        first_us = (written.first_ns - written.first_ns.min()) / 1e3
        sent = systems.Load(load["flows_per_s"], float(load["seconds"]), rows, first_us)
        chain = self.models.chain(place)
        emulated = systems.emulate(systems.System(kind, chain, True), self.flows, sent, SEED)
        # A frame decided these, so the program knows how long that took.
        timed = told.has & numpy.isfinite(told.latency_us)
        truth, size = self.flows.labels[rows], len(self.flows.classes)
        shallow = sum(stage.packets == 1 for stage in chain.stages)
        both = told.has & numpy.isfinite(emulated.verdict)
        total = told.wait_us[timed] + told.latency_us[timed]
        of_emulated = (emulated.verdict - first_us)[timed]
        self.tell(
            load
            | {
                "what": "replay",
                "model": kind,
                "flows": written.flows,
                "packets": written.packets,
                "wall_s": ran.wall_s,
                "cpu_s": ran.cpu_s,
                "missed": float(1 - told.has.mean()),
                "emulated_missed": float(numpy.isnan(emulated.verdict).mean()),
                "timed": float(timed.mean()),
                "first_packet": float(told.is_first[told.has].mean()),
                "emulated_first_packet": float((chain.decided[rows] < shallow).mean()),
                "same_label": float((told.labels == chain.labels[rows])[both].mean()),
                "macro_f1": judged(told.labels[told.has], truth[told.has], size),
                "emulated_macro_f1": judged(chain.labels[rows], truth, size),
                "verdicts_per_s": written.flows
                * (1 - float(1 - told.has.mean()))
                / load["seconds"],
                **percentiles("behind_frame_us", told.latency_us[timed]),
                **percentiles("total_us", total),
                **percentiles("emulated_total_us", of_emulated),
                **percentiles(
                    "emulated_behind_frame_us", (emulated.queued + emulated.worked)[timed]
                ),
                "load_average": os.getloadavg()[0],
            }
        )

    def consumers(self, capture: Path, written: load_capture.Counts, load: Row) -> None:
        """As fast as it goes, with one consumer and with two, in turns."""
        for model in (*KINDS, f"paper-{DEPTH}-onnx"):
            if model.endswith("-onnx"):
                place = self.models.in_onnx(model.removesuffix("-onnx"))
            else:
                place = self.models.folder(model)
            for _ in range(_ROUNDS):
                for count in (1, 2):
                    verdicts = capture.with_suffix(".parquet")
                    ran = classify(capture, place, verdicts, f"--consumers={count}")
                    self.tell(
                        load
                        | {
                            "what": "consumers",
                            "model": model,
                            "consumers": count,
                            "flows": written.flows,
                            "packets": written.packets,
                            "wall_s": ran.wall_s,
                            "cpu_s": ran.cpu_s,
                            "load_average": os.getloadavg()[0],
                        }
                    )

    def all(self) -> None:
        """Every load, and consumers on the greatest."""
        scratch = loads_tasks.FOLDER / "live"
        scratch.mkdir(parents=True, exist_ok=True)
        for per_s, seconds, packets_max in LOADS:
            frames = load_capture.read(self.models.dataset, self.models.plan.test, packets_max)
            capture = scratch / f"{per_s}.pcap"
            written = load_capture.write(frames, capture, per_s, seconds, SEED)
            load = {"flows_per_s": per_s, "seconds": seconds, "packets_max": packets_max}
            for kind in KINDS:
                self.replay(capture, written, load, kind)
            if per_s == LOADS[-1][0]:
                self.consumers(capture, written, load)
            capture.unlink()


def text(rows: list[Row], facts: Row) -> str:
    """The table."""
    where = f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores"
    replays = [row for row in rows if row["what"] == "replay"]
    lines = []
    for row in replays:
        name = f"{rate(row['flows_per_s'])} a second, {row['model']}"
        for who, start in (("measured", ""), ("emulated", "emulated_")):
            latencies = [told_us(row[f"{start}total_us_p{which}"]) for which in _PERCENTILES]
            behind = [told_us(row[f"{start}behind_frame_us_p{which}"]) for which in _PERCENTILES]
            shares = (portion(row[f"{start}{what}"]) for what in ("missed", "first_packet"))
            f1 = f"{row[f'{start}macro_f1']:.3f}"
            lines.append([f"{name}, {who}", *shares, f1, *latencies, *behind])
    quantiles = [f"p{which}" for which in _PERCENTILES]
    head = ["load, model", "missed", "at the first packet", "macro-F1"]
    head += [f"latency, {which}" for which in quantiles]
    head += [f"behind the frame, {which}" for which in quantiles]
    used = [
        [
            f"{rate(row['flows_per_s'])} a second, {row['model']}",
            rate(row["flows"]),
            rate(row["packets"]),
            rate(row["verdicts_per_s"]),
            f"{row['cpu_s']:.1f} s of {row['wall_s']:.1f} s",
            portion(row["same_label"]),
            f"{row['load_average']:.1f}",
        ]
        for row in replays
    ]
    used_head = ["load, model", "flows", "packets", "verdicts a second", "processor time"]
    used_head += ["same verdict as emulated", "load of the machine"]
    parts = [
        "# Loads through the program\n",
        f"{where}.\n",
        "## In real time, beside the emulation of the same flows\n",
        "Latencies are of flows that a frame decided.\n",
        table(head, lines),
        table(used_head, used),
        "## Consumers: as fast as it goes\n",
        _consumers([row for row in rows if row["what"] == "consumers"]),
    ]
    return "\n".join(parts)


def _consumers(rows: list[Row]) -> str:
    lines = []
    for model in dict.fromkeys(row["model"] for row in rows):
        for count in (1, 2):
            same = [row for row in rows if (row["model"], row["consumers"]) == (model, count)]
            wall, cpu = (
                float(numpy.median([row[what] for row in same])) for what in ("wall_s", "cpu_s")
            )
            flows, packets = same[0]["flows"], same[0]["packets"]
            lines.append(
                [
                    f"{model}, {count}",
                    f"{wall:.2f} s",
                    f"{cpu:.2f} s",
                    rate(flows / wall),
                    rate(flows / cpu),
                    rate(packets / cpu),
                ]
            )
    head = ["model, consumers", "wall", "processor", "flows a second"]
    head += ["flows a core-second", "packets a core-second"]
    return table(head, lines)


def main() -> None:
    """Measures, or writes the table of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--testbed", type=Path, default=TESTBED)
    parser.add_argument("--output", type=Path, help="folder for the results")
    parser.add_argument("--draw", action="store_true", help="table of --output only")
    asked = parser.parse_args()
    name = f"{time.strftime('%Y-%m-%d', time.gmtime())}-{environment.cpu_slug()}-classify-loads"
    output = asked.output or Path("bench/results") / f"{name}-live"
    output.mkdir(parents=True, exist_ok=True)
    facts_file, rows_file = output / "environment.json", output / "live.jsonl"
    if not asked.draw:
        facts: Row = environment.facts([], 1)
        facts["replays_before"] = list(map(str, in_real_time()))
        facts_file.write_text(json.dumps(facts, indent=2) + "\n")
        rows_file.unlink(missing_ok=True)
        Live(Models(loads_tasks.SERVICES, asked.testbed), output).all()
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    facts = json.loads(facts_file.read_text())
    (output / "live.md").write_text(text(rows, facts), encoding="utf-8")


if __name__ == "__main__":
    main()
