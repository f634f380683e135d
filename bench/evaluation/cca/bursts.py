"""How evenly packets came to the queue of testbed runs: a machine that is too busy brings them in
bursts, which are the machine's and not the congestion controls'.

    .venv/bin/python bench/evaluation/cca/bursts.py testbed-runs/congestion/train-???? \\
        testbed/data/congestion/train -o rows.jsonl
    .venv/bin/python bench/evaluation/cca/bursts.py rows.jsonl --table

Runs are folders with captures, or files of slots. A row a run: `late_us`, how late the relay passed
on acknowledgements at the 99th percentile (of folders; it is in no file of slots); `fullest`, the
99th percentile of the bytes that came in a millisecond, by their mean; and the rate of each
measured flow, Mbit/s.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "models"))
import cca_slots
from wirelens.cca.packed import INPUTS, PackedRun, Stretch
from wirelens.cca.runs import find_runs
from wirelens.learn.progress import Progress

# As `testbed/data/congestion/train` is packed, so that runs and slots are of the same parts.
EXTENT = cca_slots.Extent(stretches=3, slots=10_000, background_max=6, settled=2_000)
CAME = INPUTS.index("ingress_bytes")
MBIT_PER_BYTE_PER_MS = 8e-3


def lateness_us(folder: Path) -> int | None:
    """The relay's lateness at the 99th percentile, as the run's own check says it."""
    path = folder / "run.json"
    if not path.exists():
        return None
    checks = json.loads(path.read_text())["checks"]
    seen = [check["seen"] for check in checks if check["name"] == "relay ab: lateness"]
    return int(seen[0].split()[0]) if seen else None


def row(run: PackedRun) -> dict[str, Any]:
    """What a run's slots say."""

    def together(of: Any) -> Any:
        return numpy.concatenate([of(stretch) for stretch in run.stretches])

    def all_flows(stretch: Stretch) -> Any:
        return stretch.sums[:, CAME]

    came = together(all_flows)
    flows = [
        {
            "control": member.control,
            "rtt_ms": member.rtt_ms,
            "mbit": float(together(lambda each, at=at: each.flows[at, :, CAME]).mean())
            * MBIT_PER_BYTE_PER_MS,
        }
        for at, member in enumerate(run.kept)
        if not member.is_background
    ]
    return {
        "run": run.path.name,
        "of": run.path.parent.name,
        "late_us": lateness_us(run.path),
        "background": run.background,
        "fullest": float(numpy.quantile(came, 0.99) / came.mean()),
        "flows": flows,
    }


BANDS_US = ((0, 500), (500, 1000), (1000, 3000))
BACKGROUNDS = ((0, 0), (1, 15), (16, 1000))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Medians of `fullest`, by lateness and by how many background flows there are."""
    lines = [
        "## fullest",
        "",
        "| acknowledgements late at p99 | runs | no background flow | 1 to 15 | more |",
        "|---|---:|---:|---:|---:|",
    ]
    for low, high in BANDS_US:
        of = [row for row in rows if low <= row["late_us"] < high]
        cells = []
        for fewest, most in BACKGROUNDS:
            found = [row["fullest"] for row in of if fewest <= row["background"] <= most]
            median = f"{numpy.median(found):.2f} ({len(found)})" if found else "–"
            cells.append(median)
        name = f"{low / 1000:g} to {high / 1000:g} ms"
        lines.append(f"| {name} | {len(of)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN|FILE")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    parser.add_argument("--table", action="store_true", help="of rows that were written before")
    asked = parser.parse_args()
    if asked.table:
        lines = (line for path in asked.runs for line in path.read_text().splitlines())
        print(table([json.loads(line) for line in lines]), end="")
        return
    if asked.output is None:
        parser.error("wanted: -o FILE, for the rows")
    progress, runs = Progress(), find_runs(asked.runs)
    with asked.output.open("w") as file:
        for done, run in enumerate(runs):
            progress.show(done, len(runs), "runs")
            slots = run if isinstance(run, PackedRun) else cca_slots.pack(run, EXTENT)
            file.write(json.dumps(row(slots)) + "\n")
    progress.finish()


if __name__ == "__main__":
    main()
