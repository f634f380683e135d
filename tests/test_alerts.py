"""Alerts of a run: rules and lists over a capture, delivered where the settings say."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from command import DEMO, PROGRAM, wirelens

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


def test_alerts_that_do_not_arrive_end_a_run_with_status_1(tmp_path: Path) -> None:
    """Rows are complete all the same. What the rate limit holds back is no loss."""
    rule = '[[alert]]\nname = "any"\ntable = "flows"\n'
    nowhere = '[[notify]]\nkind = "webhook"\nto = "http://127.0.0.1:9/"\nattempts = 1\n'
    text = rule + nowhere + '[[notify]]\nkind = "jsonl"\nto = "alerts.jsonl"\nrate = "1/h"\n'
    (tmp_path / "wirelens.toml").write_text(
        f'[input]\nread = "{DEMO}"\n[flows]\noutput = "flows.jsonl"\n{text}'
    )
    ran = wirelens("run", "-q", "-c", "wirelens.toml", cwd=tmp_path)
    assert ran.status == 1
    assert "wirelens: [[notify]] webhook: " in ran.stderr, ran.stderr
    assert "alerts were not delivered: " in ran.stderr and "jsonl" not in ran.stderr, ran.stderr
    flows = len((tmp_path / "flows.jsonl").read_text().splitlines())
    assert flows == 312 and len(alerts(tmp_path)) == 1
    only = nowhere + 'only = { severity = "page" }\n'
    ran = wirelens("run", "-q", "-c", settings(tmp_path, rule + only), cwd=tmp_path)
    assert ran.status == 0, ran.stderr


KEPT = (
    '[packetlog]\noutput = "log"\nmode = "log-minimum"\nfixed-mode = true\n'
    '[[rule]]\nindicator = "list"\nkeep = "full"\n[[rule]]\nbytes = "1G"\nkeep = "full"\n'
)
# A list that rules are not about, and that has every flow.
OTHERS = '[[indicators]]\nname = "others"\nkind = "ip"\nfile = "others.txt"\n'


def kept(folder: Path, query: str) -> tuple[list[str], list[str]]:
    """Captured lengths of packets in the capture and in the log, by tshark's filter."""
    ran = wirelens(
        "packetlog", "query", "--force", "--log", folder / "log", "-w", folder / "kept.pcapng"
    )
    assert ran.status == 0, ran.stderr
    lengths = []
    for path in (DEMO, folder / "kept.pcapng"):
        fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.cap_len"]
        command = ["tshark", "-n", "-r", path, "-Y", query, *fields]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        lengths.append(sorted(done.stdout.splitlines()))
    return lengths[0], lengths[1]


