"""Record and emit which types ONNX Runtime's CPU and CUDA providers have kernels for.

The commands `kernels` and `kernels-cuda` write the kernels of the installed package to
specs/runtime/kernels_cpu.yaml and kernels_cuda.yaml (the latter on a machine with a GPU), which are
checked in; ``ortable_generated/kernels.py`` and ``kernels_cuda.py`` are emitted from these files.
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
_OPEN_END = 2147483647  # the end of the version range of a kernel without a last version
Kernel = Mapping[str, tuple[int, ...]]  # type parameter -> element types that the kernel accepts
# Variant of the operator -> deviation -> types; empty for exact kernels.
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
    """Whether a kernel for versions ``start`` to ``end`` runs version ``since`` of its operator.

    An open-ended kernel runs only version ``start``.
    """
    return start == since or (end != _OPEN_END and start <= since <= end)


# -- reading the installed package


def write_kernel_table(path: Path) -> None:
    """Record the schemas and the kernels of the installed onnx and ONNX Runtime.

    Run this with the oldest supported versions: newer versions have all of their kernels.
    """
    record_installed()
    path.write_text(read_kernels(), encoding="utf-8")


def installed_kernels() -> list[Any]:
    """Return the kernels of all providers of the installed ONNX Runtime."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return list(state.get_all_opkernel_def())


def read_kernels(numbers: bool = True) -> str:
    """Return the YAML text of the kernel table, with measured deviations if ``numbers``."""
    lines = [_HEADER]
    for schemas, kernels in _by_operator(installed_kernels(), PROVIDER):
        rows = [row for schema in schemas for row in _version_rows(schema, kernels)]
        if any(row.kernels or row.functions or row.rounds for row in rows):
            # a version without a kernel needs a line, too, which replaces the older version's
            lines += [_format_row(_add_numbers(row) if numbers else row) for row in rows]
    return format_yaml("\n".join(lines) + "\n")


def read_cuda_kernels(found: Sequence[Any]) -> str:
    """Return the YAML text of the table of CUDA kernels.

    Args:
        found: the result of `installed_kernels`. ONNX Runtime loads every provider of its build to
            list their kernels, so the libraries of all providers must be installed.
    """
    lines = [_CUDA_HEADER]
    for schemas, cuda_kernels in _by_operator(found, _CUDA):
        for schema in schemas:
            if kernels := _matching_kernels(schema, cuda_kernels):
                lines.append(_format_row(_Row(schema, schema.since, kernels)))
    return format_yaml("\n".join(lines) + "\n")


def _by_operator(
    kernels: Iterable[Any], provider: str
) -> Iterator[tuple[tuple[OnnxSchema, ...], list[Any]]]:
    """Yield the versions of every operator, with the kernels that the provider has for it."""
    kernels_by_operator: dict[tuple[str, str], list[Any]] = {}
    for kernel in kernels:
        if kernel.provider == provider:
            kernels_by_operator.setdefault((kernel.op_name, kernel.domain), []).append(kernel)
    for domain in ("", MICROSOFT):
        for op in operators(domain):
            yield versions_between(op, domain), kernels_by_operator.get((op, domain), [])


def _matching_kernels(schema: OnnxSchema, kernels: Iterable[Any]) -> list[Kernel]:
    """Return the kernels of an operator that run the schema version."""
    return merge_kernels(
        _by_parameter(schema, kernel.type_constraints)
        for kernel in kernels
        if kernel_matches(kernel.version_range[0], kernel.version_range[1], schema.since)
    )


