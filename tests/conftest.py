"""Here, so that tests in folders below find `command` and `captures` beside it."""

from collections.abc import Iterator

import pytest
from disks import new_mounts


@pytest.fixture
def mounts() -> Iterator[None]:
    """What the test mounts is its own, and gone when it ends."""
    with new_mounts():
        yield
