"""Where and when a run took place."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Protocol


class InputCapture(Protocol):
    """A capture that a run reads."""

    @property
    def name(self) -> str: ...

    @property
    def packets(self) -> int: ...

    @property
    def records(self) -> int: ...


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


def facts(inputs: Sequence[InputCapture], rounds: int) -> dict[str, object]:
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
