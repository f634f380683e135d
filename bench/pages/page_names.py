"""Tables of docs/evaluation/names.md, from rows of `bench/evaluation/classify/names.py`."""

from statistics import mean

from page_rows import Missing, Row, chosen, read
from page_services import grid

FOLDER = "2026-11-25-services-names"
RUNGS = {
    "majority class": "majority class",
    "port list": "1 port list, learned",
    "known ports": "2 known ports",
    "ports and first bytes": "3 ports, sizes and first bytes of 3 packets",
    "names alone, no list": "4 names alone, without the list",
    "names alone": "4 names alone",
    "all, no list": "5 all, without the list",
    "all": "**5 all**",
    "all, and weights of words": "5 all, and weights of words",
    "all, from known ports": "5 all, but first bytes",
    "all, from both models": "5 all, from the models of 2 and 3",
    "all, LightGBM": "5 all, by LightGBM",
}
BRIEF = ("known ports", "ports and first bytes", "names alone", "all")
BRIEF_HEAD = ("known ports", "ports and bytes", "names alone", "all")
SETS = {
    "attacks": "attacks, with benign traffic",
    "formats": "file formats and link types",
    "home": "a smart home of 14 devices",
    "place": "cameras, locks and hubs",
    "sentinel": "devices being set up",
    "services, no label": "the training's captures",
}


def rows(name: str, **where: object) -> list[Row]:
    found = chosen(read(f"{FOLDER}/{name}.jsonl"), where)
    if not found:
        raise Missing(f"{FOLDER}/{name}.jsonl: no row of {where}")
    return found


def over(found: list[Row], name: str) -> float:
    """The mean over divisions."""
    return mean(float(row[name] or 0) for row in found)


def share(part: float, whole: float) -> str:
    return f"{part / whole:.3f}" if whole else "–"


def ladder(name: str = "ladder") -> str:
    """Every rung; means over divisions into folds."""
    lines = []
    for rung, title in RUNGS.items():
        if name == "sealed" and rung == "majority class":
            continue
        found = rows(name, kind="rung", rung=rung)
        f1, low, high = (over(found, one) for one in ("macro_f1", "low", "high"))
        has_names = rung not in ("majority class", "all, LightGBM")
        told = [f"{over(found, one):.3f}" if has_names else "–"
                for one in ("named", "right_of_named", "sure", "right_of_sure")]  # fmt: skip
        lines.append([title, f"{f1:.3f} [{low:.3f}, {high:.3f}]",
                      f"{over(found, 'right'):.3f}", *told])  # fmt: skip
    lines.append(["nDPI, the source of the labels", "1 by definition", "1", "1", "1", "–", "–"])
    return grid(["", "macro-F1 [95 %]", "right of all", "named", "right of named",
                 "named with 0.9 or more", "right of these"], lines)  # fmt: skip


def classes(name: str = "ladder") -> str:
    """F1 of each class."""
    lines = []
    for one in sorted({row["class"] for row in rows(name, kind="class")}):
        found = [rows(name, kind="class", rung=rung, **{"class": one}) for rung in BRIEF]
        figures = [over(each, "f1") for each in found]
        figures += [over(found[-1], key) for key in ("precision", "recall")]
        lines.append([str(one), str(found[0][0]["flows"]), *(f"{each:.3f}" for each in figures)])
    return grid(["class", "flows", *BRIEF_HEAD, "precision of all", "recall of all"], lines)


def origins() -> str:
    """Macro-F1 and share right by who made the captures."""
    every = rows("ladder", kind="origin", rung="all", division=1)
    lines = []
    for row in sorted(every, key=lambda one: -one["flows"]):
        found = [rows("ladder", kind="origin", rung=rung, origin=row["origin"]) for rung in BRIEF]
        lines.append([str(row["origin"]), str(row["flows"]), str(row["classes"]),
                      *(f"{over(each, 'macro_f1'):.3f}" for each in found),
                      f"{over(found[-1], 'right'):.3f}"])  # fmt: skip
    return grid(["captures of", "flows", "classes", *BRIEF_HEAD, "right, all"], lines)


def foreign() -> str:
    """Captures of other places: what names are worth there."""
    lines = []
    for name, title in SETS.items():
        ports, ours = ({row["group"]: row for row in rows("foreign", set=name, rung=rung)}
                       for rung in ("known ports", "all"))  # fmt: skip
        known, other, none = ours["known"], ours["foreign"], ours["no label"]
        lines.append([
            title, f"{known['flows']:,}", share(ports["known"]["right"], known["flows"]),
            share(known["right"], known["flows"]), share(known["named"], known["flows"]),
            share(known["right_of_named"], known["named"]), f"{other['flows']:,}",
            share(other["sure"], other["flows"]),
            share(other["sure"] - other["right_of_sure"], other["flows"]),
            f"{none['flows']:,}", share(none["sure"], none["flows"]),
        ])  # fmt: skip
    return grid(["captures", "flows of known labels", "right, known ports", "right, all", "named",
                 "right of named", "flows of other labels", "named with 0.9 or more",
                 "… and wrong", "flows without a label", "named with 0.9 or more"],
                lines)  # fmt: skip


