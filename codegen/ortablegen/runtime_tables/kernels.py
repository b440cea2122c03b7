"""Which types ONNX Runtime's CPU provider has kernels for: reads them from the installed package
into specs/runtime/kernels_cpu.yaml (a verb, checked in), and emits
``ortable_generated/kernels.py`` from that file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortable import dtypes
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
from ortablegen.source.templates import environment
from ortablegen.source.yaml_source import load_plain

from .function_bodies import MEASURED, PROVIDER, bindings, elements
from .precision import measured

DOMAINS = ("", MICROSOFT)
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
    """ONNX Runtime's rule: an open-ended kernel runs only the schema version it was registered
    for."""
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
    """The YAML text of the kernel table: one line per operator and schema version, sorted; what the
    kernels do to numbers is measured where ``numbers`` says so."""
    raw: dict[tuple[str, str], list[Any]] = {}
    for found in installed_kernels():
        if found.provider == PROVIDER and found.domain in DOMAINS:
            raw.setdefault((found.op_name, found.domain), []).append(found)
    lines = [_HEADER]
    for domain in DOMAINS:
        for op in operators(domain):
            rows = [
                row
                for schema in versions_between(op, domain)
                for row in _rows(schema, raw.get((op, domain), []))
            ]
            if any(row.kernels or row.functions or row.rounds for row in rows):
                # a version without any kernel has its line too: it must hide the older one
                lines += [_line(with_numbers(row) if numbers else row) for row in rows]
    return "\n".join(lines) + "\n"


def write_mended(path: Path, table: Path) -> list[str]:
    """What the kernels of the installed, newer ONNX Runtime do right that ``table`` says they do
    not, written to ``path``; returns what they do wrong that it does not say."""
    import onnxruntime

    version = ".".join(onnxruntime.__version__.split(".")[:2])
    lines, worse = [_MENDED], []
    for row in load_plain(table):
        schema = schema_of(row)
        if schema is None or "numbers" not in row:
            continue
        said, found = flat_numbers(row["numbers"]), numbers_of(row, schema) or set()
        name = f"op: {row['op']}, since: {row['since']}"
        name += f", opset: {row['opset']}" if "opset" in row else ""
        if said - found:
            gone = ", ".join(" ".join(each) for each in sorted(said - found))
            lines.append(f'- {{{name}, onnxruntime: "{version}", mended: [{gone}]}}')
        worse += [f"{{{name}}}: {' '.join(each)}" for each in sorted(found - said)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return worse


_MENDED = """\
# Written by `python -m ortablegen mended` under a newer ONNX Runtime than the one that
# kernels_cpu.yaml was read from: what its kernels do no more of what `numbers` there says.
# Converters serve the oldest version too, so nothing reads this but the test of the table."""


def numbers_of(row: Mapping[str, Any], schema: OnnxSchema) -> set[tuple[str, ...]] | None:
    """What the installed kernels of a line of the table do to numbers: word and type, with the
    variant in front; None where they do not run."""
    kernels = [_element_numbers(k) for k in (*row["kernels"], *row.get("functions", ()))]
    line = _Row(schema, row.get("opset", schema.since), kernels, [], [])
    found = with_numbers(line).numbers
    if found is None:
        return None
    return {
        (*([variant] * bool(variant)), word, dtypes.name(each))
        for variant, words in found.items()
        for word, types in words.items()
        for each in types
    }


def flat_numbers(written: Any) -> set[tuple[str, ...]]:
    """``numbers`` of a line of the table in the same form."""
    if not isinstance(written, Mapping):
        return set()
    found: set[tuple[str, ...]] = set()
    for key, value in written.items():
        if isinstance(value, Mapping):
            found |= {(key, *each) for each in flat_numbers(value)}
        else:
            found |= {(key, each) for each in value}
    return found


_HEADER = """\
# Read from the installed ONNX Runtime by `python -m ortablegen kernels`; not written by hand.
# One line per operator and schema version between the lowest and the highest supported opset
# (`opset`: the line holds from there on, because the operators of the function body changed).
# A kernel runs a node when each type parameter it names has one of the types listed; `functions`
# are types that run because the operator has a function body in ONNX whose operators have kernels
# (measured with sessions of one node). `rounds` are half floats that run through such a body too,
# with other results than in float32 rounded once: each step is rounded, and may overflow. Nodes
# of these types are cast to float32. `numbers` is how the kernels compute, measured against exact
# arithmetic: `exact`, or what they do otherwise, and with which types (of the operand that gives
# the result its type). An operator without it is not measured."""


@dataclass(frozen=True)
class _Row:
    """What runs from ``opset`` on: kernels, types that run through the function body only, and
    half floats that this body rounds on the way."""

    schema: OnnxSchema
    opset: int
    kernels: Sequence[Kernel]
    functions: Sequence[Kernel]
    rounds: Sequence[Kernel]
    numbers: Numbers | None = None


def _rows(schema: OnnxSchema, found: Iterable[Any]) -> list[_Row]:
    """One row per schema version; more where the operators of its function body gain or lose
    kernels in between."""
    matching = [
        k for k in found if kernel_matches(k.version_range[0], k.version_range[1], schema.since)
    ]
    kernels = merge_kernels(by_parameter(schema, k.type_constraints) for k in matching)
    if not schema.has_function:
        return [_Row(schema, schema.since, kernels, [], [])]
    rows: list[_Row] = []
    for opset in _opsets(schema):
        functions, rounds = _measure(schema, kernels, opset)
        if not rows or (rows[-1].functions, rows[-1].rounds) != (functions, rounds):
            rows.append(_Row(schema, opset if rows else schema.since, kernels, functions, rounds))
    return rows


