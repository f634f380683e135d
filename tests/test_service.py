"""`wirelens run` as a service: what it reports to a service manager, and the unit of systemd that
comes with it. The manager is a socket of the test's own; no systemd has to run."""

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import sandbox
from command import DEMO, ENVIRONMENT, PROGRAM, ROOT, wirelens
from lab import Link, datagrams, new_link, wait_until

DEPLOY = ROOT / "deploy/systemd"
UNIT = DEPLOY / "wirelens.service"
TEMPLATE = DEPLOY / "wirelens@.service"
EXPOSURE_MAX = 3.0


class Manager:
    """A service manager: a datagram socket, and the messages that came to it, with their times."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0", 1) if address[0] == "@" else address)
        self.socket.setblocking(False)
        self.name = address
        self.messages: list[tuple[float, str]] = []

    def receive(self) -> list[str]:
        with suppress(BlockingIOError):
            while True:
                self.messages.append((time.monotonic(), self.socket.recv(4096).decode()))
        return [message for _, message in self.messages]

    def kinds(self) -> list[str]:
        """The messages but for their values; those that come again and again are left out."""
        kinds = [message.partition("\n")[0] for message in self.receive()]
        return [kind for kind in kinds if not kind.startswith(("STATUS=", "WATCHDOG="))]

    def count(self, kind: str) -> int:
        return sum(message.partition("\n")[0] == kind for message in self.receive())

    def wait_for(self, kind: str, count: int = 1, time_max_s: float = 10) -> None:
        wait_until(lambda: self.count(kind) >= count, f"{count} of {kind}", time_max_s)


@contextmanager
def service(
    words: list[str], notify: str, watchdog_s: float | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A run that a manager started."""
    environment = ENVIRONMENT | {"NOTIFY_SOCKET": notify}
    if watchdog_s is not None:
        environment["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))
    process = subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@wirelens-{os.getpid()}"
    made = Manager(name)
    yield made
    made.socket.close()


def settings(folder: Path, more: str = "") -> Path:
    path = folder / "wirelens.toml"
    flows = folder / "flows.csv"
    path.write_text(
        f'[input]\ninterface = "wl0"\n[page]\nlisten = "127.0.0.1:0"\n[traffic]\n'
        f'[flows]\noutput = "{flows}"\n{more}'
    )
    return path


def test_a_manager_follows_start_reload_and_end(
    link: Link, manager: Manager, tmp_path: Path
) -> None:
    path = settings(tmp_path)
    with service([str(PROGRAM), "run", "-c", str(path)], manager.name) as run:
        manager.wait_for("READY=1")
        # Everything is open: what is sent from here on is counted.
        link.send(datagrams(20))
        wait_until(lambda: any("STATUS=" in message for message in manager.receive()), "a status")
        assert manager.kinds() == ["READY=1"]
        for number in (1, 2):
            run.send_signal(signal.SIGHUP)
            manager.wait_for("READY=1", 1 + number)
        path.write_text("[flows]\nidle = 3\n")
        run.send_signal(signal.SIGHUP)
        manager.wait_for("READY=1", 4)
        run.send_signal(signal.SIGTERM)
        manager.wait_for("STOPPING=1")
        assert run.wait(10) == 0
        said = run.stderr.read() if run.stderr else ""
    reloads = ["RELOADING=1", "READY=1"] * 3
    assert manager.kinds() == ["READY=1", *reloads, "STOPPING=1"]
    times = [
        int(re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", message)[1])  # type: ignore[index]
        for message in manager.receive() if message.startswith("RELOADING")
    ]  # fmt: skip
    assert times == sorted(times) and abs(times[-1] / 1e6 - time.monotonic()) < 30
    assert "20 packets captured" in said and "stay in force" in said, said


def test_a_status_is_a_line_each_ten_seconds(link: Link, tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    with service([str(PROGRAM), "run", "-c", str(settings(tmp_path))], manager.name):
        manager.wait_for("READY=1")
        link.send(datagrams(7))
        wait_until(lambda: statuses(manager)[1:] != [], "a second status", 15)
    first, second = [at for at, message in manager.messages if message.startswith("STATUS=")]
    assert 9.5 < second - first < 12
    assert statuses(manager)[1] == "STATUS=7 packets read, 0 dropped"


def statuses(manager: Manager) -> list[str]:
    return [message for message in manager.receive() if message.startswith("STATUS=")]


@contextmanager
def stalled(thread: int) -> Iterator[None]:
    """One thread of a process stands still, while the others go on."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    seize, interrupt, detach, wait_all = 0x4206, 0x4207, 17, 0x40000000
    assert libc.ptrace(seize, thread, None, None) == 0, os.strerror(ctypes.get_errno())
    try:
        assert libc.ptrace(interrupt, thread, None, None) == 0
        os.waitpid(thread, wait_all)
        yield
    finally:
        libc.ptrace(detach, thread, None, None)


def test_the_watchdog_is_missed_while_packets_stall(link: Link, tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    words = [str(PROGRAM), "run", "-c", str(settings(tmp_path))]
    with service(words, manager.name, watchdog_s=2) as run:
        manager.wait_for("WATCHDOG=1", 3, 8)
        times = [at for at, message in manager.messages if message == "WATCHDOG=1"]
        steps = [after - before for before, after in zip(times, times[1:], strict=False)]
        assert all(step < 1.8 for step in steps), steps
        # The thread that reads packets is the first; the page's and the writers' go on.
        with stalled(run.pid):
            time.sleep(0.1)
            before = manager.count("WATCHDOG=1")
            time.sleep(3)
            assert manager.count("WATCHDOG=1") == before
        manager.wait_for("WATCHDOG=1", before + 2, 8)
        run.send_signal(signal.SIGTERM)
        assert run.wait(10) == 0


def test_captures_and_a_page_that_stays_are_ready_too(tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    words = [str(PROGRAM), "run", "-r", str(DEMO), "--page", "127.0.0.1:0"]
    with service(words, manager.name, watchdog_s=1) as run:
        manager.wait_for("WATCHDOG=1", 3, 8)
        run.send_signal(signal.SIGHUP)
        manager.wait_for("READY=1", 2)
        run.send_signal(signal.SIGINT)
        assert run.wait(10) == 0
    assert manager.kinds() == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]


def test_a_run_that_ends_by_itself_says_so_before_it_waits_for_others(tmp_path: Path) -> None:
    """A receiver of alerts that does not answer takes seconds, in which no packet answers a
    watchdog."""
    manager = Manager(str(tmp_path / "notify"))
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        path = tmp_path / "alerts.toml"
        path.write_text(
            '[flows]\n[[alert]]\nname = "any"\ntable = "flows"\n[[notify]]\nkind = "webhook"\n'
            f'to = "http://127.0.0.1:{deaf.getsockname()[1]}/"\nattempts = 1\ntimeout = "3s"\n'
        )
        words = [str(PROGRAM), "run", "-q", "-r", str(DEMO), "-c", str(path)]
        with service(words, manager.name) as run:
            manager.wait_for("STOPPING=1", time_max_s=30)
            announced = time.monotonic()
            assert run.wait(30) == 1
            assert time.monotonic() - announced > 1.5
    assert manager.kinds() == ["READY=1", "STOPPING=1"]


@pytest.mark.parametrize("name", ["/nowhere/notify", "vsock:2:1234"])
def test_a_manager_that_is_not_there_is_a_warning(name: str, tmp_path: Path) -> None:
    words = [str(PROGRAM), "run", "-q", "-r", str(DEMO), "-c", str(rows(tmp_path))]
    with service(words, name) as run:
        said = run.communicate(timeout=30)[1]
        assert run.returncode == 0
    assert said.count("NOTIFY_SOCKET") == 1 and name in said and "the run goes on" in said, said


def rows(folder: Path) -> Path:
    path = folder / "rows.toml"
    path.write_text(f'[traffic]\noutput = "{folder / "traffic.csv"}"\n')
    return path


def test_a_run_without_a_manager_says_nothing_of_it(tmp_path: Path) -> None:
    ran = wirelens("run", "-q", "-r", DEMO, "-c", rows(tmp_path))
    assert (ran.status, ran.stderr) == (0, "")


# --- The unit --------------------------------------------------------------------------------


def analyzed(*words: str | Path) -> str:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed; bash tools/setup.sh test")
    done = subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    return output


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (UNIT, "wirelens.service"),
        (TEMPLATE, "wirelens@.service"),
        (TEMPLATE, "wirelens@a-b.service"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_unit_is_well_formed(source: Path, name: str, tmp_path: Path) -> None:
    # Its program and manual are those of a package.
    text = source.read_text().replace("/usr/bin/wirelens", str(PROGRAM))
    unit = tmp_path / name
    unit.write_text("".join(re.sub("^Documentation=.*\n", "", text, flags=re.MULTILINE)))
    # Nothing is found wrong, and nothing is remarked.
    assert analyzed("verify", unit) == ""


@pytest.mark.parametrize("unit", [UNIT, TEMPLATE], ids=lambda path: path.name)
def test_the_unit_is_hardened(unit: Path) -> None:
    output = analyzed(
        "security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}", "--no-pager", unit
    )
    exposure = re.search(r"Overall exposure level for wirelens@?.*\.service: ([\d.]+)", output)
    assert exposure and float(exposure[1]) <= EXPOSURE_MAX, output


def test_memory_with_traffic_is_never_dumped() -> None:
    assert (sandbox.settings("LimitCORE"), sandbox.settings("WatchdogSignal")) == (
        ["0"],
        ["SIGKILL"],
    )


def test_instances_are_as_the_service_but_for_their_names_and_folders() -> None:
    def lines(path: Path) -> list[str]:
        comments = re.compile(r"\A(#.*\n)+", re.MULTILINE)
        return comments.sub("", path.read_text()).splitlines()

    changed = [
        (one, other)
        for one, other in zip(lines(UNIT), lines(TEMPLATE), strict=True)
        if one != other
    ]
    assert changed == [
        ("Description=Wirelens: network traffic analysis",
         "Description=Wirelens: network traffic analysis (%i)"),
        ("ExecStart=/usr/bin/wirelens run -c /etc/wirelens/wirelens.toml",
         "ExecStart=/usr/bin/wirelens run -c /etc/wirelens/%i.toml"),
        ("WorkingDirectory=/var/lib/wirelens", "WorkingDirectory=/var/lib/wirelens/%i"),
        ("StateDirectory=wirelens", "StateDirectory=wirelens/%i"),
        ("LogsDirectory=wirelens", "LogsDirectory=wirelens/%i"),
    ]  # fmt: skip


def test_settings_of_the_service_have_no_mistake() -> None:
    ran = wirelens("run", "-c", DEPLOY / "wirelens.toml", "-r", DEMO, "--check")
    assert ran.status == 0, ran.stderr
    applications = "traffic", "flows", "classify", "packetlog"
    assert all(name in ran.stderr for name in applications), ran.stderr


@pytest.fixture
def state() -> Iterator[Path]:
    """A folder that any user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="wirelens-service-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_it_captures_under_the_restrictions_of_the_unit(link: Link, state: Path) -> None:
    """As a user without rights but CAP_NET_RAW, with the unit's system calls, and nothing but its
    state folder to write to: it captures, reloads and ends."""
    text = (DEPLOY / "wirelens.toml").read_text().replace('"any"', '"wl0"')
    text = text.replace("127.0.0.1:9417", "127.0.0.1:0").replace("/var/lib/wirelens", str(state))
    path = state / "wirelens.toml"
    path.write_text(text)
    manager = Manager(str(state / "notify"))
    (state / "notify").chmod(0o777)
    with service(sandbox.command(state, "run", "-c", path), manager.name, watchdog_s=60) as run:
        try:
            manager.wait_for("READY=1")
        except AssertionError:
            run.kill()
            raise AssertionError(run.communicate()[1]) from None
        status = Path(f"/proc/{run.pid}/status").read_text()
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert facts["Uid"].split() == ["65534"] * 4
        # Given up before the first packet; what a new program could get stays, and there is none.
        held = {which: int(facts[f"Cap{which}"], 16) for which in ("Eff", "Prm", "Amb", "Bnd")}
        assert held == {"Eff": 0, "Prm": 0, "Amb": 0, "Bnd": 1 << 13}
        assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
        link.send(datagrams(50))
        path.write_text(text.replace('keep = "full"', 'keep = "none"'))
        run.send_signal(signal.SIGHUP)
        manager.wait_for("READY=1", 2)
        link.send(datagrams(30))
        run.send_signal(signal.SIGTERM)
        assert run.wait(20) == 0
        said = run.stderr.read() if run.stderr else ""
    assert "80 packets captured" in said and "rules were changed" in said, said
    assert "\x1b" not in said and "\r" not in said
    assert not [line for line in said.splitlines() if "jail: " in line and "kept" not in line], said
    kept = wirelens("packetlog", "query", "-l", state / "packetlog", "--list", "sessions")
    assert kept.status == 0 and b"198.18.0.1" in kept.stdout, kept.stderr
    assert list((state / "history").rglob("*.parquet"))
