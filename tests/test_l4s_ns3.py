"""The router of Wirelens in ns-3: what it does to real TCP of ns-3, and that it can be asked again.

`make test-ns3` builds what is run here. The runs are short; docs/guide/testbed-l4s.md has longer
ones.
"""

import json
import math
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import wirelens
from wirelens import _wirelens
from wirelens.l4s import read_trace
from wirelens.sealed import line

pytestmark = pytest.mark.ns3

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/ns3/l4s"
SCENARIOS = ROOT / "testbed/scenarios"
SHORT = ["--set", "duration_ns 3000000000"]
MS = 1_000_000


def run(scenario: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [PROGRAM, SCENARIOS / f"l4s-{scenario}.txt", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


def summary(scenario: str, *arguments: str) -> dict[str, Any]:
    done = run(scenario, *SHORT, *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def dropped(queue: dict[str, int]) -> int:
    return queue["dropped_full"] + queue["dropped_early"] + queue["dropped_late"]


def test_l4s_packets_wait_a_little_and_classic_ones_as_long_as_the_target() -> None:
    found = summary("default")
    queues = found["queues"]
    assert queues["l4s"]["packets"] > 5_000
    assert queues["l4s"]["p99_ms"] <= 3
    assert 5 < queues["classic"]["p50_ms"] < 60
    assert queues["l4s"]["marked_pi"] > 0
    assert sum(group["throughput_bps"] for group in found["groups"]) > 60e6


@pytest.mark.parametrize("scenario", ["messages", "steered", "tail-drop", "mixed"])
def test_every_packet_is_accounted_for_and_a_journal_is_decided_the_same(
    scenario: str, tmp_path: Path
) -> None:
    trace, journal = tmp_path / "trace", tmp_path / "journal"
    found = summary(scenario, "--trace", str(trace), "--journal", str(journal))
    for queue in found["queues"].values():
        assert queue["received"] == queue["sent"] + dropped(queue) + queue["waiting"]
    seed = ("--seed", str(found["seed"]))
    again = wirelens("testbed", "replay", journal, "--router", found["router"], *seed)
    assert (again.status, again.stderr) == (0, ""), again.stdout
    other = wirelens("testbed", "replay", journal, "--router", "mode=dualpi2,step=10us", *seed)
    assert other.status == 1

    table = read_trace(trace)
    assert table.num_rows == found["records"]
    outcomes = table["outcome"].to_pylist()
    # Packets without data, such as the first of a connection, pass the router and have no record.
    received = sum(queue["received"] for queue in found["queues"].values())
    assert 0 <= received - table.num_rows < 200
    lost = sum(dropped(queue) for queue in found["queues"].values())
    assert 0 <= lost - sum(outcome in (1, 2, 3) for outcome in outcomes) < 200
    remarked = sum(flags & 2 for flags in table["flags"].to_pylist()) // 2
    # What was asked about just before the end is not at the router yet.
    assert 0 <= found["steered"]["remarked"] - remarked <= 1


def crafted(folder: Path) -> Path:
    """A model that takes the L4S queue to be 500 ms slower than the newest latency, and nothing
    else: it would re-mark each packet."""
    width, token_len, token, query_len, query = 8, *_wirelens.latency_numbers()
    shapes = {
        "input.weight": [width, token_len], "input.bias": [width],
        "layers.0.self_attn.in_proj_weight": [3 * width, width],
        "layers.0.self_attn.in_proj_bias": [3 * width],
        "layers.0.self_attn.out_proj.weight": [width, width],
        "layers.0.self_attn.out_proj.bias": [width],
        "layers.0.linear1.weight": [8, width], "layers.0.linear1.bias": [8],
        "layers.0.linear2.weight": [width, 8], "layers.0.linear2.bias": [width],
        **{f"layers.0.norm{n}.{name}": [width] for n in (1, 2) for name in ("weight", "bias")},
        "head.0.weight": [1, width + query_len], "head.0.bias": [1],
        "head.1.weight": [1, 1], "head.1.bias": [1],
    }  # fmt: skip
    # The first number of a query is its queue: 1 of L4S, -1 of the classic one, which ReLU drops.
    ones = {("head.0.weight", width + query.index("queue")): 1.0, ("head.1.weight", 0): 5.0}
    header: dict[str, Any] = {}
    content = b""
    for name, shape in shapes.items():
        numbers = [ones.get((name, at), 0.0) for at in range(math.prod(shape))]
        data = struct.pack(f"<{len(numbers)}f", *numbers)
        place = [len(content), len(content) + len(data)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": place}
        content += data
    said = {
        "format": "wirelens-l4s 1", "window": 16, "heads": 2, "layers": 1, "width": width,
        "hidden": 8, "batch_packets": 8, "batch_span_ns": 2 * MS, "token": token, "query": query,
    }  # fmt: skip
    header["__metadata__"] = {"wirelens": json.dumps(said)}
    head = json.dumps(header).encode()
    file = struct.pack("<Q", len(head)) + head + content
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(file)
    (folder / "SHA256SUMS").write_text(line("model.safetensors", file))
    return folder


def test_a_model_steers_the_same_scenario_in_both_worlds(tmp_path: Path) -> None:
    model = crafted(tmp_path / "model")
    more = ["control predicted:1ms:0.2", "warmup_ns 0"]
    lines = [word for key in more for word in ("--set", key)]
    ours = [f"--set={key.replace(' ', '=')}" for key in (*more, SHORT[1])]
    scenario = SCENARIOS / "l4s-partitioned.txt"
    simulated = wirelens("testbed", "simulate", scenario, *ours, "--model", model, "-o",
                         tmp_path / "simulator")  # fmt: skip
    assert simulated.status == 0, simulated.stderr
    worlds = {
        "simulator": json.loads(simulated.stdout),
        "ns-3": summary("partitioned", *lines, "--model", str(model), "--trace",
                        str(tmp_path / "ns-3")),
    }  # fmt: skip
    for world, found in worlds.items():
        assert found["world"] == world
        counts = found["steered"]
        outcomes = ("kept", "remarked", "rare", "silent", "unknown", "limited")
        assert counts["asked"] == sum(counts[name] for name in outcomes)
        assert 0.15 < counts["remarked"] / counts["asked"] <= 0.2 and counts["limited"] > 0
        rows = read_trace(tmp_path / world).to_pylist()
        remarked = [row for row in rows if row["flags"] & 2]
        # What was asked about just before the end is not at the router yet.
        assert 0 <= counts["remarked"] - len(remarked) <= 2, world
        assert sum(group["remarked"] for group in found["groups"]) <= len(remarked)
        assert {(row["sender"], row["ecn_sent"], row["queue"]) for row in remarked} == {(1, 0, 1)}
        # Flows of ECT(1) are re-marked and no others, which keep their field.
        flows = {row["flow"] for row in rows if row["sender"] == 1 and row["ecn_sent"] == 1}
        assert {row["flow"] for row in remarked} <= flows
        kept = sum(row["ecn_sent"] == 1 for row in rows if row["sender"] == 1)
        assert 0 <= counts["asked"] - counts["remarked"] - kept <= 20, world


def test_a_model_that_cannot_be_is_refused(tmp_path: Path) -> None:
    model = crafted(tmp_path / "model")
    control = ["--set", "control predicted:1ms"]
    for arguments, said in [
        (control, "`control predicted:1ms`: wanted its model: --model DIR"),
        ([*control, "--model", str(tmp_path)], "model.safetensors: cannot be read"),
        (["--model", str(model)], "`control none`: needs no model; wanted predicted:TIME"),
        (["--set", "control predicted:1", "--model", str(model)], "wanted: predicted:TIME"),
    ]:
        done = run("default", *arguments)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    (model / "model.safetensors").write_bytes(b"none")
    done = run("default", *control, "--model", str(model))
    assert done.returncode == 2 and "wanted: a model of `wirelens train l4s`" in done.stderr


def test_times_of_a_packet_are_in_order_and_those_of_the_links(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    summary("default", "--trace", str(trace))
    previous, acked = 0, 0
    for row in read_trace(trace).to_pylist():
        assert row["sent_ns"] < row["entered_ns"] >= previous
        previous = row["entered_ns"]
        if row["outcome"] != 0 or row["received_ns"] is None:
            continue
        # 1502 bytes at 100 Mbit/s, and 20 ms.
        assert row["entered_ns"] <= row["left_ns"]
        assert row["received_ns"] - row["left_ns"] == 120_160 + 20 * MS
        if row["acked_ns"] is not None:
            assert 20 * MS < row["acked_ns"] - row["received_ns"] < 21 * MS
            acked += 1
    assert acked > 10_000


def test_a_seed_decides_every_byte(tmp_path: Path) -> None:
    def written(name: str, seed: int) -> bytes:
        path = tmp_path / name
        summary("messages", "--set", f"seed {seed}", "--trace", str(path))
        return path.read_bytes()

    first = written("first", 5)
    assert written("second", 5) == first
    assert written("third", 6) != first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second", "third"]


def test_delays_may_leave_the_start_out() -> None:
    whole, rest = summary("default"), summary("default", "--set", "warmup_ns 2000000000")
    for name, queue in rest["queues"].items():
        before = whole["queues"][name]
        assert 0 < queue["packets"] < before["packets"]
        assert queue["max_ms"] <= before["max_ms"]
        assert queue["received"] == before["received"]
    refused = run("default", *SHORT, "--set", "warmup_ns 2s")
    assert "`warmup_ns 2s`: wanted a number from 0 to" in refused.stderr


def test_one_queue_holds_up_l4s_packets_too() -> None:
    found = summary("tail-drop")
    assert found["queues"]["l4s"]["received"] == 0
    assert found["groups"][0]["p99_ms"] > 10


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("router mode=red", "`mode`: wanted dualpi2, partitioned or tail-drop"),
        ("router mode=dualpi2,bandwidth=3", "`router`: wanted one of mode, limit"),
        ("control oracle:1ms", "`oracle:1ms` names no control; wanted none"),
        ("rate 100", "--set: unknown key `rate`: wanted rate_bps, access_bps"),
        ("rate_bps 1e8", "`rate_bps 1e8`: wanted a number from 100000"),
        ("group congestion=vegas", "`congestion=vegas`: wanted prague, dctcp, cubic, bbr or reno"),
        ("group count=2", "a group without `congestion=`"),
        ("group congestion=bbr load=full", "`load=full`: wanted greedy or messages:"),
        (
            "group congestion=bbr load=messages:mail:9000",
            "`messages:mail`: wanted one of websearch",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(line: str, said: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    done = run("default", "--set", line, "--trace", str(trace))
    assert (done.returncode, done.stdout, trace.exists()) == (2, "", False)
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_arguments_are_explained_and_refused_by_name() -> None:
    helped = run("default", "--help")
    assert helped.returncode == 0 and "usage: l4s SCENARIO" in helped.stdout
    for arguments, said in [
        (["--speed"], "`--speed`: not understood"),
        (["--set"], "wanted a value"),
    ]:
        done = run("default", *arguments)
        assert done.returncode == 2 and said in done.stderr
    missing = run("nowhere")
    assert missing.returncode == 2 and "l4s-nowhere.txt: cannot be read" in missing.stderr


def test_without_ns3_the_line_to_type_is_said(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    hidden = {"apt-get", "sudo", "g++"}
    for folder in os.environ["PATH"].split(":"):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else []:
            link = programs / program.name
            if program.name not in hidden and not link.is_symlink():
                link.symlink_to(program)
    # A compiler that finds no header.
    compiler = programs / "g++"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "tools/setup.sh", "ns3"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "libns3-dev" in done.stderr and "Try: apt-get install libns3-dev" in done.stderr
