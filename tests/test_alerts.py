"""Alerts of a run: rules and lists over a capture, delivered where the settings say."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from command import DEMO, wirelens

RUN = f'[input]\nread = "{DEMO}"\n[flows]\nread-names = true\n[unanswered]\n'


def settings(folder: Path, text: str) -> Path:
    path = folder / "wirelens.toml"
    path.write_text(RUN + text)
    return path


def alerts(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "alerts.jsonl").read_text().splitlines()]


def test_a_rule_fires_for_each_flow_that_matches(tmp_path: Path) -> None:
    path = settings(tmp_path, (
        '[[alert]]\nname = "large"\ntable = "flows"\nwhen = "bytes > 100k"\n'
        'labels = { severity = "critical" }\ntext = "{src_ip} and {dst_ip}"\n'
        '[[notify]]\nkind = "jsonl"\nto = "alerts.jsonl"\n'
    ))  # fmt: skip
    ran = wirelens("run", "-q", "-c", path, cwd=tmp_path)
    assert ran.status == 0, ran.stderr
    table = wirelens("flows", "-q", "-r", DEMO, "--format", "jsonl").stdout.decode().splitlines()
    flows = [json.loads(line) for line in table]
    large = {
        flow["community_id"] for flow in flows if flow["src_bytes"] + flow["dst_bytes"] > 100_000
    }
    fired = [alert for alert in alerts(tmp_path) if alert["state"] == "firing"]
    assert {alert["community_id"] for alert in fired} == large
    assert {alert["severity"] for alert in fired} == {"critical"}
    assert len(large) > 1


def test_a_list_of_indicators_finds_its_hosts(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("# ours\n203.0.113.80\nnot an address\n198.51.100.0/24\n")
    path = settings(tmp_path, (
        '[[indicators]]\nname = "list"\nkind = "ip"\nfile = "list.txt"\n'
        '[[notify]]\nkind = "jsonl"\nto = "alerts.jsonl"\n'
    ))  # fmt: skip
    ran = wirelens("run", "-q", "-c", path, cwd=tmp_path)
    assert ran.status == 0, ran.stderr
    found = {alert["labels"]["indicator"] for alert in alerts(tmp_path)}
    assert found == {"203.0.113.80", "198.51.100.0/24"}


def test_each_mistake_has_its_line(tmp_path: Path) -> None:
    path = settings(tmp_path, (
        '[[alert]]\nname = "a"\ntable = "flows"\nwhen = "byte > 1"\n'
        '[[alert]]\nname = "b"\ntable = "flow"\n'
        '[[notify]]\nkind = "pigeon"\nto = "home"\n'
    ))  # fmt: skip
    ran = wirelens("run", "-c", path, "--check")
    assert ran.status == 2
    for wanted in ('try "bytes"', '"flow"', "pigeon"):
        assert wanted in ran.stderr, ran.stderr
    assert ran.stderr.count("wirelens.toml:") >= 2


def test_a_destination_can_be_tried(tmp_path: Path) -> None:
    """One alert to each; what is not delivered is said, and so is why."""
    heard: list[dict] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        port = server.server_port
        hook = f'[[notify]]\nkind = "webhook"\nto = "http://127.0.0.1:{port}/hook"\n'
        ran = wirelens("run", "-c", settings(tmp_path, hook), "--test-alerts")
        assert ran.status == 0 and "delivered in" in ran.stderr, ran.stderr
        assert "wirelens-test" in json.dumps(heard)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    gone = wirelens("run", "-c", settings(tmp_path, hook), "--test-alerts")
    assert gone.status == 1 and "webhook" in gone.stderr
    rule = '[[alert]]\nname = "a"\ntable = "flows"\n'
    none = wirelens("run", "-c", settings(tmp_path, rule), "--test-alerts")
    assert none.status == 2 and "[[notify]]" in none.stderr
