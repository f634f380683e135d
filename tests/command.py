"""Runs `wirelens` for the tests, within the bounds that every input has to respect."""

import csv
import io
import os
import subprocess
import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
# Another build may be tried, such as WIRELENS=../other/target/release/wirelens.
PROGRAM = Path(os.environ.get("WIRELENS", ROOT / "target/release/wirelens"))
DEMO = ROOT / "testdata/demo.pcapng"
# Captures that may not be passed on are kept beside the repository; see CONTRIBUTING.md.
WIDE_DATA = ROOT.parent / "shared/data"

KEYS = ("source", "destination", "pair", "protocol", "port", "flow")

# No capture in any folder needs a tenth of either.
MEMORY_MAX_BYTES = 2 << 30
TIME_MAX_S = 20

ENVIRONMENT = os.environ | {"LC_ALL": "C", "TZ": "UTC", "NO_COLOR": "1"}


@dataclass(frozen=True)
class Ran:
    """What a run said and how it ended."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def rows(self) -> list[dict[str, str]]:
        """The rows of CSV on standard output."""
        return list(csv.DictReader(io.StringIO(self.stdout.decode())))


def wirelens(
    *arguments: str | os.PathLike[str],
    stdin: Path | bytes | None = None,
    cwd: Path | None = None,
    time_max_s: float = TIME_MAX_S,
) -> Ran:
    """One run, bounded in memory and time; a path as `stdin` is opened, bytes go through a pipe."""
    command = ["prlimit", f"--as={MEMORY_MAX_BYTES}", PROGRAM, *arguments]
    options = {"capture_output": True, "timeout": time_max_s, "env": ENVIRONMENT, "cwd": cwd}
    if isinstance(stdin, Path):
        with stdin.open("rb") as file:
            done = subprocess.run(command, stdin=file, check=False, **options)
    elif stdin is not None:
        done = subprocess.run(command, input=stdin, check=False, **options)
    else:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False, **options)
    return Ran(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def disorder(ran: Ran) -> str | None:
    """What is wrong with a run on any input whatever; nothing if it ended as it should."""
    if ran.status not in (0, 1, 3):
        return f"exit status {ran.status}: {ran.stderr[-300:]}"
    if "panicked" in ran.stderr or "RUST_BACKTRACE" in ran.stderr:
        return f"panic: {ran.stderr[-300:]}"
    if ran.status and "wirelens: " not in ran.stderr:
        return f"exit status {ran.status} and no word about it"
    if ran.status == 1 and ran.stdout:
        return f"an error, and yet data: {ran.stdout[:100]!r}"
    if any(ord(c) < 32 and c != "\n" for c in ran.stderr):
        return f"control characters in messages: {ran.stderr[:300]!r}"
    return None


def captures(folder: str) -> list[Path]:
    """The captures in a folder of the wide data, by its manifest; skips where there is none."""
    manifest = WIDE_DATA / folder / "MANIFEST.tsv"
    if not manifest.exists():
        pytest.skip(f"no captures at {WIDE_DATA}; see CONTRIBUTING.md")
    lines = manifest.read_text().splitlines()[1:]
    return sorted(manifest.parent / line.split("\t")[0] for line in lines)


PART_OF_ALL = 8


def part_of(
    paths: Iterable[Path], *, always: Container[str] = (), of: int = PART_OF_ALL
) -> list[Path]:
    """Every eighth of many captures, or another part, by the checksum of its name, and those that
    `always` names; all of them with WIDE=all, as before a release. Each takes several programs half
    a second."""
    paths = list(paths)
    if os.environ.get("WIDE") == "all":
        return paths
    return [
        path for path in paths
        if zlib.crc32(short(path).encode()) % of == 0 or short(path) in always
    ]  # fmt: skip


def in_parallel(work: Callable[[Path], T], paths: Iterable[Path]) -> Iterator[tuple[Path, T]]:
    """Work on every path, as many at a time as there are processors."""
    paths = list(paths)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from zip(paths, pool.map(work, paths), strict=True)


def short(path: Path) -> str:
    """A path as a list of exceptions names it."""
    return str(path.relative_to(WIDE_DATA)) if path.is_relative_to(WIDE_DATA) else path.name
