"""The jail of a run: what every thread of every command can still do once it listens or reads, as
the kernel shows it. That each forbidden thing is refused is tested in crates/jail, in a child."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import broker
from command import DEMO, ENVIRONMENT, PROGRAM, wirelens
from lab import Link, Listening, datagrams, new_link, wait_until
from workers import Worker

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


def commands_of() -> list[tuple[str, ...]]:
    """The words of all commands, except for those of the testbed, which makes traffic."""

    def commands(*words: str) -> list[tuple[str, ...]]:
        text = help_of(*words).partition("Commands:\n")[2].partition("\n\n")[0]
        names = re.findall(r"^  ([a-z][a-z0-9-]*)(?:  |$)", text, re.MULTILINE)
        return [(*words, name) for name in names if name != "help"]

    all_of = commands()
    assert len(all_of) > 10
    for words in [words for words in all_of if words != ("testbed",)]:
        all_of += commands(*words)
    return all_of


def test_every_command_that_listens_is_tested_here() -> None:
    # Doctor reads no packets.
    listens = {
        " ".join(words)
        for words in commands_of()
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


# The words of each command that reads captures, here from a pipe.
READERS: dict[str, list[str]] = {
    "top": ["--format", "csv"],
    "flows": ["-o", "flows.csv"],
    "flows partition": ["-o", "parts", "--partition", "minute", "--format", "csv"],
    "nprint": ["-o", "bits.csv"],
    "nprint depth": ["--depth", "2", "-o", "bits.csv"],
    "nprint sequences": ["--depth", "2", "--sequences", "-o", "bits.csv"],
    "info": ["--format", "csv"],
    "classify": ["-m", "services", "-o", "classes.csv"],
    "latency": ["-o", "latency.csv"],
    "cca": ["-o", "cca.csv"],
    "l4s": ["-m", "l4s", "--to", "*:443", "-o", "l4s.csv"],
    "packetlog record": ["-o", "new-log"],
    "packetlog calibrate": ["-o", "calibration.json", "--budget", "50%"],
    "run": ["-c", "run.toml"],
    "report": ["-o", "report.html"],
    "simulate packetlog": ["-o", "switch.csv"],
}

# What they read, programs in Python read for them, which enter no jail.
IN_PYTHON = ("train", "eval", "feedback")


KINDS = ("partition", "depth", "sequences")


@pytest.mark.parametrize("name", READERS)
def test_every_thread_that_reads_a_capture_is_in_the_jail(tmp_path: Path, name: str) -> None:
    (tmp_path / "run.toml").write_text('[flows]\noutput = "of-run.jsonl"\n')
    words = [word for word in name.split() if word not in KINDS]
    command = [PROGRAM, *words, *READERS[name], "-r", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    capture = DEMO.read_bytes()
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, **pipes) as run:
        assert run.stdin is not None
        # Enough to begin with; it waits for the rest.
        run.stdin.write(capture[: len(capture) // 2])
        run.stdin.flush()

        def are_in() -> bool:
            found = threads(run.pid)
            return bool(found) and all(facts["Seccomp"] == "2" for facts in found)

        wait_until(are_in, "all threads are in the jail")
        for facts in threads(run.pid):
            assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2"), facts["Name"]
            held = [int(facts[f"Cap{which}"], 16) for which in ("Eff", "Prm", "Inh", "Amb")]
            assert held == [0] * 4, facts
        said = run.communicate(capture[len(capture) // 2 :], timeout=60)[1].decode()
    assert run.returncode == 0, said
    assert "jail" not in said, said


def test_every_command_that_reads_captures_is_tested_here() -> None:
    found = {
        words
        for words in commands_of()
        if words[0] not in ("testbed", "help", *IN_PYTHON) and "-r, --read" in help_of(*words)
    }
    first_words = {tuple(name.split()) for name in READERS}
    assert found == {words for words in first_words if words[-1] not in KINDS}
    for words in found - {("report",)}:
        assert "--no-jail" in help_of(*words), words


def test_without_the_jail_captures_are_read_with_all_rights_which_is_said() -> None:
    for words in (("top",), ("nprint",), ("info",), ("flows",)):
        ran = wirelens(*words, "-r", DEMO, "--no-jail", "-q")
        warning = "--no-jail: packets are read with all rights of this process"
        assert ran.status == 0 and warning in ran.stderr, ran.stderr


def recorded(log: Path) -> Path:
    words = ("packetlog", "record", "-q", "-r", DEMO, "-o", log, "--fixed-mode")
    assert wirelens(*words).status == 0
    return log


ON_LOGS = ("query -w -", "stats", "stats --format csv", "stats --why", "verify", "verify --head")


@pytest.mark.parametrize("words", [*ON_LOGS, "recover", "compress"])
def test_a_log_is_read_and_changed_in_the_jail_as_without_it(tmp_path: Path, words: str) -> None:
    command = ("packetlog", *words.split())
    log = recorded(tmp_path / "log")
    ran = []
    for name, more in (("jailed", ()), ("free", ("--no-jail",))):
        shutil.copytree(log, tmp_path / name / "log")
        ran.append(wirelens(*command, "--log", "log", *more, cwd=tmp_path / name))
    assert [each.status for each in ran] == [0, 0], ran
    assert ran[0].stdout == ran[1].stdout
    assert len(ran[0].stdout) > 1000 or not words.startswith("query")
    traced = ["strace", "-f", "-e", "trace=seccomp", PROGRAM, *command, "--log", log]
    if shutil.which("strace"):
        done = subprocess.run(traced, capture_output=True, check=True)
        assert done.stderr.count(b"SECCOMP_SET_MODE_FILTER") == 2, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root reads files of others")
def test_root_still_reads_captures_and_logs_of_another_user(tmp_path: Path) -> None:
    """Compressed captures are opened when those before them end, and a log's files by a query."""
    folder, log = tmp_path / "theirs", tmp_path / "log"
    folder.mkdir()
    for name in ("a.pcapng.gz", "b.pcapng.gz"):
        (folder / name).write_bytes(gzip.compress(DEMO.read_bytes()))
    recorded(log)
    # One that is made again belongs to the recorder, as does what is compressed.
    next(log.glob("*.idx")).unlink()
    for path in (*folder.iterdir(), *log.iterdir(), log, folder):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o700 if path.is_dir() else 0o600)
    for command in (("top", "--format", "csv"), ("nprint",), ("info", "--format", "csv")):
        ran = wirelens(*command, "-r", folder)
        assert ran.status == 0 and ran.stdout, ran.stderr
    for words in (("recover",), ("compress",), *(words.split() for words in ON_LOGS)):
        ran = wirelens("packetlog", *words, "--log", log)
        assert ran.status == 0 and (ran.stdout or ran.stderr), (words, ran.stderr)
        assert len(ran.stdout) > 1000 or words[0] != "query"
    assert any(path.name.endswith(".zst") for path in log.iterdir())
    assert {path.stat().st_uid for path in log.iterdir()} == {NOBODY}


