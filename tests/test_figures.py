"""Pictures can be read: no bars on log axes, no ticks on each other, no legend on what it explains."""

import csv
import importlib.util
import json
import sys
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MISSING = [name for name in ("matplotlib", "numpy") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(
        bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; bash tools/setup.sh train"
    ),
]
RESULTS = ROOT / "bench" / "results"
BENCH = (
    "", "/speed", "/speed/classify", "/evaluation/classify", "/evaluation/cca", "/pages",
)  # fmt: skip
sys.path[:0] = [*(str(ROOT / f"bench{place}") for place in BENCH), str(ROOT / "testbed")]


def boxes_of(artists, renderer):
    """What is shown, and where."""
    return [
        (artist, artist.get_window_extent(renderer).padded(-1))
        for artist in artists
        if artist.get_visible() and getattr(artist, "get_text", lambda: "shown")()
    ]


def ticks(axis, renderer):
    """Labels that are within the axis; the boxes of slanted ones say nothing."""
    low, high = sorted(axis.get_view_interval())
    some = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    seen = [
        tick.label1
        for tick in some
        if low <= tick.get_loc() <= high and not tick.label1.get_rotation() % 90
    ]
    return boxes_of(seen, renderer) if axis.get_visible() else []


def data_of(axes):
    """Points of lines in pixels, where axes have any."""
    points = []
    for line in axes.get_lines():
        if line.get_transform() == axes.transData:
            points += list(axes.transData.transform(line.get_xydata()))
    return points


