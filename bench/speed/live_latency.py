"""How long after the kernel's stamp is a verdict there, on an interface?

    .venv/bin/python bench/speed/live_latency.py OUTPUT    as root, after run.sh --only own

Flows of the sample of services, 500 new ones a second, go over a pair of interfaces in a network
of their own to `wirelens classify -i`, in either mode of the ring. One line of JSON a run goes to
OUTPUT/live-latency.jsonl.
"""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from jobs import BENCH, SCRATCH, WIRELENS
from live import make_link, wait_until
from paced import LATENCY

LOAD = "testdata/testbed/services"
FLOWS_PER_S = 500
SECONDS = 8
ROUNDS = 3
# Offloads were on where some of the flows were captured: their frames are longer than a wire's.
MTU = 65_535
DROPPED = re.compile(r"(\d+) packets dropped")


def frames(capture: Path) -> Iterator[tuple[float, bytes]]:
    """Seconds and bytes of a classic pcap in nanoseconds, as `wirelens-bench load` writes it."""
    content = capture.read_bytes()
    at = 24
    while at < len(content):
        seconds, nanoseconds, captured_len, _ = struct.unpack_from("<IIII", content, at)
        yield seconds + nanoseconds / 1e9, content[at + 16 : at + 16 + captured_len]
        at += 16 + captured_len


def send(capture: Path) -> int:
    """Sends frames at their times; how many."""
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind(("wl1", 0))
    planned = list(frames(capture))
    begin, first = time.monotonic(), planned[0][0]
    for stamp, frame in planned:
        left = begin + stamp - first - time.monotonic()
        if left > 0:
            time.sleep(left)
        sender.send(frame)
    return len(planned)


def measure(capture: Path, mode: str) -> dict[str, object]:
    told = SCRATCH / "live-latency.err"
    command = [str(WIRELENS), "classify", "-i", "wl0", "--model", "models/services"]
    command += ["--latency", mode, "-o", str(SCRATCH / "live-latency.csv"), "--force"]
    with told.open("wb") as err:
        classify = subprocess.Popen(command, stderr=err)
        wait_until(lambda: b"listening on" in told.read_bytes(), "wirelens listens")
        sent = send(capture)
        time.sleep(1)
        classify.send_signal(signal.SIGINT)
        status = classify.wait(timeout=30)
    text = told.read_text()
    found, dropped = LATENCY.search(text), DROPPED.search(text)
    if status != 0 or not found or not dropped:
        raise SystemExit(f"classify -i: exit status {status}:\n{text}")
    row: dict[str, object] = {"mode": mode, "flows_per_s": FLOWS_PER_S, "sent": sent}
    row |= {"dropped": int(dropped[1]), "load": os.getloadavg()[0]}
    return row | {key: float(value) for key, value in found.groupdict().items()}


def main() -> None:
    if sys.argv[-1] != "--inside":
        again = ["unshare", "--net", sys.executable, *sys.argv, "--inside"]
        os.execvp("unshare", again)
    output = Path(sys.argv[1])
    SCRATCH.mkdir(parents=True, exist_ok=True)
    capture = SCRATCH / "live-latency.pcap"
    make = [str(BENCH), "load", "--read", LOAD, "--flows-per-s", str(FLOWS_PER_S)]
    make += ["--duration-s", str(SECONDS), "--flow-packets-max", "10", "--resolution", "ns"]
    make += ["--flow-duration-s-max", "4", "--output", str(capture)]
    subprocess.run(make, check=True)
    make_link()
    for name in ("wl0", "wl1"):
        subprocess.run(["ip", "link", "set", name, "mtu", str(MTU)], check=True)
    rows = [measure(capture, mode) for _ in range(ROUNDS) for mode in ("low", "throughput")]
    lines = [json.dumps(row) for row in rows]
    (output / "live-latency.jsonl").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
