"""Seals models that tests write or change, as training does."""

import hashlib
from pathlib import Path


def seal(folder: Path, *names: str) -> None:
    """Writes ``SHA256SUMS`` for these files, or for the model of `cca` that lies there."""
    files = [folder / name for name in names or ("model.safetensors",)]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))
