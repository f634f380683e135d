"""What it costs to use the last verdict of a flow again, and how many packets then need no forest.

    .venv/bin/python bench/evaluation/packetlog/reuse.py OUT RUNS MODEL...
    .venv/bin/python bench/evaluation/packetlog/reuse.py OUT      prints tables of its rows.jsonl

RUNS is a data set of `wirelens testbed make`, MODEL the folder of a model, which is classified with
as its file says, and with verdicts used again at each of the growths below. Recall is that of each
attack over all of its packets, benign packets marked that of each run. The command counts packets
that needed no forest: `target/release/wirelens` records each run into a folder that is deleted.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import kept_rows
import numpy
from wirelens.packetlog import truth
from wirelens.packetlog.evaluate import of_model

WIRELENS = kept_rows.ROOT / "target/release/wirelens"
FLOWS = 65_536
# 0: every packet is classified.
GROWTHS = (0, 6, 12, 25, 50, 100)


def variant(model: Path, growth: int, folder: Path) -> Path:
    """The file of a model with another rule."""
    told = json.loads((model / "model.json").read_text())
    told.pop("verdict_reuse", None)
    if growth:
        told["verdict_reuse"] = {"flows": FLOWS, "growth_percent": growth}
    path = folder / "model.json"
    path.write_text(json.dumps(told))
    return path


def reused(path: Path, capture: Path, folder: Path) -> int:
    """Packets whose verdict is the last one of their flow, by the command's own count."""
    command = [WIRELENS, "packetlog", "record", "-r", capture, "--model", path.parent]
    command += ["-o", folder / "log", "--mode", "log-minimum"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    subprocess.run(["rm", "-r", folder / "log"], check=True)
    found = re.search(r"(\d+) of these with the last verdict", done.stderr)
    return int(found[1]) if found else 0


def measure(runs: Path, *models: Path) -> list[dict[str, object]]:
    captures = truth.captures([runs])
    truths = [truth.read(capture) for capture in captures]
    found = []
    for model in models:
        for growth in GROWTHS:
            with tempfile.TemporaryDirectory() as scratch:
                path = variant(model, growth, Path(scratch))
                judge = of_model(path)
                packets, marked = {}, {}
                benign, count, without_forest = [], 0, 0
                for capture, one in zip(captures, truths, strict=True):
                    marks = judge(capture, one)
                    count += len(one)
                    without_forest += reused(path, capture.path, Path(scratch))
                    for code, label in enumerate(one.labels):
                        mine = one.codes == code
                        if code == 0 and mine.any():
                            benign.append(float(marks[mine].mean()))
                        elif mine.any():
                            packets[label] = packets.get(label, 0) + int(mine.sum())
                            marked[label] = marked.get(label, 0) + int(marks[mine].sum())
            found.append({
                "model": model.name, "growth_percent": growth,
                "recalls": {label: marked[label] / packets[label] for label in packets},
                "benign": float(numpy.mean(benign)), "packets": count, "reused": without_forest,
            })  # fmt: skip
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def tables(found: Sequence[dict]) -> str:
    head = ["model", "growth", "mean recall", "largest loss", "largest gain", "benign marked",
            "packets without a forest"]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|---|---:|---:|---|---|---:|---:|"]
    every: dict[str, dict[str, float]] = {}
    for row in found:
        recalls = row["recalls"]
        plain = every.setdefault(row["model"], recalls)
        by = {label: recalls[label] - plain[label] for label in recalls}
        least, most = min(by, key=by.__getitem__), max(by, key=by.__getitem__)
        growth = row["growth_percent"]
        lines.append("| " + " | ".join([
            row["model"], f"{growth} %" if growth else "every packet",
            f"{numpy.mean(list(recalls.values())):.4f}",
            f"{by[least]:+.3f} ({least})" if growth else "",
            f"{by[most]:+.3f} ({most})" if growth else "",
            f"{row['benign']:.2%}",
            f"{row['reused'] / row['packets']:.1%}" if growth else "",
        ]) + " |")  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    kept_rows.show("Verdicts used again", tables, measure)
