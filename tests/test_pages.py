"""Pages of docs/ have the figures of kept rows, and kept rows say where they are from."""

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "bench/pages"), str(ROOT / "bench/evaluation/cca")]

import few  # noqa: E402
import page_ages  # noqa: E402
import page_cca  # noqa: E402
import page_devices  # noqa: E402
import page_rows  # noqa: E402
import page_services  # noqa: E402
import page_tables  # noqa: E402
import pages  # noqa: E402

FOLDERS = sorted(path for path in page_rows.RESULTS.iterdir() if path.is_dir())
PAGES = pages.pages()
SHIPPED_CCA = "2026-11-30-amd-epyc-2-cores-cca-ships/shipped.md"
HELD_OUT = ("heldout", "rates-heldout", "few-heldout", "transfer")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_kept_rows_have_their_date_commit_and_machine(folder: Path) -> None:
    said = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    assert re.match(r"20\d\d-\d\d-\d\d", said["date"])
    assert re.match(r"[0-9a-f]{7,40}( with changes)?$", said["commit"])
    assert said["cpu"], "the machine, or that it was not recorded"
    if page_ages.has_history():
        commit = said["commit"].split()[0]
        assert page_ages.git("merge-base", "--is-ancestor", commit, "HEAD") is not None, commit


def test_of_kept_rows_the_code_that_they_speak_of_is_declared() -> None:
    declared = page_rows.config()["results"]
    for folder in FOLDERS:
        wanted = f"wanted: {folder.name} under [results] of bench/pages/pages.toml, with its code"
        assert folder.name in declared, wanted
        paths = declared[folder.name]["speaks_of"]
        assert paths and [path for path in paths if not (ROOT / path).exists()] == [], folder


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_has_the_figures_of_its_rows(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert pages.MARK in text or "<!-- table: " in text
    assert pages.differences(page, text, pages.made(text)) == []


def changed(text: str) -> list[tuple[str, str]]:
    """The page with one figure or one table's cell changed, each in turn, and what was there."""
    found = []
    for mark in list(pages.FIGURE.finditer(text))[:5]:
        at = mark.start(1)
        digit = "1" if text[at] != "1" else "2"
        found.append((text[:at] + digit + text[at + 1 :], mark[0]))
    for table in list(pages.TABLE.finditer(text))[:5]:
        numbers = list(re.finditer(r"0\.\d\d\d", table[2]))
        if numbers:
            at = table.start(2) + numbers[-1].end() - 1
            digit = "1" if text[at] != "1" else "2"
            found.append((text[:at] + digit + text[at + 1 :], table[1]))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_changed_figure_is_found(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for other, what in changed(text):
        assert pages.differences(page, other, pages.made(other)) != [], what


def test_a_set_of_foreign_flows_is_of_the_model_that_ships() -> None:
    for name in page_services.SETS:
        file = name if name == "sealed" else f"foreign-{name}"
        (judged,) = page_services.rows(page_services.SERVICES, file, "model")
        assert judged["model"] in page_tables.ids("services"), name
    for row in page_devices.foreign_rows():
        assert row["model"] in page_tables.ids("devices"), row


def test_the_card_says_what_flows_of_other_controls_are_named() -> None:
    rows = [
        row
        for row in page_rows.read("2026-11-30-amd-epyc-2-cores-cca-ships/foreign.jsonl")
        if row["length"] == "10s and more" and row["control"] not in ("bbr", "cubic", "reno")
    ]
    found: dict[str, list[float]] = {"named": [], "sure": []}
    for control in {row["control"] for row in rows}:
        of = [row for row in rows if row["control"] == control]
        answers = sum(row["answers"] for row in of)
        named = sum(n for row in of for name, n in row["names"].items() if "unnamed" not in name)
        found["named"].append(named / answers)
        found["sure"].append(sum(row.get("sure", 0) for row in of) / answers)
    card = (ROOT / "models/cca/card.md").read_text(encoding="utf-8")
    for shares, wanted in zip(
        found.values(), ("{:.2f} to {:.2f} name one", "{:.2f} to {:.2f} with a"), strict=True
    ):
        assert wanted.format(min(shares), max(shares)) in card


def test_what_no_row_has_is_said() -> None:
    page = ROOT / "docs/evaluation/cca.md"
    for text, wanted in [
        ("0.5<!--= cca heldout 7ms -->", "no row of"),
        ("0.5<!--= cca heldout -->", "several rows for one seed"),
        ("0.5<!--= nothing heldout -->", "no figure 'nothing'"),
        ("F1 <!--= cca heldout 10ms -->", "marks without a number"),
        ("<!-- table: nothing -->\n<!-- end -->\n", "no table 'nothing'"),
    ]:
        (reason,) = pages.differences(page, text, pages.made(text))
        assert wanted in reason


def test_figures_are_as_precise_as_they_are_written() -> None:
    assert pages.like(0.58235, "0.6") == "0.6"
    assert pages.like(0.58235, "0.000") == "0.582"
    assert pages.like(1234.5, "9,999") == "1,234"
    assert pages.like(-0.22, "−0.1") == "−0.2"


def test_old_rows_are_dated() -> None:
    """More than so many changes to the code that rows speak of: the page says so."""
    if not page_ages.has_history():
        pytest.skip("no git history: changes cannot be counted")
    declared = page_rows.config()["results"]
    for folder in (path.name for path in FOLDERS):
        said = declared[folder]
        count = page_ages.changes(page_ages.environment(folder)["date"], said["speaks_of"])
        assert count is not None
        line = page_ages.on_page([folder], "", "")
        word = "more than" if count > page_ages.CHANGES_MAX else "at most"
        assert f"{word} {page_ages.CHANGES_MAX} changes" in line
        # A page made before the last few commits is not wrong yet, one made long before is.
        older = line.replace("more than", "at most")
        is_kept = page_ages.on_page([folder], "", older) == older
        assert is_kept == (count <= page_ages.CHANGES_BEFORE_COMPLAINT)


def test_the_baseline_is_printed_at_its_best() -> None:
    """No reading of DeePCCI in the kept rows is better than the one that is set beside ours."""
    for name, tests in (("rows", ("heldout", "transfer")), ("gigabit", ("gigabit",))):
        for test in tests:
            found = page_cca.whole(name, test)
            for length in page_cca.LENGTHS:
                best = page_cca.best_deepcci(found, length)
                for row in found:
                    if row["network"].startswith("deepcci") and row["duration"] == length:
                        of_same = [
                            one["f1"] for one in found
                            if (one["network"], one["votes_of"], one["duration"])
                            == (row["network"], row["votes_of"], length)
                        ]  # fmt: skip
                        assert sum(of_same) / len(of_same) <= sum(best) / len(best) + 1e-9
    assert page_cca.best_deepcci(page_cca.whole("rows", "heldout"), "10s")[0] > 0.88


def test_what_the_page_says_of_both_networks_holds() -> None:
    """The sentences of docs/evaluation/cca.md that compare, each by its rows."""

    def both(name: str, test: str, length: str, background: str = "any") -> list[list[float]]:
        found = page_cca.whole(name, test, background)
        ours = page_cca.of_line(found, page_cca.OURS, length)
        return [ours, page_cca.best_deepcci(found, length)]

    for length in page_cca.LENGTHS:
        ours, theirs = both("rows", "heldout", length)
        assert min(ours) > max(theirs), "every seed is above every seed"
        ours, theirs = both("rows", "transfer", length)
        more = fmean(ours) - fmean(theirs)
        assert more < 0.0235 if length in page_cca.SHORTER else more > 0.089
    ours, theirs = both("rows", "heldout", "10ms", "0")
    assert max(ours) < min(theirs), "with no flow beside, DeePCCI is better at 10 ms"
    for length in page_cca.LENGTHS[:-1]:
        ours, theirs = both("gigabit", "gigabit", length)
        assert fmean(ours) < fmean(theirs), "at 1 Gbit/s it is below at every length"


def test_the_card_of_congestion_controls_has_held_out_figures() -> None:
    """Those of the kept rows; the F1 that ended training is not there."""
    card = (ROOT / "models/cca/card.md").read_text(encoding="utf-8")
    shown = {
        row["interval"]: tuple(row[f"F1 on `{place}`"] for place in HELD_OUT)
        for row in page_rows.table_rows(card)
        if "F1 on `heldout`" in row
    }
    f1: dict[str, dict[str, str]] = {}
    for row in page_rows.read(SHIPPED_CCA):
        f1.setdefault(row["section"], {})[row["interval"]] = row["F1"]
    # Where few flows are, no stretch has 60 s.
    assert set(f1["heldout"]) - set(f1["few-heldout"]) == {"60000 ms"}
    kept = {
        length: tuple(f1[place].get(length, "") for place in HELD_OUT) for length in f1["heldout"]
    }
    assert shown == kept and len(kept) == 7
    assert "held out: none of them was used to train the networks, to end training" in card
    # F1 of the runs that ended training.
    assert "0.561" not in card and "0.667" not in card and "0.897" not in card


@pytest.mark.parametrize(
    ("model", "folder"),
    [("services", page_services.SERVICES), ("devices", page_services.DEVICES)],
)
def test_the_card_of_flows_has_the_figures_of_the_sealed_families(model: str, folder: str) -> None:
    """Those of the kept rows, which are of the model that ships."""
    (judged,) = page_services.rows(folder, "sealed", "model")
    assert judged["model"] in page_tables.ids(model), "rows of another model"
    card = (ROOT / "models" / model / "card.md").read_text(encoding="utf-8")
    for table in (page_services.worth(folder), page_services.confidence(folder)):
        wanted = "wanted: the card's figures are those of bench/evaluation/classify/strangers.sh"
        assert table in card, wanted
    assert f"On {judged['flows']} flows of sealed families" in card
    assert f"{judged['foreign']} of them are foreign" in card


NAMED_MODEL = re.compile(r"\b(services|devices|packetlog|cca)@([0-9a-f]{12})\b")


def test_the_model_that_ships_is_one_model() -> None:
    """An id or fingerprint on a page is that of a model under models/, or of one that
    docs/evaluation/README.md lists as older."""
    ships = {named for model in page_tables.MODELS for named in page_tables.ids(model)}
    listed = (ROOT / "docs/evaluation/README.md").read_text(encoding="utf-8")
    older = {found[0] for found in NAMED_MODEL.finditer(listed.partition("## Older models")[2])}
    assert older.isdisjoint(ships)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        named = {found[0] for found in NAMED_MODEL.finditer(page.read_text(encoding="utf-8"))}
        assert named <= ships | older, f"{page}: rows of a model that does not ship, not listed"
    text = (ROOT / "docs/evaluation/cca.md").read_text(encoding="utf-8")
    assert f"`{page_tables.weights('cca')}…`" in text, "the rows are of other networks"


def test_as_shipped_never_stands_for_a_model_that_is_not_there() -> None:
    """Rows of recipes of another day say so."""
    text = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->", "", text)
    assert "as shipped then" in text
    assert re.findall(r"[Aa]s shipped(?! then)", text) == []


def test_the_command_says_what_differs(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "bench/pages/pages.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_tables_of_few_flows_are_those_of_kept_rows() -> None:
    folder = page_rows.RESULTS / "2026-11-30-amd-epyc-2-cores-cca-few"
    assert few.tables(folder) == (folder / "few.md").read_text(encoding="utf-8")
