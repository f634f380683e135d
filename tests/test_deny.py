"""What the crates of others are checked for, and that each rule can fail."""

import os
import subprocess
from pathlib import Path

from command import ROOT

RULES = (ROOT / "tools/deny.toml").read_text()
ADVISORY = """```toml
[advisory]
id = "RUSTSEC-2026-9999"
package = "{package}"
date = "2026-01-01"

[versions]
patched = [">= 1000"]
```

# Planted

By a test.
"""


def deny(folder: Path, rules: str, *more: str | Path) -> tuple[int, str]:
    config = folder / "deny.toml"
    config.write_text(rules)
    done = subprocess.run(
        ["bash", ROOT / "tools/deny.sh", *more], check=False, capture_output=True, text=True,
        env=os.environ | {"CONFIG": str(config)},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_crates_are_as_the_rules_say(tmp_path: Path) -> None:
    status, said = deny(tmp_path, RULES)
    assert status == 0, said
    assert "bans ok, licenses ok, sources ok" in said and "no database given" in said


def test_each_rule_can_fail(tmp_path: Path) -> None:
    changes = [
        ('  "ISC",\n', "", "license is not explicitly allowed"),
        ('  "Zlib",\n', '  "Zlib",\n  "GPL-3.0-only",\n', "license was not encountered"),
        ('{ crate = "syn@2"', '{ crate = "syn@1"', "duplicate entries for crate 'syn'"),
        (
            '{ crate = "rand@0.8"',
            '{ crate = "clap@4" },\n  { crate = "rand@0.8"',
            "only one version",
        ),
        ('{ crate = "native-tls"', '{ crate = "rustls"', "crate 'rustls = "),
        ("[sources]", "[sources]\nallow-registry = []", "'registry' source not explicitly allowed"),
    ]
    rules = RULES
    for kept, changed, _ in changes:
        assert rules.count(kept) == 1, kept
        rules = rules.replace(kept, changed)
    status, said = deny(tmp_path, rules)
    assert status != 0 and "bans FAILED, licenses FAILED, sources FAILED" in said, said
    for _, _, wanted in changes:
        assert wanted in said, wanted


def database(folder: Path, package: str) -> Path:
    """A database of one advisory, as RustSec's is laid out."""
    (folder / "crates" / package).mkdir(parents=True)
    advisory = folder / "crates" / package / "RUSTSEC-2026-9999.md"
    advisory.write_text(ADVISORY.format(package=package))
    author = ("-c", "user.name=Test", "-c", "user.email=test@wirelens.invalid")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "One advisory")):
        subprocess.run(["git", "-C", folder, *words], check=True)
    return folder


def test_a_known_fault_in_a_crate_is_found_with_a_database(tmp_path: Path) -> None:
    status, said = deny(tmp_path, RULES, "--advisories", database(tmp_path / "of-ours", "zstd"))
    assert status != 0 and "RUSTSEC-2026-9999" in said and "advisories FAILED" in said, said
    other = database(tmp_path / "of-others", "no-crate-of-ours")
    status, said = deny(tmp_path, RULES, "--advisories", other)
    assert status == 0 and "advisories ok" in said, said
    status, said = deny(tmp_path, RULES, "--advisories", tmp_path)
    assert status == 1 and "not a clone of a database of advisories" in said, said
