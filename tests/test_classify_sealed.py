"""Sealed families train and choose nothing, and an evaluation of them is one of what was sealed."""

import importlib.util
import json
import shutil
from pathlib import Path

import classify_flows
import pytest
from wirelens.learn.sealing import is_sealed

LIBRARIES = ("numpy", "sklearn")
MISSING = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(
        bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; bash tools/setup.sh train"
    ),
]
CAPTURES, FLOWS, SHARE = 12, 25, 0.25
QUICK = ("--families", "decision-tree", "--depths", 1, "--flows-min", 1)
HELD = [name for number in range(CAPTURES) if is_sealed(name := f"f{number}", SHARE)]


def run(*arguments: object, status: int = 0) -> None:
    from wirelens.classify.__main__ import main

    assert main([str(argument) for argument in arguments]) == status


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """Labelled captures of families whose names do not depend on where they are."""
    folder = tmp_path_factory.mktemp("sealed")
    table = classify_flows.make(folder / "captures", captures=CAPTURES, flows=FLOWS)
    rows = "".join(f"c{number:02}.pcap\tf{number}\n" for number in range(CAPTURES))
    (folder / "manifest.tsv").write_text(f"file\tfamily\n{rows}", encoding="utf-8")
    return ("-r", folder / "captures", "--flows", table, "--label", "app", "--manifest",
            folder / "manifest.tsv")  # fmt: skip


@pytest.fixture(scope="module")
def model(source: tuple[object, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cascade that was trained without the sealed families."""
    folder = tmp_path_factory.mktemp("model") / "apps"
    run("train", *source, "-o", folder, *QUICK, "--sealed", SHARE)
    return folder


def training_of(model: Path) -> dict[str, object]:
    return json.loads((model / "cascade.json").read_text(encoding="utf-8"))["training"]


def test_a_share_that_seals_no_family_or_all_is_refused(source, tmp_path, capsys) -> None:
    run("train", *source, "-o", tmp_path / "m", *QUICK, "--sealed", 0.0001, status=2)
    told = capsys.readouterr().err
    assert f"--sealed 0.0001: none of {CAPTURES} families of captures are in this share" in told
    assert "give a larger --sealed, or more captures" in told
    run("train", *source, "-o", tmp_path / "m", *QUICK, "--sealed", 1, status=2)
    assert f"--sealed 1: all of {CAPTURES} families" in capsys.readouterr().err


def test_folds_of_families_leave_sealed_ones_out(source, tmp_path, monkeypatch) -> None:
    from wirelens.classify import cross

    plans = []
    choose = cross.choose

    def noted(request, dataset, plan, *others):
        plans.append((dataset, plan))
        return choose(request, dataset, plan, *others)

    monkeypatch.setattr(cross, "choose", noted)
    run("train", *source, "-o", tmp_path / "m", *QUICK, "--sealed", SHARE, "--cross-validate", 2,
        "--folds", 2, "--report", tmp_path / "c.md")  # fmt: skip
    assert len(plans) == 2 and HELD
    for dataset, plan in plans:
        for rows in (plan.training, plan.checked, plan.test):
            assert not set(dataset.families[rows].tolist()) & set(HELD)
    text = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert f"{len(HELD)} sealed families of captures ({len(HELD) * FLOWS} flows, --sealed " in text
    others = CAPTURES - len(HELD)
    assert f"{others * FLOWS} flows of {others} families of captures" in text


def test_families_that_are_not_sealed_are_shared_out_whole(source, tmp_path, monkeypatch) -> None:
    from wirelens.classify import train

    plans = []
    plan_of = train.plan_of

    def noted(request, dataset, progress):
        plan, told = plan_of(request, dataset, progress)
        plans.append((dataset, plan))
        return plan, told

    monkeypatch.setattr(train, "plan_of", noted)
    run("train", *source, "-o", tmp_path / "m", *QUICK, "--sealed", SHARE, "--split", "30/10/60")
    ((dataset, plan),) = plans
    families = [set(dataset.families[rows].tolist()) for rows in (plan.training, plan.checked)]
    others = CAPTURES - len(HELD)
    # Families of as many flows each, three to one.
    assert list(map(len, families)) == [round(others * 3 / 4), round(others / 4)]
    assert not families[0] & families[1] and len(families[0] | families[1]) == others


def test_a_model_has_a_record_of_what_trained_it(model) -> None:
    training = training_of(model)
    assert training["sealed"] == SHARE
    assert len(training["capture_sha256"]) == CAPTURES - len(HELD)


def test_sealed_families_are_evaluated_by_the_share_of_training(model, source, capsys) -> None:
    run("eval", "--model", model, *source, "--sealed", SHARE)
    told = capsys.readouterr()
    assert "None of the captures trained or selected this model." in told.out
    assert f"{len(HELD) * FLOWS} flows of {len(HELD)} families" in told.out
    run("eval", "--model", model, *source, "--sealed", 0.5, status=2)
    told = capsys.readouterr()
    assert f"was trained with --sealed {SHARE}, so other families" in told.err and not told.out
    run("eval", "--model", model, *source)
    told = capsys.readouterr()
    counts = f"{CAPTURES - len(HELD)} of {CAPTURES} captures trained or selected this model"
    assert f"warning: {counts}, such as " in told.err and counts in told.out


def test_captures_that_trained_under_another_name_are_refused(
    model, source, tmp_path, capsys
) -> None:
    manifest = tmp_path / "manifest.tsv"
    # A capture that trained is now of a family that is sealed.
    trained = next(number for number in range(CAPTURES) if f"f{number}" not in HELD)
    manifest.write_text(f"file\tfamily\nc{trained:02}.pcap\t{HELD[0]}\n", encoding="utf-8")
    run("eval", "--model", model, *source[:-1], manifest, "--sealed", SHARE, status=2)
    told = capsys.readouterr().err
    assert "captures trained or selected this model, such as " in told
    assert "wanted: paths, --family and --manifest as in training" in told


def test_a_model_without_a_record_cannot_be_checked(model, source, tmp_path, capsys) -> None:
    from wirelens.sealed import sums

    old = tmp_path / "old"
    shutil.copytree(model, old)
    head = json.loads((old / "cascade.json").read_text(encoding="utf-8"))
    del head["training"]["sealed"], head["training"]["capture_sha256"]
    (old / "cascade.json").write_text(json.dumps(head), encoding="utf-8")
    (old / "SHA256SUMS").unlink()
    (old / "SHA256SUMS").write_text(sums(sorted(old.iterdir())), encoding="utf-8")
    run("eval", "--model", old, *source, "--sealed", 0.5)
    told = capsys.readouterr()
    for text in (told.err, told.out):
        assert "whether these were sealed in training cannot be checked" in text
    run("eval", "--model", old, *source)
    told = capsys.readouterr()
    assert "these are the captures and labels of training" in told.err
    assert "whether these were not among them cannot be checked" in told.out
