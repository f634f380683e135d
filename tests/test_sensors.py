"""A run over the results of other runs, with the real NATS server and real sensors."""

import json
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from broker import Broker, Client, broker, free_port
from command import DEMO, wirelens
from lab import Listening, wait_until

pytestmark = pytest.mark.testbed

TABLES = '[flows]\nread-names = true\n{flows}[classify]\nmodel = "services"\n{classify}'
Row = dict[str, Any]


def output(folder: Path, name: str) -> str:
    return f'output = "{folder}/{name}.jsonl"\nforce = true\n'


def publish(
    folder: Path,
    server: str,
    sensor: str,
    capture: Path = DEMO,
    more: str = "",
    pace: str | None = None,
) -> None:
    """A sensor that reads a capture to its end; its rows are in files of its name as well."""
    tables = TABLES.format(
        flows=output(folder, f"{sensor}-flows"), classify=output(folder, f"{sensor}-classify")
    )
    path = folder / f"{sensor}.toml"
    path.write_text(
        f'[input]\nread = "{capture}"\n{tables}[nats]\nservers = ["{server}"]\n'
        f'sensor = "{sensor}"\n{more}'
    )
    ran = wirelens("run", "-q", "-c", path, *(["--pace", pace] if pace else []))
    assert ran.status == 0, ran.stderr


def written(
    folder: Path, server: str, more: str = "", keys: str = "", with_files: bool = True
) -> Path:
    """Settings of a view of all sensors."""
    files = {
        name: output(folder, f"all-{name}") if with_files else "" for name in ("flows", "classify")
    }
    path = folder / "view.toml"
    path.write_text(
        f'[sensors]\n{keys}{TABLES.format(**files)}[nats]\nservers = ["{server}"]\n'
        f'[page]\nlisten = "127.0.0.1:0"\n{more}'
    )
    return path


