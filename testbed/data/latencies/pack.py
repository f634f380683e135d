"""Packs the runs of the data set `latency` beside this file, or into another folder:

    .venv/bin/python testbed/data/latencies/pack.py testbed-runs/latency [FOLDER]
"""

import json
import sys
from pathlib import Path

from wirelens.l4s.latencies import pack

HERE = Path(__file__).resolve().parent
NAMES = ("video-steady", "video-varying", "web-steady", "web-varying")
SIZE_MAX_BYTES = 8_000_000


def main(runs: Path, output: Path = HERE) -> None:
    for name in NAMES:
        folder = runs / f"{name}-0000"
        run = json.loads((folder / "run.json").read_text())
        if not run["accepted"]:
            sys.exit(f"{folder}: rejected; make it again")
        late = [relay[way]["late_us"]["p99"] for relay in run["relays"] for way in ("ab", "ba")]
        about = {
            "name": name, "seed": run["seed"], "system": run["system"],
            "relay_late_p99_us": round(max(late), 1),
            "scenario": (folder / "scenario.toml").read_text(),
        }  # fmt: skip
        size = pack(folder / "packets.tsv.gz", output / f"{name}.parquet", about)
        print(f"{name}: {size / 1e6:.2f} MB")
        assert size <= SIZE_MAX_BYTES, f"more than {SIZE_MAX_BYTES}"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
