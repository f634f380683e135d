"""The packet log on a switch: whole numbers compared with floats, and the simulated switch.

    .venv/bin/python bench/evaluation/packetlog/switch.py OUT --model MODEL [--agreement CAPTURE]...
        [--error CAPTURE]... [--simulate CAPTURE]... [--labelled RUN]... [--flows 10000,33000]
        [--time 10ms]

Needs `cargo build --release`. MODEL is the folder of a model without states of connections. Writes
to the folder OUT: `errors.jsonl` (Tables V and VIII), `agreement.jsonl` (verdicts, packet by
packet), `switch.jsonl` (Tables X to XII, Figures 3 to 8: workloads of the paper, then each
capture), `classifier.jsonl` (Table IX: each labelled run of the testbed, at more and more streams;
intercepted packets are taken for benign ones), `speed.jsonl` (packets per core-second of the
simulator) and `environment.json`.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
from wirelens.packetlog import truth

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment

BENCH, WIRELENS = Path("target/release/wirelens-bench"), Path("target/release/wirelens")
WORKLOADS = ("w1", "w2", "w3", "w4", "w5")
MODES = ("default", "log-minimum", "log-all")
# The paper's, and the most that there are: 64 times the flows in the same sketch.
STREAMS_GBPS = "100,200,400,6400"


def rows(command: list[str | Path]) -> list[dict[str, Any]]:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def simulate(*more: str | Path) -> list[dict[str, Any]]:
    modes = [word for mode in MODES for word in ("--mode", mode)]
    return rows([WIRELENS, "simulate", "packetlog", "--format", "jsonl", *modes, *more])


def classified(runs: list[Path], model: Path) -> Iterator[dict[str, Any]]:
    """What the classifier finds of attacks, at each rate."""
    for run in truth.captures(runs):
        numbers = numpy.flatnonzero(truth.read(run).codes > 0) + 1
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            numpy.savetxt(file, numbers, fmt="%d")
            file.flush()
            source = ["-r", run.path, "-q", "--anomalous", file.name, "--gbps", STREAMS_GBPS]
            command = [WIRELENS, "simulate", "packetlog", "--format", "jsonl", *source]
            for kind, more in classifiers(model):
                for row in rows([*command, *more]):
                    yield {**row, "traffic": run.name, "anomalous": len(numbers),
                           "classifier": kind}  # fmt: skip


def totals(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same of all runs together, a row for each classifier and rate."""
    cases = dict.fromkeys((row["classifier"], row["gbps"]) for row in found)
    for kind, gbps in cases:
        same = [row for row in found if (row["classifier"], row["gbps"]) == (kind, gbps)]
        packets, marked = (sum(row[name] for row in same) for name in ("packets", "marked_packets"))
        anomalous = sum(row["anomalous"] * gbps // 100 for row in same)
        right = sum(round((row["recall"] or 0) * row["anomalous"] * gbps / 100) for row in same)
        yield {
            "traffic": "all", "classifier": kind, "gbps": gbps, "packets": packets,
            "marked_packets": marked, "anomalous": anomalous // (gbps // 100),
            "precision": right / marked, "recall": right / anomalous,
            "accuracy": sum(row["accuracy"] * row["packets"] for row in same) / packets,
        }  # fmt: skip


def classifiers(model: Path) -> tuple[tuple[str, list[str | Path]], ...]:
    """The model that ships, and one that a switch can compute, in whole numbers."""
    return ("exact", []), ("integer", ["--integer", "--model", model])


def speed(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One rate and one mode: what a packet costs, of a workload and of a capture."""
    found = []
    sources: list[tuple[str, list[str | Path]]] = [
        ("w3", ["--workload", "w3", "--for", options.time])
    ]
    sources += [(path.name, ["-r", path, "-q"]) for path in options.simulate]
    for name, source in sources:
        command = [WIRELENS, "simulate", "packetlog", "--gbps", "400", "--format", "jsonl"]
        before = cpu_s()
        (row,) = rows([*command, *source])
        spent = cpu_s() - before
        found.append({"traffic": name, "packets": row["packets"], "cpu_s": round(spent, 3)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--agreement", type=Path, action="append", default=[])
    parser.add_argument("--error", type=Path, action="append", default=[])
    parser.add_argument("--simulate", type=Path, action="append", default=[])
    parser.add_argument("--labelled", type=Path, action="append", default=[])
    parser.add_argument("--flows", default="10000,33000,59000,100000")
    parser.add_argument("--time", default="10ms")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    facts = environment.facts([], 1)
    found: dict[str, list[dict[str, Any]]] = {"errors": [], "agreement": [], "switch": []}
    for path in options.error:
        more = ["--capture", path, "--flows", options.flows, "--windows", "1"]
        found["errors"] += rows([BENCH, "packetlog", "sketch-error", *more])
    model = options.model / "model.json"
    for path in options.agreement:
        command = [BENCH, "packetlog", "agreement", "--model", model, "--capture", path]
        found["agreement"] += rows(command)
    workloads = [word for name in WORKLOADS for word in ("--workload", name)]
    found["switch"] += simulate(*workloads, "--for", options.time)
    for path in options.simulate:
        for kind, more in classifiers(options.model):
            for row in simulate("-r", path, "-q", *more):
                found["switch"].append({**row, "traffic": path.name, "classifier": kind})
    found["classifier"] = list(classified(options.labelled, options.model))
    found["classifier"] += totals(found["classifier"])
    found["speed"] = speed(options)
    for name, lines in found.items():
        text = "".join(json.dumps(row) + "\n" for row in lines)
        (options.out / f"{name}.jsonl").write_text(text)
    (options.out / "environment.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
