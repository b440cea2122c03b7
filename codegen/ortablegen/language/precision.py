"""Refuse nodes whose kernels compute less exactly than their types promise, and numbers in float
attributes of nodes over float64, by what the kernel table says."""

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

# What a kernel of the table does -> what an error says of it. The other words of the table (lost
# signs of zeros, lost digits) are facts for people: torch's own kernels differ there, too.
_SAYS = {
    "wrong": "is wrong for {types} in ONNX Runtime",
    "via double": "computes {types} in double, which has no ints beyond 2**53",
    "via float": "computes {types} in float32, which has no ints beyond 2**24",
    "saturates": "ends {types} at the largest number, where torch wraps around",
    "drops NaN": "drops NaN of {types}",
    "drops infinity": "makes infinities of {types} finite",
    "overflows": "overflows for {types} where the result is finite",
}
REFUSED = frozenset(_SAYS)


@dataclass(frozen=True)
class KernelNumbers:
    """A line of the kernel table: from which opset, what types run, and what kernels do to them, by
    variant of the operator; None where that is not measured."""

    opset: int
    served: frozenset[int]
    found: Mapping[str, Mapping[str, frozenset[int]]] | None


NumberTable = Mapping[str, tuple[KernelNumbers, ...]]


@dataclass(frozen=True)
class Declared:
    """One reason of ``precision:``."""

    reason: str
    span: Span


@dataclass
class Limits:
    """What calls are compared with: the kernels, and what an entry says of them under
    ``precision:``, by operator and word (or ``Op.attribute`` and ""). ``inherited`` are operators
    that the pattern of a rewrite has, too: they bring nothing new. ``used`` is what a call
    needed."""

    kernels: NumberTable
    declared: Mapping[tuple[str, str], Declared] = field(default_factory=dict)
    inherited: frozenset[str] = frozenset()
    used: set[tuple[str, str]] = field(default_factory=set)

    def allows(self, op: str, word: str = "") -> bool:
        """Whether the entry says why; it counts as used then."""
        if (op, word) not in self.declared:
            return False
        self.used.add((op, word))
        return True

    def unused(self) -> list[tuple[str, Declared]]:
        """What is said of no call."""
        return [
            (f"{op}: {word}" if word else op, declared)
            for (op, word), declared in self.declared.items()
            if (op, word) not in self.used
        ]


@cache
def read_numbers(path: Path) -> NumberTable:
    """What the kernel table at ``path`` says about numbers."""
    found: dict[str, list[KernelNumbers]] = {}
    for row in load_plain(path) or ():
        kernels = (*row["kernels"], *row.get("functions", ()))
        served = {t for kernel in kernels for types in kernel.values() for t in types}
        line = KernelNumbers(
            row.get("opset", row["since"]), _elements(served), _found(row.get("numbers"))
        )
        found.setdefault(key_of(row["op"], row.get("domain", "")), []).append(line)
    return {key: tuple(lines) for key, lines in found.items()}


def _found(written: Any) -> dict[str, dict[str, frozenset[int]]] | None:
    if written is None:
        return None
    if written == "exact":
        return {}
    plain = {word: _elements(types) for word, types in written.items() if isinstance(types, list)}
    variants = {
        name: {word: _elements(types) for word, types in each.items()}
        for name, each in written.items()
        if isinstance(each, dict)
    }
    return {"": plain, **variants}


def _elements(names: Iterable[str]) -> frozenset[int]:
    return frozenset(_NUMBERS[name] for name in names if name in _NUMBERS)


_NUMBERS = {name: number for number, name in dtypes.NAMES.items()}


def float32_holds(value: float) -> bool:
    """True for a number that float32 has, with NaN and infinities."""
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
    """Report what the kernels of ``schemas`` do to the dtypes that may reach this call, unless the
    entry says why that is no matter."""
    schemas = tuple(schemas)
    star = next((i for i, x in enumerate(call.args) if isinstance(x, ast.Starred)), None)
    inputs = inputs[:star]  # what a list holds is not known
    said: dict[str, frozenset[int]] = {}
    for schema in schemas:
        for line in _lines(limits.kernels, schema, schemas, opsets):
            for word, types in _deviations(line, call, inputs).items():
                hit = types & _reaching(schema, inputs)
                if word in REFUSED and hit:
                    said[word] = said.get(word, frozenset()) | hit
    if schemas[0].op in limits.inherited:
        said.clear()
    for word, types in said.items():
        if not limits.allows(schemas[0].op, word):
            _report(call, schemas[0], word, types, error)
    _check_attributes(call, schemas, inputs, attributes, limits, error)


