"""The page, the API and reports of a run, asked over HTTP as a browser or a program would."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from command import DEMO, PROGRAM, wirelens

PATIENCE_S = 30


@contextmanager
def serving(*arguments: str, cwd: Path | None = None) -> Iterator[str]:
    """A run that is looked at; its address."""
    process = subprocess.Popen(
        [PROGRAM, "run", *arguments], stderr=subprocess.PIPE, text=True, cwd=cwd, bufsize=1
    )
    assert process.stderr is not None
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"https?://\S+", line):
                break
        else:
            raise AssertionError("".join(said))
        for line in process.stderr:
            if "the page stays open" in line:
                break
        yield found[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def get(address: str, path: str, **headers: str) -> bytes:
    request = urllib.request.Request(address.split("?")[0].rstrip("/") + path, headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return answer.read()


def ask(address: str, path: str):
    return json.loads(get(address, path))


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    with serving("-r", str(DEMO), "--page", "0") as address:
        yield address


def csv_rows(*arguments: str) -> list[dict[str, str]]:
    lines = wirelens(*arguments, "-q", "--format", "csv").stdout.decode().splitlines()
    names = lines[0].split(",")
    return [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]


def test_the_state_counts_every_packet(demo: str) -> None:
    state = ask(demo, "/api/v1/state")
    assert state["packets"]["received"] == 4944
    assert (state["is_over"], state["mode"], state["inputs"]) == (True, "captures", [DEMO.name])
    names = {table["name"] for table in state["tables"]}
    assert {"traffic", "flows", "classify", "cca", "latency"} <= names


def test_seconds_add_up_to_the_capture(demo: str) -> None:
    """Against the lengths of packets as `wirelens top` adds them up, which tests hold to tshark."""
    rows = ask(demo, "/api/v1/tables/traffic?limit=10000&columns=packets,bytes,new_flows")["rows"]
    packets, size, flows = (sum(column) for column in zip(*rows, strict=True))
    protocols = csv_rows("top", "-r", str(DEMO), "--by", "protocol", "-n", "0")
    assert packets == 4944
    assert size == sum(int(row["bytes"]) for row in protocols)
    assert flows == len(csv_rows("flows", "-r", str(DEMO)))


def test_rows_are_those_of_the_command(demo: str) -> None:
    asked = "/api/v1/tables/flows?limit=10000&sort=first_ns,community_id"
    answer = ask(demo, f"{asked}&columns=community_id,first_ns,bytes")
    wanted = [
        [row["community_id"], row["first_ns"], int(row["src_bytes"]) + int(row["dst_bytes"])]
        for row in csv_rows("flows", "-r", str(DEMO))
    ]
    assert sorted(answer["rows"]) == sorted(wanted)
    assert answer["matched"] == answer["searched"] == len(wanted)


def test_a_filter_leaves_what_it_says(demo: str) -> None:
    asked = quote('dst_port in {80, 443} and bytes > 10k')
    rows = ask(demo, f"/api/v1/tables/flows?where={asked}&columns=dst_port,bytes")["rows"]
    flows = csv_rows("flows", "-r", str(DEMO))
    sizes = [
        [int(row["dst_port"]), int(row["src_bytes"]) + int(row["dst_bytes"])] for row in flows
    ]
    wanted = [[port, size] for port, size in sizes if port in (80, 443) and size > 10_000]
    assert sorted(rows) == sorted(wanted)
    assert wanted


def test_groups_are_those_of_top(demo: str) -> None:
    hosts = ask(demo, "/api/v1/hosts?limit=10000")
    place = hosts["columns"].index
    sent = {row[place("host")]: row[place("bytes_sent")] for row in hosts["rows"]}
    top = csv_rows("top", "-r", str(DEMO), "--by", "source", "-n", "0")
    assert {row["src_ip"]: int(row["bytes"]) for row in top} == {
        host: size for host, size in sent.items() if size
    }


def test_a_flow_has_what_every_table_says_of_it(demo: str) -> None:
    rows = ask(demo, "/api/v1/tables/cca?columns=community_id&limit=1")["rows"]
    flow = ask(demo, f"/api/v1/flows/{quote(rows[0][0], safe='')}")
    assert {"flows", "classify", "cca", "latency"} <= set(flow["tables"])


def test_metrics_are_what_prometheus_reads(demo: str) -> None:
    request = urllib.request.Request(demo + "metrics")
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        kind = answer.headers["Content-Type"]
        text = answer.read().decode()
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert text.endswith("# EOF\n")
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert 50 < len(samples) <= 2000
    assert 'wirelens_flows_ended_total{reason="fin"} 63' in text
    assert "wirelens_packets_received_total 4944" in text
    # No address, no name, no flow.
    assert not re.search(r"\d+\.\d+\.\d+\.\d+|example|1:[A-Za-z0-9+/]{20}", text)


def test_requests_that_make_no_sense_are_refused_in_words(demo: str) -> None:
    for path, status in {
        "/api/v1/tables/none": 404,
        "/api/v1/tables/flows?where=((": 400,
        "/api/v1/tables/flows?limit=1000000000": 400,
        "/api/v1/tables/flows?limit=%00": 400,
        "/api/v1/tables/%2e%2e%2fetc": 404,
        "/api/v1/tables/flows/groups?by=nobody": 400,
        "/api/v1/flows/%ff": 400,
        "/api/v1/hosts/999.1.1.1": 400,
    }.items():
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(demo, path)
        assert refused.value.code == status, path
        assert json.loads(refused.value.read())["error"], path


def test_another_site_is_not_answered(demo: str) -> None:
    for headers, status in (
        ({"Host": "rebound.example"}, 421),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(demo, "/api/v1/state", **headers)
        assert refused.value.code == status


def test_settings_say_where_and_to_whom(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef0123\n")
    (tmp_path / "wirelens.toml").write_text(
        f'[input]\nread = "{DEMO}"\n[page]\nlisten = "127.0.0.1:0"\ntoken-file = "token"\n'
        '[flows]\noutput = "flows.csv"\n[packetlog]\noutput = "log"\nmode = "log-all"\n'
    )
    with serving("-c", "wirelens.toml", cwd=tmp_path) as address:
        assert address.endswith("?token=0123456789abcdef0123")
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(address, "/api/v1/state")
        assert refused.value.code == 401
        bearer = {"Authorization": "Bearer 0123456789abcdef0123"}
        status = json.loads(get(address, "/api/v1/packetlog", **bearer))
        assert status["packets"]["seen"] == 4944
        found = get(address, "/api/v1/packetlog/pcapng?host=10.20.0.11", **bearer)
    (tmp_path / "host.pcapng").write_bytes(found)
    count = len(csv_rows("flows", "-r", str(tmp_path / "host.pcapng")))
    wanted = csv_rows("flows", "-r", str(DEMO), "--filter", "host 10.20.0.11")
    assert count == len(wanted)
    assert (tmp_path / "flows.csv").read_text().count("\n") > 300, "the file is written as ever"


def test_a_token_from_a_pipe_is_read_once(tmp_path: Path) -> None:
    """As of a process substitution, or a program that hands out secrets."""
    os.mkfifo(tmp_path / "token")
    (tmp_path / "wirelens.toml").write_text(
        f'[input]\nread = "{DEMO}"\n[page]\nlisten = "127.0.0.1:0"\ntoken-file = "token"\n[flows]\n'
    )
    # To a second reader it hands out another.
    command = "echo 0123456789abcdef0123 > token; sleep 1; echo another-of-16-or-more > token"
    with subprocess.Popen(["sh", "-c", command], cwd=tmp_path) as handing:
        try:
            with serving("-c", "wirelens.toml", cwd=tmp_path) as address:
                assert address.endswith("?token=0123456789abcdef0123")
        finally:
            handing.kill()


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("secret\n")
    settings = tmp_path / "wirelens.toml"
    for lines, wanted in {
        'listen = "0.0.0.0:0"': "can be reached from other machines",
        'listen = "here"': "wanted: an address and a port",
        f'listen = "127.0.0.1:0"\ntoken-file = "{short}"': "16 or more letters",
        'port = 1': "port",
    }.items():
        settings.write_text(f'[input]\nread = "{DEMO}"\n[page]\n{lines}\n[traffic]\n')
        refused = wirelens("run", "-c", str(settings))
        assert refused.status in (1, 2), lines
        assert wanted in refused.stderr, refused.stderr


@pytest.mark.parametrize(
    ("lines", "reported"),
    [
        ('listen = "0.0.0.0:0"', ("wirelens.toml:3: [page] listen:", "token-file")),
        (
            'listen = "127.0.0.1:0"\ntoken-file = "no-such-token"',
            ("wirelens.toml:5: [page] token-file: no-such-token: ",),
        ),
    ],
    ids=["open to others without a token", "a token that cannot be read"],
)
def test_a_page_that_cannot_be_served_is_found_before_the_run(
    tmp_path: Path, lines: str, reported: tuple[str, ...]
) -> None:
    settings = tmp_path / "wirelens.toml"
    settings.write_text(f'[input]\nread = "{DEMO}"\n[page]\n{lines}\n[traffic]\n')
    checked = wirelens("run", "-c", str(settings), "--check")
    assert checked.status != 0
    for part in reported:
        assert part in checked.stderr, checked.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with serving("-r", str(DEMO), "--page", "0") as address:
        port = re.search(r":(\d+)", address[5:])
        assert port is not None
        refused = wirelens("run", "-r", str(DEMO), "--page", port[1])
        assert refused.status == 1
        assert "the port is in use" in refused.stderr


def test_events_come_without_being_asked_again(demo: str) -> None:
    with urllib.request.urlopen(demo + "api/v1/stream", timeout=PATIENCE_S) as answer:
        lines = iter(lambda: answer.readline().decode().rstrip(), None)
        assert next(lines) == "event: state"
        assert json.loads(next(lines).removeprefix("data: "))["is_over"] is True


def has_page() -> bool:
    refused = wirelens("report", "-r", str(DEMO), "-o", "/nowhere/x.html")
    return "without its page" not in refused.stderr


@pytest.mark.skipif(not has_page(), reason="the program was built without its page")
def test_a_report_is_one_file_with_everything_in_it(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    wirelens("report", "-q", "-r", str(DEMO), "-o", str(report))
    text = report.read_text()
    assert len(text.encode()) <= 3_000_000
    assert not re.search(r"""(src|href)=["']?(https?:|//)""", text)
    data = re.search(r'<script id="wirelens-report"[^>]*>(.*?)</script>', text, re.S)
    assert data is not None and "<" not in data[1]
    found = json.loads(data[1])
    assert found["state"]["mode"] == "report"
    assert len(found["tables"]["flows"]["rows"]) == 312
    again = wirelens("report", "-q", "-r", str(DEMO), "-o", str(report))
    assert again.status != 0 and "exists" in again.stderr


def test_a_run_that_is_looked_at_ends_as_any_other(tmp_path: Path) -> None:
    """An interrupt while captures are read, or after that, ends the run with its files whole."""
    process = subprocess.Popen(
        [PROGRAM, "run", "-q", "-r", str(DEMO), "--page", "0"],
        stderr=subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    time.sleep(1)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def free_port() -> int:
    """A port on which no one listens now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
