"""The Python that pages show runs: the blocks of a page one after the other, and `>>>` as doctest.

Blocks whose libraries only training needs are left to `make test-train`, which leaves out none.
Tutorials are followed as a whole by test_tutorials.py.
"""

import doctest
import json
import subprocess
import sys
from pathlib import Path

import printed
import pytest
from command import DEMO, ROOT
from printed_stand_ins import StandIns, environment

# What only `bash tools/setup.sh train` installs.
OF_TRAINING = ("torch", "sklearn", "skl2onnx", "lightgbm", "matplotlib", "onnxruntime",
               "safetensors")  # fmt: skip

# The files of a reader that a page's blocks read, made as the page says.
FILES = {
    "docs/guide/exports.md": "wirelens flows -q -r capture.pcap -o flows --partition hour",
    "docs/guide/nprint.md": (
        "wirelens nprint -q -r capture.pcap --depth 10 -o flows.parquet; "
        "wirelens nprint -q -r capture.pcap -o bits.npy udp; "
        "(printf 'community_id\\tlabel\\n'; wirelens flows -q -r capture.pcap --format csv "
        "| sed -n '2,9s/^\\([^,]*\\),.*/\\1\\tmine/p') > labels.tsv"
    ),
    "docs/guide/train.md": (
        "cp -rL models/services models/apps; cp -rL captures new; "
        "printf 'file\\tapp\\ndemo.pcapng\\tdns\\n' > new.tsv"
    ),
    "docs/guide/ray.md": (
        "mkdir paris lyon; cp capture.pcap paris/1.pcap; cp capture.pcap lyon/1.pcap; "
        "cp capture.pcap lyon/2.pcap; rm -rf captures; mkdir captures; cp -r paris lyon captures"
    ),
    # A trace without packets.
    "docs/guide/testbed-l4s.md": "printf 'WLL4S\\0\\0\\1' > default.trace",
}
# What a page calls the reader's own.
OWN = {
    "docs/guide/onnx.md": """
import numpy
from wirelens.classify.features import FlowFeatures, first_packets
numbers = ["protocol", "pkt0_size_bytes", "pkt1_size_bytes"]
table = first_packets("captures/", FlowFeatures(packets=3, numbers=numbers))
classes = ["even", "odd"]
labels = [row % 2 for row in range(len(numpy.asarray(table.numbers)))]
"""
}

RUN_BLOCKS = """
import json, sys, warnings

warnings.simplefilter("ignore")
left_out, own, blocks = json.load(sys.stdin)
for name in left_out:
    sys.modules[name] = None
names = {}
exec(own, names)
for place, text in blocks:
    try:
        exec(compile(text, place, "exec"), names)
    except ImportError as error:
        if (getattr(error, "name", None) or "").partition(".")[0] not in left_out:
            raise
        print("left out", place)
"""


def pages() -> list[str]:
    return sorted({block.page for page in printed.pages() for block in printed.blocks(page)
                   if block.language == "python"
                   and not block.page.startswith("docs/tutorials/")})  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> StandIns:
    return StandIns(tmp_path_factory.mktemp("snippets") / "prepared")


def run_page(page: str, folder: Path, left_out: tuple[str, ...]) -> str:
    """Runs the blocks of a page; which were left out."""
    blocks = [(f"{page}:{block.line}", "\n".join(block.lines)) for block in printed.blocks(page)
              if block.language == "python"]  # fmt: skip
    shell = environment(folder)
    if page in FILES:
        line = ["bash", "-euo", "pipefail", "-c", FILES[page]]
        subprocess.run(line, cwd=folder, env=shell, check=True)
    own = "" if page in OWN and "sklearn" in left_out else OWN.get(page, "")
    done = subprocess.run(
        [sys.executable, "-c", RUN_BLOCKS], input=json.dumps([left_out, own, blocks]), cwd=folder,
        env=shell, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, f"{page}: {done.stderr[-1500:]}"
    return "\n".join(line for line in done.stdout.splitlines() if line.startswith("left out"))


# Ray is an extra of its own, and most blocks of its page build on the first.
OF_RAY = "docs/guide/ray.md"


# ONNX is what training makes: none of its page runs without.
@pytest.mark.parametrize(
    "page", [page for page in pages() if page not in ("docs/guide/onnx.md", OF_RAY)]
)
def test_blocks_run(page: str, prepared: StandIns, tmp_path: Path) -> None:
    run_page(page, prepared.folder_at(tmp_path / "clone"), OF_TRAINING)


@pytest.mark.train
@pytest.mark.parametrize("page", [page for page in pages() if page != OF_RAY])
def test_all_blocks_run_where_models_are_trained(
    page: str, prepared: StandIns, tmp_path: Path
) -> None:
    assert run_page(page, prepared.folder_at(tmp_path / "clone"), ()) == ""


@pytest.mark.ray
def test_blocks_about_ray_run(prepared: StandIns, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    run_page(OF_RAY, prepared.folder_at(tmp_path / "clone"), ("torch",))


def test_prompts_show_what_is_printed(
    prepared: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(prepared.folder_at(tmp_path / "clone"))
    count = 0
    for page in printed.pages():
        text = (ROOT / page).read_text().replace("\n```", "\n\n```")
        test = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        told: list[str] = []
        runner.run(test, out=told.append)
        assert not runner.failures, "".join(told)
        count += len(test.examples)
    assert count > 3 and DEMO.is_file()
