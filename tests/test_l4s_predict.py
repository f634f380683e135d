"""Latency models: what PyTorch trains is what the program serves, and what steers the simulator."""

import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest
from command import PROGRAM
from wirelens import _wirelens
from wirelens.errors import ModelError, OptionError
from wirelens.l4s import Scenario, Summary, Traffic, packets, simulate
from wirelens.l4s.latencies import pack
from wirelens.l4s.served import read_model

pytestmark = pytest.mark.train
TRAFFIC = [Traffic("prague", 4), Traffic("cubic", 2), Traffic("prague", 4, sender=2)]
# An L queue with a fifth of the link: both queues fill, and their delays differ.
SCENARIO = Scenario(
    TRAFFIC, router="mode=partitioned,l4s-share=20", control="random:0.05", duration_s=6, seed=3
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("l4s") / "router.trace"
    simulate(SCENARIO, trace=path)
    return path


@pytest.fixture(scope="module")
def model(trace: Path) -> Path:
    folder = trace.parent / "model"
    done = run("train", "l4s", "-r", trace, "-o", folder, "--window", 24, "--steps", 120)
    assert "mean error" in done.stdout and "F1 of sharp changes" in done.stdout
    return folder


def run(*arguments: Any, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr
    return done


def served(model: Path, found: packets.Packets) -> Any:
    """What the program predicts for both queues, in ms."""
    memory = _wirelens.predict_latencies(read_model(model), found.records.tobytes())
    return numpy.frombuffer(memory, "f4").reshape(-1, 2)


def test_the_program_predicts_what_pytorch_does(trace: Path, model: Path) -> None:
    from wirelens.l4s import learn
    from wirelens.l4s.examples import Part
    from wirelens.l4s.material import Material
    from wirelens.l4s.networks import Causal
    from wirelens.learn.networks import tensor, torch

    found = packets.read_packets(trace)
    both = served(model, found)
    taken = both[numpy.arange(len(both)), found.records["queue"]]
    material = Material.of(found)
    from safetensors.numpy import load

    tensors = load(read_model(model))
    network = Causal(24, tensors["head.bins"])
    assert len(tensors["head.bins"]) > 20
    own = {
        name.replace("head.bins", "coding.bins").replace("head.", "head.layers."): tensor(values)
        for name, values in tensors.items()
    }
    network.load_state_dict(own)
    span = slice(0, len(found))
    residual = learn.predict(network, Part(material, span))
    wanted = material.predicted_ms(residual)
    known = ~numpy.isnan(material.rows.base_ms)
    assert numpy.isnan(taken[~known]).all() and known.sum() > 20_000
    # 1e-4 of the network's unit of 100 ms.
    assert abs(taken - wanted)[known].max() < 0.01
    # Token by token, as the paper's formulas have it, without the mask's tricks.
    with torch.no_grad():
        tokens = material.rows.tokens[:200]
        whole = network.encode(tensor(tokens[None]))[0, -1]
        alone = network.encode(tensor(tokens[None, 200 - network.reach :]))[0, -1]
    assert float(abs(whole - alone).max()) < 1e-4


def test_a_model_learns_what_the_newest_latency_does_not_show(tmp_path: Path) -> None:
    """Bursts of twenty packets fill an empty queue: the first of each is fast, which the last of
    the burst before does not show."""
    path = tmp_path / "bursts.tsv.gz"
    with gzip.open(path, "wt") as table:
        table.write("sent_ns\towd_us\tack_latency_us\tsize_bytes\tflow\tcopy\n")
        for burst in range(400):
            for place in range(20):
                sent_ns = burst * 300_000_000 + place * 1_000_000
                table.write(f"{sent_ns}\t20000\t{40_000 + 2_000 * place}\t1514\t1\t1\n")
    pack(path, tmp_path / "bursts.parquet", {})
    done = run("train", "l4s", "-r", tmp_path / "bursts.parquet", "-o", tmp_path / "model",
               "--window", 24, "--steps", 100)  # fmt: skip
    said = re.search(r"mean error (\S+) ms \((\S+) of .* (\S+) within the flow", done.stdout)
    assert said, done.stdout
    error_ms, of_last_ms, f1 = map(float, said.groups())
    assert error_ms < of_last_ms / 2 and f1 > 0.9, done.stdout


def test_later_latencies_move_no_earlier_prediction(trace: Path, model: Path) -> None:
    found = packets.read_packets(trace)
    records = found.records.copy()
    middle = records["sent_ns"][len(records) // 2]
    is_later = (records["acked_ns"] >= middle) & (records["acked_ns"] != packets.NEVER)
    records["acked_ns"][is_later] += 9_000_000
    records["latency_ns"][is_later & (records["latency_ns"] != packets.NEVER)] += 9_000_000
    one, other = served(model, found), served(model, packets.Packets("", records))
    count = int(numpy.searchsorted(records["sent_ns"], middle, side="right"))
    numpy.testing.assert_array_equal(one[:count], other[:count])
    assert not numpy.array_equal(one, other, equal_nan=True)


def test_a_model_steers_the_simulator(trace: Path, model: Path) -> None:
    def steered(control: str) -> Any:
        return simulate(SCENARIO.having(control=control), model=model)

    found = steered("predicted:1ms:0.2")
    first = found.groups[0]
    share = first.remarked / (first.delays.packets + first.dropped)
    assert 0.001 < share <= 0.2
    assert found == steered("predicted:1ms:0.2"), "the same seed gives the same run"
    assert steered("predicted:1ms:0").groups[0].remarked == 0
    plain = simulate(SCENARIO.having(control="none"))
    assert steered("predicted:60000ms:1").groups[0].remarked == 0
    assert steered("predicted:1ms:0").groups[0].delays == plain.groups[0].delays


def test_a_model_is_fine_tuned_while_it_steers(model: Path, tmp_path: Path) -> None:
    def steered(tune: float | None) -> Any:
        scenario = SCENARIO.having(control="predicted:0ms:0.2")
        return simulate(scenario, model=model, tune=tune)

    tuned, plain = steered(1.5), steered(None)
    assert plain.tunings is None and tuned.tunings is not None
    found = tuned.tunings
    assert found.done + found.worse == 3 and found.done > 0 and found.failed == found.skipped == 0
    assert found.examples >= 512 * found.done
    counts = tuned.steered
    kept = counts.kept, counts.rare, counts.silent, counts.unknown, counts.limited
    assert counts.asked == counts.remarked + sum(kept)
    # What was re-marked just before the end is not at the router yet.
    assert 0 <= counts.remarked - tuned.groups[0].remarked <= 2 < counts.remarked
    assert tuned.steered != plain.steered and tuned == steered(1.5)
    (tmp_path / "steered.txt").write_text(SCENARIO.text())
    told = run("testbed", "simulate", tmp_path / "steered.txt", "--set",
               "control=predicted:0ms:0.2", "--model", model, "--tune", "1500ms")  # fmt: skip
    assert Summary.read(told.stdout) == tuned
    refused = run("testbed", "simulate", tmp_path / "steered.txt", "--model", model, status=2)
    assert "a model, and a control that needs none" in refused.stderr
    with pytest.raises(OptionError, match="tune: no model; wanted: one to fine-tune"):
        simulate(SCENARIO, tune=1)
    with pytest.raises(OptionError, match="tune: 0; wanted: seconds"):
        simulate(SCENARIO, tune=0)


def test_tuned_by_the_program_or_by_pytorch_predictions_are_as_good(
    trace: Path, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    run("eval", "l4s", "--predict", trace, "--train", 2, "--every", 1, "--tune", 1, "--window", 24,
        "--steps", 20, "--seeds", 2, "--rows", rows, "--predictors", "causal,causal-served",
        )  # fmt: skip
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    assert len({row["packets"] for row in found}) == 1 and found[0]["tune_cpu_s"] > 0
    # Minibatches are other ones, and so is each seed's outcome by some percent.
    one, other = (sum(row["mean_error_ms"] for row in found[at : at + 2]) for at in (0, 2))
    assert abs(one / other - 1) < 0.08


def test_wrong_wishes_are_said_to_be_wrong(trace: Path, model: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="control predicted without a model"):
        simulate(SCENARIO.having(control="predicted:1ms"))
    with pytest.raises(OptionError, match="a control that needs none"):
        simulate(SCENARIO, model=model)
    with pytest.raises(OptionError, match=r"wanted: predicted:TIME or predicted:TIME:SHARE"):
        simulate(SCENARIO.having(control="predicted:1"), model=model)
    with pytest.raises(ModelError, match="wanted: a folder that `wirelens train l4s` wrote"):
        simulate(SCENARIO.having(control="predicted:1ms"), model=tmp_path / "none")
    with pytest.raises(ModelError, match='format "wirelens-cca 1"; wanted: "wirelens-l4s 1"'):
        simulate(SCENARIO.having(control="predicted:1ms"), model="cca")
    again = run("train", "l4s", "-r", trace, "-o", model, "--steps", 1, status=1)
    assert "exists; give another folder, or --force" in again.stderr
    short = run("eval", "l4s", "--predict", trace, status=2)
    assert "wanted: more than the 300 s that train" in short.stderr
    text = tmp_path / "text"
    text.write_text("no trace")
    refused = run("train", "l4s", "-r", text, "-o", tmp_path / "model", status=1)
    assert "wanted: a trace of an L4S network" in refused.stderr


def test_predictors_are_compared_and_a_comparison_goes_on(trace: Path, tmp_path: Path) -> None:
    rows, names = tmp_path / "rows.jsonl", "last-of-queue,xgboost,bilstm,full,causal,causal-mse"
    asked = ["eval", "l4s", "--predict", trace, "--train", 3, "--every", 1.5, "--tune", 1,
             "--window", 16, "--steps", 10, "--rows", rows]  # fmt: skip
    done = run(*asked, "--predictors", names)
    for name in names.split(","):
        assert f"| router | {name} |" in done.stdout
    assert "Sharp changes tested: router: " in done.stdout
    before = rows.read_text()
    found = [json.loads(line) for line in before.splitlines()]
    assert [row["predictor"] for row in found] == names.split(",")
    assert all(row["tune_cpu_s"] > 0 for row in found[1:])
    again = run(*asked, "--predictors", names)
    assert (rows.read_text(), again.stdout) == (before, done.stdout), "nothing is made again"
    assert "causal, seed 1" not in again.stderr


def test_rows_of_another_comparison_are_no_answer(trace: Path, tmp_path: Path) -> None:
    """Nor those of another trace of the same name, though rows of before, which do not say, are."""
    rows, other = tmp_path / "rows.jsonl", tmp_path / "other" / trace.name
    asked = ["eval", "l4s", "--predict", trace, "--every", 1.5, "--rows", rows,
             "--predictors", "last-of-queue"]  # fmt: skip
    for train, count in ((3, 1), (2, 2), (3, 2)):
        run(*asked, "--train", train)
        assert len(rows.read_text().splitlines()) == count
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    assert found[0]["packets"] < found[1]["packets"]
    other.parent.mkdir()
    simulate(SCENARIO.having(seed=4), trace=other)
    run(*[other if word is trace else word for word in asked], "--train", 3)
    assert len(rows.read_text().splitlines()) == 3
    before = {key: value for key, value in found[0].items() if key != "asked"}
    rows.write_text(json.dumps(before) + "\n")
    run(*asked, "--train", 3)
    assert len(rows.read_text().splitlines()) == 1


@pytest.mark.parametrize("line", ['{"trace": "rou', "[]", "{}", "3"])
def test_a_line_that_is_no_row_is_named(trace: Path, tmp_path: Path, line: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(line)
    refused = run("eval", "l4s", "--predict", trace, "--rows", rows, status=2)
    assert f"{rows}: line 1: " in refused.stderr and "wanted: a row" in refused.stderr
    assert "Traceback" not in refused.stderr and rows.read_text() == line


def test_a_model_is_compared_with_rules(model: Path, tmp_path: Path) -> None:
    asked = ["eval", "l4s", "--controls", "--scenarios", "greedy", "--routers", "partitioned-20",
             "--seeds", 1, "--duration", 4, "--rows", tmp_path / "rows.jsonl",
             "--plots", tmp_path]  # fmt: skip
    done = run(*asked, "--model", model, "--margin", "1ms", "--share", 0.1)
    found = {}
    for line in (tmp_path / "rows.jsonl").read_text().splitlines():
        row = json.loads(line)
        found[row["control"]] = row
    predicted, as_often = found["predicted"], found["random, rate of predicted"]
    assert predicted["rule"] == "predicted:1000000ns:0.1"
    assert 0 < predicted["remarked"] <= 0.1
    assert abs(as_often["remarked"] - predicted["remarked"]) < 0.02
    assert "| predicted |" in done.stdout and (tmp_path / "controls.png").stat().st_size > 10_000
    missing = run(*asked, "--model", tmp_path / "none", status=1)
    assert "wanted: a folder that `wirelens train l4s` wrote" in missing.stderr


def test_a_card_says_what_it_was_measured_on(model: Path) -> None:
    card = (model / "card.md").read_text()
    assert "used to end training, so that the figures are optimistic" in card
    assert "newest latency of the queue" in card and "router" in card
    assert "wirelens train l4s -r" in card


def test_bins_are_quantiles_of_delays_and_counts(trace: Path) -> None:
    from wirelens.l4s.coding import BINS, bins_of, coded_numbers
    from wirelens.l4s.material import Material

    assert coded_numbers() == list(range(10, 24))
    queries = Material.of(packets.read_packets(trace)).rows.queries
    bins = bins_of([queries[:9_000], queries[9_000:]])
    assert len(bins) > 20 and set(bins[:, 0]) <= set(coded_numbers())
    for number in set(bins[:, 0]):
        mine = bins[bins[:, 0] == number]
        assert len(mine) <= BINS and (mine[:, 1] < mine[:, 2]).all()
        numpy.testing.assert_array_equal(mine[1:, 1], mine[:-1, 2])
        assert (mine[:, 2] <= queries[:, int(number)].max()).all()
    # A number that is always the same has no bin.
    assert len(bins_of([numpy.ones_like(queries[:5])])) == 0


def test_fine_tuning_holds_out_what_the_program_does() -> None:
    from wirelens.l4s.examples import held_out

    # The numbers of `crates/l4s/src/tuning/held_out.rs`.
    for count, wanted in [(0, 0), (9, 0), (10, 1), (512, 50), (250_000, 24_960)]:
        assert (len(held_out(count)), held_out(count).sum()) == (count, wanted)


def test_a_head_may_train_on_runs_of_many_packets(trace: Path) -> None:
    from wirelens.l4s.examples import Examples, Part, thinned
    from wirelens.l4s.material import Material

    material = Material.of(packets.read_packets(trace))
    parts = [Part(material, slice(0, 15_000)), Part(material, slice(15_000, 20_000))]
    assert thinned(parts, 20_000, numpy.random.default_rng(1)) is parts
    some = thinned(parts, 9_000, numpy.random.default_rng(1))
    assert [len(part) for part in some] != [15_000, 5_000]
    assert 2_000 < sum(map(len, some)) <= 9_000
    examples = Examples.of(some, [numpy.zeros((len(part), 1)) for part in some])
    # What is before a packet is in the same run, and of the same flow.
    places = numpy.concatenate([numpy.arange(len(material))[part.span] for part in some])
    has = examples.before >= 0
    assert has.mean() > 0.9 and (examples.before < numpy.arange(len(has))).all()
    flows = material.packets.records["flow"][places]
    assert (flows[examples.before[has]] == flows[has]).all()
    order = examples.order(numpy.random.default_rng(1))
    counted = numpy.bincount(order, minlength=len(has))
    numpy.testing.assert_array_equal(counted, numpy.ceil(material.weight[places]))


def test_several_intervals_share_a_training(trace: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    done = run("eval", "l4s", "--predict", trace, "--train", 3, "--every", "0,1,2", "--tune", 1,
               "--rows", rows, "--predictors", "xgboost")  # fmt: skip
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["tuned_every_s"] for row in found] == [0.0, 1.0, 2.0]
    assert len({row["train_cpu_s"] for row in found}) == 1
    assert found[0]["tune_cpu_s"] == 0 < found[2]["tune_cpu_s"] < found[1]["tune_cpu_s"]
    assert "| xgboost, not tuned |" in done.stdout and "xgboost, tuned every 2 s" in done.stdout
