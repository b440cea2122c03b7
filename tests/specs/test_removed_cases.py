"""Every lowering case earns its place: without it codegen refuses the entry, or the entry's own
sample calls fail.

Each test works on a copy of the spec tree with the lines of one case taken out; nothing but that
entry may be affected.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ortable_generated.aten import dispatch
from ortablegen.check import check_specs
from ortablegen.diagnostics import Diagnostics
from ortablegen.emit import family_text
from ortablegen.model import OpEntry, Specs
from ortablegen.onnx_schemas import CEILING, FLOOR
from ortablegen.read import read_folder

from . import harness
from .test_cases import ENTRIES, ROOT

TEN = (
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::add.Tensor",
    "aten::addmm",
    "aten::convolution",
    "aten::convolution_backward",
    "aten::gelu",
    "aten::index.Tensor",
    "aten::max_pool2d_with_indices",
    "aten::mul.Tensor",
    "aten::native_dropout",
)


def _cases(keys: list[str]) -> list[tuple[str, int]]:
    entries = [ENTRIES[key] for key in keys]
    return [
        (e.key, i)
        for e in entries
        if isinstance(e, OpEntry) and len(e.lower) > 1
        for i in range(len(e.lower))
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    keys = list(TEN) if metafunc.config.getoption("--opsets") != "all" else sorted(ENTRIES)
    metafunc.parametrize(("key", "case"), _cases(keys))


def _without_case(path: Path, entry: OpEntry, case: int) -> None:
    """Take the lines of one lowering case out of a spec file."""
    lines = path.read_text().split("\n")
    first = entry.lower[case].span.line - 1
    indent = len(lines[first]) - len(lines[first].lstrip())
    last = first + 1
    while (
        last < len(lines)
        and lines[last].strip()
        and len(lines[last]) - len(lines[last].lstrip()) > indent
    ):
        last += 1
    path.write_text("\n".join(lines[:first] + lines[last:]))


def _read(root: Path) -> tuple[Specs, Diagnostics]:
    diagnostics = Diagnostics()
    specs = read_folder(root / "specs" / "aten", root, diagnostics)
    check_specs(specs, diagnostics)
    return specs, diagnostics


def test_without_one_case_the_entry_fails_and_nothing_else(
    key: str, case: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = ENTRIES[key]
    shutil.copytree(ROOT / "specs" / "aten", tmp_path / "specs" / "aten")
    _without_case(tmp_path / entry.file, entry, case)
    specs, diagnostics = _read(tmp_path)
    if diagnostics.errors:
        following = min(
            (
                e.span.line
                for e in ENTRIES.values()
                if e.file == entry.file and e.span.line > entry.span.line
            ),
            default=10**9,
        )
        for error in diagnostics.errors:
            assert error.span.file == entry.file
            assert entry.span.line <= error.span.line < following
        return
    text = family_text(specs, entry.file)
    _assert_only_this_converter_differs(text, entry)
    namespace: dict[str, object] = {}
    exec(compile(text, entry.file, "exec"), namespace)
    monkeypatch.setitem(dispatch.CONVERTERS, key, namespace[entry.schema.function_name])
    assert _some_sample_fails(entry), (
        f"no sample call of {key} needs the case at line {entry.lower[case].span.line}"
    )


def _assert_only_this_converter_differs(text: str, entry: OpEntry) -> None:
    module = ROOT / "generated" / "ortable_generated" / "aten" / f"{Path(entry.file).stem}.py"
    before, after = (_functions(each) for each in (module.read_text(), text))
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed <= {entry.schema.function_name}


def _functions(text: str) -> dict[str, str]:
    parts = text.split("\n\n\ndef ")[1:]
    return {part.split("(", 1)[0]: part.rstrip() for part in parts}


def _some_sample_fails(entry: OpEntry) -> bool:
    for sample in entry.samples:
        for opset in (FLOOR, CEILING):
            for target in (None, "onnxruntime"):
                try:
                    harness.check_sample_at(entry.schema, sample, opset, target)
                except Exception:
                    return True
    return False
