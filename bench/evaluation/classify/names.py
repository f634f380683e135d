"""The ladder of docs/evaluation/names.md: what names add to ports and first bytes.

    python bench/evaluation/classify/names.py ladder DATA FOLDER
    python bench/evaluation/classify/names.py foreign DATA FOLDER --labels LABELS
    python bench/evaluation/classify/names.py left-out DATA FOLDER
    python bench/evaluation/classify/names.py splits DATA FOLDER
    python bench/evaluation/classify/names.py parts DATA FOLDER
    python bench/evaluation/classify/names.py model DATA FOLDER
    python bench/evaluation/classify/names.py sealed DATA FOLDER

DATA has `services`, `attacks`, `formats` and `devices`. All but the last read no capture of the
families that are sealed (a fifth, by a hash of their names). Into FOLDER:

- ladder.jsonl, answers.tsv: families cross-validated in five folds, three divisions; answers of the
  first division by flow
- foreign.jsonl: captures of other places, with LABELS/SET.tsv by `ndpi_labels.py`; and flows of
  `services` for which nDPI has no label
- left-out.jsonl: flows of a class of which nothing was known, neither flows nor ports nor names
- splits.jsonl: rungs without names where flows, captures or families are on one side
- base.trees.jsonl, evidence.json, model.jsonl: a model of all flows that are not sealed, and flows
  with all that leads to their answers
- parts.jsonl: the rung of all without one kind of entry of the list
- sealed.jsonl: the families that are sealed, once, after all choices
"""

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
from names_evidence import CARRIERS, KINDS, STATES, NameList, evidence
from names_flows import PACKETS, Flows, of_others, of_services
from names_ladder import BASES, LIST, MIXED, RUNGS, TREES, Answers, KnownNames, NamesTask
from names_model import FLOOR
from wirelens.classify.split import folds
from wirelens.learn.metrics import Array, class_f1, class_results, confusion, family_interval

DIVISIONS = (1, 2, 3)
# Of so many flows one is kept with all that leads to its answer.
VECTOR_EVERY = 20
FOLDS = 5
SURE = 0.9
SHIPPED = "all"
SETS = {"attacks": "attacks", "formats": "formats", "home": "devices/madea",
        "place": "devices/tjoconnor", "sentinel": "devices/sentinel"}  # fmt: skip
# Labels that no training flow has, by the category that nDPI gives them.
CATEGORIES = {"BACnet": "iot_ics", "TuyaLP": "iot_ics", "Service_Location_Protocol": "infra",
              "Radius": "infra", "PTPv2": "infra", "PFCP": "infra", "IP_OSPF": "infra",
              "IP_PIM": "infra", "GRE": "remote_vpn", "VXLAN": "remote_vpn", "AH": "remote_vpn",
              "ESP": "remote_vpn"}  # fmt: skip
Row = dict[str, Any]


def labelled(data: Path, sealed: bool) -> tuple[Flows, Array, list[str]]:
    """Flows with a class, the class of each, and the classes."""
    every = of_services(data / "services", sealed)
    flows = every.of(row for row, name in enumerate(every.classes) if name)
    classes = sorted(set(flows.classes))
    return flows, numpy.array([classes.index(name) for name in flows.classes]), classes


def judged(rung: str, division: int, flows: Flows, labels: Array, classes: list[str],
           found: tuple[Array, Array, Array]) -> Iterator[Row]:  # fmt: skip
    """Figures of a rung: guesses, confidences, and whether a name is shown."""
    guesses, confidences, named = found
    count = len(classes)
    head = {"rung": rung, "division": division}
    f1 = family_interval(labels, guesses, flows.families, count)
    is_right = guesses == labels
    sure = confidences >= SURE
    yield {
        "kind": "rung", **head, "flows": len(flows), "families": len(set(flows.families)),
        "macro_f1": f1.value, "low": f1.low, "high": f1.high, "right": float(is_right.mean()),
        "named": float(named.mean()), "right_of_named": float(is_right[named].mean()),
        "sure": float(sure.mean()),
        "right_of_sure": float(is_right[sure].mean()) if sure.any() else None,
    }  # fmt: skip
    for one in class_results(confusion(labels, guesses, count), classes):
        yield {"kind": "class", **head, "class": one.name, "flows": one.flows,
               "precision": one.precision, "recall": one.recall, "f1": one.f1}  # fmt: skip
    for origin in sorted(set(flows.origins)):
        mine = numpy.array([name == origin for name in flows.origins])
        counts = confusion(labels[mine], guesses[mine], count)
        there = counts.sum(axis=1) > 0
        yield {"kind": "origin", **head, "origin": origin, "flows": int(mine.sum()),
               "classes": int(there.sum()), "macro_f1": float(class_f1(counts)[there].mean()),
               "right": float(is_right[mine].mean())}  # fmt: skip


