"""The packet log: features of packets, and the verdicts of its classifier.

- `snapshots`: features of each packet on arrival, for training
- `PacketModel`: a model's forests, to score snapshots with
- `judgements`: each packet of captures with its class, computed by the code of `wirelens packetlog`
"""

from wirelens.packetlog.judged import JudgedBatch, PacketModel, judgements
from wirelens.packetlog.snapshots import SnapshotBatch, SnapshotOptions, snapshots

__all__ = [
    "JudgedBatch",
    "PacketModel",
    "SnapshotBatch",
    "SnapshotOptions",
    "judgements",
    "snapshots",
]
