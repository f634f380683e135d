"""The model of one tap that ships, on the runs that its training held out.

    .venv/bin/python bench/evaluation/cca/onetap_ships.py OUT

OUT/rows.jsonl has the scores by data set and rows of a window. OUT/networks.jsonl, which is kept
there, has those of networks that were tried on a GPU before, and OUT/baselines.jsonl those of
onetap_nebby.py; OUT/table.md has all as tables.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wirelens.cca.onetap import evaluate
from wirelens.cca.reading import load
from wirelens.learn.progress import Progress

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "models/cca-onetap"
DATA = [ROOT / "testbed/data/onetap" / name for name in ("ns3", "linux.xz")]
NETWORKS = "networks.jsonl"
BASELINES = "baselines.jsonl"
METHODS = {
    "nebby published": "Nebby's method, its constants",
    "nebby tuned": "Nebby's method, tuned on the validation runs",
    "nebby extended": "the same with mixtures and further features",
}
LENGTHS = (256, 512)


def table(title: str, head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A section with a table whose first column is text."""
    marks = ["---", *["---:"] * (len(head) - 1)]
    lines = "".join(f"| {' | '.join(line)} |\n" for line in [head, marks, *cells])
    return f"## {title}\n\n{lines}\n"


def by(rows: Sequence[dict[str, Any]], what: str, name: str) -> tuple[list[str], list[list[str]]]:
    """F1 by tap or control, a column for each data set and length."""
    keys = sorted({key for row in rows for key in row[what]})

    def cell(row: dict[str, Any], key: str) -> str:
        return f"{row[what][key]:.3f}" if key in row[what] else ""

    titles = [name, *(f"{row['data']}, {row['rows']} rows" for row in rows)]
    return titles, [[key, *(cell(row, key) for row in rows)] for key in keys]


def tried(out: Path) -> str:
    """Networks that were tried, the best of each length first."""
    rows = [json.loads(line) for line in (out / NETWORKS).read_text().splitlines()]
    rows.sort(key=lambda row: (row["split"] != "run", -row["f1"]))
    head = [
        "network", "inputs", "filters", "rows", "scale spread", "held out", "F1",
        "among the first three",
    ]  # fmt: skip
    return table("Networks that were tried", head, [
        [
            row["network"], row["inputs"], str(row["filters"]), str(row["rows"]),
            f"{row['scale_spread']:g}",
            "runs" if row["split"] == "run" else "bands of rate and RTT",
            f"{row['f1']:.3f}", f"{row['top_three']:.3f}",
        ]
        for row in rows
    ])  # fmt: skip


def compared(out: Path, ours: Sequence[dict[str, Any]]) -> str:
    """The model beside others, on the held-out simulated runs."""
    kept = [json.loads(line) for line in (out / BASELINES).read_text().splitlines()]
    rows = [row for row in kept if row.get("of") == "sequences" and row["split"] == "run"]
    found = {("cca-onetap", row["rows"]): (row["f1"], row["top_three"]) for row in ours}
    for row in rows:
        method = METHODS[row["method"]]
        found[method, row["rows_max"]] = (row["macro_f1"], row["top_3"])
        majority = (row["majority_macro_f1"], row["majority_top_3"])
        found["majority class", row["rows_max"]] = majority
    scores = ("F1", "first three")
    head = ["method", *(f"{name}, {rows} rows" for rows in LENGTHS for name in scores)]
    methods = ("cca-onetap", *METHODS.values(), "majority class")
    return table("Compared with other methods", head, [
        [method, *(f"{score:.3f}" for rows in LENGTHS for score in found[method, rows])]
        for method in methods
    ])  # fmt: skip


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    request = evaluate.Request(load(MODEL), DATA, True, None)
    rows = [asdict(row) for row in evaluate.evaluate(request, Progress(is_quiet=True))]
    (out / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    head = [
        "data", "rows", "held-out runs", "windows", "F1", "among the first three", "named",
        "precision of named", "calibration error", "majority class, F1",
    ]  # fmt: skip
    text = table("Scores", head, [
        [
            row["data"], str(row["rows"]), str(row["runs"]), f"{row['windows']:,}",
            f"{row['f1']:.3f}", f"{row['top_three']:.3f}", f"{row['named']:.1%}",
            f"{row['precision']:.1%}", f"{row['calibration_error']:.3f}",
            f"{row['majority_f1']:.3f}",
        ]
        for row in rows
    ])  # fmt: skip
    text += table("By tap", *by(rows, "places", "tap"))
    text += table("By congestion control", *by(rows, "each", "control"))
    text += compared(out, [row for row in rows if row["data"] == "ns3"])
    (out / "table.md").write_text(text + tried(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
