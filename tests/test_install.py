"""`make install` and `make uninstall`: what they put where, and what they leave alone."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from command import DEMO, PROGRAM, ROOT

SCRIPT = ROOT / "tools/install.sh"


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`make` of the clone, with the program under test, which is then not built."""
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    command = ["make", "--no-print-directory", f"WIRELENS={PROGRAM}", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )


def files(folder: Path) -> dict[str, int]:
    """The files below a folder with their permissions."""
    return {
        os.fspath(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_install_puts_the_program_where_it_belongs_and_uninstall_removes_it(tmp_path: Path) -> None:
    done = make("install", f"DESTDIR={tmp_path}")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found = files(tmp_path / "usr/local")
    assert found.pop("bin/wirelens") == 0o755
    assert {"share/man/man1/wirelens.1", "share/man/man1/wirelens-packetlog-query.1",
            "share/bash-completion/completions/wirelens", "share/zsh/site-functions/_wirelens",
            "share/fish/vendor_completions.d/wirelens.fish", "share/doc/wirelens/LICENSE-MIT",
            "share/doc/wirelens/LICENSE-APACHE"} <= set(found)  # fmt: skip
    assert set(found.values()) == {0o644}
    installed = tmp_path / "usr/local/bin/wirelens"
    ran = subprocess.run(
        [installed, "classify", "-q", "-r", DEMO, "--model", "services", "--format", "csv"],
        cwd="/", check=True, capture_output=True,
    )  # fmt: skip
    assert ran.stdout.count(b"services@") > 100
    # Over itself, while it runs: another file under the same name.
    before = installed.stat().st_ino
    assert make("install", f"DESTDIR={tmp_path}").returncode == 0
    assert installed.stat().st_ino != before
    other = tmp_path / "usr/local/share/man/man1/other.1"
    other.write_text("")
    assert make("uninstall", f"DESTDIR={tmp_path}").returncode == 0
    assert set(files(tmp_path)) == {os.fspath(other.relative_to(tmp_path))}
    assert not (tmp_path / "usr/local/share/doc/wirelens").exists()
    # Once more there is nothing to remove.
    assert make("uninstall", f"DESTDIR={tmp_path}").returncode == 0


def test_a_prefix_of_ones_own(tmp_path: Path) -> None:
    prefix = tmp_path / "a home/.local"
    assert make("install", f"PREFIX={prefix}").returncode == 0
    assert os.access(prefix / "bin/wirelens", os.X_OK)
    assert make("uninstall", f"PREFIX={prefix}").returncode == 0
    assert files(tmp_path) == {}
    done = make("install", "PREFIX=relative")
    assert done.returncode != 0 and "wanted an absolute path" in done.stderr


def test_folders_are_open_to_all_users_whatever_the_umask_is(tmp_path: Path) -> None:
    root = tmp_path / "root"
    command = f"umask 077 && DESTDIR='{root}' bash '{SCRIPT}' install '{PROGRAM}'"
    subprocess.run(["bash", "-c", command], check=True, capture_output=True)
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o755}
    assert len(folders) > 10


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written_is_met_with_what_to_try() -> None:
    done = make("install", "PREFIX=/proc/nowhere")
    assert done.returncode != 0 and "try PREFIX=$HOME/.local" in done.stderr


def test_a_program_is_current_until_a_source_changes(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    script = tmp_path / "tools/install.sh"
    script.write_bytes(SCRIPT.read_bytes())
    source = tmp_path / "crates/cli/src/main.rs"
    for path in (source, tmp_path / "models/cca/card.md", tmp_path / "Cargo.toml",
                 tmp_path / "Cargo.lock", tmp_path / "program"):  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        os.utime(path, (1_000, 1_000))
    program = tmp_path / "program"

    def is_current() -> bool:
        command = ["bash", script, "current", program]
        return subprocess.run(command, check=False).returncode == 0

    assert not is_current()
    program.chmod(0o755)
    assert is_current()
    os.utime(source, (2_000, 2_000))
    assert not is_current()
    os.utime(program, (3_000, 3_000))
    os.utime(tmp_path / "models/cca/card.md", (4_000, 4_000))
    assert is_current()
