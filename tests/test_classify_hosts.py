"""`classify --by host`: a row for a host when its label changes, and its verdict at the end.

The model is `testdata/cascade-hosts`, a few trees written by hand: UDP to port 53 is DNS, UDP below
it something else, TCP to port 80 the web.
"""

import csv
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
import wirelens as package
from captures import Frame, write_pcap
from command import DEMO, ROOT, wirelens

MODEL = ROOT / "testdata/cascade-hosts"
START_NS = 1_700_000_000 * 10**9
MINUTE_NS = 60 * 10**9
# Of one host, in minutes: first a name server's client, then another kind of device.
CHANGING = (53, 53, 20, 21, 22, 23, 24, 25, 26)


def frame(time_ns: int, host: int, port: int) -> Frame:
    """A datagram of 10.0.0.`host`."""
    udp = struct.pack("!4H", 40_000, port, 16, 0) + bytes(8)
    ends = 0x0A000000 + host, 0xC6336401
    head = struct.pack("!2B3H2BH2I", 69, 0, 20 + len(udp), 0, 0, 64, 17, 0, *ends)
    data = bytes(12) + b"\x08\x00" + head + udp
    return Frame(START_NS + time_ns, data, len(data))


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hosts") / "hosts.pcap"
    frames = [frame(at * 2 * MINUTE_NS, 1, port) for at, port in enumerate(CHANGING)]
    frames += [frame(second * 10**9, host, 53) for second, host in enumerate(range(9, 1, -1))]
    # Two that do not agree.
    frames += [frame(30 * 10**9, 200, 53), frame(31 * 10**9, 200, 20)]
    write_pcap(path, sorted(frames, key=lambda one: one.time_ns))
    return path


def rows_of(capture: Path, *options: str | Path) -> list[dict[str, str]]:
    ran = wirelens("classify", "-q", "-r", capture, "--model", MODEL, "--by", "host",
                   "--format", "csv", *options)  # fmt: skip
    assert ran.status == 0, ran.stderr
    return ran.rows


def verdicts(rows: Iterable[dict[str, str]]) -> dict[str, dict[str, str]]:
    """The last row of each host."""
    return {row["host"]: row for row in rows}


def test_a_row_when_a_label_changes_and_the_verdict_at_the_end(capture: Path) -> None:
    rows = rows_of(capture)
    assert list(rows[0]) == ["host", "label", "confidence", "guess", "guess_confidence",
                             "flow_count", "first_ns", "decided_ns", "model"]  # fmt: skip
    changing = [row for row in rows if row["host"] == "10.0.0.1"]
    labels = [row["label"] for row in changing]
    assert (labels[0], labels[-1]) == ("dns", "other"), labels
    counts = [int(row["flow_count"]) for row in changing]
    assert counts == sorted(set(counts)) and counts[-1] == len(CHANGING)
    assert all((row["confidence"] == "") == (row["label"] == "unknown") for row in rows)
    assert all(float(row["guess_confidence"]) >= 0.5 for row in rows if row["label"] != "unknown")
    last = verdicts(rows)
    assert len(last) == 10 and last["10.0.0.200"]["label"] == "unknown"
    assert last["10.0.0.9"]["first_ns"] == str(START_NS)
    assert last["10.0.0.1"]["decided_ns"] == str(START_NS + 16 * MINUTE_NS)


def test_hosts_are_the_sources_of_the_flows(tmp_path: Path) -> None:
    ran = wirelens("classify", "-q", "-r", DEMO, "--model", MODEL, "--format", "csv")
    flows = [row for row in ran.rows if row["cause"] != "protocol"]
    last = verdicts(rows_of(DEMO))
    # Whoever has no address yet is no host.
    flows = [row for row in flows if row["src_ip"] not in ("0.0.0.0", "::")]
    assert last.keys() == {row["src_ip"] for row in flows}
    assert sum(int(row["flow_count"]) for row in last.values()) == len(flows)
    for host, row in last.items():
        of_host = [flow for flow in flows if flow["src_ip"] == host]
        assert row["first_ns"] == min(flow["first_ns"] for flow in of_host)
        assert row["decided_ns"] == max(flow["decided_ns"] for flow in of_host)


