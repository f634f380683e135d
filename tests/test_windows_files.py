"""Text files of a Windows editor: lines end in CR LF, and a byte-order mark comes first. Each file
that a user supplies is read as the same file without either."""

import json
import re
from pathlib import Path

import pytest
from command import DEMO, Ran, wirelens
from test_page import get, serving

MARK = b"\xef\xbb\xbf"


def put(path: Path, text: str, is_windows: bool) -> Path:
    path.write_bytes(MARK + text.replace("\n", "\r\n").encode() if is_windows else text.encode())
    return path


def fine(ran: Ran) -> Ran:
    assert ran.status == 0, ran.stderr
    return ran


def both(work, folder: Path) -> list[object]:
    """What comes of the plain file, and of that of an editor of Windows."""
    found = []
    for is_windows in (False, True):
        place = folder / str(is_windows)
        place.mkdir()
        found.append(work(place, is_windows))
    return found


def test_settings_of_a_run(tmp_path: Path) -> None:
    def rows(folder: Path, is_windows: bool) -> bytes:
        text = '[run]\nseed = 1\n[traffic]\n# Rows.\noutput = "traffic.csv"\nevery = "5s"\n'
        put(folder / "wirelens.toml", text, is_windows)
        fine(wirelens("run", "-q", "-c", "wirelens.toml", "-r", DEMO, cwd=folder))
        return (folder / "traffic.csv").read_bytes()

    plain, windows = both(rows, tmp_path)
    assert plain == windows and plain.count(b"\n") > 3


def test_a_mistake_in_settings_has_its_line(tmp_path: Path) -> None:
    path = put(tmp_path / "wirelens.toml", "[traffic]\nevry = 3\n", True)
    ran = wirelens("run", "-c", path, "-r", DEMO, "--check")
    assert ran.status == 2 and "wirelens.toml:2:" in ran.stderr, ran.stderr


def test_modes_of_the_packet_log(tmp_path: Path) -> None:
    def modes(folder: Path, is_windows: bool) -> bytes:
        text = '[modes.quiet]\nanomalous = "full"\nbenign = "header"\n'
        path = put(folder / "log.toml", text, is_windows)
        return fine(wirelens("packetlog", "modes", "--settings", path)).stdout

    plain, windows = both(modes, tmp_path)
    assert plain == windows and b"quiet" in plain


@pytest.mark.parametrize(
    ("kind", "entries"),
    [
        ("ip", "203.0.113.10\n2001:db8:113::/48\n"),
        ("domain", "media.demo.example\nwww.demo.example\n"),
    ],
)
def test_lists_of_indicators(kind: str, entries: str, tmp_path: Path) -> None:
    def hits(folder: Path, is_windows: bool) -> set[str]:
        put(folder / "list.txt", entries + "# A comment\n\n", is_windows)
        names = "read-names = true\n" if kind == "domain" else ""
        put(
            folder / "wirelens.toml",
            f'[flows]\noutput = "flows.csv"\n{names}'
            f'[[indicators]]\nname = "l"\nkind = "{kind}"\nfile = "list.txt"\n'
            '[[notify]]\nkind = "jsonl"\nto = "alerts.jsonl"\n',
            is_windows,
        )
        fine(wirelens("run", "-q", "-c", "wirelens.toml", "-r", DEMO, cwd=folder))
        lines = (folder / "alerts.jsonl").read_text().splitlines()
        return {json.loads(line)["text"].split()[0] for line in lines}

    plain, windows = both(hits, tmp_path)
    assert plain == windows == set(entries.split())


def test_vendors_of_mac_addresses(tmp_path: Path) -> None:
    def vendors(folder: Path, is_windows: bool) -> set[str]:
        # The one entry is on the first line: without it the list is refused.
        put(folder / "manuf", "00:00:5E\tIANA\tICANN, IANA Department\n", is_windows)
        put(
            folder / "wirelens.toml",
            '[flows]\noutput = "flows.csv"\nmacs = true\n[networks]\nmac-vendors = "manuf"\n',
            is_windows,
        )
        ran = fine(wirelens("run", "-c", "wirelens.toml", "-r", DEMO, cwd=folder))
        return {line for line in ran.stderr.splitlines() if "manuf" in line or "vendor" in line} | {
            (folder / "flows.csv").read_text()
        }

    plain, windows = both(vendors, tmp_path)
    assert re.sub("[0-9]{19}", "", str(plain)) == re.sub("[0-9]{19}", "", str(windows))


def test_the_token_of_a_page(tmp_path: Path) -> None:
    token = "0123456789abcdef0123456789abcdef"
    put(tmp_path / "token", token + "\n", True)
    text = '[page]\nlisten = "127.0.0.1:0"\ntoken-file = "token"\n[traffic]\n'
    put(tmp_path / "wirelens.toml", text, True)
    with serving("-c", "wirelens.toml", "-r", str(DEMO), cwd=tmp_path) as address:
        state = get(address, "/api/v1/state", Authorization=f"Bearer {token}")
    assert json.loads(state)["is_over"]
