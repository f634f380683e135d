"""Models in ONNX score in Wirelens as they do in the libraries that trained them."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
from test_trees import Flows
from wirelens import ModelError, onnx

PACKAGES = ("numpy", "sklearn", "skl2onnx", "onnxruntime")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
needs_onnx = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; bash tools/setup.sh train"
)
