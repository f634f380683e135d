"""What the pages say of the packet log's forests is what data sets and kept rows say."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from command import ROOT

sys.path.insert(0, str(ROOT / "bench/evaluation/packetlog"))

import by_tool

PAGE = ROOT / "docs/evaluation/packetlog.md"
GUIDE = ROOT / "docs/guide/packetlog.md"
FIRST_ROWS = ROOT / "bench/results/2026-11-22-amd-epyc-2-cores-packetlog"


def tables(text: str) -> list[list[dict[str, str]]]:
    """Each table of a page, a row a mapping from the head's cells."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = [line.strip("|").split("|") for line in block.splitlines()]
        cells = [[cell.strip() for cell in line] for line in lines]
        found.append([dict(zip(cells[0], row, strict=True)) for row in cells[2:]])
    return found


def test_each_held_out_attack_is_said_to_be_what_the_data_sets_make_it() -> None:
    (attacks,) = [rows for rows in tables(PAGE.read_text()) if rows and "in training" in rows[0]]
    said = {row["attack"]: row["in training"] for row in attacks}
    assert said == by_tool.kinds()


def test_attacks_by_other_tools_are_counted_and_scored_from_kept_rows() -> None:
    page = PAGE.read_text()
    kinds = by_tool.kinds()
    recalls = {name: by_tool.recalls(FIRST_ROWS / f"{name}.md") for name in ("heldout", "wide")}
    for kind, meaning in by_tool.KINDS.items():
        mine = [attack for attack, of in kinds.items() if of == kind]
        cells = [meaning, str(len(mine))]
        for of in recalls.values():
            values = [of[attack] for attack in mine]
            found = sum(value >= by_tool.WANTED for value in values)
            cells.append(f"{sum(values) / len(values):.3f} ({found})")
        assert f"| {' | '.join(cells)} |" in page


def test_no_page_says_that_all_held_out_attacks_are_by_other_tools() -> None:
    claim = re.compile(
        r"tools that (training|those|it)\s+(did not have|have none of|has none of)"
        r"|attacks by other tools and in other ways|by tools and in ways that",
        re.IGNORECASE,
    )
    pages = [
        *ROOT.glob("docs/**/*.md"), *ROOT.glob("testbed/**/*.toml"), *ROOT.glob("models/**/*.md"),
        *ROOT.glob("python/wirelens/packetlog/*.py"), ROOT / "README.md",
    ]  # fmt: skip
    assert len(pages) > 50
    found = [str(page.relative_to(ROOT)) for page in pages if claim.search(page.read_text())]
    assert found == []


