"""The models that ship: whole, small, and right about captures that they were not trained on."""

import csv
import gzip
import hashlib
import json
import shutil
import struct
from collections import Counter
from pathlib import Path

import pytest
from command import DEMO, ROOT, wirelens
from sealing import change_trees, seal

MODELS = ROOT / "models"
NAMES = ("services", "categories", "devices")
SAMPLE = ROOT / "testdata/testbed/services"
BYTES_MAX = 8_000_000


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_whole_and_small(name: str) -> None:
    folder = MODELS / name
    sums = dict(
        reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines()
    )
    files = {path.name: path for path in folder.iterdir()}
    assert set(sums) == set(files) - {"SHA256SUMS"}
    for file, digest in sums.items():
        assert hashlib.sha256(files[file].read_bytes()).hexdigest() == digest, file
    assert sum(path.stat().st_size for path in files.values()) <= BYTES_MAX
    card = files["card.md"].read_text(encoding="utf-8")
    assert "## How good it is" in card and "## Limits" in card
    # No place of the machine that it was made on.
    texts = [path.read_text(encoding="utf-8") for path in files.values()]
    assert not any(place in text for text in texts for place in ("/work/", "/tmp/"))


@pytest.mark.parametrize("name", NAMES)
def test_the_command_takes_it_by_its_name(name: str) -> None:
    found = wirelens("classify", "-q", "-r", DEMO, "--model", name, "--format", "csv")
    assert found.status == 0, found.stderr
    head = json.loads((MODELS / name / "cascade.json").read_text(encoding="utf-8"))
    asked = [row for row in found.rows if row["cause"] != "protocol"]
    assert {row["guess"] for row in asked} <= set(head["classes"])
    for row in found.rows:
        is_by_protocol = row["protocol"] not in ("tcp", "udp") and head.get("portless") == "named"
        assert (row["label"] == row["protocol"]) == is_by_protocol, row
        assert row["label"] in (row["guess"], "unknown"), row
    assert all(row["model"].startswith(f"{name}@") for row in found.rows)


@pytest.mark.parametrize("name", NAMES)
def test_both_front_ends_call_it_the_same(name: str, tmp_path: Path) -> None:
    """The id covers every file that answers depend on, in the command and in Python."""
    pytest.importorskip("numpy")
    from wirelens.classify import cascade

    model = tmp_path / name
    shutil.copytree(MODELS / name, model)
    head = json.loads((model / "cascade.json").read_text(encoding="utf-8"))
    others = [head.get("names"), *(stage["file"] for stage in head["stages"])]
    ids = []
    for file in (None, "card.md", *filter(None, others)):
        if file is not None:
            change(model / file)
            seal(model, *(path.name for path in model.iterdir() if path.name != "SHA256SUMS"))
        ran = wirelens("classify", "-q", "-r", DEMO, "--model", model, "--format", "csv")
        assert ran.status == 0, ran.stderr
        ids.append(ran.rows[0]["model"])
        assert cascade.load(model).id == ids[-1], file
    # The card alone is for readers.
    assert ids[0] == ids[1] and len(set(ids)) == len(ids) - 1, ids


def change(path: Path) -> None:
    """Another file of the same name, which means the same."""
    text = path.read_text(encoding="utf-8")
    if path.name.endswith(".jsonl"):
        change_trees(path)
    else:
        path.write_text(f"{text}\n" if path.suffix == ".md" else add_line(text))


