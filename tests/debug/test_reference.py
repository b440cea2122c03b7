"""ExtendedReferenceEvaluator: onnx's evaluator plus ONNX Runtime operators that ortable emits."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import ortable
import ortable_generated
from ortable import ExtendedReferenceEvaluator

CONTRIB_OPERATORS = {
    "FusedMatMul": ([(2, 4, 3), (2, 4, 5)], {"transA": 1, "alpha": 0.5}),
    "Gelu": ([(2, 3)], {}),
    "BiasGelu": ([(2, 3), (3,)], {}),
    "FastGelu": ([(2, 3), (3,)], {}),
    "QuickGelu": ([(2, 3)], {"alpha": 1.5}),
}


def assert_equal_to_onnxruntime(node, feeds, outputs=("y",)):
    """Check that ONNX Runtime and the evaluator give equal results for a node."""
    in_infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    ]
    out_infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    model = helper.make_model(
        helper.make_graph([node], "g", in_infos, out_infos),
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
        ir_version=9,
    )
    expected = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(None, feeds)
    for a, b in zip(ExtendedReferenceEvaluator(model).run(None, feeds), expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=1e-5)


def randn(*shape):
    return np.random.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("op_type", CONTRIB_OPERATORS)
def test_contrib_operators_equal_onnxruntime(op_type):
    shapes, attributes = CONTRIB_OPERATORS[op_type]
    feeds = {f"x{i}": randn(*shape) for i, shape in enumerate(shapes)}
    node = helper.make_node(op_type, list(feeds), ["y"], domain="com.microsoft", **attributes)
    assert_equal_to_onnxruntime(node, feeds)


def find_contrib_operators(text):
    """Yield the operators of ONNX Runtime's domain of which the code of a module makes nodes."""
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call) and call.args:
            domains = [k.value for k in call.keywords if k.arg == "domain"]
            if domains and getattr(domains[0], "value", None) == "com.microsoft":
                yield call.args[0].value


def test_every_contrib_operator_of_the_converters_is_known():
    text = 'graph.make_node("QuickGelu", [f(x)], domain="com.microsoft", alpha=g(1))'
    assert list(find_contrib_operators(text)) == ["QuickGelu"]
    root = Path(ortable.__file__).parent
    generated = Path(ortable_generated.__file__).parent / "aten"
    folders = [generated, root / "lowerings", root / "prelude"]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(files) > 50
    texts = [text for text in (file.read_text() for file in files) if "com.microsoft" in text]
    emitted = {name for text in texts for name in find_contrib_operators(text)}
    known = {op.__name__ for op in ExtendedReferenceEvaluator.extra_ops}
    assert emitted <= known, f"add to ortable.debug.reference: {sorted(emitted - known)}"


CONV_TRANSPOSE = {
    "plain": ((2, 3, 4, 5), (3, 2, 3, 3), {}),
    "groups": ((1, 4, 5), (4, 3, 3), {"group": 2, "strides": [2], "pads": [1, 1]}),
    "one_channel": ((1, 1, 4, 4), (1, 2, 3, 2), {"strides": [2, 3], "output_padding": [1, 0]}),
    "dilated": ((1, 2, 3, 4, 3), (2, 1, 2, 2, 2), {"dilations": [1, 2, 1]}),
}


@pytest.mark.parametrize("name", CONV_TRANSPOSE)
def test_transposed_convolutions(name):
    x, w, attributes = CONV_TRANSPOSE[name]
    feeds = {"x": randn(*x), "w": randn(*w), "b": randn(w[1] * attributes.get("group", 1))}
    assert_equal_to_onnxruntime(
        helper.make_node("ConvTranspose", list(feeds), ["y"], **attributes), feeds
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_indices_smaller_than_the_data(axis):
    feeds = {"x": randn(4, 70, 3), "i": np.array([[[1, -1]], [[0, 2]]], dtype=np.int64)}
    assert_equal_to_onnxruntime(
        helper.make_node("GatherElements", ["x", "i"], ["y"], axis=axis), feeds
    )


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_negative_pads(mode):
    feeds = {"x": randn(4, 5), "p": np.array([-1, 2, 1, -2], dtype=np.int64)}
    if mode != "constant":
        feeds["p"] = np.array([1, 2, 1, 2], dtype=np.int64)
    assert_equal_to_onnxruntime(helper.make_node("Pad", ["x", "p"], ["y"], mode=mode), feeds)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_infinite_log_sums(keepdims):
    x = randn(4, 3)
    x[0], x[1, 1], x[2, 0] = -np.inf, np.inf, -np.inf
    feeds = {"x": x, "axes": np.array([1], dtype=np.int64)}
    evaluator = ExtendedReferenceEvaluator(
        helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=keepdims)
    )
    expected = torch.logsumexp(torch.from_numpy(x), 1, keepdim=bool(keepdims))
    np.testing.assert_allclose(evaluator.run(None, feeds)[0], expected.numpy(), rtol=1e-6)


def test_loop_without_condition_stacks_its_rounds():
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["still"]),
            helper.make_node("Add", ["state", "x"], ["next"]),
            helper.make_node("ReduceSum", ["next"], ["total"], keepdims=0),
            helper.make_node("Identity", ["next"], ["row"]),
        ],
        "body",
        [info("round", 7, []), info("going", 9, []), info("state", 1, [2, 3])],
        [info("still", 9, []), info("next", 1, [2, 3]), info("total", 1, []), info("row", 1, None)],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["last", "totals", "rows"], body=body)
    feeds = {"n": np.array(4, dtype=np.int64), "x": randn(2, 3)}
    assert_equal_to_onnxruntime(node, feeds, ("last", "totals", "rows"))


def test_one_node_at_a_time():
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Abs", ["n"], ["y"])]
    evaluator = ExtendedReferenceEvaluator(
        helper.make_model(helper.make_graph(nodes, "g", [x], [y]))
    )
    steps = evaluator.steps({"x": np.array([1, -2], dtype=np.float32)})
    node, values = next(steps)
    assert node.op_type == "Neg" and "y" not in values
    np.testing.assert_array_equal(values["n"], [-1, 2])
    node, values = next(steps)
    np.testing.assert_array_equal(values["y"], [1, 2])
    assert next(steps, None) is None


def test_it_is_a_reference_evaluator_and_prints_nodes(capsys):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    model = helper.make_model(
        helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    )
    evaluator = ExtendedReferenceEvaluator(model, verbose=2)
    assert isinstance(evaluator, ReferenceEvaluator)
    np.testing.assert_array_equal(
        evaluator.run(None, {"x": np.array([1, 2], dtype=np.float32)})[0], [-1, -2]
    )
    assert "Neg(x) -> y" in capsys.readouterr().out
