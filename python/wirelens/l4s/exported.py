"""Networks in ONNX, as `docs/specs/l4s-model.md` says: one window of tokens, any number of queries.

The arithmetic is that of the networks in eval mode, in operations that every exporter of PyTorch
from 1.13 on writes. Importing this imports PyTorch.
"""

import inspect
import io
import warnings
from typing import Any

from wirelens.l4s.networks import HEADS, LSTM_WIDTH, WIDTH, BiLstm, Full
from wirelens.l4s.packets import QUERY_LEN, TOKEN_LEN
from wirelens.learn.networks import nn, torch

_Module: Any = nn.Module
INPUTS, OUTPUT = ("tokens", "is_pad", "queries"), "scores"
# Normalisation of layers is an operation of its own from here on; ONNX Runtime reads it since 2022.
_OPSET = 17
# Added to the attention that pads are paid: its exponential is 0 in 32 bits.
_NEVER = -1e9


class _FullWindow(_Module):
    """`Full` with queries apart from tokens: these do not attend to queries, so that the last layer
    has only their keys and values to compute."""

    def __init__(self, network: Full) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Any, is_pad: Any, queries: Any) -> Any:
        """A score for each query."""
        network, unseen = self.network, is_pad * _NEVER
        seen, asked = network.input(tokens), network.query(network.coding(queries))
        last = len(network.layers) - 1
        for number, layer in enumerate(network.layers):
            query, key, value = _projected(layer, seen)
            own_query, own_key, own_value = _projected(layer, asked)
            paid = torch.cat(
                [
                    torch.matmul(own_query, key.transpose(1, 2)) + unseen,
                    (own_query * own_key).sum(-1, keepdim=True),
                ],
                dim=-1,
            )
            share = torch.softmax(paid, dim=-1)
            found = torch.matmul(share[:, :, :-1], value) + share[:, :, -1:] * own_value
            asked = _rest(layer, asked, found)
            if number < last:
                share = torch.softmax(torch.matmul(query, key.transpose(1, 2)) + unseen, dim=-1)
                seen = _rest(layer, seen, torch.matmul(share, value))
        return network.head(asked)


def _projected(layer: Any, rows: Any) -> Any:
    """Queries, keys and values of rows, heads first; queries are divided by the root of a head's
    numbers."""
    attention, size = layer.self_attn, WIDTH // HEADS
    whole = nn.functional.linear(rows, attention.in_proj_weight, attention.in_proj_bias)
    parts = [part.reshape(-1, HEADS, size).transpose(0, 1) for part in whole.chunk(3, dim=-1)]
    return parts[0] * size**-0.5, parts[1], parts[2]


def _rest(layer: Any, rows: Any, attended: Any) -> Any:
    """What a layer makes of what heads found."""
    found = layer.self_attn.out_proj(attended.transpose(0, 1).reshape(-1, WIDTH))
    rows = layer.norm1(rows + found)
    return layer.norm2(rows + layer.linear2(torch.relu(layer.linear1(rows))))


class _BiLstmWindow(_Module):
    """`BiLstm` on one window."""

    def __init__(self, network: BiLstm) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Any, is_pad: Any, queries: Any) -> Any:
        """A score for each query."""
        rows = tokens * (1 - is_pad)[:, None]
        _, (states, _) = self.network.lstm(rows[None])
        both = states.reshape(1, 2 * LSTM_WIDTH)
        first, second = self.network.head.layers
        # The states are the same for all queries: their share of the sum is computed once.
        weight = first.weight
        shared = nn.functional.linear(both, weight[:, : 2 * LSTM_WIDTH], first.bias)
        coded = self.network.coding(queries)
        inner = shared + nn.functional.linear(coded, weight[:, 2 * LSTM_WIDTH :])
        return second(torch.relu(inner)).squeeze(-1)


def data(network: Any) -> bytes:
    """The bytes of the file; the network is `Full` or `BiLstm`."""
    window = network.window
    whole = (_FullWindow if isinstance(network, Full) else _BiLstmWindow)(network).eval()
    settings: dict[str, Any] = {
        "opset_version": _OPSET, "input_names": list(INPUTS), "output_names": [OUTPUT],
        "dynamic_axes": {"queries": {0: "n"}, OUTPUT: {0: "n"}},
    }  # fmt: skip
    # Newer versions have two exporters; the old one needs no other package.
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        settings["dynamo"] = False
    example = (torch.zeros(window, TOKEN_LEN), torch.zeros(window), torch.zeros(3, QUERY_LEN))
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(whole, example, content, **settings)
    return content.getvalue()