def add_line(text: str) -> str:
    """A list of names with one more, which no flow has."""
    kind, _, name = text.splitlines()[-1].split("\t")
    return f"{text}{kind}\tno-such-label\t{name}\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_with_another_byte_is_refused_in_a_line(name: str, tmp_path: Path) -> None:
    model = tmp_path / name
    shutil.copytree(MODELS / name, model)
    stages = json.loads((model / "cascade.json").read_text(encoding="utf-8"))["stages"]
    for file in ("cascade.json", "SHA256SUMS", *(stage["file"] for stage in stages)):
        whole = (model / file).read_bytes()
        places = [0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 2, len(whole) - 1]
        changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in places]
        for content in (*changed, b"", whole[:-1], whole[: len(whole) // 2], whole + b"\n"):
            (model / file).write_bytes(content)
            ran = wirelens("classify", "-q", "-r", DEMO, "--model", model)
            # Of the sums only those of the files that are read matter.
            may_be_fine = file == "SHA256SUMS" and ran.status == 0
            assert may_be_fine or (ran.status == 1 and not ran.stdout), (file, len(content))
            assert may_be_fine or ran.stderr.startswith(f"wirelens: {model}/"), ran.stderr
            assert ran.stderr.count("\n") == (0 if may_be_fine else 1), ran.stderr
        (model / file).write_bytes(whole)
    assert wirelens("classify", "-q", "-r", DEMO, "--model", model).status == 0


def test_most_services_of_a_run_that_nobody_trained_on_are_named_right() -> None:
    seed = json.loads((SAMPLE / "run.json").read_text(encoding="utf-8"))["seed"]
    with (MODELS / "recipes/services-runs.tsv").open(encoding="utf-8") as table:
        assert str(seed) not in {row["seed"] for row in csv.DictReader(table, delimiter="\t")}
    with (MODELS / "recipes/services-classes.tsv").open(encoding="utf-8") as table:
        called = {row["label"]: row["class"] for row in csv.DictReader(table, delimiter="\t")}
    with (SAMPLE / "flows.tsv").open(encoding="utf-8") as table:
        truth = {
            (row["community_id"], row["first_ns"]): called[row["label"]]
            for row in csv.DictReader(table, delimiter="\t")
            if called[row["label"]] != "-"
        }
    found = wirelens(
        "classify", "-q", "-r", SAMPLE / "lan.pcapng.gz", "--model", "services", "--format", "csv"
    )
    assert found.status == 0, found.stderr
    said = {(row["community_id"], str(row["first_ns"])): row["label"] for row in found.rows}
    both = [(said[key], label) for key, label in truth.items() if key in said]
    assert len(both) >= 0.9 * len(truth)
    right = sum(one == other for one, other in both) / len(both)
    majority = Counter(label for _, label in both).most_common(1)[0][1] / len(both)
    assert right > max(0.7, majority + 0.2), (right, majority)


def test_the_packet_logs_model_is_whole_and_small() -> None:
    folder = MODELS / "packetlog"
    assert {path.name for path in folder.iterdir()} == {
        "card.md", "model.json", "SHA256SUMS",
    }  # fmt: skip
    texts = [path.read_text(encoding="utf-8") for path in folder.iterdir()]
    assert sum(len(text) for text in texts) < 500_000
    assert not any(place in text for text in texts for place in ("/work/", "/tmp/"))
    told = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert told["classes"] == ["benign", "anomalous"]
    card = (folder / "card.md").read_text(encoding="utf-8")
    assert "## Quality" in card and "## Limits" in card


def test_the_packet_logs_model_finds_attacks_in_a_run_it_never_saw() -> None:
    from wirelens.packetlog import judgements

    # The sample was made with another seed; some of its tools are not among those of training.
    run = ROOT / "testdata/testbed/attacks"
    with gzip.open(run / "packets.tsv.gz", "rt") as lines:
        labels = list(csv.DictReader(lines, delimiter="\t"))
    marked = [
        index > 0
        for batch in judgements(run / "lan.pcapng.gz", MODELS / "packetlog/model.json", seed=1)
        for index in batch.classes
    ]
    parts: dict[str, list[bool]] = {}
    for line, is_marked in zip(labels, marked, strict=True):
        if line["role"] != "intercepted":
            parts.setdefault(line["label"], []).append(is_marked)
    shares = {label: sum(found) / len(found) for label, found in parts.items()}
    benign = shares.pop("benign")
    assert benign < 0.1 < 0.7 < sum(shares.values()) / len(shares)


def test_the_model_of_congestion_controls_is_whole_and_small() -> None:
    folder = MODELS / "cca"
    names = {path.name for path in folder.iterdir()}
    assert names == {"SHA256SUMS", "card.md", "model.safetensors"}
    content = (folder / "model.safetensors").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    assert (folder / "SHA256SUMS").read_text() == f"{digest}  model.safetensors\n"
    card = (folder / "card.md").read_text(encoding="utf-8")
    assert len(content) < 1_000_000
    assert not any(place in card for place in ("/work/", "/tmp/"))
    assert not any(place in content for place in (b"/work/", b"/tmp/"))
    (length,) = struct.unpack("<Q", content[:8])
    said = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["wirelens"])
    assert said["controls"] == ["bbr", "cubic", "reno"]
    lengths = [(network["slots"], network["row_slots"]) for network in said["networks"]]
    assert lengths == [(10, 1), (100, 1), (1000, 1), (10_000, 10)]
    assert said["votes"]["most"] == 60
    assert "F1 on `heldout`" in card and "bash models/make.sh cca testbed/data" in card
