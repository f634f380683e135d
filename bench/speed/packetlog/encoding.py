"""CPU time of a stored packet by encoding: `encoding.py OUT.jsonl CAPTURE... [--rounds N]`.

Each capture is recorded with the shipped model in the mode `default`, in turns: as pcapng, compact,
and both with `--compress`. CPU time is that of all threads of the process, the compressor's
included, less that of the start, measured with `-c 1`. Prints a table of medians.
`environment.json` is written next to OUT.jsonl, the log to OUT.log, which is removed.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment  # noqa: E402

WIRELENS = "target/release/wirelens"
WAYS = {
    "pcapng": ("--encoding", "pcapng"),
    "compact": ("--encoding", "compact"),
    "pcapng, compressed": ("--encoding", "pcapng", "--compress", "3"),
    "compact, compressed": ("--encoding", "compact", "--compress", "3"),
}


def record(capture: Path, options: tuple[str, ...], folder: Path) -> tuple[float, str, int]:
    """CPU time in seconds, the summary, and the bytes of the log."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [WIRELENS, "packetlog", "record", "-r", str(capture), "-o", str(folder)]
    command += ["--model", "packetlog", "--seed", "1", *options]
    said = folder.with_suffix(".txt")
    with said.open("w") as file, subprocess.Popen(command, stderr=file) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = said.read_text()
    said.unlink()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {text}")
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    shutil.rmtree(folder)
    return usage.ru_utime + usage.ru_stime, text, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("captures", type=Path, nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    if asked.captures:
        asked.output.parent.mkdir(parents=True, exist_ok=True)
        facts = environment.facts([], asked.rounds)
        asked.output.with_name("environment.json").write_text(json.dumps(facts, indent=2) + "\n")
        folder = asked.output.with_suffix(".log")
        with asked.output.open("w") as file:
            for number in range(asked.rounds):
                for capture in asked.captures:
                    for way, options in WAYS.items():
                        start, _, _ = record(capture, (*options, "-c", "1"), folder)
                        spent, text, size = record(capture, options, folder)
                        seen = re.search(r"packetlog: (\d+) seen = (\d+) stored", text)
                        row = {
                            "round": number, "capture": "/".join(capture.parts[-2:]), "way": way,
                            "packets": int(seen[1]), "stored": int(seen[2]), "cpu_s": spent,
                            "start_cpu_s": start, "log_bytes": size,
                        }  # fmt: skip
                        file.write(json.dumps(row) + "\n")
    rows = [json.loads(line) for line in asked.output.read_text().splitlines()]
    lines = [
        "| capture | packets stored | encoding | CPU time per packet | bytes per packet on disk |",
        "|---|---:|---|---:|---:|",
    ]
    for capture in dict.fromkeys(row["capture"] for row in rows):
        for way in WAYS:
            mine = [row for row in rows if (row["capture"], row["way"]) == (capture, way)]
            spent = statistics.median(
                (row["cpu_s"] - row["start_cpu_s"]) / row["stored"] * 1e9 for row in mine
            )
            size = mine[0]["log_bytes"] / mine[0]["stored"]
            cells = [capture, f"{mine[0]['stored']:,}", way, f"{spent:.0f} ns", f"{size:.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join(lines) + "\n"
    heading = "# CPU time of a stored packet by encoding\n\nMedians of rounds taken in turns.\n\n"
    asked.output.with_name("table.md").write_text(heading + table)
    print(table, end="")


if __name__ == "__main__":
    main()
