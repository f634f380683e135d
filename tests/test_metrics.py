"""`/metrics`: every promised name, few series, and the numbers that are printed at the end."""

import csv
import itertools
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import DEMO, ROOT
from lab import Link, datagrams, ip, new_link, wait_until
from scraped import Scrape, everything, parsed, running

SPEC = ROOT / "docs/specs/metrics.md"
APPLICATIONS = ("top", "flows", "classify", "packetlog", "cca", "latency", "l4s", "unanswered",
                "traffic")  # fmt: skip
# What the run of these tests has no reason to count.
ELSEWHERE = (
    "wirelens_classify_hosts", "wirelens_classify_hosts_forgotten_total",
    "wirelens_cca_choices_put_off_total", "wirelens_cca_choices_beyond_max_total",
    "wirelens_cca_packets_late_total",
    "wirelens_latency_matched_packets_total", "wirelens_latency_elsewhere_packets_total",
    "wirelens_latency_no_room_packets_total", "wirelens_latency_stray_packets_total",
    # A calibration is of one site: tests/test_packetlog_calibrate.py makes one and reads these.
    *(f"wirelens_packetlog_calibration_{name}" for name in (
        "periods_total", "drifted_periods_total", "over_budget_periods_total", "psi",
        "marked_ratio")),
    # A half in the kernel is of an interface: tests/test_packetlog_kernel_run.py reads these.
    *(f"wirelens_packetlog_kernel_{name}_total" for name in (
        "packets", "classified_packets", "classified_bytes", "truncated_bytes", "refused_keys")),
    # A broker is a server of its own: tests/test_nats.py starts one and reads these.
    "wirelens_nats_connected", "wirelens_nats_rows_waiting",
    *(f"wirelens_nats_{name}_total" for name in (
        "rows_published", "rows_lost", "messages_retried", "messages_duplicate", "disconnects",
        "metrics_published")),
    # So are workers: tests/test_workers.py starts one and reads these.
    "wirelens_escalations_connected", "wirelens_escalations_rows_under_way",
    "wirelens_escalations_answer_seconds", "wirelens_escalations_transit_seconds",
    *(f"wirelens_escalations_{name}_total" for name in (
        "rows", "messages", "messages_repeated", "answers_unexpected")),
    # What a worker counts itself: tests/test_worker_page.py.
    "wirelens_worker_connected", "wirelens_worker_messages_waiting",
    *(f"wirelens_worker_{name}_total" for name in ("messages", "rows_answered", "batches")),
    # And sensors: tests/test_sensors.py starts some and reads these.
    "wirelens_sensors_connected", "wirelens_sensors_known", "wirelens_sensors_silent",
    "wirelens_sensors_rows_missing", "wirelens_sensors_joins_waiting",
    "wirelens_sensors_shared", "wirelens_sensors_clocks_off",
    *(f"wirelens_sensors_{name}_total" for name in (
        "rows_read", "rows_repeated", "rows_ahead", "rows_unwanted", "messages_refused",
        "joins_evicted")),
    # No shipped model is in ONNX: tests/test_onnx.py has one, which fails.
    "wirelens_classify_failed_rows_total",
    # A model is replaced at a reload: tests/test_model_replaced.py.
    "wirelens_classify_model_verdicts_total",
    # A run has it that simulates faults: tests/test_drills.py.
    "wirelens_drill",
)  # fmt: skip


@pytest.fixture(scope="module")
def all_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scrape, str]]:
    """What is scraped of a run with every application, and what it says at the end."""
    with everything(tmp_path_factory.mktemp("everything")) as run:
        wait_until(
            lambda: run.scrape().sum("wirelens_alerts_rows_read_total") >= 312, "rules see all"
        )
        scraped = run.scrape()
        yield scraped, run.end()


def promised() -> set[str]:
    """The names that the page of the specification has, those included that are cut short."""
    names: set[str] = set()
    for line in SPEC.read_text().splitlines():
        if not line.startswith("| `"):
            continue
        prefix = ""
        for word in re.findall(r"`((?:wirelens_|process_|_)[a-z0-9_]+)`", line):
            if not word.startswith("_"):
                prefix = re.match(r"process|wirelens_[a-z0-9]+", word)[0]
                names.add(word)
            elif word.startswith("_flow_table"):
                names.add(f"wirelens{word}")
            else:
                names.add(prefix + word)
    return names


