"""A program at tc egress of a device in a namespace, for as long as its descriptor is held."""

from __future__ import annotations

import ctypes
import socket
import threading

from wirelens_testbed import bpf
from wirelens_testbed.failure import LabError
from wirelens_testbed.lab import Lab

CLONE_NEWNET = 0x40000000


def attach(library: bpf.Library, program_fd: int, lab: Lab, host: str, device: str) -> int:
    """Links the program to a device, from a thread of its own inside the device's namespace."""
    results: list[int | OSError] = []

    def enter_and_attach() -> None:
        try:
            with lab.namespace_path(host).open() as namespace:
                libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
                if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            index = socket.if_nametoindex(device)
            results.append(bpf.create_link(library, program_fd, index, bpf.TCX_EGRESS))
        except OSError as failure:
            results.append(failure)

    thread = threading.Thread(target=enter_and_attach)
    thread.start()
    thread.join()
    (result,) = results
    if isinstance(result, OSError):
        raise LabError(
            f"{host}: no program can be attached at tc egress of {device}: {result.strerror}; "
            "the device must exist, and links at tc take Linux 6.6"
        )
    return result
