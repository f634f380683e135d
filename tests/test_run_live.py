"""`wirelens run` on a link of the tests' own: all applications on real traffic, and settings that
change while it runs. Without root these are skipped; root has to be able to run them."""

import csv
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import wirelens
from lab import Link, Listening, datagram, datagrams, identity, new_link, wait_until
from run_settings import written

Settings = dict[str, dict[str, object]]


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


def settings(folder: Path) -> Settings:
    """Every application, on the link."""
    rows = {
        name: {"output": folder / f"{name}.csv"}
        for name in ("top", "flows", "classify", "cca", "unanswered")
    }
    return {
        "input": {"interface": "wl0"},
        "top": rows["top"] | {"window": "1s", "by": "flow", "rows": 0},
        "flows": rows["flows"],
        "classify": rows["classify"] | {"model": "services"},
        "packetlog": {"output": folder / "log", "mode": "log-minimum", "fixed-mode": True},
        "cca": rows["cca"],
        "unanswered": rows["unanswered"],
    }  # fmt: skip


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


def closing(stderr: str, name: str) -> str:
    return next(line for line in stderr.splitlines() if line.startswith(f"{name}: "))


def test_all_applications_see_every_packet(link: Link, tmp_path: Path) -> None:
    path = tmp_path / "wirelens.toml"
    path.write_text(written(settings(tmp_path)))
    with Listening(tmp_path, "run", "-c", path) as live:
        link.send(datagrams(40))
        link.send(datagrams(30, is_answer=True))
        time.sleep(1.2)
        ran = live.end()
    assert ran.status == 0, ran.stderr
    assert identity(ran)["processed"] == 70
    for name in ("top", "flows", "classify", "packetlog", "cca", "unanswered"):
        assert closing(ran.stderr, name).startswith(f"{name}: 70 processed"), ran.stderr
    assert len(rows(tmp_path / "flows.csv")) == len(rows(tmp_path / "classify.csv")) == 40
    assert len(rows(tmp_path / "unanswered.csv")) == 10
    assert sum(int(row["packets"]) for row in rows(tmp_path / "top.csv")) == 70
    ids = [
        {row["community_id"] for row in rows(tmp_path / f"{n}.csv")} for n in ("flows", "classify")
    ]
    assert ids[0] == ids[1]
    kept = wirelens("packetlog", "query", "-l", tmp_path / "log").stderr
    assert kept, "the log can be asked"


def test_a_hangup_begins_new_files_and_changes_rules(link: Link, tmp_path: Path) -> None:
    """Nothing is lost over it, and each packet is kept by the rules of its time."""
    tables = settings(tmp_path)
    path = tmp_path / "wirelens.toml"
    # A rule about services is there from the start, so labels are given.
    rule = {"service": "dns", "keep": "full"}
    path.write_text(written(tables, [rule]))
    flow = (("198.18.0.1", 1024), ("198.19.0.1", 53))
    with Listening(tmp_path, "run", "-c", path) as live:
        link.send([datagram(*flow, length=400)] * 20)
        time.sleep(0.5)
        path.write_text(written(tables, [rule | {"keep": "none"}]))
        live.signal(signal.SIGHUP)
        live.wait_for("rules were changed: 1 in force")
        live.wait_for(r"packets waited \d+\.\d{3} ms for the reload")
        wait_until((tmp_path / "flows.csv").exists, "the first file is complete")
        link.send([datagram(*flow, length=400)] * 30)
        time.sleep(0.5)
        path.write_text("[flows]\nidle = 3\n")
        live.signal(signal.SIGHUP)
        live.wait_for("stay in force")
        tables["top"]["window"] = "2s"
        path.write_text(written(tables, [rule | {"keep": "none"}]))
        live.signal(signal.SIGHUP)
        live.wait_for(r"\[top\] was changed: takes effect at the next start")
        link.send([datagram(*flow, length=400)] * 10)
        ran = live.end()
    assert ran.status == 0, ran.stderr
    assert "[flows] has no key `idle`; did you mean `idle-timeout`?" in ran.stderr
    assert identity(ran)["processed"] == 60
    said = next(line for line in ran.stderr.splitlines() if " seen = " in line)
    assert said == "packetlog: 60 seen = 20 stored + 40 skipped by the mode + 0 lost", ran.stderr
    flows = [row for path in tmp_path.glob("flows*.csv") for row in rows(path)]
    assert [int(row["src_packets"]) for row in flows] == [60]


def test_it_is_soon_ready_and_idles(link: Link, tmp_path: Path) -> None:
    path = tmp_path / "wirelens.toml"
    path.write_text(written(settings(tmp_path)))
    begun = time.monotonic()
    with Listening(tmp_path, "run", "-c", path) as live:
        # A bound for machines that are busy with other tests; docs/guide/performance.md measures.
        assert time.monotonic() - begun < 5
        status = Path(f"/proc/{live.process.pid}/status")
        rss_kib = next(
            int(line.split()[1]) for line in status.read_text().splitlines() if "VmRSS" in line
        )
        assert rss_kib < 512 << 10
        assert live.end().status == 0


def test_an_interface_that_is_not_there_is_told(tmp_path: Path) -> None:
    tables = settings(tmp_path) | {"input": {"interface": "wl-none"}}
    path = tmp_path / "wirelens.toml"
    path.write_text(written(tables))
    ran = wirelens("run", "-c", path)
    assert ran.status == 1 and "wl-none" in ran.stderr
    assert not list(tmp_path.glob("*.csv*")) and not (tmp_path / "log").exists()
