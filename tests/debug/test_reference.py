"""ExtendedReferenceEvaluator: onnx's evaluator plus the ONNX Runtime operators that ortable
emits."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from ortable import ExtendedReferenceEvaluator

SHAPES = {
    "FusedMatMul": ([(2, 4, 3), (2, 4, 5)], {"transA": 1, "alpha": 0.5}),
    "Gelu": ([(2, 3)], {}),
    "BiasGelu": ([(2, 3), (3,)], {}),
    "FastGelu": ([(2, 3), (3,)], {}),
    "QuickGelu": ([(2, 3)], {"alpha": 1.5}),
}


@pytest.mark.parametrize("op_type", SHAPES)
def test_contrib_operators_equal_onnxruntime(op_type):
    shapes, attributes = SHAPES[op_type]
    names = [f"x{i}" for i in range(len(shapes))]
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in zip(names, shapes, strict=True)
    ]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(op_type, names, ["y"], domain="com.microsoft", **attributes)
    model = helper.make_model(
        helper.make_graph([node], "g", infos, [out]),
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
        ir_version=9,
    )
    rng = np.random.default_rng(0)
    feeds = {
        n: rng.standard_normal(s).astype(np.float32) for n, s in zip(names, shapes, strict=True)
    }
    expected = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(None, feeds)[0]
    got = ExtendedReferenceEvaluator(model).run(None, feeds)[0]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, atol=1e-5)


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