def _report(
    call: ast.Call, schema: OnnxSchema, word: str, types: frozenset[int], error: Report
) -> None:
    names = ", ".join(sorted(dtypes.name(each) for each in types))
    error(
        call,
        f"{schema.op} {_SAYS[word].format(types=names)}, and these may reach it",
        ["measured: `numbers` in specs/runtime/kernels_cpu.yaml"],
        fix="keep these dtypes out (when:, cast), use other operators, or say why it is no matter:"
        f" precision: {{{schema.op}: {{{word}: <reason>}}}}",
    )


def _lines(
    kernels: NumberTable,
    schema: OnnxSchema,
    schemas: tuple[OnnxSchema, ...],
    opsets: tuple[int, int],
) -> list[KernelNumbers]:
    """Lines of the table that are in force somewhere in the range where this version is."""
    lines = kernels.get(schema.key, ())
    later = [each.since for each in schemas if each.since > schema.since]
    end = min(later) if later else opsets[1] + 1
    found = []
    for place, line in enumerate(lines):
        until = lines[place + 1].opset if place + 1 < len(lines) else end
        if line.opset < end and until > max(schema.since, opsets[0]):
            found.append(line)
    return found


def _deviations(
    line: KernelNumbers, call: ast.Call, inputs: list[Value]
) -> Mapping[str, frozenset[int]]:
    if not line.found:
        return {}
    joined: dict[str, frozenset[int]] = {}
    for variant, words in line.found.items():
        if _is_variant(variant, call, inputs):
            for word, types in words.items():
                joined[word] = joined.get(word, frozenset()) | types
    return joined


def _is_variant(variant: str, call: ast.Call, inputs: list[Value]) -> bool:
    """Whether a call may be this variant of its operator: an attribute (`reduction=max`), or an
    input that is left out (`one bound`)."""
    if not variant:
        return True
    name, equals, value = variant.partition("=")
    if not equals:
        return len(call.args) < 3 or any(v.kind.optional for v in inputs[:3])
    given = next((word.value for word in call.keywords if word.arg == name), None)
    if given is None:
        return value in ("0", "none")
    return not isinstance(given, ast.Constant) or str(given.value) == value


def _reaching(schema: OnnxSchema, inputs: list[Value]) -> frozenset[int]:
    """The dtypes of the operand that gives the result its type, as the values leave them open; half
    floats run in float32 where they have no kernel."""
    names = {name for name, _ in schema.type_params}
    own = schema.outputs[0].type if schema.outputs and schema.outputs[0].type in names else ""
    if not own or all(formal.type != own for formal in schema.inputs):
        own = schema.inputs[0].type if schema.inputs else ""
    found = ALL
    for position, value in enumerate(inputs):
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        if formal.type == own and value.dtypes is not None:
            found &= value.dtypes
    return found | {dtypes.float32} if found & HALVES else found


def _check_attributes(
    call: ast.Call,
    schemas: tuple[OnnxSchema, ...],
    inputs: list[Value],
    attributes: Mapping[str, Value],
    limits: Limits,
    error: Report,
) -> None:
    """A number that float32 may not hold, in an attribute of a node over float64."""
    if not any(_takes_float64(schema, inputs, limits.kernels) for schema in schemas):
        return
    schema = schemas[-1]
    for attribute in schema.attributes:
        if attribute.type not in ("FLOAT", "FLOATS"):
            continue
        given = attributes.get(attribute.name)
        if given is None:
            known = "attrs" in (word.arg for word in call.keywords)  # passed on from the pattern
            held = known or schema.op in limits.inherited or _is_plain(attribute.default)
        else:
            held = _is_held(given)
        if held or limits.allows(f"{schema.op}.{attribute.name}"):
            continue
        where: ast.AST = next(
            (word.value for word in call.keywords if word.arg == attribute.name), call
        )
        error(
            where,
            f"{schema.op}.{attribute.name} is float32, and the node may compute in float64",
            [
                "ONNX keeps float attributes in float32: a number such as 0.1 loses half its digits"
                if given is not None
                else f"left out, it is {attribute.default}, which is rounded, too"
            ],
            fix="keep float64 out (when: dtype_of(x) != float64), ask for numbers that fit (when:"
            " fits_attribute(number, x)), or say why it is no matter: precision:"
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
                return True  # a list of anything
            continue
        if value.dtypes is None or dtypes.float64 in value.dtypes:
            return _others_agree(schema, formal.type, inputs)
    return False


def _others_agree(schema: OnnxSchema, own: str, inputs: list[Value]) -> bool:
    """Whether no other operand of the same type parameter rules float64 out."""
    for position, value in enumerate(inputs):
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        if formal.type == own and value.dtypes is not None and dtypes.float64 not in value.dtypes:
            return False
    return True


def _is_held(value: Value) -> bool:
    return value.held or value.kind.base == "None"


def _is_plain(default: object) -> bool:
    """Whether a default means what float32 has: 1, 0.5, not 0.01 rounded."""
    if default is None or not isinstance(default, float | int):
        return True
    return float(default * 2**12).is_integer()
