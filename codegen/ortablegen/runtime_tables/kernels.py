"""Which types ONNX Runtime's CPU and CUDA providers have kernels for.

Verbs read them from the installed package into specs/runtime/kernels_cpu.yaml and kernels_cuda.yaml
(the latter on a machine with a GPU), which are checked in; ``ortable_generated/kernels.py`` and
``kernels_cuda.py`` are emitted from these files.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortable import dtypes
from ortablegen.language.narrowing import HALVES
from ortablegen.schemas.onnx import (
    DOMAIN_RANGE,
    MICROSOFT,
    Formal,
    OnnxSchema,
    element_type,
    operators,
    record_installed,
    versions_between,
)
from ortablegen.source.layout import format_yaml
from ortablegen.source.templates import render
from ortablegen.source.yaml_source import load_plain

from .function_bodies import MEASURED, measure_bindings
from .precision import PROVIDER, measure_operator

_CUDA = "CUDAExecutionProvider"
_OPEN_END = 2147483647
Kernel = Mapping[str, tuple[int, ...]]
# Types by deviation, by variant of the operator; empty for exact kernels.
Numbers = Mapping[str, Mapping[str, tuple[int, ...]]]

# Casts that keep every value, cheapest first: bool to integers, integers to wider ones, floats to
# wider ones.
_SIGNED = (dtypes.int32, dtypes.int64, dtypes.int16)
WIDER: dict[int, tuple[int, ...]] = {
    dtypes.boolean: (
        dtypes.uint8,
        dtypes.int8,
        *_SIGNED,
        dtypes.uint16,
        dtypes.uint32,
        dtypes.uint64,
    ),
    dtypes.uint8: (*_SIGNED, dtypes.uint16, dtypes.uint32, dtypes.uint64),
    dtypes.int8: _SIGNED,
    dtypes.uint16: (dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64),
    dtypes.int16: (dtypes.int32, dtypes.int64),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.int32: (dtypes.int64,),
    dtypes.float16: (dtypes.float32, dtypes.float64),
    dtypes.bfloat16: (dtypes.float32, dtypes.float64),
    dtypes.float32: (dtypes.float64,),
}


def kernel_matches(start: int, end: int, since: int) -> bool:
    """Return whether a kernel runs a schema version.

    ONNX Runtime's rule: an open-ended kernel runs only the version it was registered for.
    """
    return start == since or (end != _OPEN_END and start <= since <= end)


# -- reading the installed package


def write_kernel_table(path: Path) -> None:
    """Record the schemas of the installed onnx and ONNX Runtime, and write what this one can run to
    ``path``. Both are read from the oldest supported versions: newer ones run what these do."""
    record_installed()
    path.write_text(read_kernels(), encoding="utf-8")


def installed_kernels() -> list[Any]:
    """The kernels of all providers that the installed ONNX Runtime was built with."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return list(state.get_all_opkernel_def())


def read_kernels(numbers: bool = True) -> str:
    """The YAML text of the kernel table: one row per operator and schema version, sorted; what the
    kernels do to numbers is measured where ``numbers`` says so."""
    lines = [_HEADER]
    for schemas, kernels in _by_operator(installed_kernels(), PROVIDER):
        rows = [row for schema in schemas for row in _version_rows(schema, kernels)]
        if any(row.kernels or row.functions or row.rounds for row in rows):
            # a version without any kernel has its line too: it must hide the older one
            lines += [_row_line(_with_numbers(row) if numbers else row) for row in rows]
    return format_yaml("\n".join(lines) + "\n")


def read_cuda_kernels(found: Sequence[Any]) -> str:
    """The YAML text of the table of CUDA.

    Args:
        found: kernels as ONNX Runtime lists them, those of other providers among them. It starts
            every provider of its build for the list, so that those need their libraries.
    """
    lines = [_CUDA_HEADER]
    for schemas, here in _by_operator(found, _CUDA):
        for schema in schemas:
            if kernels := _matching_kernels(schema, here):
                lines.append(_row_line(_Row(schema, schema.since, kernels)))
    return format_yaml("\n".join(lines) + "\n")


def _by_operator(
    found: Iterable[Any], provider: str
) -> Iterator[tuple[tuple[OnnxSchema, ...], list[Any]]]:
    """Yield the versions of every operator, with the kernels that the provider has for it."""
    raw: dict[tuple[str, str], list[Any]] = {}
    for kernel in found:
        if kernel.provider == provider:
            raw.setdefault((kernel.op_name, kernel.domain), []).append(kernel)
    for domain in ("", MICROSOFT):
        for op in operators(domain):
            yield versions_between(op, domain), raw.get((op, domain), [])


