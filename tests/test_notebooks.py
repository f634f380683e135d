"""Every notebook runs from its first cell to its last, and ships without outputs."""

import json
from pathlib import Path

import pytest
from command import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.train
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="bash tools/setup.sh train installs it")
    nbclient = pytest.importorskip("nbclient", reason="bash tools/setup.sh train installs it")
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=60, resources=resources).execute()


def test_notebooks_ship_without_outputs() -> None:
    assert len(NOTEBOOKS) >= 3
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text())["cells"]:
            assert not cell.get("outputs") and not cell.get("execution_count"), path
