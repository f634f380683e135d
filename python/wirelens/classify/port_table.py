"""The cheapest candidate: how often each class was seen at a (protocol, server port).

It is written as one tree over the numbers `protocol` and `server_port`, so that what scores trees
scores it, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from wirelens.classify.metrics import Array
from wirelens.trees import HeaderBits, Trees

# A protocol that nobody has seen, and a port of a known one that nobody has seen.
_OTHER = -1


@dataclass(frozen=True)
class PortTable:
    """Smoothed class frequencies by protocol and port; what is not there has its protocol's."""

    ports: dict[int, dict[int, Array]]
    # By protocol, of ports that are not in the table.
    others: dict[int, Array]
    # Of protocols that are not in the table.
    overall: Array

    @classmethod
    def fit(
        cls,
        protocols: Array,
        ports: Array,
        labels: Array,
        class_count: int,
        *,
        weights: Array | None = None,
        smoothing: float = 1.0,
        flows_min: int = 2,
    ) -> "PortTable":
        """Counts flows. A frequency of few flows is drawn towards that of the whole protocol,
        as if `smoothing` flows of it had been seen; a port with fewer than `flows_min` flows is
        one of the others.
        """
        weight = numpy.ones(len(labels)) if weights is None else numpy.asarray(weights)

        def frequency(rows: Array, prior: Array) -> Array:
            counts = numpy.bincount(labels[rows], weight[rows], minlength=class_count)
            return (counts + smoothing * prior) / (counts.sum() + smoothing)

        everything = numpy.ones(len(labels), dtype=bool)
        overall = frequency(everything, numpy.full(class_count, 1 / class_count))
        table: dict[int, dict[int, Array]] = {}
        others: dict[int, Array] = {}
        for protocol in numpy.unique(protocols).tolist():
            is_protocol = protocols == protocol
            of_protocol = frequency(is_protocol, overall)
            values, counts = numpy.unique(ports[is_protocol], return_counts=True)
            often = values[counts >= flows_min]
            is_other = is_protocol & ~numpy.isin(ports, often)
            others[int(protocol)] = frequency(is_other, of_protocol)
            table[int(protocol)] = {
                int(port): frequency(is_protocol & (ports == port), of_protocol)
                for port in often.tolist()
            }
        return cls(table, others, overall)

    def predict(self, protocols: Array, ports: Array) -> Array:
        """Probabilities, a row a flow, looked up and not by the tree."""
        pairs = zip(numpy.asarray(protocols).tolist(), numpy.asarray(ports).tolist(), strict=True)
        rows = [
            self.ports.get(int(protocol), {}).get(
                int(port), self.others.get(int(protocol), self.overall)
            )
            for protocol, port in pairs
        ]
        return numpy.array(rows).reshape(len(rows), len(self.overall))

    def segments(self) -> list[tuple[int, Any]]:
        """Protocols in order, each from which value on: with the ports of it, in order, too."""

        def spans(values: dict[int, Any], elsewhere: Any) -> list[tuple[int, Any]]:
            found: list[tuple[int, Any]] = []
            beyond: int | None = None
            for value in sorted(values):
                if value != beyond:
                    found.append((_OTHER if beyond is None else beyond, elsewhere))
                found.append((value, values[value]))
                beyond = value + 1
            found.append((_OTHER if beyond is None else beyond, elsewhere))
            return found

        inner = {p: spans(ports, self.others[p]) for p, ports in self.ports.items()}
        return spans(inner, [(_OTHER, self.overall)])

    def trees(self, classes: Sequence[str], features: HeaderBits) -> Trees:
        """The table as a tree of balanced comparisons."""
        tests: dict[str, int] = {}
        nodes, leaves = comparisons(self.segments(), tests, lambda p: [float(v) for v in p])
        head = table_head(classes, features)
        return Trees(head, list(tests), [{"nodes": nodes, "leaves": leaves}])


def table_head(classes: Sequence[str], features: HeaderBits) -> dict[str, Any]:
    """The first line of a table of ports' file."""
    return {
        "format": "wirelens trees",
        "version": 1,
        "source": "wirelens port table",
        "kind": "mean",
        "classes": list(classes),
        "schema": features.hash(),
        "headers": features.headers,
        "blocks": features.blocks(),
        "payload_bytes": features.payload_bytes(),
        "packets": features.packets or 1,
        "numbers": list(features.numbers),
    }


def comparisons(
    protocols: list[tuple[int, Any]],
    tests: dict[str, int],
    leaf: Callable[[Array], Any],
    port: str = "server_port",
) -> tuple[list[int], list[Any]]:
    """Nodes and leaves of a tree of balanced comparisons over what `segments` gives.

    `tests` is added to; `leaf` makes of a port's probabilities what the leaf holds;
    `port` names the number that ports are of.
    """
    nodes: list[int] = []
    leaves: list[Any] = []
    # What is to be told apart: of a protocol (its spans of ports inside) or of a port.
    waiting: list[tuple[str, list[tuple[int, Any]]]] = [
        ("protocol", [(protocol, _merged(spans, leaf)) for protocol, spans in protocols])
    ]
    for name, spans in waiting:
        kind, inside = name, spans
        while kind == "protocol" and len(inside) == 1:
            kind, inside = port, inside[0][1]
        if len(inside) == 1:
            nodes.append(-1)
            leaves.append(inside[0][1])
            continue
        middle = len(inside) // 2
        test = f"{kind} > {inside[middle][0] - 0.5}"
        nodes.append(tests.setdefault(test, len(tests)))
        waiting += [(kind, inside[:middle]), (kind, inside[middle:])]
    return nodes, leaves


def _merged(spans: list[tuple[int, Array]], leaf: Callable[[Array], Any]) -> list[tuple[int, Any]]:
    """Spans with their leaves; neighbours that have the same are one."""
    found: list[tuple[int, Any]] = []
    for first, probabilities in spans:
        value = leaf(probabilities)
        if not found or found[-1][1] != value:
            found.append((first, value))
    return found