class View(Listening):
    """A view that runs, and what its API says."""

    def __enter__(self) -> "View":
        self.wait_for("page: http")
        return self

    def get(self, path: str) -> dict[str, Any]:
        address = self.stderr.split("page: ")[1].split()[0]
        with urllib.request.urlopen(f"{address}api/v1/{path}", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def rows(self, table: str, query: str = "limit=1000") -> list[Row]:
        found = self.get(f"tables/{table}?{query}")
        return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]

    def counts(self) -> dict[str, float]:
        address = self.stderr.split("page: ")[1].split()[0]
        with urllib.request.urlopen(f"{address}metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if line.startswith("wirelens_sensors")]
        return {name.removeprefix("wirelens_sensors_"): float(value) for name, value in pairs}


@contextmanager
def view(folder: Path, settings: Path) -> Iterator[View]:
    with View(folder, "run", "-c", settings) as running:
        yield running


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def of_sensors(folder: Path, table: str) -> Counter[str]:
    """Rows of a table of the view as sensors wrote them, by sensor."""
    rows = [json.loads(line) for line in lines(folder / f"all-{table}.jsonl")]
    return Counter(json.dumps([row.pop("sensor"), row]) for row in rows)


def expected(folder: Path, table: str, *sensors: str) -> Counter[str]:
    return Counter(
        json.dumps([sensor, json.loads(line)])
        for sensor in sensors
        for line in lines(folder / f"{sensor}-{table}.jsonl")
    )


def test_rows_of_all_sensors_are_here_once(tmp_path: Path) -> None:
    """Of sensors that publish while the view runs, and of one that did before."""
    with broker(tmp_path) as server:
        publish(tmp_path, server.address, "before")
        with view(tmp_path, written(tmp_path, server.address)) as running:
            publish(tmp_path, server.address, "roof east")
            publish(tmp_path, server.address, "roof-west")
            sensors = ("before", "roof east", "roof-west")
            count = sum(len(lines(tmp_path / f"{one}-flows.jsonl")) for one in sensors)
            wait_until(lambda: len(running.rows("flows")) == count, f"{count} flows")
            known = running.rows("sensors")
            assert {row["sensor"] for row in known} == set(sensors)
            heard = [row for row in known if row["event"] == "heard"]
            assert len(heard) == 3
            state = running.get("state")
            ran = running.end()
        assert ran.status == 0, ran.stderr
        for table in ("flows", "classify"):
            assert of_sensors(tmp_path, table) == expected(tmp_path, table, *sensors)
        assert "of 3 sensors received, 0 missing; 0 messages refused" in ran.stderr
        assert state["packets"]["received"] > 0


def test_a_broker_that_is_killed_repeats_and_loses_no_row(tmp_path: Path) -> None:
    """Killed and started again twice, while a sensor publishes and the view reads."""
    with broker(tmp_path) as server, view(tmp_path, written(tmp_path, server.address)) as running:
        sensor = threading.Thread(
            target=publish, args=(tmp_path, server.address, "a"), kwargs={"pace": "10"}
        )
        sensor.start()
        for _ in range(2):
            time.sleep(1)
            server.kill()
            time.sleep(0.5)
            server.start()
        sensor.join()
        count = len(lines(tmp_path / "a-flows.jsonl"))
        wait_until(lambda: len(running.rows("flows")) >= count, f"{count} flows", 40)
        counts = running.counts()
        ran = running.end()
    assert ran.status == 0, ran.stderr
    assert "the broker is away" in ran.stderr and "nats: connected again" in ran.stderr
    for table in ("flows", "classify"):
        assert of_sensors(tmp_path, table) == expected(tmp_path, table, "a")
    assert counts["rows_missing"] == 0


def test_a_stream_that_is_made_again_is_read_from_its_start(tmp_path: Path) -> None:
    with (
        broker(tmp_path) as server,
        Client(server.port) as client,
        view(tmp_path, written(tmp_path, server.address)) as running,
    ):
        publish(tmp_path, server.address, "a")
        publish(tmp_path, server.address, "b")
        count = sum(len(lines(tmp_path / f"{one}-flows.jsonl")) for one in "ab")
        wait_until(lambda: len(running.rows("flows")) == count, f"{count} flows")
        assert "error" not in client.ask("$JS.API.STREAM.DELETE.WIRELENS", {})
        publish(tmp_path, server.address, "c")
        count += len(lines(tmp_path / "c-flows.jsonl"))
        wait_until(lambda: len(running.rows("flows")) == count, f"{count} flows", 40)
        running.wait_for("the stream is another one")
        ran = running.end()
    assert ran.status == 0, ran.stderr
    assert of_sensors(tmp_path, "flows") == expected(tmp_path, "flows", "a", "b", "c")


def test_a_stream_that_is_made_again_with_more_than_before_is_read_from_its_start(
    tmp_path: Path,
) -> None:
    with (
        broker(tmp_path) as server,
        Client(server.port) as client,
        view(tmp_path, written(tmp_path, server.address)) as running,
    ):
        publish(tmp_path, server.address, "a")
        count = len(lines(tmp_path / "a-flows.jsonl"))
        wait_until(lambda: len(running.rows("flows")) == count, f"{count} flows")
        assert "error" not in client.ask("$JS.API.STREAM.DELETE.WIRELENS", {})
        # Together they send more messages than there were, before the stream is looked for again.
        for sensor in "bc":
            publish(tmp_path, server.address, sensor)
            count += len(lines(tmp_path / f"{sensor}-flows.jsonl"))
        wait_until(lambda: len(running.rows("flows")) == count, f"{count} flows", 40)
        running.wait_for("the stream is another one")
        ran = running.end()
    assert ran.status == 0, ran.stderr
    assert of_sensors(tmp_path, "flows") == expected(tmp_path, "flows", "a", "b", "c")


def test_a_view_that_begins_before_broker_and_sensors(tmp_path: Path) -> None:
    server = Broker(tmp_path, port=free_port())
    with view(tmp_path, written(tmp_path, server.address)) as running:
        running.wait_for("the broker is away")
        server.start()
        try:
            running.wait_for("stream WIRELENS: .* sensors with prefix", 20)
            check = next(one for one in running.get("health")["checks"] if one["name"] == "sensors")
            assert (check["status"], check["seen"][:16]) == ("warning", "broker connected")
            publish(tmp_path, server.address, "a")
            count = len(lines(tmp_path / "a-flows.jsonl"))
            wait_until(lambda: len(running.rows("flows")) == count, f"{count} flows", 20)
            ran = running.end()
        finally:
            server.kill()
    assert ran.status == 0, ran.stderr
    assert of_sensors(tmp_path, "flows") == expected(tmp_path, "flows", "a")


def test_flows_at_several_sensors_are_joined(tmp_path: Path) -> None:
    """The second sensor sees packets 5 ms later and loses every 50th of them."""
    behind, all_frames = tmp_path / "behind.pcap", tmp_path / "all.pcap"
    subprocess.run(["editcap", "-t", "0.005", DEMO, all_frames], check=True, timeout=60)
    lost = [str(number) for number in range(50, 5_000, 50)]
    subprocess.run(["editcap", all_frames, behind, *lost], check=True, timeout=60)
    with broker(tmp_path) as server:
        settings = written(tmp_path, server.address, keys='join-wait = "8s"\n')
        with view(tmp_path, settings) as running:
            publish(tmp_path, server.address, "front")
            publish(tmp_path, server.address, "behind", behind)
            flows = {
                sensor: {
                    row["community_id"]: row["src_packets"] + row["dst_packets"]
                    for row in map(json.loads, lines(tmp_path / f"{sensor}-flows.jsonl"))
                }
                for sensor in ("front", "behind")
            }
            both = flows["front"].keys() & flows["behind"].keys()
            wait_until(lambda: len(running.rows("joined")) == len(both), f"{len(both)} flows", 30)
            joined = running.rows("joined")
            assert running.end().status == 0
    assert len(both) > 100 and {row["community_id"] for row in joined} == both
    assert {row["sensors"] for row in joined} == {"front, behind"}
    for row in joined:
        seen = [flows[sensor][row["community_id"]] for sensor in ("front", "behind")]
        assert (row["packets_max"], row["packets_min"]) == (max(seen), min(seen))
    whole = [row for row in joined if row["packets_max"] == row["packets_min"]]
    assert {round(row["first_spread_s"], 6) for row in whole} == {0.005}
    assert sum(row["packets_max"] - row["packets_min"] for row in joined) > 50


def headers(
    sensor: str = "a", table: str = "flows", first: int | str = 0, rows: int = 1, version: int = 1
) -> bytes:
    named = {
        "Wirelens-Version": str(version), "Wirelens-Sensor": sensor, "Wirelens-Run": "18a4f0",
        "Wirelens-Table": table, "Wirelens-First-Row": str(first), "Wirelens-Rows": str(rows),
    }  # fmt: skip
    text = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"NATS/1.0\r\n{text}\r\n".encode()


def forge(client: Client, head: bytes, data: bytes, subject: str = "rows.a.flows") -> None:
    client.send(f"HPUB wirelens.v1.{subject} {len(head)} {len(head) + len(data)}\r\n".encode())
    client.send(head + data + b"\r\n")


def test_damaged_and_forged_messages_make_no_row(tmp_path: Path) -> None:
    row = json.dumps({"community_id": "1:x=", "src_packets": 3, "first_ns": 7}).encode() + b"\n"
    with broker(tmp_path) as server, Client(server.port) as client:
        publish(tmp_path, server.address, "real")
        count = len(lines(tmp_path / "real-flows.jsonl"))
        with view(tmp_path, written(tmp_path, server.address)) as running:
            bad_rows = [
                b"", row[:-5], b"[1]\n", row + row, b"\xff\xfe\n",
                b'{"community_id": 5}\n', b'{"src_packets": -1}\n', b'{"src_packets": "3"}\n',
                b'{"src_port": 70000}\n', b"[" * 10_000 + b"\n",
            ]  # fmt: skip
            for at, data in enumerate(bad_rows):
                forge(client, headers(first=at), data)
            forge(client, headers(version=2), row)
            bad_heads = [
                headers(sensor="b"), headers(table="classify"), headers(rows=0), headers(rows=257),
                headers(first=2**63), headers(first="x"), headers(sensor="a" * 500),
                b"NATS/1.0\r\n\r\n",
            ]  # fmt: skip
            for head in bad_heads:
                forge(client, head, row)
            client.publish("wirelens.v1.rows.a.flows", row)
            for data in (b"", b"{}", b"[]", b'{"version": 2}', b"[" * 100_000):
                client.publish("wirelens.v1.metrics.a", data)
            # Three rows in two messages of which one comes twice, and one row of a table that is
            # not wanted here; a column is of a later version.
            later = json.dumps({"community_id": "1:y=", "colour": "red"}).encode() + b"\n"
            for _ in range(2):
                forge(client, headers(first=100, rows=2), later + row)
            forge(client, headers(first=103), row)
            forge(client, headers(table="cca"), b'{"cbiq_bytes": 1}\n', "rows.a.cca")
            wait_until(lambda: len(running.rows("flows")) == count + 3, f"{count} flows and three")
            running.wait_for("colour of flows, which is left out")
            running.wait_for("table cca, which is left out")
            # Row 102; those before row 100, the first that was read, were not waited for.
            wait_until(lambda: running.counts()["rows_missing"] == 1, "a look at the sensors")
            counts = running.counts()
            ran = running.end()
    assert ran.status == 0, ran.stderr
    refused = {
        cause: counts[f'messages_refused_total{{cause="{cause}"}}']
        for cause in ("version", "headers", "rows", "metrics", "sensors_max")
    }
    assert refused == {
        "version": 1, "headers": len(bad_heads) + 1, "rows": len(bad_rows), "metrics": 5,
        "sensors_max": 0,
    }  # fmt: skip
    assert (counts["rows_repeated_total"], counts["rows_unwanted_total"]) == (2, 1)
    rows = [json.loads(line) for line in lines(tmp_path / "all-flows.jsonl")]
    forged = [one for one in rows if one["sensor"] == "a"]
    assert [one["community_id"] for one in forged] == ["1:y=", "1:x=", "1:x="]
    assert {one["src_ip"] for one in forged} == {None}


def test_a_silent_sensor_is_an_alert_and_degrades_health(tmp_path: Path) -> None:
    alert = (
        '[[alert]]\nname = "silent"\ntable = "sensors"\nwhen = "event == \'silent\'"\n'
        f'[[notify]]\nkind = "jsonl"\nto = "{tmp_path}/alerts.jsonl"\n'
    )
    with broker(tmp_path) as server:
        settings = written(tmp_path, server.address, alert, 'silent-after = "1s"\n')
        with view(tmp_path, settings) as running:
            large = '[[alert]]\nname = "large"\ntable = "flows"\nwhen = "bytes > 100k"\n'
            publish(tmp_path, server.address, "a", more=large)
            running.wait_for("sensors: a is silent: no message for 1 s")
            wait_until((tmp_path / "alerts.jsonl").exists, "an alert")
            check = next(one for one in running.get("health")["checks"] if one["name"] == "sensors")
            assert (check["status"], check["seen"]) == (
                "warning", "broker connected; 1 heard, 1 silent; 0 rows missing"
            )  # fmt: skip
            # The stream is looked for every two seconds.
            wait_until(lambda: bool(running.rows("sensor_alerts")), "alerts of the sensor")
            of_sensor = running.rows("sensor_alerts")
            assert {row["name"] for row in of_sensor} == {"large"}
            publish(tmp_path, server.address, "a")
            running.wait_for("sensors: a is back after")
            events = [row["event"] for row in running.rows("sensors", "sort=time_ns")]
            ran = running.end()
    assert ran.status == 0, ran.stderr
    assert events[:2] == ["heard", "silent"] and {"restarted", "back", "now"} <= set(events)


def metrics(client: Client, run: str, clock_ns: int) -> None:
    message = {"version": 1, "sensor": "a", "run": run, "number": 0, "time_ns": None, "counts": []}
    client.publish("wirelens.v1.metrics.a", json.dumps(message | {"clock_ns": clock_ns}).encode())


def test_two_sensors_of_one_name_are_reported(tmp_path: Path) -> None:
    with (
        broker(tmp_path) as server,
        Client(server.port) as client,
        view(tmp_path, written(tmp_path, server.address)) as running,
    ):
        running.wait_for("nats: connected")
        for run in ("18a4f0", "18a4f1") * 2:
            metrics(client, run, time.time_ns())
        running.wait_for(r"several runs publish as a at the same time \(18a4f0 and 18a4f1\)")
        wait_until(lambda: running.counts()["shared"] == 1, "a look at the sensors")
        check = next(one for one in running.get("health")["checks"] if one["name"] == "sensors")
        assert check["status"] == "warning" and "1 names shared" in check["seen"], check
        events = [row["event"] for row in running.rows("sensors", "sort=time_ns")]
        assert running.end().status == 0
    assert [event for event in events if event != "now"] == ["heard", "restarted", "shared"]


def test_a_sensor_whose_clock_is_wrong_is_reported(tmp_path: Path) -> None:
    row = {"community_id": "1:x=", "first_ns": 7, "last_ns": time.time_ns() + 7200 * 10**9}
    with (
        broker(tmp_path) as server,
        Client(server.port) as client,
        view(tmp_path, written(tmp_path, server.address)) as running,
    ):
        publish(tmp_path, server.address, "real")
        for _ in range(2):
            metrics(client, "18a4f0", time.time_ns() - 3600 * 10**9)
            time.sleep(1.1)
        running.wait_for("the clock of a is 3600 s behind this machine's")
        forge(client, headers(), json.dumps(row).encode() + b"\n")
        running.wait_for("a has rows whose time is a minute or more ahead")
        wait_until(lambda: running.counts()["clocks_off"] == 1, "a look at the sensors")
        assert running.counts()["rows_ahead_total"] == 1
        assert running.end().status == 0


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("[sensors]\n[page]\n[flows]\n", "[sensors] needs [nats]"),
        ('[input]\nread = "x"\n[sensors]\n[nats]\n[page]\n', "[input] reads packets"),
        ("[sensors]\n[nats]\n[flows]\n", "rows that go nowhere"),
        ("[sensors]\n[nats]\n[page]\n[packetlog]\noutput = 'log'\n", "sensors do not publish"),
        ("[sensors]\n[nats]\n[page]\n[[rule]]\nbytes = '1M'\ncca = true\n", "[rule] steers"),
        ("[sensors]\nsilent-after = '1ms'\n[nats]\n[page]\n", "a second or more"),
        ("[sensors]\nsince = 3\n[nats]\n[page]\n", "since"),
        ("[sensors]\n[nats]\n[flows]\noutput = 'x/'\npartition = 'hour'\n", "one file"),
    ],
)
def test_settings_without_a_meaning_are_refused(text: str, reported: str, tmp_path: Path) -> None:
    path = tmp_path / "view.toml"
    path.write_text(text)
    ran = wirelens("run", "-c", path, "--check", cwd=tmp_path)
    assert ran.status == 2 and reported in ran.stderr, ran.stderr


def test_what_reads_packets_shows_no_sensors(tmp_path: Path) -> None:
    path = tmp_path / "view.toml"
    path.write_text("[sensors]\n[nats]\n[flows]\n[page]\n")
    ran = wirelens("run", "-c", path, "--check")
    assert ran.status == 0 and "valid: flows" in ran.stderr, ran.stderr
    for words in (("run", "-r", DEMO), ("run", "-i", "lo")):
        ran = wirelens(*words, "-c", path)
        assert ran.status == 2 and "[sensors]" in ran.stderr, ran.stderr
    ran = wirelens("report", "-r", DEMO, "-c", path, "-o", tmp_path / "x.html")
    assert ran.status != 0 and "[sensors]" in ran.stderr, ran.stderr
