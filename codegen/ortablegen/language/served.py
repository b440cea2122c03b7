"""Say whether a node runs with operands of given dtypes, at every opset: by the type constraints of
ONNX's schemas, then by the kernel table with the casts that the builder makes by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ortable import dtypes
from ortablegen.schemas.onnx import DOMAIN_RANGE, OnnxSchema, versions_between

from .narrowing import HALVES

# element types; 0 for an omitted operand, None for an unknown one
Operands = tuple[int | None, ...]


@dataclass(frozen=True)
class Verdict:
    """Dtypes of the results (None: not known), and why the node does not run: the operand at
    ``position``, or the whole node where that is None."""

    outputs: tuple[int | None, ...]
    problem: str | None = None
    position: int | None = None


@dataclass
class Kernels:
    """The kernel table of the target, as `ortable_generated/kernels.py` has it, the exact casts to
    wider types, and the operators that are never cast."""

    table: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    wider: Mapping[int, Sequence[int]] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    known: dict[tuple[Any, ...], Verdict] = field(default_factory=dict)

    def verdict(
        self, domain: str, op: str, opsets: tuple[int, int], operands: Operands, outputs: int
    ) -> Verdict:
        """What becomes of a node with these operands at these opsets."""
        key = (domain, op, opsets, operands, outputs)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._verdict(domain, op, opsets, operands, outputs)
        return found

    def _verdict(
        self, domain: str, op: str, opsets: tuple[int, int], operands: Operands, outputs: int
    ) -> Verdict:
        low, high = opsets if domain == "" else DOMAIN_RANGE[domain]
        found: tuple[int | None, ...] = (None,) * outputs
        schemas = versions_between(op, domain, low, high)
        for place, schema in enumerate(schemas):
            until = schemas[place + 1].since - 1 if place + 1 < len(schemas) else high
            bound: dict[str, int] = {}
            problem = _bind(schema, operands, bound)
            if problem is not None:
                return Verdict(found, *problem)
            found = _results(schema, bound, outputs)
            if not self._runs(schema, (max(low, schema.since), until), operands, found, bound):
                names = ", ".join(sorted({dtypes.name(each) for each in bound.values()}))
                problem_text = f"no kernel runs {op}-{schema.since} with {names}"
                return Verdict(found, problem_text + ", and no exact cast leads to one")
        return Verdict(found)

    def _runs(
        self,
        schema: OnnxSchema,
        opsets: tuple[int, int],
        operands: Operands,
        results: Sequence[int | None],
        bound: Mapping[str, int],
    ) -> bool:
        """Whether every row of the table that holds at these opsets has a kernel, or a way to
        one."""
        formals = [schema.input_at(place) for place in range(len(operands))]
        if any(
            operand is None and formal is not None and formal.type not in bound
            for operand, formal in zip(operands, formals, strict=True)
        ):
            return True  # the builder decides when it knows
        types = dict(bound)
        for place, result in enumerate(results):
            formal = schema.output_at(place)
            if formal is not None and result is not None:
                types.setdefault(formal.type, result)
        rows = [row for row in self.table.get(schema.key, ()) if row[0] <= opsets[1]]
        before = [row for row in rows if row[0] <= opsets[0]]
        rows = before[-1:] + [row for row in rows if row[0] > opsets[0]]
        movable = frozenset(bound) if schema.key not in self.fixed else frozenset()
        return all(self._reaches(row[3], row[4], types, movable) for row in rows)

    def _reaches(
        self,
        legal: Mapping[str, Sequence[int]],
        kernels: Sequence[Mapping[str, Sequence[int]]],
        types: Mapping[str, int],
        movable: frozenset[str],
    ) -> bool:
        def takes(kernel: Mapping[str, Sequence[int]], name: str, dtype: int) -> bool:
            allowed = kernel.get(name)
            if allowed is None or dtype in allowed:
                return True
            wider = self.wider.get(dtype, ()) if name in movable else ()
            return any(each in allowed and each in legal[name] for each in wider)

        named = {name: dtype for name, dtype in types.items() if name in legal}
        return any(all(takes(k, name, each) for name, each in named.items()) for k in kernels)


def _bind(
    schema: OnnxSchema, operands: Operands, bound: dict[str, int]
) -> tuple[str, int | None] | None:
    """Fill in the type parameters; what is wrong, and at which operand."""
    version = f"{schema.op}-{schema.since}"
    for place, dtype in enumerate(operands):
        formal = schema.input_at(place)
        if formal is None or not formal.homogeneous or not dtype:
            continue
        allowed = schema.elements(formal.type)
        if not allowed:
            continue
        # a half float that a version leaves out is cast, where another float can be
        if dtype not in allowed and not (dtype in HALVES and dtypes.float32 in allowed):
            return f"input '{formal.name}' of {version} does not take {dtypes.name(dtype)}", place
        if formal.type.startswith("tensor("):
            continue
        before = bound.setdefault(formal.type, dtype)
        if before != dtype:
            names = f"{dtypes.name(before)} and {dtypes.name(dtype)}"
            return f"inputs of {version} must share one dtype ({formal.type}), got {names}", place
    return None


def _results(schema: OnnxSchema, bound: Mapping[str, int], outputs: int) -> tuple[int | None, ...]:
    found: list[int | None] = []
    for place in range(outputs):
        formal = schema.output_at(place)
        if formal is None:
            found.append(None)
        elif formal.type in bound:
            found.append(bound[formal.type])
        else:
            allowed = schema.elements(formal.type)
            found.append(next(iter(allowed)) if len(allowed) == 1 else None)
    return tuple(found)


def kernels_of(files: Mapping[str, str], fixed: Iterable[str]) -> Kernels:
    """The table that codegen has just emitted; ``fixed``: the operators that are never cast."""
    names: dict[str, Any] = {}
    for text in files.values():
        exec(compile(text, "kernels.py", "exec"), names)
    return Kernels(names["KERNELS_CPU"], names["WIDER"], frozenset(fixed))
