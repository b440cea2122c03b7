"""The documentation site lists every page, and its links out of docs/ resolve."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.packaging.files import ROOT


def test_every_page_has_a_place() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(
        r"^ *- (?:\w+: )?([\w-]+\.md)$", text.partition("\nnav:\n")[2], flags=re.MULTILINE
    )
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_links_that_leave_the_pages_arrive(tmp_path: Path) -> None:
    """A small site copies pictures, links files to GitHub and reports missing files."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[0]
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs" / ".site", docs / ".site")
    (tmp_path / "mkdocs.yml").write_text(settings, encoding="utf-8")
    (tmp_path / "specs").mkdir()
    (tmp_path / "plot.svg").write_text("<svg/>", encoding="utf-8")
    page = docs / "index.md"
    page.write_text("# A page\n\n![p](../plot.svg) [`specs/`](../specs)\n", encoding="utf-8")
    build = [sys.executable, "-m", "mkdocs", "build", "-q"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    site = tmp_path / "build" / "site"
    html = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="images/plot.svg"' in html and (site / "images" / "plot.svg").exists()
    assert 'href="https://github.com/ortable/ortable/tree/main/specs"' in html
    page.write_text("# A page\n\n[gone](../gone.py) [no page](none.md)\n", encoding="utf-8")
    result = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode and "gone.py, which is not there" in result.stderr
