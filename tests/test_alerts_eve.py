"""Alerts as Suricata's events, valid by its own schema and of the same flows as the export."""

import json
from pathlib import Path

import jsonschema
from command import DEMO, ROOT, wirelens

SCHEMA = json.loads((ROOT / "testdata/suricata-eve.schema.json").read_text())

ALERTED = f"""
[input]
read = "{DEMO}"
[flows]
format = "eve"
output = "eve.json"
[traffic]
output = "traffic.csv"
[[alert]]
name = "large"
table = "flows"
when = "bytes > 100k"
labels = {{ severity = "critical" }}
text = "{{src_ip}} and {{dst_ip}}"
[[alert]]
name = "packets"
table = "traffic"
when = "packets > 100"
value = "packets"
labels = {{ severity = "info" }}
[[indicators]]
name = "list"
kind = "ip"
file = "list.txt"
[[notify]]
kind = "eve"
to = "alerts.eve.json"
"""


def test_alerts_are_events_that_share_the_numbers_of_their_flows(tmp_path: Path) -> None:
    (tmp_path / "wirelens.toml").write_text(ALERTED)
    (tmp_path / "list.txt").write_text("203.0.113.80\n")
    ran = wirelens("run", "-q", "-c", "wirelens.toml", cwd=tmp_path)
    assert ran.status == 0, ran.stderr
    events = {name: [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
              for name in ("eve.json", "alerts.eve.json")}  # fmt: skip
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for event in events["alerts.eve.json"]:
        assert event["event_type"] == "alert" and isinstance(event["wirelens"], dict)
        validator.validate({key: value for key, value in event.items() if key != "wirelens"})
    flows = {event["flow_id"]: event for event in events["eve.json"]
             if event["event_type"] == "flow"}  # fmt: skip
    by_rule: dict[str, list[dict]] = {}
    for event in events["alerts.eve.json"]:
        by_rule.setdefault(event["alert"]["signature"], []).append(event)
    assert set(by_rule) == {"large", "packets", "list"}
    same = ("src_ip", "src_port", "dest_ip", "dest_port", "proto", "icmp_type", "community_id")
    for event in by_rule["large"] + by_rule["list"]:
        flow = flows[event["flow_id"]]
        assert [event.get(key) for key in same] == [flow.get(key) for key in same]
        assert event["alert"]["severity"] == 1
    assert "src_ip" not in by_rule["packets"][0], "a table without hosts"
    large = [flow for flow in flows.values()
             if sum(flow["flow"][f"bytes_to{side}"] for side in ("server", "client")) > 100_000]
    assert {event["flow_id"] for event in by_rule["large"]} == {flow["flow_id"] for flow in large}
    assert by_rule["packets"][0]["alert"]["severity"] == 3
    assert "flow_id" not in by_rule["packets"][0]
    numbers = {name: {event["alert"]["signature_id"] for event in of_rule}
               for name, of_rule in by_rule.items()}  # fmt: skip
    assert all(len(of_rule) == 1 for of_rule in numbers.values())
    assert len(set().union(*numbers.values())) == 3
    assert all(1_000_000 <= min(of_rule) < 2_000_000 for of_rule in numbers.values())


def test_a_destination_can_be_tried(tmp_path: Path) -> None:
    (tmp_path / "wirelens.toml").write_text(ALERTED)
    (tmp_path / "list.txt").write_text("203.0.113.80\n")
    ran = wirelens("run", "-c", "wirelens.toml", "--test-alerts", cwd=tmp_path)
    assert ran.status == 0 and "eve: delivered in" in ran.stderr, ran.stderr
    [line] = (tmp_path / "alerts.eve.json").read_text().splitlines()
    event = json.loads(line)
    assert event["alert"]["signature"] == "wirelens-test" and "src_ip" not in event
    jsonschema.validate({key: value for key, value in event.items() if key != "wirelens"}, SCHEMA)
