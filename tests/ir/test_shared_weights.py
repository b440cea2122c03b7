"""Models saved together share a data file, in which equal tensors are stored once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from ortable.builder import LargeModel
from ortable.ir.proto.large_model import save_with_shared_data


def model(tensors: dict[str, np.ndarray]) -> LargeModel:
    """Return a model that adds each tensor to its input in turn."""
    names = ["x", *(f"sum_{name}" for name in tensors)]
    nodes = [
        helper.make_node("Add", [previous, name], [next_name])
        for previous, name, next_name in zip(names, tensors, names[1:], strict=False)
    ]
    values = [helper.make_tensor_value_info(name, 1, [64]) for name in (names[0], names[-1])]
    weights = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    graph = helper.make_graph(nodes, "sums", values[:1], values[1:], weights)
    opsets = [helper.make_opsetid("", 18)]
    return LargeModel.of_proto(helper.make_model(graph, opset_imports=opsets), 1)


def test_equal_bytes_are_written_once(tmp_path: Path) -> None:
    ones, twos = np.ones(64, np.float32), np.full(64, 2, np.float32)
    models = {"a.onnx": model({"w": ones, "v": twos}), "b.onnx": model({"u": twos.copy()})}
    models["c.onnx"] = model({"w": np.full(64, 3, np.float32)})  # the same name as in a.onnx
    save_with_shared_data(models, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.onnx", "a.onnx.data", "b.onnx", "c.onnx"
    ]  # fmt: skip
    assert (tmp_path / "a.onnx.data").stat().st_size == 3 * ones.nbytes
    for name, expected in (("a.onnx", [1, 2]), ("b.onnx", [2]), ("c.onnx", [3])):
        initializers = onnx.load(tmp_path / name).graph.initializer
        assert [numpy_helper.to_array(tensor)[5] for tensor in initializers] == expected


def test_tensors_of_torch_and_of_one_memory(tmp_path: Path) -> None:
    weight = torch.arange(64.0)
    first = model({"w": np.zeros(64, np.float32)})
    first.tensors["w"] = weight
    second = model({"w": np.zeros(64, np.float32)})
    second.tensors["w"] = weight.view(64)
    save_with_shared_data({"a.onnx": first, "b.onnx": second}, tmp_path)
    assert (tmp_path / "a.onnx.data").stat().st_size == weight.nbytes
    for name in ("a.onnx", "b.onnx"):
        (initializer,) = onnx.load(tmp_path / name).graph.initializer
        assert np.array_equal(numpy_helper.to_array(initializer), weight.numpy())
