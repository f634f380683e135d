"""Held-out attacks by what training had of their tool: `by_tool.py REPORT.md...`.

A report is what `wirelens eval packetlog` writes of the runs of the data set `attacks-heldout` for
models that were trained on those of `attacks` (testbed/datasets). Prints two tables: attacks
with their tools, and the mean recall of each kind of attack in each report.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "testbed"))

from wirelens_testbed.attacks import plan  # noqa: E402

OTHER, SAME, PARAMETERS = "other tool", "same tool", "same attack"
KINDS = {
    OTHER: "by a tool that training has no attack of",
    SAME: "by a tool of training, another attack",
    PARAMETERS: "an attack of training, other parameters",
}
WANTED = 0.85


def tools(data_set: str) -> dict[str, str]:
    """Of each attack of a data set of the testbed its tool."""
    path = ROOT / "testbed/datasets" / f"{data_set}.toml"
    scenario = path.parent / tomllib.loads(path.read_text())["scenario"]
    return plan.tools(tomllib.loads(scenario.read_text()))


def kinds() -> dict[str, str]:
    """Of each held-out attack what training has of it: its tool, itself, or neither."""
    learned = tools("attacks")
    return {
        name: PARAMETERS if name in learned else SAME if tool in learned.values() else OTHER
        for name, tool in tools("attacks-heldout").items()
    }


def recalls(report: Path) -> dict[str, float]:
    """Of each attack the recall, the mean over models where there are several."""
    section = report.read_text().partition("\n## Attacks\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {line[0]: float(line[2].split()[0]) for line in cells}


def main() -> None:
    reports = [Path(name) for name in sys.argv[1:]]
    by_attack, by_tool = kinds(), tools("attacks-heldout")
    found = {report.stem: recalls(report) for report in reports}
    print("| held-out attack | tool | in training |", *(f" {name} |" for name in found), sep="")
    print("|---|---|---|" + "---:|" * len(found))
    for attack in sorted(by_attack, key=lambda name: (list(KINDS).index(by_attack[name]), name)):
        shown = [f"{of[attack]:.3f}" for of in found.values()]
        print(f"| {' | '.join([attack, by_tool[attack], by_attack[attack], *shown])} |")
    print()
    print("| held-out attacks | count |", *(f" {name}: mean recall (to 0.85) |" for name in found),
          sep="")  # fmt: skip
    print("|---|---:|" + "---:|" * len(found))
    for kind, meaning in KINDS.items():
        mine = [attack for attack, of in by_attack.items() if of == kind]
        cells = [meaning, str(len(mine))]
        for of in found.values():
            values = [of[attack] for attack in mine]
            cells.append(f"{sum(values) / len(values):.3f} ({sum(v >= WANTED for v in values)})")
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
