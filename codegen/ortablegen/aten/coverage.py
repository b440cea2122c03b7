"""Make the coverage table of operators: `docs/operators.md`, and data for `ortable ops`."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortablegen.language.parse import called_name, names_in, onnx_call
from ortablegen.language.samples import TensorSample
from ortablegen.language.vocabulary import load_prelude
from ortablegen.source.templates import header
from ortablegen.source.yaml_source import load_plain

from .data_checks import data_check_table
from .deviations import deviation_lines
from .model import AliasEntry, OpEntry, Specs, Targets
from .samples import parse_sample

_ORDER = ("f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "b", "c64", "c128")
_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b", "complex64": "c64",
    "complex128": "c128",
}  # fmt: skip
CASES = "specs/runtime/cases.yaml"
# entry -> digest of its cases when they were counted, samples that reach each case
Reached = Mapping[str, tuple[str, tuple[int, ...]]]
_HEADER = header("specs/")


@dataclass(frozen=True)
class Coverage:
    """A row for one operator: its spec file, and what its samples and cases cover."""

    name: str
    file: str
    means: str = ""  # the operator that an alias stands for, or ""
    opsets: str = ""  # 18, and the opsets in the conditions of its cases
    dtypes: str = ""  # dtypes of the tensors in its sample calls
    dynamic: bool = False  # a sample call has a dynamic dimension
    cases: int = 0
    refusals: int = 0  # the cases that refuse
    escape: str = ""  # the Python lowering, or ""
    forward: str = ""  # exact / captured samples of PyTorch's operator tests
    gradient: str = ""  # the same, of the gradients of these samples
    torch_reason: str = ""  # why the backend leaves it to torch, or ""
    torch: str = ""  # the range of versions that the entry is for, or ""
    reached: tuple[int, ...] = ()  # samples that reach each case, if counted


def build_coverage(
    specs: Specs, measured: Mapping[str, Mapping[str, str]], reached: Reached | None = None
) -> list[Coverage]:
    """Make a row for each operator, alias and higher-order operator, sorted by name."""
    targets = Targets(specs.ops)
    rows = []
    for entry in specs.operator_entries():
        row = _make_row(entry, targets, measured.get(entry.key, {}))
        digest, counts = (reached or {}).get(entry.key + entry.schema.suffix, ("", ()))
        if isinstance(entry, OpEntry) and digest and digest == case_digest(entry):
            row = replace(row, reached=counts)
        rows.append(row)
    for hop in specs.hops:
        measured_counts = measured.get(hop.name, {})
        escape = hop.python.path.removeprefix("ortable.lowerings.") if hop.python else ""
        rows.append(
            Coverage(
                hop.name,
                hop.file,
                opsets="18",
                cases=1,
                escape=escape,
                forward=measured_counts.get("forward", ""),
                gradient=measured_counts.get("gradient", ""),
            )
        )
    reasons = {placed.name: placed.why for placed in specs.placed}
    rows = [replace(row, torch_reason=reasons.get(row.name, "")) for row in rows]
    for placed in specs.placed:
        if not placed.lowered:
            rows.append(Coverage(placed.name, placed.file, torch_reason=placed.why))
    return sorted(rows, key=lambda row: row.name)


def _make_row(
    entry: OpEntry | AliasEntry, targets: Targets, measured_counts: Mapping[str, str]
) -> Coverage:
    lowered = entry if isinstance(entry, OpEntry) else targets.find_target(entry)
    assert lowered is not None
    escapes = {case.python.path for case in lowered.all_cases() if case.python is not None}
    versions = {case.opset[1] for case in lowered.all_cases() if case.opset is not None}
    return Coverage(
        name=entry.key,
        file=entry.file,
        means="" if isinstance(entry, OpEntry) else entry.of,
        opsets=" ".join(str(version) for version in sorted({18, *versions})),
        dtypes=_sample_dtypes(entry),
        dynamic=any(name is not None for leaf in _sample_tensors(entry) for _, name in leaf.dims),
        cases=len(lowered.all_cases()),
        refusals=sum(case.refuse is not None for case in lowered.all_cases()),
        escape=" ".join(sorted(path.removeprefix("ortable.lowerings.") for path in escapes))
        if isinstance(entry, OpEntry)
        else "",
        forward=measured_counts.get("forward", ""),
        gradient=measured_counts.get("gradient", ""),
        torch=str(entry.versions.present),
    )


def _sample_dtypes(entry: OpEntry | AliasEntry) -> str:
    names = {_SHORT.get(leaf.dtype, leaf.dtype) for leaf in _sample_tensors(entry)}
    return " ".join(name for name in _ORDER if name in names)


def _sample_tensors(entry: OpEntry | AliasEntry) -> Iterable[TensorSample]:
    for sample in entry.samples:
        if sample.raises is None:
            yield from _tensor_leaves(list(parse_sample(sample, entry.schema).values()))


def _tensor_leaves(value: Any) -> Iterable[TensorSample]:
    if isinstance(value, TensorSample):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _tensor_leaves(item)


# -- results of the conformance run ---------------------------------------------------------------


def load_measured(path: Path) -> dict[str, dict[str, str]]:
    """Load operator -> ``{"forward": "12/12", "gradient": "3/3"}`` of the conformance run."""
    return (load_plain(path) or {}) if path.exists() else {}


def load_cases(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Load entry -> digest of its cases when they were counted, samples that reach each case."""
    table = (load_plain(path) or {}) if path.exists() else {}
    return {
        name: (str(row["of"]), tuple(int(count) for count in str(row["reached"]).split()))
        for name, row in table.items()
    }


