"""Here, so that tests in folders below find `command` and `captures` beside it."""

import signal
from collections.abc import Iterator

import pytest
from disks import new_mounts


def pytest_configure() -> None:
    """Tests press Ctrl-C, which a background job of a shell ignores, and its children with it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def mounts() -> Iterator[None]:
    """What the test mounts is its own, and gone when it ends."""
    with new_mounts():
        yield
