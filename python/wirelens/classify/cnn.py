"""The family of convolutional networks: conv 32 - pool 4 - conv 64 - pool 4 - dense 128, dropout.

It is written as ONNX and served by ONNX Runtime, some hundred times slower than trees; what it
is worth, training tells. PyTorch is imported when it trains.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelens.classify.families import Rows, Training
from wirelens.learn.metrics import Array
from wirelens.trees import HeaderBits

# Columns that are no header bits; see docs/specs/feature-schema.md.
_NUMBER = re.compile(
    r"protocol|server_port|client_port"
    r"|pkt\d+_(size_bytes|direction|gap_ns|payload_bytes|byte_\d+)"
)
_HELD_OUT = 0.15


@dataclass(frozen=True)
class Model:
    """A network, and what training it was like."""

    network: Any
    history: Any


def is_number(column: str) -> bool:
    """Whether a column is a number and no header bit."""
    return _NUMBER.fullmatch(column) is not None


def fit(
    train: Any,
    watched: Any,
    columns: Sequence[str],
    class_count: int,
    schedule: Any,
    *,
    seed: int = 1,
    threads: int = 1,
) -> tuple[Any, Any]:
    """Trains a network on `networks.Examples` until others of them get no better."""
    from wirelens.classify.networks import Cnn as Network
    from wirelens.learn import networks

    numbers = [index for index, name in enumerate(columns) if is_number(name)]
    bits = [index for index, name in enumerate(columns) if not is_number(name)]
    networks.torch.manual_seed(seed)
    network = Network(bits, numbers, class_count)
    network.learn_scale(train.values)
    history = networks.fit(network, train, watched, schedule, seed=seed, threads=threads)
    return network, history


class Cnn:
    """A convolutional network over the header bits of a flow's first packets."""

    name = "cnn"
    library = "torch"
    suffix = ".onnx"
    takes_prior = False

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {
            "epochs": 15,
            "batch_rows": 64,
            "learning_rate": 1e-3,
            "weight_decay": 1e-4,
            "patience": 4,
        }
        # How the file that was saved last is asked, as `cascade.json` has it.
        self.details: dict[str, Any] = {}

    def fit(self, rows: Rows, training: Training) -> Model:
        """Trains a network; a share of the rows is held out to see when to end."""
        from wirelens.learn import networks

        settings = networks.Schedule(**{**self.parameters, **training.changed})
        groups = getattr(rows, "groups", None)
        is_held = networks.held_out(rows.labels, groups, _HELD_OUT, training.seed)
        examples = networks.Examples(rows.values, rows.labels, rows.weights)
        return Model(
            *fit(
                examples.some(~is_held),
                examples.some(is_held),
                rows.columns,
                len(training.classes),
                settings,
                seed=training.seed,
                threads=training.threads,
            )
        )

    def predict(self, model: Model, rows: Rows) -> Array:
        """PyTorch's own probabilities."""
        from wirelens.learn import networks

        return networks.probabilities(model.network, rows.values)

    def save(self, model: Model, path: Path, rows: Rows, training: Training, f: HeaderBits) -> None:
        """Writes the network as ONNX; its input's columns are those of `rows`, in their order."""
        from wirelens.learn import networks

        networks.export(model.network, path, len(rows.columns))
        self.details = {
            "columns": list(rows.columns),
            "input": networks.INPUT,
            "output": networks.OUTPUT,
        }


def family() -> Cnn:
    """The family, for `families.family`."""
    return Cnn()