def write_kernel_fixes(path: Path, table: Path) -> list[str]:
    """Write to ``path`` the deviations of ``table`` that the installed ONNX Runtime has fixed.

    Returns:
        The measured deviations that ``table`` does not list.
    """
    import onnxruntime

    version = ".".join(onnxruntime.__version__.split(".")[:2])
    lines, regressions = [_FIXES_HEADER], []
    for row in load_plain(table):
        schema = _schema_of(row)
        if schema is None or "numbers" not in row:
            continue
        recorded, measured = flatten_numbers(row["numbers"]), measure_numbers(row, schema) or set()
        name = f"op: {row['op']}, since: {row['since']}"
        name += f", opset: {row['opset']}" if "opset" in row else ""
        if recorded - measured:
            fixed = ", ".join(" ".join(deviation) for deviation in sorted(recorded - measured))
            lines.append(f'- {{{name}, onnxruntime: "{version}", fixed: [{fixed}]}}')
        regressions += [
            f"{{{name}}}: {' '.join(deviation)}" for deviation in sorted(measured - recorded)
        ]
    path.write_text(format_yaml("\n".join(lines) + "\n"), encoding="utf-8")
    return regressions


_FIXES_HEADER = """\
# Written by `python -m ortablegen kernel-fixes` under a newer ONNX Runtime than the one that
# kernels_cpu.yaml was read from: what its kernels do no more of what `numbers` there says.
# Converters serve the oldest version too, so nothing reads this but the test of the table."""


def measure_numbers(row: Mapping[str, Any], schema: OnnxSchema) -> set[tuple[str, ...]] | None:
    """Measure the deviations of the installed kernels for a line of the table.

    Each is a deviation and a type, after the variant if there is one: ``("drops NaN", "float32")``,
    ``("fmod=0", "wrong", "int8")``. Return None if the operator is not measured.
    """
    kernels = [_parse_types(k) for k in (*row["kernels"], *row.get("functions", ()))]
    line = _Row(schema, row.get("opset", schema.since), kernels)
    by_variant = _add_numbers(line).numbers
    if by_variant is None:
        return None
    return {
        (*([variant] * bool(variant)), deviation, dtypes.name(type_id))
        for variant, deviations in by_variant.items()
        for deviation, types in deviations.items()
        for type_id in types
    }


def flatten_numbers(numbers: Any) -> set[tuple[str, ...]]:
    """Return ``numbers`` of a line of the table in the form of `measure_numbers`.

    The result is empty for exact kernels.
    """
    if not isinstance(numbers, Mapping):
        return set()
    flat: set[tuple[str, ...]] = set()
    for key, value in numbers.items():
        if isinstance(value, Mapping):
            flat |= {(key, *rest) for rest in flatten_numbers(value)}
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
    """The types that run from ``opset`` on.

    ``functions`` run only through the function body. So do the half floats of ``rounds``, but with
    a rounding at each step.
    """

    schema: OnnxSchema
    opset: int
    kernels: Sequence[Kernel]
    functions: Sequence[Kernel] = ()
    rounds: Sequence[Kernel] = ()
    numbers: Numbers | None = None


def _version_rows(schema: OnnxSchema, all_kernels: Iterable[Any]) -> list[_Row]:
    """Return the rows of a schema version: one for each opset that changes what its body runs."""
    kernels = _matching_kernels(schema, all_kernels)
    if not schema.has_function:
        return [_Row(schema, schema.since, kernels)]
    rows: list[_Row] = []
    for opset in _active_opsets(schema):
        functions, rounds = _measure_functions(schema, kernels, opset)
        if not rows or (rows[-1].functions, rows[-1].rounds) != (functions, rounds):
            rows.append(_Row(schema, opset if rows else schema.since, kernels, functions, rounds))
    return rows


def _active_opsets(schema: OnnxSchema) -> range:
    """Return the supported opsets at which this version is in force."""
    floor, ceiling = DOMAIN_RANGE[schema.domain]
    later = [s.since for s in versions_between(schema.op, schema.domain) if s.since > schema.since]
    return range(max(schema.since, floor), (later[0] if later else ceiling + 1))


