"""PyTorch, and what every network of ours shares: rows in, training, probabilities, ONNX out.

Importing this imports PyTorch, which takes seconds and hundreds of megabytes; nothing but
families of networks does. What is used of it is common to 1.13, which Debian has, and 2.x. Rows
cross as memory and not by PyTorch's own bridge to NumPy: a PyTorch that was built for NumPy 1
works beside NumPy 2.
"""

import contextlib
import copy
import ctypes
import importlib
import inspect
import io
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from wirelens.errors import MissingPackageError, OptionError
from wirelens.learn.metrics import Array, confusion, macro_f1, softmax

INPUT, OUTPUT = "row", "probabilities"
BATCH_VALUES_MAX = 1 << 19
# What models in ONNX are written for; ONNX Runtime reads it since 2020.
_OPSET = 12


def _load() -> Any:
    """PyTorch, without what it says of a NumPy that is newer than itself."""
    # The first time that it looks for NumPy is here, so that it says it here.
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = importlib.import_module("torch")
        except ImportError as error:
            raise MissingPackageError(
                f"networks need PyTorch, which cannot be imported ({error}); install it with: "
                "pip install torch, or on Debian: apt-get install python3-torch, tools/setup.sh "
                "shows how a virtual environment finds it",
                name="torch",
            ) from error
        module.tensor([0.0]).sum().item()
    return module


torch = _load()
nn = torch.nn
Module: Any = nn.Module


def tensor(values: Array) -> Any:
    """The same numbers for PyTorch: 32-bit floats, or 64-bit integers where they are whole."""
    is_whole = numpy.asarray(values).dtype.kind in "iub"
    kind = (numpy.int64, torch.int64) if is_whole else (numpy.float32, torch.float32)
    # A copy, since PyTorch writes where it reads.
    own = numpy.array(values, dtype=kind[0], order="C")
    if own.size == 0:
        return torch.zeros(own.shape, dtype=kind[1])
    return torch.frombuffer(own, dtype=kind[1]).reshape(own.shape)


def array(values: Any) -> Array:
    """The same numbers for NumPy, as 32-bit floats."""
    shape = tuple(values.shape)
    own = numpy.empty(shape, dtype=numpy.float32)
    if own.size > 0:
        torch.frombuffer(own, dtype=torch.float32).reshape(shape).copy_(values.detach())
    return own


@dataclass(frozen=True)
class Schedule:
    """How a network is trained."""

    epochs: int = 40
    batch_rows: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    # Epochs without a better macro-F1 on the rows held out, after which training ends.
    patience: int = 6
    # Epochs after which the learning rate is multiplied by `decay`; 0 for never.
    decay_every: int = 0
    decay: float = 0.5

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_rows", "learning_rate", "patience"):
            if not getattr(self, name) > 0:
                raise OptionError(f"{name}: {getattr(self, name)}; wanted: more than 0")
        if self.batch_rows == 1:
            # Batch normalisation has nothing to go by in one row, so none would be trained on.
            raise OptionError("batch_rows: 1; wanted: 2 or more")


@dataclass(frozen=True)
class Examples:
    """Rows whose classes are known."""

    values: Array
    labels: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.labels)

    def some(self, rows: Array) -> "Examples":
        """These rows of them."""
        return Examples(self.values[rows], self.labels[rows], self.weights[rows])


@dataclass
class History:
    """What training was like."""

    # Of each epoch: mean weighted loss on the rows trained on; macro-F1 on those held out, of the
    # classes that are among them.
    trained: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    # The epoch whose weights were kept, from 0.
    best: int = 0


def held_out(labels: Array, groups: Array | None, share: float, seed: int) -> Array:
    """Which rows are held out to see when training should end, as booleans.

    Whole groups, where groups are given: rows of one capture say little about another. Groups are
    drawn until each class has about this share; of a few large groups, the one that is nearest to
    it. Without groups, and where there is only one, rows are drawn.
    """
    labels = numpy.asarray(labels)
    dice = numpy.random.default_rng(seed)
    names, index = numpy.unique(
        numpy.arange(len(labels)) if groups is None else numpy.asarray(groups), return_inverse=True
    )
    counts = numpy.zeros((len(names), int(labels.max(initial=0)) + 1))
    numpy.add.at(counts, (index, labels), 1)
    wanted = counts.sum(axis=0) * share
    taken = numpy.zeros_like(wanted)
    is_held = numpy.zeros(len(names), dtype=bool)
    for group in dice.permutation(len(names)):
        # A group that overshoots in one class more than it helps in others stays.
        before, after = abs(wanted - taken), abs(wanted - taken - counts[group])
        scale = numpy.maximum(wanted, 1)
        if (after / scale).sum() < (before / scale).sum():
            is_held[group] = True
            taken += counts[group]
    if not is_held.any() and len(names) > 1:
        is_held[abs(wanted - counts).sum(axis=1).argmin()] = True
    if groups is not None and is_held.all() == is_held.any():
        return held_out(labels, None, share, seed)
    return is_held[index]


