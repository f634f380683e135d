"""Whether this machine can run a scenario, and what is missing if not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from wirelens_testbed import controls
from wirelens_testbed.failure import MachineError
from wirelens_testbed.lab import PROGRAM_PATH

# What every run needs, and the Debian package of each.
PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "ethtool": "ethtool"}
TUN_CONTROL = Path("/dev/net/tun")
CONTROLS_OFFERED = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")
# Debian asks this script, where it exists, before it starts the service of a new package.
SERVICE_POLICY_PATH = Path("/usr/sbin/policy-rc.d")
INSTALL_TIME_MAX_S = 1800.0


def require(programs: Mapping[str, str]) -> None:
    """Raises one error that names all that is missing: rights, devices, programs."""
    lacks = what_is_missing(programs)
    if lacks:
        raise MachineError("; ".join(lacks))


def what_is_missing(programs: Mapping[str, str]) -> list[str]:
    """A sentence for each thing that is missing; each says what to try."""
    lacks: list[str] = []
    if os.geteuid() != 0:
        lacks.append(
            f"runs as user id {os.geteuid()}, but network namespaces take root; try sudo with the "
            "same command"
        )
    if not TUN_CONTROL.exists():
        lacks.append(f"there is no {TUN_CONTROL}, which delays need; try: modprobe tun")
    packages = missing_packages(programs)
    if packages:
        names = ", ".join(
            sorted(name for name in (PROGRAMS | dict(programs)) if not _has_program(name))
        )
        lacks.append(
            f"these programs are missing: {names}; try `wirelens testbed check --install`, or "
            f"apt-get install --no-install-recommends {' '.join(packages)}"
        )
    return lacks


def missing_packages(programs: Mapping[str, str]) -> list[str]:
    """Debian packages of the programs that are not here."""
    wanted = PROGRAMS | dict(programs)
    return sorted({package for name, package in wanted.items() if not _has_program(name)})


def require_controls(names: Iterable[str]) -> None:
    """Congestion controls must be the kernel's, or ours and registered before this is asked."""
    own = ", ".join(name.removeprefix(controls.PREFIX) for name in controls.CONTROLS)
    offered = CONTROLS_OFFERED.read_text().split()
    for name in names:
        if name not in offered:
            raise MachineError(
                f"congestion control {name}: the kernel offers {', '.join(offered)}, and the "
                f"testbed {own}; try one of those, or: modprobe tcp_{name}"
            )


def install(packages: list[str]) -> None:
    """Installs packages with services held back: a testbed must start no server on the machine."""
    if not packages:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get", path=PROGRAM_PATH):
        raise MachineError(
            f"missing: {' '.join(packages)}; installing them takes root and apt-get. By hand: "
            f"apt-get install --no-install-recommends {' '.join(packages)}"
        )
    held_back = SERVICE_POLICY_PATH.exists()
    if not held_back:
        SERVICE_POLICY_PATH.write_text("#!/bin/sh\nexit 101\n")
        SERVICE_POLICY_PATH.chmod(0o755)
    try:
        _apt("update", "-qq")
        _apt("install", "-qq", "--yes", "--no-install-recommends", *packages)
    finally:
        if not held_back:
            SERVICE_POLICY_PATH.unlink(missing_ok=True)


def _apt(*arguments: str) -> None:
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=600", *arguments]
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        timeout=INSTALL_TIME_MAX_S,
    )
    if done.returncode != 0:
        raise MachineError(f"`{' '.join(command)}` failed: {done.stderr.strip()[-600:]}")


def _has_program(name: str) -> bool:
    return shutil.which(name, path=PROGRAM_PATH) is not None
