"""The packet log: what its classifier sees of packets.

- `snapshots`: what is known of each packet when it comes, for training
"""

from wirelens.packetlog.snapshots import SnapshotBatch, SnapshotOptions, snapshots

__all__ = ["SnapshotBatch", "SnapshotOptions", "snapshots"]
