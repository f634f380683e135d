"""What the program makes is for its owner alone unless asked otherwise, never goes through a
symbolic link, and no other user can take a lock of it. That new code makes files by the crate
`files` is a rule of the repository (`file_maker`)."""

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import DEMO, ENVIRONMENT, PROGRAM, Ran, wirelens
from wirelens import written

NOBODY = 65534
# The words of each command that writes files on captures, and the option that names one.
COMMANDS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "top": ((), "-o", "rows.csv"),
    "flows": ((), "-o", "rows.parquet"),
    "flows eve": (("--format", "eve"), "-o", "rows.json"),
    "flows ipfix": ((), "-o", "rows.ipfix"),
    "flows zeek": (("--format", "zeek"), "-o", "zeek"),
    "flows partition": (("--partition", "minute", "--format", "csv"), "-o", "parts"),
    "flows rotated": (("--rotate-time", "5s"), "-o", "rows.csv"),
    "nprint": ((), "-o", "rows.npy"),
    "classify": (("-m", "services"), "-o", "rows.jsonl"),
    "classify pcapng": (("-m", "services"), "--pcapng", "said.pcapng"),
    "cca": ((), "-o", "rows.csv"),
    "latency": ((), "-o", "rows.csv"),
    "l4s": (("-m", "l4s", "--to", "*:443"), "-o", "rows.csv"),
    "info": ((), "-o", "rows.csv"),
    "report": ((), "-o", "report.html"),
}
FOLDERS = ("flows zeek", "flows partition")


def run(name: str, folder: Path, *more: str, to: str = "") -> Ran:
    words, option, file = COMMANDS[name]
    return wirelens(
        name.split()[0], "-r", DEMO, *words, option, to or file, *more, cwd=folder, time_max_s=60
    )


def modes(folder: Path) -> tuple[set[int], set[int]]:
    """Those of the files below a folder, and those of its folders."""
    found = list(folder.rglob("*"))
    assert found
    mode = lambda path: stat.S_IMODE(path.lstat().st_mode)  # noqa: E731
    files = {mode(path) for path in found if not path.is_dir()}
    return files, {mode(path) for path in found if path.is_dir()}


