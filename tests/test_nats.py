"""Rows and metrics over NATS, with the real server: nothing acknowledged is lost, no row is twice."""

import json
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from broker import Broker, Client, Message, broker, free_port, stream_messages
from command import DEMO, ENVIRONMENT, PROGRAM, wirelens
from lab import Listening, datagrams, identity, ip, new_link, wait_until
from nkeys import credentials, new_key, operator_settings

pytestmark = pytest.mark.testbed

TABLES = (
    '[flows]\nread-names = true\noutput = "{folder}/flows.jsonl"\nforce = true\n'
    '[classify]\nmodel = "services"\noutput = "{folder}/classify.jsonl"\nforce = true\n'
)
SENSOR = "roof.east"


def settings(folder: Path, address: str, more: str = "", tables: str = TABLES) -> Path:
    path = folder / "wirelens.toml"
    path.write_text(
        f'[input]\nread = "{DEMO}"\n{tables.format(folder=folder)}'
        f'[nats]\nservers = ["{address}"]\nsensor = "{SENSOR}"\n{more}'
    )
    return path


def rows_of(messages: list[Message], table: str) -> list[str]:
    """Rows of one table, checked against what their messages say of them."""
    rows: list[str] = []
    of_table = [message for message in messages if message.headers["Wirelens-Table"] == table]
    for message in sorted(of_table, key=lambda one: int(one.headers["Wirelens-First-Row"])):
        lines = message.data.decode().splitlines()
        headers = message.headers
        assert message.subject == f"wirelens.v1.rows.roof_east.{table}"
        assert (headers["Wirelens-Version"], headers["Wirelens-Sensor"]) == ("1", SENSOR)
        assert int(headers["Wirelens-Rows"]) == len(lines)
        assert int(headers["Wirelens-First-Row"]) == len(rows)
        assert headers["Nats-Msg-Id"].startswith(f"roof_east/{headers['Wirelens-Run']}/{table}/")
        rows += lines
    return rows


def check_complete(messages: list[Message], folder: Path) -> None:
    """The stream has the rows that the run wrote into files, each once."""
    for table in ("flows", "classify"):
        written = (folder / f"{table}.jsonl").read_text().splitlines()
        assert len(written) > 100
        assert Counter(rows_of(messages, table)) == Counter(written)


def test_rows_and_alerts_are_published_once(tmp_path: Path) -> None:
    alert = '[[alert]]\nname = "large"\ntable = "flows"\nwhen = "bytes > 100k"\n'
    with broker(tmp_path) as server:
        path = settings(tmp_path, server.address, f'keep = "1h"\n{alert}')
        ran = wirelens("run", "-q", "-c", path)
        assert ran.status == 0, ran.stderr
        assert "nats: connected" in ran.stderr
        messages = stream_messages(server.port)
        check_complete(messages, tmp_path)
        fired = [json.loads(row) for row in rows_of(messages, "alerts")]
        assert fired and {one["name"] for one in fired} == {"large"}
        # A second run has an id of its own: its rows are no duplicates of the first one's.
        assert wirelens("run", "-q", "-c", path).status == 0
        runs = {message.headers["Wirelens-Run"] for message in stream_messages(server.port)}
        assert len(runs) == 2


def test_a_small_broker_gets_small_messages(tmp_path: Path) -> None:
    with broker(tmp_path, "max_payload: 8192\n") as server:
        ran = wirelens("run", "-q", "-c", settings(tmp_path, server.address))
        assert ran.status == 0, ran.stderr
        messages = stream_messages(server.port)
        assert len(messages) > 10 and max(len(one.data) for one in messages) <= 4_096
        check_complete(messages, tmp_path)


def test_a_stream_with_a_limit_gets_messages_within_it(tmp_path: Path) -> None:
    with broker(tmp_path) as server, Client(server.port) as client:
        made = {"name": "WIRELENS", "subjects": ["wirelens.v1.rows.>"], "max_msg_size": 8192}
        assert "error" not in client.ask("$JS.API.STREAM.CREATE.WIRELENS", made)
        ran = wirelens("run", "-q", "-c", settings(tmp_path, server.address))
        assert ran.status == 0 and "not published" not in ran.stderr, ran.stderr
        messages = stream_messages(server.port)
        assert len(messages) > 10 and max(len(one.data) for one in messages) <= 4_096
        check_complete(messages, tmp_path)


