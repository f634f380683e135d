"""Wheels that were built before, and whether their sources are those that lie here.

`python3 tools/prebuilt.py` prints the sum of the sources, which `make wheel` writes beside the
wheel that it builds. `pip install .` then takes the wheel instead of compiling, where sum, Python
and machine fit.
"""

import hashlib
import os
import platform
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Of a release, and of `make wheel`.
FOLDERS = ("dist", f"target/portable/{platform.machine()}")
# What a wheel is made of. The page is named by its sources: a clone does not have it built.
SOURCES = (
    "Cargo.toml", "Cargo.lock", "pyproject.toml", ".cargo/config.toml", "crates", "models",
    "python/wirelens", "page/src", "page/package-lock.json", "page/build.mjs", "page/tsconfig.json",
    "testbed/data",
)  # fmt: skip
# Built, of tests, or of no effect on a program.
NOT_SOURCES = {"__pycache__", "tests", "bin", "dist"}
# A wheel's name from its Python on: the oldest minor version, the oldest glibc, the machine. A tag
# of the year, such as manylinux2014, stands before or behind that of the glibc.
TAGS = re.compile(
    r"-cp3(\d+)-abi3-(?:manylinux\d+_\w+?\.)*manylinux_2_(\d+)_(\w+?)(?:\.manylinux\w+)*\.whl"
)


def files(place: Path) -> Iterator[Path]:
    """The files of a source, in one order on every machine."""
    if place.is_file():
        yield place
        return
    # A link to a folder is a source under its own name.
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and not entry.is_symlink() and entry.name not in NOT_SOURCES:
            yield from files(entry)
        elif entry.is_file() and entry.suffix not in (".md", ".pyc"):
            yield entry


def sum_of_sources(root: Path = ROOT) -> str:
    """SHA-256 of names and contents of everything that a wheel is made of, in hexadecimal."""
    whole = hashlib.sha256()
    for source in SOURCES:
        for file in files(root / source):
            name = os.fsencode(file.relative_to(root))
            whole.update(name + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def stamp_of(wheel: Path) -> Path:
    """The file that has the sum of a wheel's sources."""
    return wheel.with_name(f"{wheel.name}.sources")


def fits_here(wheel: Path) -> bool:
    """Whether a wheel is for this Python, glibc and machine."""
    tags = TAGS.search(wheel.name)
    libc = re.fullmatch(r"glibc 2\.(\d+).*", os.confstr("CS_GNU_LIBC_VERSION") or "")
    return (
        tags is not None
        and libc is not None
        and sys.implementation.name == "cpython"
        and sys.version_info >= (3, int(tags[1]))
        and int(libc[1]) >= int(tags[2])
        and platform.machine() == tags[3]
    )


def find(root: Path = ROOT) -> Path | None:
    """A wheel that was built of the sources that lie here and runs here."""
    candidates = [
        wheel
        for folder in FOLDERS
        for wheel in sorted((root / folder).glob("wirelens-*.whl"))
        if stamp_of(wheel).is_file() and fits_here(wheel)
    ]
    if not candidates:
        return None
    here = sum_of_sources(root)
    return next((one for one in candidates if stamp_of(one).read_text().strip() == here), None)


def metadata(wheel: Path, folder: Path) -> str:
    """Writes a wheel's description into a folder; the name of its own folder there."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" in name]
        archive.extractall(folder, [name for name in names if not name.endswith("/RECORD")])
    return names[0].partition("/")[0]


if __name__ == "__main__":
    print(sum_of_sources())
