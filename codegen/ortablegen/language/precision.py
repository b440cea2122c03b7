"""Reject node calls whose kernels are less exact than their types, according to the kernel table.

Float attributes of float64 nodes are rejected, too, if float32 does not represent their numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ortable import dtypes
from ortablegen.schemas.onnx import OnnxSchema, key_of
from ortablegen.source.diagnostics import Span
from ortablegen.source.yaml_source import load_plain

from .narrowing import ALL, HALVES, Value

Report = Callable[..., object]

# Deviation of a kernel -> its text in errors. Other deviations of the table (lost signs of zeros,
# lost digits) are not errors, since torch's kernels have them, too.
_MESSAGES = {
    "wrong": "is wrong for {types} in ONNX Runtime",
    "via double": "computes {types} in double, which rounds ints beyond 2**53",
    "via float": "computes {types} in float32, which rounds ints beyond 2**24",
    "saturates": "saturates {types}, where torch wraps around",
    "drops NaN": "drops NaN of {types}",
    "drops infinity": "makes infinities of {types} finite",
    "overflows": "overflows for {types} where the result is finite",
}
REFUSED = frozenset(_MESSAGES)


@dataclass(frozen=True)
class KernelNumbers:
    """A line of the kernel table: its first opset, and all types that its kernels take.

    ``deviations`` maps variant -> deviation -> types, for example ``{"": {"via float": {int32}},
    "fmod=1": {...}}``, where "" stands for every call. It is None if nothing was measured.
    """

    opset: int
    served: frozenset[int]
    deviations: Mapping[str, Mapping[str, frozenset[int]]] | None


NumberTable = Mapping[str, tuple[KernelNumbers, ...]]


@dataclass(frozen=True)
class PrecisionReason:
    """The reason that an entry gives under ``precision:`` for a deviation."""

    reason: str
    span: Span


@dataclass
class Limits:
    """The kernels' deviations, and the deviations that an entry allows under ``precision:``.

    Keys of ``declared`` are (operator, deviation) or (``Op.attribute``, ""). ``inherited`` are the
    operators of a rewrite's pattern: the replacement may be as inexact as the pattern. ``used``
    collects the keys of the declarations that a call needed.
    """

    kernels: NumberTable
    declared: Mapping[tuple[str, str], PrecisionReason] = field(default_factory=dict)
    inherited: frozenset[str] = frozenset()
    used: set[tuple[str, str]] = field(default_factory=set)

    def is_allowed(self, op: str, deviation: str = "") -> bool:
        """Whether the entry declares a deviation; if it does, mark the declaration as used."""
        if (op, deviation) not in self.declared:
            return False
        self.used.add((op, deviation))
        return True

    def list_unused(self) -> list[tuple[str, PrecisionReason]]:
        """Return (``Op: deviation``, reason) of the declarations that no call needed."""
        return [
            (f"{op}: {deviation}" if deviation else op, declared)
            for (op, deviation), declared in self.declared.items()
            if (op, deviation) not in self.used
        ]


@cache
def read_numbers(path: Path) -> NumberTable:
    """Read the kernel table at ``path``: operator key -> its lines, oldest first."""
    table: dict[str, list[KernelNumbers]] = {}
    for row in load_plain(path) or ():
        kernels = (*row["kernels"], *row.get("functions", ()))
        served = {t for kernel in kernels for types in kernel.values() for t in types}
        numbers = KernelNumbers(
            row.get("opset", row["since"]),
            _element_types(served),
            _parse_deviations(row.get("numbers")),
        )
        table.setdefault(key_of(row["op"], row.get("domain", "")), []).append(numbers)
    return {key: tuple(lines) for key, lines in table.items()}


def _parse_deviations(numbers: Any) -> dict[str, dict[str, frozenset[int]]] | None:
    if numbers is None:
        return None
    if numbers == "exact":
        return {}
    unconditional = {
        deviation: _element_types(types)
        for deviation, types in numbers.items()
        if isinstance(types, list)
    }
    variants = {
        name: {deviation: _element_types(types) for deviation, types in deviations.items()}
        for name, deviations in numbers.items()
        if isinstance(deviations, dict)
    }
    return {"": unconditional, **variants}


def _element_types(names: Iterable[str]) -> frozenset[int]:
    return frozenset(_ELEMENT_TYPES[name] for name in names if name in _ELEMENT_TYPES)


_ELEMENT_TYPES = {name: number for number, name in dtypes.NAMES.items()}


def float32_holds(value: float) -> bool:
    """Whether float32 represents a number exactly, as it does NaN and infinities."""
    with np.errstate(over="ignore"):
        return value != value or abs(value) == float("inf") or float(np.float32(value)) == value


# -- the check


def check_precision(
    call: ast.Call,
    schemas: Iterable[OnnxSchema],
    inputs: list[Value],
    attributes: Mapping[str, Value],
    opsets: tuple[int, int],
    limits: Limits,
    error: Report,
) -> None:
    """Report deviations of kernels for the dtypes that may reach this call, unless declared."""
    schemas = tuple(schemas)
    spread_index = next(
        (index for index, argument in enumerate(call.args) if isinstance(argument, ast.Starred)),
        None,
    )
    inputs = inputs[:spread_index]  # elements of a spread list are unknown
    by_deviation: dict[str, frozenset[int]] = {}
    for schema in schemas:
        for line in _active_lines(limits.kernels, schema, schemas, opsets):
            for deviation, types in _call_deviations(line, call, inputs).items():
                reachable = types & _reachable_dtypes(schema, inputs)
                if deviation in REFUSED and reachable:
                    by_deviation[deviation] = by_deviation.get(deviation, frozenset()) | reachable
    if schemas[0].op in limits.inherited:
        by_deviation.clear()
    for deviation, types in by_deviation.items():
        if not limits.is_allowed(schemas[0].op, deviation):
            _report_deviation(call, schemas[0], deviation, types, error)
    _check_attributes(call, schemas, inputs, attributes, limits, error)


def _report_deviation(
    call: ast.Call, schema: OnnxSchema, deviation: str, types: frozenset[int], error: Report
) -> None:
    names = ", ".join(sorted(dtypes.name(dtype) for dtype in types))
    error(
        call,
        f"{schema.op} {_MESSAGES[deviation].format(types=names)}, and such inputs are possible",
        ["measured: `numbers` in specs/runtime/kernels_cpu.yaml"],
        fix="exclude these dtypes (when:, cast), use other operators, or give a reason to allow it:"
        f" precision: {{{schema.op}: {{{deviation}: <reason>}}}}",
    )


def _active_lines(
    kernels: NumberTable,
    schema: OnnxSchema,
    schemas: tuple[OnnxSchema, ...],
    opsets: tuple[int, int],
) -> list[KernelNumbers]:
    """Return the lines in force at an opset of ``opsets`` at which ``schema`` is in force."""
    lines = kernels.get(schema.key, ())
    later_versions = [later.since for later in schemas if later.since > schema.since]
    end = min(later_versions) if later_versions else opsets[1] + 1
    active = []
    for index, line in enumerate(lines):
        next_opset = lines[index + 1].opset if index + 1 < len(lines) else end
        if line.opset < end and next_opset > max(schema.since, opsets[0]):
            active.append(line)
    return active


def _call_deviations(
    line: KernelNumbers, call: ast.Call, inputs: list[Value]
) -> Mapping[str, frozenset[int]]:
    if not line.deviations:
        return {}
    merged: dict[str, frozenset[int]] = {}
    for variant, deviations in line.deviations.items():
        if _is_variant(variant, call, inputs):
            for deviation, types in deviations.items():
                merged[deviation] = merged.get(deviation, frozenset()) | types
    return merged


def _is_variant(variant: str, call: ast.Call, inputs: list[Value]) -> bool:
    """Whether a call may be of a variant: an attribute (`reduction=max`), or Clip's `one bound`."""
    if not variant:
        return True
    name, equals, value = variant.partition("=")
    if not equals:
        return len(call.args) < 3 or any(v.kind.optional for v in inputs[:3])
    argument = next((k.value for k in call.keywords if k.arg == name), None)
    if argument is None:
        return value in ("0", "none")
    return not isinstance(argument, ast.Constant) or str(argument.value) == value


