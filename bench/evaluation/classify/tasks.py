"""The tasks that systems are compared on: captures with labels, and their sides.

They lie beside the repository in `../shared/data`, since they may not be passed on; runs of the
testbed, which anyone can make, in `../data`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wirelens.classify import labels as tables
from wirelens.classify.dataset import (
    Dataset,
    Source,
    capture_families,
    captures_of,
    load,
    testbed_source,
)
from wirelens.classify.recipe import Recipe
from wirelens.classify.split import Split, split

DATA = Path("../shared/data")
TESTBED = Path("../data/services/services")
# One type of device, set up under several names.
_SAME_TYPE = {
    "EdnetCam1": "EdnetCam",
    "EdnetCam2": "EdnetCam",
    "EdimaxCam1": "EdimaxCam",
    "EdimaxCam2": "EdimaxCam",
    "WeMoSwitch2": "WeMoSwitch",
    "WeMoInsightSwitch2": "WeMoInsightSwitch",
}
NAMES = ("services", "devices", "testbed")


@dataclass(frozen=True)
class Task:
    """Labelled flows, and which of them train, watch and judge."""

    name: str
    dataset: Dataset
    sides: Split


def device_of(folder: str) -> str:
    """The type of device whose captures lie in a folder."""
    return _SAME_TYPE.get(folder, folder)


def _services() -> Source:
    folder = DATA / "services"
    labels = tables.read_labels(folder / "flows.tsv", "class")
    captures = captures_of([folder])
    families = tables.read_families(folder / "MANIFEST.tsv")
    return Source(captures, labels, capture_families(captures, families))


def _devices() -> Source:
    """27 types of device; a capture is one of a device being set up, all flows of it."""
    folder = DATA / "devices" / "sentinel"
    captures = captures_of([folder])
    rows = []
    for line, path in enumerate(captures, start=1):
        device = path.parent.name
        name = str(Path(*path.parts[-2:]))
        rows.append(tables.FlowLabel(line, name, None, device_of(device)))
    table = tables.LabelTable(str(folder), rows)
    return Source(captures, table, [str(path) for path in captures])


def _testbed() -> Source:
    """21 services whose truth is known; a run is a family."""
    return testbed_source(TESTBED)


def load_task(name: str, recipe: Recipe, packets: int, seed: int) -> Task:
    """Reads a task's captures and divides its flows by family of captures."""
    source = {"services": _services, "devices": _devices, "testbed": _testbed}[name]()
    # Classes are those of the task, however rare.
    dataset = load(source, recipe, packets, flows_min=2)
    return Task(name, dataset, split(dataset.labels, dataset.families, seed=seed))


def packets_of(name: str) -> int:
    """The slow model's depth on a task, which the paper gives to every system."""
    return {"services": 10, "devices": 10, "testbed": 10}[name]


def described(task: Task) -> Sequence[str]:
    """What was read, in lines."""
    counts = ", ".join(f"{name} {count}" for name, count in task.dataset.flows_by_class().items())
    return [
        f"{task.name}: {len(task.dataset)} flows of {len(set(task.dataset.families))} families",
        f"classes: {counts}",
        task.sides.describe(),
    ]
