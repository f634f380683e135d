"""From labelled captures to a cascade: trained, read back, judged, and served the same."""

import csv
import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import classify_flows
import pytest
from command import PROGRAM, ROOT

LIBRARIES = ("numpy", "sklearn", "lightgbm", "xgboost", "matplotlib")
MISSING = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(
        bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; bash tools/setup.sh train"
    ),
]
QUICK = (
    "--set", "lightgbm.num_boost_round=20", "--set", "xgboost.num_boost_round=10",
    "--set", "random-forest.n_estimators=10", "--depths", "1,5",
)  # fmt: skip


def run(*arguments, status=0):
    from wirelens.classify.__main__ import main

    assert main([str(argument) for argument in arguments]) == status


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Labelled captures, and a cascade that was trained on them."""
    folder = tmp_path_factory.mktemp("classify")
    table = classify_flows.make(folder / "captures")
    source = ("-r", folder / "captures", "--flows", table, "--label", "app")
    run("train", *source, "-o", folder / "apps", *QUICK,
        "--report", folder / "r.md", "--plots", folder / "plots")  # fmt: skip
    return folder, source


def head_of(folder):
    return json.loads((folder / "cascade.json").read_text(encoding="utf-8"))


def flows_of(source, model):
    """Flows of these captures as the cascade reads them."""
    from wirelens.classify import dataset, labels

    captures = dataset.captures_of([source[1]])
    table = labels.read_labels(source[3], source[5])
    place = dataset.Source(captures, table, [str(path) for path in captures])
    return dataset.load(place, model.recipe(), model.packets, classes=model.classes)


def test_the_artifact_is_whole_and_says_how_good_it_is(made):
    folder, _ = made
    head = head_of(folder / "apps")
    assert head["classes"] == sorted(classify_flows.CLASSES)
    # Two classes are told apart by later packets alone.
    assert [stage["stage"] for stage in head["stages"]][-1] == "slow"
    assert head["stages"][-1]["packets"] == 5
    assert head["profile"]["macro_f1"] > 0.85
    pool = {model["model"]: model for model in head["profile"]["pool"]}
    families = {"port-table", "decision-tree", "random-forest", "lightgbm", "xgboost"}
    assert {name.partition("/")[0] for name in pool} == families
    assert all(model["difference"] < 1e-5 for model in pool.values())
    best = max(model["validation_macro_f1"] for model in pool.values())
    assert head["profile"]["operating_point"]["validation_macro_f1"] >= best - 0.01
    names = {path.name for path in (folder / "apps").iterdir()}
    assert {stage["file"] for stage in head["stages"]} | {"card.md", "SHA256SUMS"} < names
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=folder / "apps", capture_output=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0
    card = (folder / "apps" / "card.md").read_text(encoding="utf-8")
    assert "## Limits" in card and "bulk" in card
    text = (folder / "r.md").read_text(encoding="utf-8")
    assert "| cascade |" in text and "| from, to | F1 | random | least-confid" in text
    pictures = {path.name for path in (folder / "plots").iterdir()}
    assert {"front.png", "confusion.png"} < pictures and len(pictures) >= 4
    with (folder / "plots" / "assignment.tsv").open(encoding="utf-8") as file:
        points = list(csv.DictReader(file, delimiter="\t"))
    ways = {point["way"] for point in points}
    assert {"oracle", "random", "entropy, per-class", "least-confidence, universal"} <= ways
    # Every curve begins with the first model alone and ends with the second alone.
    ends = {(p["assigned"], p["caught"], p["from"], p["macro_f1"]) for p in points}
    starts = {end for end in ends if end[0] == "0.0000"}
    assert len(starts) == len(head["stages"]) - 1 and {end[1] for end in starts} == {"0.0000"}


def test_the_same_line_again_trains_nothing_and_writes_the_same(made, capsys):
    folder, source = made
    work = folder / "apps.work"
    before = {path.name: path.stat().st_mtime_ns for path in work.iterdir()}
    again = folder / "again"
    run("train", *source, "-o", again, "--name", "apps", "--work", work, *QUICK)
    assert {path.name: path.stat().st_mtime_ns for path in work.iterdir()} == before
    one, other = head_of(folder / "apps"), head_of(again)
    assert one["stages"] == other["stages"]
    assert one["training"]["fingerprint"] == other["training"]["fingerprint"]
    # It goes on where it stopped: what is not there is made again, and is the same.
    lost = next(path for path in work.iterdir() if path.name.startswith("lightgbm-5-"))
    kept = {path.name: path.read_bytes() for path in work.glob("lightgbm-5-*.jsonl")}
    for path in work.glob(f"{lost.name.partition('.')[0]}*"):
        path.unlink()
    run("train", *source, "-o", again, "--name", "apps", "--work", work, "--force", *QUICK)
    assert {path.name: path.read_bytes() for path in work.glob("lightgbm-5-*.jsonl")} == kept


def test_folds_choose_models_and_all_of_their_flows_train(made):
    folder, source = made
    output = folder / "folded"
    run("train", *source, "-o", output, "--folds", 3, "--families", "decision-tree,port-table",
        "--depths", "1,5", "--split", "60/0/40")  # fmt: skip
    training = head_of(output)["training"]
    assert training["trained_on"] == training["chosen_by"]
    assert training["trained_on"] + training["judged_on"] == training["flows"]


def test_a_changed_artifact_is_refused(made):
    from wirelens import ModelError
    from wirelens.classify import cascade

    folder, _ = made
    for name in ("cascade.json", head_of(folder / "apps")["stages"][0]["file"]):
        copy = folder / f"changed-{name}"
        shutil.copytree(folder / "apps", copy)
        content = (copy / name).read_bytes()
        (copy / name).write_bytes(content.replace(b"1", b"2", 1))
        with pytest.raises(ModelError, match=f"{name}: differs from SHA256SUMS"):
            cascade.load(copy)
    with pytest.raises(ModelError, match="wanted: a folder that `wirelens train classify` wrote"):
        cascade.load(folder / "captures")


def reseal(folder, change):
    """Changes `cascade.json` and the sums with it, as somebody who means to would."""
    from wirelens.sealed import sums

    head = head_of(folder)
    change(head)
    (folder / "cascade.json").write_text(json.dumps(head), encoding="utf-8")
    (folder / "SHA256SUMS").unlink()
    (folder / "SHA256SUMS").write_text(sums(sorted(folder.iterdir())), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda head: head.pop("stages"), "KeyError 'stages'; wanted: what docs/specs/cascade"),
        (lambda head: head.update(version=4), "version 4; wanted: 'wirelens cascade' 1"),
        (lambda head: head["stages"][-1].update(threshold=1), "thresholds there; wanted"),
        (
            lambda head: head["stages"][-1].update(packets=4),
            "reads 5 packets, but casc.* has 4",
        ),
    ],
)
def test_what_an_artifact_cannot_say_is_refused(made, tmp_path, change, message):
    from wirelens import ModelError
    from wirelens.classify import cascade

    shutil.copytree(made[0] / "apps", tmp_path / "copy")
    reseal(tmp_path / "copy", change)
    with pytest.raises(ModelError, match=message):
        cascade.load(tmp_path / "copy")


def test_a_model_of_other_features_is_refused(made, tmp_path):
    from wirelens import ModelError
    from wirelens.classify import cascade

    shutil.copytree(made[0] / "apps", tmp_path / "copy")
    file = tmp_path / "copy" / head_of(tmp_path / "copy")["stages"][0]["file"]
    first, *rest = file.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]
    other = json.dumps({**json.loads(first), "schema": "0" * 64}, separators=(",", ":")) + "\n"
    content = "".join([other, *rest])
    seal = hashlib.sha256(content.encode()).hexdigest()
    file.write_text(f'{content}{{"sha256":"{seal}"}}\n', encoding="utf-8")
    reseal(tmp_path / "copy", lambda head: None)
    with pytest.raises(ModelError, match="with the schema 000.*; wanted: .*; train again"):
        cascade.load(tmp_path / "copy")


def test_what_is_there_is_replaced_only_where_asked(made, capsys):
    folder, source = made
    run("train", *source, "-o", folder / "apps", *QUICK, status=1)
    assert "exists; give another name, or --force" in capsys.readouterr().err
    run("train", *source, "-o", folder / "captures", "--force", *QUICK, status=1)
    assert "exists and is not a cascade" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--flows-min", 10_000), "wanted: two or more; label more flows"),
        (("--families", "oracle"), "family 'oracle'; wanted: port-table"),
        (("--depths", "0"), "wanted: 1 to 255 packets"),
        (("--split", "50/0/50"), "a split without validation"),
        (("--latency", "5ms", "--f1", "0.5"), "one of --latency"),
        (("--set", "lightgbm=3"), "wanted: such as lightgbm.num_boost_round=400"),
        (("--numbers", "colour"), "number 'colour'; wanted: protocol"),
        (("--testbed", "/nowhere"), "/nowhere: no such folder"),
        (("--folds", "1"), "--folds 1; wanted: 2 or more"),
        (("--set", "port-table.colour=3"), "port-table has no such parameter; wanted: such as sm"),
        (("--families", "lightgbm", "--set", "lightgbm.colour=3"), "lightgbm has no such"),
        (("--families", "xgboost", "--set", "xgboost.colour=3"), "xgboost has no such parameter"),
        (("--families", "decision-tree", "--set", "decision-tree.colour=3"), "refuses colour=3"),
        (("--families", "lightgbm", "--set", "lightgbm.num_leaves=many"), "refuses num_leaves="),
    ],
)
def test_what_cannot_be_meant_is_a_message(made, capsys, options, message):
    folder, source = made
    run("train", *source, "-o", folder / "none", "--families", "port-table", *options, status=2)
    assert message in capsys.readouterr().err
    assert not (folder / "none").exists()


@pytest.mark.parametrize(
    "typed",
    [
        ("--seed", "-1"), ("--wait", "nan"), ("--wait", "0"), ("--f1", "1.5"), ("--gain", "nan"),
        ("--assigned", "much"), ("--latency", "manyms"), ("--latency", "5"), ("--rare", "-1"),
        ("--service-rate", "inf"), ("--threads", "0"), ("--flows-min", "0"), ("--folds", "x"),
    ],
)  # fmt: skip
def test_a_value_that_an_option_cannot_have_is_a_line(made, capsys, typed):
    folder, source = made
    with pytest.raises(SystemExit, match="2"):
        run("train", *source, "-o", folder / "none", *typed)
    told = capsys.readouterr().err
    assert told.startswith(f"error: argument {typed[0]}: '{typed[1]}'; wanted: "), told
    assert told.count("\n") == 1


def test_labels_of_which_none_matches_are_told_with_examples(made, capsys, tmp_path):
    folder, source = made
    table = tmp_path / "flows.tsv"
    rows = [f"tcp\t192.0.2.99\t{port}\t192.0.2.98\t80\tweb\n" for port in range(30)]
    table.write_text("".join(["proto\tsrc\tsport\tdst\tdport\tapp\n", *rows]))
    run("train", *source[:3], table, *source[4:], "-o", folder / "none", status=2)
    told = capsys.readouterr().err
    assert "30 of 30 labels match no flow, such as protocol 6 192.0.2.98 port 80 - " in told
    assert "flows have no label and are left out, such as protocol " in told


def test_a_class_of_one_capture_is_told_where_folds_judge(tmp_path, capsys):
    for index, label in enumerate(("one", "two")):
        classify_flows.make(tmp_path / "made" / label, captures=1, flows=25, seed=index)
    (tmp_path / "made/flows.tsv").unlink()
    run("train", "--folders", tmp_path / "made", "-o", tmp_path / "m", "--families",
        "decision-tree", "--depths", 1, "--split", "100/0/0", "--folds", 2)  # fmt: skip
    assert "warning: only one family of captures has one, two: the fold" in capsys.readouterr().err


def test_a_class_with_too_few_flows_is_left_out_and_told(made, capsys):
    folder, source = made
    with open(source[3], encoding="utf-8") as table:
        counts = Counter(row["app"] for row in csv.DictReader(table, delimiter="\t"))
    fewest, count = counts.most_common()[-1]
    run("train", *source, "-o", folder / "fewer", "--families", "decision-tree", "--depths", 1,
        "--flows-min", count + 1, "--drop", "tcp_opt_*", "--drop", "tcp_options")  # fmt: skip
    told = capsys.readouterr().err
    assert "--drop tcp_options: no column has such a name" in told and "tcp_opt_*" not in told
    left_out = f"left out: classes that have fewer than {count + 1} flows (--flows-min): {fewest} ("
    assert f"warning: {left_out}" in told
    assert fewest not in head_of(folder / "fewer")["classes"]


def test_work_that_cannot_be_read_is_named(made, capsys):
    folder, source = made
    work = folder / "broken.work"
    shutil.copytree(folder / "apps.work", work)
    for kept in work.glob("port-table-*.json"):
        kept.write_text("{")
    run("train", *source, "-o", folder / "broken", *QUICK, status=1)
    told = capsys.readouterr().err
    assert "port-table-1-" in told and "remove them, and they are created again" in told


def test_evaluation_finds_a_model_that_ships_by_its_name(made, capsys):
    _, source = made
    run("eval", *source, "--model", "services")
    told = capsys.readouterr()
    assert "no flow has a label of the classes bittorrent, coap" in told.err
    assert "all are foreign" in told.err and told.out.startswith("# services on ")
    run("eval", *source, "--model", "servces", status=1)
    assert "servces: no shipped model has this name" in capsys.readouterr().err


def test_evaluation_tells_of_other_captures(made, capsys, tmp_path):
    folder, source = made
    table = classify_flows.make(tmp_path / "new", captures=6, seed=7)
    run("eval", "--model", folder / "apps", "-r", tmp_path / "new", "--flows", table,
        "--label", "app", "-o", tmp_path / "new.md", "--rows", tmp_path / "new.jsonl",
        "--plots", tmp_path)  # fmt: skip
    text = (tmp_path / "new.md").read_text(encoding="utf-8")
    assert "180 flows of 6 families" in text and "| port-table" in text
    rows = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    kinds = {row["kind"]: [one for one in rows if one["kind"] == row["kind"]] for row in rows}
    assert list(kinds) == ["model", "worth", "foreign", "confidence", "error", "system", "stage",
                           "class"]  # fmt: skip
    assert kinds["model"][0]["flows"] == sum(one["flows"] for one in kinds["class"]) == 180
    for row in kinds["system"]:
        low, high = row["macro_f1_low"], row["macro_f1_high"]
        assert f"| {row['system']} | {row['macro_f1']:.3f} [{low:.3f}, {high:.3f}] |" in text
    for row in kinds["class"]:
        assert f"| {row['class']} | {row['flows']} | {row['precision']:.3f} |" in text
    share = kinds["worth"][0]["right_of_all"]
    assert f"| {share:.3f} [" in text.partition("| this cascade |")[2].partition("\n")[0]
    assert "## Assignment" in text and "| oracle | " in text
    assert (tmp_path / "confusion.png").is_file() and (tmp_path / "assignment.tsv").is_file()
    assert "None of the captures trained or selected this model." in text
    assert "this model, such as" not in capsys.readouterr().err
    run("eval", "--model", folder / "apps", *source)
    told = capsys.readouterr()
    trained = len(head_of(folder / "apps")["training"]["capture_sha256"])
    assert 6 <= trained < 24
    assert f"{trained} of 24 captures trained or selected this model, such as " in told.err
    assert told.out.startswith("# apps on ")


def test_cross_validation_judges_every_flow_by_a_cascade_that_never_saw_it(made, tmp_path):
    folder, source = made
    run("train", *source, "-o", folder / "crossed", "--cross-validate", 3,
        "--families", "port-table,decision-tree", "--depths", "1,5",
        "--report", tmp_path / "c.md", "--plots", tmp_path)  # fmt: skip
    text = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert "720 flows of 24 families" in text and "| decision-tree/5 |" in text
    assert (tmp_path / "confusion.png").is_file()
    assert not (folder / "crossed").exists()


def test_labels_that_the_model_does_not_know_are_told(made, capsys, tmp_path):
    folder, source = made
    table = tmp_path / "flows.tsv"
    text = source[3].read_text(encoding="utf-8")
    table.write_text(text.replace("\tbulk\n", "\tother\n"), encoding="utf-8")
    run("eval", "--model", folder / "apps", *source[:3], table, *source[4:])
    told = capsys.readouterr()
    assert "unknown are also flows of classes that are not the model's: other" in told.err
    header, *rows = text.splitlines()
    strange = [row.rpartition("\t")[0] + "\tnobody" for row in rows]
    table.write_text("\n".join([header, *strange]), encoding="utf-8")
    run("eval", "--model", folder / "apps", *source[:3], table, *source[4:], status=2)
    assert "no flow has a label of the classes bulk, chat" in capsys.readouterr().err


def test_trees_may_start_from_what_ports_tell(made):
    folder, source = made
    known = folder / "known.tsv"
    known.write_text("proto\tport\tclass\ntcp\t443\tbulk\ntcp\t443\tchat\nudp\t53\tname\n"
                     "udp\t161\tquery\nudp\t5\tnobody\n")  # fmt: skip
    run("train", *source, "-o", folder / "boosted", "--families",
        "port-table,port-prior,boosted-ports", "--known-ports", known, "--depths", "1,5",
        "--set", "boosted-ports.num_boost_round=20", "--payload-bytes", 4)  # fmt: skip
    pool = {one["model"]: one for one in head_of(folder / "boosted")["profile"]["pool"]}
    assert set(pool) == {"port-table/1", "port-prior/1", "boosted-ports/1", "boosted-ports/5"}
    # What is written scores as what was trained: the prior's trees and LightGBM's.
    assert all(one["difference"] < 1e-9 for one in pool.values())
    assert pool["boosted-ports/5"]["macro_f1"] > 0.8 > pool["port-prior/1"]["macro_f1"]


def test_one_run_of_the_testbed_is_too_few(capsys):
    sample = ROOT / "testdata/testbed/services"
    run("train", "--testbed", sample, "-o", "never", "--families", "port-table",
        "--flows-min", 1, status=2)  # fmt: skip
    told = capsys.readouterr().err
    assert "labels match no flow" not in told
    assert "1 families of captures; wanted: at least 3" in told


def test_runs_that_were_rejected_are_passed_over(capsys, tmp_path):
    sample = ROOT / "testdata/testbed/services"
    for name in ("a", "b.rejected"):
        shutil.copytree(sample, tmp_path / "runs" / name)
    run_file = tmp_path / "runs" / "b.rejected" / "run.json"
    told = json.loads(run_file.read_text(encoding="utf-8"))
    run_file.write_text(json.dumps({**told, "accepted": False}), encoding="utf-8")
    run("train", "--testbed", tmp_path / "runs", "-o", tmp_path / "never", "--families",
        "port-table", "--flows-min", 1, status=2)  # fmt: skip
    assert "reading 1 captures" in capsys.readouterr().err


def test_folders_whose_names_are_no_names_of_classes_are_told(tmp_path):
    from wirelens.classify import dataset
    from wirelens.errors import OptionError

    (tmp_path / "plain").mkdir()
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    with pytest.raises(OptionError, match="class 'caf.udce9'; wanted: a name in UTF-8"):
        dataset.folder_source(tmp_path)
    with pytest.raises(OptionError, match="nowhere: no such folder"):
        dataset.folder_source(tmp_path / "nowhere")


def test_folders_label_their_captures(tmp_path, capsys):
    for index, label in enumerate(("one", "two")):
        for number in range(6):
            target = tmp_path / "made" / label / f"{number}"
            classify_flows.make(target, captures=1, flows=25, seed=100 * index + number)
            target.with_name("flows.tsv").unlink()
    run("train", "--folders", tmp_path / "made", "-o", tmp_path / "m",
        "--families", "decision-tree", "--depths", 1)  # fmt: skip
    assert head_of(tmp_path / "m")["classes"] == ["one", "two"]
    shutil.copy(tmp_path / "made/one/0/c00.pcap", tmp_path / "made")
    run("train", "--folders", tmp_path / "made", "-o", tmp_path / "n", status=2)
    assert "made/c00.pcap: not in a folder of a class, like 1 captures" in capsys.readouterr().err


def test_the_command_says_of_every_flow_what_python_says(made):
    folder, source = made
    from wirelens.classify import cascade

    model = cascade.load(folder / "apps")
    flows = flows_of(source, model)
    found = model.predict(flows.sample)
    wanted = {}
    assert model.unknown_below.max() >= 0.5
    assert any(stage.calibrations for stage in model.stages)
    for row, guess in enumerate(found.guesses):
        key = (flows.capture_of[row], flows.keys[row])
        wanted[key] = (
            "unknown" if found.is_unknown[row] else model.classes[guess],
            model.classes[guess],
            model.stages[found.stages[row]].name,
            int(found.packets_used[row]),
            pytest.approx(found.confidences[row], abs=1e-9),
        )
    seen = {}
    for place, capture in enumerate(flows.captures):
        for row in verdicts(folder / "apps", capture):
            assert row["model"] == model.id
            seen[place, key_of(row)] = (
                row["label"],
                row["guess"],
                row["stage"],
                int(row["packets_used"]),
                float(row["guess_confidence"]),
            )
            wanted_confidence = "" if row["label"] == "unknown" else row["guess_confidence"]
            assert row["confidence"] == wanted_confidence
    assert len(wanted) == 24 * 30
    assert seen == wanted


def verdicts(model: Path, capture: Path) -> list[dict[str, str]]:
    command = [PROGRAM, "classify", "-r", capture, "--model", model, "--format", "csv", "-q"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return list(csv.DictReader(io.StringIO(done.stdout.decode())))


def key_of(row):
    from wirelens.classify.labels import flow_key, protocol_number

    protocol = protocol_number(row["protocol"])
    source, other = (row["src_ip"], int(row["src_port"])), (row["dst_ip"], int(row["dst_port"]))
    return flow_key(protocol, *source, *other)
