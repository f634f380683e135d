"""Cascades that know more than a flow's packets, names and what its host was: trained and served."""

import csv
import io
import json
import subprocess
from pathlib import Path

import classify_flows
import pytest
import wirelens
from command import PROGRAM, ROOT

pytestmark = pytest.mark.train
QUICK = ("--families", "decision-tree", "--depths", "1,5")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[object, ...]]:
    folder = tmp_path_factory.mktemp("beside")
    table = classify_flows.make(folder / "captures")
    return folder, ("-r", folder / "captures", "--flows", table, "--label", "app")


def trained(made: tuple[Path, tuple[object, ...]], name: str, *options: object) -> Path:
    from wirelens.classify.__main__ import main

    folder, source = made
    arguments = ("train", *source, "-o", folder / name, *QUICK, *options)
    assert main([str(argument) for argument in arguments]) == 0
    return folder / name


def head_of(model: Path) -> dict[str, object]:
    return json.loads((model / "cascade.json").read_text(encoding="utf-8"))


def agreement(model: Path, captures: Path) -> float:
    """The share of flows of which the command makes the guess that Python makes."""
    from wirelens.classify import cascade, dataset
    from wirelens.classify.labels import FlowLabel, LabelTable, flow_key, protocol_number

    asked = cascade.load(model)
    same = total = 0
    for path in dataset.captures_of([captures]):
        table = LabelTable("one", [FlowLabel(1, str(path), None, asked.classes[0])])
        flows = dataset.load(
            dataset.Source([path], table, [str(path)]), asked.recipe(), asked.packets,
            flows_min=1, classes=asked.classes, wait_ns=asked.wait_ns,
            names_list=asked.names_list, names_depths=asked.names_depths,
        )  # fmt: skip
        found = asked.predict(flows.sample)
        command = [PROGRAM, "classify", "-q", "-r", path, "--model", model, "--format", "csv"]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        said = {}
        for row in csv.DictReader(io.StringIO(done.stdout)):
            ends = [(row[side + "_ip"], int(row[side + "_port"])) for side in ("src", "dst")]
            key = flow_key(protocol_number(row["protocol"]), *ends[0], *ends[1])
            said[key, int(row["first_ns"])] = row["guess"]
        for key, first_ns, guess in zip(flows.keys, flows.first_ns, found.guesses, strict=True):
            total += 1
            same += said[key, first_ns] == asked.classes[guess]
    assert total > 100
    return same / total


def test_a_cascade_that_remembers_hosts_is_served_as_it_was_chosen(made) -> None:
    model = trained(made, "remembering", "--memory", "--memory-half-life", 60)
    head = head_of(model)
    assert head["version"] == 3
    assert head["memory"] == {"half_life_ns": 60_000_000_000, "prior": 1.0, "floor": 0.01}
    # Verdicts that waited are remembered at marks, which Python takes to be at each second.
    assert agreement(model, made[0] / "captures") > 0.98


def test_a_cascade_of_names_is_served_as_it_was_trained(made, tmp_path: Path) -> None:
    listed = tmp_path / "list.tsv"
    classes = sorted(classify_flows.CLASSES)
    entries = [("protocol", "dns", classes[0]), ("label", "www", classes[1])]
    lines = [("kind", "value", "class"), *entries]
    listed.write_text("".join("\t".join(line) + "\n" for line in lines))
    model = trained(made, "named", "--names", listed, "--names-packets", 8)
    head = head_of(model)
    assert (head["version"], head["names"]) == (3, "names.tsv")
    packets = [stage["names"]["packets"] for stage in head["stages"]]
    assert packets == [1 if stage["packets"] == 1 else 8 for stage in head["stages"]]
    assert (model / "names.tsv").read_text() == listed.read_text()
    assert agreement(model, made[0] / "captures") == 1.0


