"""`wirelens worker --page`: what a worker does, as Prometheus and the API have it."""

import json
import re
import urllib.request
from pathlib import Path

import pytest
from broker import free_port
from command import wirelens
from lab import wait_until
from scraped import Scrape, parsed
from workers import Worker, escalated, rows_of, server_in, settings

pytestmark = pytest.mark.testbed

OUTCOMES = ("answered", "late", "busy", "refused")


def page_of(worker: Worker) -> str:
    """Its address."""
    wait_until(lambda: "page: http://" in worker.said, "the worker says where its page is")
    found = re.search(r"page: (http://\S+)/", worker.said)
    assert found
    return found[1]


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return answer.read().decode()


def check(page: str, name: str) -> dict[str, str]:
    """A check of its health."""
    checks = json.loads(read(f"{page}/api/v1/health"))["checks"]
    (found,) = [each for each in checks if each["name"] == name]
    return found


def test_a_worker_counts_what_it_answers(tmp_path: Path) -> None:
    with server_in(tmp_path) as server:
        with Worker(tmp_path, server.address, "--page", "0") as worker:
            server.wait_for_workers(1)
            page = page_of(worker)

            def scrape() -> Scrape:
                return parsed(read(f"{page}/metrics"))

            before = scrape()
            assert before.sum("wirelens_worker_rows_answered_total") == 0
            assert before.sum("wirelens_worker_connected") == 1
            ran = wirelens(
                "run", "-q", "-c", settings(tmp_path, server.address, 'deadline = "5s"\n')
            )
            assert ran.status == 0, ran.stderr
            asked = len(escalated(rows_of(tmp_path)))
            after = scrape()
            assert asked > 0 and after.sum("wirelens_worker_rows_answered_total") == asked
            counted = {
                outcome: after.sum("wirelens_worker_messages_total", outcome=outcome)
                for outcome in OUTCOMES
            }
            assert after.sum("process_cpu_seconds_total") > 0
            assert check(page, "rows of sensors")["status"] == "ok"
            server.kill()
            wait_until(lambda: scrape().sum("wirelens_worker_connected") == 0, "the broker is away")
            assert check(page, "rows of sensors")["status"] == "warning"
            summary = worker.end()
    assert counted == {"answered": summary.messages, "late": 0, "busy": 0, "refused": 0}
    assert summary.rows == asked


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    ran = wirelens("worker", "--model", "services", "--page", f"0.0.0.0:{free_port()}")
    assert ran.status == 1
    assert "wanted: 127.0.0.1 or [::1], or a token" in ran.stderr
    path = tmp_path / "worker.toml"
    path.write_text('[page]\ncertificate = "a.pem"\n')
    ran = wirelens("worker", "--model", "services", "--page", "0", "-c", path)
    assert ran.status == 1
    assert "certificate without key" in ran.stderr
