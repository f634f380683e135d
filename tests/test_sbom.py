"""The list of what the program is made of: complete, with hashes that are right, and CycloneDX."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import ROOT

SCRIPT = ROOT / "tools/sbom.py"
# Fields that the schema of CycloneDX 1.6 requires, and its words.
TYPES = {
    "application", "framework", "library", "container", "platform", "operating-system", "device",
    "device-driver", "firmware", "file", "machine-learning-model", "data", "cryptographic-asset",
}  # fmt: skip
DIGITS = {"SHA-256": 64, "SHA-512": 128}
SCOPES = {"required", "optional", "excluded"}


@cache
def metadata() -> bytes:
    host = subprocess.run(["rustc", "--print", "host-tuple"], check=True, capture_output=True)
    ran = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform",
         host.stdout.decode().strip()],
        check=True, capture_output=True, cwd=ROOT,
    )  # fmt: skip
    return ran.stdout


def written(*words: str | Path) -> str:
    ran = subprocess.run(
        [sys.executable, SCRIPT, *words], check=True, capture_output=True, input=metadata(),
        env=os.environ | {"SOURCE_DATE_EPOCH": "1790000000"},
    )  # fmt: skip
    return ran.stdout.decode()


def faults(bom: dict[str, Any]) -> list[str]:
    """What the schema of CycloneDX 1.6 does not allow, as far as its required fields go."""
    found = []
    if (bom.get("bomFormat"), bom.get("specVersion")) != ("CycloneDX", "1.6"):
        found.append("format")
    if not re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bom["serialNumber"]):
        found.append("serial number")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bom["metadata"]["timestamp"]):
        found.append("timestamp")
    components = [bom["metadata"]["component"], *bom["components"]]
    references = [one.get("bom-ref") for one in components]
    if len(set(references)) != len(references) or None in references:
        found.append("references")
    for one in components:
        digests = {digest["alg"]: digest["content"] for digest in one.get("hashes", [])}
        fits = all(
            re.fullmatch(f"[0-9a-f]{{{DIGITS[name]}}}", text) for name, text in digests.items()
        )
        if not (one.get("name") and one.get("type") in TYPES and fits):
            found.append(f"component {one}")
        if one.get("scope", "required") not in SCOPES:
            found.append(f"scope {one}")
    for dependency in bom["dependencies"]:
        if not {dependency["ref"], *dependency["dependsOn"]} <= set(references):
            found.append("dependencies")
    return found


@pytest.fixture(scope="module")
def bom() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(written())
    return made


def test_it_has_what_the_format_requires(bom: dict[str, Any]) -> None:
    assert not faults(bom)
    bad = json.loads(json.dumps(bom))
    bad["components"][0]["type"] = "crate"
    bad["components"][1]["hashes"][0]["content"] = "1234"
    bad["components"][3]["bom-ref"] = bad["components"][4]["bom-ref"]
    bad["dependencies"][0]["dependsOn"].append("none")
    assert len(faults(bad)) == 4


def test_crates_have_the_hashes_by_which_cargo_takes_them(bom: dict[str, Any]) -> None:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(one["name"], one["version"]): one.get("checksum") for one in lock}
    crates = [one for one in bom["components"] if one.get("purl", "").startswith("pkg:cargo/")]
    assert len(crates) > 200
    for one in crates:
        assert one["hashes"][0]["content"] == sums[one["name"], one["version"]], one
        assert one["licenses"][0]["expression"]
    assert {"clap", "zstd-sys", "ring", "rustls"} <= {one["name"] for one in crates}
    # What only tests use is no part of the program.
    assert not {"proptest", "tempfile", "loom"} & {one["name"] for one in crates}


def test_objects_models_and_packages_are_there_and_right(bom: dict[str, Any]) -> None:
    files = {one["name"]: one for one in bom["components"] if one["bom-ref"].startswith("file:")}
    for pattern in ("crates/capture/bpf/*.bpf.o", "testbed/bpf/*.bpf.o", "models/*/*.*"):
        paths = [path for path in ROOT.glob(pattern) if path.parent.name != "recipes"]
        sealed = [path for path in paths if path.name != "card.md"]
        assert sealed and {path.relative_to(ROOT).as_posix() for path in sealed} <= set(files)
    for name, one in files.items():
        digest = hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
        assert one["hashes"] == [{"alg": "SHA-256", "content": digest}], name
    others = {one["name"]: one for one in bom["components"] if "purl" in one}
    page = json.loads((ROOT / "page/package.json").read_text())["dependencies"]
    assert {name: others[name]["version"] for name in page} == page
    assert others["pytest"]["scope"] == "excluded"
    (parts,) = (one["dependsOn"] for one in bom["dependencies"])
    assert others["preact"]["bom-ref"] in parts and others["pytest"]["bom-ref"] not in parts


def test_it_is_the_same_each_time_and_names_the_program(tmp_path: Path) -> None:
    program = tmp_path / "wirelens"
    program.write_bytes(b"a program")
    once = written(program)
    assert written(program) == once
    subject = json.loads(once)["metadata"]["component"]
    assert subject["hashes"][0]["content"] == hashlib.sha256(b"a program").hexdigest()
