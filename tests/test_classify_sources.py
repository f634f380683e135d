"""Where labelled flows come from: what was typed is used, or refused."""

import gzip
import shutil
from types import SimpleNamespace

import numpy
import pytest
from command import DEMO
from wirelens import OptionError
from wirelens.classify import pool
from wirelens.classify.arguments import parser, train_request
from wirelens.classify.labels import flow_key, match
from wirelens.views import rows_of


def requested(*options):
    typed = ["train", "-o", "model", *map(str, options)]
    return train_request(parser().parse_args(typed), typed[1:])


@pytest.fixture
def captures(tmp_path):
    """Two captures with a table of labels."""
    folder = tmp_path / "captures"
    folder.mkdir()
    for name in ("a.pcapng", "b.pcapng"):
        shutil.copy(DEMO, folder / name)
    table = tmp_path / "flows.tsv"
    table.write_text("file\tlabel\na.pcapng\tweb\nb.pcapng\tdns\n")
    return "-r", folder, "--flows", table


def test_a_manifest_that_lists_no_capture_is_refused(tmp_path, captures):
    manifest = tmp_path / "manifest.tsv"
    manifest.write_text("file\tfamily\nday/a.pcapng\thome\n")
    with pytest.raises(
        OptionError, match=r"lists none of 2 captures, such as .*a\.pcapng; .* has day/"
    ):
        requested(*captures, "--manifest", manifest)
    manifest.write_text("file\tfamily\n")
    with pytest.raises(OptionError, match="has no rows; wanted: ends of their paths"):
        requested(*captures, "--manifest", manifest)


def test_captures_that_a_manifest_leaves_out_are_reported(tmp_path, captures):
    manifest = tmp_path / "manifest.tsv"
    manifest.write_text("file\tfamily\na.pcapng\thome\nelsewhere.pcap\thome\n")
    source = requested(*captures, "--manifest", manifest).source
    assert source.families == ["home", str(source.captures[1])]
    (warning,) = source.warnings
    assert warning.startswith("1 of 2 captures are not in ") and "b.pcapng: each is" in warning
    manifest.write_text("file\tfamily\na.pcapng\thome\nb.pcapng\thome\n")
    source = requested(*captures, "--manifest", manifest).source
    assert (source.families, source.warnings) == (["home", "home"], ())


def test_folders_may_have_compressed_copies_and_folders_of_the_same_names(tmp_path):
    for name in ("web/x.pcapng", "dns/y.pcapng", "dns/web/x.pcapng"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DEMO, path)
    (tmp_path / "web" / "x.pcapng.gz").write_bytes(gzip.compress(DEMO.read_bytes()))
    source = requested("--folders", tmp_path).source
    flows = [(at, flow_key(6, "192.0.2.1", 1, "192.0.2.2", 2), 0) for at in range(4)]
    found = match(source.labels, source.captures, flows)
    assert found.labels == [path.relative_to(tmp_path).parts[0] for path in source.captures]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--memory-half-life", 60], "--memory-half-life: .*wanted: --memory with it"),
        (["--names-packets", 5], "--names-packets: .*wanted: --names TABLE"),
    ],
)
def test_an_option_without_the_one_that_it_changes_is_refused(captures, options, complaint):
    with pytest.raises(OptionError, match=complaint):
        requested(*captures, *options)


@pytest.mark.parametrize("option", ["--family", "--label"])
def test_columns_of_no_table_are_refused(tmp_path, option):
    for name in ("web", "dns"):
        (tmp_path / name).mkdir()
        shutil.copy(DEMO, tmp_path / name)
    with pytest.raises(OptionError, match=f"{option}: a column of --flows"):
        requested("--folders", tmp_path, option, "site")


def test_a_manifest_of_runs_is_refused(tmp_path):
    with pytest.raises(OptionError, match="--manifest: each run of --testbed is a family"):
        requested("--testbed", tmp_path, "--manifest", tmp_path / "manifest.tsv")


def test_rows_have_their_dimensions_and_none_have_one():
    assert rows_of(bytes(48), "d", 3).shape == (2, 3)
    assert rows_of(bytes(96), "f", 4, 2).shape == (3, 4, 2)
    assert rows_of(b"", "d", 3).shape == rows_of(b"", "b", 0).shape == (0,)


def test_models_are_found_again_for_flows_in_the_same_order_and_families_only():
    def flows_hash(order, families):
        first_ns, keys = [1, 2, 3], [flow_key(6, "192.0.2.1", 1, "192.0.2.2", 2)] * 3
        return pool.flows_hash(
            SimpleNamespace(
                keys=[keys[at] for at in order],
                first_ns=[first_ns[at] for at in order],
                labels=numpy.array([[0, 1, 0][at] for at in order]),
                families=numpy.array(families),
            )
        )

    found = flows_hash([0, 1, 2], ["x", "y", "z"])
    assert found == flows_hash([0, 1, 2], ["c", "b", "a"])
    # Captures that were given in another order, and two of one family.
    assert found != flows_hash([2, 1, 0], ["z", "y", "x"])
    assert found != flows_hash([0, 1, 2], ["x", "y", "y"])
