"""The simulated L4S network: the command, Python, and controls compared."""

import json

import pytest
from command import wirelens
from wirelens import l4s
from wirelens.errors import OptionError, OutputError
from wirelens.l4s import controls, report

SCENARIO = """duration_ns 4000000000
group congestion=prague count=10
group congestion=cubic count=4
"""
RECORD_BYTES, MAGIC_BYTES = 80, 8


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "l4s.txt"
    path.write_text(SCENARIO)
    return path


def test_the_command_and_python_simulate_the_same(scenario, tmp_path):
    trace = tmp_path / "packets.l4s"
    ran = wirelens("testbed", "simulate", scenario, "-o", trace)
    assert ran.status == 0, ran.stderr
    found = l4s.simulate(SCENARIO, trace=tmp_path / "again.l4s")
    assert l4s.Summary.read(ran.stdout.decode()) == found
    assert trace.read_bytes() == (tmp_path / "again.l4s").read_bytes()
    packets = (trace.stat().st_size - MAGIC_BYTES) // RECORD_BYTES
    assert packets == found.l4s.received + found.classic.received
    for queue in (found.l4s, found.classic):
        assert queue.received == queue.sent + queue.dropped + queue.waiting


def test_settings_are_changed_one_by_one_and_files_are_not_overwritten(scenario, tmp_path):
    changed = ("--set", "router=mode=tail-drop,limit=100", "--set", "seed=9")
    journal = tmp_path / "journal"
    ran = wirelens("testbed", "simulate", scenario, *changed, "--journal", journal)
    assert json.loads(ran.stdout)["queues"]["l4s"]["received"] == 0
    again = wirelens("testbed", "simulate", scenario, *changed, "--journal", journal)
    assert again.status == 1
    assert "--force" in again.stderr
    forced = wirelens("testbed", "simulate", scenario, *changed, "--journal", journal, "--force")
    assert forced.stdout == ran.stdout


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("router=mode=red", "`mode`: wanted dualpi2, partitioned or tail-drop"),
        ("routr=1", "`routr` is not a key; wanted one of rate_bps"),
        ("control=oracle", "`oracle` names no control; wanted none"),
    ],
)
def test_what_cannot_be_simulated_is_refused(scenario, setting, words):
    ran = wirelens("testbed", "simulate", scenario, "--set", setting)
    assert (ran.status, ran.stdout) == (2, b"")
    assert words in ran.stderr
    key, value = setting.split("=", 1)
    with pytest.raises(OptionError, match="scenario: line 4"):
        l4s.simulate(f"{SCENARIO}{key} {value}\n")


def test_a_scenario_that_is_none_is_refused_with_its_line(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("seed 1\nqueue 3\n")
    ran = wirelens("testbed", "simulate", path)
    assert ran.status == 1
    assert f"{path}: line 2: `queue` is not a key" in ran.stderr
    assert "No such file" in wirelens("testbed", "simulate", tmp_path / "none").stderr
    with pytest.raises(OutputError, match="none/trace"):
        l4s.simulate(SCENARIO, trace=tmp_path / "none/trace")


def test_values_and_text_are_the_same_scenario():
    flows = [l4s.Traffic("prague", 10), l4s.Traffic("cubic", 4)]
    assert l4s.simulate(l4s.Scenario(flows, duration_s=4)) == l4s.simulate(SCENARIO)


def test_controls_are_compared_seed_by_seed():
    asked = controls.Request(["websearch"], ["partitioned-20", "dualpi2"], [1, 2], 4.0, "rack")
    shown = []
    rows = controls.compare(asked, lambda *so_far: shown.append(so_far))
    assert len(rows) == 2 * 2 * len(controls.RULES)
    assert [done for done, *_ in shown] == [1, 2, 3, 4]
    assert rows == controls.compare(asked, lambda *_: None), "seeds decide"
    for row in rows:
        assert controls.Row.read(row.text()) == row
    state = next(row for row in rows if row.control == controls.STATE)
    chance = next(row for row in rows if row.control == controls.RANDOM)
    assert state.remarked > 0
    assert all(row.remarked == 0 for row in rows if row.control == controls.NONE)
    assert chance.rule == f"random:{state.remarked:.6f}"
    table = report.table(rows)
    assert table.count("\n") == 2 + 2 * len(controls.RULES)


def test_an_axis_is_varied_one_value_after_the_other():
    plain = l4s.Scenario(controls.SCENARIOS["sensitivity"])
    queue = controls.Setting("queue", 2).applied(plain)
    assert queue.router == "mode=dualpi2,limit=667"
    assert controls.Setting("delay", 100).applied(plain).delay_s == 0.1
    flows = controls.Setting("flows", 50).applied(plain)
    assert [traffic.count for traffic in flows.traffic] == [50, 4]
    ran = wirelens(
        "eval", "l4s", "--controls", "--scenarios", "sensitivity", "--routers", "partitioned-20",
        "--vary", "queue=2,20", "--seeds", "1", "--duration", "2", "-q",
    )  # fmt: skip
    named = {line.split("|")[1].strip() for line in ran.stdout.decode().splitlines()[2:]}
    assert named == {"sensitivity, queue 2 BDP", "sensitivity, queue 20 BDP"}
    refused = wirelens("eval", "l4s", "--controls", "--vary", "rate=1")
    assert refused.status == 2
    assert "wanted: queue=, flows=, delay=" in refused.stderr


def test_eval_writes_a_table_rows_and_a_picture(tmp_path):
    ran = wirelens(
        "eval", "l4s", "--controls", "--scenarios", "10+4", "--routers", "dualpi2", "--seeds", "2",
        "--duration", "3", "-o", tmp_path / "t.md", "--rows", tmp_path / "r.jsonl", "-q",
    )  # fmt: skip
    assert (ran.status, ran.stdout, ran.stderr) == (0, b"", "")
    rows = [controls.Row.read(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert (tmp_path / "t.md").read_text() == report.table(rows)
    refused = wirelens("eval", "l4s", "--controls", "--routers", "red")
    assert refused.status == 2
    assert "wanted: dualpi2" in refused.stderr
    assert "--controls" in wirelens("eval", "l4s").stderr
