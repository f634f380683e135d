"""The tasks that loads are made of: which flows, which recipe, which cascades."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tasks

FOLDER = Path("bench/data/loads")
_RECIPES = Path("bench/speed/classify")
# Of all flows, how many the paper's slow model is asked about.
PAPER_ASSIGNED = 0.24


@dataclass(frozen=True)
class LoadTask:
    """A task, and how `wirelens train classify` is asked for its cascades."""

    name: str
    # What flows are of, for people.
    title: str
    recipe: Path
    # Stages of the model that ships, and how far below the best it may be.
    shipped: Sequence[str]
    shipped_margin: float
    # Stages of the paper's shape; the last gets its depth, and the paper's part of flows.
    paper: Sequence[str]
    # The task of tasks.py whose tuning references take.
    tuned_on: str

    def places(self, kind: str) -> list[str]:
        """Options for a cascade: chosen, shipped, or paper-N with the slow model's depth."""
        if kind == "chosen":
            return []
        if kind == "shipped":
            stages = [f"--place={place}" for place in self.shipped]
            return [*stages, f"--f1-margin={self.shipped_margin}"]
        *quick, slow = self.paper
        depth = kind.removeprefix("paper-")
        stages = [f"--place={place}" for place in (*quick, f"{slow}/{depth}")]
        return [*stages, f"--assigned={PAPER_ASSIGNED}"]


SERVICES = LoadTask(
    "services",
    "services of the testbed",
    _RECIPES / "loads-services.toml",
    ("fast=lightgbm/1", "slow=lightgbm/10"),
    0.004,
    ("fastest=decision-tree/1", "fast=lightgbm/1", "slow=lightgbm"),
    "testbed",
)
DEVICES = LoadTask(
    "devices",
    "devices",
    _RECIPES / "loads-devices.toml",
    ("fast=random-forest/1", "slow=random-forest/10"),
    0.004,
    ("fastest=decision-tree/1", "fast=random-forest/1", "slow=random-forest"),
    "devices",
)
TASKS = {task.name: task for task in (SERVICES, DEVICES)}


def source_options(task: LoadTask, testbed: Path) -> list[str]:
    """Where the labelled flows are, as it would be typed."""
    if task.name == "services":
        return [f"--testbed={testbed}"]
    captures = tasks.DATA / "devices" / "sentinel"
    table = FOLDER / "devices.tsv"
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = ["file\tlabel"]
    for path in sorted(captures.glob("*/*.pcap")):
        name = f"{path.parent.name}/{path.name}"
        lines.append(f"{name}\t{tasks.device_of(path.parent.name)}")
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [f"--read={captures}", f"--flows={table}"]
