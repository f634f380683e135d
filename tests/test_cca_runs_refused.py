"""Runs and slot files that cannot be read: what is wrong with which file, in one line."""

from pathlib import Path

import pytest
from wirelens import OptionError
from wirelens.cca import packed
from wirelens.cca.onetap import rows
from wirelens.cca.runs import find_runs

COLUMNS = "src_ip\tsrc_port\tdst_ip\tdst_port\tlabel\trole\trtt_ms"
LINK = 'kind = "congestion"\n[link]\nrate_mbit = 10\nbuffer_bytes = 100000\n'
SLOTS = Path(__file__).parents[1] / "testbed/data/congestion/few-train/slots-00.xz"


@pytest.mark.parametrize(
    ("scenario", "flows", "named"),
    [
        ("kind = ", COLUMNS, "scenario.toml: no TOML"),
        ('kind = "congestion"', COLUMNS, "scenario.toml: 'link'"),
        (LINK.replace("10\n", '"fast"\n', 1), COLUMNS, "scenario.toml: could not"),
        (LINK, COLUMNS.replace("\trole", ""), "flows.tsv: no column role"),
        (LINK, "", "flows.tsv: no column src_ip"),
        (LINK, f"{COLUMNS}\na\t1\tb\t2\treno\tmeasured\t", "flows.tsv: could not"),
    ],
)
def test_a_run_that_cannot_be_read_names_its_file(
    tmp_path: Path, scenario: str, flows: str, named: str
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "scenario.toml").write_text(scenario)
    (run / "flows.tsv").write_text(f"{flows}\n" if flows else "")
    with pytest.raises(OptionError, match="wanted|no TOML") as refused:
        find_runs([tmp_path])
    assert named in str(refused.value)


def test_a_file_of_the_other_kind_is_refused_once(tmp_path: Path) -> None:
    kept = tmp_path / "rows.xz"
    rows.write(kept, [])
    for path, read in ((SLOTS, rows.read), (kept, packed.read)):
        with pytest.raises(OptionError) as refused:
            read(path)
        said = str(refused.value)
        assert said.count(str(path)) == 1 and said.count("wanted") == 1, said
