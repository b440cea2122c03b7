"""Traits of specs/onnx agree with onnx's schemas and with its reference implementation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ortable_generated.onnx import traits
from ortablegen.onnx.model import OnnxModel
from ortablegen.onnx.read import load_onnx_rules
from ortablegen.onnx.traits import TRAITS
from ortablegen.schemas.onnx import CEILING
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def model() -> OnnxModel:
    return load_onnx_rules(ROOT / "specs" / "onnx", Diagnostics())


def test_every_trait_has_an_operator_and_a_set(model: OnnxModel) -> None:
    for name in TRAITS:
        assert model.operators_with(name), name
        assert getattr(traits, name.upper()) == traits.BY_TRAIT[name] == model.operators_with(name)


def test_random_operators_are_those_that_onnx_calls_non_deterministic() -> None:
    random_kind = onnx.defs.OpSchema.NodeDeterminism.NonDeterministic
    declared = {s.name for s in onnx.defs.get_all_schemas() if s.node_determinism == random_kind}
    # AffineGrid draws no numbers; an operator with subgraphs is only as random as these
    random = {key for key in traits.RANDOM if "::" not in key}
    assert random == declared - traits.HAS_SUBGRAPH - {"AffineGrid"}


def _run(op: str, *inputs: np.ndarray, **attributes: object) -> np.ndarray:
    names = [f"x{index}" for index in range(len(inputs))]
    node = onnx.helper.make_node(op, names, ["y"], **attributes)
    evaluator = ReferenceEvaluator(node, opsets={"": CEILING})
    (result, *_) = evaluator.run(None, dict(zip(names, inputs, strict=True)))
    return np.asarray(result)


_INTEGER_OPERATORS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
_FLOAT = np.array([[-1.5, 2.0, 0.0], [3.0, -0.25, 7.0]], np.float32)


@pytest.mark.parametrize("op", sorted(traits.COMMUTATIVE))
def test_a_commutative_operator_gives_the_same_in_both_orders(op: str) -> None:
    left, right = _FLOAT, _FLOAT[::-1] * 3
    if op in traits.LOGICAL:
        left, right = left > 0, right > 1
    elif op in _INTEGER_OPERATORS:
        left, right = left.astype(np.int32), right.astype(np.int32)
    np.testing.assert_array_equal(_run(op, left, right), _run(op, right, left))


@pytest.mark.parametrize("op", sorted(traits.COMPARISON - {"Equal"}))
def test_an_ordering_is_undone_by_the_other_order(op: str) -> None:
    assert op in traits.ORDERING
    left, right = _FLOAT, _FLOAT.T.reshape(2, 3)
    equal = op.endswith("OrEqual")
    either = _run(op, left, right) | _run(op, right, left)
    np.testing.assert_array_equal(either, np.ones_like(either) if equal else left != right)


_DATA = np.arange(24, dtype=np.float32).reshape(1, 4, 2, 3)
_ARGUMENTS: dict[str, tuple[list[list[int]], dict[str, object]]] = {
    "DepthToSpace": ([], {"blocksize": 2}),
    "Expand": ([[2, 4, 2, 3]], {}),
    "Flatten": ([], {"axis": 2}),
    "Gather": ([[1, 0, 1]], {"axis": 1}),
    "GatherElements": ([[0]], {"axis": 3}),
    "GatherND": ([[0, 2, 1]], {}),
    "Identity": ([], {}),
    "Reshape": ([[6, -1]], {}),
    "Slice": ([[1], [3], [1]], {}),
    "SpaceToDepth": ([], {"blocksize": 1}),
    "Squeeze": ([[0]], {}),
    "Tile": ([[1, 2, 1, 1]], {}),
    "Transpose": ([], {"perm": [3, 1, 0, 2]}),
    "Unsqueeze": ([[0, 3]], {}),
}


@pytest.mark.parametrize("op", sorted(traits.MOVES_ELEMENTS | traits.GATHERS))
def test_what_moves_or_gathers_makes_no_new_element(op: str) -> None:
    inputs, attributes = _ARGUMENTS[op]
    arrays = [np.array(values, np.int64) for values in inputs]
    if op == "GatherElements":
        arrays = [np.zeros((1, 4, 2, 1), np.int64)]
    result = _run(op, _DATA, *arrays, **attributes)
    assert set(result.flat) <= set(_DATA.flat)
    if op in traits.REARRANGES:
        assert sorted(result.flat) == sorted(_DATA.flat)


def test_what_rearranges_moves_elements() -> None:
    assert traits.REARRANGES < traits.MOVES_ELEMENTS
    assert not traits.GATHERS & traits.MOVES_ELEMENTS


@pytest.mark.parametrize("op", sorted(traits.IDEMPOTENT_REDUCTION))
def test_a_reduction_of_equal_elements_is_the_element(op: str) -> None:
    result = _run(op, np.full((2, 3), 0.1, np.float32), np.array([1], np.int64))
    assert (result == np.float32(0.1)).all()


_UNARY_ELEMENTWISE = sorted(
    key
    for key in traits.ELEMENTWISE
    if "::" not in key and onnx.defs.get_schema(key, CEILING).min_input == 1
    if key not in ("BitwiseNot", "Not", "Gelu")  # no float kernel or no reference implementation
)


@pytest.mark.parametrize("op", _UNARY_ELEMENTWISE)
def test_an_elementwise_operator_commutes_with_a_permutation(op: str) -> None:
    attributes = {"to": onnx.TensorProto.INT32} if op == "Cast" else {}
    data = np.abs(_FLOAT) / 8 if op in ("Acos", "Asin", "Atanh") else np.abs(_FLOAT) + 1
    result = _run(op, data, **attributes)
    np.testing.assert_array_equal(_run(op, data.T, **attributes), result.T)
