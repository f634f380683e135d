"""The site of the documentation: every link of it leads somewhere, and it can be searched.

It is built with mdBook, which `make docs` compiles; the first run takes minutes.
"""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from command import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import docs_site

SITE = ROOT / "target/docs"


class Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.places |= {named[key] or "" for key in ("id", "name") if key in named}
        self.links += [named[key] or "" for key in ("href", "src") if key in named]


def dead_links(site: Path) -> list[str]:
    """Links within a site that lead nowhere, a line each."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            name, _, place = link.partition("#")
            at = (path.parent / unquote(name.partition("?")[0])).resolve() if name else path
            if not at.is_file():
                found.append(f"{path.relative_to(site)}: {link}: not there")
            elif place and at in pages and unquote(place) not in pages[at].places:
                found.append(f"{path.relative_to(site)}: {link}: no such heading")
    return found


@pytest.fixture(scope="module")
def site() -> Path:
    done = subprocess.run(["bash", "tools/docs.sh"], cwd=ROOT, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return SITE.resolve()


@pytest.mark.web
def test_no_link_of_the_site_is_dead(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > 150
    found = dead_links(site)
    assert found == [], "\n".join(found[:40])


@pytest.mark.web
def test_the_site_has_every_page_and_can_be_searched(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT).as_posix()
        if name != "docs/SUMMARY.md":
            built = docs_site.as_written(name).removesuffix(".md") + ".html"
            assert (site / built).is_file(), f"{name} is not in the site"
    index = next(site.glob("searchindex*.js")).read_text()
    assert "retransmi" in index and os.path.getsize(next(site.glob("searchindex*.js"))) > 100_000
    text = (site / "index.html").read_text()
    assert 'class="light' in text and '"coal"' in text


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.html").write_text('<h2 id="x">x</h2><a href="b/c.html#y">y</a><img src="d.png">')
    (tmp_path / "b/c.html").write_text('<a href="../a.html#x">x</a><a href="https://e.example">')
    assert dead_links(tmp_path) == ["a.html: b/c.html#y: no such heading",
                                    "a.html: d.png: not there"]  # fmt: skip


def test_links_of_pages_are_kept_within_the_site() -> None:
    site = docs_site.Site(docs_site.tracked())
    text = "[a](../../models/recipes) `[b](none.md)` [c](none.md) [d](../../README.md#install)"
    assert site._linked("docs/guide/x.md", text) == (
        "[a](../../models/recipes/files.md) `[b](none.md)` [c] [d](../../index.md#install)"
    )
    cells = [{"cell_type": "markdown", "source": ["# T"]}, {"cell_type": "code", "source": ["1"]}]
    page = docs_site.of_notebook(json.dumps({"cells": cells}))
    assert page == "# T\n\n```python\n1\n```"


def test_a_notebook_leads_to_its_file() -> None:
    site = docs_site.Site(docs_site.tracked())
    site.gather()
    notebooks = [name for name in site.files if name.endswith(".ipynb")]
    assert len(notebooks) >= 3
    for name in notebooks:
        page = site.pages[name.removesuffix(".ipynb") + ".md"]
        assert page.endswith(f"[Download this notebook]({Path(name).name})\n")