def test_a_terminal_has_a_line_for_each_host(capture: Path) -> None:
    ran = wirelens("classify", "-r", capture, "--model", MODEL, "--by", "host")
    assert ran.status == 0, ran.stderr
    lines = ran.stdout.decode().splitlines()
    assert lines[0].split() == ["host", "label", "confidence", "flows", "first", "seen", "last",
                                "seen"]  # fmt: skip
    assert [line.split()[0] for line in lines[1:4]] == ["10.0.0.1", "10.0.0.200", "10.0.0.2"]
    assert len(lines) == 11 and lines[1].split()[1] == "other"
    assert "classify: 10 hosts are in memory" in ran.stderr


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "many.pcap"
    write_pcap(path, [frame(at * 10**6, at % 200, 53) for at in range(600)])
    return path


def test_hosts_that_are_forgotten_are_counted_and_have_their_row(many: Path) -> None:
    ran = wirelens("classify", "-r", many, "--model", MODEL, "--by", "host", "--hosts-max", "64",
                   "--format", "csv")  # fmt: skip
    assert len(verdicts(ran.rows)) == 200
    assert "hosts were evicted from memory (more fit with --hosts-max)" in ran.stderr
    table = wirelens("classify", "-q", "-r", many, "--model", MODEL, "--by", "host")
    assert table.stdout.decode().splitlines()[-1] == "… and 150 more (--format csv shows all)"


def test_python_has_the_rows_of_the_command(capture: Path, many: Path) -> None:
    for path in (capture, many):
        stream = package.classify_flows(path, MODEL, by="host", hosts_max=64)
        rows = list(stream)
        wanted = rows_of(path, "--hosts-max", "64")
        texts = [["" if value is None else str(value) for value in row] for row in rows]
        numbers = [name for name in wanted[0] if name.endswith("confidence")]
        for row, other in zip(texts, wanted, strict=True):
            named = dict(zip(stream.columns, row, strict=True))
            for name in numbers:
                assert named[name] == other[name] or float(named[name]) == float(other[name])
                del named[name]
            assert named == {name: other[name] for name in named}
        counts = stream.counts
        assert counts is not None
        hosts = len({row.host for row in rows})
        assert counts["hosts"] + counts["hosts_forgotten"] >= hosts
        assert (counts["hosts_forgotten"] > 0) == (path == many)


def test_a_run_has_the_rows_of_the_command(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        f'[input]\nread = "{capture}"\n[flows]\noutput = "flows.csv"\n[classify]\n'
        f'model = "{MODEL}"\nby = "host"\noutput = "hosts.csv"\n'
    )
    ran = wirelens("run", "-q", "-c", "run.toml", cwd=tmp_path)
    assert ran.status == 0, ran.stderr
    with (tmp_path / "hosts.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == rows_of(capture)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--model", "services"), "--by host: services has no memory of hosts; give a model that"),
        (("--model", MODEL, "--every", "1s"), "--every: not with --by host"),
        (("--model", MODEL, "--consumers", "2"), "--consumers: not with --by host"),
        (("--model", MODEL, "--pcapng", "out.pcapng"), "--pcapng: not with --by host"),
        (("--model", MODEL, "--format", "eve"), "--format: not with --by host"),
        (("--model", MODEL, "--format", "zeek"), "--format: not with --by host"),
    ],
)
def test_what_hosts_cannot_be_is_refused(
    options: tuple[str | Path, ...], named: str, tmp_path: Path
) -> None:
    ran = wirelens("classify", "-r", DEMO, "--by", "host", *options, cwd=tmp_path)
    assert ran.status == 2 and named in ran.stderr, ran.stderr
    assert not list(tmp_path.iterdir())


def test_python_and_run_refuse_the_same(tmp_path: Path) -> None:
    for match, model, options in [
        ("by: `host`: services has no memory of hosts", "services", {}),
        ("every: `1s`: not with by=.host.", MODEL, {"every": "1s"}),
        ("consumers: `2`: hosts are reported by one thread", MODEL, {"consumers": 2}),
        ("hosts_max: `3`", MODEL, {"hosts_max": 3}),
    ]:
        with pytest.raises(package.OptionError, match=match):
            package.classify_flows(DEMO, model, by="host", **options)
    with pytest.raises(package.OptionError, match="by: `colour` is not a kind of row"):
        package.classify_flows(DEMO, MODEL, by="colour")  # type: ignore[call-overload]
    for lines, named in [
        ('model = "services"\nby = "host"', "services has no memory of hosts"),
        (f'model = "{MODEL}"\nhosts-max = 3', "hosts-max"),
    ]:
        (tmp_path / "run.toml").write_text(
            f'[input]\nread = "{DEMO}"\n[classify]\n{lines}\noutput = "hosts.csv"\n'
        )
        ran = wirelens("run", "-c", "run.toml", cwd=tmp_path)
        assert ran.status == 2 and named in ran.stderr, ran.stderr
