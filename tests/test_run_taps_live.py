"""`wirelens run` with two taps of interfaces around a queue, other applications beside them. Links
are of the tests' own, in network namespaces; see lab.py. Without root these are skipped."""

import csv
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import wirelens
from lab import Link, Listening, bring_up, datagrams, identity, ip, new_link, wait_until
from run_settings import written
from test_cca_live import BEFORE, BEHIND, PORTS, recording, replay

Tables = dict[str, dict[str, object]]
Row = dict[str, Any]


@pytest.fixture
def links() -> Iterator[Link]:
    with new_link() as made:
        ip(f"link add {BEHIND[0]} type veth peer name {BEHIND[1]}")
        bring_up(*BEHIND)
        yield made


def tables(folder: Path) -> Tables:
    """Taps of two interfaces, of which the first is listened on as well."""
    return {
        "input": {"interface": BEFORE[0]},
        "flows": {"output": folder / "flows.csv"},
        "cca": {"egress": BEHIND[0], "every": "100ms", "output": folder / "cca.jsonl"},
    }


def put(folder: Path, asked: Tables) -> Path:
    path = folder / "wirelens.toml"
    path.write_text(written(asked))
    return path


def told(*paths: Path) -> list[Row]:
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def of_captures(before: Path, after: Path) -> dict[tuple[object, object], Row]:
    """What captures say that were made at the taps meanwhile."""
    words = ("cca", "-r", before, "--egress", after, "--every", "100ms", "--format", "jsonl")
    ran = wirelens(*words, "--egress-offset", "0", "-n", "0")
    rows = map(json.loads, ran.stdout.splitlines())
    return {(row["start_ns"], row["src_port"]): row for row in rows}


def compare(rows: list[Row], captures: dict[tuple[object, object], Row]) -> None:
    """Kernel and captures, from where all flows are followed: nine of ten periods are the same to
    the digit, and bytes of all periods are. A busy machine may handle a packet after the period
    was shown by whose time it is stamped; its bytes are then in the next one."""
    of_flow: dict[object, list[int]] = {}
    for row in rows:
        of_flow.setdefault(row["src_port"], []).append(row["start_ns"])
    begin = max(starts[2] for starts in of_flow.values())
    compared = [row for row in rows if row["start_ns"] >= begin]
    assert len(compared) > 30
    beside = [captures.get((row["start_ns"], row["src_port"]), {}) for row in compared]
    others = {row["start_ns"] for row, other in zip(compared, beside, strict=True) if row != other}
    assert len(others) * 10 <= len({row["start_ns"] for row in compared}), others
    for bytes_of in ("ingress_bytes", "egress_bytes"):
        kernel = sum(row[bytes_of] for row in compared)
        recorded = sum(other.get(bytes_of, 0) for other in beside)
        assert kernel == pytest.approx(recorded, rel=0.01), bytes_of


def test_two_taps_run_beside_other_applications(tmp_path: Path, links: Link) -> None:
    """Rows are those of captures made at the taps, files are begun anew at a hangup without a gap,
    and the other application sees every packet that it listens for."""
    before, after = tmp_path / "b.pcap", tmp_path / "a.pcap"
    with (
        recording(BEFORE[0], before),
        recording(BEHIND[0], after),
        Listening(tmp_path, "run", "-c", put(tmp_path, tables(tmp_path))) as live,
    ):
        live.wait_for(f"cca: listening on {BEFORE[0]}, and downstream of the queue on {BEHIND[0]}")
        replay(tmp_path, slower=2.0)
        live.signal(signal.SIGHUP)
        wait_until((tmp_path / "cca.jsonl").exists, "the first file is complete")
        replay(tmp_path)
        time.sleep(0.3)
        ran = live.end()
    assert ran.status == 0, ran.stderr
    rows = told(*sorted(tmp_path.glob("cca*.jsonl")))
    compare(rows, of_captures(before, after))
    assert len(list(tmp_path.glob("cca*.jsonl"))) == 2
    flows = [row for path in tmp_path.glob("flows*.csv") for row in csv.DictReader(path.open())]
    sent = sum(int(row["src_packets"]) + int(row["dst_packets"]) for row in flows)
    assert sent == identity(ran)["processed"] > 10_000
    # Each tap counts for itself, and says so by name.
    assert f"cca: {BEFORE[0]}: 10686 packets passed" in ran.stderr, ran.stderr
    assert f"cca: {BEHIND[0]}: 10536 packets passed" in ran.stderr, ran.stderr


