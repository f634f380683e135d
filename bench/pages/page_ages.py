"""How old kept results are beside the code that they speak of."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from page_rows import RESULTS, ROOT, Missing, config

CHANGES_MAX = 20
"""Commits to the code that a result speaks of, from which on a page says that there are more."""
CHANGES_BEFORE_COMPLAINT = 30
"""So many, and a page that does not say so is wrong: not every commit makes pages wrong."""


def environment(folder: str) -> Mapping[str, Any]:
    """Where and when a folder's rows were measured."""
    path = RESULTS / folder / "environment.json"
    if not path.exists():
        raise Missing(f"no {path.relative_to(ROOT)}")
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def git(*words: str) -> str | None:
    """What git prints, or None where there is no history to ask."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def has_history() -> bool:
    """False in a shallow clone and outside of one: there nothing can be counted."""
    return git("rev-parse", "--is-shallow-repository") == "false"


def earlier(path: str) -> str:
    """Where code of `bench` was before it was split; changes there count as well."""
    return re.sub(r"^bench/(speed|evaluation)/", "bench/", path)


def changes(date: str, paths: Sequence[str]) -> int | None:
    """Commits to these paths since then; None where that is not known."""
    if not has_history():
        return None
    if "T" not in date:  # git would take the hour that it is now
        date += "T00:00:00Z"
    both = [*paths, *map(earlier, paths)]
    count = git("rev-list", "--count", f"--since={date}", "HEAD", "--", *both)
    return int(count) if count else None


def commit_of(said: Mapping[str, Any]) -> str:
    commit = str(said["commit"])
    return f"`{commit[:7]}`{' with changes' if commit.endswith('with changes') else ''}"


def code_since(folder: str, paths: Sequence[str], old: str) -> str:
    """What a page says of the code since a measurement, given what it says now."""
    code = ", ".join(f"`{path}`" for path in paths)
    said = re.search(rf"\[{re.escape(folder)}\].*\| (more than|at most) {CHANGES_MAX} changes", old)
    count = changes(str(environment(folder)["date"]), paths)
    if count is None and said is None:
        raise Missing(f"{folder}: no git history to count changes in")
    if count is None or (said and CHANGES_MAX < count <= CHANGES_BEFORE_COMPLAINT):
        words = said[1] if said else ""
    else:
        words = "more than" if count > CHANGES_MAX else "at most"
    return f"{words} {CHANGES_MAX} changes to {code}"


def on_page(folders: Sequence[str], link: str, old: str) -> str:
    """A page's table of what it was measured with."""
    declared = config()["results"]
    text = "| rows | measured | commit | code since |\n|---|---|---|---|\n"
    for folder in folders:
        said = environment(folder)
        commit = commit_of(said)
        if "reconstructed" in said:
            commit += " (that kept the rows)"
        paths = declared[folder]["speaks_of"]
        name = f"[{folder}]({link}{folder})"
        since = code_since(folder, paths, old)
        text += f"| {name} | {str(said['date'])[:10]} | {commit} | {since} |\n"
    return text


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """For `--ages`: counts."""
    text = "| rows | measured | commit | changes since | code |\n|---|---|---|---:|---|\n"
    for folder, said in results.items():
        if not (RESULTS / folder).exists():
            continue
        where = environment(folder)
        count = changes(str(where["date"]), said["speaks_of"])
        text += (
            f"| {folder} | {str(where['date'])[:10]} | {commit_of(where)} |"
            f" {'unknown' if count is None else count} | {', '.join(said['speaks_of'])} |\n"
        )
    return text.rstrip("\n")
