"""What ports say of a class before anything else is looked at: where boosting starts.

Boosted trees that are given the port as one number among many cut it into ranges, and learn of
every rare port what its few flows happen to be. A table says it better: how often a class was
seen at a (protocol, server port), each family of captures counted once, and perhaps what is
generally known of ports (`--known-ports`). Its log-probabilities are the scores that the first
tree starts from. In training they come from other families than the flow's own, since a table that
has counted a flow knows its class. Served they are a tree for each class beside the boosted ones:
scores add up, so nothing new is evaluated.

What is known of ports is known of the client's, too: of many flows the first packet that was captured
is an answer. Where the server's port is one that hosts draw, a second tree for each class adds what
the client's says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from wirelens.classify.labels import protocol_number, read_table
from wirelens.classify.metrics import Array
from wirelens.classify.port_table import PortTable, comparisons, table_head
from wirelens.classify.recipe import PORT_NUMBERS
from wirelens.errors import OptionError
from wirelens.trees import HeaderBits, Trees

# Protocol and port to the classes that it is known for.
KnownPorts = dict[tuple[int, int], tuple[str, ...]]
# What a prior is asked with, by column.
PRIOR_NUMBERS = (*PORT_NUMBERS, "client_port")
# So many families' worth is what is generally known of a port.
KNOWN_WEIGHT = 1.0
# Ports from here on are more often drawn by a host than they are a service's.
_DRAWN_PORT_MIN = 10_000
_SMOOTHING = 1.0
# Of any class at any port: what was never seen there is not impossible.
_FLOOR = 0.003
# Parts of the families, each of which has its prior from the others.
_PARTS = 5


def read_known_ports(path: Path) -> KnownPorts:
    """Reads a table with the columns protocol, port and class; a row a port, -1 where none is.

    A port may stand several times, for several classes.
    """
    found: dict[tuple[int, int], tuple[str, ...]] = {}
    for line, row in enumerate(read_table(path), start=2):
        try:
            key = (protocol_number(row["protocol"]), int(row["port"]))
            name = row["class"].strip()
        except (KeyError, ValueError, OptionError) as error:
            raise OptionError(
                f"{path}: line {line}: {error}; wanted: columns protocol, port and class, such as "
                "udp, 53 and dns"
            ) from error
        if not -1 <= key[1] < 65536 or not name:
            raise OptionError(
                f"{path}: line {line}: port {key[1]}, class {name!r}; wanted: a port below 65536, "
                "or -1 of a protocol without, and a class"
            )
        found[key] = (*found.get(key, ()), name)
    return found


def once(families: Array, *columns: Array) -> Array:
    """Weights with which flows that are alike in all of this together count one."""
    _, index = numpy.unique(
        numpy.stack([numpy.unique(c, return_inverse=True)[1] for c in (families, *columns)]),
        axis=1,
        return_inverse=True,
    )
    return 1 / numpy.bincount(index.ravel())[index.ravel()]


@dataclass(frozen=True)
class PortPrior:
    """Scores of classes by protocol and port: logarithms of what tables say, added up."""

    table: PortTable
    # Of what is known of the client's port; empty where nothing is.
    clients: dict[int, dict[int, Array]]
    classes: Sequence[str]

    @classmethod
    def fit(
        cls,
        ports: Array,
        labels: Array,
        families: Array,
        classes: Sequence[str],
        known: KnownPorts | None = None,
        weight: float = KNOWN_WEIGHT,
    ) -> "PortPrior":
        """Counts flows, a family once; `ports` has `PRIOR_NUMBERS` by row.

        What is known of a port counts as if `weight` families had been seen there.
        """
        protocols, numbers, _ = numpy.asarray(ports).astype(numpy.int64).T
        size = len(classes)
        weights = once(families, labels, protocols, numbers)
        total = numpy.bincount(labels, weights, minlength=size) + 1 / size
        overall = total / total.sum()
        told = _known_counts(known or {}, classes, weight)
        counts = dict(told)
        keys, index = numpy.unique(numpy.stack([protocols, numbers]), axis=1, return_inverse=True)
        sums = numpy.zeros((keys.shape[1], size))
        numpy.add.at(sums, (index.ravel(), labels), weights)
        for (protocol, port), seen in zip(keys.T.tolist(), sums, strict=True):
            counts[protocol, port] = counts.get((protocol, port), 0) + seen
        others = {
            protocol: _of_protocol(protocols == protocol, labels, weights, overall)
            for protocol in {protocol for protocol, _ in counts}
        }
        table: dict[int, dict[int, Array]] = {protocol: {} for protocol in others}
        for (protocol, port), seen in counts.items():
            table[protocol][port] = _smoothed(seen, others[protocol])
        clients: dict[int, dict[int, Array]] = {}
        for (protocol, port), seen in told.items():
            if port >= 0:
                clients.setdefault(protocol, {})[port] = _smoothed(seen, others[protocol])
        return cls(PortTable(table, others, overall), clients, classes)

    def scores(self, ports: Array) -> Array:
        """Scores by row and class, whose softmax is the prior."""
        protocols, servers, clients = numpy.asarray(ports).astype(numpy.int64).T
        found = _logarithm(self.table.predict(protocols, servers))
        for row in numpy.flatnonzero(servers >= _DRAWN_PORT_MIN).tolist():
            protocol = int(protocols[row])
            said = self.clients.get(protocol, {}).get(int(clients[row]))
            if said is not None:
                found[row] += self._gain(protocol, said)
        return found

    def _gain(self, protocol: int, said: Array) -> Array:
        """What the client's port adds to what any port of the protocol says."""
        return _logarithm(said) - _logarithm(self.table.others[protocol])

    def _of_clients(self) -> list[tuple[int, Any]]:
        """Spans of protocols, in them of client ports, with what each adds."""
        nothing = numpy.zeros(len(self.classes))
        gains = {
            protocol: {port: self._gain(protocol, said) for port, said in ports.items()}
            for protocol, ports in self.clients.items()
        }
        return PortTable(gains, dict.fromkeys(gains, nothing), nothing).segments()

    def trees(self, features: HeaderBits) -> Trees:
        """The prior alone."""
        start = [0.0] * len(self.classes)
        head = {**table_head(self.classes, features), "kind": "softmax", "start": start}
        return self.added_to(Trees(head, [], []))

    def added_to(self, forest: Trees) -> Trees:
        """These boosted trees with the prior's, one for each class or two, behind them."""
        if forest.head["kind"] != "softmax":
            raise OptionError(f"trees of {forest.head['kind']}; wanted: boosted for each class")
        tests = {test: index for index, test in enumerate(forest.tests)}
        added = []
        for index in range(len(self.classes)):

            def logarithm(said: Array, index: int = index) -> float:
                return float(_logarithm(said)[index])

            def gain(said: Array, index: int = index) -> float:
                return float(said[index])

            nodes, leaves = comparisons(self.table.segments(), tests, logarithm)
            added.append({"class": index, "nodes": nodes, "leaves": leaves})
            if self.clients:
                nodes, leaves = comparisons(self._of_clients(), tests, gain, "client_port")
                nodes, leaves = _where_drawn(nodes, leaves, tests)
                added.append({"class": index, "nodes": nodes, "leaves": leaves})
        return Trees(forest.head, list(tests), [*forest.trees, *added])