def faults(figure):
    """What cannot be read, one line each."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)  # one that is closed has none of its own
    canvas.draw()
    renderer = canvas.get_renderer()
    found = []
    for number, axes in enumerate(figure.axes):
        if not axes.axison:
            continue
        scales = {axes.get_xscale(), axes.get_yscale()}
        if "log" in scales and any(type(one).__name__ == "BarContainer" for one in axes.containers):
            found.append(f"axes {number}: bars on a log axis")
        for axis in (axes.xaxis, axes.yaxis):
            for (one, box), (other, beside) in combinations(ticks(axis, renderer), 2):
                if box.overlaps(beside):
                    found.append(f"axes {number}: ticks {one.get_text()} and {other.get_text()}")
        texts = boxes_of(axes.texts, renderer)
        found += [
            f"axes {number}: {one.get_text()!r} on the axis" for one, box in texts
            if box.y0 < axes.bbox.y0 < box.y1
        ]  # fmt: skip
        for (one, box), (other, beside) in combinations(texts, 2):
            if box.overlaps(beside):
                found.append(f"axes {number}: {one.get_text()!r} on {other.get_text()!r}")
    found += legends_on(figure, renderer)
    return found


def legends_on(figure, renderer):
    """Legends on data, ticks, labels, titles or other text."""
    found = []
    legends = [(axes.get_legend(), axes) for axes in figure.axes if axes.get_legend()]
    legends += [(legend, None) for legend in figure.legends]
    for (one, _), (other, _) in combinations(legends, 2):
        if one.get_window_extent(renderer).overlaps(other.get_window_extent(renderer)):
            found.append("legends on each other")
    for legend, own in legends:
        box = legend.get_window_extent(renderer).padded(-1)
        for number, axes in enumerate(figure.axes):
            if not axes.axison:
                continue
            texts = boxes_of(
                [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts], renderer
            )
            texts += ticks(axes.xaxis, renderer) + ticks(axes.yaxis, renderer)
            for text, other in texts:
                if box.overlaps(other):
                    found.append(f"axes {number}: legend on {text.get_text()!r}")
            if axes is not own and own is not None and axes.bbox.bounds == own.bbox.bounds:
                continue
            if any(box.contains(*point) for point in data_of(axes)):
                found.append(f"axes {number}: legend on data")
            is_filled = own is axes and bool(axes.collections or axes.containers)
            if is_filled and box.overlaps(axes.bbox.padded(-1)):
                found.append(f"axes {number}: legend over filled axes")
    return found


@pytest.fixture
def drawn(monkeypatch):
    """Every figure that is saved, beside its file."""
    from matplotlib.figure import Figure

    found, save = [], Figure.savefig

    def kept(figure, *arguments, **options):
        found.append(figure)
        return save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", kept)
    return found


def test_each_fault_is_found():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    axes.bar([0, 1], [1, 100])
    assert faults(figure) == []
    axes.set_yscale("log")
    assert faults(figure) == ["axes 0: bars on a log axis"]
    figure, axes = pyplot.subplots(figsize=(2, 2))
    axes.plot([0, 1], [0, 1], label="a line that has a long name")
    axes.set_xticks([0, 0.1, 1], ["first of all", "second", "third"])
    assert faults(figure) == ["axes 0: ticks first of all and second"]
    axes.set_xticks([])
    axes.legend(loc="center")
    axes.plot([0.5], [0.5], ".")
    assert "axes 0: legend on data" in faults(figure)
    figure, axes = pyplot.subplots()
    axes.stackplot([0, 1], [1, 1], labels=["all"])
    axes.legend(loc="upper right")
    assert faults(figure) == ["axes 0: legend over filled axes"]
    figure, axes = pyplot.subplots()
    axes.plot([0, 1], [0, 1], label="one")
    axes.set_xlabel("x" * 40)
    figure.legend(loc="lower center")
    assert "axes 0: legend on " in faults(figure)[0]
    pyplot.close("all")


@pytest.mark.parametrize("folder", sorted({path.parent for path in RESULTS.glob("*/*.png")}),
                         ids=lambda path: path.name)  # fmt: skip
def test_pictures_of_benchmarks(folder, drawn, tmp_path):
    import plots

    runs = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    plots.draw_all(runs, json.loads((folder / "environment.json").read_text()), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in folder.glob("*.png")} and len(drawn) == len(names)
    for figure in drawn:
        assert faults(figure) == []


def test_a_picture_shows_the_spread_of_runs(drawn, tmp_path):
    """A median of 13.2 amid runs of 2.3 to 23.5 is no figure by itself."""
    import plots

    folder = RESULTS / "2026-11-22-amd-epyc-2-cores"
    runs = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    plots.draw_all(runs, json.loads((folder / "environment.json").read_text()), tmp_path)
    texts = [text.get_text() for figure in drawn for axes in figure.axes for text in axes.texts]
    assert "13.2 (2.28–23.5)" in texts
    labels = [one.get_text() for figure in drawn for axes in figure.axes
              for one in axes.get_yticklabels()]  # fmt: skip
    assert "paper's design, count, 1 replica" in labels and not any("r=" in one for one in labels)


def test_pictures_of_congestion_controls():
    import quality_plots

    found = quality_plots.figures()
    assert {f"{name}.png" for name in found} == {
        path.name for path in (ROOT / "docs/guide/images").glob("cca-*.png")
    } - {"cca-queue.png", "cca-act-wrong-names.png"}
    for name, figure in found.items():
        assert faults(figure) == [], name


def test_a_picture_of_what_wrong_names_cost(drawn, tmp_path):
    import act_picture

    rows = RESULTS / "2026-11-27-amd-epyc-2-cores-cca-act/act.jsonl"
    act_picture.draw([json.loads(line) for line in rows.read_text().splitlines()], tmp_path)
    assert len(drawn) == 1 and faults(drawn[0]) == []


def test_pictures_of_classification_under_load(drawn, tmp_path):
    import loads_table

    folder = RESULTS / "2026-11-22-amd-epyc-2-cores-classify-loads"
    for name in ("runs.jsonl", "environment.json", "costs.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    loads_table.write(tmp_path)
    assert len(drawn) == 2
    for figure in drawn:
        assert faults(figure) == []


def test_pictures_of_curves_and_waiting(drawn, tmp_path):
    import paper_plots

    results = RESULTS / "2026-11-22-classify-paper"
    paper_plots.draw_assignment(results, tmp_path / "a.png")
    paper_plots.draw_waiting(results, tmp_path / "w.png")
    for figure in drawn:
        assert faults(figure) == []
    assert not any("/" in text.get_text() for text in drawn[0].legends[0].get_texts())


def test_the_picture_of_a_queue(drawn, tmp_path):
    from wirelens_testbed import plot

    plot.plot(ROOT / "testdata/testbed/congestion", tmp_path / "queue.png")
    (figure,) = drawn
    assert faults(figure) == []


def test_pictures_of_the_packet_log(drawn, tmp_path):
    from wirelens.packetlog import plots
    from wirelens.packetlog.measure import Part

    folder = RESULTS / "2026-11-22-amd-epyc-2-cores-packetlog"
    lines = (folder / "heldout.jsonl").read_text().splitlines()
    made = [Part(**json.loads(line)) for line in lines]
    judges = sorted(made[0].marked)
    plots.recalls(made, [judges[0]], judges[1:3], tmp_path)
    plots.kept(made, judges, tmp_path)
    plots.importance({f"column_{at}": 1 / (at + 1) for at in range(12)}, tmp_path)
    assert len(drawn) == 3
    for figure in drawn:
        assert faults(figure) == []


def test_pictures_of_training(drawn, tmp_path):
    """On made-up results of every shape that training may have: many families, close latencies."""
    import numpy
    from wirelens.classify import plots
    from wirelens.classify.place import Candidate, Placement
    from wirelens.classify.thresholds import Curve

    kept = RESULTS / "2026-11-22-classify-paper/testbed/models.tsv"
    with kept.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    columns = ("macro_f1", "weighted_f1", "alone_us", "batch_us")
    tried = [
        Candidate(row["family"], int(row["packets"]), *(float(row[name]) for name in columns),
                  float(row["waiting_mean_ms"]) * 1e3)
        for row in rows
    ]  # fmt: skip
    chosen = {(one.family, one.packets): one for one in tried}
    stages = [
        ("fastest", chosen["port-table", 1]),
        ("fast", chosen["lightgbm", 1]),
        ("slow", chosen["lightgbm", 10]),
    ]
    plots.front(tried, Placement(stages), tmp_path)
    names = [f"class-{at}" for at in range(21)]
    counts = numpy.eye(21, dtype=int) * 12_345 + 3
    plots.confusion(counts, names, "what is confused", tmp_path)
    portions = numpy.linspace(0, 1, 11)
    curves = [
        Curve(name, portions, portions, portions / 2 + 0.4, portions / 2 + 0.4)
        for name in ("oracle", "least-confidence, universal", "entropy, per-class", "random")
    ]
    plots.assignment("fast to slow", curves, 0.3, tmp_path, "assignment.png")
    assert len(drawn) == 3
    for figure in drawn:
        assert faults(figure) == []
