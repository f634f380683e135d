"""The BPF objects that are committed are what their sources give, byte for byte."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from command import ROOT

SCRIPT = "tools/bpf.sh"
FOLDERS = ("crates/capture/bpf", "testbed/bpf")


def why_not() -> str | None:
    """What is missing for a comparison."""
    (wanted,) = re.findall(r"^readonly CLANG_VERSION=(\S+)$", (ROOT / SCRIPT).read_text(), re.M)
    for program in ("clang", "llvm-strip"):
        if shutil.which(program) is None:
            return f"{program}: not installed; clang {wanted} built the objects"
    found = subprocess.run(["clang", "-dumpversion"], check=True, capture_output=True, text=True)
    seen = found.stdout.strip()
    return None if seen == wanted else f"clang {seen} is here; {wanted} built the objects"


pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def compare(root: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", root / SCRIPT, "compare"], check=False, capture_output=True, text=True
    )
    return done.returncode, done.stderr


def test_each_object_is_what_its_sources_give() -> None:
    assert compare(ROOT) == (0, "")


def test_an_object_of_other_sources_is_found(tmp_path: Path) -> None:
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / SCRIPT, tmp_path / SCRIPT)
    source = tmp_path / FOLDERS[0] / "tap.bpf.c"
    text = source.read_text()
    source.write_text(text.replace("define TCX_NEXT (-1)", "define TCX_NEXT 0"))
    status, said = compare(tmp_path)
    wanted = "crates/capture/bpf/tap.bpf.o: another than its sources give"
    assert status == 1 and wanted in said and said.count("\n") == 1, said
