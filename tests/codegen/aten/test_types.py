"""Entries declare `types:`, and codegen's proof and the graph builder agree on which nodes run."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ortable import dtypes
from ortable.ir.casts import choose_casts
from ortable_generated.kernels import KERNELS_CPU
from ortablegen.aten.model import LowerCase, OpEntry
from ortablegen.aten.read import read_folder
from ortablegen.aten.type_variables import ALL_DTYPES, parse_dtype_classes
from ortablegen.aten.types import operand_dtypes
from ortablegen.schemas.onnx import CEILING, FLOOR, OnnxSchema, schema_at
from ortablegen.source.diagnostics import Diagnostics, Span

from . import golden

# number of entries that declare their types; raise it as more do
MIN_TYPED_ENTRIES = 671


def read_entries() -> tuple[OpEntry, ...]:
    diagnostics = Diagnostics()
    ops = read_folder(Path(golden.ROOT) / "specs" / "aten", golden.ROOT, diagnostics).ops
    diagnostics.raise_if_any()
    return ops


def test_most_entries_say_which_dtypes_they_serve() -> None:
    assert sum(bool(entry.types) for entry in read_entries()) >= MIN_TYPED_ENTRIES


def test_promoted_arguments_may_have_what_is_promoted_to_a_member() -> None:
    dtypes_by_entry = {entry.key: operand_dtypes(entry) for entry in read_entries()}
    real = frozenset(parse_dtype_classes("real"))  # type: ignore[arg-type]
    assert dtypes_by_entry["aten::exp"]["self"] == real  # int arguments are promoted to float32
    assert dtypes_by_entry["aten::sub.Tensor"]["other"] == real - {dtypes.boolean}
    assert dtypes_by_entry["aten::masked_fill.Scalar"]["mask"] == {dtypes.boolean}


def _operand_dtypes(schema: OnnxSchema) -> list[tuple[int | None, ...]]:
    """Return every assignment of dtypes to the required inputs.

    The list is empty for operators with more than two type parameters.
    """
    formals = schema.inputs[: schema.min_inputs]
    names = list(dict.fromkeys(f.type for f in formals if f.homogeneous))
    if len(names) > 2 or any(not f.homogeneous for f in formals) or not formals:
        return []
    rows = [
        dict(zip(names, values, strict=True))
        for values in itertools.product(ALL_DTYPES, repeat=len(names))
    ]
    return [tuple(row[f.type] for f in formals) for row in rows]


@pytest.mark.parametrize("opset", [FLOOR, CEILING])
def test_the_proof_says_what_the_builder_does(opset: int) -> None:
    count = 0
    for op in KERNELS_CPU:
        schema = None if "::" in op else schema_at(op, "", opset)
        for operands in _operand_dtypes(schema) if schema is not None else []:
            verdict = golden.KERNELS.find_verdict("", op, (opset, opset), operands, 1)
            if verdict.problem is not None and verdict.position is not None:
                continue  # ONNX does not allow these dtypes
            outputs = [0 if dtype is None else dtype for dtype in verdict.outputs]
            casts = choose_casts(KERNELS_CPU, op, opset, operands, outputs)
            names = [dtypes.name(dtype) for dtype in operands if dtype]
            assert (casts is None) == (verdict.problem is not None), (op, opset, names)
            count += 1
    assert count > 1000


@pytest.mark.parametrize(
    ("opset", "expected"),
    [(None, (FLOOR, CEILING)), ((">=", 20), (20, CEILING)), (("<", 20), (FLOOR, 19))],
)
def test_a_case_is_for_the_opsets_that_it_says(opset: object, expected: tuple[int, int]) -> None:
    case = LowerCase(Span("x.yaml", 1, 1), opset=opset)  # type: ignore[arg-type]
    assert case.opset_range == expected
