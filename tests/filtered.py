"""Programs under an older kernel, as far as it shows: system calls that it lacks fail as they would
there (seccomp), and `/proc` names its release."""

import struct
from pathlib import Path

from command import PROGRAM
from sandbox import ALLOW, AUDIT_ARCH_X86_64, ERRNO, FILTERED, KILL

ENOSYS, EINVAL = 38, 22
BPF, IO_URING_SETUP, SETSOCKOPT = 321, 425, 54
SOL_PACKET, PACKET_VERSION = 263, 10

LOAD, EQUAL, GIVE = 0x20, 0x15, 0x06
# Offsets in `struct seccomp_data`: number, architecture, the low half of an argument.
NUMBER, ARCHITECTURE = 0, 4


def argument(index: int) -> int:
    return 16 + 8 * index


def code(*, without: tuple[int, ...] = (), has_ring: bool = True) -> bytes:
    """A filter that lets everything pass but these calls, and packet rings if there are none."""
    steps = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, AUDIT_ARCH_X86_64), (GIVE, 0, 0, KILL)]
    steps.append((LOAD, 0, 0, NUMBER))
    for number in without:
        steps += [(EQUAL, 0, 1, number), (GIVE, 0, 0, ERRNO | ENOSYS)]
    if not has_ring:
        steps += [
            (EQUAL, 0, 5, SETSOCKOPT),
            (LOAD, 0, 0, argument(1)),
            (EQUAL, 0, 3, SOL_PACKET),
            (LOAD, 0, 0, argument(2)),
            (EQUAL, 0, 1, PACKET_VERSION),
            (GIVE, 0, 0, ERRNO | EINVAL),
        ]
    steps.append((GIVE, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def command(folder: Path, rules: bytes, *arguments: str | Path) -> list[str]:
    """The command line of the program under such a filter."""
    path = folder / "calls.bpf"
    path.write_bytes(rules)
    words = ["/usr/bin/python3", "-I", "-c", FILTERED, str(path), str(PROGRAM)]
    return [*words, *map(str, arguments)]


def of_release(folder: Path, release: str, *arguments: str | Path) -> list[str]:
    """The command line of the program where the kernel says that it is of this release."""
    path = folder / "osrelease"
    path.write_text(f"{release}\n")
    script = 'mount --bind "$0" /proc/sys/kernel/osrelease && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, str(path), str(PROGRAM)]
    return [*words, *map(str, arguments)]
