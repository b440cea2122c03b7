"""Decide whether a node with operands of given dtypes runs at every opset.

The type constraints of ONNX's schemas decide first, then the kernel table: a kernel must take the
operands, if need be after the casts that the runtime's graph builder inserts.
"""

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
    """The dtypes of the results; the problem, if any, and the ``position`` of its operand."""

    outputs: tuple[int | None, ...]
    problem: str | None = None
    position: int | None = None


@dataclass
class Kernels:
    """The kernel table of the target, in the form of `ortable_generated/kernels.py`.

    ``wider`` maps a type to wider types that represent all of its values; ``fixed`` are the
    operators whose operands are never cast.
    """

    table: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    wider: Mapping[int, Sequence[int]] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    cache: dict[tuple[Any, ...], Verdict] = field(default_factory=dict)

    def find_verdict(
        self, domain: str, op: str, opsets: tuple[int, int], operands: Operands, outputs: int
    ) -> Verdict:
        """Return the verdict on a node with these operands and number of outputs."""
        key = (domain, op, opsets, operands, outputs)
        cached = self.cache.get(key)
        if cached is None:
            cached = self.cache[key] = self._compute_verdict(domain, op, opsets, operands, outputs)
        return cached

    def _compute_verdict(
        self, domain: str, op: str, opsets: tuple[int, int], operands: Operands, outputs: int
    ) -> Verdict:
        low, high = opsets if domain == "" else DOMAIN_RANGE[domain]
        result_dtypes: tuple[int | None, ...] = (None,) * outputs
        schemas = versions_between(op, domain, low, high)
        for index, schema in enumerate(schemas):
            last_opset = schemas[index + 1].since - 1 if index + 1 < len(schemas) else high
            bound: dict[str, int] = {}
            problem = _bind_types(schema, operands, bound)
            if problem is not None:
                return Verdict(result_dtypes, *problem)
            result_dtypes = _result_dtypes(schema, bound, outputs)
            if not self._has_kernel(
                schema, (max(low, schema.since), last_opset), operands, result_dtypes, bound
            ):
                names = ", ".join(sorted({dtypes.name(dtype) for dtype in bound.values()}))
                problem_text = f"no kernel runs {op}-{schema.since} with {names}"
                return Verdict(result_dtypes, problem_text + ", and no exact cast leads to one")
        return Verdict(result_dtypes)

    def _has_kernel(
        self,
        schema: OnnxSchema,
        opsets: tuple[int, int],
        operands: Operands,
        results: Sequence[int | None],
        bound: Mapping[str, int],
    ) -> bool:
        """Whether every row of the table at these opsets has a kernel, possibly after casts.

        A row is (opset, inputs, outputs, legal types, kernels); without rows the result is True.
        """
        formals = [schema.input_at(index) for index in range(len(operands))]
        if any(
            operand is None and formal is not None and formal.type not in bound
            for operand, formal in zip(operands, formals, strict=True)
        ):
            return True  # the graph builder decides during conversion, when it knows the dtypes
        types = dict(bound)
        for index, result in enumerate(results):
            formal = schema.output_at(index)
            if formal is not None and result is not None:
                types.setdefault(formal.type, result)
        rows = [row for row in self.table.get(schema.key, ()) if row[0] <= opsets[1]]
        earlier_rows = [row for row in rows if row[0] <= opsets[0]]
        rows = earlier_rows[-1:] + [row for row in rows if row[0] > opsets[0]]
        castable = frozenset(bound) if schema.key not in self.fixed else frozenset()
        return all(self._can_reach(row[3], row[4], types, castable) for row in rows)

    def _can_reach(
        self,
        legal: Mapping[str, Sequence[int]],
        kernels: Sequence[Mapping[str, Sequence[int]]],
        types: Mapping[str, int],
        castable: frozenset[str],
    ) -> bool:
        def can_take(kernel: Mapping[str, Sequence[int]], name: str, dtype: int) -> bool:
            allowed = kernel.get(name)
            if allowed is None or dtype in allowed:
                return True
            wider = self.wider.get(dtype, ()) if name in castable else ()
            return any(target in allowed and target in legal[name] for target in wider)

        row_types = {name: dtype for name, dtype in types.items() if name in legal}
        return any(
            all(can_take(candidate, name, type_id) for name, type_id in row_types.items())
            for candidate in kernels
        )


def _bind_types(
    schema: OnnxSchema, operands: Operands, bound: dict[str, int]
) -> tuple[str, int | None] | None:
    """Bind the type parameters in ``bound``; return (problem, position of its operand) or None."""
    version = f"{schema.op}-{schema.since}"
    for index, dtype in enumerate(operands):
        formal = schema.input_at(index)
        if formal is None or not formal.homogeneous or not dtype:
            continue
        allowed = schema.elements(formal.type)
        if not allowed:
            continue
        # the graph builder casts a half float that the version does not allow to float32
        if dtype not in allowed and not (dtype in HALVES and dtypes.float32 in allowed):
            return f"input '{formal.name}' of {version} does not take {dtypes.name(dtype)}", index
        if formal.type.startswith("tensor("):
            continue
        bound_dtype = bound.setdefault(formal.type, dtype)
        if bound_dtype != dtype:
            names = f"{dtypes.name(bound_dtype)} and {dtypes.name(dtype)}"
            return f"inputs of {version} must share one dtype ({formal.type}), got {names}", index
    return None


def _result_dtypes(
    schema: OnnxSchema, bound: Mapping[str, int], outputs: int
) -> tuple[int | None, ...]:
    result_dtypes: list[int | None] = []
    for index in range(outputs):
        formal = schema.output_at(index)
        if formal is None:
            result_dtypes.append(None)
        elif formal.type in bound:
            result_dtypes.append(bound[formal.type])
        else:
            allowed = schema.elements(formal.type)
            result_dtypes.append(next(iter(allowed)) if len(allowed) == 1 else None)
    return tuple(result_dtypes)


def load_kernels(files: Mapping[str, str], fixed: Iterable[str]) -> Kernels:
    """Load the table from the text of `kernels.py` in ``files``; for ``fixed`` see `Kernels`."""
    names: dict[str, Any] = {}
    for text in files.values():
        exec(compile(text, "kernels.py", "exec"), names)
    return Kernels(names["KERNELS_CPU"], names["WIDER"], frozenset(fixed))
