"""The packet log: what its classifier sees of packets, and what it finds.

- `snapshots`: what is known of each packet when it comes, for training
- `PacketModel`: a model's forests, to score snapshots with
- `judgements`: each packet of captures with its class, by the code that serves
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
