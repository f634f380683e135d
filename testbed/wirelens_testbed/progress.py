"""Progress on standard error: a line for each step, on a terminal a bar if its time is known."""

from __future__ import annotations

import sys
import threading
import time

BAR_WIDTH = 30
REFRESH_S = 0.5


class Progress:
    """Prints steps on standard error; each ends the one before."""

    def __init__(self, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._is_terminal = sys.stderr.isatty()
        self._started_s = time.monotonic()
        self._step_over = threading.Event()
        self._bar: threading.Thread | None = None
        self._lock = threading.RLock()  # steps are told by the threads that make them

    def tell(self, text: str, duration_s: float = 0.0) -> None:
        """Says what happens now, and how long it will take if that is known."""
        if self._is_quiet:
            return
        with self._lock:
            self.finish()
            past_s = time.monotonic() - self._started_s
            print(f"[{past_s:6.1f} s] {text}", file=sys.stderr, flush=True)
            if duration_s > 2 * REFRESH_S and self._is_terminal:
                self._step_over.clear()
                self._bar = threading.Thread(target=self._draw, args=(duration_s,), daemon=True)
                self._bar.start()

    def finish(self) -> None:
        """Takes the bar away, if there is one."""
        with self._lock:
            if self._bar:
                self._step_over.set()
                self._bar.join()
                self._bar = None

    def _draw(self, duration_s: float) -> None:
        begun_s = time.monotonic()
        while not self._step_over.wait(REFRESH_S):
            past_s = min(time.monotonic() - begun_s, duration_s)
            bar = "━" * round(BAR_WIDTH * past_s / duration_s)
            text = f"{bar:╌<{BAR_WIDTH}} {past_s:.0f} of {duration_s:.0f} s"
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
        # Erased to the end of the line: whatever comes next begins where the bar began.
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
