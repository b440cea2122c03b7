"""Large models: weights are written to one or several data files without a copy in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, numpy_helper

from ortable import GraphBuilder, LargeModel, dtypes, to_onnx
from ortable.errors import BuilderError, OptionError
from ortable.ir.proto import write_model

from .helpers import assert_close, assert_same, eager, run_onnx

ROOT = Path(__file__).resolve().parents[2]


class Stack(torch.nn.Module):
    """Layers with transposed, expanded and tied weights."""

    def __init__(self, fill: float = 0.0) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 32)
        self.first, self.second = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)
        self.second.weight = torch.nn.Parameter(torch.rand(32, 32).t() + fill)
        self.register_buffer("shift", torch.rand(32).expand(32, 32))
        self.head = torch.nn.Linear(32, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.first(self.embedding(x)))
        return self.head(self.second(y) @ self.shift)


X = (torch.tensor([[1, 2, 3], [4, 5, 49]]),)


def list_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def initializer_name(model: onnx.ModelProto, path: str) -> str:
    """Return the name of the initializer that holds the weight ``path`` of the state_dict."""
    return next(t.name for t in model.graph.initializer if t.doc_string == path)


def external_entries(path: Path) -> dict[str, dict[str, str]]:
    """Return the external data entries of a model file by state_dict name."""
    graph = onnx.load(path, load_external_data=False).graph
    return {
        t.doc_string: {entry.key: entry.value for entry in t.external_data}
        for t in graph.initializer
        if t.data_location == TensorProto.EXTERNAL
    }


@pytest.mark.slow  # 300 MB
def test_the_export_takes_less_than_a_tenth_of_the_weights() -> None:
    command = [sys.executable, "-m", "benchmarks.large_model", "--json"]
    path = os.pathsep.join(str(ROOT / part) for part in ("runtime", "generated"))
    process = subprocess.run(
        [*command, "--megabytes", "300", "--width", "2048"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.returncode == 0, process.stderr[-3000:]
    report = json.loads(process.stdout.splitlines()[-1])
    assert report["weights"] > 290e6
    assert report["extra"] < 0.1 * report["weights"], report
    assert report["difference"] < 1e-5
    assert report["files"] == 2


@pytest.mark.parametrize(
    ("options", "data"),
    [
        ({}, ["model.onnx.data"]),
        ({"max_shard_bytes": 5000}, [f"model.onnx.0000{i}-of-00004.data" for i in (1, 2, 3, 4)]),
        (
            {"all_tensors_to_one_file": False},
            None,  # one file for each tensor, named after it
        ),
    ],
)
def test_one_file_or_many(tmp_path, options, data) -> None:
    module, path = Stack(), tmp_path / "model.onnx"
    large = to_onnx(module, X, large_model=True, validate=True)
    assert isinstance(large.tensors[initializer_name(large.proto, "first.weight")], torch.Tensor)
    data = data or [f"model.onnx.{name}.data" for name in large.tensors]
    assert len(large.tensors) == 4  # tied weights are one
    large.save(path, **options)
    assert list_files(tmp_path) == sorted(["model.onnx", *data])
    onnx.checker.check_model(path, full_check=True)
    assert_close(run_onnx(path, {"x": X[0].numpy()}), eager(module, X))
    entries = external_entries(path)
    assert {entry["location"] for entry in entries.values()} == set(data)
    for entry in entries.values():
        assert int(entry["offset"]) % 64 == 0
    proto = large.to_proto()
    assert_same(proto, module, X)
    loaded = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    for tensor in proto.graph.initializer:
        np.testing.assert_array_equal(loaded[tensor.name], numpy_helper.to_array(tensor))


def test_branches_and_functions_keep_their_constants_outside(tmp_path) -> None:
    weight, other = torch.rand(16, 16), torch.rand(16, 16)
    inner = GraphBuilder(18)
    inner.make_tensor_input("a", dtypes.float32, ("n", 16))
    inner.make_initializer("w", weight)
    inner.make_tensor_output(inner.op.MatMul("a", "w", outputs=["r"]))
    builder = GraphBuilder(18)
    builder.add_function(inner.to_function("times", "mine", external_threshold=100))
    builder.function_tensors.update(inner.function_tensors)
    builder.make_tensor_input("x", dtypes.float32, ("n", 16))
    then, orelse = builder.subgraph("then"), builder.subgraph("else")
    for branch, value in ((then, other), (orelse, other.t())):
        branch.make_tensor_output(branch.op.MatMul("x", branch.make_initializer("v", value)))
    cond = builder.op.Greater(builder.op.ReduceSum("x", keepdims=0), np.float32(0))
    product = builder.op.If(cond, then_branch=then, else_branch=orelse)
    builder.make_node("times", [product], ["y"], domain="mine")
    builder.make_tensor_output("y", dtypes.float32, ("n", 16))
    large = builder.to_onnx(large_model=True, external_threshold=100, optimize=False)
    assert not large.tensors
    assert any(value is weight for value in large.nested.values())
    assert len(large.proto.SerializeToString()) < 1500
    path = tmp_path / "m.onnx"
    large.save(path)
    onnx.checker.check_model(path)
    assert path.stat().st_size < 1500
    reloaded = LargeModel.load(path)
    assert len(reloaded.nested) == 3
    reloaded.save(tmp_path / "again.onnx")
    x = torch.rand(3, 16)
    small = builder.to_onnx(optimize=False)
    models = [path, small, large.to_proto(), large.session_proto(), tmp_path / "again.onnx"]
    for sign, value in ((1, other), (-1, other.t())):
        expected = [(sign * x) @ value @ weight]
        for model in models:
            assert_close(run_onnx(model, {"x": (sign * x).numpy()}), expected)
    inlined = builder.to_onnx(large_model=True, external_threshold=100, inline=True)
    assert not inlined.proto.functions
    inlined.save(path)
    assert_close(run_onnx(path, {"x": x.numpy()}), [x @ other @ weight])


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(40, 40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class Conditional(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.other = Scaled(), torch.nn.Parameter(torch.rand(40, 40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        return torch.cond(y.sum() > 0, lambda y: y @ self.other, lambda y: y - 1, (y,))


@pytest.mark.parametrize("functions", [False, True])
def test_exported_branches_and_functions(tmp_path, functions) -> None:
    module, x = Conditional(), torch.rand(3, 40)
    if functions:
        module = torch.nn.Sequential(Scaled(), torch.nn.ReLU(), Scaled())
    path = tmp_path / "m.onnx"
    to_onnx(
        module,
        (x,),
        large_model=True,
        export_modules_as_functions=functions,
        filename=path,
        validate=True,
    )
    assert list_files(tmp_path) == ["m.onnx", "m.onnx.data"]
    assert (tmp_path / "m.onnx.data").stat().st_size >= 2 * 6400
    assert path.stat().st_size < 10_000
    onnx.checker.check_model(path)
    for example in (x, -x):
        name = onnx.load(path, load_external_data=False).graph.input[0].name
        assert_close(run_onnx(path, {name: example.numpy()}), eager(module, (example,)))


def test_above_two_gigabytes_weights_go_beside_the_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(write_model, "PROTO_LIMIT", 10_000)
    module, path = Stack(), tmp_path / "model.onnx"
    model, builder = to_onnx(module, X, filename=path, return_builder=True)
    assert isinstance(model, LargeModel)
    assert list_files(tmp_path) == ["model.onnx", "model.onnx.data"]
    assert any("written beside the model" in step for step in builder.record.steps)
    assert_close(run_onnx(path, {"x": X[0].numpy()}), eager(module, X))
    with pytest.raises(BuilderError, match=r"large_model=True\), whose result has save"):
        to_onnx(module, X)
    monkeypatch.setattr(write_model, "PROTO_LIMIT", 10_000_000)
    assert isinstance(to_onnx(module, X, filename=path), onnx.ModelProto)
    assert list_files(tmp_path) == ["model.onnx"]  # the old data file is removed


def test_options_that_contradict_each_other_are_refused(tmp_path) -> None:
    large = to_onnx(Stack(), X, large_model=True)
    for options in (
        {"max_shard_bytes": 0},
        {"max_shard_bytes": 10, "all_tensors_to_one_file": False},
    ):
        with pytest.raises(OptionError, match="max_shard_bytes="):
            large.save(tmp_path / "m.onnx", **options)
    assert list_files(tmp_path) == []
