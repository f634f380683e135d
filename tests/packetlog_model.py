"""A model whose answers a test knows: what goes to or from one port is anomalous."""

import hashlib
import json
from pathlib import Path

from wirelens.packetlog import SnapshotOptions

PORT = 4444


def write_model(folder: Path, column: str = "lower_port", port: int = PORT) -> Path:
    """The folder of such a model."""
    options, columns = SnapshotOptions(), [column]
    tree = {
        "feature": [0, -1, 0, -1, -1],
        "threshold": [port - 0.5, -2.0, port + 0.5, -2.0, -2.0],
        "left": [1, -1, 3, -1, -1],
        "right": [2, -1, 4, -1, -1],
        "value": [[0.5, 0.5], [1.0, 0.0], [0.5, 0.5], [0.1, 0.9], [1.0, 0.0]],
    }
    model = {
        "format": "wirelens-packetlog 1",
        "classes": ["benign", "anomalous"],
        "features": options.to_json(),
        "columns": columns,
        "schema": options.hash(columns),
        "flow_forest": {"trees": [tree]},
        "packet_forest": {"trees": [tree]},
        "training": {},
    }
    folder.mkdir()
    seal(folder, json.dumps(model))
    return folder


def seal(folder: Path, text: str) -> None:
    """Writes a model with its checksum, as training does."""
    (folder / "model.json").write_text(text)
    listed = hashlib.sha256(text.encode()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{listed}  model.json\n")
