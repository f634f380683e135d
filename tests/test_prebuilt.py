"""Wheels that were built before: `pip install .` takes one of the same sources that fits, no other."""

import importlib.util
import os
import platform
import zipfile
from pathlib import Path

import pytest
from command import ROOT

SPEC = importlib.util.spec_from_file_location("prebuilt", ROOT / "tools/prebuilt.py")
assert SPEC and SPEC.loader
prebuilt = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(prebuilt)

MACHINE = platform.machine()
FITS = f"wirelens-0.1.0-cp311-abi3-manylinux2014_{MACHINE}.manylinux_2_17_{MACHINE}.whl"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone that has one file for each source, and a wheel of them."""
    for source in prebuilt.SOURCES:
        place = tmp_path / source
        if (ROOT / source).is_dir():
            place = place / "inner/file.rs"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("one")
    wheel = tmp_path / "dist" / FITS
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("METADATA", "WHEEL", "RECORD"):
            archive.writestr(f"wirelens-0.1.0.dist-info/{name}", name)
        archive.writestr("wirelens/__init__.py", "")
    prebuilt.stamp_of(wheel).write_text(prebuilt.sum_of_sources(tmp_path) + "\n")
    return tmp_path


def test_a_wheel_of_these_sources_is_found(clone: Path, tmp_path: Path) -> None:
    wheel = prebuilt.find(clone)
    assert wheel == clone / "dist" / FITS
    folder = tmp_path / "metadata"
    folder.mkdir()
    assert prebuilt.metadata(wheel, folder) == "wirelens-0.1.0.dist-info"
    assert {path.name for path in folder.rglob("*.*/*")} == {"METADATA", "WHEEL"}


@pytest.mark.parametrize("source", prebuilt.SOURCES)
def test_one_of_other_sources_is_not(clone: Path, source: str) -> None:
    place = clone / source
    changed = place if place.is_file() else place / "inner/file.rs"
    changed.write_text("two")
    assert prebuilt.find(clone) is None
    changed.write_text("one")
    assert prebuilt.find(clone)
    if place.is_dir():
        (place / "new.rs").write_text("")
        assert prebuilt.find(clone) is None


def test_what_is_built_or_tests_the_sources_is_no_source(clone: Path) -> None:
    for name in ("crates/inner/tests/law.rs", "python/wirelens/bin/wirelens", "crates/page.md",
                 "python/wirelens/__pycache__/one.pyc"):  # fmt: skip
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("")
    assert prebuilt.find(clone)


@pytest.mark.parametrize(
    "name",
    [
        "wirelens-0.1.0-cp311-abi3-manylinux_2_17_sparc.whl",
        f"wirelens-0.1.0-cp311-abi3-manylinux_2_999_{MACHINE}.whl",
        f"wirelens-0.1.0-cp3999-abi3-manylinux_2_17_{MACHINE}.whl",
        f"wirelens-0.1.0-cp311-abi3-linux_{MACHINE}.whl",
    ],
)
def test_one_for_another_machine_is_not(clone: Path, name: str) -> None:
    wheel = clone / "dist" / FITS
    os.rename(prebuilt.stamp_of(wheel), clone / "dist" / f"{name}.sources")
    os.rename(wheel, clone / "dist" / name)
    assert prebuilt.find(clone) is None


def test_one_without_the_sum_of_its_sources_is_not(clone: Path) -> None:
    prebuilt.stamp_of(clone / "dist" / FITS).unlink()
    assert prebuilt.find(clone) is None


def test_every_source_is_in_the_repository() -> None:
    assert all((ROOT / source).exists() for source in prebuilt.SOURCES)
    assert prebuilt.sum_of_sources() == prebuilt.sum_of_sources()
