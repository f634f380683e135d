"""The cheapest candidate: how often each class was seen at a (protocol, server port).

It is written as one tree over the numbers `protocol` and `server_port`, so that what scores trees
scores it, too.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from wirelens.classify.labels import protocol_number, read_table
from wirelens.errors import OptionError
from wirelens.learn.metrics import Array
from wirelens.trees import HeaderBits, Trees

# What is known of a protocol's port beforehand: weights of classes.
KnownPorts = dict[tuple[int, int], Array]
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
        known: KnownPorts | None = None,
    ) -> "PortTable":
        """Counts flows. A frequency of few flows is drawn towards that of the whole protocol,
        as if `smoothing` flows of it had been seen; a port with fewer than `flows_min` flows is
        one of the others. What is `known` of a port beforehand counts as so many flows more.
        """
        weight = numpy.ones(len(labels)) if weights is None else numpy.asarray(weights)

        def counted(rows: Array) -> Array:
            return numpy.bincount(labels[rows], weight[rows], minlength=class_count)

        def frequency(counts: Array, prior: Array) -> Array:
            return (counts + smoothing * prior) / (counts.sum() + smoothing)

        everything = numpy.ones(len(labels), dtype=bool)
        overall = frequency(counted(everything), numpy.full(class_count, 1 / class_count))
        table: dict[int, dict[int, Array]] = {}
        others: dict[int, Array] = {}
        given = known or {}
        for protocol in sorted({*numpy.unique(protocols).tolist(), *(p for p, _ in given)}):
            is_protocol = protocols == protocol
            of_protocol = frequency(counted(is_protocol), overall)
            values, counts = numpy.unique(ports[is_protocol], return_counts=True)
            beforehand = {port: flows for (p, port), flows in given.items() if p == protocol}
            often = {*values[counts >= flows_min].tolist(), *beforehand}
            is_other = is_protocol & ~numpy.isin(ports, sorted(often))
            others[int(protocol)] = frequency(counted(is_other), of_protocol)
            table[int(protocol)] = {
                int(port): frequency(
                    counted(is_protocol & (ports == port)) + beforehand.get(port, 0.0), of_protocol
                )
                for port in often
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

    def _segments(self) -> list[tuple[int, Any]]:
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

    def shape(self, port: str = "server_port") -> "Shape":
        """The table as a tree of balanced comparisons; `port` is the number it is of."""
        nodes: list[str | None] = []
        leaves: list[Array] = []
        # What is to be told apart: of a protocol (its spans of ports inside) or of a port.
        waiting: list[tuple[str, list[tuple[int, Any]]]] = [("protocol", self._segments())]
        for name, spans in waiting:
            kind, inside = name, spans
            while kind == "protocol" and len(inside) == 1:
                kind, inside = port, inside[0][1]
            if len(inside) == 1:
                nodes.append(None)
                leaves.append(inside[0][1])
                continue
            middle = len(inside) // 2
            nodes.append(f"{kind} > {inside[middle][0] - 0.5}")
            waiting += [(kind, inside[:middle]), (kind, inside[middle:])]
        return Shape(nodes, leaves)

    def trees(self, classes: Sequence[str], features: HeaderBits) -> Trees:
        """The table as the file that is served."""
        shape = self.shape()
        tests: dict[str, int] = {}
        nodes = shape.numbered(tests)
        leaves = [[float(value) for value in leaf] for leaf in shape.leaves]
        head = table_head(classes, features)
        return Trees(head, list(tests), [{"nodes": nodes, "leaves": leaves}])


def table_head(classes: Sequence[str], features: HeaderBits) -> dict[str, Any]:
    """The first line of a table's file."""
    return {
        "format": "wirelens trees",
        "version": 1,
        "source": "wirelens port table",
        "kind": "mean",
        "classes": list(classes),
        **features.told(),
    }


@dataclass(frozen=True)
class Shape:
    """A tree breadth first: what each node asks, None for a leaf; and the leaves' frequencies."""

    nodes: list[str | None]
    leaves: list[Array]

    def numbered(self, tests: dict[str, int]) -> list[int]:
        """The nodes by the numbers of their tests, of which new ones are added to `tests`."""
        return [-1 if test is None else tests.setdefault(test, len(tests)) for test in self.nodes]


def shared_weights(parts: Sequence[Array], power: float) -> Array:
    """Weights of flows that share their weight with those that are like them in all `parts`.

    With a power of 1 each group, such as flows of a family of captures with the same class and
    port, weighs as much as one flow; with 0 each flow weighs 1.
    """
    if power == 0:
        return numpy.ones(len(parts[0]))
    _, groups, counts = numpy.unique(
        numpy.stack([numpy.unique(part, return_inverse=True)[1] for part in parts]),
        axis=1,
        return_inverse=True,
        return_counts=True,
    )
    weights: Array = counts[groups.ravel()].astype(numpy.float64) ** -power
    return weights


def read_known_ports(path: str | os.PathLike[str], classes: Sequence[str]) -> KnownPorts:
    """What is known of ports beforehand: a table with `protocol`, `port` and `class`.

    A port may stand for several classes, which share a weight of 1. Classes that are not among
    `classes` are passed over, since a table may serve several models.
    """
    index = {name: place for place, name in enumerate(classes)}
    found: KnownPorts = {}
    for line, row in enumerate(read_table(path), start=2):
        try:
            protocol = row["protocol" if "protocol" in row else "proto"]
            key = protocol_number(protocol), int(row["port"])
            name = row["class"]
        except (KeyError, ValueError) as error:
            raise OptionError(
                f"{path}: line {line}: {error}; wanted: columns protocol, port and class"
            ) from error
        if name in index:
            found.setdefault(key, numpy.zeros(len(classes)))[index[name]] += 1
    return {key: counts / counts.sum() for key, counts in found.items()}
