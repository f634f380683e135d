"""The jail of a live run: what every thread of every command can still do once it listens, as the
kernel shows it. That each forbidden thing is refused is tested in crates/jail, in a child."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import DEMO, ENVIRONMENT, PROGRAM, wirelens
from lab import Link, Listening, datagrams, new_link, wait_until

DAC_OVERRIDE, SYS_NICE = 1 << 1, 1 << 23
NOBODY = 65534

# The words of each command that listens, and the capabilities that it keeps.
COMMANDS: dict[str, tuple[list[str], int]] = {
    "top": (["--format", "csv"], 0),
    "flows": (["-o", "flows.csv", "--latency", "low"], SYS_NICE),
    "classify": (["-m", "services", "-o", "classes.csv"], 0),
    "latency": (["-o", "latency.csv"], 0),
    "cca": (["-o", "cca.csv"], 0),
    "l4s": (["-m", "l4s", "--to", "192.0.2.1", "-o", "l4s.csv"], SYS_NICE),
    "packetlog record": (["-o", "log"], 0),
    "packetlog calibrate": (["-o", "calibration.json"], 0),
    "run": (["-c", "run.toml"], 0),
}

SETTINGS = """
[flows]
output = "of-run.jsonl"
[packetlog]
output = "log-of-run"
[page]
listen = "127.0.0.1:0"
[history]
folder = "history"
"""


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Link]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(SETTINGS)
    with new_link() as made:
        yield made


def threads(pid: int) -> list[dict[str, str]]:
    """The status of each thread, see proc(5)."""
    texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    found = [dict(re.findall(r"^(\w+):\t(.*)$", text, re.MULTILINE)) for text in texts]
    # Threads of the kernel for an io_uring run no code of ours; the ring takes writes alone.
    return [facts for facts in found if not facts["Name"].startswith("iou-")]


def are_filtered(run: Listening) -> bool:
    return all(facts["Seccomp"] == "2" for facts in threads(run.process.pid))


def listening(folder: Path, name: str, *more: str) -> Listening:
    return Listening(folder, *name.split(), "-i", "wl0", *COMMANDS[name][0], *more)


def help_of(*words: str) -> str:
    ran = subprocess.run(
        [PROGRAM, *words, "--help"], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    return ran.stdout


def test_every_command_that_listens_is_tested_here() -> None:
    def commands(*words: str) -> list[tuple[str, ...]]:
        text = help_of(*words).partition("Commands:\n")[2].partition("\n\n")[0]
        names = re.findall(r"^  ([a-z][a-z0-9-]*)(?:  |$)", text, re.MULTILINE)
        return [(*words, name) for name in names if name != "help"]

    all_of = commands()
    assert len(all_of) > 10
    # The testbed makes traffic, and doctor reads no packets.
    for words in [words for words in all_of if words != ("testbed",)]:
        all_of += commands(*words)
    listens = {
        " ".join(words)
        for words in all_of
        if words[0] not in ("testbed", "doctor", "help") and "--interface" in help_of(*words)
    }
    assert listens == set(COMMANDS)
    for name in listens:
        assert "--no-jail" in help_of(*name.split()), name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_thread_is_in_the_jail(link: Link, tmp_path: Path, name: str) -> None:
    with listening(tmp_path, name) as run:
        wait_until(lambda: are_filtered(run), "all threads are in the jail")
        link.send(datagrams(5))
        link.settle()
        found = threads(run.process.pid)
        assert found
        for facts in found:
            assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2"), facts["Name"]
            for which in ("Eff", "Prm", "Bnd"):
                assert int(facts[f"Cap{which}"], 16) == COMMANDS[name][1], facts
            assert int(facts["CapInh"], 16) == int(facts["CapAmb"], 16) == 0
        if COMMANDS[name][1] & SYS_NICE:
            tasks = Path(f"/proc/{run.process.pid}/task").iterdir()
            classes = [os.sched_getscheduler(int(task.name)) & 0xFF for task in tasks]
            assert classes.count(os.SCHED_RR) == 1, classes
        ran = run.end()
    # Five packets are too few to calibrate on.
    assert ran.status == int(name == "packetlog calibrate"), ran.stderr
    assert "5 packets" in ran.stderr, ran.stderr
    missing = [line for line in ran.stderr.splitlines() if "jail: " in line]
    assert not any("kept" not in line for line in missing), ran.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_without_the_jail_what_is_given_up_is_said(link: Link, tmp_path: Path, name: str) -> None:
    ours = threads(os.getpid())[0]["CapEff"]
    with listening(tmp_path, name, "--no-jail") as run:
        run.wait_for("--no-jail: packets are read with all rights of this process")
        for facts in threads(run.process.pid):
            assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("0", "0"), facts["Name"]
            assert facts["CapEff"] == ours
        assert run.end().status == int(name == "packetlog calibrate")


def test_files_of_another_user_are_still_rotated(link: Link, tmp_path: Path) -> None:
    """Root may write there by a capability alone, which is kept, and named."""
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    os.chown(theirs, NOBODY, NOBODY)
    words = ["flows", "-i", "wl0", "-o", "theirs/flows.csv", "--idle-timeout", "1s"]
    with Listening(tmp_path, *words) as run:
        run.wait_for("jail: kept because this run needs it: CAP_DAC_OVERRIDE")
        wait_until(lambda: are_filtered(run), "all threads are in the jail")
        assert {int(facts["CapEff"], 16) for facts in threads(run.process.pid)} == {DAC_OVERRIDE}
        link.send(datagrams(3))
        run.signal(signal.SIGHUP)
        wait_until((theirs / "flows.csv").exists, "the first file is finished")
        link.send(datagrams(3))
        assert run.end().status == 0
    assert (theirs / "flows-1.csv").exists()


def test_captures_are_read_without_it(tmp_path: Path) -> None:
    """It is of live runs; nothing is said of it elsewhere."""
    ran = wirelens("top", "-r", DEMO)
    assert ran.status == 0 and "jail" not in ran.stderr
