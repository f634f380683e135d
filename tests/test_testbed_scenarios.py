"""Scenarios and data sets: what is drawn, what is refused, what ships."""

import tomllib
from pathlib import Path

import pytest
from testbed_runs import DATASETS, SCENARIOS
from wirelens_testbed import dataset, kinds
from wirelens_testbed.congestion import plan as congestion
from wirelens_testbed.failure import ScenarioError
from wirelens_testbed.scenario import Table, draw, merged, override, read_toml, to_toml

SEEDS = range(200)
FLOW = {"control": "reno"}
LINK = {"rate_mbit": 10, "buffer_bytes": 50_000}


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_scenario_that_ships_can_be_drawn_and_parsed(path: Path) -> None:
    for seed in range(20):
        drawn = draw(read_toml(path), seed)
        kind, plan = kinds.parse(drawn)
        assert isinstance(kind.programs(plan), dict)
        # What is written beside the results makes the same run again.
        assert tomllib.loads(to_toml(drawn)) == drawn


@pytest.mark.parametrize("path", sorted(DATASETS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_data_set_that_ships_is_made_of_runs_that_can_be_parsed(path: Path) -> None:
    data_set = dataset.read(path)
    for variant in data_set.variants:
        for seed in range(20):
            kinds.parse(draw(merged(read_toml(variant.scenario), variant.values), seed))


def test_every_scenario_and_data_set_says_in_its_first_line_what_it_is() -> None:
    for path in (*SCENARIOS.glob("*.toml"), *DATASETS.glob("*.toml")):
        first = path.read_text().splitlines()[0]
        assert first.startswith("# ") and len(first) > 12, path


def test_a_draw_stays_within_its_limits_and_reaches_them() -> None:
    whole = [draw({"between": [1, 3]}, seed) for seed in SEEDS]
    assert set(whole) == {1, 2, 3}
    real = [draw({"between": [0.5, 1.5]}, seed) for seed in SEEDS]
    assert 0.5 <= min(real) < 0.6 and 1.4 < max(real) <= 1.5
    log = [draw({"log_between": [1, 10_000]}, seed) for seed in SEEDS]
    # Half of them lie below the geometric mean, which only a twentieth of a plain draw does.
    assert 70 <= sum(value < 100 for value in log) <= 130
    assert {draw({"among": ["a", "b"]}, seed) for seed in SEEDS} == {"a", "b"}
    weighted = [draw({"weighted": {"often": 9, "seldom": 1}}, seed) for seed in SEEDS]
    assert 5 <= weighted.count("seldom") <= 40


def test_a_draw_depends_on_the_seed_and_its_place_and_on_nothing_else() -> None:
    values = {"a": {"between": [0, 1_000_000]}, "b": {"between": [0, 1_000_000]}}
    assert draw(values, 1) == draw(values, 1)
    assert draw(values, 1) != draw(values, 2)
    assert draw(values, 1)["a"] != draw(values, 1)["b"]
    assert draw({"new": 1, **values}, 1)["b"] == draw(values, 1)["b"]


def test_a_count_makes_so_many_tables_each_drawn_by_itself() -> None:
    flows = draw({"flows": [{"count": 40, "rtt_ms": {"between": [1, 1000]}}]}, 1)["flows"]
    assert len(flows) == 40
    assert len({flow["rtt_ms"] for flow in flows}) > 30
    assert all("count" not in flow for flow in flows)
    assert len(draw([{"count": {"among": [7]}}], 1)) == 7
    assert draw([{"count": 0}], 1) == []
    with pytest.raises(ScenarioError, match="count is -1"):
        draw([{"count": -1}], 1)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"between": [3]}, "cannot draw from between"),
        ({"between": ["a", "b"]}, "cannot draw from between"),
        ({"log_between": [0, 5]}, "cannot draw from log_between"),
        ({"among": []}, "cannot draw from among"),
        ({"between": [5, 1]}, "cannot draw from between"),
    ],
)
def test_an_impossible_draw_is_refused_with_its_place(value: object, said: str) -> None:
    with pytest.raises(ScenarioError, match=said) as refused:
        draw({"link": {"rate_mbit": value}}, 1)
    assert str(refused.value).startswith("link.rate_mbit")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"duratoin_s": 5}, "duratoin_s is not known here; did you mean duration_s?"),
        ({"link": {**LINK, "rate_mbit": "fast"}}, "link.rate_mbit is 'fast', wanted a number"),
        ({"link": {**LINK, "rate_mbit": 0}}, "link.rate_mbit is 0.0, wanted at least 0.1"),
        ({"link": {"rate_mbit": 5}}, "link.buffer_bytes is missing"),
        ({"link": 5}, "link is 5, wanted a table"),
        ({"link": {**LINK, "offloads": 1}}, "link.offloads is 1, wanted true or false"),
        ({"link": {**LINK, "offloads": True}, "packet_truth": True}, "turn one of them off"),
        ({"link": {**LINK, "shaper": "fq"}}, "link.shaper is 'fq', wanted one of tbf, htb"),
        ({"flows": []}, "there are no flows"),
        ({"flows": [{"control": "reno", "start_s": 11}]}, r"flows\[0\].start_s is 11.0, wanted at"),
        ({"flows": [{"control": "reno", "role": "x"}]}, "wanted one of measured, background"),
        ({"flows": [FLOW] * 201, "hosts": {"senders": 1}}, "201 flows for 1 senders"),
    ],
)
def test_what_a_scenario_must_not_say_is_refused_by_name(change: dict, said: str) -> None:
    table = Table({"duration_s": 10, "link": LINK, "flows": [FLOW]} | change)
    with pytest.raises(ScenarioError, match=said):
        congestion.parse(table)
        table.finish()


def test_values_are_overridden_one_by_one() -> None:
    values = {"link": {"rate_mbit": 5, "buffer_bytes": 9}}
    override(values, "link.rate_mbit=7.5")
    override(values, "label=some words")
    override(values, "link.delay_ms={ between = [1, 2] }")
    assert values["link"] == {
        "rate_mbit": 7.5,
        "buffer_bytes": 9,
        "delay_ms": {"between": [1, 2]},
    }
    assert values["label"] == "some words"
    with pytest.raises(ScenarioError, match="no KEY=VALUE"):
        override(values, "link.rate_mbit")
    with pytest.raises(ScenarioError, match="link.rate_mbit|rate_mbit is no table"):
        override(values, "link.rate_mbit.x=1")


def test_values_laid_over_others_replace_draws_and_lists_and_mix_tables() -> None:
    base = {"a": {"between": [1, 2]}, "t": {"x": 1, "y": 2}, "l": [1, 2]}
    over = {"a": {"among": [3]}, "t": {"y": 5}, "l": [9]}
    assert merged(base, over) == {"a": {"among": [3]}, "t": {"x": 1, "y": 5}, "l": [9]}


def test_a_file_that_is_no_scenario_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="absent.toml: No such file"):
        read_toml(tmp_path / "absent.toml")
    (tmp_path / "text.toml").write_text("just words")
    with pytest.raises(ScenarioError, match="text.toml: no TOML"):
        read_toml(tmp_path / "text.toml")
    with pytest.raises(ScenarioError, match="kind is 'x', wanted one of demo, "):
        kinds.of("x")
