"""Questions over Ray: the rows of one process, whatever the cuts, tasks, threads and lost workers.

Nothing here is skipped where Ray is missing: `make test-ray` installs it, and tests fail without.
"""

import collections
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import captures
import pytest
import wirelens
from command import DEMO, ROOT
from command import wirelens as command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wirelens.errors import (
    CaptureNotFoundError,
    CaptureUnreadableError,
    OptionError,
    OutputExistsError,
)

pytestmark = pytest.mark.ray

FRAMES = list(captures.read_pcapng(DEMO))
# Flows of the demo end by all reasons when they are cut so: within windows and between captures.
SHORT = {"idle_timeout": "2s", "active_timeout": "8s"}


@pytest.fixture(scope="module")
def over_ray() -> Iterator[Any]:
    """The module, with one set of workers for all tests here."""
    import ray
    import wirelens.ray

    yield wirelens.ray
    ray.shutdown()


def cut(folder: Path, places: list[int], deal: list[int]) -> list[Path]:
    """The packets of the demo in files: cut at places, and each piece dealt to one of some taps."""
    borders = [0, *sorted(set(places)), len(FRAMES)]
    files: dict[tuple[int, int], list[captures.Frame]] = {}
    for at, (start, end) in enumerate(zip(borders, borders[1:], strict=False)):
        for index in range(start, end):
            tap = deal[index % len(deal)] if deal else 0
            files.setdefault((at, tap), []).append(FRAMES[index])
    paths = []
    for (at, tap), frames in sorted(files.items()):
        paths.append(folder / f"{at:03}-{tap}.pcap")
        captures.write_pcap(paths[-1], frames)
    return paths


def multiset(table: Any, without: tuple[str, ...] = ()) -> collections.Counter[Any]:
    """Rows without their order."""
    names = [name for name in table.column_names if name not in without]
    columns = (table.column(name).to_pylist() for name in sorted(names))
    return collections.Counter(zip(*columns, strict=True))


def alone(question: str, source: Any, **arguments: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wirelens.CaptureWarning)
        return getattr(wirelens, question)(source, **arguments).to_arrow()


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    places=st.lists(st.integers(1, len(FRAMES) - 1), max_size=4),
    deal=st.lists(st.integers(0, 2), max_size=5),
    shares=st.integers(1, 7),
    threads=st.integers(1, 2),
)
def test_rows_do_not_depend_on_cuts_and_workers(
    over_ray: Any,
    tmp_path_factory: pytest.TempPathFactory,
    places: list[int],
    deal: list[int],
    shares: int,
    threads: int,
) -> None:
    paths = cut(tmp_path_factory.mktemp("cut"), places, deal)
    asked: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("flows", {"stats": True, **SHORT}, {"shares": shares, "threads": threads}),
        ("flows", {"window": "1s"}, {"shares": shares}),
        ("latency", {}, {"shares": shares}),
        ("latency", {"by": "packet"}, {}),
        ("classify_flows", {"model": "services"}, {}),
        ("top", {"by": "pair", "n": 7}, {}),
        ("top", {"by": "port", "n": 3, "window": "5s"}, {}),
    ]
    for question, arguments, run in asked:
        rows = getattr(over_ray, question)(paths, **arguments, **run).to_arrow()
        wanted = alone(question, paths, **arguments)
        assert rows.column_names == wanted.column_names, question
        assert multiset(rows) == multiset(wanted), (question, arguments, run)
        assert rows.num_rows > 0
        if question == "top":
            assert rows.to_pylist() == wanted.to_pylist(), "in the order of the command"
    for options, arguments in ((["--depth", "3"], {"depth": 3}), ([], {})):
        wanted = nprint(paths, tmp_path_factory.mktemp("nprint") / "all.parquet", options)
        rows = over_ray.nprint(paths, headers=("tcp",), **arguments).to_arrow()
        assert multiset(rows) == multiset(wanted), options