def fit(
    network: Any,
    train: Examples,
    watched: Examples,
    schedule: Schedule,
    *,
    seed: int = 1,
    threads: int = 1,
    extra_loss: Callable[[Any, Any, Any], Any] | None = None,
    parameters: Sequence[dict[str, Any]] | None = None,
    after_epoch: Callable[[int], None] | None = None,
    progress: Callable[[int, float, float], None] | None = None,
) -> History:
    """Trains a network until `watched` gets no better; its weights are then those of its best.

    It is macro-F1 that is watched: on captures unlike those trained on the loss rises with the
    confidence of wrong answers long before the answers get worse.

    `extra_loss` is given rows, labels and outputs of a batch. `parameters` are PyTorch's groups,
    with learning rates of their own. `progress` is told the epoch from 0, the loss and macro-F1.
    """
    if len(train) == 0 or len(watched) == 0:
        raise OptionError(
            f"{len(train)} rows to train on and {len(watched)} to watch; wanted: both; give more "
            "labelled flows"
        )
    _keep_memory()
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    dice = numpy.random.default_rng(seed)
    optimizer = torch.optim.AdamW(
        parameters or network.parameters(),
        lr=schedule.learning_rate,
        weight_decay=schedule.weight_decay,
    )
    steps = (
        torch.optim.lr_scheduler.StepLR(optimizer, schedule.decay_every, schedule.decay)
        if schedule.decay_every
        else None
    )
    history, best = History(), None
    for epoch in range(schedule.epochs):
        network.train()
        loss = _epoch(network, train, optimizer, schedule, dice, extra_loss)
        if steps is not None:
            steps.step()
        if after_epoch is not None:
            after_epoch(epoch)
        history.trained.append(loss)
        history.held_out.append(_watched_f1(network, watched))
        if progress is not None:
            progress(epoch, loss, history.held_out[-1])
        if best is None or history.held_out[-1] > history.held_out[history.best]:
            history.best, best = epoch, copy.deepcopy(network.state_dict())
        elif epoch - history.best >= schedule.patience:
            break
    network.load_state_dict(best)
    network.eval()
    return history


def _keep_memory() -> None:
    """Lets glibc keep what a batch took for the next: given back and asked for anew, the clearing
    of pages takes about as long as the arithmetic of long rows."""
    trim_threshold, mmap_max = -1, -4
    # Elsewhere there is another allocator.
    with contextlib.suppress(AttributeError, OSError):
        tune = ctypes.CDLL(None).mallopt
        tune(mmap_max, 0)
        tune(trim_threshold, 2**31 - 1)


def _epoch(
    network: Any,
    train: Examples,
    optimizer: Any,
    schedule: Schedule,
    dice: Any,
    extra_loss: Callable[[Any, Any, Any], Any] | None,
) -> float:
    order, total = dice.permutation(len(train)), 0.0
    for first in range(0, len(order), schedule.batch_rows):
        batch = train.some(order[first : first + schedule.batch_rows])
        if len(batch) == 1 and len(order) > 1:
            # Batch normalisation has nothing to go by in one row.
            continue
        rows, labels, weights = (tensor(of) for of in (batch.values, batch.labels, batch.weights))
        optimizer.zero_grad()
        outputs = network(rows)
        each = nn.functional.cross_entropy(outputs, labels, reduction="none")
        loss = (each * weights).mean()
        total += float(loss.item()) * len(batch)
        if extra_loss is not None:
            loss = loss + extra_loss(rows, labels, outputs)
        loss.backward()
        optimizer.step()
    return total / len(order)


def batches(values: Array) -> Iterator[Array]:
    """Rows in pieces, fewer of long ones: what a layer makes of them is to stay in the cache."""
    row_len = max(1, numpy.asarray(values[:1]).size)
    batch_rows = min(256, max(1, BATCH_VALUES_MAX // row_len))
    for first in range(0, len(values), batch_rows):
        yield values[first : first + batch_rows]


def outputs(network: Any, values: Array) -> Array:
    """What the network says of rows, before softmax."""
    network.eval()
    with torch.no_grad():
        parts = [array(network(tensor(rows))) for rows in batches(values)]
    return numpy.concatenate(parts) if parts else numpy.empty((0, 0), dtype=numpy.float32)


def _watched_f1(network: Any, examples: Examples) -> float:
    labels = numpy.asarray(examples.labels)
    predicted = outputs(network, examples.values)
    return macro_f1(confusion(labels, predicted.argmax(axis=1), predicted.shape[1]))


def probabilities(network: Any, values: Array) -> Array:
    """A probability for each class of each row, as 64-bit floats."""
    scores = outputs(network, numpy.asarray(values))
    return softmax(scores.astype(numpy.float64)) if len(scores) else scores


def export(network: Any, path: str | os.PathLike[str], column_count: int) -> None:
    """Writes a network as one file in ONNX: rows of floats in, probabilities out.

    The file has its name once it is complete.
    """
    whole = nn.Sequential(network, nn.Softmax(dim=1)).eval()
    settings: dict[str, Any] = {
        "opset_version": _OPSET,
        "input_names": [INPUT],
        "output_names": [OUTPUT],
        "dynamic_axes": {INPUT: {0: "rows"}, OUTPUT: {0: "rows"}},
    }
    # Newer versions have two exporters; the old one needs no other package.
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        settings["dynamo"] = False
    partial = Path(f"{os.fspath(path)}.partial")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(whole, torch.zeros(2, column_count), str(partial), **settings)
    partial.replace(path)
