"""Network namespaces for one run, the programs inside them, and their removal.

The name of every namespace has a prefix with our process id. So parallel runs do not disturb each
other, and a janitor, or the next run, recognises what a killed run left: a name whose
process is gone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from wirelens_testbed.failure import LabClosing, LabError

PREFIX = "wlt"
NAME_PATTERN = re.compile(rf"{PREFIX}-(\d+)(?:-[a-z0-9]+)?")

RUN_ROOT = Path("/run")  # writable by root only, so a predictable name cannot be planted by others
NAMESPACE_ROOT = Path("/run/netns")
# `ip netns exec` lays the files of this folder over /etc, for the program it starts and no other.
ETC_OVERLAY_ROOT = Path("/etc/netns")

STOP_GRACE_S = 2.0
POLL_INTERVAL_S = 0.05

# Nothing of the caller's environment may reach a program: a proxy variable would send its traffic
# elsewhere, and a locale would be offered to an SSH server.
PROGRAM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAM_ENVIRONMENT = {"PATH": PROGRAM_PATH, "LANG": "C.UTF-8", "HOME": "/nonexistent"}

LIBRARY_ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)}

Program = subprocess.Popen[bytes]


class Lab:
    """The namespaces, files and programs of one run; `close` removes all, whatever happened.

    A process has one lab at a time. If the process is killed, a janitor process does what
    `close` would have done.
    """

    def __init__(self) -> None:
        self.prefix = f"{PREFIX}-{os.getpid()}"
        self.run_dir = RUN_ROOT / self.prefix
        self._programs: list[Program] = []
        self._programs_lock = threading.Lock()
        self._closing = threading.Event()
        self._janitor = _start_janitor(self.prefix)
        self.run_dir.mkdir(mode=0o755)

    def namespace(self, host: str) -> str:
        """The full name of a host's namespace, as `ip netns` shows it."""
        return f"{self.prefix}-{host}"

    def namespace_path(self, host: str) -> Path:
        return NAMESPACE_ROOT / self.namespace(host)

    def add_host(self, host: str, *, forwarding: bool = False, ipv6: bool = True) -> None:
        """Adds a namespace with its loopback device up, and no link to anything."""
        checked(["ip", "netns", "add", self.namespace(host)])
        self.ip(host, "link set lo up")
        settings = {
            "net/ipv4/ip_forward": str(int(forwarding)),
            # The paths of testbeds are lopsided by design: data here, acknowledgements there.
            "net/ipv4/conf/all/rp_filter": "0",
            "net/ipv4/conf/default/rp_filter": "0",
        }
        if ipv6:
            settings["net/ipv6/conf/all/forwarding"] = str(int(forwarding))
        else:
            settings["net/ipv6/conf/all/disable_ipv6"] = "1"
            settings["net/ipv6/conf/default/disable_ipv6"] = "1"
        self.sysctl(host, settings)

    def ip(self, host: str, *commands: str) -> None:
        """Runs `ip` commands inside a namespace in one batch; the first that fails ends it."""
        self._batch("ip", host, commands)

    def tc(self, host: str, *commands: str) -> None:
        """Runs `tc` commands inside a namespace in one batch; the first that fails ends it."""
        self._batch("tc", host, commands)

    def tc_show(self, host: str, *words: str) -> str:
        """What `tc` prints about a namespace, as JSON text with counts."""
        return checked(["tc", "-n", self.namespace(host), "-s", "-j", *words])

    def _batch(self, program: str, host: str, commands: Iterable[str]) -> None:
        text = "\n".join(commands) + "\n"
        checked([program, "-n", self.namespace(host), "-batch", "-"], text_in=text)

    def sysctl(self, host: str, settings: Mapping[str, str]) -> None:
        """Writes kernel settings of a namespace: path below /proc/sys → value."""
        script = 'while read -r path value; do echo "$value" >"/proc/sys/$path" || exit 1; done'
        lines = "".join(f"{path} {value}\n" for path, value in settings.items())
        checked(["ip", "netns", "exec", self.namespace(host), "sh", "-c", script], text_in=lines)

    def overlay_etc(self, host: str, file_name: str, text: str, mode: int = 0o644) -> None:
        """Shows the programs of one namespace their own version of a file in /etc."""
        folder = ETC_OVERLAY_ROOT / self.namespace(host)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / file_name
        path.write_text(text)
        path.chmod(mode)

    def start(
        self,
        host: str | None,
        *argv: str | Path,
        log_name: str = "programs",
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Program:
        """Starts a program that stays until `close` at the latest, and prints to a log.

        Without a host it runs outside the namespaces, as the taps do.
        """
        inside = [] if host is None else ["ip", "netns", "exec", self.namespace(host)]
        with self._programs_lock, self.log_path(log_name).open("ab") as log:
            if self._closing.is_set():
                raise LabClosing
            # A session of its own: a Ctrl-C then reaches us alone, and we stop the programs.
            program = subprocess.Popen(
                [*inside, *map(str, argv)],
                stdin=stdin,
                stdout=log if stdout is None else stdout,
                stderr=log if stderr is None else stderr,
                env=PROGRAM_ENVIRONMENT | dict(environment or {}),
                start_new_session=True,
            )
            self._programs.append(program)
        return program

    def start_module(
        self,
        host: str,
        module: str,
        *arguments: str,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
    ) -> Program:
        """Starts a module of this library inside a namespace."""
        return self.start(
            host,
            sys.executable,
            "-B",
            "-m",
            module,
            *arguments,
            stdin=stdin,
            stdout=stdout,
            environment=LIBRARY_ENVIRONMENT,
        )

    def run(
        self,
        host: str,
        *argv: str | Path,
        data_in: bytes = b"",
        statuses_wanted: Iterable[int] = (0,),
        time_max_s: float = 20.0,
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """Runs a program to its end and returns what it printed; an unwanted status is an error."""
        program = self.start(
            host,
            *argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            environment=environment,
        )
        try:
            printed, complaint = program.communicate(data_in, timeout=time_max_s)
        except subprocess.TimeoutExpired:
            program.kill()
            program.communicate()
            raise LabError(
                f"{host}: `{shown(argv)}` still ran after {time_max_s:g} s, and should have ended "
                "by itself; on a busy machine, try again when it is quieter"
            ) from None
        finally:
            with self._programs_lock, contextlib.suppress(ValueError):
                self._programs.remove(program)
        if self._closing.is_set():
            raise LabClosing
        if program.returncode not in statuses_wanted:
            wanted = " or ".join(map(str, statuses_wanted))
            said = (complaint or printed).decode(errors="replace").strip()[-600:]
            raise LabError(
                f"{host}: `{shown(argv)}` ended with status {program.returncode}, "
                f"wanted {wanted}; it said: {said or '(nothing)'}"
            )
        return printed

    def log_path(self, log_name: str) -> Path:
        return self.run_dir / f"{log_name}.log"

    def pause(self, duration_s: float) -> None:
        """Sleeps, but not into the taking down of the lab."""
        if self._closing.wait(max(duration_s, 0.0)):
            raise LabClosing

    def wait_until(self, holds: Callable[[], bool], what: str, time_max_s: float = 10.0) -> None:
        deadline = time.monotonic() + time_max_s
        while not holds():
            if time.monotonic() > deadline:
                raise LabError(
                    f"timed out after {time_max_s:g} s: {what}. Output of the programs: "
                    f"{self.log_tails() or '(nothing)'}"
                )
            self.pause(POLL_INTERVAL_S)

    def wait_for_listener(self, host: str, port: int, protocol: str = "tcp") -> None:
        """Waits until a program inside the namespace takes connections or datagrams at a port."""
        command = ["ss", "-Hln", f"--{protocol}", f"sport = :{port}"]
        self.wait_until(
            lambda: bool(self.run(host, *command)),
            f"a program on {host} listening on {protocol} port {port}",
        )

    def stop(self, *programs: Program) -> None:
        """Asks programs to end, and ends those that do not in time."""
        for program in programs:
            program.terminate()
        for program in programs:
            try:
                program.wait(STOP_GRACE_S)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
        with self._programs_lock:
            for program in programs:
                with contextlib.suppress(ValueError):
                    self._programs.remove(program)

    def abandon(self) -> None:
        """Ends every program, so that threads waiting for one come back."""
        with self._programs_lock:
            self._closing.set()
            running = [program for program in self._programs if program.poll() is None]
        self.stop(*running)

    def close(self) -> None:
        """Ends all programs and removes all namespaces; may be called once, at the end."""
        try:
            self.abandon()
            remove_run(self.prefix)
        finally:
            self._janitor.communicate()  # its input ends; it finds nothing left to do

    def log_tails(self) -> str:
        """The last words of each program that printed any."""
        tails = (
            path.read_text(errors="replace").strip()[-400:]
            for path in sorted(self.run_dir.glob("*.log"))
        )
        return " | ".join(tail for tail in tails if tail)


def stale_runs() -> list[str]:
    """Prefixes of runs that left something behind and whose process is gone."""
    names: set[str] = set()
    for root in (RUN_ROOT, NAMESPACE_ROOT, ETC_OVERLAY_ROOT):
        names.update(entry.name for entry in root.glob(f"{PREFIX}-*"))
    matches = (NAME_PATTERN.fullmatch(name) for name in names)
    process_ids = {f"{PREFIX}-{match[1]}": int(match[1]) for match in matches if match}
    return sorted(prefix for prefix, pid in process_ids.items() if not _is_running(prefix, pid))


def _is_running(prefix: str, process_id: int) -> bool:
    """Whether the process that made a run is still there.

    The number alone is no proof, since the kernel hands process ids out again; ours as well, so
    this must be asked before our first namespace exists. A process that is younger than the folder
    of the run has not made it.
    """
    if process_id == os.getpid():
        return False
    try:
        made_s = (RUN_ROOT / prefix).stat().st_mtime
        words = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    state, started_ticks = words[0], int(words[19])  # proc_pid_stat(5), fields 3 and 22
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return state != "Z" and booted_s + started_ticks / os.sysconf("SC_CLK_TCK") <= made_s


def remove_run(prefix: str) -> None:
    """Removes the namespaces and files of one run, with the programs still inside them."""
    failures: list[str] = []
    for namespace in NAMESPACE_ROOT.glob(f"{prefix}-*"):
        try:
            _end_processes_in(namespace.name)
            checked(["ip", "netns", "delete", namespace.name])
        except LabError as failure:  # the others must go all the same
            # Its janitor may have been quicker.
            if namespace.exists():
                failures.append(str(failure))
    for folder in ETC_OVERLAY_ROOT.glob(f"{prefix}-*"):
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # others may have theirs there
        ETC_OVERLAY_ROOT.rmdir()
    shutil.rmtree(RUN_ROOT / prefix, ignore_errors=True)
    if failures:
        raise LabError(f"could not remove everything of {prefix}: {'; '.join(failures)}")


def _start_janitor(prefix: str) -> Program:
    """Starts the process that cleans up after us if we cannot; see `janitor`."""
    command = [sys.executable, "-B", "-m", "wirelens_testbed.janitor", prefix]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env=PROGRAM_ENVIRONMENT | LIBRARY_ENVIRONMENT,
        start_new_session=True,
    )


def _end_processes_in(namespace: str) -> None:
    # A process can be in there only because this library, or a child of it, started it there.
    deadline = time.monotonic() + STOP_GRACE_S
    while process_ids := checked(["ip", "netns", "pids", namespace]).split():
        gentle = time.monotonic() < deadline
        for process_id in process_ids:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
                os.kill(int(process_id), signal.SIGTERM if gentle else signal.SIGKILL)
        time.sleep(POLL_INTERVAL_S)


def checked(command: list[str], text_in: str = "") -> str:
    """Runs a program outside the namespaces and returns what it printed; it must succeed."""
    done = subprocess.run(
        command,
        check=False,
        input=text_in,
        capture_output=True,
        text=True,
        env=PROGRAM_ENVIRONMENT,
        start_new_session=True,
    )
    if done.returncode != 0:
        said = f"{done.stderr.strip()} {text_in}".strip()
        raise LabError(f"`{shown(command)}` ended with status {done.returncode}, wanted 0: {said}")
    return done.stdout


def shown(argv: Iterable[object]) -> str:
    """A command as a message shows it: on one line, and not too long."""
    text = " ".join(map(str, argv))
    return text if len(text) <= 200 else text[:197] + "..."