@pytest.mark.parametrize("option", ["--memory", "--names"])
def test_floors_are_such_as_many_classes_can_have(made, tmp_path: Path, option: str) -> None:
    """Of 34 classes, 0.03 each would be more than there is, and of 101 classes 0.01."""
    count = {"--memory": 101, "--names": 34}[option]
    rows = (made[0] / "captures.many.tsv", tmp_path / "list.tsv")
    table = Path(made[1][3]).read_text().splitlines()
    head = table[0].split("\t")
    place = head.index("app")
    lines = [line.split("\t") for line in table[1:]]
    for number, cells in enumerate(lines):
        cells[place] = f"c{number % count}"
    rows[0].write_text("\n".join("\t".join(cells) for cells in [head, *lines]) + "\n")
    rows[1].write_text("kind\tvalue\tclass\nprotocol\tdns\tc1\n")
    source = ("-r", made[0] / "captures", "--flows", rows[0], "--label", "app")
    few = ("--flows-min", 1, "--split", "100/0/0", "--folds", 2)
    options = ("--memory",) if option == "--memory" else ("--names", rows[1])
    model = trained((made[0], source), f"many{option}", *few, *options)
    head = head_of(model)
    found = head["memory"] if option == "--memory" else head["stages"][0]["names"]
    assert len(head["classes"]) == count and found["floor"] == 0.5 / count
    capture = next((made[0] / "captures").iterdir())
    assert wirelens.classify_flows(capture, str(model))


def test_a_list_of_other_classes_is_refused(made, tmp_path: Path, capsys) -> None:
    from wirelens.classify.__main__ import main

    folder, source = made
    listed = ROOT / "models/recipes/services-names.tsv"
    arguments = ("train", *source, "-o", tmp_path / "m", *QUICK, "--names", listed)
    assert main([str(argument) for argument in arguments]) == 2
    assert 'services-names.tsv: line 2: class "db_rpc"; wanted: ' in capsys.readouterr().err


def test_evidence_weighs_more_where_it_was_right() -> None:
    import numpy
    from wirelens.classify import names

    dice = numpy.random.default_rng(5)
    truth = dice.integers(0, 2, 400)
    scores = numpy.full((400, 2), 0.5)
    kinds = numpy.zeros((400, len(names.KINDS), 2), dtype=bool)
    suffix, label = names.KINDS.index("suffix"), names.KINDS.index("label")
    # A suffix is right nine times of ten, a label three of four.
    for row in range(400):
        kind, right = (suffix, 0.9) if row % 2 else (label, 0.75)
        kinds[row, kind, truth[row] if dice.random() < right else 1 - truth[row]] = True
    evidence = names.Evidence(kinds, numpy.zeros(400, dtype=bool))
    found = names.fit(scores, evidence, truth, numpy.ones(400), 10)
    assert 1.7 < found.kinds[suffix] < 2.6 and 0.7 < found.kinds[label] < 1.4
    mixed = found.mixed(scores, evidence)
    assert (mixed.argmax(axis=1) == truth).mean() > 0.8
    again = names.StageNames.read(found.told(["a", "b"]), ["a", "b"])
    assert numpy.array_equal(again.mixed(scores, evidence), mixed)


def test_models_that_are_kept_are_not_taken_for_captures_in_another_order(made) -> None:
    """Scores of test flows are kept with a model, in the order of the flows."""
    folder, (_, captures, *labels) = made
    order = sorted(captures.iterdir())
    models = []
    for name, swapped in (("one-order", (0, 0)), ("other-order", (2, 5)), ("third-order", (3, 9))):
        one, other = swapped
        order[one], order[other] = order[other], order[one]
        read = [word for capture in order for word in ("-r", capture)]
        source = (folder, (*read, *labels))
        models.append(trained(source, name, "--work", folder / "one-work", "--depths", "1"))
    profiles = [head_of(model)["profile"] for model in models]
    assert len({profile["macro_f1"] for profile in profiles}) == 1