def _matching_kernels(schema: OnnxSchema, found: Iterable[Any]) -> list[Kernel]:
    """Those of an operator's kernels that run a version of it."""
    return merge_kernels(
        _by_parameter(schema, kernel.type_constraints)
        for kernel in found
        if kernel_matches(kernel.version_range[0], kernel.version_range[1], schema.since)
    )


def write_kernel_fixes(path: Path, table: Path) -> list[str]:
    """Write to ``path`` the deviations of ``table`` that the installed ONNX Runtime has fixed.

    Returns the deviations that ``table`` does not list.
    """
    import onnxruntime

    version = ".".join(onnxruntime.__version__.split(".")[:2])
    lines, worse = [_FIXES_HEADER], []
    for row in load_plain(table):
        schema = _schema_of(row)
        if schema is None or "numbers" not in row:
            continue
        listed, measured = flat_numbers(row["numbers"]), measure_numbers(row, schema) or set()
        name = f"op: {row['op']}, since: {row['since']}"
        name += f", opset: {row['opset']}" if "opset" in row else ""
        if listed - measured:
            fixed = ", ".join(" ".join(words) for words in sorted(listed - measured))
            lines.append(f'- {{{name}, onnxruntime: "{version}", fixed: [{fixed}]}}')
        worse += [f"{{{name}}}: {' '.join(words)}" for words in sorted(measured - listed)]
    path.write_text(format_yaml("\n".join(lines) + "\n"), encoding="utf-8")
    return worse


_FIXES_HEADER = """\
# Written by `python -m ortablegen kernel-fixes` under a newer ONNX Runtime than the one that
# kernels_cpu.yaml was read from: what its kernels do no more of what `numbers` there says.
# Converters serve the oldest version too, so nothing reads this but the test of the table."""


def measure_numbers(row: Mapping[str, Any], schema: OnnxSchema) -> set[tuple[str, ...]] | None:
    """Measure the deviations of the installed kernels for a line of the table.

    Each is a word and a type, with the variant in front; None where the kernels do not run.
    """
    kernels = [_element_numbers(k) for k in (*row["kernels"], *row.get("functions", ()))]
    line = _Row(schema, row.get("opset", schema.since), kernels)
    by_variant = _with_numbers(line).numbers
    if by_variant is None:
        return None
    return {
        (*([variant] * bool(variant)), word, dtypes.name(type_id))
        for variant, words in by_variant.items()
        for word, types in words.items()
        for type_id in types
    }


def flat_numbers(written: Any) -> set[tuple[str, ...]]:
    """``numbers`` of a line of the table in the same form."""
    if not isinstance(written, Mapping):
        return set()
    flat: set[tuple[str, ...]] = set()
    for key, value in written.items():
        if isinstance(value, Mapping):
            flat |= {(key, *rest) for rest in flat_numbers(value)}
        else:
            flat |= {(key, rest) for rest in value}
    return flat


_HEADER = """\
# Read from the installed ONNX Runtime by `python -m ortablegen kernels`; not written by hand.
# One row per operator and schema version between the lowest and the highest supported opset
# (`opset`: the row holds from there on, because the operators of the function body changed).
# A kernel runs a node when each type parameter it names has one of the types listed; `functions`
# are types that run because the operator has a function body in ONNX whose operators have kernels
# (measured with sessions of one node). `rounds` are half floats that run through such a body too,
# with other results than in float32 rounded once: each step is rounded, and may overflow. Nodes
# of these types are cast to float32. `numbers` is how the kernels compute, measured against exact
# arithmetic: `exact`, or what they do otherwise, and with which types (of the operand that gives
# the result its type). An operator without it is not measured."""
_CUDA_HEADER = """\
# Read from an installed onnxruntime-gpu by `python -m ortablegen kernels-cuda`, on a machine with a
# GPU; not written by hand. One row per operator and schema version that has kernels on CUDA; a
# kernel runs a node when each type parameter it names has one of the types listed. Others run on
# the CPU, behind a copy, if that has a kernel."""


@dataclass(frozen=True)
class _Row:
    """What runs from ``opset`` on: kernels, types that run through the function body only, and
    half floats that this body rounds on the way."""

    schema: OnnxSchema
    opset: int
    kernels: Sequence[Kernel]
    functions: Sequence[Kernel] = ()
    rounds: Sequence[Kernel] = ()
    numbers: Numbers | None = None