def test_taps_alone_take_no_packet_into_the_process(tmp_path: Path, links: Link) -> None:
    asked = tables(tmp_path)
    del asked["flows"]
    asked["input"]["duration"] = "4s"
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        replay(tmp_path)
        wait_until(lambda: live.process.poll() is not None, "it ends after its time")
        ran = live.end()
    assert ran.status == 0, ran.stderr
    assert "packets captured" not in ran.stderr, ran.stderr
    assert len(told(tmp_path / "cca.jsonl")) > 20


def test_a_tap_that_vanishes_is_reported_and_the_others_go_on(tmp_path: Path, links: Link) -> None:
    with Listening(tmp_path, "run", "-c", put(tmp_path, tables(tmp_path))) as live:
        links.send(datagrams(10))
        ip(f"link del {BEHIND[0]}")
        live.wait_for(f"cca: .*{BEHIND[0]}.*; the others continue")
        links.send(datagrams(20))
        time.sleep(0.2)
        ran = live.end()
    assert ran.status == 1, ran.stderr
    assert identity(ran)["processed"] == 30
    assert (tmp_path / "flows.csv").exists() and (tmp_path / "cca.jsonl").exists()


def test_rules_choose_the_flows_that_taps_follow(tmp_path: Path, links: Link) -> None:
    """No flow brings so many bytes at first; then the rule is changed, and all of them do."""
    asked = tables(tmp_path)
    rule = {"bytes": "1G", "cca": True}
    path = tmp_path / "wirelens.toml"
    path.write_text(written(asked, [rule]))
    with Listening(tmp_path, "run", "-c", path) as live:
        replay(tmp_path)
        assert not list(tmp_path.glob("cca.jsonl*")) or not any(
            path.read_bytes() for path in tmp_path.glob("cca.jsonl*")
        )
        path.write_text(written(asked, [rule | {"bytes": "1K"}]))
        live.signal(signal.SIGHUP)
        live.wait_for("rules were changed: 1 in force")
        replay(tmp_path)
        time.sleep(0.3)
        ran = live.end()
    assert ran.status == 0, ran.stderr
    files = sorted(tmp_path.glob("cca*.jsonl"))
    assert len(files) == 2 and [bool(told(file)) for file in files] in (
        [False, True],
        [True, False],
    )
    assert {row["src_port"] for row in told(*files)} == set(PORTS)
    assert "could not be told" not in ran.stderr


def test_rules_leave_flows_out(tmp_path: Path, links: Link) -> None:
    asked = tables(tmp_path)
    path = tmp_path / "wirelens.toml"
    path.write_text(written(asked, [{"bytes": "300K", "cca": False}]))
    with Listening(tmp_path, "run", "-c", path) as live:
        replay(tmp_path)
        time.sleep(0.3)
        ran = live.end()
    assert ran.status == 0, ran.stderr
    rows = told(tmp_path / "cca.jsonl")
    of_port = {port: [row for row in rows if row["src_port"] == port] for port in PORTS}
    # Each is followed until it has brought so much, and not for a period longer.
    for seen in of_port.values():
        brought = [row["ingress_bytes"] for row in seen]
        assert 0 < len(brought) < 25, brought


def test_taps_may_be_of_other_devices_than_are_listened_on(tmp_path: Path, links: Link) -> None:
    asked = tables(tmp_path)
    asked["input"]["interface"] = BEHIND[0]
    asked["cca"]["ingress"] = BEFORE[0]
    asked["cca"]["egress"] = f"xmit:{BEHIND[1]}"
    with Listening(tmp_path, "run", "-c", put(tmp_path, asked)) as live:
        replay(tmp_path)
        time.sleep(0.3)
        ran = live.end()
    assert ran.status == 0, ran.stderr
    rows = told(tmp_path / "cca.jsonl")
    assert {row["departures"] for row in rows} == {"xmit"} and len(rows) > 20
    assert "were not seen to leave" in ran.stderr


def test_a_tap_that_is_not_there_refuses_the_run(tmp_path: Path, links: Link) -> None:
    asked = tables(tmp_path)
    asked["cca"]["egress"] = "nowhere0"
    ran = wirelens("run", "-c", put(tmp_path, asked))
    assert ran.status == 1 and "wirelens.toml:7: [cca] " in ran.stderr, ran.stderr
    assert "nowhere0" in ran.stderr
    assert not list(tmp_path.glob("*.csv*")) and not list(tmp_path.glob("*.jsonl*"))