def status_of(run: Listening, key: str) -> set[tuple[int, ...]]:
    found = [facts[key] for facts in threads(run.process.pid)]
    return {tuple(int(number) for number in text.split()) for text in found}


def check_all_in(pid: int) -> None:
    """Every thread is in a jail that allows sockets."""

    def are_in() -> bool:
        return all(facts["Seccomp"] == "2" for facts in threads(pid))

    wait_until(are_in, "all threads are in the jail")
    for facts in threads(pid):
        assert (facts["NoNewPrivs"], int(facts["CapEff"], 16)) == ("1", 0), facts


class View(Listening):
    """A run with [sensors], which listens on no interface."""

    def __enter__(self) -> "View":
        self.wait_for("page: http")
        return self

    def row_count(self) -> int:
        address = self.stderr.split("page: ")[1].split()[0]
        path = f"{address}api/v1/tables/classify?limit=1000"
        with urllib.request.urlopen(path, timeout=10) as answer:
            return len(json.load(answer)["rows"])


@pytest.mark.testbed
def test_a_worker_and_a_view_of_sensors_are_in_the_jail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with broker(tmp_path) as server, Worker(tmp_path, server.address) as worker:
        check_all_in(worker.process.pid)
        (tmp_path / "sensor.toml").write_text(
            f'[input]\nread = "{DEMO}"\n[classify]\nmodel = "services"\nworkers = true\n'
            f'output = "of-sensor.csv"\n[nats]\nservers = ["{server.address}"]\n'
        )
        (tmp_path / "view.toml").write_text(
            '[sensors]\n[classify]\nmodel = "services"\noutput = "of-view.jsonl"\n'
            f'[nats]\nservers = ["{server.address}"]\n[page]\nlisten = "127.0.0.1:0"\n'
        )
        with View(tmp_path, "run", "-c", "view.toml") as view:
            check_all_in(view.process.pid)
            ran = wirelens("run", "-c", "sensor.toml", cwd=tmp_path)
            assert ran.status == 0, ran.stderr
            count = len((tmp_path / "of-sensor.csv").read_text().splitlines()) - 1
            wait_until(lambda: view.row_count() == count, "the rows are there", 30)
            # A connection that breaks is made again.
            server.kill()
            server.start()
            time.sleep(1)
            assert view.end().status == 0
        assert len((tmp_path / "of-view.jsonl").read_text().splitlines()) == count
        assert worker.end().rows > 0


