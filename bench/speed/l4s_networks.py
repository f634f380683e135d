"""Writes the networks that `wirelens-bench windowed` measures: FOLDER/NAME-WINDOW.onnx.

Weights are random, as time does not depend on them: `.venv/bin/python bench/speed/l4s_networks.py
FOLDER`. Needs the Python package and PyTorch.
"""

import sys
from pathlib import Path

from wirelens.l4s import exported
from wirelens.l4s.networks import BiLstm, Full
from wirelens.learn.networks import torch

WINDOWS = (64, 128, 256, 512)


def main(folder: Path) -> None:
    """All of them."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    for name, kind in (("full", Full), ("bilstm", BiLstm)):
        for window in WINDOWS:
            (folder / f"{name}-{window}.onnx").write_bytes(exported.data(kind(window)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