def ladder(data: Path, folder: Path) -> Iterator[Row]:
    """Every rung on the same flows."""
    flows, labels, classes = labelled(data, sealed=False)
    known = KnownNames.of(classes)
    found = [evidence(said, known.listed) for said in flows.names]
    states = Counter((one.state, one.state != "none" and one.known[-1][1]) for one in found)
    yield {"kind": "flows", "flows": len(flows), "families": len(set(flows.families)),
           "states": Counter(one.state for one in found), "of": {f"{s} {c}": n for (s, c), n in
           states.items()}}  # fmt: skip
    counts = numpy.bincount(labels)
    most = numpy.full(len(flows), int(counts.argmax()))
    everything = numpy.ones(len(flows), dtype=bool)
    told = (most, numpy.full(len(flows), counts.max() / len(flows)), everything)
    yield from judged("majority class", 1, flows, labels, classes, told)
    for division in DIVISIONS:
        told = {rung: (labels * 0, labels * 0.0, ~everything) for rung in RUNGS}
        for number, rows in enumerate(folds(labels, flows.families, FOLDS, division)):
            rest = numpy.delete(numpy.arange(len(flows)), rows)
            asked = NamesTask(flows.of(rest), labels[rest], flows.of(rows), known)
            for rung in RUNGS:
                _put(told[rung], rows, asked.answers(rung))
            yield {"kind": "parameters", "division": division, "fold": number,
                   "rungs": asked.parameters}  # fmt: skip
            print(f"division {division}, fold {number + 1} of {FOLDS}", file=sys.stderr)
        for rung in RUNGS:
            yield from judged(rung, division, flows, labels, classes, told[rung])
        if division == DIVISIONS[0]:
            _keep(folder / "answers.tsv", flows, classes, told)


def _put(told: tuple[Array, Array, Array], rows: Array, answers: Answers) -> None:
    told[0][rows] = answers.guesses
    told[1][rows] = answers.confidences
    told[2][rows] = answers.confidences >= answers.below


def _keep(path: Path, flows: Flows, classes: list[str],
          told: dict[str, tuple[Array, Array, Array]]) -> None:  # fmt: skip
    """Answers by flow."""
    kept = ("known ports", "ports and first bytes", "names alone", SHIPPED)
    with path.open("w", newline="", encoding="utf-8") as text:
        table = csv.writer(text, delimiter="\t", lineterminator="\n")
        table.writerow(["capture", "family", "class", "label", "protocol",
                        *(word for rung in kept for word in (rung, "confidence"))])  # fmt: skip
        for row in range(len(flows)):
            cells = [flows.captures[row], flows.families[row], flows.classes[row],
                     flows.labels[row], flows.names[row]["app_protocol"]]  # fmt: skip
            for rung in kept:
                guess, confidence, _ = (one[row] for one in told[rung])
                cells += [classes[guess], f"{confidence:.3f}"]
            table.writerow(cells)


def listed(name: str, flows: Flows, known: KnownNames) -> Row:
    """How many of the hosts that TLS, QUIC and HTTP name are in the list."""
    hosts = {said["server_name"].lower(): evidence(said, known.listed) for said in flows.names
             if said["app_protocol"] in CARRIERS and "." in said["server_name"]}  # fmt: skip
    hosts = {host: one for host, one in hosts.items() if host.rpartition(".")[2].isalpha()}
    states = Counter(one.state for one in hosts.values())
    return {"kind": "list", "set": name, "hosts": len(hosts), "suffix": states["suffix"],
            "label": states["label"]}  # fmt: skip


def class_by_label(flows: Flows) -> dict[str, str]:
    """The class that most training flows of a label have."""
    counts: dict[str, Counter[str]] = {}
    for label, name in zip(flows.labels, flows.classes, strict=True):
        counts.setdefault(label, Counter())[name] += 1
    return {label: found.most_common(1)[0][0] for label, found in counts.items()}


def _expected(label: str, known: dict[str, str], masters: set[str]) -> tuple[str, bool]:
    """The class of a label and whether training had it; DNS of whatever is DNS."""
    if not label:
        return "", False
    master, _, app = label.partition(".")
    if master == "DNS":
        return "dns", True
    for name in (label, *(one for one in sorted(masters) if app and one.endswith(f".{app}")), app):
        if name in known:
            return known[name], True
    if label in CATEGORIES:
        return CATEGORIES[label], False
    return known.get(master, ""), master in known