def _version_rows(schema: OnnxSchema, found: Iterable[Any]) -> list[_Row]:
    """One row per schema version; more where the operators of its function body gain or lose
    kernels in between."""
    kernels = _matching_kernels(schema, found)
    if not schema.has_function:
        return [_Row(schema, schema.since, kernels)]
    rows: list[_Row] = []
    for opset in _active_opsets(schema):
        functions, rounds = _measure_functions(schema, kernels, opset)
        if not rows or (rows[-1].functions, rows[-1].rounds) != (functions, rounds):
            rows.append(_Row(schema, opset if rows else schema.since, kernels, functions, rounds))
    return rows


def _active_opsets(schema: OnnxSchema) -> range:
    """The supported opsets at which this version is in force."""
    floor, ceiling = DOMAIN_RANGE[schema.domain]
    later = [s.since for s in versions_between(schema.op, schema.domain) if s.since > schema.since]
    return range(max(schema.since, floor), (later[0] if later else ceiling + 1))


def _row_line(row: _Row) -> str:
    schema = row.schema
    domain = f", domain: {schema.domain}" if schema.domain else ""
    name = f"op: {schema.op}{domain}, since: {schema.since}"
    if row.opset != schema.since:
        name += f", opset: {row.opset}"
    text = f"- {{{name}, kernels: [{', '.join(map(_flow_mapping, row.kernels))}]"
    for key, types in (("functions", row.functions), ("rounds", row.rounds)):
        if types:
            text += f", {key}: [{', '.join(map(_flow_mapping, types))}]"
    if row.numbers is not None:
        text += f", numbers: {_numbers_text(row.numbers)}"
    return text + "}"


def _with_numbers(row: _Row) -> _Row:
    """The row with what its kernels and function bodies do to numbers."""
    kernels = (*row.kernels, *row.functions)
    elements = {t for kernel in kernels for types in kernel.values() for t in types}
    opset = max(row.opset, DOMAIN_RANGE[row.schema.domain][0])
    return replace(
        row, numbers=measure_operator(row.schema, sorted(elements & set(MEASURED)), opset)
    )


def _numbers_text(found: Numbers) -> str:
    if not found:
        return "exact"
    variants = {name: _flow_mapping(types) for name, types in found.items()}
    plain = variants.pop("", "{}")[1:-1]
    parts = [plain] * bool(plain) + [f"{name}: {text}" for name, text in variants.items()]
    return "{" + ", ".join(parts) + "}"


def _flow_mapping(kernel: Kernel) -> str:
    pairs = (
        f"{name}: [{', '.join(map(dtypes.name, types))}]" for name, types in sorted(kernel.items())
    )
    return "{" + ", ".join(pairs) + "}"


def _by_parameter(schema: OnnxSchema, constraints: Mapping[str, Sequence[str]]) -> Kernel:
    """A kernel's constraints by type parameter of the schema; it may name an input or output
    instead."""
    parameters = {name for name, _ in schema.type_params}
    formals = {f.name: f.type for f in (*schema.inputs, *schema.outputs)}
    result: dict[str, tuple[int, ...]] = {}
    for name, types in constraints.items():
        parameter = name if name in parameters else formals.get(name)
        elements = tuple(sorted({t for t in map(element_type, types) if t is not None}))
        if parameter in parameters and parameter is not None and elements:
            result[parameter] = elements
    return result


