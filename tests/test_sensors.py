"""A run over the results of other runs, with the real NATS server and real sensors."""

import json
import signal
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from broker import Broker, Client, broker, free_port
from command import DEMO, wirelens
from lab import Listening, wait_until

pytestmark = pytest.mark.testbed

TABLES = "[flows]\nread-names = true\n{flows}[classify]\nmodel = \"services\"\n{classify}"
Row = dict[str, object]


def output(folder: Path, name: str) -> str:
    return f'output = "{folder}/{name}.jsonl"\nforce = true\n'


def publish(folder: Path, server: str, sensor: str, capture: Path = DEMO, more: str = "") -> None:
    """A sensor that reads a capture to its end; its rows are in files of its name as well."""
    tables = TABLES.format(
        flows=output(folder, f"{sensor}-flows"), classify=output(folder, f"{sensor}-classify")
    )
    path = folder / f"{sensor}.toml"
    path.write_text(
        f'[input]\nread = "{capture}"\n{tables}[nats]\nservers = ["{server}"]\n'
        f'sensor = "{sensor}"\n{more}'
    )
    ran = wirelens("run", "-q", "-c", path)
    assert ran.status == 0, ran.stderr


def written(folder: Path, server: str, more: str = "", keys: str = "", with_files: bool = True) -> Path:
    """Settings of a view of all sensors."""
    files = {name: output(folder, f"all-{name}") if with_files else "" for name in ("flows", "classify")}
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
        assert f"of 3 sensors received, 0 missing; 0 messages refused" in ran.stderr
        assert state["packets"]["received"] > 0