def _reachable_dtypes(schema: OnnxSchema, inputs: list[Value]) -> frozenset[int]:
    """Return the possible dtypes of operands of the result's type, or else the first input's.

    Half floats may be cast to float32 for a kernel, so float32 is added to them.
    """
    names = {name for name, _ in schema.type_params}
    type_name = schema.outputs[0].type if schema.outputs and schema.outputs[0].type in names else ""
    if not type_name or all(formal.type != type_name for formal in schema.inputs):
        type_name = schema.inputs[0].type if schema.inputs else ""
    members = ALL
    for position, value in enumerate(inputs):
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        if formal.type == type_name and value.dtypes is not None:
            members &= value.dtypes
    return members | {dtypes.float32} if members & HALVES else members


def _check_attributes(
    call: ast.Call,
    schemas: tuple[OnnxSchema, ...],
    inputs: list[Value],
    attributes: Mapping[str, Value],
    limits: Limits,
    error: Report,
) -> None:
    """Report attributes of a node over float64 whose numbers float32 may not represent."""
    if not any(_takes_float64(schema, inputs, limits.kernels) for schema in schemas):
        return
    schema = schemas[-1]
    for attribute in schema.attributes:
        if attribute.type not in ("FLOAT", "FLOATS"):
            continue
        value = attributes.get(attribute.name)
        if value is None:
            is_passed_on = "attrs" in (keyword.arg for keyword in call.keywords)
            is_exact = (
                is_passed_on
                or schema.op in limits.inherited
                or _is_exact_default(attribute.default)
            )
        else:
            is_exact = _fits_float32(value)
        if is_exact or limits.is_allowed(f"{schema.op}.{attribute.name}"):
            continue
        location: ast.AST = next(
            (keyword.value for keyword in call.keywords if keyword.arg == attribute.name), call
        )
        error(
            location,
            f"{schema.op}.{attribute.name} is float32, and the node may compute in float64",
            [
                "ONNX stores float attributes in float32: 0.1 loses half of its digits"
                if value is not None
                else f"its default is {attribute.default}, which is rounded, too"
            ],
            fix="exclude float64 (when: dtype_of(x) != float64), require numbers that fit (when:"
            " fits_attribute(number, x)), or give a reason to allow it: precision:"
            f" {{{schema.op}.{attribute.name}: <reason>}}",
        )


