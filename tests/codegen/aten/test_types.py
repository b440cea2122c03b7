"""`types:` of the entries: how many say it, and that the proof of codegen and the builder agree on
which nodes run."""

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

# entries that say their types; it grows
SAID = 671


def entries() -> tuple[OpEntry, ...]:
    diagnostics = Diagnostics()
    found = read_folder(Path(golden.ROOT) / "specs" / "aten", golden.ROOT, diagnostics).ops
    diagnostics.raise_if_any()
    return found


def test_most_entries_say_which_dtypes_they_serve() -> None:
    assert sum(bool(entry.types) for entry in entries()) >= SAID


def test_promoted_arguments_may_have_what_is_promoted_to_a_member() -> None:
    found = {entry.key: operand_dtypes(entry) for entry in entries()}
    real = frozenset(parse_dtype_classes("real"))  # type: ignore[arg-type]
    assert found["aten::exp"]["self"] == real  # computed in floats: ints become float32
    assert found["aten::sub.Tensor"]["other"] == real - {dtypes.boolean}
    assert found["aten::masked_fill.Scalar"]["mask"] == {dtypes.boolean}


def _operands(schema: OnnxSchema) -> list[tuple[int | None, ...]]:
    """Operands of every dtype, one for each type parameter of the required inputs; none for an
    operator of more than two."""
    formals = schema.inputs[: schema.min_inputs]
    names = list(dict.fromkeys(f.type for f in formals if f.homogeneous))
    if len(names) > 2 or any(not f.homogeneous for f in formals) or not formals:
        return []
    chosen = [
        dict(zip(names, each, strict=True))
        for each in itertools.product(ALL_DTYPES, repeat=len(names))
    ]
    return [tuple(choice[f.type] for f in formals) for choice in chosen]


@pytest.mark.parametrize("opset", [FLOOR, CEILING])
def test_the_proof_says_what_the_builder_does(opset: int) -> None:
    seen = 0
    for op in KERNELS_CPU:
        schema = None if "::" in op else schema_at(op, "", opset)
        for operands in _operands(schema) if schema is not None else []:
            verdict = golden.KERNELS.find_verdict("", op, (opset, opset), operands, 1)
            if verdict.problem is not None and verdict.position is not None:
                continue  # ONNX does not allow it
            known = [0 if each is None else each for each in verdict.outputs]
            moves = choose_casts(KERNELS_CPU, op, opset, operands, known)
            names = [dtypes.name(each) for each in operands if each]
            assert (moves is None) == (verdict.problem is not None), (op, opset, names)
            seen += 1
    assert seen > 1000


@pytest.mark.parametrize(
    ("opset", "wanted"),
    [(None, (FLOOR, CEILING)), ((">=", 20), (20, CEILING)), (("<", 20), (FLOOR, 19))],
)
def test_a_case_is_for_the_opsets_that_it_says(opset: object, wanted: tuple[int, int]) -> None:
    case = LowerCase(Span("x.yaml", 1, 1), opset=opset)  # type: ignore[arg-type]
    assert case.opset_range == wanted
