"""Codegen accepts the entries shown in the documentation."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import torch

from ortable.testing.user_file import run_spec_file
from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.aten.check import check_specs
from ortablegen.aten.read import read_text
from ortablegen.onnx.read import load_onnx_rules
from ortablegen.onnx.traits import TRAITS
from ortablegen.rewrites.check import check_rewrites
from ortablegen.rewrites.read import read_rewrites_text
from ortablegen.schemas.onnx import FLOOR
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[2]
GUIDE = "docs/adding-an-operator.md"
LIBRARY = torch.library.Library("my_ops", "FRAGMENT")  # an entry of the pages uses its operator
LIBRARY.define("step_(Tensor(a!) weight, Tensor grad, float rate) -> ()")
PAGES = ("README.md", "specs/README.md", "docs/adding-an-operator.md", "docs/language.md")


def _load_entries(page: str, kind: str = "op") -> list[str]:
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^ *```yaml\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    blocks = [textwrap.dedent(block) for block in blocks]
    starts = (f"- {kind}:", "- for:") if kind == "op" else f"- {kind}:"
    return [block for block in blocks if block.startswith(starts)]


def _register_operators() -> None:
    """Run the code block of the page that registers the operators of its entries."""
    (code,) = [
        block
        for block in re.findall(r"^```py\n(.*?)^```", (ROOT / GUIDE).read_text(), re.DOTALL | re.M)
        if "my_ops" in block
    ]
    exec(compile(code, GUIDE, "exec"), {"__name__": "my_ops"})


_register_operators()


@pytest.mark.usefixtures("own_specs")
def test_the_forms_of_the_page_compute_what_their_operators_do(tmp_path: Path) -> None:
    (entries,) = [block for block in _load_entries(GUIDE) if "my_ops::blend" in block]
    path = tmp_path / "forms.yaml"
    path.write_text(entries)
    results = list(run_spec_file(path, opsets=[FLOOR]))
    assert len({result.entry for result in results}) == 5
    assert not [result.failure for result in results if result.failure]


@pytest.mark.parametrize("page", PAGES)
def test_an_entry_shown_in_the_documentation_compiles(page: str) -> None:
    entries = _load_entries(page)
    assert entries, f"{page} shows no entry"
    for entry in entries:
        diagnostics = Diagnostics()
        check_specs(read_text(entry, page, diagnostics), diagnostics)
        assert not diagnostics.errors, diagnostics.render()


def test_a_rewrite_shown_in_the_documentation_compiles() -> None:
    entries = _load_entries("docs/language.md", "rewrite")
    assert entries
    for entry in entries:
        diagnostics = Diagnostics()
        check_rewrites(
            read_rewrites_text(entry, "docs/language.md", diagnostics, BY_TRAIT), diagnostics
        )
        assert not diagnostics.errors, diagnostics.render()


def test_entries_of_onnx_operators_shown_in_the_documentation_compile(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "language.md").read_text()
    (entries,) = re.findall(r"^```yaml\n(- \{onnx:.*?)^```", page, re.DOTALL | re.MULTILINE)
    diagnostics = Diagnostics()
    (tmp_path / "shown.yaml").write_text(entries)
    load_onnx_rules(tmp_path, diagnostics)
    assert not diagnostics.errors, diagnostics.render()


def test_every_trait_is_in_the_documentation_with_its_meaning() -> None:
    page = (ROOT / "docs" / "language.md").read_text()
    for name, trait in TRAITS.items():
        assert f"`{name}`" in page, name
        if name not in ("comparison", "ordering"):  # these two share a table row
            assert f"| `{name}` | {trait.meaning}" in page, name
