"""Gathers what the site of the documentation is made of, for mdBook.

    python3 tools/docs_site.py FOLDER

Pages stay where the repository has them, so that every link of theirs holds: those of docs/, and
those elsewhere that pages link to. A file that is no page is copied, a folder becomes a page that
lists its files, and a notebook a page with its cells. The order of docs/SUMMARY.md comes first; a
page that it lacks is put below the first page of its folder, or below that of the folder above.
"""

import json
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"(?ms)^( *)```.*?^\1```")
LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^)\s]+)\)")
# Larger files are named, not copied: rows of measurements are for the clone.
COPY_BYTES_MAX = 300_000
HOME = "README.md"
INDICES = ("/README.md", "/files.md")


def tracked() -> list[str]:
    """Files of the repository, also new ones that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    return sorted(name for name in listed if name and (ROOT / name).is_file())


def title(text: str, fallback: str) -> str:
    found = re.search(r"^# (.+)$", FENCE.sub("", text), flags=re.MULTILINE)
    return re.sub(r"[`\[\]]", "", found.group(1)) if found else fallback


def without_code(text: str) -> str:
    """A page with blanks in place of what is code, every character at its place."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    return re.sub(r"`[^`\n]+`", blank, FENCE.sub(blank, text))


def as_written(page: str) -> str:
    """The name of a page in the site: what a server answers for a folder is `index`."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", page)


def of_notebook(text: str) -> str:
    """A notebook as a page."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        is_code = cell["cell_type"] == "code"
        parts.append(f"```python\n{source}\n```" if is_code else source)
    return "\n\n".join(parts)


class Site:
    """Pages and files of the site, by their paths in the repository."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.known = set(names)
        self.folders = {parent.as_posix() for name in names for parent in Path(name).parents}
        self.pages: dict[str, str] = {}
        self.files: set[str] = set()
        self._waiting = [HOME] + [name for name in names if name.startswith("docs/")
                                  and name.endswith((".md", ".ipynb"))]  # fmt: skip

    def gather(self) -> None:
        """Follows every link."""
        while self._waiting:
            name = self._waiting.pop()
            if name.endswith(".ipynb"):
                if name not in self.files:
                    self.files.add(name)
                    page = self._add(name, of_notebook((ROOT / name).read_text()))
                    # After links were followed: this one leads to the file, not to its page.
                    own = posixpath.basename(name)
                    self.pages[page] += f"\n\n[Download this notebook]({own})\n"
            elif name not in self.pages and name != "docs/SUMMARY.md":
                self._add(name, (ROOT / name).read_text())

    def _add(self, name: str, text: str) -> str:
        name = name.removesuffix(".ipynb").removesuffix(".md") + ".md"
        self.pages[name] = ""
        self.pages[name] = self._linked(name, text)
        return name

    def _linked(self, page: str, text: str) -> str:
        """A page whose links lead to what the site has."""
        bare, parts, at = without_code(text), [], 0
        for match in LINK.finditer(text):
            # A link may have code in its text, but none begins within code.
            if bare[match.start()] == " " or re.match(r"[a-z]+:|#", match.group(2)):
                continue
            path, _, fragment = match.group(2).partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
            there = self._target(target)
            parts += [text[at : match.start()], match.group(1)]
            if there:
                way = posixpath.relpath(as_written(there), posixpath.dirname(page) or ".")
                parts.append(f"({way}{'#' if fragment else ''}{fragment})")
            at = match.end()
        return "".join([*parts, text[at:]])

    def _target(self, target: str) -> str | None:
        """Where a link leads; none where the site has no such thing."""
        if target in self.folders:
            readme = posixpath.normpath(f"{target}/README.md")
            if readme in self.known:
                target = readme
            else:
                return self._listing(target)
        if target not in self.known:
            return None
        if target.endswith((".md", ".ipynb")) and target != "docs/SUMMARY.md":
            self._waiting.append(target)
            return target.removesuffix(".ipynb") + (".md" if target.endswith(".ipynb") else "")
        if (ROOT / target).stat().st_size > COPY_BYTES_MAX:
            return None
        self.files.add(target)
        return target

    def _listing(self, folder: str) -> str:
        """The page that lists what a folder without a README has."""
        page = f"{folder}/files.md"
        if page not in self.pages:
            inside = {name[len(folder) + 1:].partition("/")[0] for name in self.names
                      if name.startswith(f"{folder}/")}  # fmt: skip
            rows = "\n".join(f"- [{name}]({name})" for name in sorted(inside))
            self._add(page, f"# {posixpath.basename(folder)}\n\nFiles of `{folder}`; those "
                      f"without a link are in a clone.\n\n{rows}\n")  # fmt: skip
        return page

    def summary(self) -> str:
        """The contents: those of docs/SUMMARY.md, and below them what it lacks."""
        lines = (ROOT / "docs/SUMMARY.md").read_text().splitlines()
        lines = [LINK.sub(lambda link: f"{link.group(1)}("
                          f"{posixpath.normpath(posixpath.join('docs', link.group(2)))})", line)
                 for line in lines]  # fmt: skip
        listed = {match.group(2) for line in lines if (match := LINK.search(line))}

        def order(page: str) -> tuple[bool, str, str]:
            """Indices before other pages, from the top down."""
            return not page.endswith(INDICES), posixpath.dirname(page), page

        for page in sorted(set(self.pages) - listed, key=order):
            at, indent = self._place(lines, page)
            lines.insert(
                at, f"{' ' * indent}- [{title(self.pages[page], Path(page).stem)}]({page})"
            )
        return LINK.sub(lambda link: f"{link.group(1)}({as_written(link.group(2))})",
                        "\n".join(lines) + "\n")  # fmt: skip

    def _place(self, lines: list[str], page: str) -> tuple[int, int]:
        """The line of the contents where a page goes, and how far it is indented."""
        folder = posixpath.dirname(page)
        while True:
            # Below the index of its folder, or else below the first page that is listed by hand.
            inside = [
                at for at, line in enumerate(lines) if "- [" in line and f"]({folder}/" in line
            ]
            own = [
                at
                for at in inside
                if re.search(rf"\]\({re.escape(folder)}/(README|files)\.md\)", lines[at])
            ] or inside
            if own and page != f"{folder}/files.md":
                indent = len(lines[own[0]]) - len(lines[own[0]].lstrip())
                end = own[0] + 1
                while end < len(lines) and lines[end].startswith(" " * (indent + 1)):
                    end += 1
                return end, indent + 2
            if not folder:
                return len(lines), 0
            folder = posixpath.dirname(folder)

    def write(self, folder: Path) -> None:
        if folder.exists():
            shutil.rmtree(folder)
        for name, text in self.pages.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / as_written(name)).write_text(text)
        for name in self.files | {"docs/site.css"}:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
        shutil.copyfile(ROOT / "docs/book.toml", folder / "book.toml")
        (folder / "SUMMARY.md").write_text(self.summary())


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python3 tools/docs_site.py FOLDER")
    site = Site(tracked())
    site.gather()
    site.write(Path(sys.argv[1]))
    print(f"docs: {len(site.pages)} pages, {len(site.files)} files", file=sys.stderr)


if __name__ == "__main__":
    main()
