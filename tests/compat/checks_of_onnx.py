"""What ortable expects of each private interface of onnx and onnxruntime, as checks_of_torch."""

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


def _run_with(base: type) -> Callable[[], Any]:
    return lambda: callable(base._run) and base.op_domain is not None


def _session() -> Any:
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString())


def _in_memory_of() -> bool:
    """ScatterElements of an input into itself: rows change, and the memory does not."""
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
    given = {"x": x, "i": torch.tensor([1]), "u": torch.ones(1)}
    feeds = {name: compat.ort_value(tensor) for name, tensor in given.items()}
    (found,) = compat.run_in_place(compat.bound_session(session), feeds, ["y"], {"y": "x"}, None)
    return x.tolist() == [0, 1, 0] and found.data_ptr() == x.data_ptr()


def _bound_session() -> bool:
    x = compat.ort_value(torch.ones(2))
    (found,) = compat.bound_session(_session()).run_with_ort_values({"x": x}, ["y"], None)
    values = compat.capi.OrtValueVector()
    values.push_back(x)
    fetched = compat.capi.OrtValueVector()
    compat.bound_session(_session()).run_with_ortvaluevector(
        compat.capi.RunOptions(), ["x"], values, ["y"], fetched, [compat.ort_device("cpu")]
    )
    return bool(found.numpy().tolist() == fetched[0].numpy().tolist() == [-1, -1])


def _tensor_at() -> bool:
    values = compat.capi.OrtValueVector()
    values.push_back(compat.ort_value(torch.ones(2)))
    return bool(compat.tensor_at(values, 0).tolist() == [1, 1])


def _ort_value() -> bool:
    kinds = (torch.bool, torch.uint8, torch.float32, torch.bfloat16, torch.int64)
    found = [compat.ort_value(torch.ones(2, dtype=dtype)).data_type() for dtype in kinds]
    return found == [f"tensor({t})" for t in ("bool", "uint8", "float", "bfloat16", "int64")]


def _from_line(tensor: torch.Tensor, is_bool: bool) -> Any:
    """What the line of a call makes of a tensor."""
    scope = {
        "feed": compat.from_dlpack, "dlpack": torch._C._to_dlpack, "x": tensor,
        "as_bytes": lambda t: t.view(torch.uint8),
    }  # fmt: skip
    return eval(compat.dlpack_source("x", is_bool), scope)


def _dlpack_source() -> bool:
    bools, floats = torch.tensor([True, False]), torch.ones(2)
    return (
        _from_line(bools, True).numpy().tolist() == [True, False]
        and _from_line(floats, False).data_ptr() == floats.data_ptr()
        and _from_line(bools.view(torch.uint8), False).data_type() == "tensor(uint8)"
    )


def _of_shape() -> Any:
    where = compat.capi.OrtDevice(
        compat.capi.OrtDevice.cpu(), compat.capi.OrtDevice.default_memory(), 0
    )
    return compat.OrtValue.ortvalue_from_shape_and_onnx_type([2, 3], TensorProto.FLOAT, where)


def _loop_body() -> bool:
    """A Loop of two rounds that adds one, through the class that `debug` derives from onnx's."""
    from ortable.debug.reference_fixes import Loop

    assert issubclass(Loop, onnx_compat.OnnxLoop)
    scalar = [helper.make_tensor_value_info(n, TensorProto.FLOAT, []) for n in ("s", "t")]
    state = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    going = helper.make_tensor_value_info("d", TensorProto.BOOL, [])
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "s"], ["t"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [*state, scalar[0]],
        [going, scalar[1]],
    )
    node = helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, []) for n in ("x", "y")]
    rounds = helper.make_tensor("m", TensorProto.INT64, [], [2])
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [rounds])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    evaluator = onnx.reference.ReferenceEvaluator(model, new_ops=[Loop])
    (found,) = evaluator.run(None, {"x": np.float32(1)})
    return bool(found == 4)


CHECKS_OF_ONNX: Checks = {
    "OpRun": ("a base of operators, with _run", _run_with(onnx_compat.OpRun)),
    "OnnxConvTranspose": ("an operator, with _run", _run_with(onnx_compat.OnnxConvTranspose)),
    "OnnxLoop": ("an operator, with _run", _run_with(onnx_compat.OnnxLoop)),
    "run_loop_body": ("(inputs, attributes=, bindings=) runs the body of a Loop", _loop_body),
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
        "made of a shape and a type; has data_ptr, shape, data_type, to_dlpack",
        lambda: _of_shape().shape() == [2, 3]
        and _of_shape().data_ptr() != 0
        and torch.from_dlpack(_of_shape().to_dlpack()).shape == (2, 3),
    ),
    "OrtDevice": ("made of a kind and an index", lambda: compat.ort_device("cpu") is not None),
    "ort_device": (
        "the C object for a device of torch",
        lambda: isinstance(compat.ort_device("cpu"), compat.capi.OrtDevice),
    ),
    "bound_session": ("runs over OrtValues, and over vectors of them", _bound_session),
    "run_in_place": ("the result lies where the input does", _in_memory_of),
    "register_arena": ("true, also where one is registered", lambda: compat.register_arena()),
    "ort_value": ("over the memory of a tensor, with its type", _ort_value),
    "dlpack_source": ("a line that makes the same", _dlpack_source),
    "tensor_over": (
        "the memory of a public OrtValue",
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
    "tensor_at": ("the memory of a value in a vector", _tensor_at),
    "as_complex": (
        "complex numbers of pairs, also of none without strides",
        lambda: compat.as_complex(torch.ones(2, 2)).tolist() == [1 + 1j, 1 + 1j]
        and compat.as_complex(torch.ones(1).as_strided((0, 3, 2), (0, 0, 0))).shape == (0, 3),
    ),
}  # fmt: skip