def plain(name: str) -> str:
    """A sample's metric."""
    return re.sub(r"(_seconds)_(bucket|sum|count)$", r"\1", name)


def test_names_are_those_of_the_specification(all_on: tuple[Scrape, str]) -> None:
    scraped, _ = all_on
    seen = {plain(name) for name in scraped.names}
    of_each = {
        f"wirelens_{application}_{what}_total"
        for application in APPLICATIONS
        for what in ("packets_processed", "packets_malformed", "packets_cut", "packets_faulted",
                     "faults", "rows_received", "rows_written", "rows_dropped", "rows_failed",
                     "packets_behind", "clock_steps")
    } | {f"wirelens_{application}_stopped" for application in APPLICATIONS}  # fmt: skip
    names_of_payload = {
        name.replace("_flows_", "_classify_")
        for name in seen if re.match("wirelens_flows_.*(hellos|dns|http|name|handshakes)", name)
    }  # fmt: skip
    assert seen <= promised() | of_each | names_of_payload
    assert promised() <= seen | set(ELSEWHERE)
    assert not seen & set(ELSEWHERE)
    for application in APPLICATIONS:
        assert f"wirelens_{application}_packets_processed_total" in seen


def test_series_are_few_and_name_no_one(all_on: tuple[Scrape, str]) -> None:
    scraped, _ = all_on
    assert 300 < len(scraped.samples) < 600
    values = {value for _, labels in scraped.samples for _, value in labels}
    assert not [value for value in values if re.search(r"\d+\.\d+\.\d+\.\d+|::|\.example", value)]
    assert "demo" not in scraped.text
    # Of each metric the type and all samples stand together, once.
    heads = [line.split()[2] for line in scraped.text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))


def numbers(said: str, pattern: str) -> list[tuple[str, ...]]:
    return [match.groups() for match in re.finditer(pattern, said, re.M)]


def test_counts_agree_with_what_is_printed(all_on: tuple[Scrape, str]) -> None:
    scraped, said = all_on
    total = scraped.sum
    [(captured,)] = numbers(said, r"^(\d+) packets captured$")
    assert total("wirelens_packets_received_total") == int(captured) == 4944
    for name, *parts in numbers(
        said,
        r"^(\w+): (\d+) processed = (\d+) counted \+ (\d+) without .* \+ (\d+) truncated",
    ):
        processed, _, _, cut = map(int, parts)
        instances = 2 if name == "classify" else 1
        assert total(f"wirelens_{name}_packets_processed_total") == instances * processed, name
        assert total(f"wirelens_{name}_packets_cut_total") == instances * cut, name
    [ended] = set(numbers(said, r"^flows: \d+ ended = (\d+) fin \+ (\d+) rst \+ (\d+) end$"))
    for reason, count in zip(("fin", "rst", "end"), ended, strict=True):
        assert total("wirelens_flows_ended_total", reason=reason) == int(count)
    [(hellos, queries)] = numbers(said, r"^names: read from (\d+) TLS hellos, .* (\d+) DNS")[:1]
    assert total("wirelens_flows_tls_hellos_total") == int(hellos)
    assert total("wirelens_flows_dns_queries_total") == int(queries)


def test_verdicts_agree_with_what_is_printed(all_on: tuple[Scrape, str]) -> None:
    scraped, said = all_on
    lines = numbers(said, r"^classify: (\d+) verdicts by (\w+)@\w+ = (.*)$")
    assert [model for _, model, _ in lines] == ["services", "categories"]
    sums: dict[str, int] = {}
    for decided, _, causes in lines:
        of_causes = dict(reversed(part.split(" ", 1)) for part in causes.split(" + "))
        assert sum(map(int, of_causes.values())) == int(decided)
        for cause, count in of_causes.items():
            sums[cause] = sums.get(cause, 0) + int(count)
    for cause, count in sums.items():
        assert scraped.sum("wirelens_classify_verdicts_total", cause=cause) == count
    of_second = {"table": "classify_2"}
    assert scraped.sum("wirelens_classify_verdicts_total", **of_second) == int(lines[1][0])
    assert scraped.sum("wirelens_classify_label_verdicts_total", **of_second) == int(lines[1][0])
    unknown = [int(count) for (count,) in numbers(said, r"^classify: (\d+) flows are unknown")]
    assert scraped.sum("wirelens_classify_unknown_verdicts_total") == sum(unknown)
    assert scraped.sum("wirelens_classify_label_verdicts_total", label="unknown") == sum(unknown)


