"""What a deletion in a full packet log waits for: account and ledger on the disk before the file
goes, and the names of the folder with `--sync`.

    .venv/bin/python bench/speed/packetlog/deletions.py CAPTURE SCRATCH [--output FOLDER]

SCRATCH is a folder on the disk that is measured; what is made there is deleted again. The recorder
runs under strace, which counts each wait; its own cost is not in their times. Results go to FOLDER,
or bench/results/DATE-CPU-packetlog-deletions: a line a run, a table, and where it was.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from environment import cpu_slug, facts

PROGRAM = Path("target/release/wirelens")
WAYS = {"default": [], "--sync": ["--sync"]}
WAIT = re.compile(r"(fsync|fdatasync)\(\d+<(.*?)>\).* = 0 <([\d.]+)>")


def measured(capture: Path, scratch: Path, way: str) -> dict[str, object]:
    """One recording into 8 MB of log, and what it waited for."""
    log, trace = scratch / "log", scratch / "trace"
    subprocess.run(
        ["strace", "-f", "-y", "-T", "-e", "trace=fsync,fdatasync", "-o", trace, PROGRAM,
         "packetlog", "record", "-q", "-r", capture, "-o", log, "--mode", "log-all",
         "--fixed-mode", "--keep-bytes", "8M", "--when-full", "overwrite",
         "--block-bytes", "64K", *WAYS[way]],
        check=True,
    )  # fmt: skip
    waits: dict[str, list[float]] = {"ledger": [], "account": [], "folder": [], "packets": []}
    for _, path, seconds in WAIT.findall(trace.read_text()):
        name = Path(path).name
        kind = "ledger" if name.startswith("ledger-") else name
        kind = "folder" if Path(path) == log.resolve() else kind
        waits[kind if kind in waits else "packets"].append(float(seconds) * 1e3)
    ledger = "".join(path.read_text() for path in sorted(log.glob("ledger-*.jsonl")))
    sums = re.findall(r'"cause":"room","files_packets_bytes":\[(\d+)', ledger)
    deleted = max(map(int, sums), default=0)
    deleted = max(deleted, ledger.count('"delete":'))
    shutil.rmtree(log)
    trace.unlink()
    return {
        "way": way,
        "deleted": deleted,
        **{
            kind: {
                "waits": len(of), "median_ms": round(statistics.median(of), 2) if of else None,
                "most_ms": round(max(of), 2) if of else None, "total_ms": round(sum(of)),
            }
            for kind, of in waits.items()
        },
    }  # fmt: skip


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("capture", type=Path)
    asked.add_argument("scratch", type=Path)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--output", type=Path)
    given = asked.parse_args()
    day = datetime.now(UTC).date().isoformat()
    name = f"{day}-{cpu_slug()}-packetlog-deletions"
    output = given.output or Path("bench/results") / name
    where = facts([], given.rounds)
    runs = [
        measured(given.capture, given.scratch, way) for _ in range(given.rounds) for way in WAYS
    ]
    output.mkdir(parents=True)
    (output / "environment.json").write_text(json.dumps(where, indent=2) + "\n")
    (output / "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
    lines = [
        "| | files deleted | waits for | count | median ms | longest ms |",
        "|---|---|---|---|---|---|",
    ]
    for way in WAYS:
        of_way = [run for run in runs if run["way"] == way]
        for kind in ("ledger", "account", "folder", "packets"):
            waits = [run[kind] for run in of_way]
            if not waits[0]["waits"]:
                continue
            median = statistics.median(wait["median_ms"] for wait in waits)
            lines.append(
                f"| {way} | {of_way[0]['deleted']} | {kind} | {waits[0]['waits']} | {median:.2f} | "
                f"{max(wait['most_ms'] for wait in waits):.2f} |"
            )
    (output / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
