"""The fuzz targets as a product: each is described, and has seeds that are small."""

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FUZZ = ROOT / "fuzz"

SEED_BYTES_MAX = 16 << 10
"""Of one input: a smoke run of a second is to read all of a target's."""
SEEDS_BYTES_MAX = 1 << 20
SEEDS_MAX = 600
"""Of one target."""
ALL_BYTES_MAX = 3 << 20
"""Of all: a clone is to stay small."""


@cache
def targets() -> list[str]:
    command = ["bash", str(ROOT / "tools" / "fuzz.sh"), "list"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def seeds(target: str) -> list[Path]:
    return [path for path in (FUZZ / "seeds" / target).glob("*") if path.is_file()]


def complaints(target: str, sizes: list[int]) -> list[str]:
    """What is too large about seeds of these sizes."""
    limits = [
        ("bytes in one seed", max(sizes, default=0), SEED_BYTES_MAX),
        ("bytes of seeds", sum(sizes), SEEDS_BYTES_MAX),
        ("seeds", len(sizes), SEEDS_MAX),
    ]
    wanted = "run `bash tools/fuzz.sh minimise`, or leave some out"
    return [
        f"fuzz/seeds/{target}: {found} {what}; wanted at most {limit}: {wanted}"
        for what, found, limit in limits
        if found > limit
    ]


def test_seeds_are_small() -> None:
    sizes = {target: [path.stat().st_size for path in seeds(target)] for target in targets()}
    assert [line for target in sizes for line in complaints(target, sizes[target])] == []
    assert sum(map(sum, sizes.values())) <= ALL_BYTES_MAX


def test_seeds_that_are_too_large_are_named() -> None:
    assert len(complaints("x", [SEED_BYTES_MAX + 1])) == 1
    assert len(complaints("x", [SEED_BYTES_MAX] * (SEEDS_MAX + 1))) == 2


def test_each_target_but_the_canary_has_seeds() -> None:
    assert [target for target in targets() if target != "canary" and not seeds(target)] == []


def test_no_seeds_are_of_a_target_that_is_gone() -> None:
    folders = {path.name for path in (FUZZ / "seeds").iterdir()}
    assert folders <= set(targets())


def test_each_target_is_described() -> None:
    text = (FUZZ / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    described = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(set(described)) == sorted(targets())
