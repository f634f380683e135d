"""`make reproduce`: every row of docs/reproduction.md has commands whose results are compared."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "bench/reproduce"))

import compare  # noqa: E402
import jobs  # noqa: E402
import paper_rows  # noqa: E402
import reproduce  # noqa: E402
from compare import page_rows  # noqa: E402

ROWS = paper_rows.rows()
POSSIBLE = [row for row in ROWS if jobs.is_possible(row)]
PYTHON = ROOT / ".venv/bin/python"
COMMAND = ROOT / "bench/reproduce/reproduce.py"


def either(row: paper_rows.Row) -> list[jobs.Job]:
    """The jobs of a row, with FULL=1 and without."""
    return jobs.each_once([*jobs.jobs_of(row, full=False), *jobs.jobs_of(row, full=True)])


# --- The page and the table of jobs ----------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_has_commands_or_none(row: paper_rows.Row) -> None:
    paper, _, number = row.id.partition("/")
    label = row.title.partition(":")[0].lower().replace(" ", "-")
    assert number == label or row.title.startswith("§6") and number.startswith("section-6-")
    mine = jobs.jobs_of(row, full=False)
    assert bool(mine) == jobs.is_possible(row)
    assert jobs.jobs_of(row, full=True) or not mine
    assert paper in {one.paper for one in ROWS}


@pytest.mark.parametrize("row", POSSIBLE, ids=lambda row: row.id)
def test_a_row_runs_the_command_of_the_page(row: paper_rows.Row) -> None:
    """Its script or subcommand, whole or the part that the job names."""
    words = row.command.split()
    program = words[0].rpartition("/")[2]
    wanted = [*words[1:3]] if program in ("wirelens", "make") else [words[1].rpartition("/")[2]]
    text = " ".join(line for job in either(row) for line in (*job.run, job.says))
    # `make demo` is typed with --silent; of a long `make` target a part is run and named.
    text = text.replace("--silent ", "")
    assert all(word in text for word in wanted), f"{row.command} is not in {text}"


def lines() -> Iterator[str]:
    for job in jobs.jobs():
        yield from job.run
    for one in jobs.data().values():
        yield one.make


def test_files_that_commands_name_are_there() -> None:
    path = re.compile(r"(?<![\w/\"}])(?:bench|testbed|tests|models|testdata|tools)/[\w./-]+")
    named = {found[0] for line in lines() for found in path.finditer(line)}
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_jobs_name_rows_and_data_that_are_there() -> None:
    known = {row.id for row in ROWS}
    names = [job.name for job in jobs.jobs()]
    for job in jobs.jobs():
        assert job.rows and set(job.rows) <= known, job.name
        assert set(job.figures) <= set(job.rows), job.name
        assert set(job.data) <= set(jobs.data()), job.name
        assert set(job.needs) <= {*jobs.PROGRAMS, "package", "root"}, job.name
        assert set(job.instead) <= set(names), job.name
        assert job.minutes > 0 and job.disk_gb > 0, job.name
        for name in job.data:
            assert f"${name}" in " ".join(job.run) or name == "CAPTURES", (job.name, name)
        for kept in job.files:
            assert (page_rows.RESULTS / kept).exists(), (job.name, kept)


# --- Figures and rules -----------------------------------------------------------------------


def queries() -> list[tuple[paper_rows.Row, str]]:
    """Every figure that is compared, with its row."""
    found = [(row, figure.query) for row in POSSIBLE for figure in row.figures]
    more = [(row, job.figures.get(row.id, [])) for row in POSSIBLE for job in either(row)]
    return found + [(row, query) for row, some in more for query in some]


def test_every_figure_has_a_rule_and_a_kept_value() -> None:
    used = set()
    for _, query in queries():
        rule = compare.rule_of(query)
        assert [rule.within, rule.ratio, rule.shown or None].count(None) == 2, query
        assert page_rows.asked(query) is not None
        if rule.against:
            assert page_rows.asked(rule.against) > 0, query
        used.add(id(rule))
    unused = [name for name, rule in compare.rules().items() if id(rule) not in used]
    assert unused == []


def test_every_figure_is_made_by_a_command_of_its_row() -> None:
    for row, query in queries():
        mine = either(row)
        if any(job.printed for job in mine):
            continue
        file = page_rows.figures()[query.split()[0]].rows
        makes = [kept for job in mine for kept in job.files]
        assert any(file == kept or file.startswith(f"{kept}/") for kept in makes), (row.id, query)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of target/reproduce."""
    monkeypatch.setattr(jobs.Job, "out", property(lambda self: tmp_path / self.name))
    return tmp_path