def _takes_float64(schema: OnnxSchema, inputs: list[Value], kernels: NumberTable) -> bool:
    lines = kernels.get(schema.key)
    if lines is not None and not any(dtypes.float64 in line.served for line in lines):
        return False
    for position, formal in enumerate(schema.inputs):
        if "tensor(double)" not in schema.allowed(formal.type):
            continue
        value = inputs[position] if position < len(inputs) else None
        if value is None:
            if not inputs and position == 0:
                return True  # a spread list of unknown dtype
            continue
        if value.dtypes is None or dtypes.float64 in value.dtypes:
            return _can_be_float64(schema, formal.type, inputs)
    return False


def _can_be_float64(schema: OnnxSchema, type_name: str, inputs: list[Value]) -> bool:
    """Whether no operand of the type parameter ``type_name`` excludes float64."""
    for position, value in enumerate(inputs):
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        if (
            formal.type == type_name
            and value.dtypes is not None
            and dtypes.float64 not in value.dtypes
        ):
            return False
    return True


def _fits_float32(value: Value) -> bool:
    return value.fits_float32 or value.kind.base == "None"


def _is_exact_default(default: object) -> bool:
    """Whether a default is a multiple of 2**-12: 1 or 0.5, not 0.01.

    ONNX's schemas store 0.01 rounded to float32, so a conversion cannot tell that it is inexact.
    """
    if default is None or not isinstance(default, float | int):
        return True
    return float(default * 2**12).is_integer()