def foreign(data: Path, labels_folder: Path) -> Iterator[Row]:
    """Captures of other places, by a model of all flows that are not sealed."""
    flows, labels, classes = labelled(data, sealed=False)
    known, by_label = KnownNames.of(classes), class_by_label(flows)
    every = of_services(data / "services", sealed=False)
    sets = {"services, no label": every.of(r for r, name in enumerate(every.classes) if not name)}
    for name, folder in SETS.items():
        sets[name] = of_others(data / folder, labels_folder / f"{name}.tsv", data / "services")
    yield listed("services", flows, known)
    for name, others in sets.items():
        yield listed(name, others, known)
        asked = NamesTask(flows, labels, others, known)
        expected = [_expected(label, by_label, set(by_label)) for label in others.labels]
        for rung in ("known ports", "ports and first bytes", SHIPPED):
            yield from _of_set(name, rung, others, expected, classes, asked.answers(rung))
        print(name, file=sys.stderr)


def _of_set(name: str, rung: str, others: Flows, expected: list[tuple[str, bool]],
            classes: list[str], answers: Answers) -> Iterator[Row]:  # fmt: skip
    """A row for flows of labels of training, for those of other labels, and for those of none."""
    said = numpy.array([classes[guess] for guess in answers.guesses])
    wanted = numpy.array([one for one, _ in expected])
    is_known = numpy.array([known for _, known in expected])
    groups = {"known": is_known, "foreign": ~is_known & (wanted != ""), "no label": wanted == ""}
    named, sure = answers.confidences >= answers.below, answers.confidences >= SURE
    for group, chosen in groups.items():
        right = chosen & (said == wanted)
        wrong = Counter(zip(wanted[chosen & ~right & sure].tolist(),
                            said[chosen & ~right & sure].tolist(), strict=True))  # fmt: skip
        yield {"kind": "set", "set": name, "rung": rung, "group": group,
               "flows": int(chosen.sum()), "named": int((chosen & named).sum()),
               "right_of_named": int((right & named).sum()), "sure": int((chosen & sure).sum()),
               "right_of_sure": int((right & sure).sum()), "right": int(right.sum()),
               "below": answers.below, "sure_wrong": {f"{a}: {b}": n for (a, b), n in
               wrong.most_common(8)}}  # fmt: skip


def left_out(data: Path) -> Iterator[Row]:
    """Each class in turn is foreign: flows, ports and names of it are unknown."""
    flows, labels, classes = labelled(data, sealed=False)
    for foreign_class in classes:
        known = KnownNames.of(classes, foreign_class)
        is_own = labels != classes.index(foreign_class)
        for number, rows in enumerate(folds(labels, flows.families, FOLDS, 1)):
            asked_rows = rows[~is_own[rows]]
            rest = numpy.delete(numpy.arange(len(flows)), rows)
            rest = rest[is_own[rest]]
            if not len(asked_rows):
                continue
            own = numpy.array([known.classes.index(flows.classes[row]) for row in rest])
            asked = NamesTask(flows.of(rest), own, flows.of(asked_rows), known, inner=3)
            for rung in ("known ports", "ports and first bytes", SHIPPED):
                answers = asked.answers(rung)
                sure = answers.confidences >= SURE
                named = answers.confidences >= answers.below
                names = Counter(known.classes[guess] for guess in answers.guesses[sure])
                yield {"kind": "left-out", "class": foreign_class, "fold": number, "rung": rung,
                       "flows": len(asked_rows), "named": int(named.sum()),
                       "sure": int(sure.sum()), "names": names}  # fmt: skip
        print(foreign_class, file=sys.stderr)


def sealed(data: Path) -> Iterator[Row]:
    """The families that are sealed, by a model of all others."""
    flows, labels, classes = labelled(data, sealed=False)
    others, _, _ = labelled(data, sealed=True)
    truth = numpy.array([classes.index(name) for name in others.classes])
    known = KnownNames.of(classes)
    asked = NamesTask(flows, labels, others, known)
    yield listed("sealed", others, known)
    for rung in (*BASES, *MIXED, TREES):
        answers = asked.answers(rung)
        told = (answers.guesses, answers.confidences, answers.confidences >= answers.below)
        yield from judged(rung, 0, others, truth, classes, told)
    yield {"kind": "parameters", "rungs": asked.parameters}


