"""What is asked of `wirelens feedback`."""

from dataclasses import dataclass
from pathlib import Path

HEADERS, FULL = "headers", "full"
PRIVACIES = (HEADERS, FULL)


@dataclass(frozen=True)
class Request:
    """What is asked."""

    read: list[Path]
    verdicts: list[Path]
    model: str
    output: Path
    count: int
    below: float
    alike: int
    candidates: int
    seed: int
    privacy: str
    label: str
    force: bool
    command: str
