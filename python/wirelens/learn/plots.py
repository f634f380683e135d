"""What all figures of evaluations share: colours, style, and how a figure becomes a file."""

import io
from pathlib import Path
from typing import Any

from wirelens import compat, written

# Told apart by people who see colours differently (Okabe and Ito).
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000"]
_DPI = 150
STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "font.size": 9,
}


def need_library() -> tuple[Any, Any]:
    """matplotlib, drawing to files whether or not there is a screen, and its figures."""
    library = compat.need("matplotlib", "--plots")
    library.use("Agg")
    return library, compat.need("matplotlib.figure", "--plots")


def save(figure: Any, folder: Path, name: str) -> Path:
    """Writes a figure as PNG; the file has its name when it is complete."""
    path = folder / name
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=_DPI, bbox_inches="tight")
    written.data(path, drawn.getvalue())
    return path
