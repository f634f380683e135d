"""A program under the restrictions of a unit of systemd, as far as they can be had without systemd:
its user's rights, its capabilities, its system calls, its view of the file system."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path

from command import PROGRAM, ROOT

UNIT = ROOT / "deploy/systemd/wirelens.service"
HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")

# linux/seccomp.h, linux/filter.h
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
AUDIT_ARCH_X86_64 = 0xC000003E
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2
EPERM = 1
NOBODY = 65534


def settings(name: str) -> list[str]:
    """Values of a setting of the unit, in their order."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


@cache
def group(name: str) -> frozenset[str]:
    """System calls of a group, those of the groups in it too, as systemd has them."""
    shown = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", name],
        check=True, capture_output=True, text=True, timeout=30,
    ).stdout  # fmt: skip
    found: set[str] = set()
    for line in shown.splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            found |= group(word)
        elif word and not word.startswith("#"):
            found.add(word)
    return frozenset(found)


def allowed() -> set[str]:
    """What the lines `SystemCallFilter=` leave."""
    calls: set[str] = set()
    for value in settings("SystemCallFilter"):
        takes_away = value.startswith("~")
        for word in value.lstrip("~").split():
            of_word = group(word) if word.startswith("@") else {word}
            calls = calls - of_word if takes_away else calls | of_word
    # What systemd always allows (systemd.exec(5)).
    return calls | set(group("@default")) | {"execve"}


def program() -> bytes:
    """The filter for seccomp(2): the calls that the unit allows; `EPERM` for the rest, as there."""
    numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", HEADER.read_text()))
    known = sorted(int(numbers[call]) for call in allowed() if call in numbers)
    assert len(known) > 200
    load, equal, give = 0x20, 0x15, 0x06
    # Offsets in `struct seccomp_data`: the call's number, then the architecture.
    code = [(load, 0, 0, 4), (equal, 1, 0, AUDIT_ARCH_X86_64), (give, 0, 0, KILL), (load, 0, 0, 0)]
    for number in known:
        code += [(equal, 0, 1, number), (give, 0, 0, ALLOW)]
    code.append((give, 0, 0, ERRNO | EPERM))
    return b"".join(
        op.to_bytes(2, "little") + bytes([yes, no]) + value.to_bytes(4, "little")
        for op, yes, no, value in code
    )


# Puts a process under a filter, for good, and makes it the program.
FILTERED = f"""
import ctypes, os, sys
code = open(sys.argv[1], "rb").read()
buffer = ctypes.create_string_buffer(code)
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
shown = Program(len(code) // 8, ctypes.addressof(buffer))
prctl = ctypes.CDLL(None).prctl
assert prctl({PR_SET_NO_NEW_PRIVS}, 1, 0, 0, 0) == 0
assert prctl({PR_SET_SECCOMP}, {MODE_FILTER}, ctypes.byref(shown), 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""


def command(state: Path, *arguments: str | Path) -> list[str]:
    """The command line that runs the program as the unit would, with `state` as the one folder that
    can be written. It is started as root; others have to be able to enter the folder."""
    (state / "calls.bpf").write_bytes(program())
    os.chown(state, NOBODY, NOBODY)
    capabilities = settings("AmbientCapabilities")[0].split()
    named = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in capabilities)
    mounts = (
        f"mount --make-rprivate / && mount --bind {state} {state} && "
        "mount -o remount,bind,ro / && mount -t tmpfs -o ro none /root && "
        'exec "$@"'
    )
    dropped = [
        "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs",
        f"--inh-caps=-all,{named}", f"--ambient-caps=-all,{named}", f"--bounding-set=-all,{named}",
    ]  # fmt: skip
    filtered = ["/usr/bin/python3", "-I", "-c", FILTERED, str(state / "calls.bpf")]
    words = [*dropped, *filtered, str(PROGRAM), *map(str, arguments)]
    return ["unshare", "--mount", "sh", "-c", mounts, "sh", *words]
