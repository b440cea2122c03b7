"""Casts around nodes without a kernel: only to wider types, and back to the same type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ortable import GraphBuilder, dtypes
from ortable.errors import BuilderError, KernelError
from ortable.ir.casts import NO_MOVES, choose_casts

TABLE = {
    "Add": (
        (7, ("T", "T"), ("T",), {"T": (1, 6, 7, 11)}, ({"T": (1,)},)),
        (14, ("T", "T"), ("T",), {"T": (1, 3, 6, 7, 10, 16)}, ({"T": (1, 7)}, {"T": (6,)})),
    ),
    "Gather": ((13, ("T", "I"), ("T",), {"T": (1, 16), "I": (6, 7)}, ({"T": (1,), "I": (7,)},)),),
    "Sum": ((13, ("T*",), ("T",), {"T": (1, 10, 16)}, ({"T": (1,)},)),),
    "Cast": ((13, ("T1",), ("T2",), {"T1": (1, 9), "T2": (1, 16)}, ({"T1": (1,), "T2": (1,)},)),),
}


@pytest.mark.parametrize(
    ("key", "opset", "inputs", "outputs", "moves"),
    [
        ("Add", 18, (1, 1), (1,), {}),
        ("Add", 18, (3, 3), (3,), {0: 6, 1: 6}),  # int8 -> int32, the nearest wider type
        ("Add", 18, (16, 16), (16,), {0: 1, 1: 1}),
        ("Add", 13, (6, 6), (6,), None),  # the version of opset 13 has only float32
        ("Add", 18, (None, 1), (1,), {}),  # unknown types are not cast
        ("Unknown", 18, (16,), (16,), {}),
        ("Gather", 18, (1, 6), (1,), {1: 7}),  # only the index is cast
        ("Gather", 18, (16, 6), (16,), {0: 1, 1: 7}),
        ("Sum", 18, (16, 16, 16), (16,), {0: 1, 1: 1, 2: 1}),
        ("Cast", 18, (1,), (16,), None),  # an output type that no input determines stays
    ],
)
def test_choice_of_casts(key, opset, inputs, outputs, moves):
    assert choose_casts(TABLE, key, opset, inputs, outputs) == moves


def test_integers_never_go_through_floats():
    table = {"Op": ((1, ("T",), ("T",), {"T": (1, 7, 11)}, ({"T": (1, 11)},)),)}
    assert choose_casts(table, "Op", 1, (7,), (7,)) is None
    assert choose_casts(table, "Op", 1, (1,), (1,)) == NO_MOVES


def test_where_the_type_is_the_meaning_nothing_is_cast():
    legal = {"T1": (1, 9), "T2": (1, 2, 9)}
    table = {"CastLike": ((15, ("T1", "T2"), ("T2",), legal, ({"T1": (1,), "T2": (1, 2)},)),)}
    assert choose_casts(table, "CastLike", 18, (1, 9), (9,)) is None


def make_builder(dtype, **options):
    builder = GraphBuilder(18, **options)
    builder.make_tensor_input("x", dtype, ("n", 4))
    return builder


def test_bfloat16_runs_in_float32_and_comes_back():
    builder = make_builder(dtypes.bfloat16)
    y = builder.make_node("Tanh", ["x"], ["y"])
    assert [n.op_type for n in builder.nodes] == ["Cast", "Tanh", "Cast"]
    assert builder.get_type(y) == dtypes.bfloat16
    assert builder.get_shape(y) == builder.get_shape("x")
    assert builder.nodes[-1].outputs == ["y"]


def test_one_cast_serves_all_inputs_that_are_the_same_result():
    builder = make_builder(dtypes.bfloat16)
    builder.make_node("Mul", ["x", "x"])
    assert [n.op_type for n in builder.nodes] == ["Cast", "Mul", "Cast"]


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize(
    ("op_type", "dtype", "attrs"),
    [
        ("Mul", np.int16, {}),
        ("Add", np.int8, {}),
        ("Div", np.int8, {}),
        ("Max", np.int16, {}),
        ("Less", np.int16, {}),
        ("Mod", np.int8, {}),
        ("MatMul", np.int32, {}),
        ("Sub", np.uint16, {}),
    ],
)
def test_small_integers_compute_as_in_their_own_type(ort, opset, op_type, dtype, attrs):
    builder = GraphBuilder(opset)
    elem_type = dtypes.from_numpy(dtype)
    for name in ("a", "b"):
        builder.make_tensor_input(name, elem_type, (3, 3))
    y = builder.make_node(op_type, ["a", "b"], ["y"], **attrs)
    builder.make_tensor_output(y)
    info = np.iinfo(dtype)
    a = np.random.randint(info.min, info.max, (3, 3)).astype(dtype)
    b = np.random.randint(1, 5, (3, 3)).astype(dtype)
    numpy_op = {
        "Mul": np.multiply,
        "Add": np.add,
        "Sub": np.subtract,
        "Div": lambda p, q: np.trunc(p.astype(np.float64) / q).astype(dtype),
        "Max": np.maximum,
        "Less": np.less,
        "Mod": np.mod,
        "MatMul": np.matmul,
    }[op_type]
    np.testing.assert_array_equal(ort(builder, {"a": a, "b": b})[0], numpy_op(a, b))


def test_a_small_constant_is_cast_when_the_graph_is_made():
    builder = make_builder(dtypes.bfloat16)
    one = builder.make_initializer("", np.ones(1, dtype=ml_dtypes.bfloat16))
    builder.make_node("Add", ["x", one])
    assert [n.op_type for n in builder.nodes] == ["Cast", "Add", "Cast"]
    assert builder.get_type(builder.nodes[1].inputs[1]) == dtypes.float32


def test_no_kernel_and_no_exact_cast_is_refused_for_onnxruntime_only():
    def reshape(**options):
        builder = GraphBuilder(18, **options)
        builder.make_tensor_input("x", dtypes.complex64, (2,))
        return builder.make_node("Reshape", ["x", builder.make_initializer("", [2, 1])])

    table = {"Reshape": ((14, ("T", 7), ("T",), {"T": (1, 14)}, ({"T": (1,)},)),)}
    assert reshape(kernel_table=table)
    with pytest.raises(KernelError, match="no kernel for Reshape with complex64, int64") as caught:
        reshape(kernel_table=table, target="onnxruntime")
    assert isinstance(caught.value, BuilderError)


@pytest.mark.parametrize("target", [None, "onnxruntime"])
def test_a_half_float_that_the_opset_does_not_allow_is_cast(target):
    builder = make_builder(dtypes.bfloat16, target=target)
    y = builder.make_node("Softplus", ["x"], ["y"])  # bfloat16 from opset 22 on
    assert [n.op_type for n in builder.nodes] == ["Cast", "Softplus", "Cast"]
    assert builder.get_type(y) == dtypes.bfloat16


def test_what_no_cast_helps_is_refused_with_what_onnx_allows():
    with pytest.raises(BuilderError, match="is bfloat16, ONNX allows"):
        make_builder(dtypes.bfloat16).make_node("BitwiseNot", ["x"])
    with pytest.raises(BuilderError, match="is bfloat16, ONNX allows"):
        make_builder(dtypes.bfloat16, kernel_table={}).make_node("Softplus", ["x"])
    mixed = make_builder(dtypes.bfloat16)
    mixed.make_tensor_input("z", dtypes.float32, ("n", 4))
    with pytest.raises(BuilderError, match="must have the same type"):
        mixed.make_node("PRelu", ["x", "z"])


def test_an_empty_kernel_table_casts_nothing():
    builder = make_builder(dtypes.bfloat16, kernel_table={})
    builder.make_node("Tanh", ["x"])
    assert [n.op_type for n in builder.nodes] == ["Tanh"]


def test_casts_carry_the_origin_of_their_node():
    builder = make_builder(dtypes.bfloat16)
    builder.origin = "node"
    builder.make_node("Tanh", ["x"])
    assert [n.origin for n in builder.nodes] == ["node"] * 3
