"""A real Prometheus on a port of its own, which scrapes a run."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from test_page import free_port


class Prometheus:
    """Answers queries."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, query: str) -> list[dict]:
        """What a query finds; a query that is refused is a failure, with what was said."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as refused:
            if refused.code == 503:
                raise  # It has not begun yet.
            raise AssertionError(f"{query}: {refused.read().decode()}") from refused
        assert said["status"] == "success" and not said.get("warnings"), (query, said)
        return said["data"]["result"]

    def value(self, query: str) -> float | None:
        """The value of the first series that is found; nothing while it does not answer."""
        try:
            result = self.ask(query)
        except OSError:
            return None
        return float(result[0]["value"][1]) if result else None

    def wait_for(self, query: str, time_max_s: float = 30) -> float:
        deadline = time.monotonic() + time_max_s
        while (value := self.value(query)) is None:
            assert time.monotonic() < deadline, f"nothing for {query} within {time_max_s:g} s"
            time.sleep(0.1)
        return value


@contextmanager
def scraping(folder: Path, target: str, rules: Path | None = None) -> Iterator[Prometheus]:
    """Scrapes a target each half second."""
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed; bash tools/setup.sh test")
    every = "scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s"
    (folder / "prometheus.yml").write_text(
        f"global: {{{every}}}\nrule_files: [{json.dumps(str(rules)) if rules else ''}]\n"
        "scrape_configs:\n  - job_name: wirelens\n"
        f"    static_configs: [{{targets: ['{target}']}}]\n"
    )
    port = free_port()
    command = [
        "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "prometheus.err").open("wb") as err:
        process = subprocess.Popen(command, cwd=folder, stderr=err)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(timeout=30)
