"""Models in ONNX, run as `wirelens classify` runs them: by ONNX Runtime, on one thread.

Networks of ours, and models that were made elsewhere: one input, rows of 32- or 64-bit floats
whose columns are features of flows; one output, a probability for each class (exporters of
scikit-learn and LightGBM: zipmap off).

>>> model = load("model.onnx", features, columns, classes=12,
...              input="row", output="probabilities")            # doctest: +SKIP
>>> scores = numpy.asarray(score(model, table.records))         # doctest: +SKIP

The library is that of the package ``onnxruntime``, or what ``ORT_DYLIB_PATH`` names.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from wirelens import _wirelens
from wirelens._wirelens import OnnxModel
from wirelens.views import rows_of

if TYPE_CHECKING:
    from wirelens._wirelens import FeatureOptions

__all__ = ["Features", "OnnxModel", "load", "score"]


class Features(Protocol):
    """What rows are made of, such as `wirelens.classify.features.FlowFeatures`."""

    def _options(self) -> "FeatureOptions": ...


def load(
    path: str | os.PathLike[str],
    features: Features,
    columns: Sequence[str],
    *,
    classes: int,
    input: str,
    output: str,
) -> OnnxModel:
    """Reads a model and tries it on a row of which nothing is there.

    Parameters
    ----------
    features
        What rows are made of.
    columns
        Names of the columns of the input, in its order: header bits and numbers of `features`.
    classes
        Number of classes.
    input, output
        Names of the input, and of the output with the probabilities, in the file.

    Raises
    ------
    ModelError
        If there is no ONNX Runtime, the file is no model, or it does not fit.
    """
    return _wirelens.OnnxModel.load(
        path,
        features._options(),
        {
            "columns": list(columns),
            "class_count": classes,
            "input": input,
            "output": output,
        },
    )


def score(
    model: OnnxModel, records: bytes, numbers: bytes = b"", together: int = 64
) -> "memoryview[float]":
    """A probability for each class of each row, as rows of 64-bit numbers.

    `records` are compact records of flows, of as many packets as the model's features have;
    `numbers` what stands beside them, 64-bit floats by row. So many rows `together` are given to
    ONNX Runtime at once; `wirelens classify` gives it one.
    """
    return rows_of(model.score(records, numbers, together), "d", model.class_count)
