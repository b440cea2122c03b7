"""Checks of the private interfaces of onnx and onnxruntime, as checks_of_torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper

from ortable.compat import onnx as onnx_compat
from ortable.compat import onnxruntime as compat

Checks = dict[str, tuple[str, Callable[[], Any]]]


def _check_operator(base: type) -> Callable[[], Any]:
    return lambda: callable(base._run) and base.op_domain is not None


def _make_session() -> Any:
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString())


def _check_run_in_place() -> bool:
    """Check that ScatterElements writes into the memory of its input."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("ScatterElements", ["x", "i", "u"], ["y"])],
        "g",
        [value("x", 1, [3]), value("i", 7, [1]), value("u", 1, [1])],
        [value("y", 1, [3])],
    )
    opsets = [onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = torch.zeros(3)
    tensors = {"x": x, "i": torch.tensor([1]), "u": torch.ones(1)}
    feeds = {name: compat.ort_value(tensor) for name, tensor in tensors.items()}
    (result,) = compat.run_in_place(compat.bound_session(session), feeds, ["y"], {"y": "x"}, None)
    return x.tolist() == [0, 1, 0] and result.data_ptr() == x.data_ptr()


def _check_bound_session() -> bool:
    x = compat.ort_value(torch.ones(2))
    (result,) = compat.bound_session(_make_session()).run_with_ort_values({"x": x}, ["y"], None)
    values = compat.capi.OrtValueVector()
    values.push_back(x)
    fetched = compat.capi.OrtValueVector()
    compat.bound_session(_make_session()).run_with_ortvaluevector(
        compat.capi.RunOptions(), ["x"], values, ["y"], fetched, [compat.ort_device("cpu")]
    )
    return bool(result.numpy().tolist() == fetched[0].numpy().tolist() == [-1, -1])


def _check_tensor_at() -> bool:
    values = compat.capi.OrtValueVector()
    values.push_back(compat.ort_value(torch.ones(2)))
    return bool(compat.tensor_at(values, 0).tolist() == [1, 1])


def _check_ort_value() -> bool:
    dtypes = (torch.bool, torch.uint8, torch.float32, torch.bfloat16, torch.int64)
    types = [compat.ort_value(torch.ones(2, dtype=dtype)).data_type() for dtype in dtypes]
    return types == [f"tensor({t})" for t in ("bool", "uint8", "float", "bfloat16", "int64")]


def _evaluate_line(tensor: torch.Tensor, is_bool: bool) -> Any:
    """Evaluate the generated line that makes an OrtValue of a tensor."""
    scope = {
        "feed": compat.from_dlpack, "dlpack": torch._C._to_dlpack, "x": tensor,
        "as_bytes": lambda t: t.view(torch.uint8),
    }  # fmt: skip
    return eval(compat.dlpack_source("x", is_bool), scope)


def _check_dlpack_source() -> bool:
    bools, floats = torch.tensor([True, False]), torch.ones(2)
    return (
        _evaluate_line(bools, True).numpy().tolist() == [True, False]
        and _evaluate_line(floats, False).data_ptr() == floats.data_ptr()
        and _evaluate_line(bools.view(torch.uint8), False).data_type() == "tensor(uint8)"
    )


def _allocate_value() -> Any:
    device = compat.capi.OrtDevice(
        compat.capi.OrtDevice.cpu(), compat.capi.OrtDevice.default_memory(), 0
    )
    return compat.OrtValue.ortvalue_from_shape_and_onnx_type([2, 3], TensorProto.FLOAT, device)


def _check_loop_body() -> bool:
    """Check that a Loop of two rounds runs in the class that `debug` derives from onnx's."""
    from ortable.debug.reference_fixes import Loop

    assert issubclass(Loop, onnx_compat.OnnxLoop)
    scalar = [helper.make_tensor_value_info(n, TensorProto.FLOAT, []) for n in ("s", "t")]
    state = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    condition = helper.make_tensor_value_info("d", TensorProto.BOOL, [])
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "s"], ["t"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [*state, scalar[0]],
        [condition, scalar[1]],
    )
    node = helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, []) for n in ("x", "y")]
    count = helper.make_tensor("m", TensorProto.INT64, [], [2])
    graph = helper.make_graph([node], "g", values[:1], values[1:], [count])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    evaluator = onnx.reference.ReferenceEvaluator(model, new_ops=[Loop])
    (result,) = evaluator.run(None, {"x": np.float32(1)})
    return bool(result == 4)


CHECKS_OF_ONNX: Checks = {
    "OpRun": ("is a base of operators, with _run", _check_operator(onnx_compat.OpRun)),
    "OnnxConvTranspose": ("has _run", _check_operator(onnx_compat.OnnxConvTranspose)),
    "OnnxLoop": ("has _run", _check_operator(onnx_compat.OnnxLoop)),
    "run_loop_body": ("(inputs, attributes=, bindings=) runs the body of a Loop", _check_loop_body),
}
CHECKS_OF_ONNXRUNTIME: Checks = {
    "capi": (
        "has the classes for sessions over memory",
        lambda: all(
            hasattr(compat.capi, name)
            for name in (
                "OrtAllocatorType", "OrtDevice", "OrtMemType", "OrtMemoryInfo", "OrtValueVector",
                "create_and_register_allocator",
            )
        ),
    ),
    "OrtValue": (
        "is constructed from a shape and a type; has data_ptr, shape, data_type, to_dlpack",
        lambda: _allocate_value().shape() == [2, 3]
        and _allocate_value().data_ptr() != 0
        and torch.from_dlpack(_allocate_value().to_dlpack()).shape == (2, 3),
    ),
    "OrtDevice": ("takes a kind and an index", lambda: compat.ort_device("cpu") is not None),
    "ort_device": (
        "returns the C object for a torch device",
        lambda: isinstance(compat.ort_device("cpu"), compat.capi.OrtDevice),
    ),
    "bound_session": ("runs over OrtValues, and over vectors of them", _check_bound_session),
    "run_in_place": ("the result is in the memory of the input", _check_run_in_place),
    "register_arena": ("is true, also when called again", lambda: compat.register_arena()),
    "ort_value": ("shares the memory of a tensor and has its type", _check_ort_value),
    "dlpack_source": ("is a line that makes the same value", _check_dlpack_source),
    "tensor_over": (
        "returns a tensor over the memory of a public OrtValue",
        lambda: compat.tensor_over(
            onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))
        ).tolist()
        == [1, 1],
    ),
    "unwrap_ort_value": (
        "the C object of a public OrtValue",
        lambda: isinstance(
            compat.unwrap_ort_value(
                onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))
            ),
            compat.OrtValue,
        ),
    ),
    "tensor_at": ("the memory of a value in a vector", _check_tensor_at),
    "as_complex": (
        "views pairs as complex numbers, also without elements or strides",
        lambda: compat.as_complex(torch.ones(2, 2)).tolist() == [1 + 1j, 1 + 1j]
        and compat.as_complex(torch.ones(1).as_strided((0, 3, 2), (0, 0, 0))).shape == (0, 3),
    ),
}  # fmt: skip
