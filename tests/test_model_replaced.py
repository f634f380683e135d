"""A model that is replaced while a run listens: each flow keeps the one that it began with."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from command import ROOT, wirelens
from lab import Link, Listening, datagrams, identity, new_link
from sealing import change_trees, seal
from workers import Worker, server_in
from workers import settings as workers_settings

pytestmark = pytest.mark.testbed

FLOWS = 100
# No port of any service: the first stage is unsure, and the last one wants three packets.
BEFORE, AFTER = 9_000, 9_001


def put_model(folder: Path, name: str, unknown_below: str) -> None:
    """A shipped model in a folder, with another threshold and thus another hash."""
    folder.mkdir(exist_ok=True)
    for path in (ROOT / "models" / name).iterdir():
        if path.is_file() and path.name != "SHA256SUMS":
            (folder / path.name).write_bytes(path.read_bytes())
    cascade = folder / "cascade.json"
    text = cascade.read_text()
    assert '"unknown_below": 0.5' in text
    cascade.write_text(text.replace('"unknown_below": 0.5', f'"unknown_below": {unknown_below}'))
    seal(folder, *(path.name for path in folder.iterdir() if path.name != "SHA256SUMS"))


def put_stage(folder: Path) -> None:
    """Another last stage under the name of the one before, as if it was trained again."""
    change_trees(folder / "slow.trees.jsonl")
    seal(folder, *(path.name for path in folder.iterdir() if path.name != "SHA256SUMS"))


def settings(folder: Path, more: str = "") -> Path:
    path = folder / "wirelens.toml"
    path.write_text(
        '[input]\ninterface = "wl0"\n[page]\nlisten = "127.0.0.1:0"\n'
        f'[classify]\nmodel = "{folder}/model"\noutput = "{folder}/rows.jsonl"\n{more}'
    )
    return path


def send(link: Link, port: int, packets: int) -> None:
    for _ in range(packets):
        link.send(datagrams(FLOWS, port=port))


def test_flows_keep_the_model_that_they_began_with(tmp_path: Path) -> None:
    model = tmp_path / "model"
    put_model(model, "services", "0.5")
    with new_link() as link, Listening(tmp_path, "run", "-c", settings(tmp_path)) as live:
        send(link, BEFORE, 1)
        link.settle()
        put_model(model, "services", "0.51")
        live.signal(signal.SIGHUP)
        live.wait_for(r"\[classify\] services@\w+ serves flows from now on, in place of services@")
        send(link, BEFORE, 2)
        send(link, AFTER, 3)
        # Nothing was changed since; then a model that cannot take its place.
        live.signal(signal.SIGHUP)
        live.wait_for("the settings are unchanged")
        put_model(model, "categories", "0.5")
        live.signal(signal.SIGHUP)
        live.wait_for(r"has other classes than services@\w+: takes effect at the next start")
        link.settle()
        ran = live.end()
    assert ran.status == 0, ran.stderr
    packets = identity(ran)
    assert (packets["processed"], packets["dropped"]) == (6 * FLOWS, 0)
    # Each hangup has begun a new file.
    files = sorted(tmp_path.glob("rows*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(rows) == len({row["community_id"] for row in rows}) == 2 * FLOWS
    models = {port: Counter() for port in (BEFORE, AFTER)}
    for row in rows:
        models[row["dst_port"]][row["model"]] += 1
        assert (row["stage"], row["packets_used"], row["cause"]) == ("slow", 3, "last-stage")
    [(first, _)], [(second, _)] = models[BEFORE].items(), models[AFTER].items()
    assert first != second and first.startswith("services@") and second.startswith("services@")
    assert f"{second} serves flows from now on, in place of {first}" in ran.stderr
    assert f"verdicts by model: {FLOWS} by {first}, {FLOWS} by {second}" in ran.stderr


@pytest.mark.parametrize("more", ["", 'rotate-bytes = "1M"\n'], ids=["one-file", "many-files"])
def test_a_stage_of_the_same_name_is_taken_up(tmp_path: Path, more: str) -> None:
    model = tmp_path / "model"
    put_model(model, "services", "0.5")
    with new_link() as link, Listening(tmp_path, "run", "-c", settings(tmp_path, more)) as live:
        send(link, BEFORE, 3)
        link.settle()
        put_stage(model)
        live.signal(signal.SIGHUP)
        live.wait_for(r"\[classify\] services@\w+ serves flows from now on, in place of services@")
        ran = live.end()
    assert ran.status == 0, ran.stderr


def test_a_worker_with_another_stage_is_not_asked(tmp_path: Path) -> None:
    """Its scores would be others than those that the sensor expects."""
    model = tmp_path / "model"
    put_model(model, "services", "0.5")
    put_stage(model)
    with server_in(tmp_path) as server, Worker(tmp_path, server.address, model=model) as worker:
        server.wait_for_workers(1)
        ran = wirelens("run", "-c", workers_settings(tmp_path, server.address))
        assert ran.status == 0 and "no worker has services@" in ran.stderr, ran.stderr
        assert worker.end().rows == 0
