"""A Debian 12 with systemd as its PID 1, in namespaces of a test's own: processes, mounts, network,
host name and control groups. It has no interface but loopback and what a test makes there.

It ends with its first process, however the test ends, and leaves nothing behind.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from command import ROOT
from lab import wait_until
from roots import ENVIRONMENT

KEPT = ROOT / "target/debian-12-systemd"
PACKAGES = ("systemd", "systemd-sysv", "iproute2", "dbus", "libpcap0.8")
BOOT_MAX_S = 30

# What is mounted before systemd is PID 1. Its /sys is that of its network.
BOOT = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
  touch dev/$device
  mount --bind /dev/$device dev/$device
done
mkdir dev/shm dev/pts dev/mqueue run/systemd
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t mqueue mqueue dev/mqueue
ln -s /proc/self/fd dev/fd
echo test > run/systemd/container
pivot_root . mnt
umount -l /mnt
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system \
  --unit=multi-user.target
"""


def with_systemd(fresh: Path) -> Path:
    """The same with systemd."""
    if not KEPT.is_dir():
        partial = KEPT.with_name(f"{KEPT.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        subprocess.run(["cp", "--archive", "--reflink=auto", fresh, partial], check=True)
        for command in (
            ("apt-get", "update", "-qq"),
            ("apt-get", "install", "-qq", "--no-install-recommends", *PACKAGES),
        ):
            subprocess.run(
                ["/usr/sbin/chroot", partial, *command],
                check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True,
            )  # fmt: skip
        for unit in ("console-getty.service", "apt-daily.timer", "apt-daily-upgrade.timer"):
            (partial / "etc/systemd/system" / unit).symlink_to("/dev/null")
        partial.rename(KEPT)
    return KEPT


def unified() -> Path:
    """Where control groups of version 2 are mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    pytest.skip("no control groups of version 2, which systemd needs")


class Machine:
    """One that has booted."""

    def __init__(self, root: Path, pid: int) -> None:
        self.root, self.pid = root, pid

    def inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", f"--target={self.pid}", "--all", *words],
            check=False, capture_output=True, text=True, env=ENVIRONMENT, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self, *words: str) -> str:
        """What a command prints, which ends well."""
        done = self.inside(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr, self.journal())
        return done.stdout

    def show(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def journal(self, unit: str = "wirelens") -> str:
        words = ("journalctl", "--no-pager", "--output=cat", f"--unit={unit}")
        return self.inside(*words).stdout

    def network(self) -> int:
        return os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def first_child(parent: int) -> int | None:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(children[0]) if children else None


def remove(group: Path) -> None:
    """A control group and those below it, once their processes have ended."""
    deadline = time.monotonic() + 10
    while group.is_dir():
        below = [Path(folder) for folder, _, _ in os.walk(group, topdown=False)]
        with suppress(OSError):
            for folder in below:
                folder.rmdir()
        assert time.monotonic() < deadline, f"{group} is in use"


@contextmanager
def booted(root: Path) -> Iterator[Machine]:
    """A machine with this root, whose units are all started."""
    group = unified() / f"wirelens-{os.getpid()}"
    group.mkdir()
    log = root.with_suffix(".boot")
    spaces = ("--fork", "--kill-child", "--pid", "--mount", "--cgroup", "--net", "--ipc", "--uts")
    # A shell enters the control group first: the namespace's root is where its maker is.
    enter = f'echo $$ > {group}/cgroup.procs && exec unshare "$@"'
    command = ["sh", "-c", enter, "sh", *spaces, "sh", "-c", BOOT, "boot", root]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        wait_until(lambda: first_child(process.pid) is not None, "a first process")
        machine = Machine(root, first_child(process.pid) or 0)

        def is_up() -> bool:
            assert process.poll() is None, log.read_text()
            name = Path(f"/proc/{machine.pid}/comm").read_text().strip()
            if name != "systemd":
                return False
            state = machine.inside("systemctl", "is-system-running").stdout.strip()
            assert state != "degraded", machine.run("systemctl", "--failed", "--no-pager")
            return state == "running"

        try:
            wait_until(is_up, "all units are started", BOOT_MAX_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()}") from None
        yield machine
    finally:
        # Its first process ends with it, and all others with that one.
        process.send_signal(signal.SIGKILL)
        process.wait()
        remove(group)
