"""ECT(1) for packets of L4S flows: a program at tc egress of each sender (`ect1.bpf.c`)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from dataclasses import dataclass

from wirelens_testbed import bpf, egress
from wirelens_testbed.lab import Lab

OBJECT = PROGRAM = "ect1"
STATE_MAP = "ect1_state"
# SO_MARK of the sockets whose packets are changed; the program's MARK_L4S.
MARK = 0x4C3453
# Values that the program draws.
DRAWS = 1 << 32
# BPF_ANY of linux/bpf.h.
ANY = 0
_KEY = ctypes.byref(ctypes.c_uint32(0))


class State(ctypes.Structure):
    """struct ect1 of the program."""

    _fields_ = [
        ("seen", ctypes.c_uint64),
        ("changed", ctypes.c_uint64),
        ("remarked", ctypes.c_uint64),
        ("remark_below", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class Counts:
    """Packets of L4S flows that left their senders; of them those that became ECT(1), which has all
    with data; and those that became Not-ECT instead."""

    seen: int
    changed: int
    remarked: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.seen + other.seen, self.changed + other.changed, self.remarked + other.remarked
        )


class Ect1Marking:
    """Marking at the senders, from construction to `stop`, or to the end of the process.

    Of the packets a random share becomes Not-ECT instead of ECT(1).
    """

    def __init__(
        self, lab: Lab, hosts: Iterable[str], device: str, remarked_share: float = 0.0
    ) -> None:
        self._held: list[int] = []
        with bpf.BpfObject(OBJECT) as loaded:
            loaded.load()
            self._library = loaded.library
            self._state_fd = os.dup(loaded.map_fd(STATE_MAP))
            self._held.append(self._state_fd)
            state = State(remark_below=round(remarked_share * DRAWS))
            loaded.library.call(
                "bpf_map_update_elem", self._state_fd, _KEY, ctypes.byref(state), ANY
            )
            program_fd = loaded.program_fd(PROGRAM)
            for host in hosts:
                self._held.append(egress.attach(loaded.library, program_fd, lab, host, device))

    def stop(self) -> Counts:
        """Ends the marking; call it once."""
        state = State()
        self._library.call("bpf_map_lookup_elem", self._state_fd, _KEY, ctypes.byref(state))
        for descriptor in self._held:
            os.close(descriptor)
        return Counts(state.seen, state.changed, state.remarked)
