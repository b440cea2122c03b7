"""uint8 x int8 products, which overflow without VNNI, become uint8 x uint8 products."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import reference

from ortable import GraphBuilder, dtypes
from ortable.passes.qdq import arrange_quantized

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 256, (4, 6)).astype(np.uint8)
WEIGHT = RNG.integers(-128, 128, (6, 5)).astype(np.int8)


def add_product(
    builder: GraphBuilder, weight: str, op_type: str = "MatMul", zero: str = ""
) -> None:
    """Dequantize the input x and a weight, and output their product as y."""
    scale = builder.make_initializer("", np.float32(0.5))
    x = builder.op.DequantizeLinear("x", scale, builder.make_initializer("", np.uint8(3)))
    factors = builder.make_initializer("", np.linspace(0.1, 1, 5, dtype=np.float32))
    inputs = [weight, factors, zero] if zero else [weight, factors]
    w = builder.op.DequantizeLinear(*inputs, axis=0 if op_type == "Conv" else 1)
    builder.make_tensor_output(getattr(builder.op, op_type)(x, w, outputs=["y"]))


def check_arrange_quantized(
    builder: GraphBuilder, feeds: dict[str, np.ndarray], ort
) -> dict[str, np.dtype]:
    """Run the pass, compare results with onnx.reference and return the dtypes of the codes."""
    expected = reference.ReferenceEvaluator(builder.to_onnx(optimize=False)).run(None, feeds)
    assert arrange_quantized(builder) == 1
    onnx.checker.check_model(builder.to_onnx(optimize=False), full_check=True)
    np.testing.assert_allclose(ort(builder, feeds)[0], expected[0], rtol=1e-5, atol=1e-4)
    nodes = [node for node in builder.nodes if node.op_type == "DequantizeLinear"]
    code_dtypes = {name: builder.get_type(name) for node in nodes for name in node.inputs[::2]}
    assert set(code_dtypes.values()) == {dtypes.uint8}
    return code_dtypes


@pytest.fixture
def gr() -> GraphBuilder:
    builder = GraphBuilder(21)
    builder.make_tensor_input("x", dtypes.uint8, ("n", 6))
    return builder


@pytest.mark.parametrize("op_type", ["MatMul", "Gemm"])
@pytest.mark.parametrize("zero", [False, True])
def test_a_constant_weight_becomes_unsigned(gr: GraphBuilder, op_type: str, zero: bool, ort):
    zeros = np.array([-128, 127, 0, 5, -1], np.int8)
    add_product(
        gr,
        gr.make_initializer("w", WEIGHT),
        op_type,
        gr.make_initializer("", zeros) if zero else "",
    )
    check_arrange_quantized(gr, {"x": CODES}, ort)
    assert [n.op_type for n in gr.nodes] == ["DequantizeLinear", "DequantizeLinear", op_type]


def test_a_weight_that_is_an_input_is_moved_by_nodes(gr: GraphBuilder, ort):
    gr.make_tensor_input("w", dtypes.int8, (6, 5))
    add_product(gr, "w")
    check_arrange_quantized(gr, {"x": CODES, "w": WEIGHT}, ort)
    assert [n.op_type for n in gr.nodes].count("BitwiseXor") == 1


def test_the_weight_of_a_convolution(ort):
    gr = GraphBuilder(21)
    gr.make_tensor_input("x", dtypes.uint8, (1, 3, 7, 7))
    weight = RNG.integers(-128, 128, (5, 3, 3, 3)).astype(np.int8)
    add_product(
        gr, gr.make_initializer("w", weight), "Conv", gr.make_initializer("", np.zeros(5, np.int8))
    )
    check_arrange_quantized(gr, {"x": RNG.integers(0, 256, (1, 3, 7, 7)).astype(np.uint8)}, ort)


def test_a_weight_behind_a_transposition(gr: GraphBuilder, ort):
    scale = gr.make_initializer("", np.float32(0.5))
    x = gr.op.DequantizeLinear("x", scale, gr.make_initializer("", np.uint8(3)))
    w = gr.op.DequantizeLinear(gr.make_initializer("w", WEIGHT.T.copy()), scale)
    gr.make_tensor_output(gr.op.MatMul(x, gr.op.Transpose(w, perm=[1, 0]), outputs=["y"]))
    check_arrange_quantized(gr, {"x": CODES}, ort)


def test_a_weight_of_float_activations_stays_int8():
    gr = GraphBuilder(21)
    gr.make_tensor_input("x", dtypes.float32, ("n", 6))
    weight, scale = gr.make_initializer("w", WEIGHT), gr.make_initializer("", np.float32(0.5))
    gr.make_tensor_output(gr.op.MatMul("x", gr.op.DequantizeLinear(weight, scale), outputs=["y"]))
    assert arrange_quantized(gr) == 0
    assert gr.get_type(gr.nodes[0].inputs[0]) == dtypes.int8


def test_a_weight_of_the_graph_around_stays_as_it_is(gr: GraphBuilder):
    """The outer graph may have other readers, and a branch has no initializers."""
    scale = gr.make_initializer("", np.float32(0.5))
    weight = gr.op.DequantizeLinear(gr.make_initializer("w", WEIGHT), scale)
    branch = gr.subgraph("then")
    x = branch.op.DequantizeLinear("x", scale, gr.make_initializer("", np.uint8(3)))
    branch.make_tensor_output(branch.op.MatMul(x, weight, outputs=["y"]))
    assert arrange_quantized(branch) == 0
    assert gr.get_type(gr.nodes[0].inputs[0]) == dtypes.int8


def test_rows_that_are_an_output_too_are_left_alone(gr: GraphBuilder, ort):
    """The Reshape must not move behind QuantizeLinear, which would remove the float output."""
    scale, weight = gr.make_initializer("", np.float32(0.5)), gr.make_initializer("w", WEIGHT)
    x = gr.op.DequantizeLinear("x", scale, gr.make_initializer("", np.uint8(3)))
    product = gr.op.Gemm(x, gr.op.DequantizeLinear(weight, scale))
    rows = gr.op.Reshape(product, np.array([-1], np.int64), outputs=["rows"])
    zero = gr.make_initializer("", np.uint8(9))
    gr.make_tensor_output(rows)
    gr.make_tensor_output(gr.op.QuantizeLinear(rows, scale, zero, outputs=["codes"]))
    expected = reference.ReferenceEvaluator(gr.to_onnx(optimize=False)).run(None, {"x": CODES})
    arrange_quantized(gr)
    onnx.checker.check_model(gr.to_onnx(optimize=False), full_check=True)
    for result, expected_result in zip(ort(gr, {"x": CODES}), expected, strict=True):
        np.testing.assert_allclose(result, expected_result, rtol=1e-5, atol=1e-4)


def test_codes_that_are_an_output_too_stay_as_they_are():
    gr = GraphBuilder(21)
    gr.make_tensor_input("x", dtypes.float32, ("n", 6))
    scale, zero = gr.make_initializer("", np.float32(0.5)), gr.make_initializer("", np.int8(0))
    codes = gr.op.QuantizeLinear("x", scale, zero, outputs=["codes"])
    gr.make_tensor_output(codes)
    gr.make_tensor_output(gr.op.DequantizeLinear(codes, scale, zero, outputs=["y"]))
    assert arrange_quantized(gr) == 0
    assert gr.get_type("codes") == dtypes.int8


@pytest.mark.parametrize("opset", [20, 21])
@pytest.mark.parametrize("op_type", ["Transpose", "Slice", "MaxPool", "Neg"])
def test_int8_codes_of_an_input_become_unsigned_where_they_are_moved(op_type, opset, ort):
    """From opset 21 on, ONNX Runtime loads no model that moves them."""
    gr = GraphBuilder(opset)
    gr.make_tensor_input("codes", dtypes.int8, (1, 2, 6))
    scale, zero = gr.make_initializer("", np.float32(0.5)), gr.make_initializer("", np.int8(-7))
    x = gr.op.DequantizeLinear("codes", scale, zero)
    operands = {"Slice": [x, *(gr.make_initializer("", np.array([at])) for at in (0, 1))]}
    attrs = {"kernel_shape": [2]} if op_type == "MaxPool" else {}
    moved = gr.make_node(op_type, operands.get(op_type, [x]), **attrs)
    gr.make_tensor_output(gr.op.Abs(moved))
    assert arrange_quantized(gr) == (opset >= 21 and op_type != "Neg")
    codes = RNG.integers(-128, 128, (1, 2, 6)).astype(np.int8)
    (result,) = ort(gr, {"codes": codes})
    numbers = (codes.astype(np.float32) + 7) * 0.5
    expected = {
        "Transpose": numbers.transpose(),
        "Slice": numbers,
        "MaxPool": np.maximum(numbers[..., :-1], numbers[..., 1:]),
        "Neg": numbers,
    }[op_type]
    np.testing.assert_array_equal(result, np.abs(expected))
