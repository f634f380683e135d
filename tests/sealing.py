"""Seals models that tests write or change, as training does."""

import hashlib
import json
import shutil
from pathlib import Path


def seal(folder: Path, *names: str) -> None:
    """Writes ``SHA256SUMS`` for these files, or for the model of `cca` that lies there."""
    files = [folder / name for name in names or ("model.safetensors",)]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def change_trees(path: Path) -> None:
    """Another file of trees that means the same, under the same name."""
    *body, _ = path.read_text(encoding="utf-8").splitlines(keepends=True)
    body[0] = body[0].replace('"source":"', '"source":"again ', 1)
    digest = hashlib.sha256("".join(body).encode()).hexdigest()
    end = json.dumps({"sha256": digest}, separators=(",", ":"))
    path.write_text(f"{''.join(body)}{end}\n", encoding="utf-8")


def forgetting(model: Path, folder: Path) -> Path:
    """A copy of a cascade that remembers nothing of hosts."""
    copy = Path(shutil.copytree(model, folder / model.name, dirs_exist_ok=True))
    head = json.loads((copy / "cascade.json").read_text(encoding="utf-8"))
    del head["memory"]
    (copy / "cascade.json").write_text(json.dumps(head), encoding="utf-8")
    seal(copy, *(path.name for path in copy.iterdir() if path.name != "SHA256SUMS"))
    return copy
