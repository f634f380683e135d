"""Packets classified and truncated in the kernel, in a run of several applications.

Links are of the tests' own, in network namespaces; see lab.py. Without root they are skipped.
"""

import csv
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import DEMO, wirelens
from lab import Link, Listening, link_facts, new_link
from packetlog_lab import ANOMALOUS, HEADERS, PAYLOAD, events, frames, query, seen, shown, status
from packetlog_model import seal, write_model
from run_settings import written

OTHER = 5555
"""The port whose packets the second model marks."""

Settings = dict[str, dict[str, object]]


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


def settings(folder: Path) -> Settings:
    if not (folder / "model").exists():
        write_model(folder / "model")
    kernel = {"offload": "xdp", "mirror": True}
    return {
        "input": {"interface": "wl0"},
        "flows": {"output": folder / "flows.csv"},
        "packetlog": {"output": folder / "log", "model": folder / "model"} | kernel,
    }


def test_other_applications_see_what_was_on_the_wire(link: Link, tmp_path: Path) -> None:
    path = tmp_path / "wirelens.toml"
    path.write_text(written(settings(tmp_path)))
    with Listening(tmp_path, "run", "-c", path) as live:
        assert link_facts("wl0")["xdp"]["prog"]["name"] == "cut"
        link.send(frames(80) + frames(20, ANOMALOUS))
        seen(tmp_path / "log", 100)
        kernel = status(tmp_path / "log")["log"]["kernel"]
        words = ("packetlog", "status", "--log", tmp_path / "log", "--format", "prometheus")
        text = wirelens(*words).stdout.decode()
        metrics = dict(re.findall(r"^wirelens_packetlog_kernel_(\w+)_total (\d+)", text, re.M))
        ran = live.end()
    assert ran.status == 0, ran.stderr
    assert metrics == {
        "packets": str(kernel["seen"]), "classified_packets": "100",
        "classified_bytes": str(100 * (HEADERS + PAYLOAD)),
        "truncated_bytes": str(80 * PAYLOAD), "refused_keys": "0",
    }  # fmt: skip
    assert kernel["classified"] == 100 and kernel["truncated_bytes"] == 80 * PAYLOAD
    rows = list(csv.DictReader((tmp_path / "flows.csv").open()))
    sizes = [int(row["src_bytes"]) for row in rows]
    assert sum(int(row["src_packets"]) for row in rows) == 100
    assert sum(sizes) == 100 * (HEADERS + PAYLOAD), "lengths of flows are those of the wire"
    assert "xdp" not in link_facts("wl0")


def test_a_model_is_replaced_in_the_kernel_without_detaching(link: Link, tmp_path: Path) -> None:
    path, log = tmp_path / "wirelens.toml", tmp_path / "log"
    tables = settings(tmp_path)
    path.write_text(written(tables))
    write_model(tmp_path / "second", port=OTHER)
    with Listening(tmp_path, "run", "-c", path) as live:
        program = link_facts("wl0")["xdp"]["prog"]["id"]
        link.send(frames(10, ANOMALOUS) + frames(10, OTHER))
        seen(log, 20)
        tables["packetlog"]["model"] = tmp_path / "second"
        path.write_text(written(tables))
        live.signal(signal.SIGHUP)
        live.wait_for(r"\[packetlog\] the model was replaced by [0-9a-f]{64}")
        link.send(frames(10, ANOMALOUS) + frames(10, OTHER))
        seen(log, 40)
        assert link_facts("wl0")["xdp"]["prog"]["id"] == program
        third = write_model(tmp_path / "third")
        text = (third / "model.json").read_text()
        seal(third, text.replace('"benign", "anomalous"', '"benign", "odd"'))
        tables["packetlog"]["model"] = third
        path.write_text(written(tables))
        live.signal(signal.SIGHUP)
        live.wait_for("cannot replace .* during a run: it has other classes")
        kernel = status(log)["log"]["kernel"]
        ran = live.end()
    assert ran.status == 0, ran.stderr
    assert kernel["classified"] == 40 and kernel["truncated_bytes"] == 20 * PAYLOAD
    assert [event["event"] for event in events(log)].count("model") == 1
    marked = query(log, "--class", "anomalous", "-w", tmp_path / "marked.pcapng")
    assert marked == 20, "ten by each model"
    ports = shown(tmp_path / "marked.pcapng", "udp.dstport")
    assert (ports.count(str(ANOMALOUS)), ports.count(str(OTHER))) == (10, 10)


REFUSALS = {
    "payload": ({"classify": {"model": "services"}}, r"[packetlog] offload with [classify]"),
    "names": ({"flows": {"read-names": True}}, r"[packetlog] offload with [flows]"),
    "DNS and QUIC": ({"latency": {}}, r"[packetlog] offload with [latency]"),
    "a filter": ({"input": {"filter": "udp"}}, r"[packetlog] offload with [input] filter"),
    "several interfaces": (
        {"input": {"interface": ["wl0", "wl1"]}},
        "[packetlog] offload with [input] interface wl0, wl1: wanted one interface",
    ),
    "all interfaces": ({"input": {"interface": "any"}}, "[input] interface any: wanted one"),
    "no mirror": ({"packetlog": {"mirror": False}}, "wanted: mirror as well"),
    "hindsight": ({"packetlog": {"hindsight": "2s"}}, "with hindsight"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_cannot_be_is_refused_and_both_are_named(what: str, tmp_path: Path) -> None:
    more, wanted = REFUSALS[what]
    tables = settings(tmp_path)
    for name, keys in more.items():
        tables[name] = tables.get(name, {}) | keys
    for name in ("classify", "latency"):
        if name in tables:
            tables[name] |= {"output": tmp_path / f"{name}.csv"}
    path = tmp_path / "wirelens.toml"
    path.write_text(written(tables))
    ran = wirelens("run", "-c", path, "--check")
    assert ran.status == 2 and wanted in ran.stderr, ran.stderr


def test_a_rule_cannot_keep_what_was_truncated(tmp_path: Path) -> None:
    path = tmp_path / "wirelens.toml"
    path.write_text(written(settings(tmp_path), [{"anomaly": "anomalous", "keep": "full"}]))
    ran = wirelens("run", "-c", path, "--check")
    assert ran.status == 2 and "[[rule]] that keeps packets" in ran.stderr, ran.stderr


def test_a_reload_does_not_get_around_a_refusal(link: Link, tmp_path: Path) -> None:
    path, rule = tmp_path / "wirelens.toml", {"anomaly": "anomalous"}
    tables = settings(tmp_path)
    path.write_text(written(tables))
    with Listening(tmp_path, "run", "-c", path) as live:
        path.write_text(written(tables, [rule | {"keep": "full"}]))
        live.signal(signal.SIGHUP)
        live.wait_for(r"\[\[rule\]\] that keeps packets: .*")
        live.wait_for("the settings were not applied")
        assert live.end().status == 0


def test_captures_have_no_kernel(tmp_path: Path) -> None:
    path = tmp_path / "wirelens.toml"
    path.write_text(written(settings(tmp_path)))
    ran = wirelens("run", "-c", path, "-r", DEMO, "--check")
    assert ran.status == 2 and "offload: needs packets of an interface" in ran.stderr, ran.stderr
    without = '[packetlog]\noutput = "log"\nmirror = true\n'
    path.write_text(without)
    ran = wirelens("run", "-c", path, "-r", DEMO, "--check")
    assert ran.status == 2 and "mirror: has no effect" in ran.stderr, ran.stderr
