"""Tables of docs/evaluation/services.md, from rows of `bench/evaluation/classify/strangers.sh`.

Cells are as `wirelens eval classify` writes them, so that a card that it wrote can be compared.
"""

from collections.abc import Sequence

from page_rows import Missing, Row, chosen, number, read

SERVICES = "2026-11-23-services-strangers"
DEVICES = "2026-11-23-devices-units"
WORTH = ("named", "right_of_named", "right_of_all", "macro_f1", "foreign_named")
WORTH_HEAD = ("named [95 %]", "right of named", "right of all", "macro-F1", "foreign flows named")
SETS = {
    "sealed": "sealed families of the training's captures",
    "sentinel": "devices being set up in a laboratory (IoT Sentinel)",
    "home": "a smart home of 14 devices",
    "place": "cameras, locks and hubs of another place",
    "attacks": "attacks, with the benign traffic around them",
    "formats": "captures that show file formats and link types",
}
CATEGORIES = "2026-11-25-categories"
NAMES_MAX = 3
"""Names that a cell of foreign flows lists."""


def rows(folder: str, name: str, kind: str) -> list[Row]:
    found = chosen(read(f"{folder}/{name}.jsonl"), {"kind": kind})
    if not found:
        raise Missing(f"{folder}/{name}.jsonl: no row of kind {kind}")
    return found


def figure(row: Row, name: str) -> str:
    """A figure, with its interval where the row has one."""
    if row[name] is None:
        return "–"
    text = f"{row[name]:.3f}"
    has_interval = f"{name}_low" in row
    return f"{text} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]" if has_interval else text


def grid(head: Sequence[str], lines: Sequence[Sequence[str]], texts: int = 1) -> str:
    """Markdown; the first columns are texts and the rest are figures."""
    rules = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rules, *lines))


def worth(folder: str = SERVICES) -> str:
    """What names are worth on the sealed families, compared with tables that know no packet."""
    found = rows(folder, "sealed", "worth")
    lines = [[str(row["system"]), *(figure(row, name) for name in WORTH)] for row in found]
    return grid(["", *WORTH_HEAD], lines)


RUNS = ("1", "11", "12")
WHERE = {"sealed": "sealed families"} | {f"testbed-{run}": f"testbed, seed {run}" for run in RUNS}
"""Files of the model of names, and which flows each is of."""


def categories() -> str:
    """The model of names on sealed families and on the testbed, compared with known ports."""
    kinds = {"cascade": "every flow named", "boosted-ports/3": "last stage alone",
             "port-prior/1": "first stage alone, names at the first packet"}  # fmt: skip
    lines = []
    for name, where in WHERE.items():
        wanted = ("this cascade", "table of known ports (known-ports.tsv)")
        for row in rows(CATEGORIES, name, "worth"):
            if row["system"] in wanted or str(row["system"]).startswith("majority"):
                # One run is one family: it has no interval.
                cells = [figure(row, one) if name == "sealed" else f"{row[one]:.3f}"
                         for one in WORTH[:4]]  # fmt: skip
                lines.append([where, str(row["system"]), *cells])
        for row in rows(CATEGORIES, name, "system"):
            f1 = figure(row, "macro_f1") if name == "sealed" else f"{row['macro_f1']:.3f}"
            lines.append([where, kinds[str(row["system"])], "1.000", "", "", f1])
    return grid(["flows", "", *WORTH_HEAD[:4]], lines, texts=2)


def category_classes() -> str:
    """F1 of each class by run of the testbed, where truth is known."""
    by_run = [rows(CATEGORIES, f"testbed-{run}", "class") for run in RUNS]
    lines = []
    for found in zip(*by_run, strict=True):
        if found[0]["flows"]:
            flows = str(sum(row["flows"] for row in found))
            lines.append([str(found[0]["class"]), flows, *(f"{row['f1']:.3f}" for row in found)])
    return grid(["class", "flows", *(f"F1, seed {run}" for run in RUNS)], lines)


def confidence(folder: str = SERVICES) -> str:
    """How often guesses of each confidence are right."""
    lines = [
        [f"{row['low']:.2f} to {row['high']:.2f}", str(row["flows"]), figure(row, "mean"),
         figure(row, "right")]
        for row in rows(folder, "sealed", "confidence")
    ]  # fmt: skip
    return grid(["confidence of the guess", "flows", "mean", "right"], lines)


def systems() -> str:
    """The cascade compared with each of its models alone."""
    lines = [
        [str(row["system"]), figure(row, "macro_f1"), f"{row['weighted_f1']:.3f}"]
        for row in rows(SERVICES, "sealed", "system")
    ]
    return grid(["", "macro-F1 [95 %]", "weighted F1"], lines)


def stages() -> str:
    """What each stage decides."""
    lines = [
        [str(row["stage"]), str(row["model"]),
         *(f"{row[name]:.1%}" for name in ("reached", "decided", "right_of_decided"))]
        for row in rows(SERVICES, "sealed", "stage")
    ]  # fmt: skip
    head = ["stage", "model", "flows that reach it", "decided", "right of decided"]
    return grid(head, lines, texts=2)


def classes() -> str:
    """Precision, recall and F1 of each class that the sealed families have."""
    lines = [
        [str(row["class"]), str(row["flows"]),
         *(f"{row[name]:.3f}" for name in ("precision", "recall", "f1"))]
        for row in rows(SERVICES, "sealed", "class")
        if row["flows"]
    ]  # fmt: skip
    return grid(["class", "flows", "precision", "recall", "F1"], lines)


def foreign() -> str:
    """Foreign flows that get a name, and known flows that get the right one, by data set."""
    lines = []
    for name, label in SETS.items():
        file = name if name == "sealed" else f"foreign-{name}"
        (model,) = rows(SERVICES, file, "model")
        (flows,) = rows(SERVICES, file, "foreign")
        ours, ports = rows(SERVICES, file, "worth")[:2]
        known = int(number(model["flows"])) - int(number(model["foreign"]))
        most = sorted(flows["names"], key=lambda one: -flows["names"][one])
        named = ", ".join(most[:NAMES_MAX]) + (", …" if len(most) > NAMES_MAX else "")
        sure = f"{flows['sure'] / flows['flows']:.3f}" if flows["flows"] else "–"
        share = f"{ours['foreign_named']:.3f}" if flows["flows"] else "–"
        of_ports = f"{ports['foreign_named']:.3f}" if flows["flows"] else "–"
        lines.append([
            label, f"{flows['flows']:,}", share, sure, of_ports, named, f"{known:,}",
            f"{ours['right_of_all']:.3f}", f"{ports['right_of_all']:.3f}",
        ])  # fmt: skip
    head = [
        "captures", "foreign flows", "named", "named with 0.9 or more", "named by known ports",
        "as", "known flows", "right of all", "right by known ports",
    ]  # fmt: skip
    return grid(head, lines)
