"""The ladder of docs/evaluation/names.md, from kept rows.

    .venv/bin/python bench/pages/names_plot.py docs/guide/images
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from page_names import over, rows

RUNGS = {
    "port list": "port list, learned",
    "known ports": "known ports",
    "ports and first bytes": "ports, sizes, first bytes",
    "names alone, no list": "names alone, no list",
    "names alone": "names alone",
    "all, no list": "all, no list",
    "all": "all",
}
OURS, BASE, TARGET = "#0b7a75", "#8fa3ad", "#b5483a"
# What was set as a goal, without names and with them.
GOALS = {"without names": 0.67, "with names": 0.80}


def main() -> None:
    """Draws it into the folder that the command line names."""
    figure, axes = plt.subplots(figsize=(7.5, 3.4))
    for place, (rung, _) in enumerate(RUNGS.items()):
        found = rows("ladder", kind="rung", rung=rung)
        value, low, high = (over(found, name) for name in ("macro_f1", "low", "high"))
        colour = OURS if rung.startswith(("all", "names")) else BASE
        axes.barh(place, value, color=colour, height=0.62)
        axes.plot([low, high], [place, place], color="black", linewidth=1)
        axes.text(0.01, place, f"{value:.3f}", va="center", color="white", fontsize=9)
    for (name, goal), side in zip(GOALS.items(), ("right", "left"), strict=True):
        axes.axvline(goal, color=TARGET, linewidth=0.9, linestyle="--")
        text = f" goal {name}, {goal:.2f} "
        axes.text(goal, -0.7, text, color=TARGET, fontsize=8, ha=side)
    axes.set_yticks(range(len(RUNGS)), RUNGS.values())
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("macro-F1 of 12 classes on held-out families (line: 95 % interval)")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    path = Path(sys.argv[1]) / "names-ladder.png"
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    main()
