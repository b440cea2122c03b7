"""Models with fake or meta weights, which are inputs until real weights are attached."""

from __future__ import annotations

import copy
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import onnx
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ortable
from ortable import attach_weights, match_input_parameters, to_onnx
from ortable.errors import ExportError, InputError, OptionError

from .helpers import assert_close, eager, run_onnx


class TiedModel(torch.nn.Module):
    """A model with tied weights, a non-persistent buffer, and a constant of forward."""

    def __init__(self) -> None:
        super().__init__()
        self.Embed = torch.nn.Embedding(11, 6)
        self.linear = torch.nn.Linear(6, 6)
        self.head = torch.nn.Linear(6, 11, bias=False)
        self.head.weight = self.Embed.weight
        self.register_buffer("scale", torch.rand(6), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.linear(self.Embed(x) * self.scale))
        return self.head(y) + torch.tensor([0.5])


X = torch.tensor([[1, 2, 3], [4, 5, 10]])
INPUT_COUNT = 5  # x, the tied weight, weight and bias of linear, scale


def fake_inside() -> Any:
    with FakeTensorMode():
        return to_onnx(TiedModel(), (torch.zeros(2, 3, dtype=torch.int64),))


def fake_module_and_inputs() -> Any:
    with FakeTensorMode():
        module, x = TiedModel(), torch.zeros(2, 3, dtype=torch.int64)
    return to_onnx(module, (x,))


def fake_module_real_inputs() -> Any:
    with FakeTensorMode():
        module = TiedModel()
    return to_onnx(module, (X,))


def fake_dynamic() -> Any:
    with FakeTensorMode():
        module = TiedModel()
    return to_onnx(module, (X,), dynamic_shapes={"x": {0: "batch", 1: "length"}})


def fake_strict() -> Any:
    with FakeTensorMode():
        module = TiedModel()
    return to_onnx(module, (X,), export_options=ortable.ExportOptions(strict=True))


def fake_program() -> Any:
    with FakeTensorMode():
        module, x = TiedModel(), torch.zeros(2, 3, dtype=torch.int64)
    return to_onnx(torch.export.export(module, (x,)))


def meta_module() -> Any:
    with torch.device("meta"):
        module = TiedModel()
    model = to_onnx(module, (X,))
    assert all(p.is_meta for p in [*module.parameters(), *module.buffers()])
    assert module.head.weight is module.Embed.weight
    return model


def meta_module_and_inputs() -> Any:
    with torch.device("meta"):
        return to_onnx(TiedModel(), (torch.zeros(2, 3, dtype=torch.int64),))


EXPORTS = [
    fake_inside,
    fake_module_and_inputs,
    fake_module_real_inputs,
    fake_dynamic,
    fake_strict,
    fake_program,
    meta_module,
    meta_module_and_inputs,
]


@pytest.mark.parametrize("export", EXPORTS, ids=lambda export: export.__name__)
def test_weights_are_inputs_and_the_real_ones_match_by_name(export) -> None:
    model = export()
    onnx.checker.check_model(model, full_check=True)
    names = [value.name for value in model.graph.input]
    assert names[0] == "x"
    assert len(names) == INPUT_COUNT, names  # tied weights are one input
    real = TiedModel()
    feeds = {
        name: tensor.detach().numpy()
        for name, tensor in match_input_parameters(real, names, (X,)).items()
    }
    assert list(feeds) == names
    assert_close(run_onnx(model, feeds), eager(real, (X,)))


def test_inputs_can_be_fake_where_weights_are_real() -> None:
    module = TiedModel()
    with FakeTensorMode():
        x = torch.zeros(2, 3, dtype=torch.int64)
    model = to_onnx(module, (x,))
    assert [value.name for value in model.graph.input] == ["x"]
    assert_close(run_onnx(model, {"x": X.numpy()}), eager(module, (X,)))


@pytest.mark.parametrize("kind", ["fake", "meta"])
def test_a_buffer_with_data_stays_in_the_model(kind) -> None:
    with FakeTensorMode() if kind == "fake" else torch.device("meta"):
        module = TiedModel()
    module.scale = torch.arange(6.0)
    model = to_onnx(module, (X,))
    assert len(model.graph.input) == INPUT_COUNT - 1
    real = TiedModel()
    real.scale = torch.arange(6.0)
    names = [value.name for value in model.graph.input]
    feeds = {k: v.detach().numpy() for k, v in match_input_parameters(real, names, (X,)).items()}
    assert_close(run_onnx(model, feeds), eager(real, (X,)))


