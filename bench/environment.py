"""Where a run took place, and whether the programs agreed on the answer."""

import csv
import io
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from jobs import WIRELENS, YARDSTICKS, Input


def first_line(*command: str) -> str:
    """The first line that a program prints, or why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "not installed"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"


def package_version(package: str) -> str:
    """Of a program that does not tell its own in a line."""
    return first_line("dpkg-query", "--show", "--showformat", "${Version}", package)


def cpu_info(key: str) -> str:
    """A line of /proc/cpuinfo, of the first processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown"
    found = re.search(rf"^{key}\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else "unknown"


def cpu_slug() -> str:
    """`amd-epyc-2-cores`: names the kind of machine, and no machine."""
    model = re.sub(r"\(r\)|\(tm\)|@.*|\bcpu\b|\bprocessor\b", " ", cpu_info("model name").lower())
    words = re.findall(r"[a-z0-9]+", model)
    return "-".join([*words[:4], str(len(os.sched_getaffinity(0))), "cores"])


def python_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def commit() -> str:
    """What was measured; marked where the working tree differs from it."""
    head = first_line("git", "rev-parse", "--short=12", "HEAD")
    status = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{head} with changes" if status.stdout.strip() else head


def huge_pages() -> str:
    try:
        return Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text().strip()
    except OSError:
        return "unknown"


def facts(inputs: list[Input], rounds: int) -> dict[str, object]:
    """What a reader must know to judge the numbers, taken before the first run."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_info("model name"),
        "cpu_family_model": f"{cpu_info('cpu family')}/{cpu_info('model')}",
        "cpu_cache": cpu_info("cache size"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release().split("-")[0],
        "huge_pages": huge_pages(),
        "load_before": os.getloadavg(),
        "rounds": rounds,
        "versions": {
            "rustc": first_line("rustc", "--version"),
            "g++": first_line("g++", "--version"),
            "tcpdump": first_line("tcpdump", "--version"),
            "tshark": first_line("tshark", "--version"),
            "softflowd": package_version("softflowd"),
            "nfdump": package_version("nfdump"),
            "argus": package_version("argus-server"),
            "python": sys.version.split()[0],
            **{name: python_version(name) for name in ("duckdb", "polars", "numpy", "nfstream")},
        },
        "inputs": {
            source.name: {"packets": source.packets, "ipv4_records": source.records}
            for source in inputs
        },
    }


def wirelens_answer(path: str) -> dict[str, int]:
    command = [WIRELENS, "top", "-q", "-r", path, "-n", "0", "--no-decap", "--format", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    return {
        "sources": len(rows),
        "packets": sum(int(row["packets"]) for row in rows),
        "bytes": sum(int(row["bytes"]) for row in rows),
    }


def tuned_answer(path: str) -> dict[str, int] | None:
    if not (YARDSTICKS / "tuned").exists():
        return None
    command = [str(YARDSTICKS / "tuned"), path, "1", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"srcs (\d+) ippkts (\d+) bytes (\d+)", done.stdout)
    if found is None:
        return None
    return dict(zip(("sources", "packets", "bytes"), map(int, found.groups()), strict=True))


def answers(inputs: list[Input]) -> list[dict[str, object]]:
    """What Wirelens and the tuned loop counted. On made traffic they must be
    equal; among real packets the loop counts some whose headers are malformed
    or behind PPPoE and MPLS otherwise."""
    return [
        {
            "input": source.name,
            "wirelens": wirelens_answer(source.file("headers.pcap")),
            "tuned loop": tuned_answer(source.file("headers.pcap")),
        }
        for source in inputs
    ]
