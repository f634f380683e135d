"""A real Prometheus scrapes a run."""

from pathlib import Path

from command import DEMO
from real_prometheus import scraping
from scraped import everything, running


def test_a_real_prometheus_reads_the_metrics(tmp_path: Path) -> None:
    with everything(tmp_path) as run, scraping(tmp_path, run.address) as prometheus:
        prometheus.wait_for("wirelens_packets_received_total")
        assert prometheus.value("up{job='wirelens'}") == 1
        assert prometheus.value("wirelens_packets_received_total") == 4944
        assert prometheus.value('wirelens_flows_ended_total{reason="fin"}') == 63
        scraped = run.scrape()
        assert prometheus.value("scrape_samples_scraped") == len(scraped.samples) <= 2_000
        # Each sample is a series of its own, with the same value.
        ours = "{job='wirelens', __name__=~'(wirelens|process)_.*'}"
        assert prometheus.value(f"count({ours})") == len(scraped.samples)
        for query in ("sum(wirelens_classify_verdicts_total)", "sum(wirelens_cca_packets_total)"):
            name = query[4:-1]
            assert prometheus.value(query) == scraped.sum(name)


def test_rates_and_percentiles_of_a_run_that_goes_on(tmp_path: Path) -> None:
    """The demo at twice its speed: 12 s with packets, verdicts and their latencies."""
    (tmp_path / "wirelens.toml").write_text(
        f'[input]\nread = "{DEMO}"\npace = 2\n[flows]\n[traffic]\n[classify]\nmodel = "services"\n'
    )
    with (
        running(tmp_path, "-c", "wirelens.toml") as run,
        scraping(tmp_path, run.address) as prometheus,
    ):
        prometheus.wait_for("wirelens_run_over == 1", 60)
        name = "wirelens_classify_decision_latency_seconds"
        p99 = prometheus.value(f"histogram_quantile(0.99, sum by (le) ({name}_bucket))")
        count = prometheus.value(f"{name}_count")
        mean = prometheus.value(f"{name}_sum / {name}_count")
        assert count is not None and mean is not None and p99 is not None
        assert 200 < count <= 312 and 0 < mean < p99 < 0.5
        processed = "rate(wirelens_traffic_packets_processed_total[2s])"
        rate = prometheus.value(f"max_over_time({processed}[15s:500ms])")
        assert rate is not None and rate > 100
        load = prometheus.value("rate(wirelens_thread_cpu_seconds_total{thread='main'}[5s])")
        assert load is not None and 0 < load < 1
        open_flows = prometheus.value("max_over_time(wirelens_flow_table_flows[15s])")
        assert open_flows is not None and open_flows > 10
