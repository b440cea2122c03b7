"""Large models: weights go from torch to files without a copy, the files appear whole, and they are
found again."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, numpy_helper

import ortable
from ortable import GraphBuilder, LargeModel, dtypes, to_onnx
from ortable.builder import file_set, pieces, serialize
from ortable.errors import BuilderError, ExportError, OptionError

from .helpers import assert_close, assert_same, eager, run_onnx

ROOT = Path(__file__).resolve().parents[2]


class Stack(torch.nn.Module):
    """Layers whose weights differ in layout; embedding and head are tied."""

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


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def places(path: Path) -> dict[str, dict[str, str]]:
    graph = onnx.load(path, load_external_data=False).graph
    return {
        t.name: {entry.key: entry.value for entry in t.external_data}
        for t in graph.initializer
        if t.data_location == TensorProto.EXTERNAL
    }


def test_the_export_takes_less_than_a_tenth_of_the_weights() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "large_model.py"), "--json"]
    path = os.pathsep.join(str(ROOT / part) for part in ("runtime", "generated"))
    done = subprocess.run(
        [*command, "--megabytes", "300", "--width", "2048"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["weights"] > 290e6
    assert found["extra"] < 0.1 * found["weights"], found
    assert found["difference"] < 1e-5
    assert found["files"] == 2


@pytest.mark.parametrize(
    ("options", "data"),
    [
        ({}, ["model.onnx.data"]),
        ({"max_shard_bytes": 5000}, [f"model.onnx.0000{i}-of-00004.data" for i in (1, 2, 3, 4)]),
        (
            {"all_tensors_to_one_file": False},
            [f"model.onnx.{n}.data" for n in ("b_shift", "p_first_weight", "p_head_weight")]
            + ["model.onnx.p_second_weight.data"],
        ),
    ],
)
def test_one_file_or_many(tmp_path, options, data) -> None:
    module, path = Stack(), tmp_path / "model.onnx"
    large = to_onnx(module, X, large_model=True, validate=True)
    assert isinstance(large.tensors["p_first_weight"], torch.Tensor)
    large.save(path, **options)
    assert files(tmp_path) == sorted(["model.onnx", *data])
    onnx.checker.check_model(path, full_check=True)
    assert_close(run_onnx(path, {"x": X[0].numpy()}), eager(module, X))
    found = places(path)
    assert {place["location"] for place in found.values()} == set(data)
    for place in found.values():
        assert int(place["offset"]) % 64 == 0
    embedded = large.to_proto()
    assert_same(embedded, module, X)
    loaded = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    for tensor in embedded.graph.initializer:
        np.testing.assert_array_equal(loaded[tensor.name], numpy_helper.to_array(tensor))


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
    monkeypatch.setattr(pieces, "PIECE", size)
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
        expected = ortable.builder.initializers.to_numpy(value, name)
        for got in (written[name], mapped[name]):
            assert got.dtype == expected.dtype.newbyteorder("=")
            assert got.shape == expected.shape
            as_bytes = expected.astype(expected.dtype.newbyteorder("=")).tobytes()
            assert got.tobytes() == as_bytes, name


def test_pieces_of_another_layout_are_small() -> None:
    tensor = torch.arange(3_000_000.0).reshape(1000, 3000).t()
    found = list(pieces.pieces(tensor, "w"))
    assert max(piece.nbytes for piece in found) <= pieces.PIECE
    assert b"".join(found) == tensor.numpy().tobytes()
    (whole,) = pieces.pieces(tensor.t(), "w")
    assert np.shares_memory(np.frombuffer(whole, np.uint8), tensor.t().numpy())


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
    found = builder.op.If(cond, then_branch=then, else_branch=orelse)
    builder.make_node("times", [found], ["y"], domain="mine")
    builder.make_tensor_output("y", dtypes.float32, ("n", 16))
    large = builder.to_onnx(large_model=True, external_threshold=100, optimize=False)
    assert not large.tensors
    assert any(value is weight for value in large.nested.values())
    assert len(large.proto.SerializeToString()) < 1500
    path = tmp_path / "m.onnx"
    large.save(path)
    onnx.checker.check_model(path)
    assert path.stat().st_size < 1500
    again = LargeModel.load(path)
    assert len(again.nested) == 3
    again.save(tmp_path / "again.onnx")
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
    assert files(tmp_path) == ["m.onnx", "m.onnx.data"]
    assert (tmp_path / "m.onnx.data").stat().st_size >= 2 * 6400
    assert path.stat().st_size < 10_000
    onnx.checker.check_model(path)
    for each in (x, -x):
        name = onnx.load(path, load_external_data=False).graph.input[0].name
        assert_close(run_onnx(path, {name: each.numpy()}), eager(module, (each,)))


def test_above_two_gigabytes_weights_go_beside_the_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(serialize, "PROTO_LIMIT", 10_000)
    module, path = Stack(), tmp_path / "model.onnx"
    model, builder = to_onnx(module, X, filename=path, return_builder=True)
    assert isinstance(model, LargeModel)
    assert files(tmp_path) == ["model.onnx", "model.onnx.data"]
    assert any("written beside the model" in step for step in builder.record.steps)
    assert_close(run_onnx(path, {"x": X[0].numpy()}), eager(module, X))
    with pytest.raises(BuilderError, match=r"large_model=True\), whose result has save"):
        to_onnx(module, X)
    monkeypatch.setattr(serialize, "PROTO_LIMIT", 10_000_000)
    assert isinstance(to_onnx(module, X, filename=path), onnx.ModelProto)
    assert files(tmp_path) == ["model.onnx"]  # the old data file is of no use any more


def test_saving_again_replaces_model_and_data(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    first, second = Stack(), Stack(1.0)
    to_onnx(first, X, large_model=True).save(path, max_shard_bytes=5000)
    (tmp_path / "model.onnx.notes").write_text("mine")
    (tmp_path / "other.onnx.data").write_text("of another model")
    to_onnx(second, X, large_model=True).save(path)
    kept = ["model.onnx.notes", "other.onnx.data"]
    assert files(tmp_path) == sorted(["model.onnx", "model.onnx.data", *kept])
    for _ in range(2):
        to_onnx(second, X, large_model=True, filename=path)
        assert files(tmp_path) == sorted(["model.onnx", "model.onnx.data", *kept])
        assert places(path)["p_first_weight"]["location"] == "model.onnx.data"
        assert_close(run_onnx(path, {"x": X[0].numpy()}), eager(second, X))
    mapped = LargeModel.load(path)
    mapped.save(path)  # over the file that it reads
    assert_close(run_onnx(path, {"x": X[0].numpy()}), eager(second, X))
    assert os.stat(path).st_mode & 0o777 == 0o666 & ~file_set._umask()


@pytest.mark.parametrize("fails_at", range(6))
def test_at_every_step_the_model_is_the_old_or_the_new_one(tmp_path, monkeypatch, fails_at) -> None:
    path = tmp_path / "model.onnx"
    old, new = Stack(), Stack(1.0)
    to_onnx(old, X, large_model=True, filename=path)
    large = to_onnx(new, X, large_model=True)
    calls = iter(range(100))

    class Died(BaseException):
        """The process ends here: nothing is cleaned up."""

    def guarded(function: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            if next(calls) == fails_at:
                raise Died
            return function(*args, **kwargs)

        return called

    with monkeypatch.context() as patch:
        patch.setattr(file_set, "_remove", lambda paths: None)
        for name in ("replace", "link"):
            patch.setattr(file_set.os, name, guarded(getattr(os, name)))
        try:
            large.save(path)
            assert fails_at >= 5
        except Died:
            assert fails_at < 5
    got = run_onnx(path, {"x": X[0].numpy()})
    assert_close(got, eager(old if fails_at <= 1 else new, X))
    large.save(path)  # what was left is replaced
    assert places(path)["p_first_weight"]["location"] == "model.onnx.data"
    onnx.checker.check_model(path)


def test_without_hard_links_the_data_keeps_its_other_name(tmp_path, monkeypatch) -> None:
    path = tmp_path / "model.onnx"
    to_onnx(Stack(), X, large_model=True, filename=path)

    def refused(*args: Any) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(file_set.os, "link", refused)
    module = Stack()
    for name in ("model.onnx.1.data", "model.onnx.data"):
        to_onnx(module, X, large_model=True, filename=path)
        assert files(tmp_path) == sorted(["model.onnx", name])
        assert_close(run_onnx(path, {"x": X[0].numpy()}), eager(module, X))


@pytest.mark.parametrize("large", [True, False])
def test_a_disk_that_is_full_leaves_what_was_there(tmp_path, large) -> None:
    path = tmp_path / "model.onnx"
    old = Stack()
    to_onnx(old, X, large_model=True, filename=path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, hard))
    try:
        with pytest.raises(ExportError, match=r"could not be written to '.*Nothing was left there"):
            to_onnx(Stack(), X, large_model=large, filename=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_room_on_the_disk_is_asked_for_first(tmp_path, monkeypatch) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    with pytest.raises(ExportError, match=r"weights take 0.00 GB, the disk has 0.00 GB left"):
        to_onnx(Stack(), X, large_model=True, filename=tmp_path / "m.onnx")
    assert files(tmp_path) == []


def test_places_that_cannot_be_written_are_named(tmp_path) -> None:
    for large in (False, True):
        with pytest.raises(ExportError, match=r"folder '.*nowhere' of the file to write"):
            to_onnx(Stack(), X, large_model=large, filename=tmp_path / "nowhere" / "m.onnx")
        with pytest.raises(ExportError, match=r"is a folder; filename is the file to write"):
            to_onnx(Stack(), X, large_model=large, filename=tmp_path)
        with pytest.raises(ExportError, match=r"could not be written to '/proc/m.onnx'"):
            to_onnx(Stack(), X, large_model=large, filename="/proc/m.onnx")


def test_options_that_contradict_each_other_are_refused(tmp_path) -> None:
    large = to_onnx(Stack(), X, large_model=True)
    for options in (
        {"max_shard_bytes": 0},
        {"max_shard_bytes": 10, "all_tensors_to_one_file": False},
    ):
        with pytest.raises(OptionError, match="max_shard_bytes="):
            large.save(tmp_path / "m.onnx", **options)
    assert files(tmp_path) == []


def test_strings_and_lost_files_are_refused(tmp_path) -> None:
    path = tmp_path / "m.onnx"
    to_onnx(Stack(), X, large_model=True, filename=path)
    read = GraphBuilder(onnx.load(path, load_external_data=False))
    again = read.to_onnx(large_model=True)
    again.save(tmp_path / "other.onnx")  # the file that it names is there
    assert_close(
        run_onnx(tmp_path / "other.onnx", {"x": X[0].numpy()}),
        run_onnx(path, {"x": X[0].numpy()}),
    )
    (tmp_path / "sub").mkdir()
    with pytest.raises(BuilderError, match=r"is in '.*m.onnx.data', which is no file"):
        again.save(tmp_path / "sub" / "other.onnx")
    large = to_onnx(Stack(), X, large_model=True)
    large.tensors["p_first_weight"] = np.array(["a"], dtype=object)
    with pytest.raises(BuilderError, match="holds strings"):
        large.save(tmp_path / "sub" / "other.onnx")
    assert files(tmp_path / "sub") == []


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../w.data", "not in the folder of the model"),
        ("sub/../../w.data", "not in the folder of the model"),
        ("..\\w.data", "not in the folder of the model"),
        ("/etc/passwd", "not in the folder of the model"),
        ("C:\\w.data", "not in the folder of the model"),
        ("", "not in the folder of the model"),
        ("link.data", "not in the folder of the model"),
        ("missing.data", "is no file"),
        ("short.data", r"has 4096 bytes, its file 'short.data' has 7 of 4096 at 0"),
    ],
)
def test_files_outside_of_the_folder_are_not_read(tmp_path, location, message) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.data").write_bytes(bytes(4096))
    (folder / "short.data").write_bytes(bytes(7))
    (folder / "link.data").symlink_to(tmp_path / "w.data")
    path = folder / "m.onnx"
    to_onnx(torch.nn.Linear(32, 32), (torch.rand(2, 32),), large_model=True, filename=path)
    model = onnx.load(path, load_external_data=False)
    tensor = next(t for t in model.graph.initializer if t.name == "p_weight")
    next(e for e in tensor.external_data if e.key == "location").value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(BuilderError, match=message):
        LargeModel.load(path)


def test_a_loaded_model_is_mapped_not_read(tmp_path) -> None:
    module, path = Stack(), tmp_path / "m.onnx"
    to_onnx(module, X, large_model=True, filename=path)
    large = LargeModel.load(path)
    weight = large.numpy_tensors()["p_first_weight"]
    assert isinstance(weight.base, np.memmap) or isinstance(weight, np.memmap)
    assert not weight.flags.writeable
    assert_close([torch.tensor(weight)], [module.first.weight.detach()])
    assert_same(large.to_proto(), module, X)


def test_progress_is_reported(tmp_path, capsys) -> None:
    module = torch.nn.Sequential(*(torch.nn.Linear(50, 50) for _ in range(20)))
    to_onnx(module, (torch.rand(1, 50),), large_model=True, filename=tmp_path / "m", verbose=1)
    lines = [line for line in capsys.readouterr().out.splitlines() if "MB of weights" in line]
    assert len(lines) == 10
    assert lines[-1].startswith("[to_onnx] write; 0 of 0 MB")
    seen: list[tuple[int, int, str]] = []
    large = to_onnx(module, (torch.rand(1, 50),), large_model=True)
    large.save(tmp_path / "m", progress=lambda *step: seen.append(step))
    assert seen[0][0] == 0
    assert seen[-1][0] >= seen[-1][1] == large.nbytes
    assert {name for _, _, name in seen} == {*large.tensors, ""}


def test_a_fake_tensor_cannot_be_written(tmp_path) -> None:
    large = to_onnx(Stack(), X, large_model=True)
    large.tensors["p_first_weight"] = torch.empty(32, 32, device="meta")
    with pytest.raises(BuilderError, match="give the real tensor"):
        large.save(tmp_path / "m.onnx")
    assert files(tmp_path) == []
