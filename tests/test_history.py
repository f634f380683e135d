"""Rows that outlive memory: a second run shows what the first has stored."""

import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from captures import Frame, write_pcap
from command import DEMO, PROGRAM, wirelens
from lab import datagram
from test_page import ask, csv_rows, serving

SETTINGS = """
[traffic]
[flows]
read-names = true
[latency]
[history]
"""
# The demo is of this second on; ours follows a minute later.
DEMO_START_S = 1_795_299_096
LATER_NS = (DEMO_START_S + 90) * 10**9
FLOW_COUNT = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run has stored the demo, and a capture of the minute after it."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "wirelens.toml").write_text(SETTINGS)
    ran = wirelens("run", "-q", "-c", "wirelens.toml", "-r", str(DEMO), cwd=folder)
    assert (ran.status, ran.stderr) == (0, "")
    sent = [datagram(("192.0.2.1", 1000 + at), ("192.0.2.9", 53)) for at in range(FLOW_COUNT)]
    frames = [Frame(LATER_NS + at * 10**9, data, len(data)) for at, data in enumerate(sent)]
    write_pcap(folder / "later.pcap", frames)
    return folder


def test_stored_rows_are_read_by_others(folder: Path) -> None:
    polars = pytest.importorskip("polars")
    stored = polars.read_parquet(folder / "history/flows/**/*.parquet")
    wanted = csv_rows("flows", "-r", str(DEMO))
    demo = stored.filter(polars.col("src_ip") != "192.0.2.1")
    assert sorted(demo["community_id"]) == sorted(row["community_id"] for row in wanted)
    assert demo["src_bytes"].sum() == sum(int(row["src_bytes"]) for row in wanted)


def test_a_later_run_shows_both(folder: Path) -> None:
    flows = csv_rows("flows", "-r", str(DEMO))
    everything = f"from={quote('2020-01-01T00:00:00Z')}"
    with serving("-c", "wirelens.toml", "-r", "later.pcap", "--page", "0", cwd=folder) as address:
        state = ask(address, "/api/v1/state")
        history = state["history"]
        assert history["missed_rows"] == 0 and history["trouble"] is None
        assert int(history["first"]) // 10**9 == DEMO_START_S
        # Without a beginning it is about this run.
        rows = ask(address, "/api/v1/tables/flows?limit=1000")
        assert rows["matched"] == FLOW_COUNT
        rows = ask(address, f"/api/v1/tables/flows?limit=1000&{everything}")
        assert rows["matched"] == len(rows["rows"]) == len(flows) + FLOW_COUNT
        groups = ask(
            address, f"/api/v1/tables/flows/groups?by=protocol&sum=bytes&limit=9&{everything}"
        )
        size = sum(int(row["src_bytes"]) + int(row["dst_bytes"]) for row in flows)
        place = groups["columns"].index("sum_bytes")
        own = sum(row[place] for row in groups["rows"]) - size
        assert own == FLOW_COUNT * len(datagram(("192.0.2.1", 1), ("192.0.2.9", 53)))
        # A range with one end in each run, and one in the first alone.
        for until, count in ((LATER_NS, len(flows)), (LATER_NS + 1, len(flows) + 1)):
            found = ask(address, f"/api/v1/tables/flows?limit=0&{everything}&to={until}")
            assert found["matched"] == count
        # A day in steps of ten minutes is of sums: they add up to the rows.
        day = f"from={LATER_NS - 86_400 * 10**9}&to={LATER_NS + 86_400 * 10**9}&step=600s"
        series = ask(address, f"/api/v1/tables/flows/series?value=bytes&{day}")["series"]
        assert sum(value or 0 for one in series for value in one["values"]) == size + own
        hosts = ask(address, f"/api/v1/hosts?limit=1000&{everything}")
        assert {"192.0.2.1", flows[0]["src_ip"]} <= {row[0] for row in hosts["rows"]}


