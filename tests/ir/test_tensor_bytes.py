"""Weights of every layout and type on their way to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, numpy_helper

import ortable
from ortable import GraphBuilder, LargeModel
from ortable.ir.proto import weight_files


def places(path: Path) -> dict[str, dict[str, str]]:
    graph = onnx.load(path, load_external_data=False).graph
    return {
        t.name: {entry.key: entry.value for entry in t.external_data}
        for t in graph.initializer
        if t.data_location == TensorProto.EXTERNAL
    }


def _layouts() -> dict[str, Any]:
    base = torch.arange(6000, dtype=torch.float32).reshape(60, 100) / 7
    half = ml_dtypes.int4
    return {
        "transposed": base.t(),
        "expanded": base[:, :1].expand(60, 50),
        "strided": base[::2, ::3],
        "permuted": base.reshape(3, 20, 100).permute(2, 0, 1),
        "bfloat16": base.to(torch.bfloat16).t(),
        "float16": base.half(),
        "float8": (base / 10).to(torch.float8_e4m3fn).t(),
        "conj": torch.complex(base, -base).conj().t(),
        "neg": torch.complex(base, -base).conj().imag,
        "bool": (base > 100).t(),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 5),
        "long_rows": base.reshape(2, 3000).flip(0).t().t()[:, ::2],
        "numpy_transposed": base.numpy().T,
        "big_endian": base.numpy().astype(">f4"),
        "broadcast": np.broadcast_to(np.arange(3.0), (200, 3)),
        "int4": (np.arange(1001) % 15 - 7).astype(half),
        "int4_strided": (np.arange(2000) % 15 - 7).astype(half).reshape(40, 50)[:, ::2],
        "proto": numpy_helper.from_array(base.numpy(), "other"),
        "proto_floats": onnx.helper.make_tensor("p", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]),
    }


@pytest.mark.parametrize("size", [64, 1 << 20])
def test_every_layout_and_type_arrives(tmp_path, monkeypatch, size) -> None:
    monkeypatch.setattr(weight_files, "CHUNK_BYTES", size)
    values = _layouts()
    builder = GraphBuilder(21)
    for name, value in values.items():
        builder.make_initializer(name, value)
        builder.make_tensor_output(builder.make_node("Identity", [name]))
    path = tmp_path / "m.onnx"
    builder.to_onnx(large_model=True, external_threshold=0, optimize=False).save(path)
    assert set(places(path)) == set(values)
    written = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    mapped = LargeModel.load(path).tensors
    for name, value in values.items():
        expected = ortable.ir.initializers.to_numpy(value, name)
        for got in (written[name], mapped[name]):
            assert got.dtype == expected.dtype.newbyteorder("=")
            assert got.shape == expected.shape
            as_bytes = expected.astype(expected.dtype.newbyteorder("=")).tobytes()
            assert got.tobytes() == as_bytes, name


def test_pieces_of_another_layout_are_small() -> None:
    tensor = torch.arange(3_000_000.0).reshape(1000, 3000).t()
    found = list(weight_files.iter_chunks(tensor, "w"))
    assert max(piece.nbytes for piece in found) <= weight_files.CHUNK_BYTES
    assert b"".join(found) == tensor.numpy().tobytes()
    (whole,) = weight_files.iter_chunks(tensor.t(), "w")
    assert np.shares_memory(np.frombuffer(whole, np.uint8), tensor.t().numpy())


def test_large_tensors_begin_on_a_page(tmp_path) -> None:
    builder = GraphBuilder(18)
    for name, size in (("a", 300), ("b", 300_000), ("c", 5), ("d", 300_000)):
        builder.make_initializer(name, torch.rand(size))
        builder.make_tensor_output(builder.make_node("Identity", [name]))
    path = tmp_path / "m.onnx"
    builder.to_onnx(large_model=True, external_threshold=4, optimize=False).save(path)
    offsets = {name: int(place["offset"]) for name, place in places(path).items()}
    assert offsets["a"] == 0
    assert offsets["b"] % 65536 == offsets["d"] % 65536 == 0
    assert offsets["c"] % 64 == 0


def test_the_same_memory_is_written_once(tmp_path) -> None:
    weight = torch.rand(100, 10)
    builder = GraphBuilder(18)
    for name in ("a", "b", "t"):
        builder.make_initializer(name, torch.rand(100, 10))
        builder.make_tensor_output(builder.make_node("Identity", [name]))
    large = builder.to_onnx(large_model=True, optimize=False)
    large.tensors.update(a=weight, b=weight.detach(), t=weight.view(100, 10))
    path = tmp_path / "m.onnx"
    large.save(path)
    found = places(path)
    assert found["a"] == found["b"] == found["t"]
    assert (tmp_path / "m.onnx.data").stat().st_size == 4000
    large = LargeModel.load(path)
    assert large.tensors["a"] is large.tensors["b"]


def test_weights_on_another_device_come_in_pieces() -> None:
    moved: list[int] = []

    class Remote(torch.Tensor):
        """Stands for a tensor on an accelerator: it says so, and must be moved to be read."""

        @property
        def device(self) -> torch.device:  # type: ignore[override]
            return torch.device("cuda")

        def cpu(self) -> torch.Tensor:  # type: ignore[override]
            moved.append(self.nbytes)
            return self.as_subclass(torch.Tensor)

    tensor = torch.arange(1_500_000.0).reshape(3, 500_000)
    found = b"".join(weight_files.iter_chunks(tensor.as_subclass(Remote), "w"))
    assert found == tensor.numpy().tobytes()
    assert max(moved) <= weight_files.CHUNK_BYTES
    assert sum(moved) == tensor.nbytes


@pytest.mark.parametrize("size", [(2, 3), (40, 50)])
@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float16, torch.int8, torch.float32]
)
def test_values_are_torch_tensors_again(dtype: torch.dtype, size: tuple[int, int]) -> None:
    """Arrays and protos, those that numpy has no type for too, in memory of their own."""
    tensor = torch.randn(size).mul(20).to(dtype)
    array = ortable.ir.initializers.to_numpy(tensor, "w")
    array.flags.writeable = False
    proto = GraphBuilder(21)
    proto.make_initializer("w", array)
    proto.make_tensor_output(proto.make_node("Identity", ["w"]))
    (stored,) = proto.to_onnx(optimize=False).graph.initializer
    for value in (tensor, array, array.T.copy().T, stored):
        found = ortable.ir.initializers.to_torch(value, "w")
        assert found.dtype == dtype and found.shape == tensor.shape
        assert torch.equal(found.float(), tensor.float())
    assert ortable.ir.initializers.to_torch(tensor) is tensor
