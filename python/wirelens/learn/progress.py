"""What a waiting person sees of a pool in training: a line a model, and on a terminal a bar."""

import sys
import time
from typing import TextIO

_BAR_WIDTH = 24


class Progress:
    """Tells steps on standard error."""

    def __init__(self, is_quiet: bool = False, stream: TextIO | None = None) -> None:
        self._is_quiet = is_quiet
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._started_s = time.monotonic()
        self._has_bar = False

    def tell(self, text: str) -> None:
        """Says what happened, or happens now."""
        if self._is_quiet:
            return
        self._erase()
        past_s = time.monotonic() - self._started_s
        print(f"[{past_s:6.1f} s] {text}", file=self._stream, flush=True)

    def warn(self, text: str) -> None:
        """Says what may be wrong, also where no progress is wanted."""
        self._erase()
        print(f"warning: {text}", file=self._stream, flush=True)

    def show(self, done: int, total: int, text: str) -> None:
        """A bar of what is done, on a terminal only."""
        if self._is_quiet or not self._is_terminal:
            return
        bar = "━" * round(_BAR_WIDTH * done / max(total, 1))
        print(
            f"\r\x1b[K{bar:╌<{_BAR_WIDTH}} {done} of {total}: {text}",
            end="",
            file=self._stream,
            flush=True,
        )
        self._has_bar = True

    def finish(self) -> None:
        """Takes the bar away, if there is one."""
        self._erase()

    def _erase(self) -> None:
        if self._has_bar:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
            self._has_bar = False
