"""A queue that marks: Congestion Experienced on packets that find more than so many bytes waiting.

The mark is set by a BPF program at tc egress of the bottleneck; see `testbed/bpf/ce_mark.bpf.c`.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

from wirelens_testbed import bpf, egress
from wirelens_testbed.lab import Lab

OBJECT = PROGRAM = "ce_mark"
STATE_MAP = "ce_mark_state"


class State(ctypes.Structure):
    """struct ce_mark of the program."""

    _fields_ = [
        ("threshold_bytes", ctypes.c_uint64),
        ("seen", ctypes.c_uint64),
        ("above_threshold", ctypes.c_uint64),
        ("marked", ctypes.c_uint64),
        ("backlog_max_bytes", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class Counts:
    """Counts of the queue: packets that arrived, that met a long queue, that were marked for it.

    Packets without ECN are above the threshold but not marked. With
    offloads on, a packet here is one of the sender's large ones, up to 64 kB.
    """

    seen: int
    above_threshold: int
    marked: int
    backlog_max_bytes: int


class CeMarking:
    """Marking at a device, from construction to `stop`, or to the end of the process at the latest.

    The queue is the root qdisc of the device and has to be there before; what waits in it is read
    from the kernel for every packet. The packet that comes is not counted as waiting.
    """

    def __init__(self, lab: Lab, host: str, device: str, threshold_bytes: int) -> None:
        with bpf.BpfObject(OBJECT) as loaded:
            loaded.load()
            self._library = loaded.library
            self._state_fd = os.dup(loaded.map_fd(STATE_MAP))
            self._write(State(threshold_bytes=threshold_bytes))
            program_fd = loaded.program_fd(PROGRAM)
            self._link_fd = egress.attach(loaded.library, program_fd, lab, host, device)

    def counts(self) -> Counts:
        state = State()
        self._library.call("bpf_map_lookup_elem", self._state_fd, _KEY, ctypes.byref(state))
        return Counts(state.seen, state.above_threshold, state.marked, state.backlog_max_bytes)

    def stop(self) -> Counts:
        """Ends the marking; call it once."""
        counts = self.counts()
        os.close(self._link_fd)
        os.close(self._state_fd)
        return counts

    def _write(self, state: State) -> None:
        value = ctypes.byref(state)
        self._library.call("bpf_map_update_elem", self._state_fd, _KEY, value, ctypes.c_uint64(0))


_KEY = ctypes.byref(ctypes.c_uint32(0))