def nprint(paths: list[Path], output: Path, options: list[str]) -> Any:
    import pyarrow.parquet

    names = [word for path in paths for word in ("-r", str(path))]
    done = command("nprint", *names, "--tcp", "-o", output, *options)
    assert done.status == 0, done.stderr
    return pyarrow.parquet.read_table(output)


def test_a_full_table_evicts_the_same_flows(over_ray: Any) -> None:
    arguments = {"max_flows": 64, "seed": 3}
    rows = over_ray.flows(DEMO, shares=5, **arguments)
    assert multiset(rows.to_arrow()) == multiset(alone("flows", DEMO, **arguments))
    assert sum(report.counts["ended"]["evicted"] for report in rows.tasks) > 0


def test_sensors_have_nothing_to_do_with_each_other(over_ray: Any, tmp_path: Path) -> None:
    for sensor, half in (("a", FRAMES[::2]), ("b", FRAMES[1::2])):
        (tmp_path / sensor).mkdir()
        captures.write_pcap(tmp_path / sensor / "one.pcap", half)
    rows = over_ray.flows(over_ray.sensors(tmp_path), output=tmp_path / "rows", shares=2)
    table = rows.to_arrow()
    for sensor in ("a", "b"):
        mine = table.filter(_equals(table, "sensor", sensor))
        assert multiset(mine, ("sensor",)) == multiset(alone("flows", str(tmp_path / sensor)))
    assert {path.parent.name for path in rows.files} == {"sensor=a", "sensor=b"}


def _equals(table: Any, column: str, value: str) -> Any:
    import pyarrow.compute

    return pyarrow.compute.equal(table.column(column).cast("string"), value)


