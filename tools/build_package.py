"""Builds the Python package: the command for its console script, then the rest by maturin.

`pip install .` calls the functions below by their names (PEP 517 and 660); maturin has all of them,
and takes the program from the package's folder, where each build of a wheel puts it first. As a
script this puts it there and does nothing else, for `make python`. A wheel that was built of the
same sources before, by `make wheel`, is taken as it is, which takes no Rust.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import maturin
import prebuilt

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "python/wirelens/bin/wirelens"
# With the features that both need, what they share compiles once; of the extension nothing else is
# built here.
CARGO = [
    "cargo", "build", "--release", "--locked", "--package", "wirelens", "--package",
    "wirelens-python", "--bin", "wirelens", "--message-format", "json-render-diagnostics",
]  # fmt: skip

Settings = Mapping[str, Any] | None

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
build_sdist = maturin.build_sdist


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """The package's description; pip asks for it first, so missing sources are reported here."""
    if wheel := prebuilt.find():
        return prebuilt.metadata(wheel, Path(metadata_directory))
    check_sources()
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """The same, for a wheel that leads to this folder."""
    check_sources()
    return maturin.prepare_metadata_for_build_editable(metadata_directory, config_settings)


def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """A wheel in the folder; its file's name."""
    if wheel := prebuilt.find():
        print(f"build_package: {wheel.relative_to(ROOT)}: of the same sources, so not built again")
        shutil.copy(wheel, wheel_directory)
        return wheel.name
    place_program()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """A wheel that leads to this folder; its file's name."""
    place_program()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def check_sources() -> None:
    """Ends the build where sources are missing."""
    if not (ROOT / "crates/cli/Cargo.toml").is_file():
        fail(
            f"{ROOT}: no crates/cli in it, the source of the command `wirelens`; wanted a clone of "
            "Wirelens, as a source distribution has only the extension's sources; try "
            "`pip install .` in a clone"
        )


def place_program() -> None:
    """Builds the command and puts it into the package, without symbols."""
    check_sources()
    built = run(CARGO, "install Rust as CONTRIBUTING.md says")
    artifacts = [json.loads(line) for line in built.splitlines() if line.startswith("{")]
    (program,) = [one["executable"] for one in artifacts if one.get("executable")]
    PLACE.parent.mkdir(exist_ok=True)
    # Renamed when it is whole: somebody may be running the one before it.
    fresh = PLACE.with_name("wirelens.partial")
    shutil.copy(program, fresh)
    run(["strip", "--strip-all", os.fspath(fresh)], "install binutils")
    fresh.replace(PLACE)


def run(command: list[str], advice: str) -> str:
    """What a program prints; the end where it is missing or fails, which it explains itself."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError:
        fail(f"{command[0]}: not found in PATH; the command `wirelens` is built with it; {advice}")
    if done.returncode != 0:
        fail(f"{command[0]}: exit status {done.returncode}; its messages are above")
    return done.stdout


def fail(message: str) -> NoReturn:
    """Ends the build."""
    sys.exit(f"build_package: {message}")


if __name__ == "__main__":
    place_program()