def _format_row(row: _Row) -> str:
    schema = row.schema
    domain = f", domain: {schema.domain}" if schema.domain else ""
    name = f"op: {schema.op}{domain}, since: {schema.since}"
    if row.opset != schema.since:
        name += f", opset: {row.opset}"
    text = f"- {{{name}, kernels: [{', '.join(map(_format_mapping, row.kernels))}]"
    for key, types in (("functions", row.functions), ("rounds", row.rounds)):
        if types:
            text += f", {key}: [{', '.join(map(_format_mapping, types))}]"
    if row.numbers is not None:
        text += f", numbers: {_format_numbers(row.numbers)}"
    return text + "}"


def _add_numbers(row: _Row) -> _Row:
    """Add the measured deviations of the kernels and function bodies to a row."""
    kernels = (*row.kernels, *row.functions)
    elements = {t for kernel in kernels for types in kernel.values() for t in types}
    opset = max(row.opset, DOMAIN_RANGE[row.schema.domain][0])
    return replace(
        row, numbers=measure_operator(row.schema, sorted(elements & set(MEASURED)), opset)
    )


def _format_numbers(numbers: Numbers) -> str:
    """Format deviations as ``exact`` or ``{drops NaN: [float32], fmod=0: {wrong: [int8]}}``."""
    if not numbers:
        return "exact"
    variants = {name: _format_mapping(types) for name, types in numbers.items()}
    plain_text = variants.pop("", "{}")[1:-1]
    parts = [plain_text] * bool(plain_text) + [f"{name}: {text}" for name, text in variants.items()]
    return "{" + ", ".join(parts) + "}"


def _format_mapping(kernel: Kernel) -> str:
    pairs = (
        f"{name}: [{', '.join(map(dtypes.name, types))}]" for name, types in sorted(kernel.items())
    )
    return "{" + ", ".join(pairs) + "}"


def _by_parameter(schema: OnnxSchema, constraints: Mapping[str, Sequence[str]]) -> Kernel:
    """Return types by type parameter; ONNX Runtime may name them after an input or output."""
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
    """Merge kernels that differ in one parameter only, and sort them."""
    merged = [dict(k) for k in kernels]
    is_changed = True
    while is_changed:
        is_changed = False
        for first, second in itertools.combinations(merged, 2):
            different = [
                parameter
                for parameter in first.keys() | second.keys()
                if first.get(parameter) != second.get(parameter)
            ]
            if len(different) > 1 or first.keys() != second.keys():
                continue
            for parameter in different:
                first[parameter] = tuple(sorted({*first[parameter], *second[parameter]}))
            merged = [k for k in merged if k is not second]
            is_changed = True
            break
    return sorted(merged, key=lambda k: sorted(k.items()))


def is_match(kernel: Kernel, binding: Mapping[str, int]) -> bool:
    """Whether the kernel runs with its parameters bound to these types."""
    return all(p not in binding or binding[p] in types for p, types in kernel.items())


def _measure_functions(
    schema: OnnxSchema, kernels: Sequence[Kernel], opset: int
) -> tuple[list[Kernel], list[Kernel]]:
    """Return types that run only through the function body: those rounded once, and the others."""
    functions: list[Kernel] = []
    rounds: list[Kernel] = []
    for binding, exact in measure_bindings(schema, opset):
        if not any(is_match(k, binding) for k in kernels):
            target = functions if exact else rounds
            target.append({name: (t,) for name, t in binding.items()})
    return merge_kernels(functions), merge_kernels(rounds)


# -- emitting