TRACES = "2026-11-25-l4s-predict"


def traces(made: Path, change: float = 0.0) -> tuple[paper_rows.Row, jobs.Job]:
    """SwiftQueue's Table 1 with rows like the kept ones, the medians changed."""
    (row,) = [one for one in ROWS if one.id == "swiftqueue/table-1"]
    (job,) = jobs.jobs_of(row, full=False)
    job.out.mkdir()
    kept = page_rows.read(f"{TRACES}/traces.jsonl")
    text = "".join(
        json.dumps({**one, "median_ms": one["median_ms"] + change}) + "\n" for one in kept
    )
    (job.out / "traces.jsonl").write_text(text, encoding="utf-8")
    return row, job


@pytest.mark.parametrize(("change", "status", "words"), [
    (0.0, 0, "4 of 4 figures within"), (5.0, 1, "0 of 4 figures within"),
])  # fmt: skip
def test_what_differs_is_found(
    made: Path, capsys: pytest.CaptureFixture[str], change: float, status: int, words: str
) -> None:
    row, job = traces(made, change)
    assert reproduce.report(row, [job], {}) == status
    assert words in capsys.readouterr().out


def test_what_was_not_made_is_not_within(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row, job = traces(made)
    (job.out / "traces.jsonl").unlink()
    page_rows.rows_of.cache_clear()
    assert reproduce.report(row, [job], {}) == 2
    assert "4 not measured" in capsys.readouterr().out


def test_rules_judge_differences_and_ratios() -> None:
    within, ratio = compare.Rule(within=0.03), compare.Rule(ratio=2)
    assert compare.judged(within, 0.7, 0.73)[1] and not compare.judged(within, 0.7, 0.74)[1]
    assert compare.judged(ratio, 2, 1)[1] and compare.judged(ratio, 2, 4)[1]
    assert not compare.judged(ratio, 2, 4.1)[1] and not compare.judged(ratio, 2, 0.9)[1]
    assert compare.judged(ratio, 0, 0)[1] and not compare.judged(ratio, 0, 1)[1]
    assert compare.judged(compare.Rule(shown="why"), 1, 100) == (None, None)


def test_rates_are_compared_with_one_of_the_same_run(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine of half the speed has the same result; a queue that alone is slower has not."""
    (job,) = [one for one in jobs.jobs() if one.name == "queues"]
    job.out.mkdir()
    figure = paper_rows.PaperFigure('queues "library (rtrb)"', "300")
    kept = page_rows.read("2026-11-22-amd-epyc-2-cores/runs.jsonl")
    for factor, others, is_within in [(2, 2, True), (20, 1, False)]:
        slower = [
            {**one, "wall_s": one["wall_s"] * (factor if "rtrb" in one["name"] else others)}
            for one in kept
            if one.get("figure") == "fig3"
        ]
        text = "".join(json.dumps(one) + "\n" for one in slower)
        (job.out / "runs.jsonl").write_text(text, encoding="utf-8")
        page_rows.rows_of.cache_clear()
        assert compare.compared(figure, [job]).is_within is is_within


def test_a_queue_that_has_another_name_now_is_found() -> None:
    (job,) = [one for one in jobs.jobs() if one.name == "queues"]
    old, new = next(iter(job.renamed.items()))
    assert compare.renamed(f'queues "{old}" lowest', [job]) == f'queues "{new}" lowest'
    assert any(old in query for _, query in queries())
    ring = (ROOT / "crates/engine/src/ring.rs").read_text(encoding="utf-8")
    assert f"CHUNK_LEN: usize = {new.rpartition(' ')[2]};" in ring


def test_printed_figures_are_looked_for() -> None:
    figure = paper_rows.PaperFigure("cca heldout 10ms", "0.582")
    assert compare.printed(figure, "| 0.582 (0.581–0.584) |").is_within
    assert compare.printed(figure, "| 0.583 |").is_within is False


# --- The command -----------------------------------------------------------------------------


def test_a_wrong_id_names_near_ones() -> None:
    for word, near in [("serveflow/table6", "serveflow/table-6"), ("dragonfy", "dragonfly"),
                       ("table-6", "serveflow/table-6")]:  # fmt: skip
        with pytest.raises(reproduce.UnknownRow, match=near):
            reproduce.chosen([word], ROWS)
    assert len(reproduce.chosen(["dragonfly", "dragonfly/table-i"], ROWS)) == 10


def test_missing_data_root_and_disk_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CAPTURES", str(tmp_path / "nothing"))
    monkeypatch.delenv("HELDOUT", raising=False)
    absent = replace(jobs.data()["HELDOUT"], folder=str(tmp_path / "none"))
    monkeypatch.setitem(jobs.data(), "HELDOUT", absent)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    of = {job.name: job for job in jobs.jobs()}
    (reason,) = jobs.plan(of["paper-services"]).missing
    assert "nothing" in reason and "CAPTURES=FOLDER" in reason
    (reason,) = jobs.plan(of["log-volume"]).missing
    assert "root is needed for making HELDOUT" in reason
    monkeypatch.setattr("os.geteuid", lambda: 0)
    making = jobs.plan(of["log-volume"])
    assert making.missing == () and making.steps[-1].line == absent.make
    # A step that two jobs share is counted once.
    built = {name: (ROOT, *said[1:]) for name, said in jobs.PROGRAMS.items()}
    monkeypatch.setattr(jobs, "PROGRAMS", built)
    both = [jobs.plan(of["log-volume"]), jobs.plan(of["log-switch"])]
    assert absent.make in [step.line for step in both[0].steps if step in both[1].steps]
    assert jobs.total(both)[0] == jobs.total(both[:1])[0] + of["log-switch"].minutes
    # What is named and not there is a mistake, and is not made.
    monkeypatch.setenv("HELDOUT", str(tmp_path / "typo"))
    assert "typo" in jobs.plan(of["log-volume"]).missing[0]
    large = replace(of["modes"], disk_gb=1e9)
    (reason,) = jobs.plan(large).missing
    assert "GB of disk are needed" in reason


def test_a_data_set_half_made_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    monkeypatch.setenv("HELDOUT", str(folder))
    assert jobs.data()["HELDOUT"].is_there()
    jobs.partial(folder).touch()
    assert not jobs.data()["HELDOUT"].is_there()


def test_a_command_that_fails_is_no_result(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = [one for one in ROWS if one.id == "titanlog/table-ii"]
    (job,) = jobs.jobs_of(row, full=False)
    broken = replace(job, setup=(), needs=(), run=("echo before", "exit 7"))
    assert reproduce.repeated({row.id: [broken]}, [row]) == 1
    assert "exit 7: exit status 7" in capsys.readouterr().out
    assert (broken.out / "printed.md").read_text() == "before\n"
    assert reproduce.repeated({row.id: [broken]}, [row], run=False) == 2
    assert "has not run to its end" in capsys.readouterr().out
    whole = replace(broken, run=("echo before",))
    assert reproduce.repeated({row.id: [whole]}, [row]) == 0
    assert reproduce.repeated({row.id: [whole]}, [row], run=False) == 0


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(COMMAND), *words], capture_output=True, text=True, check=False
    )


def test_the_list_has_every_row() -> None:
    done = typed()
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[1 : len(ROWS) + 1]] == [
        row.id for row in ROWS
    ]


def test_exit_status_of_what_cannot_run() -> None:
    assert typed("nothing").returncode == 2
    done = typed("titanlog/table-iii")
    assert done.returncode == 2 and "There is no switch" in done.stdout


SHORT = ["titanlog/table-ii", "swiftqueue/figure-1", "swiftqueue/table-1", "serveflow/algorithm-1"]
"""Rows of some seconds that need what the tests need."""


@pytest.mark.skipif(not PYTHON.exists(), reason="SKIPPED: no .venv, which `make python` makes")
def test_short_rows_run_and_are_within() -> None:
    of = {row.id: row for row in ROWS}
    for name in SHORT:
        for job in jobs.jobs_of(of[name], full=False):
            assert job.minutes <= 1 and set(job.setup) <= {"base", "test"} and not job.data
    done = typed(*SHORT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 figures within" in done.stdout
    assert "rows: 4 within, 0 not within, 0 not measured in full" in done.stdout
