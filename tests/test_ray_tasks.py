"""What a task over Ray refuses, tried without Ray: captures and models that are not the plan's."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from command import DEMO, ROOT
from sealing import change_trees, seal
from wirelens import _wirelens
from wirelens.errors import ModelError, OptionError, OutputExistsError
from wirelens.ray import asking, tasks
from wirelens.ray.parts import Folder, Rows
from wirelens.ray.sets import sets_of
from wirelens.ray.tasks import Task


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return shutil.copytree(ROOT / "models/services", tmp_path / "services")


def task_of(model: Path, part: Path) -> Task:
    (captures,) = sets_of(DEMO)
    return Task(
        question="classify_flows",
        arguments={"model": str(model), "seed": 1},
        captures=captures,
        source=captures.source,
        share=None,
        threads=1,
        part=str(part),
        version=_wirelens.__version__,
        model_id=tasks.model_id(str(model)),
    )


def replace_stage(model: Path) -> None:
    """Another last stage under the same name; `cascade.json` does not change."""
    change_trees(model / "slow.trees.jsonl")
    seal(model, *(path.name for path in model.iterdir() if path.name != "SHA256SUMS"))


def test_a_task_refuses_a_model_that_was_replaced(model: Path, tmp_path: Path) -> None:
    task = task_of(model, tmp_path / "rows/part.parquet")
    assert tasks.run(task).rows > 0
    cascade = model / "cascade.json"
    cascade.write_bytes(cascade.read_bytes() + b"\n")
    again = replace(task, part=str(tmp_path / "rows/other.parquet"))
    with pytest.raises(ModelError, match="another model than when the run began"):
        tasks.run(again)
    cascade.unlink()
    with pytest.raises(ModelError, match="on every machine"):
        tasks.run(again)
    assert not Path(again.part).exists()


def test_a_task_refuses_a_stage_that_was_replaced_under_its_name(
    model: Path, tmp_path: Path
) -> None:
    task = task_of(model, tmp_path / "rows/part.parquet")
    tasks.run(task)
    # The id is that of rows and workers.
    rows = pyarrow.parquet.read_table(task.part, columns=["model"])
    assert set(rows["model"].to_pylist()) == {task.model_id}
    replace_stage(model)
    again = replace(task, part=str(tmp_path / "rows/other.parquet"))
    with pytest.raises(ModelError, match="another model than when the run began"):
        tasks.run(again)
    assert not Path(again.part).exists()
    (model / "slow.trees.jsonl").unlink()
    with pytest.raises(ModelError, match="slow.trees.jsonl: .*on every machine"):
        tasks.run(again)


def test_a_run_is_resumed_with_the_same_model_and_not_with_another_stage(
    model: Path, tmp_path: Path
) -> None:
    def begin(resume: bool) -> None:
        arguments = {"model": str(model)}
        about = asking._about(
            "classify_flows", arguments, sets_of(DEMO), tasks.model_id(str(model))
        )
        Folder(tmp_path / "rows", resume, False).begin(about, {})

    (tmp_path / "rows").mkdir()
    begin(resume=False)
    # Neither a card nor a copy is another model.
    (model / "card.md").write_text("Copied.")
    shutil.copytree(model, tmp_path / "copy")
    shutil.rmtree(model)
    (tmp_path / "copy").rename(model)
    begin(resume=True)
    replace_stage(model)
    with pytest.raises(OutputExistsError, match="differs from its run: model;"):
        begin(resume=True)


def test_rows_of_a_model_that_is_replaced_meanwhile_are_removed(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(model, tmp_path / "part.parquet")
    ask = tasks._ask

    def replaced(one: Task) -> Any:
        found = ask(one)
        (model / "cascade.json").write_bytes(b"{}")
        return found

    monkeypatch.setattr(tasks, "_ask", replaced)
    with pytest.raises(ModelError, match="another model"):
        tasks.run(task)
    assert not Path(task.part).exists()


def test_a_run_is_not_resumed_with_another_model_or_egress_capture(tmp_path: Path) -> None:
    tap = tmp_path / "egress.pcapng"
    shutil.copy(DEMO, tap)

    def about(sha256: str | None) -> dict[str, Any]:
        captures = sets_of(DEMO)[0].with_egress([str(tap)])
        return asking._about("latency", {"egress": [str(tap)]}, [captures], sha256)

    Folder(tmp_path / "rows", False, False).path.mkdir()
    Folder(tmp_path / "rows", False, False).begin(about("a"), {})
    Folder(tmp_path / "rows", True, False).begin(about("a"), {})
    with pytest.raises(OutputExistsError, match="differs from its run: model;"):
        Folder(tmp_path / "rows", True, False).begin(about("b"), {})
    with tap.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(OutputExistsError, match="differs from its run: egress captures;"):
        Folder(tmp_path / "rows", True, False).begin(about("a"), {})


def test_rows_have_the_pseudonyms_of_one_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, (captures,) = tmp_path / "key", sets_of(DEMO)
    key.write_bytes(b"a" * 32)
    arguments = {"hash_names": str(key), "seed": 1}
    id_ = tasks.key_id(key)
    task = Task(
        question="flows",
        arguments=arguments,
        captures=captures,
        source=captures.source,
        share=None,
        threads=1,
        part=str(tmp_path / "part.parquet"),
        version=_wirelens.__version__,
        key_id=id_,
    )
    assert tasks.run(task).rows > 0
    plan = asking._about("flows", arguments, [captures], None, id_)
    Folder(tmp_path / "rows", False, False).begin(plan, {})
    Folder(tmp_path / "rows", True, False).begin(plan, {})

    ask = tasks._ask

    def replaced(one: Task) -> Any:
        found = ask(one)
        key.write_bytes(b"b" * 32)
        return found

    other = replace(task, part=str(tmp_path / "other.parquet"))
    with monkeypatch.context() as patched, pytest.raises(OptionError, match="another key"):
        patched.setattr(tasks, "_ask", replaced)
        tasks.run(other)
    assert not Path(other.part).exists()
    with pytest.raises(OptionError, match="another key than when the run began"):
        tasks.run(other)
    plan = asking._about("flows", arguments, [captures], None, tasks.key_id(key))
    with pytest.raises(OutputExistsError, match="differs from its run: key of names;"):
        Folder(tmp_path / "rows", True, False).begin(plan, {})
    key.unlink()
    with pytest.raises(OptionError, match="key under this path on every machine"):
        tasks.key_id(key)


def test_models_of_folders_are_absolute_and_those_that_ship_have_names(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    for given, wanted in (("services", "services"), ("./services", str(model)),
                          (Path("services"), str(model))):  # fmt: skip
        asked: dict[str, Any] = {"model": given}
        asking._make_absolute(asked)
        assert asked["model"] == wanted
    assert tasks.model_id("services") is None
    assert tasks.model_id(Path("services")) == tasks.model_id(str(model))
    assert re.fullmatch("services@[0-9a-f]{12}", tasks.model_id(str(model)) or "")


def test_captures_that_cannot_be_read_are_damages(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(DEMO, folder / "a.pcapng")
    # The magic of pcap, and a version that there is none of.
    (folder / "b.pcap").write_bytes(bytes.fromhex("d4c3b2a1 63000000") + bytes(16))
    (captures,) = sets_of(folder)
    (refused,) = captures.refused
    assert "b.pcap" in refused
    assert len(captures.captures) == 1
    captures.check()
    assert Rows(Path("rows"), [], captures.refused).damages == [refused]
