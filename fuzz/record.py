#!/usr/bin/env python3
"""Adds what the last run of the fuzz targets did to a kept table.

    python3 fuzz/record.py bench/results/FOLDER

Reads the logs of `bash tools/fuzz.sh long`, fuzz/target/TARGET.log. Of each target the table
`targets.tsv` has processor seconds and executed inputs of all runs, and of the last run the code
edges that its inputs reach, and their number.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLUMNS = ("target", "processor_s", "executions", "edges", "inputs")
END = re.compile(r"^#\d+\s+DONE\s+cov: (\d+) .*corp: (\d+)/", re.MULTILINE)


def targets() -> list[str]:
    """Names of all targets, as `tools/fuzz.sh` runs them."""
    script = HERE.parent / "tools" / "fuzz.sh"
    done = subprocess.run(["bash", script, "list"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def number(text: str, name: str) -> float:
    found = re.search(rf"^stat::{name}: *([\d. ]+)$", text, re.MULTILINE)
    return sum(map(float, found[1].split())) if found else 0.0


def rows(before: Mapping[str, Mapping[str, str]]) -> Iterator[dict[str, str | int]]:
    """A row for each target, with the runs before."""
    for name in targets():
        log = HERE / "target" / f"{name}.log"
        row = dict(before.get(name, dict.fromkeys(COLUMNS, "0")), target=name)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if end := END.search(text):
            sums = {"processor_s": "processor_seconds", "executions": "number_of_executed_units"}
            for column, stat in sums.items():
                row[column] = str(round(int(row[column]) + number(text, stat)))
            row["edges"], row["inputs"] = end.groups()
            # So that no run is added twice.
            log.unlink()
        yield row


def main(folder: Path) -> None:
    table = folder / "targets.tsv"
    before = {}
    if table.exists():
        with table.open(encoding="utf-8", newline="") as lines:
            before = {row["target"]: row for row in csv.DictReader(lines, delimiter="\t")}
    with table.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, COLUMNS, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows(before), key=lambda row: str(row["target"])))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python3 fuzz/record.py bench/results/FOLDER")
    main(Path(sys.argv[1]))
