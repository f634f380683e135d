"""Interfaces from Python, on links of the tests' own: rows while packets come, and every way to
end. Without root these are skipped; root has to be able to run them."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import wirelens
from command import DEMO
from lab import Link, datagram, datagrams, new_link, wait_until
from programs import reader_threads
from test_run_applications import Gathers

FLOW = (("198.18.0.1", 1024), ("198.19.0.1", 53))


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


def interrupted_when(is_so: Any) -> threading.Thread:
    """Ctrl-C, once it is so: a thread sends it to this process."""

    def press() -> None:
        wait_until(is_so, "there is something to interrupt")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_packets_come_while_they_come(link: Link) -> None:
    stream = wirelens.packets(interface="wl0", payload=4)
    link.send(datagrams(3))
    rows = iter(stream)
    assert [next(rows).src_port for _ in range(3)] == [1024, 1025, 1026]
    link.send(datagrams(2, is_answer=True))
    row = next(rows)
    assert (row.dst_port, row.direction, row.wire_len) == (1024, "inbound", 60)
    rows.close()
    assert stream.counts is not None
    assert stream.counts["received"] == 5 and stream.counts["dropped"] == 0
    wait_until(lambda: reader_threads() == 0, "the reader has ended")


def test_columns_are_those_of_captures(link: Link, tmp_path: Path) -> None:
    live = wirelens.flows(interface="wl0", stats=True, duration=0.1)
    link.send(datagrams(1))
    assert live.fields == wirelens.flows(DEMO, stats=True).fields
    assert wirelens.packets(interface="wl0", duration="10ms").columns == (
        wirelens.packets(DEMO).columns
    )
    live.close()


def test_flows_end_after_the_time_that_was_asked_for(link: Link) -> None:
    stream = wirelens.flows(interface="wl0", duration="1s")
    link.send(datagrams(20) + datagrams(15, is_answer=True))
    batches = [pyarrow.record_batch(batch) for batch in stream.batches()]
    table = pyarrow.Table.from_batches(batches)
    assert table.num_rows == 20
    assert sum(table["src_packets"].to_pylist()) == 20
    assert sum(table["dst_packets"].to_pylist()) == 15
    counts = stream.counts
    assert counts is not None
    assert counts["received"] == counts["processed"] == 35
    assert counts["dropped"] == counts["dropped_rows"] == 0


def test_a_flow_comes_when_it_has_ended(link: Link) -> None:
    """Long before the listening ends."""
    stream = wirelens.flows(interface="wl0", idle_timeout="200ms")
    link.send([datagram(*FLOW)] * 4)
    for row in stream:
        assert (row.src_packets, row.end_reason) == (4, "idle")
        break
    wait_until(lambda: reader_threads() == 0, "the reader has ended")


def test_ctrl_c_ends_an_iteration(link: Link) -> None:
    stream = wirelens.packets(interface="wl0")
    seen: list[Any] = []
    press = interrupted_when(lambda: len(seen) == 3)
    link.send(datagrams(3))
    with pytest.raises(KeyboardInterrupt):
        for row in stream:
            seen.append(row)
    press.join()
    assert len(seen) == 3
    assert stream.counts is not None and stream.counts["received"] == 3
    wait_until(lambda: reader_threads() == 0, "the reader has ended")


def test_python_runs_while_nothing_comes(link: Link) -> None:
    stream = wirelens.flows(interface="wl0", duration="1s")
    turns = 0
    waiting = threading.Thread(target=lambda: list(stream))
    waiting.start()
    while waiting.is_alive():
        turns += 1
        time.sleep(0.01)
    assert turns > 20


def test_rows_that_are_not_taken_are_counted(link: Link) -> None:
    """1,024 batches wait at most, here of a datagram each; packets are not lost for it."""
    stream = wirelens.packets(interface="wl0", count=3000, batch_size=1)
    link.send([datagram(*FLOW)] * 3000)
    # Until what has passed the link was read as well.
    time.sleep(1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        rows = sum(1 for _ in stream)
    counts = stream.counts
    assert counts is not None
    assert counts["received"] - counts["dropped"] - counts["unread"] == 3000
    assert counts["dropped_rows"] > 0
    assert rows + counts["dropped_rows"] == 3000
    assert any("rows dropped: they were not read in time" in str(one.message) for one in told)


def test_talkers_are_counted_until_ctrl_c(link: Link) -> None:
    before = link.seen()
    threading.Timer(0.5, lambda: link.send(datagrams(10))).start()
    press = interrupted_when(lambda: link.seen() == before + 10)
    table = wirelens.top(interface="wl0", by="protocol")
    press.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert [(row.protocol, row.packets) for row in table] == [("udp", 10)]
    assert table.counts["dropped"] == 0


def test_verdicts_come_from_an_interface(link: Link) -> None:
    stream = wirelens.classify_flows(interface="wl0", model="services", duration="1s")
    link.send(datagrams(4) + datagrams(4, is_answer=True))
    assert len(list(stream)) == 4


def test_a_run_ends_with_ctrl_c_and_returns_what_it_has(link: Link, tmp_path: Path) -> None:
    gathers = Gathers({"idle-timeout": "200ms"})
    press = interrupted_when(lambda: len(gathers.batches) > 0)
    # A thread that is started here sends here.
    threading.Timer(0.5, lambda: link.send(datagrams(10))).start()
    result = wirelens.run(
        {
            "input": {"interface": "wl0"},
            "top": {"window": "1s"},
            "unanswered": {"output": tmp_path / "u.csv"},
        },
        applications=[gathers],
    )
    press.join()
    assert result.is_interrupted
    assert gathers.table().num_rows == 10 and gathers.ends == 1
    assert sum(row.packets for row in result.tables["top"]) == 10
    assert len((tmp_path / "u.csv").read_text().splitlines()) == 11
    assert result.counts["received"] == 10 and result.counts["dropped"] == 0


def test_an_application_that_is_too_slow_loses_rows_and_no_packets(link: Link) -> None:
    """Eighteen pieces of rows wait for it at most; here there is one each 100 ms."""
    over = threading.Event()
    taken: list[int] = []

    class Waits:
        name = "waits"
        settings = {"window": "100ms"}

        def on_flows(self, batch: wirelens.Batch) -> None:
            over.wait(60)
            taken.append(sum(batch.column("src_packets")))

    def send() -> None:
        for _ in range(50):
            link.send([datagram(*FLOW)] * 2)
            time.sleep(0.1)
        over.set()

    sending = threading.Timer(0.3, send)
    sending.start()
    too_slow = "^waits: [0-9]+ rows .* on_flows was too slow"
    with pytest.raises(wirelens.LossError, match=too_slow) as lost:
        wirelens.run({"input": {"interface": "wl0", "count": 100}}, applications=[Waits()])
    sending.join()
    result = lost.value.result
    assert result is not None
    assert result.counts["received"] == 100 and result.counts["dropped"] == 0
    assert result.closings["waits"]["processed"] == 100
    assert result.closings["waits"]["dropped_rows"] > 0
    assert sum(taken) < 100


def test_a_run_ends_after_its_time(link: Link) -> None:
    result = wirelens.run({"flows": {}}, interface="wl0", duration=0.3)
    assert result.is_interrupted and len(result.tables["flows"]) == 0


def test_what_cannot_be_listened_on_is_refused(link: Link) -> None:
    for begin in (wirelens.flows, wirelens.packets, wirelens.top):
        with pytest.raises(wirelens.CaptureUnreadableError, match="wl9"):
            begin(interface="wl9")
    with pytest.raises(wirelens.OptionError, match="source, interface: "):
        wirelens.flows("a.pcap", interface="wl0")
    with pytest.raises(wirelens.OptionError, match="source, interface: "):
        wirelens.packets()
    with pytest.raises(wirelens.OptionError, match="duration: it has no effect on captures"):
        wirelens.flows("a.pcap", duration="1s")
