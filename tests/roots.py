"""Roots of Debian, each made once by debootstrap, which takes a network and a minute.

They are kept below `target/`.
"""

import fcntl
import shutil
import subprocess
from pathlib import Path

from command import ROOT

SUITES = {"11": "bullseye", "12": "bookworm"}
EMULATOR = "qemu-aarch64-static"
# Of commands in a root.
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


def kept(name: str, *options: str) -> Path:
    """The folder `target/debian-NAME`, where NAME begins with the version; nobody may change it."""
    folder = ROOT / "target" / f"debian-{name}"
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        # Tests of two files may want it at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return folder if folder.is_dir() else _made(folder, name, *options)


def _made(folder: Path, name: str, *options: str) -> Path:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", *options, SUITES[name[:2]], partial]
    subprocess.run(command, check=True)
    if "--foreign" in options:
        # What debootstrap would install in the emulated root is unpacked, which is enough to run
        # programs there.
        for package in sorted((partial / "var/cache/apt/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, partial], check=True)
        emulator = shutil.which(EMULATOR)
        assert emulator, f"{EMULATOR}: not found in PATH; try: apt-get install qemu-user-static"
        shutil.copy(emulator, partial / "qemu")
    partial.rename(folder)
    return folder
