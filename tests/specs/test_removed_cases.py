"""Every lowering case earns its place: without it codegen refuses the entry, or the entry's own
sample calls fail.

Each test works on a copy of the spec tree with the lines of one case taken out; nothing but that
entry may be affected. `make opsets` runs them.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from ortable.testing import entries as harness
from ortable_generated.aten import dispatch
from ortablegen.aten.check import check_op, check_specs
from ortablegen.aten.emit import family_text
from ortablegen.aten.model import AliasEntry, LowerCase, OpEntry, Specs, Targets
from ortablegen.aten.read import read_folder, read_text
from ortablegen.schemas.onnx import CEILING, FLOOR
from ortablegen.source.diagnostics import Diagnostics
from tests.limits import at_most

from .test_cases import ENTRIES, ROOT, UNTAKEN, skip_absent

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


OPS = {key: entry for key, entry in ENTRIES.items() if isinstance(entry, OpEntry)}

# a sample that goes on for so long without its case does not end at all
SECONDS = 5


def _cases(keys: Sequence[str]) -> list[tuple[str, int]]:
    entries = [ENTRIES[key] for key in keys]
    return [
        (e.key, i)
        for e in entries
        if isinstance(e, OpEntry)
        for i in range(len(e.all_cases()))
        if len(_siblings(e, i)) > 1
    ]


def _siblings(entry: OpEntry, case: int) -> tuple[LowerCase, ...]:
    """The cases of ``lower``, or those of ``complex``, among which case number ``case`` is."""
    if case < len(entry.lower) or entry.complex is None:
        return entry.lower
    return entry.complex.cases


# what no sample call takes is a list of its own
NEEDED = [
    (key, case)
    for key, case in _cases(sorted(ENTRIES))
    if f"{ENTRIES[key].key}/{case + 1}" not in UNTAKEN
]


def _without_case(text: str, entry: OpEntry, case: int) -> str:
    """The text of a spec file without the lines of one lowering case."""
    lines = text.split("\n")
    first = entry.all_cases()[case].span.line - 1
    indent = len(lines[first]) - len(lines[first].lstrip())
    last = first + 1
    while last < len(lines) and lines[last].strip() and _indent(lines[last]) > indent:
        last += 1
    return "\n".join(lines[:first] + lines[last:])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


@pytest.mark.slow
@pytest.mark.parametrize(("key", "case"), _cases(TEN))
def test_without_one_case_the_entry_fails_and_nothing_else(
    key: str, case: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a copy of the whole tree: errors name this entry only, no other converter changes than
    those of the rows of its ``for:``."""
    entry = ENTRIES[key]
    assert isinstance(entry, OpEntry)
    shutil.copytree(ROOT / "specs" / "aten", tmp_path / "specs" / "aten")
    copy = tmp_path / entry.file
    copy.write_text(_without_case(copy.read_text(), entry, case))
    diagnostics = Diagnostics()
    specs = read_folder(tmp_path / "specs" / "aten", tmp_path, diagnostics)
    check_specs(specs, diagnostics)
    if diagnostics.errors:
        lines = [e.span.origin.line for e in ENTRIES.values() if e.file == entry.file]
        following = min((line for line in lines if line > entry.span.line), default=10**9)
        first = min(each.span.origin.line for each in _same_text(entry))
        for error in diagnostics.errors:
            assert error.span.file == entry.file
            assert first <= error.span.line < following
        return
    text = family_text(specs, entry.file)
    _assert_only_this_converter_differs(text, entry)
    _assert_a_sample_fails(entry, case, text, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "case"), NEEDED)
def test_every_case_of_every_entry_is_needed(
    key: str, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for all entries, one file at a time."""
    entry = ENTRIES[key]
    assert isinstance(entry, OpEntry)
    skip_absent(entry)
    diagnostics = Diagnostics()
    text = _without_case((ROOT / entry.file).read_text(), entry, case)
    changed = read_text(text, entry.file, diagnostics)
    shorter = next((op for op in changed.ops if op.key == key), None)
    if shorter is not None:
        check_op(shorter, diagnostics, Targets(OPS.values()))
    if diagnostics.errors:
        return
    assert shorter is not None
    text = family_text(Specs((shorter,)), entry.file, OPS)
    _assert_a_sample_fails(entry, case, text, monkeypatch)


def _assert_a_sample_fails(
    entry: OpEntry, case: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace: dict[str, object] = {}
    exec(compile(text, entry.file, "exec"), namespace)
    function = entry.schema.function_name
    complex_function = namespace.get("complex_" + function)
    monkeypatch.setitem(dispatch.CONVERTERS, entry.key, namespace.get(function, complex_function))
    if complex_function is not None:
        monkeypatch.setitem(dispatch.COMPLEX_CONVERTERS, entry.key, complex_function)
    line = entry.all_cases()[case].span.line
    message = f"no sample call of {entry.key} needs the case at line {line}"
    assert _some_sample_fails(entry), message


def _assert_only_this_converter_differs(text: str, entry: OpEntry) -> None:
    module = ROOT / "generated" / "ortable_generated" / "aten" / f"{Path(entry.file).stem}.py"
    before, after = (_functions(each) for each in (module.read_text(), text))
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    names = [each.schema.function_name for each in _same_text(entry)]
    assert changed <= {prefix + name for name in names for prefix in ("", "complex_")}


def _same_text(entry: OpEntry) -> list[OpEntry | AliasEntry]:
    """The entry, and the others that are written with it, in rows of ``for:``."""
    return [each for each in ENTRIES.values() if each.span == entry.span]


def _functions(text: str) -> dict[str, str]:
    parts = text.split("\n\n\ndef ")[1:]
    return {part.split("(", 1)[0]: part.rstrip() for part in parts}


def _some_sample_fails(entry: OpEntry) -> bool:
    for sample in entry.samples:
        for opset in (FLOOR, CEILING):
            for target in (None, "onnxruntime"):
                try:
                    with at_most(SECONDS, TimeoutError):  # a lowering that never ends fails, too
                        harness.check_sample_at(entry.schema, sample, opset, target)
                except Exception:
                    return True
    return False
