"""Congestion controls of our own, as BPF programs that the kernel runs as it runs those built in.

A control is registered for the whole machine, under one name, and any root process can choose it
for a socket. It stays as long as a process holds a descriptor of its link: several runs share one
registration, and the last that ends, however it ends, takes it away. Connections that still use a
control then keep it to their end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterable, Iterator

from wirelens_testbed import bpf
from wirelens_testbed.failure import MachineError

# Name of the control and of its object → what it is. The prefix keeps the kernel's own apart.
CONTROLS = {
    "wl_dctcp": "DCTCP, RFC 8257",
    "wl_prague": "Prague-like, draft-briscoe-iccrg-prague-congestion-control",
    "wl_vegas": "Vegas, Brakmo and Peterson 1995",
    "wl_scalable": "Scalable TCP, Kelly 2003",
    "wl_illinois": "TCP-Illinois, Liu, Basar and Srikant 2006",
    "wl_htcp": "H-TCP, Leith and Shorten 2004",
}
# Scenarios and tables call them by the names of their papers.
PREFIX = "wl_"
# Controls that do their work only if both ends of a connection run them.
BOTH_ENDS = frozenset({"wl_dctcp", "wl_prague"})

# Another run may be on its way in, or on its way out, with the same control.
ATTEMPTS_MAX = 50
ATTEMPT_INTERVAL_S = 0.1


def kernel_name(name: str) -> str:
    """The name by which a socket asks for a control; ours have a prefix."""
    return PREFIX + name if PREFIX + name in CONTROLS else name


@contextlib.contextmanager
def registered(names: Iterable[str]) -> Iterator[None]:
    """Makes those of the names that are ours known to the kernel; the others are not looked at."""
    with contextlib.ExitStack() as held:
        for name in sorted(set(names) & CONTROLS.keys()):
            held.callback(os.close, _hold(name))
        yield


def _hold(name: str) -> int:
    """A descriptor that keeps a control registered, ours or one shared with another run."""
    with bpf.BpfObject(name) as control:
        control.library.call("bpf_map__set_map_flags", control.map(name), bpf.MAP_MAY_BE_LINKED)
        control.load()
        # Fills in the kernel's table of functions. libbpf 1.1 would also take it for registered.
        control.library.call("bpf_map__attach_struct_ops", control.map(name))
        for _ in range(ATTEMPTS_MAX):
            for shared in bpf.struct_ops_links(control.library, name):
                return shared
            try:
                return bpf.create_link(control.library, control.map_fd(name), 0, bpf.STRUCT_OPS)
            except OSError as failure:
                if failure.errno != errno.EEXIST:
                    raise MachineError(
                        f"congestion control {name}: the kernel does not register it "
                        f"({failure.strerror}); struct_ops links take Linux 6.4"
                    ) from None
            time.sleep(ATTEMPT_INTERVAL_S)
    raise MachineError(
        f"congestion control {name}: another program registered one of this name without a link, "
        f"and it stays; try: bpftool struct_ops unregister name {name}"
    )