def merge_kernels(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Kernels that differ in one parameter only, joined; sorted."""
    left = [dict(k) for k in kernels]
    changed = True
    while changed:
        changed = False
        for a, b in itertools.combinations(left, 2):
            different = [p for p in a.keys() | b.keys() if a.get(p) != b.get(p)]
            if len(different) > 1 or a.keys() != b.keys():
                continue
            for p in different:
                a[p] = tuple(sorted({*a[p], *b[p]}))
            left = [k for k in left if k is not b]
            changed = True
            break
    return sorted(left, key=lambda k: sorted(k.items()))


def is_match(kernel: Kernel, binding: Mapping[str, int]) -> bool:
    """True when the kernel runs with its parameters bound to these types."""
    return all(p not in binding or binding[p] in types for p, types in kernel.items())


def _measure_functions(
    schema: OnnxSchema, kernels: Sequence[Kernel], opset: int
) -> tuple[list[Kernel], list[Kernel]]:
    """Types without a kernel that run through the function body: exact ones, and half floats that
    are rounded on the way."""
    functions: list[Kernel] = []
    rounds: list[Kernel] = []
    for binding, exact in measure_bindings(schema, opset):
        if not any(is_match(k, binding) for k in kernels):
            target = functions if exact else rounds
            target.append({name: (t,) for name, t in binding.items()})
    return merge_kernels(functions), merge_kernels(rounds)


# -- emitting


def emit_kernels(path: Path) -> dict[str, str]:
    """``ortable_generated/kernels.py`` from the checked-in table at ``path``."""
    table: dict[str, list[str]] = {}
    for row in load_plain(path) or ():
        schema = _schema_of(row)
        if schema is not None:
            entry = _table_entry(schema, row, _kernels_of_row(schema, row))
            table.setdefault(schema.key, []).append(entry)
    rows = sorted(table.items())
    text = render("kernels.jinja", table=rows, wider=sorted(WIDER.items()), name=path.name)
    return {"ortable_generated/kernels.py": text}


def emit_cuda_kernels(cuda: Path, cpu: Path, rounded: Path) -> dict[str, str]:
    """``ortable_generated/kernels_cuda.py`` from the checked-in tables of both providers, and from
    the list of kernels whose half floats are worse than torch's.

    Where CUDA has kernels of an operator, the CPU's serve for types other than half floats only:
    those are cast, and stay on the device.
    """
    worse = _element_numbers({row["op"]: row["types"] for row in load_plain(rounded) or ()})
    own = {_row_key(row): row for row in load_plain(cuda) or ()}
    behind = load_plain(cpu) or []
    alone = own.keys() - {_row_key(row) for row in behind}
    table: dict[str, list[str]] = {}
    for row in (*behind, *(row for key, row in own.items() if key in alone)):
        schema, key = _schema_of(row), _row_key(row)
        if schema is None:
            continue
        kernels = [] if key in alone else _kernels_of_row(schema, row)
        if key in own:
            first = _drop_types(_kernels_of_row(None, own[key]), worse.get(schema.key, ()))
            kernels = [*first, *_drop_types(kernels, HALVES)]
        table.setdefault(schema.key, []).append(_table_entry(schema, row, kernels))
    text = render("kernels_cuda.jinja", table=sorted(table.items()), name=cuda.name)
    return {"ortable_generated/kernels_cuda.py": text}


def _row_key(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["op"], row.get("domain", ""), row["since"]


def _drop_types(kernels: Sequence[Kernel], types: Container[int]) -> list[Kernel]:
    """The kernels without some types; one of which a parameter has no others is none."""
    left = [
        {name: tuple(t for t in members if t not in types) for name, members in kernel.items()}
        for kernel in kernels
    ]
    return [kernel for kernel in left if all(kernel.values())]


def _schema_of(row: Mapping[str, Any]) -> OnnxSchema | None:
    domain = row.get("domain", "")
    return next((s for s in versions_between(row["op"], domain) if s.since == row["since"]), None)


def _kernels_of_row(schema: OnnxSchema | None, row: Mapping[str, Any]) -> list[Kernel]:
    """The kernels that a line lists, function bodies among them; with the float16 that the CPU
    provider is cast for, where ``schema`` is that of one of its lines."""
    kernels: list[Kernel] = [
        _element_numbers(k) for k in (*row["kernels"], *row.get("functions", ()))
    ]
    if schema is None or schema.has_function:
        return kernels
    return [_with_half(k) for k in kernels]


def _table_entry(schema: OnnxSchema, row: Mapping[str, Any], kernels: Iterable[Kernel]) -> str:
    """A line of a generated table."""
    legal = {name: tuple(sorted(schema.elements(name))) for name, _ in schema.type_params}
    legal = {name: types for name, types in legal.items() if types}
    usable = merge_kernels(_restrict_types(k, legal) for k in kernels)
    inputs = tuple(_formal_type(schema, f) for f in schema.inputs)
    outputs = tuple(_formal_type(schema, f) for f in schema.outputs)
    return (
        f"({row.get('opset', schema.since)}, {inputs!r}, {outputs!r}, {legal!r}, {tuple(usable)!r})"
    )


def _element_numbers(kernel: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, ...]]:
    numbers = {name: number for number, name in dtypes.NAMES.items()}
    return {name: tuple(numbers[t] for t in types) for name, types in kernel.items()}


def _with_half(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    """ONNX Runtime itself casts a float16 operand without a kernel to float32 and back, unless the
    operator has a function body, which it writes out instead."""
    half, single = dtypes.float16, dtypes.float32
    return {
        p: tuple(sorted({*types, half})) if single in types else types
        for p, types in kernel.items()
    }


def _restrict_types(kernel: Kernel, legal: Mapping[str, tuple[int, ...]]) -> Kernel:
    return {p: tuple(t for t in types if t in legal.get(p, types)) for p, types in kernel.items()}


def _formal_type(schema: OnnxSchema, formal: Formal) -> str | int | None:
    """How the table writes the type of a formal: a parameter, a fixed element type, or None."""
    if formal.variadic and not formal.homogeneous:
        return None
    if formal.type in dict(schema.type_params):
        return formal.type + ("*" if formal.variadic else "")
    return element_type(formal.type)
