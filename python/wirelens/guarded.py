"""How commands end that are Python's, such as `wirelens train`: with a line and an exit status.

Exit status: 0 fine, 1 error, 2 wrong usage, 130 interrupted.
"""

import io
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from wirelens.compat import install_line
from wirelens.errors import MissingPackageError, OptionError, WirelensError

INTERRUPTED = 130


class Display(Protocol):
    """What stands on the terminal while work is done."""

    def finish(self) -> None:
        """Leaves the terminal to others."""


Preparation = tuple[Display, Callable[[], None]]


def run(package: str, prepare: Callable[[], Preparation], if_interrupted: str) -> int:
    """Does what `prepare` says once its imports are there and the arguments read."""
    # A locale without a letter, such as that of µs, is no reason to lose the work.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        shown, work = prepare()
    except ModuleNotFoundError as error:
        # What trains is an extra of the package, and may not be here.
        if error.name is None or error.name.startswith("wirelens"):
            raise
        print(
            f"error: {package} needs {error.name}, which is not installed; "
            f"{install_line('train')}",
            file=sys.stderr,
        )
        return 1
    except MissingPackageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    try:
        work()
    except OptionError as error:
        return _failed(shown, error, 2)
    except (WirelensError, MissingPackageError) as error:
        return _failed(shown, error, 1)
    except OSError as error:
        return _failed(shown, _told(error), 1)
    except KeyboardInterrupt:
        shown.finish()
        print(f"interrupted; {if_interrupted}", file=sys.stderr)
        return INTERRUPTED
    return 0


def exit_with(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Ends the process as `main` does with what was typed."""
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        # Before there was anything to do: libraries take seconds to load.
        sys.exit(INTERRUPTED)


def _told(error: OSError) -> str:
    """What the system refused, and of which file."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}; give another path, or check its permissions"


def _failed(shown: Display, error: Exception | str, status: int) -> int:
    shown.finish()
    print(f"error: {error}", file=sys.stderr)
    return status
