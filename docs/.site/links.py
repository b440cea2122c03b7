"""Resolve links of pages that leave docs/ for mkdocs, see mkdocs.yml.

Pictures are copied to the site; other files become links to the repository.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(\.\./([^)#]+)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pictures outside of docs/ that pages show."""
    for page in [each for each in files if each.src_uri.endswith(".md")]:
        for match in _LINK.finditer(page.content_string):
            if match[1] and files.get_file_from_path(_place(match[3])) is None:
                source = str(ROOT / match[3])
                files.append(File.generated(config, _place(match[3]), abs_src_path=source))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Links of a page to files outside of docs/, as the site has them.

    Raises FileNotFoundError for a file that is not there.
    """

    def placed(match: re.Match[str]) -> str:
        picture, text, path, anchor = match.groups()
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {path}, which is not there")
        if picture:
            return f"![{text}]({_place(path)})"
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"[{text}]({config.repo_url}/{kind}/main/{path}{anchor or ''})"

    return _LINK.sub(placed, markdown)


def _place(path: str) -> str:
    """Where a picture is on the site."""
    return posixpath.join("images", posixpath.basename(path))
