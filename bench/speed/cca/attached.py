"""BPF programs of a few instructions: what a tap takes by itself."""

import contextlib
import ctypes
import os
import socket
import struct
import threading
from collections.abc import Iterator

LIBC = ctypes.CDLL(None, use_errno=True)
# System calls of bpf(2) on x86-64 and its commands.
BPF = 321
PROG_LOAD, PROG_TEST_RUN, PROG_GET_FD_BY_ID, LINK_CREATE = 5, 10, 13, 28
SCHED_CLS = 3
TCX_INGRESS, BEFORE_OTHERS = 46, 1 << 3
CLONE_NEWNET = 0x40000000

Instruction = tuple[int, int, int, int]
# What is behind has its turn (TCX_NEXT).
EMPTY: list[Instruction] = [(0xB7, 0, 0, -1), (0x95, 0, 0, 0)]


def bpf(command: int, attributes: bytes) -> bytes:
    """What the kernel answers: a number, and the attributes as it leaves them."""
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    answer = LIBC.syscall(BPF, command, buffer, 128)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return struct.pack("=i", answer) + buffer.raw


def program(instructions: list[Instruction]) -> int:
    """Loads it."""
    code = b"".join(struct.pack("=BBhi", *one) for one in instructions)
    held = ctypes.create_string_buffer(code, len(code))
    text = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack(
        "=IIQQ", SCHED_CLS, len(instructions), ctypes.addressof(held), ctypes.addressof(text)
    )
    return struct.unpack_from("=i", bpf(PROG_LOAD, attributes))[0]


@contextlib.contextmanager
def attached(place: str, instructions: list[Instruction]) -> Iterator[None]:
    """At what a device of a namespace receives, before all others."""
    namespace, device = place.split(":")
    links: list[int] = []

    def inside() -> None:
        with open(f"/run/netns/{namespace}") as file:
            if LIBC.setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        loaded = program(instructions)
        index = socket.if_nametoindex(device)
        answer = bpf(LINK_CREATE, struct.pack("=IIII", loaded, index, TCX_INGRESS, BEFORE_OTHERS))
        os.close(loaded)
        links.append(struct.unpack_from("=i", answer)[0])

    # A thread of its own, since one that went there does not come back.
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    try:
        yield
    finally:
        for link in links:
            os.close(link)
