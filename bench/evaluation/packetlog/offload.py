"""What the packet log marks of benign nginx and iperf3 traffic, with offloads on and off.

    sudo .venv/bin/python bench/evaluation/packetlog/offload.py OUT.jsonl [WIRELENS]
    .venv/bin/python bench/evaluation/packetlog/offload.py OUT.jsonl       prints the table of OUT

Two network namespaces of its own and a link between them: curl fetches files of 1 KB to 5 MB from
nginx, iperf3 sends each way and by UDP, half a minute in all. `wirelens packetlog record` listens
at the server with the model that ships. Rows: offloads, class of packet, packets as the kernel
handed them over, marked, and packets on the wire that these stand for. Root; ethtool, nginx,
iperf3, curl, tshark.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SERVER = "10.77.0.2"
SIZES = {"1k": 1_000, "20k": 20_000, "200k": 200_000, "5m": 5_000_000}
OFFLOADS = ("tso", "gso", "gro")
FULL_LEN = 1_514
NGINX = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{ access_log off; sendfile on; server {{ listen {address}:8080; root {folder}; }} }}
"""


def run(*command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, check=check, capture_output=True, text=True, timeout=120)


@contextlib.contextmanager
def network(has_offloads: bool) -> Iterator[tuple[str, str]]:
    """Two namespaces and a link between them; both are gone at the end, with what runs there."""
    names = f"wlo{os.getpid()}a", f"wlo{os.getpid()}b"
    state = "on" if has_offloads else "off"
    try:
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "wlo0", "netns", names[0], "type", "veth", "peer", "name", "wlo1",
            "netns", names[1])  # fmt: skip
        for at, name in enumerate(names):
            inside = ("ip", "netns", "exec", name)
            run(*inside, "ip", "link", "set", "lo", "up")
            run(*inside, "ip", "address", "add", f"10.77.0.{at + 1}/24", "dev", f"wlo{at}")
            words = [word for offload in OFFLOADS for word in (offload, state)]
            run(*inside, "ethtool", "-K", f"wlo{at}", *words)
            run(*inside, "ip", "link", "set", f"wlo{at}", "up")
        yield names
    finally:
        for name in names:
            for process in run("ip", "netns", "pids", name, check=False).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            run("ip", "netns", "delete", name, check=False)


def serve(folder: Path, namespace: str) -> list[subprocess.Popen[bytes]]:
    for name, size in SIZES.items():
        (folder / name).write_bytes(os.urandom(size))
    folder.chmod(0o755)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, address=SERVER))
    inside = ["ip", "netns", "exec", namespace]
    commands = (["nginx", "-c", str(folder / "nginx.conf")], ["iperf3", "-s"])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return [subprocess.Popen([*inside, *command], **quiet) for command in commands]


def visit(namespace: str, visits: int, transfer_s: int) -> None:
    """The traffic: the same files in the same order each time."""
    inside = ("ip", "netns", "exec", namespace)
    rng = random.Random(1)
    for _ in range(visits):
        name = rng.choices(list(SIZES), (4, 4, 2, 1))[0]
        run(
            *inside, "curl", "--silent", "--fail", "-o", "/dev/null", f"http://{SERVER}:8080/{name}"
        )
        time.sleep(rng.uniform(0.02, 0.2))
    for more in (["-b", "200M"], ["-b", "200M", "-R"], ["-u", "-b", "20M"]):
        run(*inside, "iperf3", "-c", SERVER, "-t", str(transfer_s), *more)


def class_of(length: int, payload: int, flags: int) -> str:
    if length > FULL_LEN:
        return "merged"
    if flags & 7:
        return "SYN, FIN, RST"
    if payload == 0 and flags:
        return "acknowledgement"
    return "full" if length > 1_400 else "other data"


def counted(wirelens: Path, log: Path, folder: Path) -> dict[str, dict[str, int]]:
    """Of each class of packet how many there are, and how many are marked."""
    found: dict[str, dict[str, int]] = {}
    for is_marked, name in ((False, "benign"), (True, "anomalous")):
        out = folder / f"{name}.pcapng"
        run(wirelens, "packetlog", "query", "--log", log, "--class", name, "-w", out)
        fields = ["-e", "frame.len", "-e", "tcp.len", "-e", "tcp.flags"]
        shown = run("tshark", "-r", out, "-o", "tcp.desegment_tcp_streams:FALSE", "-T", "fields",
                    *fields).stdout  # fmt: skip
        for line in shown.splitlines():
            length, payload, flags = line.split("\t")
            of = class_of(int(length), int(payload or 1), int(flags or "0", 16))
            row = found.setdefault(of, {"packets": 0, "marked": 0, "wire": 0, "wire_marked": 0})
            # 1,448 bytes with the timestamps that Linux has.
            wire = -(-int(payload) // 1_448) if of == "merged" and payload else 1
            row["packets"] += 1
            row["marked"] += is_marked
            row["wire"] += wire
            row["wire_marked"] += wire * is_marked
    return found


def measure(
    wirelens: Path, has_offloads: bool, visits: int = 120, transfer_s: int = 4
) -> tuple[dict[str, dict[str, int]], str]:
    """Counts by class of packet, and what the recorder said."""
    folder = Path(tempfile.mkdtemp(prefix="wlo"))
    try:
        with network(has_offloads) as (client, server):
            programs = serve(folder, server)
            time.sleep(1)
            command = ["ip", "netns", "exec", server, wirelens, "packetlog", "record", "-i", "wlo1",
                       "-o", folder / "log", "--mode", "log-all", "-s", "160", "--fixed-mode",
                       "--model", ROOT / "models/packetlog"]  # fmt: skip
            errors = folder / "recorder.txt"
            with errors.open("w") as said:
                recorder = subprocess.Popen([str(word) for word in command], stderr=said)
            time.sleep(1)
            visit(client, visits, transfer_s)
            time.sleep(0.5)
            recorder.send_signal(signal.SIGINT)
            recorder.wait(30)
            for program in programs:
                program.terminate()
        return counted(wirelens, folder / "log", folder), errors.read_text()
    finally:
        shutil.rmtree(folder)


def rates(counts: dict[str, dict[str, int]]) -> tuple[float, float]:
    """Of all packets the part that is marked: as handed over, and as they were on the wire."""
    total = {key: sum(row[key] for row in counts.values())
             for key in ("packets", "marked", "wire", "wire_marked")}  # fmt: skip
    return total["marked"] / total["packets"], total["wire_marked"] / total["wire"]


def main() -> None:
    output = Path(sys.argv[1])
    if not output.exists():
        wirelens = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "target/release/wirelens")
        rows = []
        for has_offloads in (True, False):
            counts, said = measure(wirelens.resolve(), has_offloads)
            print(said, file=sys.stderr)
            rows += [{"offloads": has_offloads, "class": of, **row} for of, row in counts.items()]
        output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    print("| offloads | class of packet | packets | marked | on the wire | of these marked |")
    print("|---|---|---:|---:|---:|---:|")
    for has_offloads in (True, False):
        mine = {row["class"]: row for row in rows if row["offloads"] == has_offloads}
        total = {key: sum(row[key] for row in mine.values())
                 for key in ("packets", "marked", "wire", "wire_marked")}  # fmt: skip
        for of, row in [*sorted(mine.items()), ("all", total)]:
            cells = ["on" if has_offloads else "off", of, f"{row['packets']:,}",
                     f"{row['marked'] / row['packets']:.1%}", f"{row['wire']:,}",
                     f"{row['wire_marked'] / row['wire']:.1%}"]  # fmt: skip
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