def parts() -> str:
    """The rung of all without one kind of entry of the list."""
    titles = {"": "the whole list", "protocol": "without protocols", "suffix": "without suffixes",
              "label": "without labels", "query": "without the query of DNSCrypt"}  # fmt: skip
    lines = []
    for kind, title in titles.items():
        found = rows("parts", kind="rung", without=kind)
        each = [rows("parts", kind="class", without=kind, **{"class": one})
                for one in ("infra", "social_chat", "streaming", "web")]  # fmt: skip
        value, low, high = (over(found, one) for one in ("macro_f1", "low", "high"))
        lines.append([title, f"{value:.3f} [{low:.3f}, {high:.3f}]",
                      *(f"{over(one, 'f1'):.3f}" for one in each)])  # fmt: skip
    return grid(["", "macro-F1 [95 %]", "infra", "social_chat", "streaming", "web"], lines)


def listed() -> str:
    """Hosts of each set that the list has."""
    own = {"services": "the training's captures, not sealed", "sealed": "sealed families"}
    titles = {**own, **SETS}
    found = [*rows("foreign", kind="list"), *rows("sealed", kind="list")]
    by_set = {row["set"]: row for row in found if row["hosts"]}
    lines = [[title, str(by_set[name]["hosts"]),
              *(share(by_set[name][key], by_set[name]["hosts"]) for key in ("suffix", "label"))]
             for name, title in titles.items() if name in by_set]  # fmt: skip
    return grid(["captures", "hosts", "a suffix is in the list", "a label is"], lines)


def left_out() -> str:
    """Flows of a class of which nothing was known."""
    lines, sums = [], {rung: [0, 0, 0] for rung in ("known ports", "ports and first bytes", "all")}
    for one in sorted({row["class"] for row in rows("left-out", kind="left-out")}):
        cells, names = [], dict[str, int]()
        for rung, total in sums.items():
            found = rows("left-out", rung=rung, **{"class": one})
            counts = [sum(row[key] for row in found) for key in ("flows", "named", "sure")]
            sums[rung] = [a + b for a, b in zip(total, counts, strict=True)]
            cells += [share(counts[2], counts[0])] + ([share(counts[1], counts[0])]
                                                      if rung == "all" else [])  # fmt: skip
            names = {}
            for row in found:
                for name, count in row["names"].items():
                    names[name] = names.get(name, 0) + count
        most = sorted(names, key=lambda name: -names[name])[:3]
        lines.append([str(one), str(counts[0]), *cells, ", ".join(most)])
    ports, first, ours = sums.values()
    lines.append(["**all classes**", str(ours[0]), share(ports[2], ports[0]),
                  share(first[2], first[0]), share(ours[2], ours[0]), share(ours[1], ours[0]),
                  ""])  # fmt: skip
    return grid(["class left out", "flows", "known ports, 0.9 or more",
                 "ports and bytes, 0.9 or more", "all, 0.9 or more", "all, named", "as"],
                lines)  # fmt: skip


def splits() -> str:
    """Macro-F1 without names, by what is on one side of the split."""
    titles = {"flow": "flows (leaky)", "capture": "captures", "family": "families"}
    cases = (("port list", 1), ("known ports", 1), ("ports and first bytes", 1),
             ("ports and first bytes", 3))  # fmt: skip
    lines = []
    for split, title in titles.items():
        cells = [title]
        for rung, packets in cases:
            found = rows("splits", split=split, rung=rung, packets=packets)
            value, low, high = (over(found, one) for one in ("macro_f1", "low", "high"))
            cells.append(f"{value:.3f} [{low:.3f}, {high:.3f}]")
        lines.append(cells)
    return grid(["folds of", "port list", "known ports", "ports and first bytes, 1 packet",
                 "ports and first bytes, 3 packets"], lines)  # fmt: skip


def parameters() -> str:
    """The numbers of the formula, of a model of all flows that are not sealed."""
    (found,) = rows("sealed", kind="parameters")
    of = found["rungs"]["all"]
    lines = [[f"`a[{name}]`", f"{value:.2f}"] for name, value in of["a0"].items()]
    lines += [[f"`k[{name}]`", f"{value:.2f}"] for name, value in of["k"].items()]
    lines += [[f"`b[{name}]`", f"{value:.2f}"] for name, value in of["b"].items()]
    shown = [[name, value.replace("-", "−")] for name, value in lines]
    return grid(["parameter", "value"], shown)
