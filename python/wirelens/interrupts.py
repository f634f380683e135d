"""Ctrl-C while an interface is listened on: it ends the listening, and what was found is kept."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Protocol


class Stoppable(Protocol):
    """Something that can be stopped."""

    def stop(self) -> None:
        """Ends, and hands over what was found."""


@contextlib.contextmanager
def stopping(run: Stoppable) -> Iterator[None]:
    """Has the first Ctrl-C stop `run`; the second one interrupts as usual.

    Signals are the main thread's, and a program that handles them itself goes on doing so.
    """
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not is_ours:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run.stop()

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