def _where_drawn(
    nodes: list[int], leaves: list[float], tests: dict[str, int]
) -> tuple[list[int], list[float]]:
    """A tree under one comparison more: 0 where the server's port is no drawn one."""
    test = f"server_port > {_DRAWN_PORT_MIN - 0.5}"
    # Left is a leaf; breadth first, it stands before all that is on the right.
    return [tests.setdefault(test, len(tests)), -1, *nodes], [0.0, *leaves]


def out_of_family(
    ports: Array,
    labels: Array,
    families: Array,
    classes: Sequence[str],
    known: KnownPorts | None,
    seed: int,
) -> Array:
    """Scores of training flows by priors that have not counted the flow's family."""
    names, index = numpy.unique(numpy.asarray(families), return_inverse=True)
    dice = numpy.random.default_rng(seed)
    part = dice.permutation(numpy.arange(len(names)) % _PARTS)[index]
    found = numpy.zeros((len(labels), len(classes)))
    for number in numpy.unique(part).tolist():
        mine, rest = part == number, part != number
        prior = PortPrior.fit(ports[rest], labels[rest], families[rest], classes, known)
        found[mine] = prior.scores(ports[mine])
    return found


def _known_counts(
    known: KnownPorts, classes: Sequence[str], weight: float
) -> dict[tuple[int, int], Array]:
    """What is known as counts; classes that this model does not have are nobody's."""
    index = {name: place for place, name in enumerate(classes)}
    found = {}
    for key, names in known.items():
        places = [index[name] for name in names if name in index]
        if places:
            counts = numpy.bincount(places, minlength=len(classes)).astype(numpy.float64)
            found[key] = weight * counts / counts.sum()
    return found


def _of_protocol(rows: Array, labels: Array, weights: Array, overall: Array) -> Array:
    counts = numpy.bincount(labels[rows], weights[rows], minlength=len(overall))
    return (counts + overall) / (counts.sum() + 1)


def _smoothed(counts: Array, of_protocol: Array) -> Array:
    found = counts + _SMOOTHING * of_protocol
    return found / found.sum()


def _logarithm(probabilities: Array) -> Array:
    """Logarithms of probabilities of which none is 0."""
    size = probabilities.shape[-1]
    return numpy.log(probabilities * (1 - _FLOOR * size) + _FLOOR)