@pytest.fixture(autouse=True)
def loose_umask() -> object:
    """So that only the program makes them private."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.parametrize("name", COMMANDS)
def test_outputs_are_their_owners_unless_asked_otherwise(tmp_path: Path, name: str) -> None:
    for at, words in enumerate(((), ("--file-mode", "0640"))):
        folder = tmp_path / str(at)
        folder.mkdir(0o755)
        os.umask(0o077 if words else 0)
        ran = run(name, folder, *words)
        assert ran.status == 0, ran.stderr
        files, folders = modes(folder)
        assert files == {0o640 if words else 0o600}
        assert folders == ({0o750 if words else 0o700} if name in FOLDERS else set())


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in FOLDERS])
def test_no_output_goes_through_a_link(tmp_path: Path, name: str) -> None:
    victim, file = tmp_path / "victim", COMMANDS[name][2]
    victim.write_text("precious")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    for folder, to in ((tmp_path, "victim"), (tmp_path, "none"), (shared, "../victim")):
        for force in ((), ("--force",)):
            link = folder / file
            link.symlink_to(to)
            ran = run(name, tmp_path, *force, to=os.fspath(link))
            assert ran.status in (1, 2), ran.stderr
            assert "is a symbolic link to" in ran.stderr and "remove the link" in ran.stderr
            assert link.is_symlink() and not (tmp_path / "none").exists()
            link.unlink()
    assert victim.read_text() == "precious"
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    assert run(name, tmp_path, to=f"alias/{file}").status == 0
    assert list((tmp_path / "real").iterdir())


def test_what_is_replaced_keeps_its_mode_unless_another_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").touch(0o644)
    assert run("top", tmp_path, "--force").status == 0
    assert modes(tmp_path)[0] == {0o644}
    assert run("top", tmp_path, "--force", "--file-mode", "0600").status == 0
    assert modes(tmp_path)[0] == {0o600}
    (tmp_path / "rows.csv").chmod(0o4755)
    assert run("top", tmp_path, "--force", "--no-jail").status == 0
    assert modes(tmp_path)[0] == {0o644}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("mode", [0o666, 0o4777])
def test_the_mode_of_another_users_file_is_not_taken_over(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "rows.csv"

    def replaces() -> Ran:
        file.unlink(missing_ok=True)
        file.write_text("theirs")
        os.chown(file, NOBODY, NOBODY)
        file.chmod(mode)
        return run("top", tmp_path, "--force", "--no-jail")

    assert replaces().status == 0
    assert (file.stat().st_uid, modes(tmp_path)[0]) == (0, {0o600})
    tmp_path.chmod(0o1777)
    os.chown(tmp_path, 1, 1)
    ran = replaces()
    assert ran.status in (1, 2) and "belongs to another user" in ran.stderr, ran.stderr
    assert file.read_text() == "theirs"


def test_pipes_and_devices_are_written_as_before(tmp_path: Path) -> None:
    plain = wirelens("top", "-r", DEMO, "--format", "csv").stdout
    for to in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/null"):
        ran = run("top", tmp_path, "--format", "csv", to=to)
        assert (ran.status, ran.stdout) == (0, b"" if to == "/dev/null" else plain)
        assert "jail:" not in ran.stderr, ran.stderr
    piped = '{ "$1" top -r "$2" --format csv -o >(cat >&3); wait $!; } 3>&1'
    command = ["bash", "-c", piped, "bash", PROGRAM, DEMO]
    ran = subprocess.run(command, capture_output=True, env=ENVIRONMENT, timeout=20)
    assert (ran.returncode, ran.stdout) == (0, plain) and b"jail:" not in ran.stderr, ran.stderr
    os.mkfifo(tmp_path / "fifo")
    with subprocess.Popen(["cat", tmp_path / "fifo"], stdout=subprocess.PIPE) as reader:
        ran = run("top", tmp_path, "--format", "csv", to="fifo")
        assert ran.status == 0 and "jail:" not in ran.stderr, ran.stderr
        assert reader.communicate(timeout=20)[0] == plain


# Files cannot be made in /proc, so that nothing is replaced there if the code is wrong.
@pytest.mark.parametrize("to", ["/proc/self/fd/1", "/dev/fd/1", "/proc/self/../self/fd/1"])
@pytest.mark.parametrize("function", ["rows", "data"])
def test_python_adds_to_a_file_that_is_standard_output(
    tmp_path: Path, to: str, function: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("before ")
    code = f"written.check(Path({to!r})); written.{function}(Path({to!r}), b'after')"
    code = f"from pathlib import Path; from wirelens import written; {code}"
    with file.open("ab") as output:
        subprocess.run([sys.executable, "-c", code], stdout=output, check=True)
    assert file.read_text() == "before after"


def test_paths_of_descriptors_are_known_exactly() -> None:
    known = {"/dev/stdout": 1, "/dev/stderr": 2, "/dev/fd/7": 7, "/dev/../dev/stdout": 1}
    others = dict.fromkeys(("/dev/null", "/dev/fd", "/dev/fd/x", "/dev/shm/rows", "stdout"))
    for path, number in {**known, **others}.items():
        assert written.descriptor(Path(path)) == number, path


@pytest.mark.parametrize("mode", ["600 ", "0666", "0755", "640x", "u=rw"])
def test_permissions_that_make_no_sense_are_refused(tmp_path: Path, mode: str) -> None:
    ran = run("top", tmp_path, "--file-mode", mode)
    assert ran.status == 2 and "wanted permissions as chmod takes them" in ran.stderr, ran.stderr
    settings = f'[input]\nread = "{DEMO}"\n[run]\nfile-mode = "{mode}"\n[flows]\noutput = "x.csv"\n'
    (tmp_path / "wirelens.toml").write_text(settings)
    ran = wirelens("run", "-c", "wirelens.toml", cwd=tmp_path)
    assert ran.status == 2 and "wanted permissions" in ran.stderr, ran.stderr


# A report always has a file, and these need one for options of their own.
NEED_A_FILE = ("report", "flows partition", "flows rotated")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in NEED_A_FILE])
def test_permissions_without_a_file_are_refused(name: str) -> None:
    words = (name.split()[0], "-r", DEMO, *COMMANDS[name][0])
    ran = wirelens(*words, "--file-mode", "0640")
    assert ran.status == 2 and "required" in ran.stderr, ran.stderr
    assert "--file-mode <MODE>" in ran.stderr, ran.stderr


SETTINGS = f"""
[input]
read = "{DEMO}"
[flows]
output = "flows.csv"
rotate-time = "5s"
[latency]
output = "latency.jsonl"
[packetlog]
output = "log"
events = "events.jsonl"
fixed-mode = true
[history]
folder = "store/history"
[page]
listen = "127.0.0.1:0"
[[alert]]
name = "any"
table = "flows"
[[notify]]
kind = "jsonl"
to = "alerts.jsonl"
[run]
"""


@pytest.mark.parametrize("asked", ["", 'file-mode = "0640"'])
def test_all_that_a_run_makes_is_private_unless_asked_otherwise(tmp_path: Path, asked: str) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "wirelens.toml").write_text(
        SETTINGS.replace("[page]\n", "").replace('listen = "127.0.0.1:0"\n', "") + asked
    )
    ran = wirelens("run", "-c", "../wirelens.toml", cwd=folder)
    assert ran.status == 0, ran.stderr
    assert {path.name for path in folder.iterdir()} >= {
        "flows.csv", "latency.jsonl", "log", "events.jsonl", "store", "alerts.jsonl",
    }  # fmt: skip
    log = folder / "log"
    of_log = modes(log)
    assert of_log[0] == {0o600} and stat.S_IMODE(log.stat().st_mode) == 0o700
    for path in (*log.iterdir(), log):
        path.unlink() if path.is_file() else path.rmdir()
    (folder / "store/history/history.lock").unlink(missing_ok=True)
    wanted = ({0o640}, {0o750}) if asked else ({0o600}, {0o700})
    assert modes(folder) == wanted


@contextmanager
def locks_of_nobody(*paths: Path) -> Iterator[list[str]]:
    """What another user gets who locks these, and holds them until the block ends."""
    (said, says), (ends, end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        # Nothing of the tests' own is to run here, whatever happens.
        try:
            os.close(end)
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            for path in paths:
                try:
                    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.write(says, b"locked ")
                except OSError as error:
                    os.write(says, type(error).__name__.encode() + b" ")
            os.close(says)
            os.read(ends, 1)
        finally:
            os._exit(0)
    os.close(says)
    try:
        with os.fdopen(said) as answers:
            yield answers.read().split()
    finally:
        os.close(end)
        os.waitpid(child, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="a second user needs root")
def test_no_other_user_can_stop_a_recorder_by_a_lock() -> None:
    # Below a folder that others can enter, as those of pytest are not.
    with subprocess.Popen(["mktemp", "-d"], stdout=subprocess.PIPE, text=True) as made:
        place = Path(made.communicate()[0].strip())
    try:
        place.chmod(0o755)
        log = place / "log"
        words = ("packetlog", "record", "-r", DEMO, "-o", log, "--fixed-mode", "--mode", "log-all")
        assert wirelens(*words).status == 0
        log.chmod(0o755)
        lock = log / "recorder.lock"
        with locks_of_nobody(log, lock) as said:
            assert said == ["locked", "PermissionError"]
            ran = wirelens(*words)
        assert ran.status == 0, ran.stderr
        # A recorder at work is still noticed.
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            ran = wirelens(*words)
        assert ran.status == 1 and "another recorder is running here" in ran.stderr
    finally:
        subprocess.run(["rm", "-rf", place], check=True)


def test_a_file_of_another_user_in_a_shared_folder_takes_no_alerts(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a second user needs root")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    theirs = shared / "alerts.jsonl"
    theirs.touch(0o666)
    os.chown(theirs, NOBODY, NOBODY)
    text = SETTINGS.replace('to = "alerts.jsonl"', 'to = "shared/alerts.jsonl"')
    (tmp_path / "wirelens.toml").write_text(text)
    ran = wirelens("run", "-c", "wirelens.toml", "--check", cwd=tmp_path)
    assert ran.status == 0, ran.stderr
    ran = wirelens("run", "-c", "wirelens.toml", cwd=tmp_path)
    assert ran.status != 0 and "belongs to another user" in ran.stderr, ran.stderr
    assert theirs.read_text() == ""


def test_the_words_of_help_are_those_of_each_command() -> None:
    for name in {name.split()[0] for name in COMMANDS}:
        command = [PROGRAM, name, "--help"]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
        assert "--file-mode <MODE>" in ran.stdout, name