def test_names_that_torch_numbers_are_matched() -> None:
    class NameCollision(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Module()
            self.a.b = torch.nn.Parameter(torch.rand(3))
            self.a_b = torch.nn.Parameter(torch.rand(3))
            self.A_B = torch.nn.Parameter(torch.rand(3))
            self.plain = torch.rand(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.a.b + self.a_b * self.plain - self.A_B

    with FakeTensorMode():
        module = NameCollision()
    model = to_onnx(module, (torch.rand(3),))
    real, x = NameCollision(), torch.rand(3)
    names = [value.name for value in model.graph.input]
    feeds = {k: v.detach().numpy() for k, v in match_input_parameters(real, names, (x,)).items()}
    assert_close(run_onnx(model, feeds), eager(real, (x,)))


def test_functions_take_weights_without_data_as_inputs_of_the_model() -> None:
    class TwoLinears(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.relu(self.first(x)))

    with FakeTensorMode():
        module = TwoLinears()
    model = to_onnx(module, (torch.rand(2, 4),), export_modules_as_functions=True)
    assert [f.name for f in model.functions] == ["Linear"]
    real, x = TwoLinears(), torch.rand(2, 4)
    complete = attach_weights(model, real).to_proto()
    assert [value.name for value in complete.graph.input] == ["x"]
    assert_close(run_onnx(complete, {"x": x.numpy()}), eager(real, (x,)))


def test_graphs_with_weights_without_data() -> None:
    with FakeTensorMode():
        module, x = torch.nn.Linear(4, 3), torch.rand(2, 4)
    graph = torch.export.export(module, (x,)).module()
    model = to_onnx(graph)
    real, x = torch.nn.Linear(4, 3), torch.rand(2, 4)
    complete = attach_weights(model, real).to_proto()
    assert_close(run_onnx(complete, {model.graph.input[0].name: x.numpy()}), eager(real, (x,)))


def test_a_program_of_the_meta_device() -> None:
    module = torch.nn.Linear(4, 3, device="meta")
    program = torch.export.export(module, (torch.rand(2, 4, device="meta"),))
    real, x = torch.nn.Linear(4, 3), torch.rand(2, 4)
    complete = attach_weights(to_onnx(program), real).to_proto()
    assert_close(run_onnx(complete, {complete.graph.input[0].name: x.numpy()}), eager(real, (x,)))


class LazyCheckpoint(Mapping):
    """A checkpoint that loads tensors on request, as a safetensors file does."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.tensors = tensors
        self.loaded: list[str] = []

    def __getitem__(self, name: str) -> torch.Tensor:
        self.loaded.append(name)
        return self.tensors[name].detach().clone()

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("kind", [dict, LazyCheckpoint])
def test_weights_are_attached_from_a_checkpoint(tmp_path, large, kind) -> None:
    with FakeTensorMode():
        model = to_onnx(TiedModel(), (torch.zeros(2, 3, dtype=torch.int64),), large_model=large)
    real = TiedModel()
    state = dict(real.state_dict())
    del state["Embed.weight"]  # A checkpoint may hold tied weights once.
    checkpoint = kind({**state, "scale": real.scale, "unrelated": torch.rand(3)})
    complete = attach_weights(model, checkpoint)
    if kind is LazyCheckpoint:
        assert checkpoint.loaded == []
    path = tmp_path / "model.onnx"
    complete.save(path, max_shard_bytes=200)
    if kind is LazyCheckpoint:
        assert sorted(checkpoint.loaded) == ["head.weight", "linear.bias", "linear.weight", "scale"]
    onnx.checker.check_model(path)
    assert_close(run_onnx(path, {"x": X.numpy()}), eager(real, (X,)))
    graph = onnx.load(path, load_external_data=False).graph
    assert [value.name for value in graph.input] == ["x"]
    assert "linear.bias" in {t.doc_string for t in graph.initializer}


def test_weights_are_attached_from_files_of_safetensors(tmp_path) -> None:
    import safetensors.torch as safetensors

    real = TiedModel().to(torch.bfloat16)
    state = {**real.state_dict(), "scale": real.scale}
    del state["head.weight"]
    shards = {name: tmp_path / f"{name}.safetensors" for name in state}
    for name, path in shards.items():
        safetensors.save_file({name: state[name].detach().contiguous()}, path)

    class Shards(LazyCheckpoint):
        def __getitem__(self, name: str) -> torch.Tensor:
            return safetensors.load_file(self.tensors[name])[name]

    with torch.device("meta"):
        fake = TiedModel().to(torch.bfloat16)
    path = tmp_path / "model.onnx"
    attach_weights(to_onnx(fake, (X,), large_model=True), Shards(shards)).save(path)
    tensors = {t.doc_string: t for t in onnx.load(path).graph.initializer}
    for name in ("linear.weight", "linear.bias", "scale"):
        stored = torch.tensor(onnx.numpy_helper.to_array(tensors[name]).astype("float32"))
        assert torch.equal(stored, state[name].detach().float()), name
    assert tensors["linear.weight"].data_type == onnx.TensorProto.BFLOAT16


def test_missing_and_wrong_weights_are_named(tmp_path) -> None:
    model = fake_module_real_inputs()
    real = TiedModel()
    with pytest.raises(InputError, match=r"no weight is given for 1 inputs.*: scale\. Buffers"):
        attach_weights(model, real.state_dict())
    partial = attach_weights(model, real.state_dict(), partial=True).to_proto()
    assert [value.doc_string for value in partial.graph.input] == ["", "scale"]
    wrong_state = {**real.state_dict(), "scale": torch.rand(7)}
    message = r"'scale' is float32 \[7\], the model was exported with float32 \[6\]"
    with pytest.raises(InputError, match=message):
        attach_weights(model, wrong_state)
    lazy = attach_weights(model, LazyCheckpoint(wrong_state))
    with pytest.raises(InputError, match=message):
        lazy.save(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
    float16_state = {**real.state_dict(), "scale": real.scale.half()}
    with pytest.raises(InputError, match=r"'scale' is float16"):
        attach_weights(model, float16_state)


def test_validation_needs_data() -> None:
    with FakeTensorMode():
        module = TiedModel()
    with pytest.raises(OptionError, match="validate=True needs weights with data"):
        to_onnx(module, (X,), validate=True)


def test_complex_weights_without_data() -> None:
    class Complex(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, dtype=torch.complex64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.weight).real

    with FakeTensorMode():
        module = Complex()
    x = torch.rand(3)
    model = to_onnx(module, (x,))
    real = Complex()
    names = [value.name for value in model.graph.input]
    feeds = {k: v.detach().numpy() for k, v in match_input_parameters(real, names, (x,)).items()}
    assert_close(run_onnx(model, feeds), eager(real, (x,)))
    complete = attach_weights(model, real).to_proto()
    assert_close(run_onnx(complete, {"x": x.numpy()}), eager(real, (x,)))


def test_what_a_branch_reads_without_data_is_an_input() -> None:
    """A fake weight that a branch reads becomes an input."""

    class BranchWeight(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x @ self.weight, lambda x: x - 1, (x,))

    with FakeTensorMode():
        module = BranchWeight()
    x = torch.rand(2, 3)
    model = to_onnx(module, (x,))
    real = BranchWeight()
    complete = attach_weights(model, real).to_proto()
    for value in (x, -x):
        assert_close(run_onnx(complete, {"x": value.numpy()}), eager(real, (value,)))


def test_fake_weights_are_not_constants() -> None:
    builder = ortable.GraphBuilder(18)
    with FakeTensorMode():
        fake = torch.zeros(3)
    builder.make_initializer("w", fake)
    builder.make_initializer("v", torch.zeros(3))
    assert builder.is_constant("v")
    assert not builder.is_constant("w")


WIDE_MODEL = """
    import resource, torch, transformers, ortable

    config = transformers.LlamaConfig(
        hidden_size=8192, intermediate_size=28672, num_hidden_layers=1, num_attention_heads=64,
        num_key_value_heads=8, vocab_size=128256, use_cache=False,
    )
    torch.set_default_dtype(torch.bfloat16)
    ids = torch.zeros(2, 8, dtype=torch.int64)
    dims = {"input_ids": {0: "batch", 1: "length"}}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config).eval()
    onx = ortable.to_onnx(model, (), {"input_ids": ids}, dynamic_shapes=dims)
    named = {path for v in onx.graph.input for path in v.doc_string.split(", ") if path}
    assert named - set(model.state_dict()) == {"model.rotary_emb.inv_freq"}, named
    assert set(model.state_dict()) <= named, named
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(weights, (after - before) * 1024, onx.ByteSize())
"""


FIRST_EXPORT = """
import warnings
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
import ortable

warnings.simplefilter("error")
with FakeTensorMode():
    ortable.to_onnx(torch.nn.Linear(2, 2), (torch.zeros(3, 2),))
negate = torch.compile(lambda x: ~x, backend="ortable")
assert negate(torch.tensor([True, False])).tolist() == [False, True]
"""


@pytest.mark.slow
def test_the_first_export_of_a_process_has_no_weights() -> None:
    """The cached probe of ONNX Runtime uses real tensors, even if the first export is fake."""
    run = subprocess.run([sys.executable, "-c", FIRST_EXPORT], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]


@pytest.mark.slow
def test_a_model_as_wide_as_llama_70b_takes_no_memory_for_its_weights() -> None:
    code = textwrap.dedent(WIDE_MODEL)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    weights, memory, size = map(int, run.stdout.split()[-3:])
    assert weights > 5e9
    assert memory < 0.1 * weights
    assert size < 1e6


def test_a_graph_with_weights_without_data_needs_them_before_it_is_complete() -> None:
    model = fake_module_real_inputs()
    with pytest.raises(InputError, match="0 arguments were given for 1 inputs"):
        match_input_parameters(TiedModel(), [value.name for value in model.graph.input])
    with pytest.raises(ExportError, match=r"raises on the example inputs"):
        to_onnx(copy.deepcopy(TiedModel()), (torch.rand(2, 3),))
