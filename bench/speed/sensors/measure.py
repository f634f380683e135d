"""How fast a view of `[sensors]` reads what is published: `measure.py [-o OUTPUT] [--rounds 3]`.

    bash tools/setup.sh nats
    .venv/bin/python bench/speed/sensors/measure.py

Two sensors publish the flows of one capture of bench/speed/workers/traffic.py, the second under
another name, to a broker with JetStream on loopback. Then a view begins, which reads all of their
rows from the stream: into memory alone (`memory`), and into a file of Parquet as well (`file`).
Each flow is joined with that of the other sensor. A row has the seconds from the view's start until
the last row was read, and the processor time of the view, user and system. Written are rows.jsonl,
summary.jsonl and environment.json.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workers"))
import traffic
from environment import cpu_slug, facts, first_line

WIRELENS = Path("target/release/wirelens")
BROKER = Path("target/tools/nats-server")
SCRATCH = Path("bench/data/sensors")
FLOWS_PER_S, SECONDS = 5_000, 40.0
SENSORS = ("a", "b")
WAIT_MAX_S = 120.0


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def settings(name: str, text: str) -> Path:
    path = SCRATCH / f"{name}.toml"
    path.write_text(text)
    return path


def publish(capture: Path, address: str, sensor: str) -> None:
    text = (
        f'[input]\nread = "{capture}"\n[flows]\n[nats]\nservers = ["{address}"]\n'
        f'sensor = "{sensor}"\n'
    )
    subprocess.run([WIRELENS, "run", "-q", "-c", settings(sensor, text)], check=True)


def rows_read(address: str) -> int:
    with urllib.request.urlopen(f"{address}metrics", timeout=10) as answer:
        found = re.search(r"^wirelens_sensors_rows_read_total (\d+)", answer.read().decode(), re.M)
    return int(found[1]) if found else 0


def view(address: str, output: str, row_count: int) -> dict[str, float]:
    """From the start of a view until it has all rows."""
    text = (
        f'[sensors]\nsince = "1d"\n[flows]\n{output}[nats]\nservers = ["{address}"]\n'
        '[page]\nlisten = "127.0.0.1:0"\n'
    )
    words = SCRATCH / "view.txt"
    began = time.monotonic()
    with words.open("wb") as out:
        process = subprocess.Popen([WIRELENS, "run", "-c", settings("view", text)], stderr=out)
    page = None
    while page is None:
        page = re.search(r"page: (\S+)", words.read_text())
        time.sleep(0.01)
    while (count := rows_read(page[1])) < row_count:
        if time.monotonic() - began > WAIT_MAX_S or process.poll() is not None:
            process.kill()
            raise SystemExit(f"{count} of {row_count} rows: {words.read_text()}")
        time.sleep(0.05)
    read_s = time.monotonic() - began
    process.send_signal(signal.SIGINT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or "0 missing; 0 messages refused" not in words.read_text():
        raise SystemExit(words.read_text())
    cpu_s = usage.ru_utime + usage.ru_stime
    return {
        "read_s": round(read_s, 3),
        "cpu_s": round(cpu_s, 3),
        "rows_per_s": round(row_count / read_s),
        "cpu_us_per_row": round(cpu_s / row_count * 1e6, 3),
        "peak_mib": round(usage.ru_maxrss / 1024, 1),
    }


def summary(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    found = []
    for case in dict.fromkeys(row["case"] for row in rows):
        for name in ("read_s", "cpu_s", "rows_per_s", "cpu_us_per_row", "peak_mib"):
            values = [float(str(row[name])) for row in rows if row["case"] == case]
            spread = {"lowest": min(values), "highest": max(values)}
            found.append(
                {"case": case, "measure": name, "value": statistics.median(values), **spread}
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    today = datetime.now(UTC).date()
    output = arguments.output or Path(f"bench/results/{today}-{cpu_slug()}-sensors")
    output.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    environment = facts([], arguments.rounds) | {"nats_server": first_line(str(BROKER), "-v")}
    (output / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")
    capture = SCRATCH / "flows.pcap"
    flow_count = traffic.make(capture, FLOWS_PER_S, SECONDS)
    port, rows = free_port(), []
    command = [BROKER, "-js", "-sd", SCRATCH / "stream", "-a", "127.0.0.1", "-p", str(port)]
    with (SCRATCH / "broker.log").open("wb") as log:
        broker = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        time.sleep(1)
        address = f"nats://127.0.0.1:{port}"
        for sensor in SENSORS:
            publish(capture, address, sensor)
        row_count = flow_count * len(SENSORS)
        with (output / "rows.jsonl").open("w") as file:
            for round_ in range(arguments.rounds):
                for case in ("memory", "file"):
                    written = f'output = "{SCRATCH}/all.parquet"\nforce = true\n'
                    found = view(address, written if case == "file" else "", row_count)
                    row = {"round": round_, "case": case, "rows": row_count, **found}
                    rows.append(row)
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                    print(json.dumps(row), flush=True)
    finally:
        broker.terminate()
        broker.wait()
    lines = [json.dumps(row) + "\n" for row in summary(rows)]
    (output / "summary.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    main()