USER_COMMANDS = ("top", "classify", "latency", "packetlog record", "run")


@pytest.mark.parametrize("name", USER_COMMANDS)
def test_a_run_becomes_another_user_with_all_threads(
    link: Link, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs are that user's, as they are opened afterwards."""
    place = Path(tempfile.mkdtemp())
    os.chown(place, NOBODY, NOBODY)
    monkeypatch.chdir(place)
    settings = SETTINGS + '[run]\nuser = "nobody"\n'
    (place / "run.toml").write_text(settings)
    words = [] if name == "run" else ["--user", "nobody"]
    try:
        with listening(tmp_path, name, *words) as run:
            wait_until(lambda: are_filtered(run), "all threads are in the jail")
            link.send(datagrams(5))
            link.settle()
            assert status_of(run, "Uid") == {(NOBODY,) * 4}
            assert status_of(run, "Gid") == {(NOBODY,) * 4}
            assert status_of(run, "Groups") <= {(NOBODY,), ()}
            assert {int(facts["CapEff"], 16) for facts in threads(run.process.pid)} == {0}
            ran = run.end()
        assert ran.status == 0 and "5 packets" in ran.stderr, ran.stderr
        made = [path for path in place.rglob("*") if path.name != "run.toml"]
        assert {path.stat().st_uid for path in made} <= {NOBODY}
        assert made or name == "top"
    finally:
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(place)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("top", "-i", "lo", "--user", "no-such-user"), "no such user"),
        (("top", "-i", "lo", "--user", "root"), "is root"),
        (("top", "-i", "lo", "--user", "nobody", "--latency", "low"), "CAP_SYS_NICE"),
        (("top", "-r", DEMO, "--user", "nobody"), "--interface"),
        (("flows", "-i", "lo", "--user", "nobody", "-o", "/root/x.csv"), "Permission denied"),
    ],
)
def test_where_it_cannot_become_that_user_it_says_why(words: tuple[str, ...], reason: str) -> None:
    ran = wirelens(*words)
    assert ran.status in (1, 2) and reason in ran.stderr, ran.stderr


def test_settings_name_a_user_for_interfaces_alone(tmp_path: Path) -> None:
    text = f'[input]\nread = "{DEMO}"\n[run]\nuser = "nobody"\n[flows]\noutput = "x.csv"\n'
    (tmp_path / "run.toml").write_text(text)
    ran = wirelens("run", "-c", "run.toml", "--check", cwd=tmp_path)
    assert ran.status == 2 and "has no effect without an interface" in ran.stderr, ran.stderr
    # Captures in place of the interface of a service need no rights to give up.
    text = text.replace(f'read = "{DEMO}"', 'interface = "lo"')
    (tmp_path / "run.toml").write_text(text)
    ran = wirelens("run", "-c", "run.toml", "-r", DEMO, cwd=tmp_path)
    assert ran.status == 0 and (tmp_path / "x.csv").exists(), ran.stderr
    (tmp_path / "run.toml").write_text(text.replace('"nobody"', '"no-such-user"'))
    ran = wirelens("run", "-c", "run.toml", "--check", cwd=tmp_path)
    assert ran.status == 2 and "no such user" in ran.stderr, ran.stderr