def test_logs_and_latencies_agree_with_what_is_printed(all_on: tuple[Scrape, str]) -> None:
    scraped, said = all_on
    [kept] = numbers(
        said, r"^packetlog: (\d+) seen = (\d+) stored \+ (\d+) skipped by the mode \+ (\d+) lost$"
    )
    for what, count in zip(("seen", "kept", "passed_over", "lost"), kept, strict=True):
        assert scraped.sum(f"wirelens_packetlog_packets_{what}_total") == int(count)
    [(raised,)] = numbers(said, r"^packetlog: (\d+) packets stored at greater length by hindsight")
    assert scraped.sum("wirelens_packetlog_hindsight_raised_packets_total") == int(raised)
    classes = numbers(said, r"^packetlog: (\w+): (\d+) packets of (\d+) stored")
    assert classes
    for name, in_log, seen in classes:
        for what in ("judged", "seen"):
            counter = f"wirelens_packetlog_class_packets_{what}_total"
            assert scraped.sum(counter, **{"class": name}) == int(seen)
        assert scraped.sum("wirelens_packetlog_class_packets_kept_total", **{"class": name}) == int(
            in_log
        )
    [(samples, again, measured)] = numbers(
        said, r"^latency: (\d+) RTT samples of \d+ flows; (\d+) of (\d+) packets retransmitted$"
    )
    assert scraped.sum("wirelens_latency_rtt_samples_total") == int(samples)
    assert scraped.sum("wirelens_latency_retransmitted_packets_total") == int(again)
    assert scraped.sum("wirelens_latency_measured_packets_total") == int(measured)
    [(missing,)] = numbers(said, r"^latency: (\d+) packets without a latency")
    assert scraped.sum("wirelens_latency_missing_packets_total") == int(missing)
    assert scraped.sum("wirelens_cca_packets_total") == 4944
    [(other,)] = numbers(said, r"^cca: (\d+) packets are not TCP")
    assert scraped.sum("wirelens_cca_packets_total", outcome="not_tcp") == int(other)


def adds_up(scraped: Scrape, application: str) -> None:
    """Packets that were received are all accounted for."""
    of_run = scraped.sum("wirelens_packets_filtered_total") + scraped.sum(
        "wirelens_packets_dropped_total", stage="capture"
    )
    of_run += scraped.sum("wirelens_packets_unread_total")
    prefix = f"wirelens_{application}_packets"
    own = scraped.sum(f"{prefix}_processed_total")
    if f"{prefix}_malformed_total" in scraped.names:
        own += scraped.sum(f"{prefix}_malformed_total")
    received = scraped.sum("wirelens_packets_received_total")
    assert received == own + of_run, (application, scraped.text)


def test_filtered_and_repeated_packets_are_counted_by_stage(tmp_path: Path) -> None:
    """The demo twice at the same time: copies are dropped, and what the filter takes out."""
    (tmp_path / "wirelens.toml").write_text(
        f'[input]\nread = ["{DEMO}", "{DEMO}"]\nfilter = "not udp"\ndrop-duplicates = "5ms"\n'
        "[flows]\n[unanswered]\n[latency]\n"
    )
    with running(tmp_path, "-c", "wirelens.toml") as run:
        run.wait_for("the page stays open")
        scraped, said = run.scrape(), run.end()
    [(received, filtered, dropped)] = set(numbers(
        said, r"(\d+) received = \d+ processed \+ (\d+) filtered \+ (\d+) dropped"
    ))  # fmt: skip
    assert scraped.sum("wirelens_packets_received_total") == int(received) == 2 * 4944
    assert scraped.sum("wirelens_packets_filtered_total") == int(filtered) > 0
    assert scraped.sum("wirelens_packets_dropped_total", cause="duplicate") == int(dropped) > 0
    assert scraped.sum("wirelens_packets_dropped_total", cause="ring_full") == 0
    for application in ("flows", "unanswered", "latency"):
        adds_up(scraped, application)


