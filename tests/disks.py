"""Disks of a test's own, on files: made slow, taken away or spoilt by the kernel itself.

They are mounted in a mount namespace of the calling thread, and seen by what it starts. Their
loop devices end with their mounts, and those with the namespace, however that ends.
"""

import contextlib
import fcntl
import itertools
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import TIME_MAX_S
from lab import LIBC, checked

CLONE_NEWNS = 0x00020000
# Of ext4: every access fails from now on, as that to a disk that was pulled out.
EXT4_IOC_SHUTDOWN, WITHOUT_FLUSHING = 0x8004587D, 2
NUMBERS = itertools.count()


def run(*words: str | Path) -> str:
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=TIME_MAX_S)
    return done.stdout.strip()


@contextlib.contextmanager
def new_mounts() -> Iterator[None]:
    """Mounts of this thread and of what it starts, which nobody else sees."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for mounts of its own")
    before = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    folder = Path.cwd()
    try:
        checked(LIBC.unshare(CLONE_NEWNS), "unshare")
        run("mount", "--make-rprivate", "/")
        yield
    finally:
        checked(LIBC.setns(before, CLONE_NEWNS), "setns")
        os.close(before)
        os.chdir(folder)


class Disk:
    """A disk with ext4 on a file in `folder`, mounted at `path`."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        if not shutil.which("mkfs.ext4") or not Path("/dev/loop-control").exists():
            pytest.skip("needs mkfs.ext4 and loop devices, for a disk of its own")
        self._image = folder / "disk.img"
        with self._image.open("wb") as file:
            file.truncate(size_bytes)
        run("mkfs.ext4", "-q", "-m", "0", self._image)
        self.path = folder / "disk"
        self.path.mkdir()
        self._mount()

    def _mount(self) -> None:
        run("mount", "-o", "loop,errors=remount-ro", self._image, self.path)
        self.device = Path(run("findmnt", "-n", "-o", "SOURCE", self.path))

    @property
    def number(self) -> str:
        """As control groups name it."""
        device = self.device.stat().st_rdev
        return f"{os.major(device)}:{os.minor(device)}"

    def pull(self) -> None:
        """From now on nothing can be written or read any more."""
        root = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(root, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING))
        finally:
            os.close(root)

    def break_down(self) -> None:
        """The file system finds an error in itself, and takes no writes any more."""
        trigger = Path("/sys/fs/ext4", self.device.name, "trigger_fs_error")
        if not trigger.exists():
            pytest.skip(f"needs {trigger.name} of ext4, for a file system that turns read-only")
        trigger.write_text("a test's")

    def unmount(self) -> None:
        """Out of the tree; what is open stays open."""
        run("umount", "--lazy", self.path)

    def mount_again(self) -> None:
        """As after the next start of the machine, checked before it is trusted."""
        if self.path.is_mount():
            run("umount", self.path)
        # 1: errors were found and corrected.
        checking = ["e2fsck", "-p", "-f", self._image]
        checked_by = subprocess.run(checking, check=False, capture_output=True, timeout=TIME_MAX_S)
        assert checked_by.returncode in {0, 1}, checked_by
        self._mount()


class Brake:
    """A control group whose processes write to a disk at a chosen pace."""

    def __init__(self, folder: Path, file: str, line: str) -> None:
        self._folder, self._file, self._line = folder, file, line

    def hold(self, process: int) -> None:
        """Its writes are slowed down from now on, as far as `limit` says."""
        (self._folder / "cgroup.procs").write_text(str(process))

    def limit(self, disk: Disk, bytes_per_s: int | None) -> None:
        """To so many bytes a second, or as fast as it can."""
        unlimited = "0" if "blkio" in self._file else "max"
        pace = unlimited if bytes_per_s is None else str(bytes_per_s)
        (self._folder / self._file).write_text(self._line.format(disk.number, pace))


def brake_of(mounts: str) -> tuple[Path, str, str] | None:
    """Where groups are made that slow writes, by what /proc/mounts says, and how they are told."""
    for line in mounts.splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup" and "blkio" in options.split(","):
            file = "blkio.throttle.write_bps_device"
            if Path(place, file).exists():
                return Path(place), file, "{} {}"
        control = Path(place, "cgroup.subtree_control")
        if kind == "cgroup2" and "io" in Path(place, "cgroup.controllers").read_text().split():
            control.write_text("+io")
            return Path(place), "io.max", "{} wbps={}"
    return None


@contextlib.contextmanager
def new_brake() -> Iterator[Brake]:
    """Its processes have to have ended when it ends."""
    found = brake_of(Path("/proc/self/mounts").read_text())
    if found is None:
        pytest.skip("needs a control group that slows writes (blkio or io), for a slow disk")
    place, file, line = found
    folder = place / f"wirelens-{os.getpid()}-{next(NUMBERS)}"
    folder.mkdir()
    try:
        yield Brake(folder, file, line)
    finally:
        folder.rmdir()
