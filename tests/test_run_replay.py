"""`wirelens run` on real traffic of a link, and again on the log that it made there: the verdicts
are the same. Without root these are skipped; root has to be able to run them."""

import csv
from pathlib import Path

from captures import read_pcapng
from command import ROOT
from lab import Listening, identity, new_link
from run_settings import Settings, run, written

DEMO = ROOT / "testdata/demo.pcapng"
# Live only: how long after a frame became readable its verdict was there. Of a folder only: which
# capture a flow is from.
OF_ONE_SIDE = ("latency_ns", "capture")


def tables(folder: Path, source: dict[str, object]) -> Settings:
    names = ("top", "flows", "classify", "cca", "unanswered")
    rows: Settings = {name: {"output": folder / f"{name}.csv"} for name in names}
    return {
        "input": source,
        "top": rows["top"] | {"by": "flow", "rows": 0, "window": "1s"},
        "flows": rows["flows"] | {"stats": True},
        "classify": rows["classify"] | {"model": "services"},
        "cca": rows["cca"] | {"rows": 0, "every": "100ms"},
        "unanswered": rows["unanswered"],
    }


def rows(path: Path) -> list[dict[str, str]]:
    """In one order: live, rows also leave when the link is silent."""
    found = [
        {key: value for key, value in row.items() if key not in OF_ONE_SIDE}
        for row in csv.DictReader(path.open())
    ]
    return sorted(found, key=lambda row: tuple(row.values()))


def test_live_and_replay_agree(tmp_path: Path) -> None:
    live, replay = tmp_path / "live", tmp_path / "replay"
    live.mkdir()
    replay.mkdir()
    frames = [frame.data for frame in read_pcapng(DEMO)]
    log = {"output": tmp_path / "log", "mode": "log-all", "fixed-mode": True}
    settings = tables(live, {"interface": "wl0", "buffer-size": "64M"}) | {"packetlog": log}
    path = tmp_path / "live.toml"
    path.write_text(written(settings))
    with new_link() as link, Listening(tmp_path, "run", "-c", path) as listening:
        link.send(frames)
        ended = listening.end()
    assert ended.status == 0, ended.stderr
    assert identity(ended)["processed"] == len(frames)
    again = run(tmp_path, written(tables(replay, {"read": tmp_path / "log"})))
    assert again.status == 0, again.stderr
    for name in ("top", "flows", "classify", "cca", "unanswered"):
        assert rows(live / f"{name}.csv") == rows(replay / f"{name}.csv"), name
    assert len(rows(live / "classify.csv")) > 300


def test_flows_of_every_table_join(tmp_path: Path) -> None:
    """One identifier: Community ID and first stamp name a flow in each table that has flows."""
    assert run(tmp_path, written(tables(tmp_path, {"read": DEMO})), "-q").status == 0
    named = {
        name: [(row["community_id"], row["first_ns"]) for row in rows(tmp_path / f"{name}.csv")]
        for name in ("flows", "classify", "unanswered")
    }
    flows = set(named["flows"])
    assert len(flows) == len(named["flows"]) > 300
    assert sorted(named["classify"]) == sorted(named["flows"])
    assert set(named["unanswered"]) < flows
    ids = {community_id for community_id, _ in flows}
    for name in ("top", "cca"):
        assert {row["community_id"] for row in rows(tmp_path / f"{name}.csv")} <= ids
