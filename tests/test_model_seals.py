"""Every model that ships, as a folder of a user's: it is read only as it was sealed.

Of each file that a command reads one byte is changed, its sum is taken out, and the list of sums is
removed. Each refusal is one line that names the file.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command import DEMO, ROOT, Ran, wirelens
from sealing import seal
from wirelens import ModelError
from wirelens.classify import cascade
from wirelens.l4s.served import read_model as read_l4s
from wirelens.packetlog import PacketModel

MODELS = {path.parent.name: path.parent for path in (ROOT / "models").glob("*/SHA256SUMS")}
TESTBED = ROOT / "testdata/testbed/congestion"
SENDER = ROOT / "testdata/l4s/sender.pcap.gz"
TAPS = ("cca", "-r", TESTBED / "before.pcapng.gz")
CASCADE = ("classify", "-r", DEMO)
# The command that reads each.
COMMANDS: dict[str, tuple[str | Path, ...]] = {
    "services": CASCADE, "categories": CASCADE, "devices": CASCADE,
    "video-rate": (*CASCADE, "--every", "1s"),
    "packetlog": ("packetlog", "record", "-r", DEMO, "-o", "log"),
    "packetlog-kernel": ("packetlog", "record", "-r", DEMO, "-o", "log"),
    "cca": (*TAPS, "--egress", TESTBED / "after.pcapng.gz"),
    "cca-onetap": TAPS,
    "l4s": ("l4s", "-r", SENDER, "--to", "10.2.1.2"),
}  # fmt: skip


def read_cca(folder: Path) -> object:
    from wirelens.cca import reading

    return reading.load(folder)


# And what reads each in Python.
READERS: dict[str, Callable[[Path], object]] = {
    "services": cascade.load, "categories": cascade.load, "devices": cascade.load,
    "packetlog": lambda folder: PacketModel(folder / "model.json"),
    "packetlog-kernel": lambda folder: PacketModel(folder / "model.json"),
    "cca": read_cca, "cca-onetap": read_cca, "l4s": read_l4s,
}  # fmt: skip
# What reads networks of cca is there to train and evaluate them.
READ = [
    pytest.param(name, marks=[pytest.mark.train] if reader is read_cca else [])
    for name, reader in READERS.items()
]
# What seals the files, what only people read, and a table that a cascade was compared with.
NOT_READ = {"SHA256SUMS", "card.md", "port-table.trees.jsonl"}


def serve(folder: Path, name: str) -> Ran:
    return wirelens(*COMMANDS[name], "--model", folder, cwd=folder.parent)


def refusal(folder: Path, name: str) -> str:
    """What is said of a model that is not read."""
    ran = serve(folder, name)
    assert ran.status == 1 and not ran.stdout, (ran.status, ran.stderr)
    lines = [line for line in ran.stderr.splitlines() if str(folder) in line]
    assert len(lines) == 1, ran.stderr
    assert not (folder.parent / "log").exists()
    return lines[0]


def changed(content: bytes) -> bytes:
    """Another byte in the middle."""
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def test_every_model_is_tried_here() -> None:
    assert set(MODELS) == set(COMMANDS)
    # `cascade.load` refuses models of windows, whose Python side only trains.
    assert set(MODELS) - set(READERS) == {"video-rate"}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_served_only_as_it_was_sealed(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(MODELS[name], tmp_path / name))
    sums = (folder / "SHA256SUMS").read_text()
    read = sorted(path.name for path in folder.iterdir() if path.name not in NOT_READ)
    assert read
    for file in read:
        whole = (folder / file).read_bytes()
        (folder / file).write_bytes(changed(whole))
        line = refusal(folder, name)
        assert f"{file}: " in line and "was changed after training" in line, line
        (folder / file).write_bytes(whole)
        others = [
            line for line in sums.splitlines(keepends=True) if not line.endswith(f" {file}\n")
        ]
        assert len(others) == sums.count("\n") - 1
        (folder / "SHA256SUMS").write_text("".join(others))
        assert f"SHA256SUMS: {file} is not listed" in refusal(folder, name)
        (folder / "SHA256SUMS").write_text(sums)
    (folder / "SHA256SUMS").unlink()
    assert "SHA256SUMS: no such file" in refusal(folder, name).replace("No such", "no such")
    seal(folder, *read)
    ran = serve(folder, name)
    assert ran.status == 0, ran.stderr


@pytest.mark.parametrize("name", READ)
def test_python_reads_a_model_only_as_it_was_sealed(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(MODELS[name], tmp_path / name))
    READERS[name](folder)
    for path in sorted(folder.iterdir()):
        if path.name in NOT_READ:
            continue
        whole = path.read_bytes()
        path.write_bytes(changed(whole))
        with pytest.raises(ModelError, match=r"SHA256SUMS"):
            READERS[name](folder)
        path.write_bytes(whole)


def test_a_file_of_a_packet_model_alone_needs_no_seal(tmp_path: Path) -> None:
    alone = Path(shutil.copy(MODELS["packetlog"] / "model.json", tmp_path / "mine.json"))
    assert PacketModel(alone).classes == json.loads(alone.read_text())["classes"]
    (tmp_path / "SHA256SUMS").write_text("")
    with pytest.raises(ModelError, match=r"mine\.json is not listed"):
        PacketModel(alone)
