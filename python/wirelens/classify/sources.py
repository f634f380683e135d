"""Labelled flows from what was typed: captures with a table, folders of classes, testbed's runs."""

import argparse
import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wirelens.classify.dataset import (
    Source,
    capture_families,
    captures_of,
    folder_source,
    renamed,
    testbed_source,
    together,
)
from wirelens.classify.labels import (
    CaptureNames,
    class_name,
    read_families,
    read_labels,
    read_table,
)
from wirelens.errors import OptionError


def source_of(asked: argparse.Namespace) -> Source:
    """Labelled flows, wherever they were said to be."""
    if asked.flows and asked.labels_by_mac is not None:
        raise OptionError("--labels-by-mac with --flows; wanted: one (--flows may have mac)")
    has_table, has_folders = bool(_tables(asked)), asked.folders is not None
    has_one = has_table != has_folders or (asked.testbed is not None and not has_table)
    if (has_table and has_folders) or not has_one or bool(asked.read) != has_table:
        raise OptionError(
            "labelled flows: wanted: -r CAPTURES with --flows or --labels-by-mac TABLE, or "
            "--folders DIR, or --testbed DIR; the last alone or with one of the others"
        )
    _check_columns(asked, has_table, has_folders)
    parts = []
    if has_table or has_folders:
        parts.append(_captures_source(asked))
    if asked.testbed is not None:
        parts.append(testbed_source(asked.testbed))
    source = together(*parts) if len(parts) > 1 else parts[0]
    return source if asked.classes is None else renamed(source, _read_classes(asked.classes))


def _check_columns(asked: argparse.Namespace, has_table: bool, has_folders: bool) -> None:
    """Refuses names of columns, and a manifest, that nothing would read."""
    if asked.manifest is not None and not (has_table or has_folders):
        raise OptionError("--manifest: each run of --testbed is a family by itself; leave it out")
    if asked.family is not None and asked.manifest is None and not has_table:
        raise OptionError(
            "--family: a column of --flows or --manifest, and neither is given; leave it out"
        )
    if asked.label != "label" and not has_table:
        raise OptionError("--label: a column of --flows, which is not given; leave it out")


def _tables(asked: argparse.Namespace) -> list[Path]:
    """The tables of labels, whichever kind was given."""
    by_mac = asked.labels_by_mac
    return [*asked.flows, *([] if by_mac is None else [by_mac])]


def _read_classes(path: Path) -> dict[str, str]:
    """What labels are called as classes."""
    rows = read_table(path)
    if not rows or not {"label", "class"} <= rows[0].keys():
        raise OptionError(f"{path}: wanted: a table with the columns label and class")
    return {row["label"]: class_name(row["class"]) for row in rows}


def _captures_source(asked: argparse.Namespace) -> Source:
    """Captures with a table of labels, or in folders of classes."""
    if asked.folders is not None:
        source = folder_source(asked.folders)
    else:
        column = asked.family if asked.manifest is None else None
        tables = [read_labels(table, asked.label, column) for table in _tables(asked)]
        parts = [Source([], labels, []) for labels in tables]
        labels = functools.reduce(together, parts).labels
        if asked.labels_by_mac is not None and not all(row.mac for row in labels.rows):
            raise OptionError(
                f"{labels.path}: rows without mac; wanted: a hardware address in each"
            )
        source = Source(captures_of(asked.read), labels, [])
    if asked.manifest is None:
        return replace(source, families=capture_families(source.captures, None))
    families, warned = _listed_families(asked, source.captures)
    return replace(source, families=families, warnings=tuple(warned))


def _listed_families(
    asked: argparse.Namespace, captures: Sequence[Path]
) -> tuple[list[str], list[str]]:
    """Families by the manifest, and what it leaves out.

    Raises
    ------
    OptionError
        If it lists none of the captures: what was made together would be on several sides.
    """
    named, names = read_families(asked.manifest, asked.family or "family"), CaptureNames(captures)
    listed = {names.find(name) for name in named}
    left = [str(path) for at, path in enumerate(captures) if at not in listed]
    if len(left) == len(captures):
        example = next(iter(named), "no rows")
        raise OptionError(
            f"{asked.manifest}: it lists none of {len(captures)} captures, such as {left[0]}; its "
            f"column file has {example}; wanted: ends of their paths"
        )
    families = capture_families(captures, named)
    if not left:
        return families, []
    seen = f"{len(left)} of {len(captures)} captures are not in {asked.manifest}, such as {left[0]}"
    return families, [f"{seen}: each is a family by itself"]