def test_a_limit_that_is_reduced_during_a_run_stops_no_other_rows(tmp_path: Path) -> None:
    """Messages that are refused from then on are split; their rows are there all the same."""
    with broker(tmp_path) as server, Client(server.port) as client:
        made = {"name": "WIRELENS", "subjects": ["wirelens.v1.rows.>"]}
        assert "error" not in client.ask("$JS.API.STREAM.CREATE.WIRELENS", made)
        run = replay(settings(tmp_path, server.address), "10")
        time.sleep(1)
        changed = made | {"max_msg_size": 8192}
        assert "error" not in client.ask("$JS.API.STREAM.UPDATE.WIRELENS", changed)
        _, reported = run.communicate(timeout=60)
        assert run.returncode == 0, reported
        assert "not published" not in reported
        check_complete(stream_messages(server.port), tmp_path)


def replay(path: Path, pace: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PROGRAM, "run", "-q", "-c", path, "--pace", pace],
        stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip


def test_a_broker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """Killed and started again twice while rows come; in the end the stream has each once."""
    with broker(tmp_path) as server:
        run = replay(settings(tmp_path, server.address), "10")
        for _ in range(2):
            time.sleep(1)
            server.kill()
            time.sleep(0.5)
            server.start()
        _, told = run.communicate(timeout=60)
        assert run.returncode == 0, told
        assert "the broker is away" in told and "connected again" in told
        assert "not published" not in told
        check_complete(stream_messages(server.port), tmp_path)


def test_a_broker_that_does_not_answer_in_time_has_each_row_once(tmp_path: Path) -> None:
    """Stopped for longer than an answer may take: rows are published again under the same id."""
    with broker(tmp_path) as server:
        run = replay(settings(tmp_path, server.address), "10")
        time.sleep(1)
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(6)
        server.process.send_signal(signal.SIGCONT)
        _, reported = run.communicate(timeout=60)
        assert run.returncode == 0, reported
        assert "rows were not acknowledged in time" in reported
        assert "the broker is away" not in reported and "not published" not in reported
        check_complete(stream_messages(server.port), tmp_path)


def test_a_broker_that_comes_later_gets_all_rows(tmp_path: Path) -> None:
    server = Broker(tmp_path, port=free_port())
    run = replay(settings(tmp_path, server.address), "20")
    time.sleep(1)
    server.start()
    try:
        _, told = run.communicate(timeout=60)
        assert run.returncode == 0, told
        assert told.index("the broker is away") < told.index("nats: connected")
        check_complete(stream_messages(server.port), tmp_path)
    finally:
        server.kill()


def test_a_name_server_that_is_away_holds_up_neither_start_nor_end(tmp_path: Path) -> None:
    """Names are looked up for ten seconds and more; packets are read meanwhile."""
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\n")
    path = settings(tmp_path, "nats://broker.example:4222", tables="[flows]\n")
    path.write_text(path.read_text().replace(f'read = "{DEMO}"', 'interface = "wl0"'))
    mounts = f"mount --bind {resolver} {Path('/etc/resolv.conf').resolve()}"
    with new_link() as link, socket.socket(type=socket.SOCK_DGRAM) as silent:
        ip("link set lo up")
        silent.bind(("127.0.0.1", 53))
        began = time.monotonic()
        run = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", f"{mounts} && exec {PROGRAM} run -c {path}"],
            stderr=(tmp_path / "run.err").open("wb"), env=ENVIRONMENT,
        )  # fmt: skip
        try:
            reported = (tmp_path / "run.err").read_text
            wait_until(lambda: "the broker is away" in reported(), "it says so", 8)
            assert time.monotonic() - began < 8
            silent.settimeout(1)
            assert silent.recv(512), "the name was asked for"
            link.send(datagrams(300))
            time.sleep(1)
            began = time.monotonic()
            run.send_signal(signal.SIGINT)
            # Rows wait ten seconds for a broker, and for nothing else.
            run.wait(15)
            assert time.monotonic() - began < 12
        finally:
            run.kill()
            run.wait()
    assert "300 processed" in reported() and "300 rows were not published" in reported()


