"""The command `wirelens`, as `python -m wirelens` and as the script that pip installs."""

import sys

from wirelens._wirelens import command


def main() -> int:
    """Runs the command with this process's arguments; its exit status."""
    return command(["wirelens", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
