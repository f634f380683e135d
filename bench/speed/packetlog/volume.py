"""Bytes of log in each mode, as a share of the traffic: `volume.py OUT.jsonl CAPTURE...`.

Each capture is recorded with the model that ships in each mode, and what lies in the folder is
measured, indexes and all. Prints a table; without captures that of OUT.jsonl as it is.
`environment.json` is written beside. Captures that the model was trained on say little: give those
of testbed/datasets/services-heldout.toml.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment  # noqa: E402

MODES = ("default", "log-all", "log-partial", "log-sampled", "log-minimum")
WIRELENS = "target/release/wirelens"


def record(capture: Path, mode: str, folder: Path) -> dict[str, object]:
    shutil.rmtree(folder, ignore_errors=True)
    command = [WIRELENS, "packetlog", "record", "-r", str(capture), "-o", str(folder)]
    command += ["--model", "models/packetlog", "--mode", mode, "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    size = sum(path.stat().st_size for path in folder.glob("p*"))
    text = done.stderr

    def number(pattern: str) -> int:
        found = re.search(pattern, text)
        return int(found[1]) if found else 0

    packets, wire = number(r"packetlog: (\d+) seen"), number(r"% of (\d+) on the wire")
    anomalous = number(r"packetlog: anomalous: \d+ packets of (\d+) stored")
    shutil.rmtree(folder)
    return {
        "capture": "/".join(capture.parts[-3:]), "mode": mode, "packets": packets,
        "wire_bytes": wire, "anomalous": anomalous, "log_bytes": size,
    }  # fmt: skip


def main() -> None:
    output, *captures = map(Path, sys.argv[1:])
    if captures:
        facts = environment.facts([], 1)
        output.with_name("environment.json").write_text(json.dumps(facts, indent=2) + "\n")
        with output.open("w") as file:
            for capture in captures:
                for mode in MODES:
                    row = record(capture, mode, output.with_suffix(".log"))
                    file.write(json.dumps(row) + "\n")
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    print("| capture | packets | mean bytes | marked | " + " | ".join(MODES) + " |")
    print("|---|---:|---:|---:" + "|---:" * len(MODES) + "|")
    for capture in dict.fromkeys(row["capture"] for row in rows):
        same = [row for row in rows if row["capture"] == capture]
        first = same[0]
        cells = [
            str(capture),
            f"{first['packets']:,}",
            f"{first['wire_bytes'] / first['packets']:.0f}",
            f"{first['anomalous'] / first['packets']:.2%}",
            *(f"{row['log_bytes'] / row['wire_bytes']:.2%}" for row in same),
        ]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
