"""Networks that predict latencies: SwiftQueue's encoder, our causal variant of it, a BiLSTM.

Each encodes what was acknowledged and then asks two linear layers about packets that are to leave.
They differ in the encoder; sizes are about 110,000 parameters each.
"""

from typing import Any

import numpy

from wirelens.l4s.packets import QUERY_LEN, TOKEN_LEN
from wirelens.learn.networks import nn, tensor, torch

Array = Any
_Module: Any = nn.Module

WIDTH, HEADS, HIDDEN, LAYERS = 64, 4, 256, 2
INNER = 128
DROPOUT = 0.2
LSTM_WIDTH, LSTM_INNER = 96, 96


def band(length: int, window: int) -> Any:
    """The mask of a causal encoder: each token attends to itself and the `window - 1` before it."""
    at = torch.arange(length)
    past = at[:, None] - at[None, :]
    mask = torch.zeros(length, length)
    return mask.masked_fill((past < 0) | (past >= window), float("-inf"))


def _layer() -> Any:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, DROPOUT, batch_first=True)


class Coding(_Module):
    """A query's numbers, and behind them how far some of them got through bins: rows of a number's
    index, and from where to where the bin goes (`docs/specs/encoder.md`)."""

    def __init__(self, bins: Array | None) -> None:
        super().__init__()
        found = numpy.zeros((0, 3)) if bins is None else numpy.asarray(bins)
        self.register_buffer("bins", tensor(found.astype("f4").reshape(-1, 3)))

    @property
    def length(self) -> int:
        """Numbers that become of a query."""
        return QUERY_LEN + int(self.bins.shape[0])

    def forward(self, queries: Any) -> Any:
        if self.length == QUERY_LEN:
            return queries
        number, low, high = (self.bins[:, column] for column in range(3))
        way = (queries.index_select(-1, number.long()) - low) / (high - low)
        return torch.cat([queries, way.clamp(0, 1)], dim=-1)


class _Head(_Module):
    """Two linear layers over what an encoder found and a query: all that is fine-tuned."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, inner), nn.Linear(inner, 1)])
        self.dropout = nn.Dropout(DROPOUT)

    def renew(self) -> None:
        """Draws other weights."""
        for layer in self.layers:
            layer.reset_parameters()

    def forward(self, values: Any) -> Any:
        first, second = self.layers
        return second(self.dropout(torch.relu(first(values)))).squeeze(-1)


class Causal(_Module):
    """Attention to the past alone: keys and values are reused from prediction to prediction."""

    is_causal = True

    def __init__(self, window: int, bins: Array | None = None) -> None:
        super().__init__()
        self.window = window
        self.coding = Coding(bins)
        self.input = nn.Linear(TOKEN_LEN, WIDTH)
        self.layers = nn.ModuleList(_layer() for _ in range(LAYERS))
        self.head = _Head(WIDTH + self.coding.length, INNER)

    @property
    def reach(self) -> int:
        """Tokens that can matter to one, itself included."""
        return LAYERS * (self.window - 1) + 1

    def encode(self, tokens: Any) -> Any:
        """Sequences × tokens × numbers to sequences × tokens × width."""
        mask = band(tokens.shape[1], self.window)
        found = self.input(tokens)
        for layer in self.layers:
            found = layer(found, src_mask=mask)
        return found

    def score(self, encoded: Any, queries: Any) -> Any:
        """Of queries, each with what was encoded when it was asked."""
        return self.head(torch.cat([encoded, self.coding(queries)], dim=-1))


class Full(_Module):
    """SwiftQueue's encoder: attention of everything to everything in a window, to which the packets
    that are to leave attend as tokens of their own.

    Nothing but itself attends to such a packet: the prediction of one may depend neither on those
    that leave after it nor on which others are asked about.
    """

    is_causal = False

    def __init__(self, window: int, bins: Array | None = None) -> None:
        super().__init__()
        self.window = window
        self.coding = Coding(bins)
        self.input = nn.Linear(TOKEN_LEN, WIDTH)
        self.query = nn.Linear(self.coding.length, WIDTH)
        self.layers = nn.ModuleList(_layer() for _ in range(LAYERS))
        self.head = _Head(WIDTH, INNER)

    def encode(self, tokens: Any, queries: Any, is_pad: Any) -> Any:
        """Windows × queries × width, of windows × tokens and windows × queries."""
        found = torch.cat([self.input(tokens), self.query(self.coding(queries))], dim=1)
        no_query = torch.zeros(queries.shape[:2], dtype=torch.bool)
        mask = torch.cat([is_pad, no_query], dim=1)
        window, length = tokens.shape[1], found.shape[1]
        of_others = torch.eye(length) == 0
        of_others[:, :window] = False
        for layer in self.layers:
            found = layer(found, src_mask=of_others, src_key_padding_mask=mask)
        return found[:, window:]

    def score(self, encoded: Any, queries: Any) -> Any:
        """Of what was encoded of the queries."""
        return self.head(encoded)


class BiLstm(_Module):
    """A bidirectional LSTM over a window, then the query beside its two last states."""

    is_causal = False

    def __init__(self, window: int, bins: Array | None = None) -> None:
        super().__init__()
        self.window = window
        self.coding = Coding(bins)
        self.lstm = nn.LSTM(TOKEN_LEN, LSTM_WIDTH, batch_first=True, bidirectional=True)
        self.head = _Head(2 * LSTM_WIDTH + self.coding.length, LSTM_INNER)

    def encode(self, tokens: Any, queries: Any, is_pad: Any) -> Any:
        """Windows × queries × width; tokens before the first are zeros."""
        _, (states, _) = self.lstm(tokens * (~is_pad)[:, :, None])
        both = torch.cat([states[0], states[1]], dim=-1)
        return both[:, None, :].expand(-1, queries.shape[1], -1)

    def score(self, encoded: Any, queries: Any) -> Any:
        """Of queries, each with what was encoded when it was asked."""
        return self.head(torch.cat([encoded, self.coding(queries)], dim=-1))


def parameters(network: Any) -> int:
    """Numbers that are trained."""
    return sum(each.numel() for each in network.parameters())