def test_without_a_broker_the_run_is_the_same_and_says_so(tmp_path: Path) -> None:
    address = f"nats://127.0.0.1:{free_port()}"
    ran = wirelens("run", "-q", "-c", settings(tmp_path, address))
    assert ran.status == 1, ran.stderr
    flows = (tmp_path / "flows.jsonl").read_text().splitlines()
    alone = wirelens("flows", "-q", "-r", DEMO, "--format", "jsonl", "--read-names")
    assert flows == alone.stdout.decode().splitlines()
    verdicts = (tmp_path / "classify.jsonl").read_text().splitlines()
    lost = f"{len(flows) + len(verdicts)} rows were not published, 0 were"
    assert "the broker is away" in ran.stderr and lost in ran.stderr


def test_a_file_that_is_missing_is_named_before_a_broker_answers(tmp_path: Path) -> None:
    address = f"nats://127.0.0.1:{free_port()}"
    path = settings(tmp_path, address, 'token-file = "no-such-token"\n')
    ran = wirelens("run", "-q", "-c", path, cwd=tmp_path)
    assert ran.status == 1 and "[nats] no-such-token: No such file" in ran.stderr, ran.stderr


def test_a_full_stream_is_reported_and_counted(tmp_path: Path) -> None:
    with broker(tmp_path) as server, Client(server.port) as client:
        limits = {"max_msgs": 1, "discard": "new", "storage": "file", "retention": "limits"}
        made = {"name": "WIRELENS", "subjects": ["wirelens.v1.rows.>"], **limits}
        assert "error" not in client.ask("$JS.API.STREAM.CREATE.WIRELENS", made)
        ran = wirelens("run", "-q", "-c", settings(tmp_path, server.address))
        assert ran.status == 1
        assert "maximum messages exceeded" in ran.stderr and "not acknowledged" in ran.stderr
        [kept] = stream_messages(server.port)
        count = int(kept.headers["Wirelens-Rows"])
        assert f"rows were not published, {count} were" in ran.stderr


def test_a_broker_without_jetstream_is_reported(tmp_path: Path) -> None:
    with broker(tmp_path) as server:
        server.kill()
        (tmp_path / "plain").mkdir()
        plain = Broker(tmp_path / "plain", port=server.port)
        plain.settings = "jetstream: false\n"
        plain.start()
        try:
            ran = wirelens("run", "-q", "-c", settings(tmp_path, plain.address))
            assert ran.status == 1
            assert "wanted: a server with JetStream" in ran.stderr
            assert "rows were not published" in ran.stderr
        finally:
            plain.kill()


def test_wrong_credentials_refuse_the_run(tmp_path: Path) -> None:
    with broker(tmp_path, 'authorization { token: "right" }\n') as server:
        (tmp_path / "token").write_text("wrong\n")
        token = f'token-file = "{tmp_path}/token"\n'
        ran = wirelens("run", "-q", "-c", settings(tmp_path, server.address, token))
        assert ran.status == 1
        assert "the broker refuses these credentials" in ran.stderr
        (tmp_path / "token").write_text("right\n")
        ran = wirelens("run", "-q", "-c", settings(tmp_path, server.address, token))
        assert ran.status == 0, ran.stderr
        ran = wirelens(
            "run", "-q", "-c", settings(tmp_path, server.address, 'token-file = "none"\n')
        )
        assert ran.status == 1 and "none: No such file" in ran.stderr


def test_a_token_that_is_changed_during_a_run_is_reported_and_tried_again(tmp_path: Path) -> None:
    right = 'authorization { token: "right" }\n'
    (tmp_path / "token").write_text("right\n")
    with broker(tmp_path, right) as server:
        path = settings(tmp_path, server.address, f'token-file = "{tmp_path}/token"\n')
        run = replay(path, "10")
        for change in (right.replace("right", "other"), right):
            time.sleep(1)
            server.kill()
            server.settings = change
            server.start()
        _, reported = run.communicate(timeout=60)
        assert run.returncode == 0, reported
        refused = reported.index("nats: the broker refuses these credentials")
        assert refused < reported.index("connected again")
        assert "not published" not in reported
        # The test itself has no token.
        server.kill()
        server.settings = ""
        server.start()
        check_complete(stream_messages(server.port), tmp_path)


