"""Data files of models: layout of weights, readable paths, and files that saving preserves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import ModelProto, TensorProto

from ortable import dtypes
from ortable.ir.proto import weight_files
from ortable.ir.proto.atomic_files import FileSet
from ortable.ir.proto.weight_files import (
    ALIGNMENT,
    PAGE,
    MappedFiles,
    Shards,
    TensorLocation,
    plan_shards,
    write_shards,
)

LARGE = (1 << 20) + 12  # bytes: not a multiple of 64, and large enough to start on a page


def make_arrays(*sizes: int) -> list[tuple[str, Any]]:
    """Return weights of the given sizes in bytes."""
    rng = np.random.default_rng(0)
    return [
        (f"w{index}", rng.integers(0, 256, size, dtype=np.uint8))
        for index, size in enumerate(sizes)
    ]


def write_weights(
    folder: Path, entries: Sequence[tuple[str, Any]], **options: Any
) -> dict[str, TensorLocation]:
    """Write weights beside a model and return their locations."""
    shards = plan_shards(entries, **options)
    with FileSet(folder / "m.onnx") as files:
        names = shards.file_names("m.onnx")
        locations = write_shards(files, shards, names, lambda done, total, name: None)
        files.publish(lambda renamed: b"")
    return locations


def external_tensor(location: TensorLocation, array: Any, name: str = "w") -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.UINT8, dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    weight_files.set_location(tensor, location)
    return tensor


@pytest.mark.parametrize(
    "sizes", [(1, 64, 65, 100, 3), (10, LARGE, 7, LARGE, 64), (LARGE, LARGE, 1)], ids=str
)
def test_weights_of_any_size_are_aligned_and_read_again(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    entries = make_arrays(*sizes)
    locations = write_weights(tmp_path, entries)
    mapped, end = MappedFiles(tmp_path), 0
    for name, array in entries:
        location = locations[name]
        assert location.offset % (PAGE if array.nbytes >= 1 << 20 else ALIGNMENT) == 0
        assert location.offset >= end and location.length == array.nbytes
        assert np.array_equal(mapped.read_tensor(external_tensor(location, array)), array)
        end = location.offset + location.length
    assert (tmp_path / "m.onnx.data").stat().st_size == end


# three large tensors fit into a file, but not with what aligns them to pages
@pytest.mark.parametrize(
    ("size", "limit", "file_count"), [(65, 3 * 128, 2), (LARGE, 3 * (LARGE + 64), 3)]
)
def test_a_file_of_a_shard_is_no_larger_than_it_may_be(
    tmp_path: Path, size: int, limit: int, file_count: int
) -> None:
    locations = write_weights(tmp_path, make_arrays(*[size] * 6), max_bytes=limit)
    files = sorted(tmp_path.glob("*.data"))
    assert len(files) == len({location.location for location in locations.values()}) == file_count
    assert all(file.stat().st_size <= limit for file in files)


def test_progress_ends_at_the_bytes_of_packed_elements(tmp_path: Path) -> None:
    array = np.zeros((5, 7), dtypes.to_numpy(dtypes.int4))
    calls: list[Any] = []
    with FileSet(tmp_path / "m.onnx") as files:
        shards = plan_shards([("w", array)])
        write_shards(files, shards, ["m.data"], lambda *call: calls.append(call))
        files.publish(lambda renamed: b"")
    done, total, _ = calls[-1]
    assert done == total == (tmp_path / "m.data").stat().st_size == 18


def test_files_whose_names_differ_in_capitals_only_get_numbers() -> None:
    shards = Shards([[("w", None)], [("W", None)]], {}, one_each=True)
    assert shards.file_names("m") == ["m.00001-of-00002.data", "m.00002-of-00002.data"]
    others = Shards([[("v", None)], [("W", None)]], {}, one_each=True)
    assert others.file_names("m") == ["m.v.data", "m.W.data"]


def test_one_memory_is_written_once(tmp_path: Path) -> None:
    weight = torch.arange(50, dtype=torch.uint8)
    locations = write_weights(tmp_path, [("a", weight), ("b", weight), ("c", weight.clone())])
    assert locations["a"] == locations["b"] != locations["c"]


def test_a_file_that_is_too_short_is_refused(tmp_path: Path) -> None:
    ((name, array),) = make_arrays(100)
    good = write_weights(tmp_path, [(name, array)])[name]
    for bad in (good._replace(length=101), good._replace(length=99), good._replace(offset=64)):
        with pytest.raises(weight_files.BuilderError, match="has 100 bytes"):
            MappedFiles(tmp_path).read_tensor(external_tensor(bad, array))


@pytest.mark.parametrize("location", ["../w.data", "below/../../w.data", "", "..\\w.data"])
def test_a_model_reads_its_own_folder_only(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.data").write_bytes(bytes(4))
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(weight_files.BuilderError, match="not in the folder of the model"):
        weight_files.safe_path(folder, location, "w")


def test_saving_again_removes_the_files_of_the_former_model_alone(tmp_path: Path) -> None:
    unrelated = [tmp_path / name for name in ("other.onnx.data", "m.onnx.notes.data", "x.data")]
    for path in unrelated:
        path.write_bytes(b"somebody's")
    entries = make_arrays(70, 80)
    old_locations = write_weights(tmp_path, entries, one_file=False)
    model = make_model(old_locations, entries)
    (tmp_path / "m.onnx").write_bytes(model)
    assert {loc.location for loc in old_locations.values()} == {"m.onnx.w0.data", "m.onnx.w1.data"}
    write_weights(tmp_path, entries)
    remaining = {path.name for path in tmp_path.iterdir()}
    assert remaining == {"m.onnx", "m.onnx.data", *(path.name for path in unrelated)}


def make_model(locations: dict[str, TensorLocation], entries: Sequence[tuple[str, Any]]) -> bytes:
    """Return a model that refers to its own files and to an unrelated one."""
    model = ModelProto(ir_version=8)
    model.graph.name = "m"
    for name, array in entries:
        model.graph.initializer.append(external_tensor(locations[name], array, name))
    unrelated = external_tensor(TensorLocation("x.data", 0, 10), np.zeros(10, np.uint8), "stranger")
    model.graph.initializer.append(unrelated)
    serialized: bytes = model.SerializeToString()
    return serialized