def test_a_killed_worker_changes_nothing(over_ray: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.pcap"
    shift = FRAMES[-1].time_ns - FRAMES[0].time_ns + 10**9
    captures.write_pcap(
        path,
        (
            captures.Frame(frame.time_ns + turn * shift, frame.data, frame.wire_len)
            for turn in range(60)
            for frame in FRAMES
        ),
    )
    killed: list[int] = []

    def kill() -> None:
        for _ in range(20_000):
            for part in tmp_path.glob("rows/*.partial"):
                for process in Path("/proc").glob("[0-9]*"):
                    if killed or not _has_open(process, part):
                        continue
                    os.kill(int(process.name), signal.SIGKILL)
                    killed.append(int(process.name))
            if killed:
                return
            time.sleep(0.001)

    killer = threading.Thread(target=kill)
    killer.start()
    rows = over_ray.flows(path, output=tmp_path / "rows", shares=3, threads=1, **SHORT)
    killer.join()
    assert killed, "no worker was caught while it wrote"
    assert killed[0] not in {report.process for report in rows.tasks}
    assert multiset(rows.to_arrow()) == multiset(alone("flows", path, **SHORT))
    assert not list(tmp_path.glob("rows/*.partial"))


def _has_open(process: Path, file: Path) -> bool:
    try:
        links = [os.readlink(link) for link in (process / "fd").iterdir()]
    except OSError:
        return False
    return int(process.name) != os.getpid() and str(file) in links


def test_a_run_that_was_cut_off_is_resumed(over_ray: Any, tmp_path: Path) -> None:
    output = tmp_path / "rows"

    class CutOffError(Exception):
        pass

    def cut_off(done: int, _total: int, _report: Any) -> None:
        if done == 2:
            raise CutOffError

    with pytest.raises(CutOffError):
        over_ray.flows(DEMO, output=output, shares=4, progress=cut_off)
    kept = {path: path.stat().st_ino for path in output.glob("part-*.parquet")}
    assert len(kept) >= 2
    with pytest.raises(OutputExistsError, match="resume=True"):
        over_ray.flows(DEMO, output=output)
    with pytest.raises(OutputExistsError, match="arguments"):
        over_ray.flows(DEMO, output=output, resume=True, window="1s")
    rows = over_ray.flows(DEMO, output=output, resume=True)
    assert len(rows.tasks) == 4
    reported = [path for path in kept if (output / f"_{path.stem}.json").exists()]
    assert multiset(rows.to_arrow()) == multiset(alone("flows", DEMO))
    assert reported, "parts are kept with their reports"


def test_captures_that_vanish_or_change_are_an_error(over_ray: Any, tmp_path: Path) -> None:
    paths = cut(tmp_path, [1000, 2000, 3000], [])
    output = tmp_path / "rows"

    def first(_done: int, _total: int, _report: Any) -> None:
        paths[-1].unlink(missing_ok=True)

    with pytest.raises(CaptureNotFoundError, match="vanished"):
        over_ray.flows(paths, output=output, shares=8, threads=1, cpus=1, progress=first)
    paths = cut(tmp_path, [1000, 2000, 3000], [])

    def grow(_done: int, _total: int, _report: Any) -> None:
        with paths[0].open("ab") as file:
            file.write(b"\0")

    with pytest.raises(CaptureUnreadableError, match="changed"):
        over_ray.top(paths, by="source", cpus=1, progress=grow)
    with pytest.raises(CaptureNotFoundError):
        over_ray.flows(tmp_path / "none.pcap")


def test_a_cut_capture_is_a_warning_and_its_rows_are_those_of_one_process(
    over_ray: Any, tmp_path: Path
) -> None:
    path = cut(tmp_path, [], [])[0]
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.warns(wirelens.DamagedCaptureWarning):
        rows = over_ray.flows(path, shares=2)
    assert rows.damages
    assert multiset(rows.to_arrow()) == multiset(alone("flows", path))


def test_totals_with_more_keys_than_may_be_counted(over_ray: Any, tmp_path: Path) -> None:
    paths = cut(tmp_path, [2000], [])
    arguments = {"by": "pair", "max_keys": 64, "seed": 7, "n": 0}
    wanted = alone("top", paths, **arguments)
    rows = over_ray.top(paths, **arguments)
    assert multiset(rows.to_arrow()) == multiset(wanted)


def test_questions_about_several_flows_are_one_task(over_ray: Any) -> None:
    rows = over_ray.latency(DEMO, by="destination")
    assert len(rows.tasks) == 1
    assert multiset(rows.to_arrow()) == multiset(alone("latency", DEMO, by="destination"))
    for question, arguments in (
        ("latency", {"by": "destination"}),
        ("latency", {"by": "packet"}),
        ("flows", {"read_names": True}),
        ("classify_flows", {"model": "devices"}),
    ):
        with pytest.raises(OptionError, match="shares"):
            getattr(over_ray, question)(DEMO, shares=2, **arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"count": 5}, "count"),
        ({"interface": "lo"}, "interface"),
        ({"shares": 65}, "shares"),
        ({"threads": 1000}, "threads"),
        ({"idle_timeout": "x"}, "idle_timeout"),
        ({"resume": True}, "resume"),
    ],
)
def test_arguments_without_meaning_are_refused(
    over_ray: Any, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(OptionError, match=named):
        over_ray.flows(DEMO, **arguments)


def test_memory_of_a_task_is_bounded(over_ray: Any, tmp_path: Path) -> None:
    small = over_ray.flows(DEMO, shares=2)
    many = [tmp_path / f"{turn:03}.pcap" for turn in range(40)]
    shift = FRAMES[-1].time_ns - FRAMES[0].time_ns + 10**9
    for turn, path in enumerate(many):
        moved = (captures.Frame(f.time_ns + turn * shift, f.data, f.wire_len) for f in FRAMES)
        captures.write_pcap(path, moved)
    large = over_ray.flows(many, shares=2)
    peak = max(report.peak_bytes for report in large.tasks)
    # A mapped capture counts as memory of who reads it: one at a time, not all.
    assert peak < max(report.peak_bytes for report in small.tasks) + (256 << 20)


def test_results_are_a_ray_dataset(over_ray: Any) -> None:
    rows = over_ray.flows(DEMO, shares=2)
    assert rows.to_dataset().count() == len(rows) == alone("flows", DEMO).num_rows
    assert ROOT not in rows.folder.parents
