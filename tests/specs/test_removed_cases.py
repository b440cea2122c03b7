"""Every lowering case is needed: without it codegen refuses the entry, or a sample call fails.

Each test removes the lines of one case from a copy of the specs; only that entry may be affected.
`make opsets` runs them.
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

TESTED_WITH_ALL_SPECS = (
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

# a sample that takes longer without its case never ends
TIMEOUT_S = 5


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
    """Return the cases of ``lower``, or of ``complex``, that contain case number ``case``."""
    if case < len(entry.lower) or entry.complex is None:
        return entry.lower
    return entry.complex.cases


# UNTAKEN lists the cases that no sample call takes
TESTED_CASES = [
    (key, case)
    for key, case in _cases(sorted(ENTRIES))
    if f"{ENTRIES[key].key}/{case + 1}" not in UNTAKEN
]


def _without_case(text: str, entry: OpEntry, case: int) -> str:
    """Return the text of a spec file without the lines of one lowering case."""
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
@pytest.mark.parametrize(("key", "case"), _cases(TESTED_WITH_ALL_SPECS))
def test_without_one_case_the_entry_fails_and_nothing_else(
    key: str, case: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a copy of all specs, errors are of this entry, and only its converters change."""
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
        first = min(row.span.origin.line for row in _entries_of_text(entry))
        for error in diagnostics.errors:
            assert error.span.file == entry.file
            assert first <= error.span.line < following
        return
    text = family_text(specs, entry.file)
    _check_other_converters(text, entry)
    _check_a_sample_fails(entry, case, text, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "case"), TESTED_CASES)
def test_every_case_of_every_entry_is_needed(
    key: str, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for all entries, each without the others."""
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
    _check_a_sample_fails(entry, case, text, monkeypatch)


def _check_a_sample_fails(
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
    assert _has_failing_sample(entry), message


def _check_other_converters(text: str, entry: OpEntry) -> None:
    module = ROOT / "generated" / "ortable_generated" / "aten" / f"{Path(entry.file).stem}.py"
    old_functions, new_functions = (_functions(t) for t in (module.read_text(), text))
    changed_names = {
        name
        for name in old_functions | new_functions
        if old_functions.get(name) != new_functions.get(name)
    }
    names = [e.schema.function_name for e in _entries_of_text(entry)]
    assert changed_names <= {prefix + name for name in names for prefix in ("", "complex_")}


def _entries_of_text(entry: OpEntry) -> list[OpEntry | AliasEntry]:
    """Return the entries with the same text: this entry, and other rows of its ``for:``."""
    return [e for e in ENTRIES.values() if e.span == entry.span]


def _functions(text: str) -> dict[str, str]:
    parts = text.split("\n\n\ndef ")[1:]
    return {part.split("(", 1)[0]: part.rstrip() for part in parts}


def _has_failing_sample(entry: OpEntry) -> bool:
    for sample in entry.samples:
        for opset in (FLOOR, CEILING):
            for target in (None, "onnxruntime"):
                try:
                    with at_most(TIMEOUT_S, TimeoutError):  # an endless lowering fails, too
                        harness.check_sample_at(entry.schema, sample, opset, target)
                except Exception:
                    return True
    return False
