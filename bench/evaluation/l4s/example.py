"""Predictions of 150 packets in a row, and what the head finds of packets by latency.

    .venv/bin/python bench/evaluation/l4s/example.py OUT testbed/data/latencies/web-varying.parquet

Writes `example.jsonl` (SwiftQueue's Figure 14) and `features.jsonl` (its Figure 3) into OUT: our
network and the LSTM with the settings of `predict.sh` and seed 1, trained on five minutes and
fine-tuned on the minute before the tenth. The packets are those after it with the most sharp
changes of one flow. Features are the outputs of the head's first layer, along their two main
directions.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy
from wirelens.l4s import learn
from wirelens.l4s.examples import Part
from wirelens.l4s.material import Material
from wirelens.l4s.networked import Network
from wirelens.l4s.packets import read_packets
from wirelens.l4s.sharp import changes
from wirelens.learn.networks import array, tensor, torch

WINDOW, STEPS, SEED = 64, 100, 1
PACKETS, FEATURES = 150, 400


def predictions(kind: str, material: Material) -> tuple[Any, Network]:
    """Latencies of minutes 10 to 15, and the network."""
    network = Network(kind, WINDOW, learn.Schedule.of(STEPS))
    network.fit(material, material.span(0, 240), material.span(240, 300), SEED)
    network = network.tuned(material, material.span(540, 600), SEED)
    return network.predict(material, material.span(600, 900)), network


def features(network: Any, material: Material, span: slice) -> Any:
    """Outputs of the head's first layer along their two main directions."""
    hidden = tensor(learn.encoded(network, Part(material, span)))
    queries = network.coding(tensor(material.rows.queries[span]))
    with torch.no_grad():
        first = network.head.layers[0]
        found = array(torch.relu(first(torch.cat([hidden, queries], dim=-1))))
    found -= found.mean(axis=0)
    _, _, directions = numpy.linalg.svd(found, full_matrices=False)
    return found @ directions[:2].T


def main() -> None:
    """The command line above."""
    folder, path = Path(sys.argv[1]), Path(sys.argv[2])
    material = Material.of(read_packets(path))
    span = material.span(600, 900)
    latency = material.packets.latency_ms[span]
    found = {kind: predictions(kind, material) for kind in ("causal", "bilstm")}
    records = material.packets.records[span]
    is_sharp = changes(material.packets.latency_ms, material.changes.before)[span] != 0
    best = (0, numpy.zeros(0, dtype=int))
    for flow in numpy.unique(records["flow"]):
        mine = numpy.flatnonzero((records["flow"] == flow) & ~numpy.isnan(latency))
        for first in range(0, len(mine) - PACKETS, PACKETS // 3):
            run = mine[first : first + PACKETS]
            if is_sharp[run].sum() > best[0]:
                best = int(is_sharp[run].sum()), run
    with (folder / "example.jsonl").open("w") as file:
        for number, at in enumerate(best[1]):
            row = {"trace": path.stem, "packet": number, "latency_ms": round(float(latency[at]), 2)}
            row |= {kind: round(float(ms[at]), 2) for kind, (ms, _) in found.items()}
            file.write(json.dumps(row) + "\n")
    places = features(found["causal"][1].network, material, span)
    low, high = numpy.nanquantile(latency, [0.1, 0.9])
    dice = numpy.random.default_rng(SEED)
    with (folder / "features.jsonl").open("w") as file:
        for kind, chosen in (("low", latency <= low), ("high", latency >= high)):
            for at in dice.choice(numpy.flatnonzero(chosen), FEATURES // 2, replace=False):
                x, y = (round(float(value), 3) for value in places[at])
                file.write(json.dumps({"trace": path.stem, "latency": kind, "x": x, "y": y}) + "\n")


if __name__ == "__main__":
    main()
