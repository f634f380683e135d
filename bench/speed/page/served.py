"""A run that has read its captures, and is looked at until it is ended."""

import re
import subprocess
from pathlib import Path

WIRELENS = Path("target/release/wirelens")


def served(*arguments: str | Path) -> tuple[subprocess.Popen[str], str]:
    """Such a run, once all was read, and its address."""
    command = [WIRELENS, "run", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    address = ""
    for line in process.stderr:
        found = re.search(r"http://\S+", line)
        address = found[0] if found else address
        if "the page stays open" in line:
            break
    return process, address
