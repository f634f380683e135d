"""A model as `wirelens cca` reads it: a network for each length of interval, in one file.

The file is safetensors; what is no tensor stands as JSON under ``wirelens`` in its metadata.
`docs/specs/cca-model.md` tells what it holds.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy

from wirelens import written
from wirelens.cca.intervals import Array, in_rows, normalised
from wirelens.compat import install_line
from wirelens.errors import MissingPackageError
from wirelens.learn.metrics import softmax
from wirelens.learn.networks import batches, tensor, torch
from wirelens.sealed import SUMS_FILE, line

FORMAT = "wirelens-cca 1"
MODEL_FILE, CARD_FILE = "model.safetensors", "card.md"


@dataclass(frozen=True)
class Network:
    """What tells controls from intervals of one length."""

    slots: int
    pool_len: int
    blocks: Sequence[tuple[Array, Array]]
    """Weights, output × input × step, and biases of each block."""
    head: tuple[Array, Array]
    temperature: float
    """Scores are divided by it, so that probabilities are as they turn out to be."""
    unknown_below: float
    """A highest probability below it is no answer."""
    row_slots: int = 1
    """Slots that are added up to a row."""
    reads: Callable[[Array], Array] = normalised
    """What it reads of rows."""
    correlation: float | None = None
    """How far intervals that follow each other err together, where they count together; of the
    longest network of single slots, `Model.voting` tells it."""

    def scores(self, values: Array) -> Array:
        """Of intervals, slot by slot, a score for each control, as `wirelens cca` finds them."""
        parts = [
            self.scores_of_channels(tensor(self.reads(in_rows(some, self.row_slots))))
            for some in batches(values)
        ]
        return numpy.concatenate([numpy.empty((0, len(self.head[1])), numpy.float32), *parts])

    def scores_of_channels(self, channels: Any) -> Array:
        """The same of what its first block reads: a tensor of intervals × rows × channels."""
        functional = torch.nn.functional
        with torch.no_grad():
            steps = channels.transpose(1, 2)
            for weight, bias in self.blocks:
                steps = functional.conv1d(steps, tensor(weight), tensor(bias), padding=1)
                steps = functional.max_pool1d(torch.relu(steps), self.pool_len)
            weight, bias = self.head
            found = functional.conv1d(steps, tensor(weight), tensor(bias), padding=1).mean(2)
        return numpy.array(found.tolist(), dtype=numpy.float32) / self.temperature


@dataclass(frozen=True)
class Voting:
    """How intervals of the longest network of single slots that follow each other count together,
    and those of the network of longer ones with them."""

    most: int
    """So many at most."""
    correlation: float
    """How far they err together: 0, each counts in full; 1, no more than one alone."""
    part: float = 1.0
    """How much counts where longer ones vote beside them, which are of the same packets."""

    def worth(self, count: int) -> float:
        """So many are worth so many that know nothing of each other (Kish's design effect)."""
        return count / (1 + (count - 1) * self.correlation)

    def together(self, votes: Sequence[tuple[Array, int]]) -> Array:
        """A score for each control, of what `votes_of` found: means, and of how many votes."""
        found = sum(mean * self.worth(count) for mean, count in votes)
        return found * (self.part if len(votes) > 1 else 1)


class Voter(Protocol):
    """What tells controls from intervals of one length."""

    @property
    def slots(self) -> int:
        """That length."""

    def scores(self, values: Array) -> Array:
        """Of intervals, slot by slot, a score for each control."""


def together(voter: Voter, values: Array) -> Array:
    """Of long intervals the mean logarithm of each control's probability, a millionth at least,
    over their parts that are as long as the voter takes them."""
    count, length, width = values.shape
    told = softmax(voter.scores(values.reshape(-1, voter.slots, width)).astype(float))
    votes = numpy.log(numpy.maximum(told, 1e-6))
    return votes.reshape(count, length // voter.slots, -1).mean(axis=1)


def votes_of(voters: Sequence[Voter], values: Array) -> list[tuple[Array, int]]:
    """Of long intervals what each voter tells that is not longer: the mean over its parts, one
    after the other up to the end, and how many they are."""
    length = values.shape[1]
    counts = [(voter, length // voter.slots) for voter in voters if voter.slots <= length]
    return [
        (together(voter, values[:, length - count * voter.slots :]), count)
        for voter, count in counts
    ]


def voters_of(networks: Sequence[Network]) -> list[Network]:
    """The longest network of which a row is a slot, and what votes beside it."""
    single = [network for network in networks if network.row_slots == 1]
    longer = [network for network in networks if network.row_slots > 1]
    return [max(single, key=lambda network: network.slots), *longer]


@dataclass(frozen=True)
class Model:
    """What names controls."""

    controls: Sequence[str]
    inputs: Sequence[str]
    slot_ns: int
    passed: str
    networks: Sequence[Network]
    training: dict[str, Any]
    rows_per_rtt: int | None = None
    """Of one tap: into how many rows each RTT is cut, where a row is not a slot."""
    voting: Voting | None = None
    """Where intervals count together."""
    shares: Sequence[float] = (1.0,)
    """Of packets, those that were looked at in training."""
    trained_on: dict[str, Sequence[float]] | None = None
    """From what to what training went, as `wirelens.cca.runs.range_of` finds it of two taps, and
    `wirelens.cca.onetap.train` of one: outside of it no control is named."""
    confidence_max: float | None = None
    """No answer is surer."""
    levels: bool = False
    """Networks read the levels of rows besides their shapes: `wirelens.cca.levels` of two taps,
    `wirelens.cca.onetap.levels` of one."""
    queue_shares: bool = False
    """And, of two taps, the flow's shares of the queue."""

    def voted(self, values: Array) -> Array:
        """Of intervals that are several of the longest of single slots a score for each
        control."""
        assert self.voting is not None, "a model without votes classifies single intervals"
        return self.voting.together(votes_of(voters_of(self.networks), values))

    def voted_by(self, network: Network, values: Array) -> Array:
        """The same by intervals of one network, one or several of them."""
        count = values.shape[1] // network.slots
        if count == 1:
            return network.scores(values)
        if network is voters_of(self.networks)[0]:
            return self.voted(values)
        assert network.correlation is not None, "its intervals do not count together"
        return Voting(count, network.correlation).together(votes_of([network], values))

    def metadata(self) -> dict[str, Any]:
        """What is no tensor."""
        rtt = {} if self.rows_per_rtt is None else {"rows_per_rtt": self.rows_per_rtt}
        levels = {"levels": True} if self.levels else {}
        if self.queue_shares:
            levels["queue_shares"] = True
        votes = {} if self.voting is None else {"votes": asdict(self.voting)}
        trained = {} if self.trained_on is None else {"range": self.trained_on}
        most = {} if self.confidence_max is None else {"confidence_max": self.confidence_max}
        return rtt | levels | votes | trained | most | {
            "format": FORMAT,
            "controls": list(self.controls),
            "inputs": list(self.inputs),
            "slot_ns": self.slot_ns,
            "passed": self.passed,
            "shares": list(self.shares),
            "networks": [
                {
                    "slots": network.slots,
                    "row_slots": network.row_slots,
                    "pool_len": network.pool_len,
                    "blocks": len(network.blocks),
                    "temperature": network.temperature,
                    "unknown_below": network.unknown_below,
                }
                | ({} if network.correlation is None else {"correlation": network.correlation})
                for network in self.networks
            ],
            "training": self.training,
        }

    def tensors(self) -> dict[str, Array]:
        """Weights and biases by the names of `docs/specs/cca-model.md`."""
        found = {}
        for network in self.networks:
            layers = [*network.blocks, network.head]
            names = [f"block{at}" for at in range(len(network.blocks))] + ["head"]
            for name, (weight, bias) in zip(names, layers, strict=True):
                found[f"{network.slots}.{name}.weight"] = numpy.ascontiguousarray(weight, "<f4")
                found[f"{network.slots}.{name}.bias"] = numpy.ascontiguousarray(bias, "<f4")
        return found

    def save(self, folder: Path, card: str, *, force: bool) -> None:
        """Writes model, card and seal.

        Raises
        ------
        OutputExistsError
            If there is one, and `force` is not given.
        OutputError
            If they cannot be written; a model that was there stays.
        MissingPackageError
            If safetensors is not installed.
        """
        try:
            from safetensors.numpy import save
        except ImportError as error:
            raise MissingPackageError(
                f"models of cca need safetensors; {install_line('train')}",
                name="safetensors",
            ) from error
        written.check_free(folder / MODEL_FILE, force)
        data = save(self.tensors(), {"wirelens": json.dumps(self.metadata())})
        contents = {CARD_FILE: card.encode(), SUMS_FILE: line(MODEL_FILE, data).encode()}
        written.files(folder, contents | {MODEL_FILE: data})
