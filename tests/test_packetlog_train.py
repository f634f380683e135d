"""From labelled captures to a model of the packet log: trained, judged, and served the same."""

import gzip
import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from command import ROOT
from packetlog_model import seal

LIBRARIES = ("numpy", "sklearn", "matplotlib")
MISSING = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(
        bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; bash tools/setup.sh train"
    ),
]
SAMPLES = ROOT / "testdata/testbed"
ATTACKS, SERVICES, CONGESTION = (
    SAMPLES / name for name in ("attacks", "services", "congestion")
)  # fmt: skip
QUICK = ("--weight", "1", "-q")


def run(*arguments, status=0):
    from wirelens.packetlog.__main__ import main

    assert main([str(argument) for argument in arguments]) == status


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model of the sample runs."""
    folder = tmp_path_factory.mktemp("packetlog")
    run("train", "-r", ATTACKS, "-r", SERVICES, "-o", folder / "mine", "-q",
        "--plots", folder / "plots", "--report", folder / "mine.json")  # fmt: skip
    return folder


def loaded(place, **options):
    """Rows of a run, all of them."""
    from wirelens.packetlog import rows, truth
    from wirelens.packetlog.snapshots import SnapshotOptions

    asked = SnapshotOptions(window="1s", keys=["flow", "source"], **options)
    return rows.load(truth.captures([place]), asked, asked.columns(), 10**6, 1), asked


def packet_lines(run_folder):
    with gzip.open(run_folder / "packets.tsv.gz", "rt") as lines:
        names = next(lines).split()
        return [dict(zip(names, line.rstrip("\n").split("\t"), strict=True)) for line in lines]


def test_each_packet_has_its_own_label():
    import numpy
    from wirelens.packetlog import truth

    (capture,) = truth.captures([ATTACKS])
    found = truth.read(capture)
    lines = packet_lines(ATTACKS)
    assert len(found) == len(lines)
    for at in range(0, len(lines), 97):
        line, code = lines[at], found.codes[at]
        assert found.roles[found.role_codes[at]] == line["role"]
        assert line["role"] == "intercepted" if code < 0 else found.labels[code] == line["label"]
    roles = {line["role"] for line in lines}
    assert {"attacker", "response", "reflected"} < roles
    assert found.families["nmap_syn"] == "scan"
    assert int(numpy.sum(found.codes > 0)) == sum(
        line["role"] in ("attacker", "response", "reflected") for line in lines
    )


def test_runs_that_failed_a_check_or_are_not_complete_are_left_out(tmp_path):
    from wirelens.packetlog import truth

    for name in ("0001", "0002.rejected", "0003.partial"):
        shutil.copytree(ATTACKS, tmp_path / name)
    assert [one.name for one in truth.captures([tmp_path])] == [f"{tmp_path.name}/0001"]


def test_labels_of_another_capture_are_refused(tmp_path, capsys):
    place = tmp_path / "run"
    shutil.copytree(ATTACKS, place)
    with gzip.open(place / "packets.tsv.gz", "rt") as lines:
        kept = lines.readlines()[:-5]
    with gzip.open(place / "packets.tsv.gz", "wt") as lines:
        lines.writelines(kept)
    run("train", "-r", place, "-o", tmp_path / "m", *QUICK, status=2)
    assert "wanted: the labels of this capture" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


def test_drawn_packets_stand_for_all_of_them():
    import numpy
    from wirelens.packetlog import rows, truth
    from wirelens.packetlog.snapshots import SnapshotOptions

    whole, asked = loaded(ATTACKS)
    drawn = rows.load(truth.captures([ATTACKS]), asked, asked.columns(), 1000, 1)
    assert len(drawn) <= 1000 < len(whole)
    assert isinstance(asked, SnapshotOptions)
    for code in range(len(whole.labels)):
        of_whole, of_drawn = whole.counts[whole.codes == code], drawn.counts[drawn.codes == code]
        assert numpy.isclose(of_whole.sum(), of_drawn.sum())
    again = rows.load(truth.captures([ATTACKS]), asked, asked.columns(), 1000, 1)
    assert (again.values == drawn.values).all()


@pytest.mark.parametrize("shape", [(3, 7), (5, 12)])
@pytest.mark.parametrize("by_family", [False, True])
def test_scores_are_those_of_the_library(tmp_path, shape, by_family):
    import numpy
    from wirelens.packetlog import PacketModel, forest, model, train

    drawn, asked = loaded(ATTACKS)
    request = train.Request([ATTACKS], tmp_path, options=asked, by_family=by_family)
    classes, codes = train.class_codes(drawn, request)
    assert len(classes) == (8 if by_family else 2)
    weights = numpy.random.default_rng(1).random(len(drawn))
    grown = forest.grow(drawn.values, codes, weights, len(classes), forest.Shape(*shape), 3)
    names = asked.columns()
    plain = [at for at, name in enumerate(names) if not name.startswith("flow_")]
    bare = forest.grow(
        numpy.ascontiguousarray(drawn.values[:, plain]), codes, weights, len(classes),
        forest.Shape(*shape), 3,
    )  # fmt: skip
    forests = forest.exported(grown), forest.exported(bare).with_all(plain)
    found = model.sifted(classes, asked, names, forests, {})
    model.write(found, "", tmp_path)
    served = PacketModel(tmp_path / "model.json")
    assert served.columns == found.columns
    rows = numpy.ascontiguousarray(drawn.values[:, [names.index(name) for name in found.columns]])
    for by_flow, of_library in ((True, grown.predict_proba(drawn.values)),
                                (False, bare.predict_proba(drawn.values[:, plain]))):  # fmt: skip
        scores = numpy.asarray(served.score(rows, by_flow))
        assert numpy.abs(scores - of_library).max() < 1e-12
        own = (found.flow_forest if by_flow else found.packet_forest).probabilities(rows)
        assert numpy.abs(own - of_library).max() < 1e-12


def test_what_is_served_is_what_was_trained(made):
    import numpy
    from wirelens.packetlog import judgements, model, rows, truth

    one = model.read(made / "mine")
    (capture,) = truth.captures([ATTACKS])
    found = truth.read(capture)
    classes = numpy.concatenate([
        numpy.asarray(batch.classes)
        for batch in judgements(capture.path, made / "mine/model.json", seed=1)
    ])  # fmt: skip
    own = numpy.zeros(len(found), dtype=int)
    for where, values, holds_flow in rows.each(capture, found, one.options, one.columns):
        own[where] = one.judge(values, holds_flow)
    assert (classes == own).all()
    assert 0 < own.mean() < 1


def test_verdicts_are_used_again_if_the_model_says_so(made, tmp_path):
    import numpy
    from wirelens.packetlog import judgements, model, truth

    (capture,) = truth.captures([ATTACKS])
    run("train", "-r", ATTACKS, "-o", tmp_path / "again", *QUICK, "--trees", "1", "--depth", "2",
        "--reuse-flows", "1024")  # fmt: skip
    run("train", "-r", ATTACKS, "-o", tmp_path / "plain", *QUICK, "--trees", "1", "--depth", "2")
    told = json.loads((tmp_path / "again/model.json").read_text())
    assert told["verdict_reuse"] == {"flows": 1024, "growth_percent": 12}
    assert model.read(tmp_path / "again").verdict_reuse == told["verdict_reuse"]
    assert "last verdict" in (tmp_path / "again/card.md").read_text()
    del told["verdict_reuse"]
    plain = json.loads((tmp_path / "plain/model.json").read_text())
    assert {**told, "training": 0} == {**plain, "training": 0}

    def confidence(name):
        found = judgements(capture.path, tmp_path / name / "model.json", seed=1)
        return numpy.concatenate([numpy.asarray(batch.confidence) for batch in found])

    again, other = confidence("again"), confidence("plain")
    assert 0 < (again != other).mean() < 0.2
    run("train", "-r", ATTACKS, "-o", tmp_path / "odd", *QUICK, "--reuse-flows", "1000", status=2)
    assert not (tmp_path / "odd").exists()


def test_a_model_is_written_whole(made):
    told = json.loads((made / "mine/model.json").read_text())
    assert told["classes"] == ["benign", "anomalous"]
    for name in ("flow_forest", "packet_forest"):
        trees = told[name]["trees"]
        assert len(trees) == 3
        # Seven questions at most: a full tree of that depth has 255 nodes.
        assert all(len(tree["feature"]) <= 255 for tree in trees)
        assert max(feature for tree in trees for feature in tree["feature"]) < len(told["columns"])
    facts = told["training"]
    assert facts["weight"] in [one["weight"] for one in facts["tried"]]
    assert facts["packets"]["iodine"] > 0
    assert json.loads((made / "mine.json").read_text()) == facts
    card = (made / "mine/card.md").read_text()
    assert "| iodine |" in card and "wirelens train packetlog -r" in card
    assert {path.name for path in (made / "plots").iterdir()} == {"importance.png", "weights.png"}


def test_only_columns_that_are_read_are_kept(made):
    told = json.loads((made / "mine/model.json").read_text())
    read = {
        feature
        for name in ("flow_forest", "packet_forest")
        for tree in told[name]["trees"]
        for feature in tree["feature"]
        if feature >= 0
    }
    assert read == set(range(len(told["columns"])))
    assert not any("_port" in column for column in told["columns"])


def test_the_same_seed_trains_the_same_model(made, tmp_path):
    for name in ("a", "b"):
        run("train", "-r", ATTACKS, "-o", tmp_path / name, *QUICK, "--seed", "5")
    first, second = (
        json.loads((tmp_path / name / "model.json").read_text()) for name in ("a", "b")
    )
    assert first == second


def test_folds_never_have_a_capture_on_two_sides_and_leave_attacks_out():
    import numpy
    from wirelens.packetlog import folds

    drawn, _ = loaded(ATTACKS)
    captures = [
        type(drawn.captures[0])(Path(f"{number}"), f"d/{number}", f"d/{number}", "attacks")
        for number in range(9)
    ]
    drawn.captures = captures
    drawn.capture_of = numpy.arange(len(drawn)) % 9
    plan = folds.plan(drawn, 3, 4, 1)
    assert not plan.is_by_time
    assert all(len(set(plan.fold_of[drawn.capture_of == at])) == 1 for at in range(9))
    assert sorted(code for codes in plan.left_out for code in codes) == list(
        range(1, len(drawn.labels))
    )
    seen = []

    def judge(rows, is_used, asked, how):
        assert not set(rows.capture_of[is_used]) & set(rows.capture_of[asked])
        seen.append((set(rows.codes[is_used]), set(rows.codes[asked])))
        return numpy.zeros(int(asked.sum()))

    folds.cross(drawn, plan, 1.0, None, 1, judged=judge)
    assert len(seen) == 3 * (1 + 4)
    for used, asked in seen:
        unseen = asked - used
        # All attacks are known, or only attacks that no forest saw are asked for.
        assert not unseen or asked == unseen | {0}


def test_a_weight_is_chosen_among_those_that_mark_few_benign_packets():
    from wirelens.packetlog.train import Trial, choose

    def tried(weight, alarms, unseen):
        return Trial(weight, alarms, {"a": 0.9}, {"a": unseen}, 0.5)

    few, some, many = tried(0.5, 0.01, 0.6), tried(1, 0.03, 0.8), tried(2, 0.2, 0.99)
    assert choose([few, some, many], 0.03) is some
    assert choose([few, some, many], 0.02) is few
    assert choose([few, some, many], 0.001) is few
    assert choose([few, some, many], 0.5) is many


def test_a_threshold_marks_as_many_benign_packets_as_may_be():
    import numpy
    from wirelens.packetlog import folds, train

    drawn, _ = loaded(ATTACKS)
    scores = numpy.random.default_rng(1).integers(0, 50, len(drawn)) / 50
    for wanted in (0.0, 0.01, 0.05, 0.5):
        at = folds.threshold(drawn, scores, wanted)
        assert folds.false_alarms(drawn, scores > at) <= wanted
        # The next score below would mark more; none of a packet's is as high as the threshold.
        lower = scores[~drawn.is_anomalous & (scores < at)].max()
        assert folds.false_alarms(drawn, scores >= lower) > wanted
        assert not (scores == at).any()
        told = train.told(drawn, 1.0, folds.CrossValidation(scores, None), wanted)
        assert told.threshold == at and told.false_alarms <= wanted
    untouched = train.told(drawn, 1.0, folds.CrossValidation(scores, None), None)
    assert untouched.threshold == 0.5


def test_benign_packets_count_by_place_and_by_capture():
    """Packets of one place are half of the rate, however few; captures of a place likewise."""
    import numpy
    from wirelens.packetlog import folds
    from wirelens.packetlog.rows import Rows
    from wirelens.packetlog.truth import Capture

    captures = [Capture(Path(name), name, family, kind) for name, family, kind in (
        ("a", "runs/0000", "attacks"), ("b", "runs/0001", "attacks"), ("c", "ntop/nDPI", "file"),
    )]  # fmt: skip
    capture_of = numpy.array([0, 0, 0, 0, 1, 2, 2])
    is_attack = numpy.array([0, 0, 0, 1, 0, 0, 0])
    counts = numpy.array([1.0, 1.0, 8.0, 5.0, 7.0, 1.0, 3.0])
    rows = Rows(["benign", "scan"], {}, captures, numpy.zeros((7, 1)), numpy.ones(7, bool),
                is_attack, capture_of, counts)  # fmt: skip
    weights = folds.benign_weights(rows)
    assert numpy.allclose(weights, [0.025, 0.025, 0.2, 0, 0.25, 0.125, 0.375])
    marked = numpy.array([1, 0, 0, 1, 1, 1, 0], dtype=bool)
    assert folds.false_alarms(rows, marked) == pytest.approx(0.4)
    by_place = folds.false_alarms_by_place(rows, marked)
    assert by_place == pytest.approx({"runs": 0.55, "ntop": 0.25})


def test_sealed_places_train_nothing(tmp_path, capsys):
    from wirelens.learn.sealing import is_sealed

    owners = [f"owner{number:02}" for number in range(12)]
    sealed = [name for name in owners if is_sealed(name, 0.3)]
    assert 0 < len(sealed) < len(owners)
    benign = tmp_path / "benign"
    benign.mkdir()
    lines = ["file\tlabel\tsource_repo"]
    for name in owners:
        (benign / f"{name}.pcapng").symlink_to(ROOT / "testdata/demo.pcapng")
        lines.append(f"{name}.pcapng\tbenign\t{name}/captures")
    (benign / "MANIFEST.tsv").write_text("\n".join(lines) + "\n")
    asked = ("train", "-r", ATTACKS, "--benign", benign, "--rows-max", 4000)
    run(*asked, "-o", tmp_path / "m", "--sealed", "30%", *QUICK)
    facts = json.loads((tmp_path / "m/model.json").read_text())["training"]
    assert facts["sealed"] == sealed
    assert facts["captures"] == 1 + len(owners) - len(sealed)
    card = (tmp_path / "m/card.md").read_text()
    assert f"trained and chose nothing: {', '.join(sealed)}." in card
    assert not any(f"| {name} |" in card for name in sealed)
    run("train", "--benign", benign, "--sealed", "100%", "-o", tmp_path / "n", *QUICK, status=2)
    assert "--sealed 1: sets aside all 12 captures" in capsys.readouterr().err


@pytest.mark.parametrize("threshold", [0.0, 0.03, 0.3, 0.5, 0.8, 1.0])
def test_moved_leaves_say_a_half_where_the_threshold_was(threshold):
    import numpy
    from wirelens.packetlog import forest

    drawn, _ = loaded(ATTACKS)
    grown = forest.exported(forest.grow(
        drawn.values, drawn.is_anomalous.astype(int), numpy.ones(len(drawn)), 2,
        forest.Shape(), 1,
    ))  # fmt: skip
    plain = grown.probabilities(drawn.values)
    moved = grown.moved(threshold).probabilities(drawn.values)
    assert numpy.allclose(moved.sum(axis=1), 1) and moved.min() >= 0 and moved.max() <= 1
    far = abs(plain[:, 1] - threshold) > 1e-9
    assert ((moved[:, 1] > 0.5) == (plain[:, 1] > threshold))[far].all()
    assert numpy.allclose(moved[~far], 0.5)
    order = numpy.argsort(plain[:, 1])
    assert (numpy.diff(moved[order, 1]) > -1e-12).all()


def test_fewer_false_alarms_that_are_asked_for_are_fewer_that_are_made(made, tmp_path):
    import numpy
    from wirelens.packetlog import judgements

    marked = []
    for part in ("2%", "30%"):
        run("train", "-r", ATTACKS, "-r", SERVICES, "-o", tmp_path / part, *QUICK,
            "--false-alarms", part)  # fmt: skip
        told = json.loads((tmp_path / part / "model.json").read_text())["training"]
        assert told["tried"][0]["false_alarms"] <= float(part[:-1]) / 100
        assert told["threshold"] == told["tried"][0]["threshold"]
        marked.append(sum(
            int((numpy.asarray(batch.classes) > 0).sum())
            for batch in judgements(
                SERVICES / "lan.pcapng.gz", tmp_path / part / "model.json", seed=1
            )
        ))  # fmt: skip
    assert marked[0] < marked[1]


def test_weights_make_captures_and_attacks_count_the_same():
    import numpy
    from wirelens.packetlog import folds

    drawn, _ = loaded(ATTACKS)
    weights = folds.packet_weights(drawn, 4.0)
    sums = numpy.bincount(drawn.codes, weights=weights)
    assert numpy.isclose(sums[1:].sum(), 4 * sums[0])
    assert numpy.allclose(sums[1:], sums[1])


def test_what_modes_keep():
    import numpy
    from wirelens.packetlog import measure

    # TCP of 1,000 bytes of payload, a short UDP packet, ARP.
    sizes = numpy.array([[1054, 4, 20, 20], [60, 4, 20, 8], [42, 1, -1, -1]], dtype=numpy.float32)
    kept = measure.kept_lens(sizes)
    assert kept["full"].tolist() == [1054, 60, 42]
    assert kept["header"].tolist() == [54, 42, 42]
    assert kept["partial"].tolist() == [182, 60, 42]
    assert kept["sampled"].tolist() == [54 / 8, 42 / 8, 42 / 8]


def test_netbeacon_judges_at_its_phases_and_keeps_the_verdict():
    import numpy
    from wirelens.packetlog import netbeacon, truth

    (capture,) = truth.captures([ATTACKS])
    found = netbeacon.units(capture)
    each = numpy.arange(len(found.unit_of))
    held = found.packet[found.unit_of]
    assert (held <= each).all()
    # A unit holds for itself, and phases are nothing but these.
    assert (found.unit_of[found.packet] == numpy.arange(len(found.packet))).all()
    assert set(found.values[:, -1].astype(int)) <= {0, *netbeacon.PHASES}
    # Behind a phase that has the verdict there are as many packets at most as to the next.
    for phase, after in zip((2, 4, 8), (4, 8, 32), strict=True):
        mine = numpy.flatnonzero(found.values[:, -1] == phase)
        assert len(mine) and numpy.bincount(found.unit_of)[mine].max() <= after - phase
    drawn = netbeacon.load([capture], 10**6, 1)
    grown = netbeacon.NetBeacon.grown(
        drawn, numpy.ones(len(drawn), dtype=bool), 1.0, netbeacon.Shape(), 1
    )
    marked, codes = grown.marked(capture), truth.read(capture).codes
    assert marked[codes > 0].mean() > 0.7 and marked[codes == 0].mean() < 0.1


def test_an_evaluation_tells_each_attack_and_mode(made, capsys):
    run("eval", "-r", ATTACKS, "--model", made / "mine", "--trained-on", ATTACKS, "-q",
        "--table", made / "t.jsonl", "--plots", made / "eval")  # fmt: skip
    text = capsys.readouterr().out
    parts = [json.loads(line) for line in (made / "t.jsonl").read_text().splitlines()]
    assert {part["role"] for part in parts} == {"benign", "attacker", "response", "reflected"}
    lines = packet_lines(ATTACKS)
    counted = [line for line in lines if line["role"] != "intercepted"]
    assert sum(part["packets"] for part in parts) == len(counted)
    for name in ("mine", "everything", "ports", "netbeacon"):
        assert f"| {name} |" in text
    total = sum(part["bytes"] for part in parts)
    for mode in ("default", "log-all", "log-partial", "log-sampled", "log-minimum"):
        kept = sum(part["kept_bytes"]["mine"][mode] for part in parts)
        assert kept == total if mode == "log-all" else kept < total
    everything = [part["marked"]["everything"] == part["packets"] for part in parts]
    assert all(everything)
    assert {path.name for path in (made / "eval").iterdir()} == {"recalls.png", "kept.png"}


def test_congestion_and_the_unknown_are_told_apart(tmp_path):
    run("train", "-r", CONGESTION, "-o", tmp_path / "c", "--use", "congestion", *QUICK)
    told = json.loads((tmp_path / "c/model.json").read_text())
    assert told["classes"] == ["free", "congested"]
    waited = [
        int(line["departed_ns"]) - int(line["time_ns"]) > 5_000_000
        for line in packet_lines(CONGESTION)
        if line["departed_ns"]
    ]
    assert told["training"]["packets"]["congested"] == sum(waited)
    # Of known traffic alone: what is drawn beside it is the other class.
    run("train", "-r", SERVICES, "-o", tmp_path / "u", "--use", "unknown", *QUICK)
    assert json.loads((tmp_path / "u/model.json").read_text())["classes"] == ["benign", "unknown"]


def test_drawn_packets_are_like_benign_ones_column_by_column():
    import numpy
    from wirelens.packetlog import unknown

    values = numpy.arange(4000, dtype=numpy.float32).reshape(1000, 4)
    found = unknown.swapped(values, 0.5, numpy.random.default_rng(1))
    for column in range(4):
        assert set(found[:, column]) <= set(values[:, column])
    changed = (found != values).mean()
    assert 0.4 < changed < 0.6


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("-r", "nowhere"), "nowhere: not a folder; wanted: a testbed run"),
        (("-r", SAMPLES / "latency"), "a run of kind 'latency'; wanted: one of attacks"),
        (("-r", ROOT / "docs"), "neither run.json nor MANIFEST.tsv in it or below"),
        (("-r", SERVICES), "benign packets alone in 1 captures"),
        (("-r", ATTACKS, "-r", ATTACKS), "testbed/attacks: given twice"),
        (("-r", ATTACKS, "--keys", "flow,port"), "--keys 'port'; wanted: some of flow"),
        (("-r", ATTACKS, "--window", "5s"), "source `exact`, which has longer ones"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, capsys, options, told):
    run("train", *options, "-o", tmp_path / "m", *QUICK, status=2)
    assert told in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("header", ["", "path,label\n", "file\tfamily\n"])
def test_a_manifest_without_its_columns_is_refused(tmp_path, header):
    from wirelens import OptionError
    from wirelens.packetlog import truth

    (tmp_path / "MANIFEST.tsv").write_text(header + "a.pcap\tscan\n" * bool(header))
    with pytest.raises(OptionError, match="MANIFEST.tsv: it has the columns .*wanted: file and l"):
        truth.captures([tmp_path])


def test_nothing_is_written_over(made, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    run("train", "-r", ATTACKS, "-o", tmp_path, *QUICK, status=1)
    assert "exists; give another name" in capsys.readouterr().err
    run("train", "-r", ATTACKS, "-o", tmp_path, *QUICK, "--force", status=1)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_model_of_another_version_is_refused(made, tmp_path, capsys):
    shutil.copytree(made / "mine", tmp_path / "old")
    told = json.loads((tmp_path / "old/model.json").read_text())
    seal(tmp_path / "old", json.dumps(told | {"schema": "0" * 64}))
    run("eval", "-r", ATTACKS, "--model", tmp_path / "old", "-q", status=1)
    assert "its columns have another meaning" in capsys.readouterr().err
    run("eval", "-r", ATTACKS, "--model", tmp_path / "none", "-q", status=1)
    assert "none: No such file or directory" in capsys.readouterr().err
