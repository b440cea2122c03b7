"""The documentation as a site: every page has a place in it, and links that leave docs/ arrive."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.packaging.files import ROOT


def test_every_page_has_a_place() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    placed = re.findall(
        r"^ *- (?:\w+: )?([\w-]+\.md)$", text.partition("\nnav:\n")[2], flags=re.MULTILINE
    )
    assert sorted(placed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_links_that_leave_the_pages_arrive(tmp_path: Path) -> None:
    """A small site with the settings of the whole one: pictures are on it, files are links to the
    repository, what is not there is an error."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[0]
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs" / ".site", docs / ".site")
    (tmp_path / "mkdocs.yml").write_text(text, encoding="utf-8")
    (tmp_path / "specs").mkdir()
    (tmp_path / "plot.svg").write_text("<svg/>", encoding="utf-8")
    page = docs / "index.md"
    page.write_text("# A page\n\n![p](../plot.svg) [`specs/`](../specs)\n", encoding="utf-8")
    build = [sys.executable, "-m", "mkdocs", "build", "-q"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    site = tmp_path / "build" / "site"
    made = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="images/plot.svg"' in made and (site / "images" / "plot.svg").exists()
    assert 'href="https://github.com/ortable/ortable/tree/main/specs"' in made
    page.write_text("# A page\n\n[gone](../gone.py) [no page](none.md)\n", encoding="utf-8")
    failed = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True)
    assert failed.returncode and "gone.py, which is not there" in failed.stderr
