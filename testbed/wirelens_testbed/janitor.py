"""Cleans up after a run that was killed: `python -m wirelens_testbed.janitor PREFIX`.

No process can clean up after its own SIGKILL. This one waits on a pipe whose other
end only the run holds. When the run ends, in any way, the pipe closes, and the remaining
namespaces and files of the run are removed.
"""

from __future__ import annotations

import signal
import sys

from wirelens_testbed.lab import remove_run


def main() -> None:
    # Whoever ends a whole group of processes must not end the one that tidies up after them.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    remove_run(sys.argv[1])


if __name__ == "__main__":
    main()
