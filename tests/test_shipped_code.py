"""What the program runs or loads beyond its own file is never what others put into the current
folder, or into folders above the program."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from command import DEMO, ENVIRONMENT, PROGRAM, wirelens

# Writes where it was run from.
PLANTED = """#!/bin/sh
touch "{mark}"
"""


def planted(mark: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PLANTED.format(mark=mark))
    path.chmod(0o755)


def plant(mark: Path, root: Path) -> None:
    """All that was once looked for above a program, or might be."""
    planted(mark, root / ".venv/bin/python")
    planted(mark, root / "bin/python3")
    planted(mark, root / "python3")
    for name in ("testbed/wirelens_testbed", "wirelens_testbed", "python/wirelens/classify"):
        module = root / name / "__main__.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(f"open({os.fspath(mark)!r}, 'w')\n")
    for name in ("wirelens", "python/wirelens"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "__init__.py").write_text(f"open({os.fspath(mark)!r}, 'w')\n")
    for folder in (root, root / "lib", root / "lib/python3.11/site-packages/onnxruntime/capi"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "libonnxruntime.so.1.99.0").write_text("no library")
        (folder / "libpcap.so.1").write_text("no library")


@pytest.mark.parametrize("place", ["bin", "a/b/c/wirelens/bin", "target/release"])
@pytest.mark.parametrize(
    "words", [("testbed", "scenarios"), ("train", "classify"), ("feedback",), ("doctor",)]
)
def test_nothing_above_the_program_or_in_the_current_folder_is_run(
    tmp_path: Path, place: str, words: tuple[str, ...]
) -> None:
    root, mark = tmp_path / "root", tmp_path / "mark"
    plant(mark, root)
    if "wirelens" in place:
        (root / place).mkdir(parents=True)
        (root / place / "../__init__.py").write_text("")
    program = root / place / "wirelens"
    program.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROGRAM, program)
    # As above a clone in a folder where everybody may put files.
    root.chmod(0o1777)
    command = [program, *words]
    subprocess.run(command, capture_output=True, check=False, env=ENVIRONMENT, cwd=root, timeout=60)
    assert not mark.exists()


def test_a_clone_of_ones_own_is_used(tmp_path: Path) -> None:
    root, mark = tmp_path / "root", tmp_path / "mark"
    plant(mark, root)
    program = root / "target/release/wirelens"
    program.parent.mkdir(parents=True)
    shutil.copy(PROGRAM, program)
    command = [program, "testbed", "scenarios"]
    subprocess.run(command, capture_output=True, check=False, env=ENVIRONMENT, timeout=60)
    assert mark.exists()


@pytest.mark.parametrize("name", ["services", "packetlog", "cca"])
def test_no_model_of_the_current_folder_is_taken_for_one_that_ships(
    tmp_path: Path, name: str
) -> None:
    for at in (tmp_path, tmp_path / "models", tmp_path / "python/wirelens/models"):
        (at / name).mkdir(parents=True)
        for file in ("cascade.json", "packetlog.json", "cca.safetensors", "SHA256SUMS"):
            (at / name / file).write_text("no model")
    words = {
        "services": ("classify", "-m", "services"), "cca": ("cca", "--model", "cca-onetap"),
        "packetlog": ("packetlog", "record", "-o", "log"),
    }[name]  # fmt: skip
    ran = wirelens(words[0], *words[1:], "-r", DEMO, cwd=tmp_path)
    assert ran.status == 0, ran.stderr