def splits(data: Path) -> Iterator[Row]:
    """How flows are divided decides what is measured: flows, captures or families on one side."""
    flows, labels, classes = labelled(data, sealed=False)
    known = KnownNames.of(classes)
    first = [at for at, name in enumerate(flows.columns) if not name.startswith(("pkt1", "pkt2"))]
    depths = {1: replace(flows, columns=[flows.columns[at] for at in first],
                         values=flows.values[:, first]), PACKETS: flows}  # fmt: skip
    groups = {"flow": numpy.arange(len(flows)).astype(str), "capture": numpy.array(flows.captures),
              "family": flows.families}  # fmt: skip
    for split, division in ((split, division) for split in groups for division in DIVISIONS):
        for depth, seen in depths.items():
            said = {rung: labels * 0 for rung in BASES if depth == 1 or rung.endswith("bytes")}
            for rows in folds(labels, groups[split], FOLDS, division):
                rest = numpy.delete(numpy.arange(len(flows)), rows)
                own = replace(seen.of(rest), families=groups[split][rest])
                asked = NamesTask(own, labels[rest], seen.of(rows), known, inner=2)
                for rung, guesses in said.items():
                    guesses[rows] = asked.base(rung)[1].argmax(axis=1)
            for rung, guesses in said.items():
                f1 = family_interval(labels, guesses, flows.families, len(classes))
                yield {"kind": "split", "split": split, "division": division, "packets": depth,
                       "rung": rung, "macro_f1": f1.value, "low": f1.low, "high": f1.high,
                       "right": float((guesses == labels).mean())}  # fmt: skip


def parts(data: Path) -> Iterator[Row]:
    """What each kind of entry of the list is worth: the rung of all without it."""
    flows, labels, classes = labelled(data, sealed=False)
    known = KnownNames.of(classes)
    lists = {kind: NameList(LIST, without_kind=kind) for kind in ("", *known.listed.classes)}
    for division in DIVISIONS:
        told = {kind: (labels * 0, labels * 0.0, labels < 0) for kind in lists}
        for rows in folds(labels, flows.families, FOLDS, division):
            rest = numpy.delete(numpy.arange(len(flows)), rows)
            asked = NamesTask(flows.of(rest), labels[rest], flows.of(rows), known)
            for kind, some in lists.items():
                asked.with_list(some)
                _put(told[kind], rows, asked.answers(SHIPPED))
        for kind in lists:
            every = judged(SHIPPED, division, flows, labels, classes, told[kind])
            yield from ({**row, "without": kind} for row in every if row["kind"] != "origin")


def model(data: Path, folder: Path) -> Iterator[Row]:
    """A model of all flows that are not sealed, as files to serve, and answers to compare."""
    flows, labels, classes = labelled(data, sealed=False)
    known = KnownNames.of(classes)
    chosen = numpy.arange(0, len(flows), VECTOR_EVERY)
    asked = NamesTask(flows, labels, flows.of(chosen), known)
    answers = asked.answers(SHIPPED)
    bases = MIXED[SHIPPED][0]
    asked.save(bases[0], folder / "base.trees.jsonl")
    head = {"classes": classes, "floor": FLOOR, "states": STATES, "kinds": KINDS,
            "parameters": asked.parameters[SHIPPED], "calibrations": answers.lines,
            "unknown_below": answers.below}  # fmt: skip
    (folder / "evidence.json").write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")
    first = asked.base(bases[0])[1]
    for row, said in enumerate(asked.asked.names):
        found = evidence(said, known.listed)
        ports = {name: int(asked.asked.values[row, place])
                 for place, name in enumerate(flows.columns[:3])}  # fmt: skip
        yield {
            **ports, "app_protocol": said["app_protocol"], "state": found.state,
            "known": found.known, "base": first[row].round(6).tolist(),
            "scores": answers.scores[row].round(6).tolist(),
            "guess": classes[answers.guesses[row]],
            "confidence": round(float(answers.confidences[row]), 6),
        }  # fmt: skip


def main() -> None:
    """Writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = ("ladder", "foreign", "left-out", "splits", "parts", "model", "sealed")
    parser.add_argument("what", choices=kinds)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--labels", type=Path)
    asked = parser.parse_args()
    rows = {
        "ladder": lambda: ladder(asked.data, asked.folder),
        "foreign": lambda: foreign(asked.data, asked.labels),
        "left-out": lambda: left_out(asked.data),
        "splits": lambda: splits(asked.data),
        "parts": lambda: parts(asked.data),
        "model": lambda: model(asked.data, asked.folder),
        "sealed": lambda: sealed(asked.data),
    }[asked.what]()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with (asked.folder / f"{asked.what}.jsonl").open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