def test_packets_of_an_address_on_a_list_are_kept_whole(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("203.0.113.80\n")
    (tmp_path / "others.txt").write_text("0.0.0.0/0\n::/0\n")
    path = settings(
        tmp_path, f'{KEPT}{OTHERS}[[indicators]]\nname = "list"\nkind = "ip"\nfile = "list.txt"\n'
    )
    ran = wirelens("run", "-q", "-c", path, cwd=tmp_path)
    assert ran.status == 0, ran.stderr
    there, stored = kept(tmp_path, "ip.addr == 203.0.113.80 and not icmp")
    assert stored == there
    assert len(there) > 50
    there, stored = kept(tmp_path, "ip.addr != 203.0.113.80")
    assert len(stored) < len(there) / 2, "of others headers of some are kept"


def test_packets_behind_a_name_on_a_list_are_kept_whole(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("demo.example\n")
    (tmp_path / "others.txt").write_text("0.0.0.0/0\n::/0\n")
    of_names = '[[indicators]]\nname = "list"\nkind = "domain"\nfile = "list.txt"\n'
    path = settings(tmp_path, KEPT + OTHERS + of_names)
    ran = wirelens("run", "-q", "-c", path, cwd=tmp_path)
    assert ran.status == 0, ran.stderr
    hello = ["-Y", "tls.handshake.extensions_server_name == www.demo.example and tcp", "-T",
             "fields", "-e", "tcp.stream", "-e", "frame.number"]  # fmt: skip
    done = subprocess.run(
        ["tshark", "-n", "-r", DEMO, *hello], capture_output=True, text=True, check=True
    )
    hellos = [line.split() for line in done.stdout.splitlines()]
    assert len(hellos) > 5
    after = " or ".join(f"(tcp.stream == {stream} and frame.number > {n})" for stream, n in hellos)
    there, _ = kept(tmp_path, after)
    # Numbers of the log are others: the same packets by their times.
    _, stored = kept(tmp_path, "tcp")
    assert set(there) <= set(stored)
    assert len(there) > 50


def test_a_rule_about_a_list_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("203.0.113.80\n")
    lists = '[[indicators]]\nname = "lists"\nkind = "ip"\nfile = "list.txt"\n'
    notify = '[[notify]]\nkind = "jsonl"\nto = "alerts.jsonl"\n'
    rule = '[[alert]]\nname = "any"\ntable = "flows"\n'
    for text, wanted in ((rule, "no [[indicators]]"), (lists, "lists")):
        path = settings(tmp_path, KEPT + notify + text)
        ran = wirelens("run", "-q", "-c", path, cwd=tmp_path)
        assert ran.status == 2
        assert wanted in ran.stderr, ran.stderr


def test_rules_are_replaced_while_the_run_goes_on(tmp_path: Path) -> None:
    def written(name: str) -> None:
        (tmp_path / "wirelens.toml").write_text(
            '[input]\nread = "-"\n[flows]\noutput = "flows.csv"\nidle-timeout = "1s"\n'
            f'[[alert]]\nname = "{name}"\ntable = "flows"\nkey = ["community_id"]\n'
            '[[notify]]\nkind = "jsonl"\nto = "alerts.jsonl"\n'
        )

    written("before")
    capture, words = DEMO.read_bytes(), tmp_path / "words.txt"

    def wait_for(holds: Callable[[], bool], sent: int) -> int:
        """Sends the capture on in pieces until that holds; how far it is."""
        while not holds():
            assert sent < len(capture), words.read_text()
            time.sleep(0.05)
            sent += run.stdin.write(capture[sent : sent + 2048])
            run.stdin.flush()
        return sent

    with words.open("wb") as err:
        run = subprocess.Popen(
            [PROGRAM, "run", "-c", "wirelens.toml"], cwd=tmp_path, stdin=subprocess.PIPE,
            stderr=err,
        )  # fmt: skip
    assert run.stdin is not None
    jsonl = tmp_path / "alerts.jsonl"
    half = len(capture) // 2
    run.stdin.write(capture[:half])
    sent = wait_for(lambda: jsonl.exists() and jsonl.stat().st_size > 0, half)
    written("after")
    run.send_signal(signal.SIGHUP)
    sent = wait_for(lambda: "alerts: 1 rules in force" in words.read_text(), sent)
    run.stdin.write(capture[sent:])
    run.stdin.close()
    assert run.wait(60) == 0, words.read_text()
    assert "[alert] was changed" not in words.read_text()
    names = [alert["name"] for alert in alerts(tmp_path) if alert["state"] == "firing"]
    assert names.index("after") > 0
    assert set(names[names.index("after") :]) == {"after"}


COUNTERS = """
[[alert]]
name = "anomalous packets"
table = "counts"
when = 'name == class_packets_{counted} and labels == "class=anomalous"'
key = ["application", "name"]
among = ["application", "name"]
weight = ["increase"]
share-above = {share}
over = "60s"
least-rows = 1
[[alert]]
name = "disk"
table = "counts"
when = "application == packetlog and name == disk_free_ratio and value < {disk}"
key = ["application", "name"]
value = "value"
[[alert]]
name = "memory"
table = "counts"
when = "application == process and name == resident_memory_bytes and value > {memory}"
key = ["application", "name"]
value = "value"
[[alert]]
name = "duplicates"
table = "counts"
when = 'name == packets_dropped and labels == "stage=capture,cause=duplicate" and increase > 0'
key = ["labels"]
value = "increase"
[[alert]]
name = "unknown"
table = "counts"
when = "application == classify and name == unknown_verdicts and increase > 0"
key = ["application", "name"]
value = "increase"
[[notify]]
kind = "jsonl"
to = "alerts.jsonl"
"""


def watched(folder: Path, **thresholds: object) -> dict[str, dict]:
    """Alerts on counters of a run that logs and classifies the demo twice, without a page."""
    folder.mkdir()
    (folder / "wirelens.toml").write_text(
        f'[input]\nread = ["{DEMO}", "{DEMO}"]\ndrop-duplicates = "5ms"\n'
        '[classify]\nmodel = "services"\noutput = "verdicts.csv"\n[packetlog]\noutput = "log"\n'
        + COUNTERS.format(**thresholds)
    )
    ran = wirelens("run", "-q", "-c", "wirelens.toml", cwd=folder)
    assert ran.status == 0, ran.stderr
    return {alert["name"]: alert for alert in alerts(folder)}


def test_counters_of_disk_memory_drops_and_drift_are_read_by_rules(tmp_path: Path) -> None:
    fired = watched(tmp_path / "low", counted="seen", share=0.1, disk=1.1, memory="1M")
    assert set(fired) == {"anomalous packets", "disk", "memory", "duplicates", "unknown"}
    # As `wirelens packetlog` prints it of the demo: 1,261 of 4,944 packets.
    assert abs(fired["anomalous packets"]["value"] - 1261 / 4944) < 1e-3
    assert 0 < fired["disk"]["value"] <= 1 and fired["memory"]["value"] > 1e6
    assert fired["duplicates"]["value"] > 1_000
    assert fired["unknown"]["value"] == 49
    assert fired["duplicates"]["labels"]["labels"] == "stage=capture,cause=duplicate"


def test_counters_within_their_limits_make_no_alert(tmp_path: Path) -> None:
    # Of any first part of the demo at most 28 % are; blocks of one class may come before others.
    fired = watched(tmp_path / "high", counted="judged", share=0.5, disk=0, memory="900G")
    assert set(fired) == {"duplicates", "unknown"}


def test_rules_over_counters_are_checked_and_their_destination_tried(tmp_path: Path) -> None:
    path = settings(tmp_path, COUNTERS.format(counted="judged", share=0.1, disk=0.1, memory="8G"))
    assert wirelens("run", "-c", path, "--check").status == 0
    ran = wirelens("run", "-c", path, "--test-alerts", cwd=tmp_path)
    assert ran.status == 0 and "delivered in" in ran.stderr, ran.stderr
    assert [alert["name"] for alert in alerts(tmp_path)] == ["wirelens-test"]
    path = settings(tmp_path, '[[alert]]\nname = "a"\ntable = "counts"\nwhen = "increas > 0"\n')
    ran = wirelens("run", "-c", path, "--check")
    assert ran.status == 2 and 'try "increase"' in ran.stderr, ran.stderr