def test_malformed_packets_are_counted_by_cause(tmp_path: Path) -> None:
    """A capture with headers that cannot be true."""
    frame = bytes.fromhex("02000000000202000000000108004f000014000000004011000001020304")
    record = len(frame).to_bytes(4, "little") * 2
    capture = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    for second in range(3):
        capture += (1_700_000_000 + second).to_bytes(4, "little") + bytes(4) + record + frame
    (tmp_path / "bad.pcap").write_bytes(capture)
    with running(tmp_path, "-r", "bad.pcap") as run:
        run.wait_for("the page stays open")
        scraped, said = run.scrape(), run.end()
    malformed = numbers(said, r"^flows: .*; (\d+) malformed")
    cut = numbers(said, r"^flows: .* (\d+) truncated")
    assert int(malformed[0][0]) + int(cut[0][0]) == 3, said
    adds_up(scraped, "flows")


@pytest.fixture
def link() -> Iterator[Link]:
    with new_link() as made:
        yield made


LIVE = """
[input]
interface = "wl0"
[traffic]
[flows]
[classify]
model = "services"
[page]
listen = "127.0.0.1:0"
"""


def test_a_live_run_counts_while_it_goes_on_and_agrees_in_the_end(
    link: Link, tmp_path: Path
) -> None:
    """Decision latencies, load of threads, memory and flow tables, on a real interface."""
    # The server is asked over a loopback of this namespace.
    ip("link set lo up")
    (tmp_path / "wirelens.toml").write_text(LIVE)
    with running(tmp_path, "-c", "wirelens.toml") as run:
        run.wait_for("listening on")
        link.send(datagrams(400))
        link.send(datagrams(300, is_answer=True))
        wait_until(
            lambda: run.scrape().sum("wirelens_traffic_packets_processed_total") == 700,
            "all are counted while it goes on",
        )
        during = run.scrape()
        assert during.sum("wirelens_packets_received_total") == 700
        assert during.sum("wirelens_flows_packets_processed_total") == 700
        assert during.sum("wirelens_flows_open") == 400
        assert during.sum("wirelens_flow_table_bytes") > 10_000
        assert during.sum("wirelens_flow_table_flows") == 400
        assert during.sum("wirelens_thread_cpu_seconds_total", thread="main") > 0
        assert during.sum("process_resident_memory_bytes") > 1e6
        assert during.sum("wirelens_run_over") == 0
        # Verdicts are counted at the marks of event time, which passes without packets, too.
        wait_until(
            lambda: run.scrape().sum("wirelens_classify_verdicts_total") == 400, "all are decided"
        )
        after, said = run.scrape(), run.end()
    for application in ("flows", "classify", "traffic"):
        adds_up(after, application)
    [(measured, p50, p99)] = numbers(
        said,
        r"^classify: latency of (\d+) verdicts decided by a frame: p50 ([\d.]+) µs, "
        r"p99 ([\d.]+) µs",
    )
    name = "wirelens_classify_decision_latency_seconds"
    assert after.sum(f"{name}_count") == int(measured) > 0
    assert after.sum(f"{name}_bucket", le="+Inf") == int(measured)
    for share, quantile in ((0.5, p50), (0.99, p99)):
        # The bucket of a percentile holds what is printed, which is to within a 32nd.
        at, low = quantile_bucket(after, name, share)
        assert low * (1 - 1 / 32) <= float(quantile) * 1e-6 <= at * (1 + 1 / 32)
    assert after.sum("wirelens_classify_verdicts_total") == 400


