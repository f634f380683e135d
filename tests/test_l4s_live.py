"""`wirelens l4s`: predicted, judged and re-marked packets, from captures and of real TCP.

Live runs need root. Without it they are skipped; root has to be able to make them.
"""

import json
import re
import signal
from pathlib import Path

import pytest
from command import ROOT, Ran, wirelens
from l4s_live import ECT1, NOT_ECT, Sender, l4s_sender, write_model
from lab import wait_until
from testbed_runs import left_behind, need_root

CAPTURE = ROOT / "testdata/l4s/sender.pcap.gz"
# Flows go to two receivers in turn, and --to names the first: flows 0 and 2.
CONTROLS = ("prague", "prague", "cubic", "prague")
L4S_NAMED, CLASSIC_NAMED, L4S_UNNAMED = 0, 2, (1, 3)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The classic queue is always predicted to be faster."""
    return write_model(tmp_path / "model", 1_000.0)


def asked(sender: Sender, model: Path, *more: str) -> tuple[str | Path, ...]:
    # A busy machine may be late, which is tested elsewhere.
    words = ["--model", model, "--to", sender.target(L4S_NAMED), "--late", "2s"]
    for option, value in (("--margin", "1ms"), ("--max-share", "0.3")):
        words += [] if option in more else [option, value]
    return (*words, *more)


def said(ran: Ran, pattern: str) -> int:
    found = re.search(pattern, ran.stderr)
    assert found, ran.stderr
    return int(found[1])


def rows(path: Path) -> list[dict[str, int | float | str | None]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def limits(sender: Sender) -> tuple[int, str]:
    (link,) = json.loads(sender.shown("ip", "-d", "-j", "link", "show", "dev", "eth0"))
    features = sender.shown("ethtool", "-k", "eth0")
    return link["gso_max_segs"], "\n".join(re.findall(r".*segmentation.*", features))


@pytest.mark.testbed
@pytest.mark.parametrize("mode", ["dualpi2", "partitioned"])
def test_packets_of_named_flows_alone_are_re_marked(tmp_path: Path, model: Path, mode: str) -> None:
    need_root()
    told = tmp_path / "told.jsonl"
    with l4s_sender(tmp_path, mode, CONTROLS, duration_s=4.0) as sender:
        before = limits(sender)
        words = asked(sender, model, "--act", "--every", "500ms", "-o", str(told))
        with sender.listening(*words) as running:
            assert limits(sender)[0] == 1
            sender.start()
            sender.wait_until(2.5)
            ran = running.end()
        assert ran.status == 0, ran.stderr
        # What was changed on the interface is as it was, and packets are no longer re-marked.
        assert limits(sender) == before
        sender.finish()
    assert not left_behind()
    seen = sender.packets()
    assert seen[L4S_NAMED][NOT_ECT] > 30 and seen[L4S_NAMED][ECT1] > 100, seen
    assert not sender.packets(after_s=3.0)[L4S_NAMED][NOT_ECT]
    for flow in L4S_UNNAMED:
        assert set(seen[flow]) == {ECT1} and seen[flow][ECT1] > 100, seen
    assert set(seen[CLASSIC_NAMED]) == {NOT_ECT}
    # A wrong checksum would have the receiver drop the packet: all flows went on.
    assert min(sender.acked_bytes) > 100_000
    # The router, the kernel, the rows and the summary count the same packets.
    remarked = said(ran, r"re-marked (\d+) packets")
    assert abs(remarked - seen[L4S_NAMED][NOT_ECT]) <= 2, (remarked, seen)
    assert sum(row["remarked"] for row in rows(told)) == remarked
    assert sender.ect1.changed == sender.report["router"]["l4s"]["received"] + remarked
    # The share holds, but for what may be saved up.
    asked_of = said(ran, r"(\d+) L4S packets = ")
    assert remarked <= 0.3 * asked_of + 64
    # Which queue a packet took is read from the field with which it left.
    measured = sum(row["l4s_measured"] for row in rows(told))
    assert measured <= asked_of - remarked + 2
    assert "sent as several segments" not in ran.stderr


@pytest.mark.testbed
def test_nothing_is_re_marked_after_the_command_was_killed(tmp_path: Path, model: Path) -> None:
    need_root()
    with l4s_sender(tmp_path, "dualpi2", CONTROLS, duration_s=4.0) as sender:
        with sender.listening(*asked(sender, model, "--act")) as running:
            sender.start()
            sender.wait_until(2.0)
            running.signal(signal.SIGKILL)
            running.process.wait()
        # The next one can be attached.
        with sender.listening(*asked(sender, model, "--dry-run")) as running:
            sender.finish()
            assert running.end().status == 0
    assert sender.packets()[L4S_NAMED][NOT_ECT] > 20
    after = sender.packets(after_s=2.5)[L4S_NAMED]
    assert after[ECT1] > 100 and not after[NOT_ECT], after


@pytest.mark.testbed
def test_offloads_are_put_back_after_the_command_was_killed(tmp_path: Path, model: Path) -> None:
    need_root()
    with l4s_sender(tmp_path, "dualpi2", CONTROLS, duration_s=1.0) as sender:
        sender.shown("ethtool", "-K", "eth0", "tx", "on", "sg", "on", "tso", "on", "gso", "on")
        sender.shown("ip", "link", "set", "eth0", "gso_max_segs", "40")
        before = limits(sender)
        assert before[0] == 40 and "\ttx-tcp-segmentation: on" in before[1]
        with sender.listening(*asked(sender, model, "--act")) as running:
            switched = limits(sender)
            assert switched[0] == 1 and "\ttx-tcp-segmentation: off" in switched[1]
            running.signal(signal.SIGKILL)
            running.process.wait()
        # The next one begins when that is done: it finds what the first had found.
        with sender.listening(*asked(sender, model, "--act")) as running:
            assert limits(sender)[0] == 1
            # Two at a time would put back what the other has switched off.
            with sender.here():
                ran = refused("-i", "eth0", *asked(sender, model, "--act"))
            assert "another wirelens re-marks its packets; end it first" in ran.stderr
            assert running.end().status == 0
        assert limits(sender) == before
        with sender.listening(*asked(sender, model, "--act")) as running:
            running.signal(signal.SIGKILL)
            running.process.wait()
        wait_until(lambda: limits(sender) == before, "offloads that are as they were")


@pytest.mark.testbed
def test_a_command_that_is_stopped_no_longer_re_marks(tmp_path: Path, model: Path) -> None:
    need_root()
    with l4s_sender(tmp_path, "dualpi2", CONTROLS, duration_s=4.0) as sender:
        with sender.listening(*asked(sender, model, "--act", "--max-share", "1")) as running:
            sender.start()
            sender.wait_until(2.0)
            running.signal(signal.SIGSTOP)
            sender.finish()
            running.signal(signal.SIGCONT)
            assert running.end().status == 0
    assert sender.packets()[L4S_NAMED][NOT_ECT] > 20
    after = sender.packets(after_s=2.5)[L4S_NAMED]
    assert after[ECT1] > 100 and not after[NOT_ECT], after


@pytest.mark.testbed
def test_a_dry_run_reports_and_changes_nothing(tmp_path: Path, model: Path) -> None:
    need_root()
    with l4s_sender(tmp_path, "dualpi2", CONTROLS, duration_s=2.5) as sender:
        before = limits(sender)
        with sender.listening(*asked(sender, model, "--dry-run")) as running:
            assert limits(sender) == before
            sender.start()
            sender.finish()
            # A terminal that is closed ends it as Ctrl-C does.
            running.signal(signal.SIGHUP)
            ran = running.wait()
    assert ran.status == 0, ran.stderr
    assert said(ran, r"would have re-marked (\d+) packets") > 30
    seen = sender.packets()
    assert all(set(seen[flow]) == {ECT1} for flow in (L4S_NAMED, *L4S_UNNAMED)), seen


@pytest.mark.testbed
def test_a_model_that_sees_no_gain_re_marks_nothing(tmp_path: Path) -> None:
    need_root()
    model = write_model(tmp_path / "patient", 0.0)
    with l4s_sender(tmp_path, "dualpi2", CONTROLS, duration_s=2.5) as sender:
        words = asked(sender, model, "--act", "--margin", "2s")
        with sender.listening(*words) as running:
            sender.start()
            sender.finish()
            ran = running.end()
    assert said(ran, r"re-marked (\d+) packets") == 0
    assert said(ran, r"\+ (\d+) kept") > 100
    assert set(sender.packets()[L4S_NAMED]) == {ECT1}


def test_what_a_model_predicts_of_a_capture_is_what_other_code_finds(tmp_path: Path) -> None:
    """The same packets by `wirelens latency --by packet`."""
    model = write_model(tmp_path / "newest", 0.0)
    packets, told = tmp_path / "packets.jsonl", tmp_path / "told.jsonl"
    assert wirelens("latency", "-r", CAPTURE, "--by", "packet", "-o", packets).status == 0
    ran = wirelens("l4s", "-r", CAPTURE, "-m", model, "--to", "10.2.1.2", "-o", told)
    assert ran.status == 0, ran.stderr
    for row in rows(told):
        own = [
            packet for packet in rows(packets)
            if (packet["src_ip"], packet["src_port"]) == (row["src_ip"], row["src_port"])
        ]  # fmt: skip
        assert len(own) == row["packets"]
        for queue in ("l4s", "classic"):
            found = sorted(
                packet["latency_ns"] for packet in own
                if packet["queue"] == queue and packet["latency_ns"] is not None
            )  # fmt: skip
            assert len(found) == row[f"{queue}_measured"]
            if found:
                median = found[(len(found) - 1) // 2]
                assert row[f"{queue}_p50_ns"] == pytest.approx(median, rel=0.01)


def refused(*words: str | Path) -> Ran:
    ran = wirelens("l4s", *words)
    assert ran.status in (1, 2) and not ran.stdout, ran
    return ran


def test_what_cannot_be_meant_is_refused_with_what_is_wanted(tmp_path: Path, model: Path) -> None:
    named = ("--to", "10.2.1.2")
    ran = refused("-r", CAPTURE, "--model", model)
    assert "--to <ADDRESS" in ran.stderr
    ran = refused("-r", CAPTURE, "--model", model, "--to", "tcp port 443")
    assert "wanted ADDRESS[/LEN][:PORT]" in ran.stderr
    ran = refused("-r", CAPTURE, *named)
    assert "--model" in ran.stderr
    ran = refused("-r", CAPTURE, *named, "--model", "./none")
    assert "wirelens train l4s" in ran.stderr
    ran = refused("-r", CAPTURE, *named, "--model", model, "--act")
    assert "--interface" in ran.stderr
    ran = refused("-r", CAPTURE, *named, "--model", model, "--max-share", "2")
    assert "--max-share: wanted 0 to 1" in ran.stderr
    window = write_model(tmp_path / "window", 0.0, window=100_000)
    ran = refused("-r", CAPTURE, *named, "--model", window)
    assert "window 100000; wanted: 1 to" in ran.stderr
    other = write_model(tmp_path / "other", 0.0, token=["size"])
    ran = refused("-r", CAPTURE, *named, "--model", other)
    assert "made for other inputs" in ran.stderr


def test_a_capture_in_one_direction_is_named(model: Path) -> None:
    ran = wirelens("l4s", "-r", CAPTURE, "-m", model, "--to", "10.2.1.2", "dst net 10.2.0.0/16")
    assert ran.status == 0
    assert "no packet was acknowledged; wanted: both directions" in ran.stderr
