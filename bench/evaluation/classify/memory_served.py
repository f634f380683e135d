"""The model `devices` that ships, served by the command: flows and hosts of sealed captures.

    python bench/evaluation/classify/memory_served.py DATA/devices/sentinel ROWS.jsonl

Captures are those of the families that training sealed by a hash of their names: they trained
nothing and chose nothing. Each is read by `wirelens classify --model devices`, by flow and by host;
the same with a copy of the model that remembers nothing, whose thresholds are those of the model
that does. A host counts from three flows on; it is right if its last row names its device.
"""

import argparse
import csv
import io
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
from wirelens.classify.labels import read_table
from wirelens.learn.metrics import family_interval
from wirelens.learn.sealing import is_sealed
from wirelens.sealed import SUMS_FILE, sums

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "target/release/wirelens"
MODEL = ROOT / "models/devices"
SEALED, FLOWS_MIN = 0.2, 3
Row = dict[str, Any]


def answered(capture: Path, model: Path, *options: str) -> list[dict[str, str]]:
    """Rows of the command."""
    command = [str(PROGRAM), "classify", "-q", "-r", str(capture), "--model", str(model)]
    command += ["--format", "csv", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(csv.DictReader(io.StringIO(done.stdout)))


def sealed_captures(folder: Path) -> list[tuple[Path, str]]:
    """Captures with their class; a family's name is that of the capture in training's layout."""
    table = read_table(MODEL.parent / "recipes/devices-classes.tsv")
    named = {row["label"]: row["class"] for row in table}
    found = []
    for capture in sorted(folder.glob("*/*.pcap")):
        device = capture.parent.name
        if is_sealed(f"data/{device}/{capture.name}", SEALED):
            found.append((capture, named.get(device, device)))
    return found


def forgetting(folder: Path) -> Path:
    """A copy of the model that remembers nothing."""
    copy = Path(shutil.copytree(MODEL, folder / "forgetting"))
    head = json.loads((copy / "cascade.json").read_text(encoding="utf-8"))
    del head["memory"]
    (copy / "cascade.json").write_text(json.dumps(head), encoding="utf-8")
    (copy / SUMS_FILE).unlink()
    (copy / SUMS_FILE).write_text(sums(sorted(copy.iterdir())), encoding="utf-8")
    return copy


def of_flows(system: str, model: Path, captures: list[tuple[Path, str]]) -> Row:
    """Figures of flows of TCP, UDP and all that models are asked about."""
    classes = sorted({label for _, label in captures})
    said, wanted, families, first, named = [], [], [], [], []
    for capture, label in captures:
        for row in answered(capture, model):
            if row["stage"] == "none":
                continue
            said.append(row["guess"])
            wanted.append(label)
            families.append(str(capture))
            first.append(row["packets_used"] == "1" and row["cause"] == "confident")
            named.append(row["label"] != "unknown")
    every = sorted({*classes, *said})
    truth = numpy.array([every.index(one) for one in wanted])
    guesses = numpy.array([every.index(one) for one in said])
    is_right, is_named = truth == guesses, numpy.array(named)
    f1 = family_interval(truth, guesses, numpy.array(families), len(every))
    return {
        "kind": "flows", "system": system, "flows": len(said), "captures": len(captures),
        "at_first_packet": float(numpy.mean(first)), "macro_f1": f1.value, "macro_f1_low": f1.low,
        "macro_f1_high": f1.high, "right": float(is_right.mean()),
        "named": float(is_named.mean()), "right_of_named": float(is_right[is_named].mean()),
    }  # fmt: skip


def of_hosts(captures: list[tuple[Path, str]]) -> Row:
    """Figures of hosts."""
    last: dict[tuple[str, str], tuple[dict[str, str], str]] = {}
    for capture, label in captures:
        for row in answered(capture, MODEL, "--by", "host"):
            last[str(capture), row["host"]] = row, label
    hosts = [one for one in last.values() if int(one[0]["flow_count"]) >= FLOWS_MIN]
    named = [(row, label) for row, label in hosts if row["label"] != "unknown"]
    return {
        "kind": "hosts", "hosts": len(hosts), "named": len(named) / len(hosts),
        "right": sum(row["guess"] == label for row, label in hosts) / len(hosts),
        "right_of_named": sum(row["label"] == label for row, label in named) / len(named),
    }  # fmt: skip


def measured(folder: Path) -> Iterator[Row]:
    captures = sealed_captures(folder)
    with tempfile.TemporaryDirectory() as place:
        yield of_flows("without memory", forgetting(Path(place)), captures)
    yield of_flows("with memory", MODEL, captures)
    yield of_hosts(captures)


def main() -> None:
    """Writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=Path)
    asked = parser.parse_args()
    with asked.rows.open("w", encoding="utf-8") as out:
        for row in measured(asked.folder):
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