def test_a_stored_flow_and_host_have_their_pages(folder: Path) -> None:
    flow = next(row for row in csv_rows("flows", "-r", str(DEMO)) if row["protocol"] == "tcp")
    name = quote(flow["community_id"], safe="")
    with serving("-c", "wirelens.toml", "-r", "later.pcap", "--page", "0", cwd=folder) as address:
        found = ask(address, f"/api/v1/flows/{name}?first_ns={flow['first_ns']}")
        table = found["tables"]["flows"]
        assert [row[table["columns"].index("first_ns")] for row in table["rows"]] == [
            flow["first_ns"]
        ]
        assert "latency" in found["tables"]
        everything = f"from={quote('2020-01-01T00:00:00Z')}"
        found = ask(address, f"/api/v1/hosts/{flow['src_ip']}?{everything}")
        assert found["tables"]["flows"]["rows"]


def test_one_run_writes_a_folder(folder: Path) -> None:
    with serving("-c", "wirelens.toml", "-r", "later.pcap", "--page", "0", cwd=folder):
        second = subprocess.run(
            [PROGRAM, "run", "-q", "-c", "wirelens.toml", "-r", "later.pcap"],
            cwd=folder, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert second.returncode == 1
    assert "history folder `history` is in use by" in second.stderr
    assert "name another folder" in second.stderr


def test_rows_that_are_not_stored_are_a_loss(tmp_path: Path) -> None:
    (tmp_path / "wirelens.toml").write_text('[flows]\noutput = "flows.csv"\n[history]\n')
    folder = tmp_path / "history"
    folder.mkdir()
    # What is in the way of its rows.
    (folder / "flows").touch()
    ran = wirelens("run", "-q", "-c", "wirelens.toml", "-r", str(DEMO), cwd=tmp_path)
    assert ran.status == 1
    assert "[history] 312 rows were not stored; check the disk" in ran.stderr
    assert "File exists" in ran.stderr
    assert len((tmp_path / "flows.csv").read_text().splitlines()) == 1 + 312, "all else is done"


@pytest.mark.parametrize("place", ["file", "file/history", "link", "made/../file/x"])
def test_a_folder_that_cannot_be_used_is_found_before_the_run(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "made").mkdir()
    (tmp_path / "wirelens.toml").write_text(f'[flows]\n[history]\nfolder = "{place}"\n')
    asked = ("run", "-q", "-c", "wirelens.toml", "-r", str(DEMO))
    checked, ran = (wirelens(*asked, *more, cwd=tmp_path) for more in (("--check",), ()))
    for refused in (checked, ran):
        assert refused.status == 1
        assert f"[history] history folder `{place}` cannot be used: " in refused.stderr


def test_a_check_makes_no_folder_and_takes_no_lock(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "wirelens.toml").write_text('[flows]\n[history]\nfolder = "new/history"\n')
    asked = ("run", "-c", "wirelens.toml", "-r", str(DEMO), "--check")
    assert wirelens(*asked, cwd=tmp_path).status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["wirelens.toml"]
    # Settings of a run that is under way are checked, too.
    with serving("-c", "wirelens.toml", "-r", "later.pcap", "--page", "0", cwd=folder):
        checked = wirelens("run", "-c", "wirelens.toml", "-r", "later.pcap", "--check", cwd=folder)
        assert checked.status == 0, checked.stderr


@pytest.mark.parametrize(
    ("lines", "named"),
    [('keep = "soon"', "keep"), ("keep-bytes = 0", "keep-bytes"), ("days = 7", "days")],
)
def test_mistakes_are_named(lines: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "wirelens.toml").write_text(f"[flows]\n[history]\n{lines}\n")
    ran = wirelens("run", "-q", "-c", "wirelens.toml", "-r", str(DEMO), cwd=tmp_path)
    assert ran.status == 2
    assert "wirelens.toml:3" in ran.stderr and named in ran.stderr
    assert not (tmp_path / "history").exists()