def case_digest(entry: OpEntry) -> str:
    """Hash the cases and samples of an entry, to detect changes since they were counted."""
    texts: list[object] = [entry.schema.text]
    texts += [(name, code.text) for name, code in entry.let]
    for case in entry.all_cases():
        texts.append(
            (
                case.when and case.when.text,
                case.do and case.do.text,
                case.python and case.python.path,
                case.refuse,
                case.target,
                case.opset,
            )
        )
    texts += [(sample.values, sample.opset, sample.target) for sample in entry.samples]
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:12]


# -- as data and as a page ------------------------------------------------------------------------


def emit_coverage(rows: Iterable[Coverage]) -> dict[str, str]:
    """Emit ``ortable_generated/coverage.py``: one line per operator."""
    lines = [
        f"    ({row.name!r}, {row.means!r}, {row.opsets!r}, {row.dtypes!r}, {row.dynamic}, "
        f"{row.cases}, {row.refusals}, {' '.join(map(str, row.reached))!r}, {row.escape!r}, "
        f"{row.forward!r}, {row.gradient!r}),\n"
        for row in rows
    ]
    text = (
        f"# {_HEADER}\n"
        '"""What each operator covers: name, operator that an alias means, opsets with a form of'
        " their own,\ndtypes of the samples, dynamic, cases, refusals, samples of each case, Python"
        ' lowering,\nexact samples forward, and gradient."""\n\n'
        "COVERAGE: tuple[\n"
        "    tuple[str, str, str, str, bool, int, int, str, str, str, str], ...\n"
        f"] = (\n{''.join(lines)})\n"
    )
    return {"ortable_generated/coverage.py": text}


def operators_page(rows: list[Coverage], specs: Specs) -> str:
    """Render ``docs/operators.md``: the counts, a legend of the columns, a table per file."""
    files = sorted({row.file for row in rows})
    parts = [_INTRODUCTION, _format_counts(rows, specs)]
    for file in files:
        table = _format_table(file, [row for row in rows if row.file == file])
        entries = [entry for entry in specs.ops if entry.file == file]
        deviating = "Where ONNX Runtime differs from torch and no other nodes were found:"
        demands = "Demands on data, and what eager and torch.compile raise:"
        lines = _format_section(deviating, deviation_lines(entries))
        lines += _format_section(demands, data_check_table(entries))
        parts.append("\n".join([table.rstrip("\n"), *lines, ""]))
    return "\n".join(parts)


def _format_section(head: str, lines: list[str]) -> list[str]:
    return ["", head, "", *lines] if lines else []


_INTRODUCTION = f"""# Operators

<!-- {_HEADER} -->

Every operator that ortable converts, by the spec file that holds its entry. `ortable ops` prints
a table of them, with columns of tests that this page leaves out; `ortable ops --missing MODEL.pt2`
lists what a saved program lacks. Behind an operator stand, as far as there are any:

- **dtypes**: of the tensors in the entry's sample calls, which run against eager in `make test`.
- **cases**: lowering cases where there are several, numbered from 1 (`aten::addmm/2` in errors and
  tests); those that are refused by name; opsets above 18, the floor, from which another form is
  used; the Python lowering in `runtime/ortable/lowerings`.
- **12/12 5/5**: samples of PyTorch's operator tests whose graph holds the operator: exact, of
  those that torch captures, forward and gradient, in the last recorded `make conformance`
  (`specs/runtime/conformance.yaml`).

An alias, at the end of a file, has the cases of the operator that it stands for.
"""