def check_login(folder: Path, server: Broker, right: str, wrong: str) -> None:
    """Rows are published with the right credentials, and with others the run is refused."""
    more = f'credentials = "{folder}/user.creds"\n'
    for text, is_right in ((right, True), (wrong, False)):
        (folder / "user.creds").write_text(text)
        ran = wirelens("run", "-q", "-c", settings(folder, server.address, more))
        assert ran.status == (0 if is_right else 1), ran.stderr
        assert ("nats: connected" in ran.stderr) == is_right
        assert ("the broker refuses these credentials" in ran.stderr) != is_right
        assert "not published" not in ran.stderr
    (folder / "user.creds").write_text(right[: len(right) // 2])
    ran = wirelens("run", "-q", "-c", settings(folder, server.address, more))
    assert ran.status == 1 and "user.creds: no credentials; wanted" in ran.stderr


def test_a_key_of_a_user_logs_in(tmp_path: Path) -> None:
    user, stranger = new_key("user"), new_key("user")
    known = f"authorization {{ users: [ {{ nkey: {user.public} }} ] }}\n"
    with broker(tmp_path, known) as server:
        check_login(tmp_path, server, f"{user.seed}\n", f"{stranger.seed}\n")


def test_a_file_of_nsc_logs_in(tmp_path: Path) -> None:
    user, stranger = new_key("user"), new_key("user")
    operated, jwt = operator_settings(user)
    with broker(tmp_path, operated) as server:
        check_login(tmp_path, server, credentials(jwt, user), credentials(jwt, stranger))


def test_metrics_are_sent_while_it_runs(tmp_path: Path) -> None:
    with broker(tmp_path) as server, Client(server.port) as client:
        client.subscribe("wirelens.v1.metrics.>")
        run = replay(settings(tmp_path, server.address, 'metrics-every = "1s"\n'), "10")
        seen = [client.next() for _ in range(3)]
        run.communicate(timeout=60)
        assert {one.subject for one in seen} == {"wirelens.v1.metrics.roof_east"}
        read = [json.loads(one.data) for one in seen]
        assert [one["number"] for one in read] == [0, 1, 2]
        assert {(one["version"], one["sensor"]) for one in read} == {(1, SENSOR)}
        named = {(one["application"], one["name"]) for one in read[-1]["counts"]}
        assert ("run", "packets_received") in named
        of_broker = {name for application, name in named if application == "nats"}
        assert of_broker == {
            "connected", "rows_waiting", "rows_published", "rows_lost", "messages_retried",
            "messages_duplicate", "disconnects", "metrics_published",
        }  # fmt: skip


def test_tls_is_used_and_a_stranger_refused(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    config = tmp_path / "openssl.conf"
    config.write_text(
        "[req]\ndistinguished_name = name\nx509_extensions = more\nprompt = no\n"
        "[name]\nCN = localhost\n"
        "[more]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1\n"
    )
    made = [
        "openssl", "req", "-x509", "-config", config, "-days", "1", "-nodes", "-newkey", "ec",
        "-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", key, "-out", certificate,
    ]  # fmt: skip
    subprocess.run(made, check=True, capture_output=True)
    tls = f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}\n'
    with broker(tmp_path, tls) as server:
        address = server.address.replace("nats:", "tls:")
        trusted = f'ca-file = "{certificate}"\n'
        ran = wirelens("run", "-q", "-c", settings(tmp_path, address, trusted))
        assert ran.status == 0 and "not published" not in ran.stderr, ran.stderr
        ran = wirelens("run", "-q", "-c", settings(tmp_path, address))
        assert ran.status == 1 and "TLS" in ran.stderr and "ca-file" in ran.stderr


def test_no_packet_is_lost_while_the_broker_is(tmp_path: Path) -> None:
    """On an interface: packets before, while and after the broker is away are all in its rows."""
    with new_link() as link, broker_in(tmp_path) as server:
        path = settings(tmp_path, server.address, tables="[flows]\n")
        path.write_text(path.read_text().replace(f'read = "{DEMO}"', 'interface = "wl0"'))
        with Listening(tmp_path, "run", "-c", path) as live:
            live.wait_for("nats: connected")
            link.send(datagrams(300))
            server.kill()
            link.send(datagrams(300, port=80))
            live.wait_for("the broker is away")
            server.start()
            live.wait_for("connected again")
            link.send(datagrams(300, port=443))
            time.sleep(0.5)
            ran = live.end()
        assert ran.status == 0, ran.stderr
        packets = identity(ran)
        assert (packets["processed"], packets["dropped"]) == (900, 0)
        rows = [json.loads(row) for row in rows_of(stream_messages(server.port), "flows")]
        assert len(rows) == len({row["community_id"] for row in rows}) == 900


@contextmanager
def broker_in(folder: Path) -> Iterator[Broker]:
    """A broker in the namespace of this test."""
    ip("link set lo up")
    with broker(folder) as server:
        yield server