def rows_of(folder: str, name: str, day: str = "2026-11-23") -> list[dict]:
    path = ROOT / "bench/results" / f"{day}-amd-epyc-2-cores-packetlog-{folder}" / name
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_no_capture_that_strangers_are_judged_on_is_of_a_place_that_trained() -> None:
    rows = rows_of("ships/strangers", "rows.jsonl", "2026-11-26")
    section = (ROOT / "models/packetlog/card.md").read_text().partition("\n## Data\n")[2]
    learned = {line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")}
    assert {"nfstream", "zeek", "andypitcher"} <= learned
    assert {row["source"].partition("/")[0] for row in rows} & learned == set()
    assert len({row["sha1_blob"] for row in rows}) == len(rows) == 446


def test_what_is_said_of_strangers_is_in_the_rows() -> None:
    rows = rows_of("ships/strangers", "rows.jsonl", "2026-11-26")
    found = {row["family"]: row for table in tables(PAGE.read_text()) for row in table
             if "AUC, forest" in row}  # fmt: skip
    shares: dict[str, list[float]] = {}
    of_places: dict[str, list[float]] = {}
    for row in rows:
        share = row["marked"] / row["packets"]
        shares.setdefault(row["label"], []).append(share)
        if row["label"] == "benign":
            of_places.setdefault(row["source"], []).append(share)
    assert set(found) == set(shares) - {"benign"}
    for family, row in found.items():
        mine = shares[family]
        assert row["captures"] == str(len(mine))
        assert row["marked, mean of captures"] == f"{sum(mine) / len(mine):.1%}"
    guide, card = GUIDE.read_text(), (ROOT / "models/packetlog/card.md").read_text()
    means = [sum(mine) / len(mine) for mine in of_places.values()]
    benign = f"{sum(means) / len(means):.1%}".replace("%", " %")
    poor = ("c2", "web_attack", "exploit_lateral", "discovery", "cred_access", "malware")
    areas = sorted(found[family]["AUC by capture"] for family in poor)
    for text in (guide, card):
        assert len(means) == 5 and benign in text, benign
        assert f"{areas[0]} to {areas[-1]}" in text, areas


def area_by_capture(rows: list[dict], label: str, bins_of: Callable[[dict], list[int]]) -> float:
    """Area of captures of a family against benign ones, by the mean bin of their packets."""
    mean = {
        row["sha1_blob"]: sum(at * count for at, count in enumerate(bins_of(row))) / row["packets"]
        for row in rows
    }
    benign = [row for row in rows if row["label"] == "benign"]
    places = Counter(row["source"] for row in benign)
    of_attacks = [mean[row["sha1_blob"]] for row in rows if row["label"] == label]
    found = 0.0
    for row in benign:
        low = mean[row["sha1_blob"]]
        wins = sum((high > low) + (high == low) / 2 for high in of_attacks)
        found += wins / len(of_attacks) / places[row["source"]] / len(places)
    return found


@pytest.mark.parametrize("judge", ["netbeacon", "netbeacon, runs alone"])
def test_netbeacon_has_an_area_by_capture_of_each_family(judge: str) -> None:
    ours = rows_of("ships/strangers", "rows.jsonl", "2026-11-26")
    theirs = rows_of("netbeacon", "rows.jsonl", "2026-11-27")
    assert [(row["sha1_blob"], row["label"], row["source"], row["packets"]) for row in theirs] == [
        (row["sha1_blob"], row["label"], row["source"], row["packets"]) for row in ours
    ]
    (table,) = [table for table in tables(PAGE.read_text()) if table and judge in table[0]
                and "family" in table[0] and "captures" in table[0]]  # fmt: skip
    page = {row["family"]: row for row in table if row["captures"]}
    families = {row["label"] for row in ours} - {"benign"}
    assert set(page) == families

    def bins_of(row: dict) -> list[int]:
        (found,) = [one["bins"] for one in row["judged"] if one["judge"] == judge]
        assert sum(found) == row["packets"]
        return found

    for family in families:
        netbeacon = area_by_capture(theirs, family, bins_of)
        forest = area_by_capture(ours, family, lambda row: row["bins"]["forest"])
        for column, area in ((judge, netbeacon), ("forest", forest)):
            said = float(page[family][column].split()[0])
            assert said == pytest.approx(area, abs=0.0051), (family, column)


def test_netbeacon_is_trained_as_the_model_that_ships_is() -> None:
    facts = rows_of("netbeacon", "training.jsonl", "2026-11-27")
    card = (ROOT / "models/packetlog/card.md").read_text()
    (places,) = [table for table in tables(card) if table and "captures of" in table[0]]
    captures = {row["captures of"]: int(row["captures"]) for row in places}
    runs = ("attacks", "attacks-quiet", "attacks-forged", "services")
    wanted = {
        "netbeacon": sum(captures.values()),
        "netbeacon, runs alone": sum(captures[name] for name in runs),
    }
    model = json.loads((ROOT / "models/packetlog/model.json").read_text())
    assert {fact["judge"] for fact in facts} == set(wanted)
    for fact in facts:
        assert fact["weight"] == model["training"]["weight"]
        assert fact["captures"] == wanted[fact["judge"]]
        assert fact["false_alarms"] <= model["training"]["false_alarms_max"]
        if fact["judge"] == "netbeacon":
            shape = model["training"]["trees"], model["training"]["depth"]
            assert (fact["trees"], fact["depth"]) == shape
            assert set(fact["false_alarms_by_place"]) == set(captures)
        else:
            ships = ROOT / "bench/results/2026-11-26-amd-epyc-2-cores-packetlog-ships"
            chosen = f"netbeacon: weight {fact['weight']:g}, threshold {fact['threshold']:.3f}, "
            assert chosen in (ships / "heldout.md").read_text()


def test_what_the_guide_says_of_the_log_is_measured_on_captures_that_trained_nothing() -> None:
    rows = rows_of("volume", "volume.jsonl")
    mine = [row for row in rows if row["capture"].startswith("services-heldout/")]
    assert len({row["capture"] for row in mine}) == 4
    assert not any(row["capture"].startswith("services/") for row in rows)

    def span(values: list[float]) -> str:
        return f"{min(values):.1%} to {max(values):.1%}".replace("%", "", 1).replace("  ", " ")

    least = [row["log_bytes"] / row["wire_bytes"] for row in mine if row["mode"] == "log-minimum"]
    marked = [row["anomalous"] / row["packets"] for row in mine]
    guide = GUIDE.read_text()
    for values in (least, marked):
        assert span(values).replace("%", " %") in guide, span(values)


def test_what_the_guide_says_of_offloads_is_in_the_rows() -> None:
    guide = GUIDE.read_text()
    for name, wanted in (("rows.jsonl", "1.0 % of the packets"), ("before.jsonl", "were 3.8 %")):
        mine = [row for row in rows_of("offload", name) if row["offloads"]]
        share = sum(row["wire_marked"] for row in mine) / sum(row["wire"] for row in mine)
        assert f"{share:.1%}".replace("%", " %") in wanted and wanted in guide