def _opsets(schema: OnnxSchema) -> range:
    """The supported opsets at which this version is in force."""
    floor, ceiling = DOMAIN_RANGE[schema.domain]
    later = [s.since for s in versions_between(schema.op, schema.domain) if s.since > schema.since]
    return range(max(schema.since, floor), (later[0] if later else ceiling + 1))


def _line(row: _Row) -> str:
    schema = row.schema
    name = (
        f"op: {schema.op}"
        + (f", domain: {schema.domain}" if schema.domain else "")
        + f", since: {schema.since}"
    )
    if row.opset != schema.since:
        name += f", opset: {row.opset}"
    text = f"- {{{name}, kernels: [{', '.join(map(flow, row.kernels))}]"
    for key, types in (("functions", row.functions), ("rounds", row.rounds)):
        if types:
            text += f", {key}: [{', '.join(map(flow, types))}]"
    if row.numbers is not None:
        text += f", numbers: {_numbers(row.numbers)}"
    return text + "}"


def with_numbers(row: _Row) -> _Row:
    """The row with what its kernels and function bodies do to numbers."""
    kernels = (*row.kernels, *row.functions)
    held = {t for kernel in kernels for types in kernel.values() for t in types}
    opset = max(row.opset, DOMAIN_RANGE[row.schema.domain][0])
    return replace(row, numbers=measured(row.schema, sorted(held & set(MEASURED)), opset))


def _numbers(found: Numbers) -> str:
    if not found:
        return "exact"
    variants = {name: flow(types) for name, types in found.items()}
    plain = variants.pop("", "{}")[1:-1]
    parts = [plain] * bool(plain) + [f"{name}: {text}" for name, text in variants.items()]
    return "{" + ", ".join(parts) + "}"


def flow(kernel: Kernel) -> str:
    pairs = (
        f"{name}: [{', '.join(map(dtypes.name, types))}]" for name, types in sorted(kernel.items())
    )
    return "{" + ", ".join(pairs) + "}"


def by_parameter(schema: OnnxSchema, constraints: Mapping[str, Sequence[str]]) -> Kernel:
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


def matches(kernel: Kernel, binding: Mapping[str, int]) -> bool:
    """True when the kernel runs with its parameters bound to these types."""
    return all(p not in binding or binding[p] in types for p, types in kernel.items())


def _measure(
    schema: OnnxSchema, kernels: Sequence[Kernel], opset: int
) -> tuple[list[Kernel], list[Kernel]]:
    """Types without a kernel that run through the function body: exact ones, and half floats that
    are rounded on the way."""
    functions: list[Kernel] = []
    rounds: list[Kernel] = []
    for binding, exact in bindings(schema, opset):
        if not any(matches(k, binding) for k in kernels):
            found = functions if exact else rounds
            found.append({name: (t,) for name, t in binding.items()})
    return merge_kernels(functions), merge_kernels(rounds)


# -- emitting


def emit_kernels(path: Path) -> dict[str, str]:
    """``ortable_generated/kernels.py`` from the checked-in table at ``path``."""
    table: dict[str, list[str]] = {}
    for row in load_plain(path) or ():
        schema = schema_of(row)
        if schema is not None:
            table.setdefault(schema.key, []).append(_entry(schema, row))
    text = (
        environment()
        .get_template("kernels.jinja")
        .render(table=sorted(table.items()), wider=sorted(WIDER.items()), name=path.name)
    )
    return {"ortable_generated/kernels.py": text}


def schema_of(row: Mapping[str, Any]) -> OnnxSchema | None:
    domain = row.get("domain", "")
    return next((s for s in versions_between(row["op"], domain) if s.since == row["since"]), None)


def _entry(schema: OnnxSchema, row: Mapping[str, Any]) -> str:
    return entry_of(schema, row, kernels_of_row(schema, row))


def kernels_of_row(schema: OnnxSchema | None, row: Mapping[str, Any]) -> list[Kernel]:
    """The kernels that a line lists, function bodies among them; with the float16 that the CPU
    provider is cast for, where ``schema`` is that of one of its lines."""
    kernels: list[Kernel] = [
        _element_numbers(k) for k in (*row["kernels"], *row.get("functions", ()))
    ]
    if schema is None or schema.has_function:
        return kernels
    return [_with_half(k) for k in kernels]


def entry_of(schema: OnnxSchema, row: Mapping[str, Any], kernels: Iterable[Kernel]) -> str:
    """A line of a generated table."""
    legal = {name: tuple(elements(schema, name)) for name, _ in schema.type_params}
    legal = {name: types for name, types in legal.items() if types}
    usable = merge_kernels(_within(k, legal) for k in kernels)
    inputs = tuple(_formal(schema, f) for f in schema.inputs)
    outputs = tuple(_formal(schema, f) for f in schema.outputs)
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


def _within(kernel: Kernel, legal: Mapping[str, tuple[int, ...]]) -> Kernel:
    return {p: tuple(t for t in types if t in legal.get(p, types)) for p, types in kernel.items()}


def _formal(schema: OnnxSchema, formal: Formal) -> str | int | None:
    """How the table writes the type of a formal: a parameter, a fixed element type, or None."""
    if formal.variadic and not formal.homogeneous:
        return None
    if formal.type in dict(schema.type_params):
        return formal.type + ("*" if formal.variadic else "")
    return element_type(formal.type)
