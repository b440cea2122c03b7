"""Writing of weights of every memory layout and dtype to files."""

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


def load_locations(path: Path) -> dict[str, dict[str, str]]:
    graph = onnx.load(path, load_external_data=False).graph
    return {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in graph.initializer
        if tensor.data_location == TensorProto.EXTERNAL
    }


def _make_layouts() -> dict[str, Any]:
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
    values = _make_layouts()
    builder = GraphBuilder(21)
    for name, value in values.items():
        builder.make_initializer(name, value)
        builder.make_tensor_output(builder.make_node("Identity", [name]))
    path = tmp_path / "m.onnx"
    builder.to_onnx(large_model=True, external_threshold=0, optimize=False).save(path)
    assert set(load_locations(path)) == set(values)
    written = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    mapped = LargeModel.load(path).tensors
    for name, value in values.items():
        expected = ortable.ir.initializers.to_numpy(value, name)
        for result in (written[name], mapped[name]):
            assert result.dtype == expected.dtype.newbyteorder("=")
            assert result.shape == expected.shape
            as_bytes = expected.astype(expected.dtype.newbyteorder("=")).tobytes()
            assert result.tobytes() == as_bytes, name


def test_pieces_of_another_layout_are_small() -> None:
    tensor = torch.arange(3_000_000.0).reshape(1000, 3000).t()
    chunks = list(weight_files.iter_chunks(tensor, "w"))
    assert max(chunk.nbytes for chunk in chunks) <= weight_files.CHUNK_BYTES
    assert b"".join(chunks) == tensor.numpy().tobytes()
    (single_chunk,) = weight_files.iter_chunks(tensor.t(), "w")
    assert np.shares_memory(np.frombuffer(single_chunk, np.uint8), tensor.t().numpy())


def test_large_tensors_begin_on_a_page(tmp_path) -> None:
    builder = GraphBuilder(18)
    for name, size in (("a", 300), ("b", 300_000), ("c", 5), ("d", 300_000)):
        builder.make_initializer(name, torch.rand(size))
        builder.make_tensor_output(builder.make_node("Identity", [name]))
    path = tmp_path / "m.onnx"
    builder.to_onnx(large_model=True, external_threshold=4, optimize=False).save(path)
    offsets = {name: int(location["offset"]) for name, location in load_locations(path).items()}
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
    locations = load_locations(path)
    assert locations["a"] == locations["b"] == locations["t"]
    assert (tmp_path / "m.onnx.data").stat().st_size == 4000
    large = LargeModel.load(path)
    assert large.tensors["a"] is large.tensors["b"]


def test_weights_on_another_device_come_in_pieces() -> None:
    copied_sizes: list[int] = []

    class Remote(torch.Tensor):
        """A stand-in for a tensor on an accelerator, which must be copied to the CPU."""

        @property
        def device(self) -> torch.device:  # type: ignore[override]
            return torch.device("cuda")

        def cpu(self) -> torch.Tensor:  # type: ignore[override]
            copied_sizes.append(self.nbytes)
            return self.as_subclass(torch.Tensor)

    tensor = torch.arange(1_500_000.0).reshape(3, 500_000)
    written = b"".join(weight_files.iter_chunks(tensor.as_subclass(Remote), "w"))
    assert written == tensor.numpy().tobytes()
    assert max(copied_sizes) <= weight_files.CHUNK_BYTES
    assert sum(copied_sizes) == tensor.nbytes


@pytest.mark.parametrize("size", [(2, 3), (40, 50)])
@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float16, torch.int8, torch.float32]
)
def test_values_are_torch_tensors_again(dtype: torch.dtype, size: tuple[int, int]) -> None:
    """Arrays and protos, also of dtypes that numpy lacks, convert to tensors of a new memory."""
    tensor = torch.randn(size).mul(20).to(dtype)
    array = ortable.ir.initializers.to_numpy(tensor, "w")
    array.flags.writeable = False
    builder = GraphBuilder(21)
    builder.make_initializer("w", array)
    builder.make_tensor_output(builder.make_node("Identity", ["w"]))
    (initializer,) = builder.to_onnx(optimize=False).graph.initializer
    for value in (tensor, array, array.T.copy().T, initializer):
        result = ortable.ir.initializers.to_torch(value, "w")
        assert result.dtype == dtype and result.shape == tensor.shape
        assert torch.equal(result.float(), tensor.float())
    assert ortable.ir.initializers.to_torch(tensor) is tensor


def test_an_empty_constant_of_one_dimension_has_no_raw_data():
    # OpenVINO reads raw data without bytes as a scalar, and no data in more dimensions as an input
    for shape, has_raw_data in (((0,), False), ((0, 2), True), ((1,), True)):
        builder = GraphBuilder(18)
        builder.make_initializer("w", np.zeros(shape, np.int64))
        builder.make_tensor_output(builder.make_node("Identity", ["w"]))
        (tensor,) = builder.to_onnx(optimize=False).graph.initializer
        assert tensor.HasField("raw_data") == has_raw_data
        assert numpy_helper.to_array(tensor).shape == shape
