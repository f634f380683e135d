"""Rules and dashboards in `deploy/`: promtool checks and tests them, and what they ask for is in
the `/metrics` of a run with every application."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import ROOT
from real_prometheus import Prometheus, scraping
from scraped import Scrape, everything

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus/wirelens.rules.yml"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))

KEYWORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right",
            "bool", "offset", "inf", "nan"}  # fmt: skip


def promtool(*arguments: str | Path) -> str:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed; bash tools/setup.sh test")
    done = subprocess.run(
        ["promtool", *arguments], cwd=DEPLOY, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_finds_nothing_wrong() -> None:
    assert "SUCCESS" in promtool("check", "rules", RULES)
    assert "SUCCESS" in promtool("check", "config", "prometheus/prometheus.yml")


def test_every_alert_has_a_unit_test_and_all_pass() -> None:
    assert "SUCCESS" in promtool("test", "rules", "prometheus/wirelens.rules.test.yml")
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    text = (DEPLOY / "prometheus/wirelens.rules.test.yml").read_text()
    fires = re.findall(r"alertname: (\w+)\n +exp_alerts:\n", text)
    silent = re.findall(r"alertname: (\w+)\n +exp_alerts: \[\]\n", text)
    assert set(alerts) == set(fires), "each fires in one"
    assert set(alerts) == set(silent), "and stays silent in another"
    assert len(alerts) == len(set(alerts)) > 10


def expressions(text: str) -> list[str]:
    """The expressions of the rules, as they are in YAML of one kind: on a line, or below it."""
    found = []
    lines = text.splitlines()
    for at, line in enumerate(lines):
        match = re.fullmatch(r"( +)(?:- )?expr: (.*)", line)
        if not match:
            continue
        if match[2] != "|":
            found.append(match[2])
            continue
        below = []
        for deeper in lines[at + 1 :]:
            if not deeper.startswith(match[1] + "  "):
                break
            below.append(deeper.strip())
        found.append(" ".join(below))
    return found


def dashboard(path: Path) -> dict:
    return json.loads(path.read_text())


def panels(of: dict) -> list[dict]:
    return [inner for panel in of["panels"] for inner in (panel, *panel.get("panels", []))]


def queries(path: Path) -> list[str]:
    """What a dashboard asks, with everything chosen."""
    targets = [panel.get("targets", []) for panel in panels(dashboard(path))]
    found = [target["expr"] for of_panel in targets for target in of_panel]
    return [
        query.replace("$__rate_interval", "1m").replace("$job", ".*").replace("$instance", ".*")
        for query in found
    ]


def metrics(query: str) -> set[str]:
    """The metrics that a query names: what is no string, no matcher, no range, no label in a list,
    no function and no word of the language."""
    query = re.sub(r'"(?:\\.|[^"\\])*"', "", query)
    query = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", query)
    query = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", query)
    words = re.findall(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\()(?![\w:])", query)
    return {word for word in words if word.lower() not in KEYWORDS}


def test_metrics_of_queries_are_found() -> None:
    assert metrics('sum by (a, b) (rate(x_total{c="d(e)"}[5m])) / on (a) group_left y * 2e3') == {
        "x_total", "y"
    }  # fmt: skip
    assert metrics("a:b:c > 0.5 and histogram_quantile(0.9, sum by (le) (z_bucket))") == {
        "a:b:c", "z_bucket"
    }  # fmt: skip


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, Scrape]]:
    """A Prometheus with our rules that has scraped a run with every application."""
    folder = tmp_path_factory.mktemp("deploy")
    with everything(folder) as run, scraping(folder, run.address, RULES) as prometheus:
        prometheus.wait_for("count_over_time(wirelens_run_over[1m]) >= 3")
        yield prometheus, run.scrape()


# Of Prometheus itself, about each target.
OF_TARGETS = {"up"}


def asked() -> dict[str, str]:
    """Every query of the dashboards and rules, with where it is from."""
    found = {query: path.name for path in DASHBOARDS for query in queries(path)}
    return found | dict.fromkeys(expressions(RULES.read_text()), RULES.name)


def test_all_that_is_asked_for_is_there(seen: tuple[Prometheus, Scrape]) -> None:
    prometheus, scraped = seen
    recorded = set(re.findall(r"- record: (\S+)", RULES.read_text()))
    of_queries = asked()
    assert len(of_queries) > 100
    for query, place in of_queries.items():
        unknown = metrics(query) - scraped.names - OF_TARGETS - recorded
        assert metrics(query) and not unknown, (place, query, unknown)
        # Parsed, and evaluated over what was scraped, by Prometheus itself.
        prometheus.ask(query)


def test_labels_of_queries_are_those_of_their_metrics(seen: tuple[Prometheus, Scrape]) -> None:
    """A matcher that fits no series, or a label that no metric has, finds nothing for ever."""
    _, scraped = seen
    of_metrics: dict[str, set[str]] = {}
    for name, labels in scraped.samples:
        of_metrics.setdefault(name, {"job", "instance", "le"}).update(key for key, _ in labels)
    for query, place in asked().items():
        for name, matchers in re.findall(r"\b([a-z_:]+)\{([^}]*)\}", query):
            wanted = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            if name in of_metrics:
                assert wanted <= of_metrics[name], (place, query, name)


def test_every_panel_has_data_or_a_reason(seen: tuple[Prometheus, Scrape]) -> None:
    """Most panels of the dashboards show something of this run; rates need two scrapes."""
    prometheus, _ = seen
    for path in DASHBOARDS:
        found = {query: bool(prometheus.ask(query)) for query in queries(path)}
        silent = [query for query, has_data in found.items() if not has_data]
        # Ratios of rates of a run that is over are 0 / 0, and what is above 0 is nothing.
        has_reason = ["/" in query or "> 0" in query or "histogram" in query for query in silent]
        assert all(has_reason), silent


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_its_data_source_by_a_variable(path: Path) -> None:
    board = dashboard(path)
    assert "__inputs" not in board and "__requires" not in board
    assert board.get("id") is None, "an id is of one Grafana"
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    wanted = {"type": "prometheus", "uid": "${datasource}"}
    of_queries = [variable for variable in variables.values() if variable["type"] == "query"]
    assert of_queries and all(variable["datasource"] == wanted for variable in of_queries)
    all_panels = panels(board)
    ids = [panel["id"] for panel in all_panels]
    assert len(ids) == len(set(ids))
    for panel in all_panels:
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == wanted and panel["title"] and panel["description"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(refs) == len(set(refs)) > 0, panel["title"]
        assert all(target["datasource"] == wanted for target in panel["targets"])
        assert panel["fieldConfig"]["defaults"]["unit"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_do_not_cover_each_other(path: Path) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard(path)["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]


def test_dashboards_have_names_of_their_own() -> None:
    boards = [dashboard(path) for path in DASHBOARDS]
    for key in ("uid", "title"):
        assert len({board[key] for board in boards}) == len(boards) >= 2
