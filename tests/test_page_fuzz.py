"""Whatever the API is asked, it answers, and says what was wrong: no 5xx, no panic."""

import re
import socket
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from urllib.parse import quote

import pytest
from command import DEMO
from test_page import PATIENCE_S, ask, serving

hypothesis = pytest.importorskip("hypothesis", reason="schemathesis: not installed")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis: not installed")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

pytestmark = pytest.mark.web

CHECKS = (
    not_a_server_error, content_type_conformance, response_schema_conformance,
    status_code_conformance,
)  # fmt: skip
TABLES = ("flows", "classify", "traffic", "latency", "cca")
EXAMPLES = settings(
    max_examples=100, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
# What a filter is made of, and what it is not.
WORDS = st.sampled_from([
    "dst_port", "bytes", "ip", "server_name", "label", "end_reason", "first_ns", "confidence",
    "==", "!=", ">", "<=", "contains", "in", "and", "or", "not", "&&", "||", "!", "(", ")", "{",
    "}", ",", "443", "-1", "1e400", "1M", "99999999999999999999", "10.0.0.0/8", "10.0.0.0/99",
    "::1", "tls", '"', '"a\\"b"', "\\", "\x00", "é", "\U0001f600", "'", ";", "../..", "%", "null",
])  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A run with every kind of table, stored rows and a packet log."""
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "wirelens.toml").write_text(
        '[traffic]\n[flows]\nread-names = true\n[classify]\nmodel = "services"\n[cca]\n[latency]\n'
        '[packetlog]\noutput = "log"\nmode = "log-all"\n[history]\n'
    )
    command = ("-c", "wirelens.toml", "-r", str(DEMO), "--page", "0")
    with serving(*command, cwd=folder) as address:
        yield address


def test_what_the_description_allows_is_answered(address: str) -> None:
    schema = schemathesis.openapi.from_url(f"{address}api/v1/openapi.json")
    names = cycle((*TABLES, None))
    asked = []
    # Events do not end; they have tests of their own.
    for operation in schema.exclude(path="/api/v1/stream").get_all_operations():
        operation = operation.ok()

        @given(case=operation.as_strategy())
        @EXAMPLES
        def answers(case: schemathesis.Case) -> None:
            table = next(names)
            if table is not None and "table" in case.path_parameters:
                case.path_parameters["table"] = table
            case.call_and_validate(checks=CHECKS, timeout=PATIENCE_S)

        answers()
        asked.append(operation.path)
    assert len(asked) > 9, asked


@given(words=st.lists(WORDS, max_size=12), table=st.sampled_from(TABLES), is_stored=st.booleans())
@EXAMPLES
def test_a_filter_is_answered_or_refused(
    words: list[str], table: str, is_stored: bool, address: str
) -> None:
    bounds = f"&from={quote('2020-01-01T00:00:00Z')}" if is_stored else ""
    path = f"/api/v1/tables/{table}?limit=5&where={quote(' '.join(words))}{bounds}"
    assert raw(address, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n") in (200, 400), path


def raw(address: str, head: str, body: bytes = b"") -> int:
    """The status of the first answer; 0 where there is none but a closed connection."""
    port = int(re.findall(r":(\d+)", address)[-1])
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as stream:
        try:
            stream.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)
            first = stream.recv(64)
        except ConnectionError:
            return 0
    return int(first.split()[1]) if first else 0


SMUGGLED = b"0\r\n\r\nGET /api/v1/health HTTP/1.1\r\nHost: evil\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n", b""),
        ("GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n", b""),
        ("GET /api/v1/tables/..%2f..%2fetc HTTP/1.1\r\nHost: localhost\r\n", b""),
        ("GET /api/v1/tables/%00 HTTP/1.1\r\nHost: localhost\r\n", b""),
        ("GET /api/v1/tables/%ff%fe HTTP/1.1\r\nHost: localhost\r\n", b""),
        (f"GET /api/v1/tables/flows?where={'(' * 30_000} HTTP/1.1\r\nHost: localhost\r\n", b""),
        (f"GET /{'a' * 100_000} HTTP/1.1\r\nHost: localhost\r\n", b""),
        ("GET /api/v1/state HTTP/1.1\r\n" + "A: b\r\n" * 2_000 + "Host: localhost\r\n", b""),
        ("GET /api/v1/state HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n", b""),
        ("GET /api/v1/state HTTP/1.1\r\n", b""),
        ("GET /api/v1/state HTTP/9.9\r\nHost: localhost\r\n", b""),
        ("\x00\x01\x02 / HTTP/1.1\r\nHost: localhost\r\n", b""),
        (
            "POST /api/v1/state HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
            "Transfer-Encoding: chunked\r\n",
            SMUGGLED,
        ),
        ("DELETE /api/v1/tables/flows HTTP/1.1\r\nHost: localhost\r\n", b""),
        ("GET /api/v1/tables/flows?limit=-1 HTTP/1.1\r\nHost: localhost\r\n", b""),
        ("GET /api/v1/tables/flows?from=-9e99&to=9e99 HTTP/1.1\r\nHost: localhost\r\n", b""),
        (
            f"GET /api/v1/tables/flows/series?step=0.001&from={-(2**63)}&to={2**63 - 1}"
            " HTTP/1.1\r\nHost: localhost\r\n",
            b"",
        ),
    ],
)
def test_what_no_description_allows_is_refused(head: str, body: bytes, address: str) -> None:
    assert raw(address, head, body) < 500
    assert ask(address, "/api/v1/state")["packets"]["received"] == 4944, "it goes on"


def test_nothing_but_the_page_is_served(address: str, tmp_path: Path) -> None:
    for path in ("/../Cargo.toml", "/%2e%2e/Cargo.toml", "/app.js/../../wirelens.toml"):
        assert raw(address, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n") == 404, path
