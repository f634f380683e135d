"""What hindsight costs: `hindsight.py OUT.jsonl CAPTURE... [--rounds N]`.

Each capture is recorded in the mode `default` with the shipped model, without hindsight and with
1, 2 and 5 s of it, in turns: CPU time, memory, packets stored at greater length, bytes of log.
Prints a table of medians. `environment.json` is written next to OUT.jsonl, the log to OUT.log,
which is removed.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import environment  # noqa: E402

WIRELENS = "target/release/wirelens"
SECONDS = (0, 1, 2, 5)
# So that memory is what the time takes.
HINDSIGHT_BYTES = "4G"


def anonymous_kb(process: int) -> int:
    """Memory of a process but for the capture, which is mapped."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) if found else 0


def record(capture: Path, seconds: int, folder: Path) -> dict[str, object]:
    shutil.rmtree(folder, ignore_errors=True)
    command = [WIRELENS, "packetlog", "record", "-r", str(capture), "-o", str(folder)]
    command += ["--model", "packetlog", "--seed", "1"]
    if seconds:
        command += ["--hindsight", f"{seconds}s", "--hindsight-bytes", HINDSIGHT_BYTES]
    said = folder.with_suffix(".txt")
    memory_kb = 0
    with said.open("w") as file, subprocess.Popen(command, stderr=file) as process:
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            memory_kb = max(memory_kb, anonymous_kb(process.pid))
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = said.read_text()
    said.unlink()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {text}")
    size = sum(path.stat().st_size for path in folder.glob("p*"))
    shutil.rmtree(folder)

    def number(pattern: str) -> int:
        found = re.search(pattern, text)
        return int(found[1]) if found else 0

    return {
        "capture": capture.name,
        "seconds": seconds,
        "packets": number(r"packetlog: (\d+) seen"),
        "wire_bytes": number(r"% of (\d+) on the wire"),
        "anomalous": number(r"packetlog: anomalous: \d+ packets of (\d+) stored"),
        "raised": number(r"packetlog: (\d+) packets stored at greater length"),
        "early": number(r"packetlog: (\d+) packets waited less"),
        "log_bytes": size,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "memory_bytes": memory_kb * 1024,
    }


def table(rows: list[dict[str, object]]) -> str:
    lines = [
        "| capture | packets | marked | hindsight | CPU ns per packet | memory, MB | stored at "
        "greater length | bytes of log |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for capture in dict.fromkeys(row["capture"] for row in rows):
        for seconds in SECONDS:
            same = [row for row in rows if (row["capture"], row["seconds"]) == (capture, seconds)]
            if not same:
                continue

            def median(name: str, same: list[dict[str, object]] = same) -> float:
                return statistics.median(float(str(row[name])) for row in same)

            packets = median("packets")
            cells = [
                str(capture),
                f"{packets:,.0f}",
                f"{median('anomalous') / packets:.1%}",
                f"{seconds} s" if seconds else "none",
                f"{median('cpu_s') / packets * 1e9:.0f}",
                f"{median('memory_bytes') / 1e6:.0f}",
                f"{median('raised') / packets:.1%}",
                f"{median('log_bytes') / median('wire_bytes'):.1%}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="rows, as JSON lines")
    parser.add_argument("captures", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    output: Path = arguments.output
    facts = environment.facts([], arguments.rounds)
    rows = []
    for capture in arguments.captures:
        capture.read_bytes()  # so that each round finds it in the page cache
        for _ in range(arguments.rounds):
            rows += [record(capture, seconds, output.with_suffix(".log")) for seconds in SECONDS]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.with_name("environment.json").write_text(json.dumps(facts, indent=2) + "\n")
    output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = table(rows)
    output.with_name("table.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
