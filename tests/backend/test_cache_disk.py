"""The cache on disk: entries that a second process reads, and changes that must cause a miss."""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import multiprocessing
import os
import warnings
from pathlib import Path
from unittest import mock

import onnx
import pytest
import sympy
import torch
from torch import nn
from torch._dynamo.utils import counters

from ortable.backend.aot import compilation as aot_compilation
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.cache import codec, envelope
from ortable.backend.cache.graph_key import _GraphWriter
from ortable.backend.cache.keys import disk_key
from ortable.backend.cache.memory import conversions
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.options import OrtOptions
from ortable.backend.roles import (
    CompiledGraph,
    InputRole,
    InputRoleKind,
    OutputRole,
    OutputRoleKind,
    ViewStep,
)
from ortable.backend.store import Uncacheable
from ortable.dims.expression import RECIPES

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """Give each test its own folder for torch's cache, and clear the caches in memory."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    forget()
    yield
    forget()


def forget():
    """Clear all state that a new process would not have."""
    torch._dynamo.reset()
    gc.collect()
    conversions.clear()
    counters.clear()
    RECIPES.clear()


def capture(fn, *args, **options):
    """Return the graphs that a call compiles, forward and backward, and the results of the call."""
    settings = OrtOptions(**options)
    graphs = []

    def run(compiled, options):
        graphs.append(compiled)
        return run_with_onnxruntime(compiled, options)

    def backend(graph_module, example_inputs):
        return compile_with_autograd(graph_module, example_inputs, settings, run)

    dynamic = any(isinstance(a, torch.Tensor) and a.dim() and a.shape[0] == 5 for a in args)
    # Replaces the default runner, because graphs of other runners are not put into torch's cache.
    with mock.patch.object(aot_compilation, "run_with_onnxruntime", run):
        compiled_fn = torch.compile(fn, backend=backend, dynamic=dynamic or None, fullgraph=True)
        result = compiled_fn(*args)
    tensors = [result] if isinstance(result, torch.Tensor) else result
    sums = [t.sum() for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]
    if sums:
        sum(sums).backward()
    return graphs, result


def cached(graphs):
    return [compiled.cache for compiled in graphs]


def entries(folder):
    return sorted(Path(folder).glob("*.ortable"))


def test_floats_that_differ_after_15_digits_are_two_graphs(tmp_path):
    for factor, rows in ((0.6, 3), (0.6000000000000001, 4)):
        graphs, got = capture(
            lambda x, f=factor: x.exp()[: math.ceil(x.shape[0] * f)],
            torch.ones(5, 3),
            cache_dir=str(tmp_path / "c"),
        )
        assert cached(graphs) == ["miss"]
        assert got.shape == (rows, 3)
        forget()
    numbers = [sympy.Float(factor) for factor in (0.6, 0.6000000000000001)]
    assert len({_GraphWriter().expression_text(number, None) for number in numbers}) == 2


# -- files and roles


def make_batch_norm_model():
    return nn.Sequential(nn.Conv2d(2, 3, 5, 5), nn.BatchNorm2d(3), nn.ReLU()).train()


def write_in_place(x):
    x.add_(1)
    return x[1:], x


def return_many_kinds(x, n):
    y = x.exp()
    return y.t(), y, None, x, n, y > 1, y.shape[0] * 2, x.view(-1), y.unbind(1)[0]


CHANNELS_LAST = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
GRAPHS = {
    "mlp": (nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)), (torch.ones(2, 3),)),
    "dynamic": (nn.Linear(3, 4), (torch.ones(5, 3),)),
    "dynamic views": (lambda x: (x * 2).view(-1, 2).t(), (torch.ones(5, 4),)),
    "batch norm": (make_batch_norm_model(), (torch.ones(2, 2, 5, 5),)),
    "mutation": (write_in_place, (torch.ones(4, 3),)),
    "kinds": (return_many_kinds, (torch.ones(4, 3), 3)),
    "kinds, dynamic": (return_many_kinds, (torch.ones(5, 3), 3)),
    "unsafe view": (nn.Linear(3, 4, bias=False), (torch.ones(2, 4, 3),)),
    "split": (lambda x: x.exp().split(2), (torch.ones(4, 3),)),
    "embedding": (nn.Embedding(7, 3), (torch.tensor([1, 2, 2]),)),
    "constant": (lambda x: x + torch.tensor([1.0, 2.0, 4.0]), (torch.ones(2, 3),)),
    "channels last": (lambda x: x.relu(), (CHANNELS_LAST,)),
    "division": (lambda x: x.exp()[: x.shape[0] // 2].flatten(), (torch.ones(5, 3),)),
    "size of a float": (lambda x: x.exp()[: math.ceil(x.shape[0] * 0.7)].t(), (torch.ones(5, 3),)),
}  # fmt: skip


def assert_read_as_written(compiled, folder):
    assert conversions.save(str(folder), "k", compiled)
    loaded = conversions.load(str(folder), "k")
    for field in dataclasses.fields(CompiledGraph):
        if field.name not in ("timings", "key", "cache", "label"):  # these differ per call
            assert getattr(loaded, field.name) == getattr(compiled, field.name), field.name


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_from_a_file_is_what_was_written_and_computes_the_same(name, tmp_path):
    fn, args = GRAPHS[name]
    copies = [[a.clone() if isinstance(a, torch.Tensor) else a for a in args] for _ in range(2)]
    if isinstance(fn, nn.Module):
        state = {k: v.clone() for k, v in fn.state_dict().items()}
    first_graphs, expected = capture(fn, *copies[0], cache_dir=str(tmp_path / "c"))
    assert first_graphs
    for compiled in first_graphs:
        assert_read_as_written(compiled, tmp_path / "one")
    forget()
    if isinstance(fn, nn.Module):
        fn.load_state_dict(state)
        fn.zero_grad()
    second_graphs, got = capture(fn, *copies[1], cache_dir=str(tmp_path / "c"))
    assert cached(first_graphs) == ["miss"] * len(first_graphs)
    assert sorted(c.kind for c in second_graphs) == sorted(c.kind for c in first_graphs)
    assert cached(second_graphs) == ["disk"] * len(second_graphs)
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    torch.testing.assert_close(copies[1], copies[0], rtol=0, atol=0)


def test_python_values_keep_their_types():
    values = (None, True, 1, 1.5, float("inf"), -0.0, "x", (1, (2,)), [1, 2], {"a": 1}, {1: [2.0]},
              torch.float16, torch.channels_last, torch.strided, torch.device("cpu"))  # fmt: skip
    for value in values:
        text = json.dumps(codec.encode_value(value))
        decoded = codec.decode_value(json.loads(text))
        assert repr(decoded) == repr(value)


def test_only_view_operators_of_torch_are_read():
    def encode(name):
        return {"view": name}

    assert codec.decode_value(encode("aten::view")) is aten.view.default
    assert codec.decode_value(encode("aten::transpose.int")) is aten.transpose.int
    invalid = ["add.Tensor", "view.nothing", "nothing", "copy_", "view.__class__", "__class__"]
    for name in (*(f"aten::{op}" for op in invalid), "aten", "os::system", "prims::view_of"):
        with pytest.raises((ValueError, AttributeError)):
            codec.decode_value(encode(name))
    with pytest.raises((KeyError, ValueError)):
        codec.decode_value({"CompiledGraph": {}})


def compile_one_graph(**fields):
    (compiled,), _ = capture(torch.exp, torch.ones(3))
    return dataclasses.replace(compiled, **fields)


def test_what_a_file_cannot_hold_is_skipped(tmp_path):
    constant_role = OutputRole(0, OutputRoleKind.CONSTANT, "output_0", value=object())
    step = ViewStep(aten.add.Tensor, (1,), {})
    for role in (constant_role, dataclasses.replace(constant_role, value=None, steps=(step,))):
        with pytest.raises(Uncacheable, match="cannot be stored"):
            conversions.save(str(tmp_path), "k", compile_one_graph(outputs=(role,)))
    model = onnx.ModelProto()
    model.graph.initializer.add(name="w", data_location=onnx.TensorProto.EXTERNAL)
    with pytest.raises(Uncacheable, match="its model stores tensors in other files"):
        conversions.save(str(tmp_path), "k", compile_one_graph(model=model))
    assert entries(tmp_path) == []


def test_a_skipped_graph_runs_and_is_told(tmp_path, capsys, monkeypatch):
    def refuse(*args):
        raise Uncacheable("an odd constant")

    monkeypatch.setattr(conversions, "save", refuse)
    _, got = capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "c"), verbose=1)
    torch.testing.assert_close(got, torch.ones(3).exp())
    assert "an odd constant" in capsys.readouterr().out
    assert entries(tmp_path / "c") == []


# -- unusable entries


@pytest.fixture
def entry(tmp_path):
    compiled = compile_one_graph()
    assert conversions.save(str(tmp_path), "k", compiled)
    return conversions.path(str(tmp_path), "k"), compiled


def check_entry_rejected(folder, match):
    with pytest.warns(RuntimeWarning, match=match) as warning_records:
        assert conversions.load(str(folder), "k") is None
    assert len(warning_records) == 1


def test_an_absent_entry_is_a_silent_miss(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert conversions.load(str(tmp_path / "nothing"), "k") is None


def test_flipped_bytes_are_noticed_wherever_they_are(entry):
    path, _ = entry
    content = path.read_bytes()
    for index in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[index] ^= 0x20
        path.write_bytes(damaged)
        check_entry_rejected(path.parent, "not used")


def test_truncation_is_noticed_at_every_length(entry):
    path, _ = entry
    content = path.read_bytes()
    for length in [*range(0, len(content), 11), len(content) - 1]:
        path.write_bytes(content[:length])
        check_entry_rejected(path.parent, "not used")
    path.write_bytes(content + b"\0")
    check_entry_rejected(path.parent, "checksum")


def test_another_graph_s_entry_is_noticed(entry):
    path, _ = entry
    path.rename(path.with_name("other.ortable"))
    with pytest.warns(RuntimeWarning, match="another graph"):
        assert conversions.load(str(path.parent), "other") is None


@pytest.mark.parametrize("name", ["code", "torch", "onnx", "onnxruntime"])
def test_another_version_s_entry_is_noticed(entry, monkeypatch, name):
    path, _ = entry
    other = {**envelope.dependency_versions(), name: "0"}
    monkeypatch.setattr(envelope, "dependency_versions", lambda: other)
    check_entry_rejected(path.parent, "other versions")


def test_a_bad_entry_is_converted_and_written_again(tmp_path):
    folder = str(tmp_path / "c")
    capture(torch.exp, torch.ones(3), cache_dir=folder)
    (path,) = entries(folder)
    valid_content = path.read_bytes()
    path.write_bytes(valid_content[:50])
    forget()
    with pytest.warns(RuntimeWarning, match="not used"):
        graphs, got = capture(torch.exp, torch.ones(3), cache_dir=folder)
    assert cached(graphs) == ["miss"]
    torch.testing.assert_close(got, torch.ones(3).exp())
    forget()
    graphs, _ = capture(torch.exp, torch.ones(3), cache_dir=folder)
    assert cached(graphs) == ["disk"]


def test_a_lost_entry_is_compiled_again(tmp_path):
    folder = str(tmp_path / "c")
    model = nn.Linear(3, 2)
    capture(model, torch.ones(2, 3), cache_dir=folder)
    for path in entries(folder):
        path.unlink()
    forget()
    graphs, got = capture(model, torch.ones(2, 3), cache_dir=folder)
    assert cached(graphs) == ["miss", "miss"] and len(entries(folder)) == 2
    torch.testing.assert_close(got, model(torch.ones(2, 3)))


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        _, got = capture(torch.exp, torch.ones(3), cache_dir=str(file / "c"))
    torch.testing.assert_close(got, torch.ones(3).exp())
    assert file.read_text() == "not a folder"


# -- processes


def _write_and_read(folder, compiled, failures):
    for _ in range(50):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            conversions.save(folder, "k", compiled)
            loaded = conversions.load(folder, "k")
        if loaded is None or loaded.outputs != compiled.outputs or loaded.model != compiled.model:
            failures.put(os.getpid())


def test_processes_that_write_one_entry_do_not_disturb_each_other(tmp_path):
    compiled = compile_one_graph()
    context = multiprocessing.get_context("fork")
    failures = context.SimpleQueue()
    folder = tmp_path / "c"
    arguments = (str(folder), compiled, failures)
    workers = [context.Process(target=_write_and_read, args=arguments) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert failures.empty()
    assert [path.name for path in folder.iterdir()] == ["k.ortable"]


def test_the_key_of_a_file_names_the_versions(monkeypatch):
    from ortable.backend.cache import keys

    key = disk_key("k")
    monkeypatch.setattr(keys, "dependency_versions", lambda: {"torch": "other"})
    assert disk_key("k") != key


def test_specs_loaded_with_functions_are_not_written(monkeypatch):
    from ortable.backend.cache import keys
    from ortable.interpreter import user_specs

    key = disk_key("k")
    loaded = user_specs.LoadedSpecs("mine.yaml", ("mine::op",), "def f(): pass")
    monkeypatch.setattr(keys, "LOADED_SPECS", [loaded])
    assert disk_key("k") != key
    with_function = dataclasses.replace(loaded, lowerings=("f",))
    monkeypatch.setattr(keys, "LOADED_SPECS", [with_function])
    with pytest.raises(Uncacheable, match=r"mine\.yaml"):
        disk_key("k")


def test_roles_of_a_dimension_are_the_same_object():
    from ortable import dims

    s, t = dims.make_symbol("s0"), dims.make_symbol("u1", None)
    for dim in (
        s,
        s * 2 + t,
        (s + 1) // 2,
        dims.max_of(s, t) % 3,
        -s,
        dims.make_opaque("f(s0)", [s]),
    ):
        role = InputRole(0, InputRoleKind.DIMENSION, "input_dim_0", 7, (dim, 1), dim)
        assert codec.decode_value(json.loads(json.dumps(codec.encode_value(role)))) == role
