"""BPF objects of the testbed: loaded through libbpf, attached for as long as a descriptor is held.

Everything here lives on links (BPF_LINK_CREATE): the kernel takes a program out of its place when
the last descriptor of its link is closed. So a run that is killed leaves nothing behind, and there
is nothing to tidy up. Neither bpftool nor `tc` can do this, and libbpf is here in any case, since
`ip` and `tc` need it.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from wirelens_testbed.failure import MachineError

FOLDER = Path(__file__).resolve().parent.parent / "bpf"
SUMS_NAME = "SHA256SUMS"
LIBRARY, LIBRARY_PACKAGE = "libbpf.so.1", "libbpf1"
KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")

# Values of linux/bpf.h.
STRUCT_OPS, TCX_EGRESS = 44, 47
MAP_MAY_BE_LINKED = 1 << 13
LINK_OF_STRUCT_OPS = 9
LIBBPF_DEBUG = 2

RETURNING_POINTERS = (
    "bpf_object__open_file",
    "bpf_object__find_map_by_name",
    "bpf_object__find_program_by_name",
    "bpf_map__attach_struct_ops",
)
# A verifier's log comes in one piece, and its last line is the one that counts.
SAID_MAX_CHARS = 1 << 20
PRINT_FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, use_errno=True
)


class LinkInfo(ctypes.Structure):
    """The head of struct bpf_link_info, as far as it tells which map a struct_ops link is of."""

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("program_id", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("map_id", ctypes.c_uint32),
    ]


class MapInfo(ctypes.Structure):
    """The head of struct bpf_map_info."""

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("key_size", ctypes.c_uint32),
        ("value_size", ctypes.c_uint32),
        ("max_entries", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("name", ctypes.c_char * 16),
    ]


class Library:
    """libbpf, and what it had to say of late."""

    def __init__(self) -> None:
        try:
            self._calls = ctypes.CDLL(LIBRARY, use_errno=True)
        except OSError as failure:
            raise MachineError(
                f"{LIBRARY} cannot be loaded ({failure}), and BPF programs need it; try "
                f"apt-get install {LIBRARY_PACKAGE}"
            ) from None
        for name in RETURNING_POINTERS:
            getattr(self._calls, name).restype = ctypes.c_void_p
        self._said: list[str] = []
        self._print = PRINT_FUNCTION(self._hear)  # kept: libbpf goes on calling it
        self._calls.libbpf_set_print(self._print)

    def call(self, name: str, *arguments: object) -> int:
        """Calls a function that answers with an error as NULL or below zero, and errno."""
        self._said.clear()
        result = getattr(self._calls, name)(*arguments)
        if result is None or result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
        return int(result)

    def forget(self, object_at: int) -> None:
        self._calls.bpf_object__close(ctypes.c_void_p(object_at))

    def reason(self) -> str:
        """The last line of the verifier, if it spoke, else of libbpf."""
        lines = [line for text in self._said for line in text.splitlines() if line.strip()]
        verdicts = [line for line in lines if not line.startswith(("libbpf:", "processed", "--"))]
        return (verdicts or lines or ["(nothing)"])[-1].strip()

    def _hear(self, level: int, form: bytes, arguments: int) -> int:
        if level < LIBBPF_DEBUG:
            # The C library fills in; a va_list is handed on as the pointer it came as.
            text = ctypes.create_string_buffer(SAID_MAX_CHARS)
            ctypes.CDLL(None).vsnprintf(
                text, ctypes.c_size_t(SAID_MAX_CHARS), form, ctypes.c_void_p(arguments)
            )
            self._said.append(text.value.decode(errors="replace"))
        return 0


class BpfObject:
    """A compiled object: opened, then loaded into the kernel, then closed.

    What was attached of it stays attached, by links of its own.
    """

    def __init__(self, name: str) -> None:
        path = FOLDER / f"{name}.bpf.o"
        require_kernel()
        require_fresh(path)
        self._name = name
        self.library = Library()
        try:
            at = self.library.call("bpf_object__open_file", os.fsencode(path), None)
        except OSError as failure:
            raise self._refusal(failure) from None
        self._object = ctypes.c_void_p(at)

    def __enter__(self) -> BpfObject:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._object.value is not None
        self.library.forget(self._object.value)

    def map(self, name: str) -> ctypes.c_void_p:
        return self._find("bpf_object__find_map_by_name", name)

    def map_fd(self, name: str) -> int:
        return self.library.call("bpf_map__fd", self.map(name))

    def program_fd(self, name: str) -> int:
        found = self._find("bpf_object__find_program_by_name", name)
        return self.library.call("bpf_program__fd", found)

    def load(self) -> None:
        """Has the kernel verify and take in the programs and maps."""
        try:
            self.library.call("bpf_object__load", self._object)
        except OSError as failure:
            raise self._refusal(failure) from None

    def _find(self, function: str, name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.library.call(function, self._object, name.encode()))

    def _refusal(self, failure: OSError) -> MachineError:
        takes = "it takes root" if failure.errno == errno.EPERM else "it was tried on Linux 6.18"
        return MachineError(
            f"BPF object {self._name}: Linux {platform.release()} does not take it "
            f"({failure.strerror}): {self.library.reason()}; {takes}"
        )


def require_kernel() -> None:
    if not KERNEL_TYPES.exists():
        raise MachineError(
            f"there is no {KERNEL_TYPES}, which BPF programs need; try a kernel built with "
            "CONFIG_DEBUG_INFO_BTF, as Debian's is"
        )


def require_fresh(path: Path) -> None:
    """Raises if the object, or a source it may be made of, is not as when all were built."""
    sums = path.parent / SUMS_NAME
    try:
        wanted = [line.split(maxsplit=1) for line in sums.read_text().splitlines()]
        stale = [name for sha256, name in wanted if _sha256(path.parent / name) != sha256]
        if not any(Path(name).name == path.name for _, name in wanted):
            stale.append(path.name)
    except OSError as failure:
        raise MachineError(f"{failure.filename}: {failure.strerror}; try: make bpf") from None
    if stale:
        raise MachineError(f"{path.parent}: not as built: {', '.join(stale)}; try: make bpf")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def create_link(library: Library, fd: int, target: int, where: int) -> int:
    """Attaches a program, or a map of struct_ops; it goes when the returned descriptor closes."""
    return library.call("bpf_link_create", fd, target, where, None)


def struct_ops_links(library: Library, name: str) -> Iterator[int]:
    """A new descriptor of each link, of whatever process, of the struct_ops map of that name.

    The descriptor is the caller's and keeps the link alive.
    """
    link_id = ctypes.c_uint32(0)
    while True:
        try:
            library.call("bpf_link_get_next_id", link_id, ctypes.byref(link_id))
        except OSError:  # ENOENT: that was the last
            return
        try:
            link_fd = library.call("bpf_link_get_fd_by_id", link_id)
        except OSError:  # it went meanwhile
            continue
        if _struct_ops_name(library, link_fd) == name:
            yield link_fd
        else:
            os.close(link_fd)


def _struct_ops_name(library: Library, link_fd: int) -> str | None:
    link = LinkInfo()
    _read_info(library, link_fd, link)
    if link.type != LINK_OF_STRUCT_OPS:
        return None
    try:
        map_fd = library.call("bpf_map_get_fd_by_id", ctypes.c_uint32(link.map_id))
    except OSError:
        return None
    try:
        its = MapInfo()
        _read_info(library, map_fd, its)
        return bytes(its.name).decode()
    finally:
        os.close(map_fd)


def _read_info(library: Library, fd: int, info: ctypes.Structure) -> None:
    size = ctypes.c_uint32(ctypes.sizeof(info))
    library.call("bpf_obj_get_info_by_fd", fd, ctypes.byref(info), ctypes.byref(size))
