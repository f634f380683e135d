"""A real Prometheus scrapes a run."""

import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest
from command import DEMO
from test_page import free_port, get, serving

pytestmark = pytest.mark.web


def test_a_real_prometheus_reads_the_metrics(tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed; bash tools/setup.sh web")
    with serving("-r", str(DEMO), "--page", "0") as address:
        text = get(address, "/metrics").decode()
        target = address.removeprefix("http://").strip("/")
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: wirelens\n"
            f"    static_configs: [{{targets: ['{target}']}}]\n"
        )
        port = free_port()
        command = [
            "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]  # fmt: skip
        prometheus = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE)
        try:
            def value(query: str) -> float | None:
                url = f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}"
                try:
                    with urllib.request.urlopen(url, timeout=5) as answer:
                        result = json.load(answer)["data"]["result"]
                except OSError:
                    return None
                return float(result[0]["value"][1]) if result else None

            deadline = time.monotonic() + 30
            while value("wirelens_packets_received_total") is None:
                assert time.monotonic() < deadline, "nothing was scraped within 30 s"
                time.sleep(0.2)
            assert value("up{job='wirelens'}") == 1
            assert value("wirelens_packets_received_total") == 4944
            assert value('wirelens_flows_ended_total{reason="fin"}') == 63
            samples = [line for line in text.splitlines() if not line.startswith("#")]
            assert value("scrape_samples_scraped") == len(samples)
        finally:
            prometheus.terminate()
            prometheus.communicate(timeout=30)
