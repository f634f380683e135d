"""A run of a congestion scenario to train on: what such tests look at is the way, not a model."""

import shutil
from pathlib import Path

import pytest
from command import ROOT

RUN = ROOT / "testdata/testbed/congestion"
TAPS = ("-r", RUN / "before.pcapng.gz", "--egress", RUN / "after.pcapng.gz")


def three_runs(folder: Path) -> Path:
    """One run three times; whoever trains needs PyTorch."""
    pytest.importorskip("torch")
    for name in ("one", "two", "three"):
        shutil.copytree(RUN, folder / name)
    return folder