def _format_counts(rows: list[Coverage], specs: Specs) -> str:
    lowered_rows = [row for row in rows if not row.means and row.cases]
    functions = {name for row in lowered_rows for name in row.escape.split()}
    kinds = Counter(_entry_kinds(specs.ops))

    def share(kind: str) -> str:
        return f"{100 * kinds[kind] / max(1, len(specs.ops)):.1f} %"

    return (
        f"{len(specs.ops)} operators, {len(specs.aliases)} aliases, {len(specs.hops)} higher-order"
        f" operators; {len(specs.calls)} Python functions and tensor methods stand for them in"
        f" graphs that were traced symbolically.\n{share('yaml')} of the operators are ONNX nodes,"
        f" core functions and such operators alone; {share('mixed')} also call functions of their"
        f" family, which are Python; {share('call')} are one such call in each case;"
        f" {share('python')} have one of {len(functions)} Python lowerings.\n"
        f"{sum(bool(entry.types) for entry in specs.ops)} operators say which dtypes their operands"
        " may have, and codegen proves their ONNX nodes for each of them.\n"
    )


def _entry_kinds(entries: Sequence[OpEntry]) -> list[str]:
    """Return the kind of each entry; "yaml" entries that call other kinds are "mixed"."""
    kinds_by_function = {entry.schema.function_name: _entry_kind(entry) for entry in entries}
    called = {
        entry.schema.function_name: _block_names(entry) & set(kinds_by_function)
        for entry in entries
    }
    not_yaml = {name for name, kind in kinds_by_function.items() if kind != "yaml"}
    while callers := {name for name in called.keys() - not_yaml if called[name] & not_yaml}:
        not_yaml |= callers
    return [
        "mixed" if kind == "yaml" and name in not_yaml else kind
        for name, kind in kinds_by_function.items()
    ]


def _block_names(entry: OpEntry) -> set[str]:
    bodies = [line for case in entry.all_cases() if case.do for line in case.do.body]
    return {node.id for node in names_in(*bodies)}


def _entry_kind(entry: OpEntry) -> str:
    """Return "python" (lowering), "call" (only calls of family functions), "mixed" or "yaml"."""
    cases = entry.all_cases()
    if any(case.python is not None for case in cases):
        return "python"
    is_single_call, calls, nodes = True, 0, 0
    for body in (case.do.body for case in cases if case.do is not None):
        call_nodes = [
            node for line in body for node in ast.walk(line) if isinstance(node, ast.Call)
        ]
        family_calls = sum(_is_family_call(node) for node in call_nodes)
        is_single_call = is_single_call and len(body) == 1 if family_calls else is_single_call
        calls, nodes = (
            calls + family_calls,
            nodes + sum(onnx_call(node) is not None for node in call_nodes),
        )
    return "yaml" if not calls else "call" if is_single_call and not nodes else "mixed"


def _is_family_call(node: ast.Call) -> bool:
    """Whether a call is of a family function: one of `lowerings` that makes nodes."""
    function = load_prelude().get(called_name(node))
    return (
        function is not None
        and function.makes_nodes
        and function.module.startswith("ortable.lowerings.")
    )


def _format_table(file: str, rows: list[Coverage]) -> str:
    lines = [f"## {file}", ""]
    operator_rows = [row for row in rows if not row.means]
    for row in operator_rows:
        descriptions = (row.dtypes, _format_cases(row), f"{row.forward} {row.gradient}".strip())
        lines.append(f"- {_format_name(row)}: {'; '.join(text for text in descriptions if text)}")
    aliases = [f"{_format_name(row)} = `{row.means}`" for row in rows if row.means]
    if aliases:
        lines += [*([""] if operator_rows else []), f"Aliases: {', '.join(aliases)}."]
    return "\n".join([*lines, *_placed_lines(rows), ""])


def _format_cases(row: Coverage) -> str:
    later_opsets = row.opsets.removeprefix("18").strip()
    parts = [f"{row.cases} cases"] if row.cases > 1 else []
    parts += [f"{row.refusals} refused"] if row.refusals else []
    parts += [f"opset {later_opsets}"] if later_opsets else []
    parts += [row.escape] if row.escape else []
    return ", ".join(parts)


def _format_name(row: Coverage) -> str:
    return f"`{row.name}`" + (f" (torch {row.torch})" if row.torch else "")


def _placed_lines(rows: list[Coverage]) -> list[str]:
    """List the operators that run in torch in the backend, by reason."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.torch_reason:
            reasons.setdefault(row.torch_reason, []).append(f"`{row.name}`")
    lines = [f"- {', '.join(names)}: {why}" for why, names in reasons.items()]
    return _format_section("In the backend these run in torch, between sessions:", lines)
