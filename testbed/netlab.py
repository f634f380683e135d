"""Network namespaces for one run, the programs inside them, and their removal.

Every namespace carries a prefix with our process id. That makes two runs at once harmless, and it
lets the next run recognise what a killed one left behind: a name whose process is gone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PREFIX = "wldemo"
NAME_PATTERN = re.compile(rf"{PREFIX}-(\d+)(?:-[a-z]+)?")

RUN_ROOT = Path("/run")  # writable by root only, so a predictable name cannot be planted by others
NAMESPACE_ROOT = Path("/run/netns")
# `ip netns exec` lays the files of this folder over /etc, for the program it starts and no other.
ETC_OVERLAY_ROOT = Path("/etc/netns")

STOP_GRACE_S = 2.0
POLL_INTERVAL_S = 0.05

# Nothing of the caller's environment may reach a program: a proxy variable would send its traffic
# elsewhere, and a locale would be offered to the SSH server.
PROGRAM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAM_ENVIRONMENT = {"PATH": PROGRAM_PATH, "LANG": "C.UTF-8", "HOME": "/nonexistent"}


class LabError(Exception):
    """A step failed; the text says what was seen, what was wanted and what to try."""


class LabClosing(Exception):
    """Raised in a worker thread once the lab is being taken down."""


class Lab:
    """The namespaces, files and processes of one run; `close` removes all, whatever happened."""

    def __init__(self) -> None:
        self.prefix = f"{PREFIX}-{os.getpid()}"
        self.run_dir = RUN_ROOT / self.prefix
        self._programs: list[subprocess.Popen[bytes]] = []
        self._programs_lock = threading.Lock()
        self._closing = threading.Event()
        self.run_dir.mkdir(mode=0o755)

    def namespace(self, host: str) -> str:
        return f"{self.prefix}-{host}"

    def add_namespace(self, host: str) -> None:
        name = self.namespace(host)
        _checked(["ip", "netns", "add", name])
        self.ip(host, "link set lo up")

    def ip(self, host: str, *commands: str) -> None:
        """Runs `ip` commands inside a namespace in one batch; the first that fails ends it."""
        _checked(
            ["ip", "-n", self.namespace(host), "-batch", "-"], text_in="\n".join(commands) + "\n"
        )

    def overlay_etc(self, host: str, file_name: str, text: str, mode: int = 0o644) -> None:
        """Shows the programs of one namespace their own version of a file in /etc."""
        folder = ETC_OVERLAY_ROOT / self.namespace(host)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / file_name
        path.write_text(text)
        path.chmod(mode)

    def start(
        self,
        host: str,
        *argv: str | Path,
        log_name: str = "programs",
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts a program that stays until `close` at the latest, and prints to a log."""
        command = ["ip", "netns", "exec", self.namespace(host), *map(str, argv)]
        with self._programs_lock, self.log_path(log_name).open("ab") as log:
            if self._closing.is_set():
                raise LabClosing
            # A session of its own: a Ctrl-C then reaches us alone, and we stop the programs.
            program = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=log if stdout is None else stdout,
                stderr=log if stderr is None else stderr,
                env=PROGRAM_ENVIRONMENT,
                start_new_session=True,
            )
            self._programs.append(program)
        return program

    def run(
        self,
        host: str,
        *argv: str | Path,
        data_in: bytes = b"",
        statuses_wanted: Iterable[int] = (0,),
        time_max_s: float = 20.0,
    ) -> bytes:
        """Runs a program to its end and returns what it printed; an unwanted status is an error."""
        program = self.start(
            host, *argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            printed, complaint = program.communicate(data_in, timeout=time_max_s)
        except subprocess.TimeoutExpired:
            program.kill()
            program.communicate()
            raise LabError(
                f"{host}: `{_shown(argv)}` still ran after {time_max_s:g} s, and should have ended "
                "by itself; on a busy machine, try again when it is quieter"
            ) from None
        if self._closing.is_set():
            raise LabClosing
        with self._programs_lock:
            self._programs.remove(program)
        if program.returncode not in statuses_wanted:
            wanted = " or ".join(map(str, statuses_wanted))
            said = (complaint or printed).decode(errors="replace").strip()[-600:]
            raise LabError(
                f"{host}: `{_shown(argv)}` ended with status {program.returncode}, "
                f"wanted {wanted}; it said: {said or '(nothing)'}"
            )
        return printed

    def log_path(self, log_name: str) -> Path:
        return self.run_dir / f"{log_name}.log"

    def pause(self, duration_s: float) -> None:
        """Sleeps, but not into the taking down of the lab."""
        if self._closing.wait(duration_s):
            raise LabClosing

    def wait_until(self, holds: Callable[[], bool], what: str, time_max_s: float = 10.0) -> None:
        deadline = time.monotonic() + time_max_s
        while not holds():
            if time.monotonic() > deadline:
                raise LabError(
                    f"waited {time_max_s:g} s for this, in vain: {what}. The programs said: "
                    f"{self._log_tails() or '(nothing)'}"
                )
            self.pause(POLL_INTERVAL_S)

    def wait_for_listener(self, host: str, port: int) -> None:
        command = ["ss", "-Hltun", f"sport = :{port}"]
        self.wait_until(
            lambda: bool(self.run(host, *command)), f"a program on {host} listening on port {port}"
        )

    def stop(self, *programs: subprocess.Popen[bytes]) -> None:
        for program in programs:
            program.terminate()
        for program in programs:
            try:
                program.wait(STOP_GRACE_S)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()

    def abandon(self) -> None:
        """Ends every program, so that threads waiting for one come back."""
        with self._programs_lock:
            self._closing.set()
            running = [program for program in self._programs if program.poll() is None]
        self.stop(*running)

    def close(self) -> None:
        self.abandon()
        _remove_run(self.prefix)

    def _log_tails(self) -> str:
        tails = (
            path.read_text(errors="replace").strip()[-400:] for path in self.run_dir.glob("*.log")
        )
        return " | ".join(tail for tail in tails if tail)


def remove_stale_runs(owner_script: str) -> list[str]:
    """Removes what killed runs left behind, and returns their prefixes."""
    names: set[str] = set()
    for root in (RUN_ROOT, NAMESPACE_ROOT, ETC_OVERLAY_ROOT):
        names.update(entry.name for entry in root.glob(f"{PREFIX}-*"))
    matches = (NAME_PATTERN.fullmatch(name) for name in names)
    process_ids = {int(match[1]) for match in matches if match}
    stale = sorted(f"{PREFIX}-{pid}" for pid in process_ids if not _is_running(pid, owner_script))
    for prefix in stale:
        _remove_run(prefix)
    return stale


def other_runs_exist() -> bool:
    return any(entry.name != f"{PREFIX}-{os.getpid()}" for entry in RUN_ROOT.glob(f"{PREFIX}-*"))


def _is_running(process_id: int, script_name: str) -> bool:
    # The number alone is no proof, since the kernel hands process ids out again; ours as well, so
    # this must be asked before our first namespace exists.
    if process_id == os.getpid():
        return False
    try:
        return script_name.encode() in Path(f"/proc/{process_id}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _remove_run(prefix: str) -> None:
    failures: list[str] = []
    for namespace in NAMESPACE_ROOT.glob(f"{prefix}-*"):
        try:
            _end_processes_in(namespace.name)
            _checked(["ip", "netns", "delete", namespace.name])
        except LabError as failure:  # the others must go all the same
            failures.append(str(failure))
    for folder in ETC_OVERLAY_ROOT.glob(f"{prefix}-*"):
        shutil.rmtree(folder, ignore_errors=True)
    if ETC_OVERLAY_ROOT.is_dir() and not any(ETC_OVERLAY_ROOT.iterdir()):
        ETC_OVERLAY_ROOT.rmdir()
    shutil.rmtree(RUN_ROOT / prefix, ignore_errors=True)
    if failures:
        raise LabError(f"could not remove everything of {prefix}: {'; '.join(failures)}")


def _end_processes_in(namespace: str) -> None:
    # A process can be in there only because this script, or a child of it, started it there.
    deadline = time.monotonic() + STOP_GRACE_S
    while process_ids := _checked(["ip", "netns", "pids", namespace]).split():
        gentle = time.monotonic() < deadline
        for process_id in process_ids:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
                os.kill(int(process_id), signal.SIGTERM if gentle else signal.SIGKILL)
        time.sleep(POLL_INTERVAL_S)


def _checked(command: list[str], text_in: str = "") -> str:
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
        said = f"{done.stderr.strip()} {text_in}"
        raise LabError(f"`{_shown(command)}` ended with status {done.returncode}, wanted 0: {said}")
    return done.stdout


def _shown(argv: Iterable[object]) -> str:
    text = " ".join(map(str, argv))
    return text if len(text) <= 200 else text[:197] + "..."
