"""`/metrics` of applications with two taps: interfaces, whose packets stay in the kernel, and
captures. Without root those of interfaces are skipped."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import Link, bring_up, ip, new_link, wait_until
from scraped import Scrape, running
from test_cca_live import BEFORE, BEHIND, replay
from test_run_taps import AFTER
from test_run_taps import BEFORE as CAPTURED

PACKETS = "wirelens_cca_packets_total"


@pytest.fixture
def links() -> Iterator[Link]:
    with new_link() as made:
        ip(f"link add {BEHIND[0]} type veth peer name {BEHIND[1]}")
        bring_up(*BEHIND)
        ip("link set lo up")
        yield made


def test_taps_in_the_kernel_are_counted_by_tap(tmp_path: Path, links: Link) -> None:
    (tmp_path / "wirelens.toml").write_text(
        f'[input]\ninterface = "{BEFORE[0]}"\n[flows]\n'
        f'[cca]\negress = "{BEHIND[0]}"\nevery = "100ms"\n'
    )
    with running(tmp_path, "-c", "wirelens.toml") as run:
        run.wait_for("cca: listening on")
        replay(tmp_path)

        def passed() -> list[float]:
            scraped = run.scrape()
            return [scraped.sum(PACKETS, tap=tap) for tap in ("ingress", "egress")]

        # Counts are those of the period that was looked at last.
        wait_until(lambda: min(passed()) > 5_000 and passed() == passed(), "periods are over")
        during, said = run.scrape(), run.end()
    for tap, device in (("ingress", BEFORE[0]), ("egress", BEHIND[0])):
        line = re.search(
            rf"cca: {device}: (\d+) packets passed = (\d+) of tracked flows \+ (\d+) of others "
            r"\+ (\d+) TCP without data",
            said,
        )
        assert line, said
        total, taken, others, without_data = map(int, line.groups())
        assert during.sum(PACKETS, tap=tap) == total
        assert during.sum(PACKETS, tap=tap, outcome="taken") == taken
        assert during.sum(PACKETS, tap=tap, outcome="not_followed") == others
        assert during.sum(PACKETS, tap=tap, outcome="no_data") == without_data


def of_captures(folder: Path) -> tuple[Scrape, str]:
    (folder / "wirelens.toml").write_text(
        f'[input]\nread = "{CAPTURED}"\n[cca]\negress = "{AFTER}"\n'
        f'[latency]\negress = ["{AFTER}"]\negress-offset = "0ms"\n'
    )
    with running(folder, "-c", "wirelens.toml") as run:
        run.wait_for("the page stays open")
        return run.scrape(), run.end()


def test_taps_of_captures_are_counted_by_tap(tmp_path: Path) -> None:
    scraped, said = of_captures(tmp_path)
    received = [int(count) for count in re.findall(r"^cca: (\d+) received", said, re.M)]
    assert len(received) == 2, said
    for tap, count in zip(("ingress", "egress"), received, strict=True):
        assert scraped.sum(PACKETS, tap=tap) == count > 1_000
    [matched] = re.findall(r"^latency: (\d+) packets seen at both taps", said, re.M)
    assert scraped.sum("wirelens_latency_matched_packets_total") == int(matched) > 1_000
