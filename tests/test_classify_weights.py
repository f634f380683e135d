"""Which training flows count, and how much; recipes as they would be typed."""

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is what trains")

from wirelens.classify import recipe_file  # noqa: E402
from wirelens.classify.weights import Groups, class_weights  # noqa: E402
from wirelens.errors import OptionError  # noqa: E402

pytestmark = pytest.mark.train

# Five flows of one group, one of another port, two whose ports hosts drew.
PORTS = numpy.array([[6, 80]] * 5 + [[6, 81], [6, 40_000], [6, 50_000]])
LABELS = numpy.zeros(8, dtype=int)
FAMILIES = numpy.array(["a"] * 8)


def test_of_flows_that_are_alike_so_many_train():
    chosen = Groups(flows_max=2).chosen(PORTS, LABELS, FAMILIES, seed=1)
    assert chosen.tolist() == sorted(chosen.tolist()) and len(chosen) == 2 + 1 + 2
    assert {5, 6, 7} <= set(chosen.tolist())
    others = [Groups(2).chosen(PORTS, LABELS, FAMILIES, seed).tolist() for seed in range(9)]
    assert others[1] == chosen.tolist() and len({tuple(one) for one in others}) > 1
    # Drawn ports are one group, families and classes are not.
    assert len(Groups(1).chosen(PORTS, LABELS, FAMILIES, 1)) == 3
    assert len(Groups(1).chosen(PORTS, numpy.arange(8), FAMILIES, 1)) == 8
    assert len(Groups().chosen(PORTS, LABELS, FAMILIES, 1)) == 8


def test_flows_that_are_alike_share_their_weight():
    once = Groups(weighting="once").weights(PORTS, LABELS, FAMILIES)
    assert once.tolist() == [0.2] * 5 + [1.0] + [0.5] * 2
    root = Groups(weighting="root").weights(PORTS, LABELS, FAMILIES)
    assert root[:5].sum() == pytest.approx(5**0.5)
    with pytest.raises(OptionError, match="none, root, once"):
        Groups(weighting="twice")


def test_classes_weigh_the_same_on_top_of_it():
    labels = numpy.array([0] * 5 + [1] * 3)
    given = numpy.array([1.0] * 5 + [0.5] * 3)
    found = class_weights(labels, 2, "balanced", given)
    assert found[:5].sum() == pytest.approx(found[5:].sum()) and found.mean() == pytest.approx(1)


def test_a_recipe_is_what_would_be_typed(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text(
        'depths = [1, 5]\nno-ports = true\ndrop = ["a*", "b*"]\nknown-ports = "k.tsv"\nrare = 3\n'
        "[set.lightgbm]\nnum_leaves = 7\n"
    )
    assert recipe_file.options(path) == [
        "--depths=1,5", "--no-ports", "--drop=a*", "--drop=b*",
        f"--known-ports={tmp_path / 'k.tsv'}", "--rare=3", "--set=lightgbm.num_leaves=7",
    ]  # fmt: skip
    path.write_text("depths = 1979-05-27\n")
    with pytest.raises(OptionError, match="depths is"):
        recipe_file.options(path)
    with pytest.raises(OptionError, match="no such file"):
        recipe_file.options(tmp_path / "none.toml")
