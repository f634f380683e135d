"""A search by the page's API in a packet log of 10 GB: `large_log.py SCRATCH [-o OUTPUT]` (root).

SCRATCH is a folder on a disk with 12 GB free; what is made there is deleted again. The log has the
shipped capture again and again with other addresses; a run that goes on with that log is asked for
the packets of one host, with an empty page cache and a full one. Written are large_log.jsonl and
large_log.md.

    cargo build --release --package wirelens-bench
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from environment import cpu_slug, facts
from served import served

BENCH = Path("target/release/wirelens-bench")
CAPTURE = Path("testdata/demo.pcapng")
LOG_BYTES = 10_000_000_000
# 10.20.0.12 in a round whose addresses are shifted by 7.
HOST = "10.19.0.12"


def log_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.pcapng"))


def record(folder: Path, rounds: int) -> int:
    """The bytes of a log of so many rounds of the capture."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [BENCH, "packetlog", "record", "--capture", CAPTURE, "--folder", folder]
    command += ["--keep", "full", "--way", "direct", "--rounds", str(rounds), "--shift"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return log_bytes(folder)


def asked(address: str, limit: int, cache: str) -> dict[str, object]:
    if cache == "cold":
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    path = f"{address}api/v1/packetlog/search?host={HOST}&limit={limit}"
    start = time.monotonic()
    with urllib.request.urlopen(path, timeout=120) as answer:
        found = json.loads(answer.read())
    took = time.monotonic() - start
    return {
        "cache": cache, "limit": limit, "ms": round(took * 1e3, 1),
        "rows": len(found["rows"]), "is_cut": found["is_cut"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    today = datetime.now(UTC).date()
    output = arguments.output or Path(f"bench/results/{today}-{cpu_slug()}-page")
    output.mkdir(parents=True, exist_ok=True)
    environment, folder = facts([], arguments.rounds), arguments.scratch / "large-log"
    rows = []
    try:
        of_one = record(folder, 20) / 20
        size = record(folder, round(LOG_BYTES / of_one))
        settings = arguments.scratch / "large-log.toml"
        settings.write_text(
            f'[packetlog]\noutput = "{folder}"\nmode = "log-all"\n[page]\nlisten = "127.0.0.1:0"\n'
        )
        process, address = served("-c", settings, "-r", CAPTURE)
        try:
            for _ in range(arguments.rounds):
                for cache in ("cold", "warm"):
                    for limit in (100, 10_000):
                        rows.append(asked(address, limit, cache) | {"log_bytes": size})
                        print(rows[-1], flush=True)
            process.send_signal(signal.SIGINT)
            process.wait(30)
        finally:
            process.kill()
            process.wait()
            settings.unlink()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = [
        "# A search by the page's API in a large packet log", "",
        f"A host in {rows[0]['log_bytes']:,} bytes of packets, medians of {arguments.rounds}; load"
        f" {environment['load_before'][0]:.1f} before.", "",
        "| page cache | packets asked for | packets found | ms |", "|---|---:|---:|---:|",
    ]  # fmt: skip
    for cache in ("cold", "warm"):
        for limit in (100, 10_000):
            of = [row for row in rows if (row["cache"], row["limit"]) == (cache, limit)]
            ms = statistics.median(float(str(row["ms"])) for row in of)
            lines.append(f"| {cache} | {limit:,} | {of[0]['rows']:,} | {ms:,.0f} |")
    (output / "large_log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (output / "large_log.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