def emit_kernels(path: Path) -> dict[str, str]:
    """Emit ``ortable_generated/kernels.py`` from the checked-in table at ``path``."""
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
    """Emit ``ortable_generated/kernels_cuda.py`` from the checked-in tables of both providers.

    ``rounded`` lists types of CUDA kernels whose half floats are less exact than torch's; they are
    dropped. If CUDA has kernels of an operator, the CPU's are not used for half floats, which are
    cast instead and stay on the device.
    """
    rounded_types = _parse_types({row["op"]: row["types"] for row in load_plain(rounded) or ()})
    cuda_rows = {_row_key(row): row for row in load_plain(cuda) or ()}
    cpu_rows = load_plain(cpu) or []
    cuda_only = cuda_rows.keys() - {_row_key(row) for row in cpu_rows}
    table: dict[str, list[str]] = {}
    for row in (*cpu_rows, *(row for key, row in cuda_rows.items() if key in cuda_only)):
        schema, key = _schema_of(row), _row_key(row)
        if schema is None:
            continue
        kernels = [] if key in cuda_only else _kernels_of_row(schema, row)
        if key in cuda_rows:
            cuda_kernels = _drop_types(
                _kernels_of_row(None, cuda_rows[key]), rounded_types.get(schema.key, ())
            )
            kernels = [*cuda_kernels, *_drop_types(kernels, HALVES)]
        table.setdefault(schema.key, []).append(_table_entry(schema, row, kernels))
    text = render("kernels_cuda.jinja", table=sorted(table.items()), name=cuda.name)
    return {"ortable_generated/kernels_cuda.py": text}


def _row_key(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["op"], row.get("domain", ""), row["since"]


def _drop_types(kernels: Sequence[Kernel], types: Container[int]) -> list[Kernel]:
    """Remove types from kernels, and kernels of which a parameter has no type left."""
    remaining = [
        {name: tuple(t for t in members if t not in types) for name, members in kernel.items()}
        for kernel in kernels
    ]
    return [kernel for kernel in remaining if all(kernel.values())]


def _schema_of(row: Mapping[str, Any]) -> OnnxSchema | None:
    domain = row.get("domain", "")
    return next((s for s in versions_between(row["op"], domain) if s.since == row["since"]), None)


def _kernels_of_row(schema: OnnxSchema | None, row: Mapping[str, Any]) -> list[Kernel]:
    """Return the kernels of a line; with ``schema`` (CPU), add float16 that ONNX Runtime casts."""
    kernels: list[Kernel] = [_parse_types(k) for k in (*row["kernels"], *row.get("functions", ()))]
    if schema is None or schema.has_function:
        return kernels
    return [_add_cast_half(k) for k in kernels]


def _table_entry(schema: OnnxSchema, row: Mapping[str, Any], kernels: Iterable[Kernel]) -> str:
    """Format a line of a generated table: opset, inputs, outputs, legal types, kernels."""
    legal = {name: tuple(sorted(schema.elements(name))) for name, _ in schema.type_params}
    legal = {name: types for name, types in legal.items() if types}
    usable = merge_kernels(_restrict_types(k, legal) for k in kernels)
    inputs = tuple(_formal_type(schema, f) for f in schema.inputs)
    outputs = tuple(_formal_type(schema, f) for f in schema.outputs)
    return (
        f"({row.get('opset', schema.since)}, {inputs!r}, {outputs!r}, {legal!r}, {tuple(usable)!r})"
    )


def _parse_types(kernel: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, ...]]:
    numbers = {name: number for number, name in dtypes.NAMES.items()}
    return {name: tuple(numbers[t] for t in types) for name, types in kernel.items()}


def _add_cast_half(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    """Add float16 where float32 runs.

    ONNX Runtime casts float16 operands without a kernel to float32 and back, unless the operator
    has a function body, which it inlines instead.
    """
    half, single = dtypes.float16, dtypes.float32
    return {
        p: tuple(sorted({*types, half})) if single in types else types
        for p, types in kernel.items()
    }


def _restrict_types(kernel: Kernel, legal: Mapping[str, tuple[int, ...]]) -> Kernel:
    return {p: tuple(t for t in types if t in legal.get(p, types)) for p, types in kernel.items()}


def _formal_type(schema: OnnxSchema, formal: Formal) -> str | int | None:
    """Return a formal's type in the table: a parameter (``T*`` if variadic), an element or None."""
    if formal.variadic and not formal.homogeneous:
        return None
    if formal.type in dict(schema.type_params):
        return formal.type + ("*" if formal.variadic else "")
    return element_type(formal.type)