def test_packets_that_a_full_ring_drops_are_counted_while_the_run_goes_on(
    link: Link, tmp_path: Path
) -> None:
    """By the same numbers as they are printed, in the table of seconds, and for a rule."""
    ip("link set lo up")
    (tmp_path / "wirelens.toml").write_text(
        '[input]\ninterface = "wl0"\nbuffer-size = "64k"\n'
        '[traffic]\noutput = "traffic.csv"\n[flows]\n'
        '[[alert]]\nname = "drops"\ntable = "traffic"\nwhen = "dropped_packets > 0"\n'
        'value = "dropped_packets"\n'
        '[[notify]]\nkind = "jsonl"\nto = "alerts.jsonl"\n'
    )
    with running(tmp_path, "-c", "wirelens.toml") as run:
        run.wait_for("listening on")
        link.send(datagrams(10))
        # A reader that is kept from reading: what a busy host does, for longer.
        run.process.send_signal(signal.SIGSTOP)
        link.send(datagrams(3000))
        run.process.send_signal(signal.SIGCONT)
        wait_until(
            lambda: run.scrape().sum("wirelens_packets_received_total") == 3010,
            "all are known",
        )
        during = run.scrape()
        # A row is written when its second is over, by time that passes.
        wait_until(lambda: (tmp_path / "alerts.jsonl").stat().st_size > 0, "a rule fires")
        said = run.end()
    dropped = during.sum("wirelens_packets_dropped_total", stage="capture", cause="ring_full")
    assert 500 < dropped < 3000
    [printed] = numbers(said, r"^(\d+) packets dropped by the kernel")
    assert dropped == int(printed[0])
    adds_up(during, "flows")
    rows = list(csv.DictReader((tmp_path / "traffic.csv").open()))
    assert sum(int(row["dropped_packets"]) for row in rows) == dropped
    assert sum(int(row["packets"]) for row in rows) == 3010 - dropped
    fired = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert fired[0]["name"] == "drops" and 0 < fired[0]["value"] <= dropped


def quantile_bucket(scraped: Scrape, name: str, share: float) -> tuple[float, float]:
    """The upper and the lower end of the bucket with this quantile."""
    buckets = sorted(
        (float(dict(labels)["le"]), value)
        for (of, labels), value in scraped.samples.items()
        if of == f"{name}_bucket"
    )
    count = buckets[-1][1]
    low = 0.0
    for bound, value in buckets:
        if value >= share * count:
            return bound, low
        low = bound
    raise AssertionError("the last bucket has all")


def test_counters_only_grow_while_shards_work(tmp_path: Path) -> None:
    """Captures on two threads: the load of each, and totals that are those of one pass."""
    times = 150
    read = ", ".join([f'"{DEMO}"'] * times)
    (tmp_path / "wirelens.toml").write_text(
        f"[input]\nread = [{read}]\n[run]\nthreads = 2\n[flows]\n[unanswered]\n[traffic]\n"
        '[classify]\nmodel = "services"\n'
    )
    with running(tmp_path, "-c", "wirelens.toml") as run:
        scrapes = [run.scrape()]
        while not scrapes[-1].sum("wirelens_run_over"):
            scrapes.append(run.scrape())
        run.end()
    for before, after in itertools.pairwise(scrapes):
        for key, value in before.samples.items():
            if key[0].endswith("_total"):
                assert after.samples.get(key, 0) >= value, key
    last = scrapes[-1]
    assert len(scrapes) > 3, "it was looked at while it went on"
    assert any(
        0 < scrape.sum("wirelens_flows_packets_processed_total") < times * 4944
        for scrape in scrapes[:-1]
    )
    assert last.sum("wirelens_packets_received_total") == times * 4944
    for thread in ("main", "shard-1"):
        assert last.sum("wirelens_thread_cpu_seconds_total", thread=thread) > 0.005
    of_tables = ("wirelens_flow_table_bytes", frozenset[tuple[str, str]]())
    assert max(scrape.samples.get(of_tables, 0) for scrape in scrapes) > 10_000
    for application in ("flows", "unanswered", "traffic", "classify"):
        adds_up(last, application)


def test_a_scrape_is_read_as_it_is_written() -> None:
    text = '# TYPE a counter\na_total{b="x,\\"y}",c="d"} 1.5\ne 2\n# EOF\n'
    scraped = parsed(text)
    assert scraped.sum("a_total", c="d") == 1.5
    assert scraped.names == {"a_total", "e"}
