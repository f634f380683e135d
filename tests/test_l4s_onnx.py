"""Latency models in ONNX: ONNX Runtime predicts in the program what PyTorch does."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
from wirelens import _wirelens
from wirelens.errors import ModelError, OptionError
from wirelens.l4s import Scenario, Summary, Traffic, packets, simulate
from wirelens.l4s.served import read_model

PACKAGES = ("onnx", "onnxruntime")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(
        bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; bash tools/setup.sh train"
    ),
]
WINDOW = 24
SCENARIO = Scenario(
    [Traffic("prague", 4), Traffic("cubic", 2)],
    router="mode=partitioned,l4s-share=20", control="random:0.05", duration_s=3, seed=3,
)  # fmt: skip


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("l4s") / "router.trace"
    simulate(SCENARIO, trace=path)
    return path


def run(*arguments: Any, status: int = 0) -> subprocess.CompletedProcess[str]:
    # The library is in the packages of this Python.
    command = [sys.executable, "-m", "wirelens", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture(scope="module")
def full(trace: Path) -> Path:
    folder = trace.parent / "full"
    run("train", "l4s", "-r", trace, "-o", folder, "--network", "full", "--window", WINDOW,
        "--steps", 60)  # fmt: skip
    return folder


@pytest.mark.parametrize("kind", ["full", "bilstm"])
def test_the_program_predicts_what_pytorch_does(kind: str, trace: Path, tmp_path: Path) -> None:
    from wirelens.l4s import learn, model
    from wirelens.l4s.examples import Part
    from wirelens.l4s.material import Material
    from wirelens.l4s.packets import BATCHING

    found = packets.read_packets(trace)
    material = Material.of(found)
    span = slice(0, len(found))
    part = Part(material, span)
    network = learn.train(kind, WINDOW, [part], [part], learn.Schedule.of(10))
    files = model.files(kind, network, BATCHING, {})
    model.write(tmp_path / kind, files, "# A card\n", force=False)
    memory = _wirelens.predict_latencies(read_model(tmp_path / kind), found.records.tobytes())
    both = numpy.frombuffer(memory, "f4").reshape(-1, 2)
    taken = both[numpy.arange(len(both)), found.records["queue"]]
    wanted = material.predicted_ms(learn.predict(network, part))
    known = ~numpy.isnan(material.rows.base_ms)
    assert numpy.isnan(taken[~known]).all() and known.sum() > 8_000
    # 1e-4 of the network's unit of 100 ms.
    assert abs(taken - wanted)[known].max() < 0.01
    # A window that is not full yet is among them.
    assert (material.rows.known[known] < WINDOW).any()


def test_what_is_predicted_of_a_packet_does_not_depend_on_others_that_are_asked_about() -> None:
    from wirelens.l4s import packets as sizes
    from wirelens.l4s.networks import Full
    from wirelens.learn.networks import tensor, torch

    torch.manual_seed(1)
    network = Full(8).eval()
    dice = numpy.random.default_rng(1)
    tokens = tensor(dice.normal(size=(1, 8, sizes.TOKEN_LEN)))
    queries = tensor(dice.normal(size=(1, 5, sizes.QUERY_LEN)))
    is_pad = torch.zeros(1, 8) > 0
    with torch.no_grad():
        together = network.encode(tokens, queries, is_pad)[:, :2]
        apart = network.encode(tokens, queries[:, :2], is_pad)
    assert float(abs(together - apart).max()) < 1e-5


def test_a_model_in_onnx_steers_the_simulator_and_is_compared_with_rules(
    full: Path, tmp_path: Path
) -> None:
    assert sorted(path.name for path in full.iterdir()) == [
        "SHA256SUMS", "card.md", "model.json", "model.onnx",
    ]  # fmt: skip
    said = json.loads((full / "model.json").read_text())
    assert (said["format"], said["network"], said["window"]) == ("wirelens-l4s-onnx 1", "full", 24)
    assert "The network is `full`." in (full / "card.md").read_text()
    scenario = SCENARIO.having(control="predicted:0ms:0.2", duration_s=2)
    found = simulate(scenario, model=full)
    assert found.steered.kept and 0 < found.steered.remarked <= 0.2 * found.steered.asked
    (tmp_path / "scenario.txt").write_text(scenario.text())
    told = run("testbed", "simulate", tmp_path / "scenario.txt", "--model", full)
    assert Summary.read(told.stdout) == found
    compared = run("eval", "l4s", "--controls", "--scenarios", "greedy", "--routers",
                   "partitioned-20", "--seeds", 1, "--duration", 1, "--model", full)  # fmt: skip
    assert "| predicted |" in compared.stdout


def test_what_cannot_be_is_refused(full: Path, trace: Path, tmp_path: Path) -> None:
    from wirelens.sealed import line

    control = SCENARIO.having(control="predicted:1ms", duration_s=1)
    with pytest.raises(OptionError, match="a model in ONNX cannot be fine-tuned; wanted: a causal"):
        simulate(control, model=full, tune=1)
    with pytest.raises(OptionError, match="tune: a model in ONNX cannot be fine-tuned"):
        _wirelens.predict_latencies(read_model(full), b"", tune=(0, 1, 1))
    again = run("train", "l4s", "-r", trace, "-o", full, "--steps", 1, status=1)
    assert "exists; give another folder, or --force" in again.stderr

    def served(folder: Path, said: dict[str, Any], network: bytes) -> None:
        folder.mkdir(exist_ok=True)
        files = {"model.json": json.dumps(said).encode(), "model.onnx": network}
        for name, content in files.items():
            (folder / name).write_bytes(content)
        sums = "".join(line(name, content) for name, content in files.items())
        (folder / "SHA256SUMS").write_text(sums)
        simulate(control, model=folder)

    said = json.loads((full / "model.json").read_text())
    network = (full / "model.onnx").read_bytes()
    for changed, text in [
        ({"window": 25}, r'"tokens" is .*; wanted: a tensor of 32-bit floats, 25 × 22'),
        ({"window": 0}, "window 0; wanted: 1 to"),
        ({"format": "wirelens-l4s 1"}, 'format "wirelens-l4s 1"; wanted: "wirelens-l4s-onnx 1"'),
        ({"token": ["size"]}, "token: made for other inputs"),
    ]:
        with pytest.raises(ModelError, match=text):
            served(tmp_path / "other", said | changed, network)
    with pytest.raises(ModelError, match="not an ONNX model that ONNX Runtime can run"):
        served(tmp_path / "other", said, network[:1_000])
    (tmp_path / "other" / "model.onnx").write_bytes(b"changed")
    with pytest.raises(ModelError, match="differs from SHA256SUMS"):
        simulate(control, model=tmp_path / "other")
