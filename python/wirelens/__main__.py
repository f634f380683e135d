"""The command `wirelens`, as `python -m wirelens` and as the script that pip installs.

Both become the program that the package carries.
"""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

PROGRAM = Path(__file__).with_name("bin") / "wirelens"
# Which Python runs `wirelens train` and the like; the program reads it.
PYTHON_SETTING = "WIRELENS_PYTHON"


def main() -> NoReturn:
    """Becomes the program, with this process's arguments; ends the process where it cannot."""
    environment = dict(os.environ)
    if not environment.get(PYTHON_SETTING) and sys.executable:
        environment[PYTHON_SETTING] = sys.executable
    # Python ignores these as it starts, and what is ignored stays so in the program.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(PROGRAM, ["wirelens", *sys.argv[1:]], environment)
    except OSError as error:
        sys.exit(
            f"wirelens: {PROGRAM}: {error.strerror}; wanted the program that the package carries; "
            "install the package again, from a clone of Wirelens, in its folder: "
            f"{sys.executable} -m pip install --force-reinstall ."
        )


if __name__ == "__main__":
    main()
