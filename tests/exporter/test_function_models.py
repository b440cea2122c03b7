"""Architectures with their modules as local functions, static and dynamic, also inlined."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
import transformers
from onnx.inliner import inline_local_functions
from torch import nn

from ortable import to_onnx
from ortable.exporter.frontend.export_request import ExportOptions

from .helpers import assert_close, eager, feeds_of, run_onnx
from .test_module_functions import functions_of

Tensor = torch.Tensor
BATCH, LENGTH = torch.export.Dim("batch", max=64), torch.export.Dim("length", max=60)


class Residual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(outer), nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
        self.down = nn.Sequential(nn.Conv2d(inner, outer, 1, stride), nn.BatchNorm2d(outer))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.down(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.body = nn.Sequential(Residual(8, 8), Residual(8, 8), Residual(8, 16, 2))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.stem(x)).mean((2, 3)))


def bert() -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
    )
    return transformers.BertModel(config)


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=99,
        n_embd=32,
        n_layer=2,
        n_head=4,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    return transformers.GPT2Model(config)


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)


def tokens(*shape: int) -> Tensor:
    return torch.randint(1, 99, shape)


MODELS: dict[str, Any] = {
    "resnet": (
        ResNet,
        lambda n: (torch.randn(n, 3, 16, 16),),
        ({0: BATCH},),
        {"Residual": 3},
    ),
    "bert": (
        bert,
        lambda n: (tokens(n, n + 5), torch.ones(n, n + 5, dtype=torch.int64)),
        ({0: BATCH, 1: LENGTH}, {0: BATCH, 1: LENGTH}),
        {"BertLayer": 3, "BertSelfAttention": 1, "LayerNorm": 3},
    ),
    "gpt2": (
        gpt2,
        lambda n: (tokens(n, n + 5),),
        ({0: BATCH, 1: LENGTH},),
        {"GPT2Block": 2, "GPT2MLP": 1},
    ),
    "transformer encoder": (
        encoder,
        lambda n: (torch.randn(n, n + 4, 8),),
        ({0: BATCH, 1: LENGTH},),
        {"TransformerEncoderLayer": 3, "MultiheadAttention": 1},
    ),
}


@pytest.mark.alternates("dynamic")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_architectures_with_functions_equal_eager(name: str, dynamic: bool) -> None:
    torch.manual_seed(0)
    make, example, shapes, counts = MODELS[name]
    module, args = make().eval(), example(2)
    program = torch.export.export(module, args, dynamic_shapes=shapes if dynamic else None)
    calls = [args, example(3)] if dynamic else [args]
    for weights in ("auto", "inputs"):
        options = ExportOptions(function_weights=weights)
        model = to_onnx(program, export_modules_as_functions=True, export_options=options)
        onnx.checker.check_model(model, full_check=True)
        for call in calls:
            assert_close(run_onnx(model, feeds_of(model, call)), eager(module, call))
    functions = functions_of(model)
    op_types = [node.op_type for function in model.functions for node in function.node]
    op_types += [node.op_type for node in model.graph.node]
    assert set(counts) <= set(functions)
    for layer, count in counts.items():
        assert sum(op.partition("_")[0] == layer for op in op_types) == count, layer
    inlined = inline_local_functions(model)
    assert_close(run_onnx(inlined, feeds_of(model, calls[-1])), eager(module, calls[-1]))


def test_layers_of_bert_are_one_function_called_for_each() -> None:
    module = bert().eval()
    options = ExportOptions(function_weights="inputs")
    model = to_onnx(
        module, (tokens(2, 7),), export_modules_as_functions=True, export_options=options
    )
    calls = [n.op_type for f in model.functions for n in f.node if n.op_type == "BertLayer"]
    assert len(calls) == 3 and "BertLayer_1" not in functions_of(model)
    inputs = list(functions_of(model)["BertLayer"].input)
    assert "attention.self.query.weight" in inputs and len(inputs) == 18
    weights = {initializer.name for initializer in model.graph.initializer}
    assert {f"encoder.layer.{i}.output.dense.weight" for i in range(3)} <= weights


def test_a_chosen_class_of_a_transformers_model() -> None:
    module, args = bert().eval(), (tokens(2, 7),)
    model = to_onnx(module, args, export_modules_as_functions={"BertSelfAttention"})
    assert {name.partition("_")[0] for name in functions_of(model)} == {"BertSelfAttention"}
    assert_close(run_onnx(model, feeds_of(model, args)), eager(module, args))


class ScaledProduct(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.large = torch.nn.Parameter(torch.rand(40, 40))
        self.small = torch.nn.Parameter(torch.rand(40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.large * self.small


def test_of_a_large_model_functions_hold_the_small_weights_alone() -> None:
    """In a large model, functions contain only the weights below the threshold."""
    module = torch.nn.Sequential(ScaledProduct())
    large = to_onnx(
        module,
        (torch.rand(2, 40),),
        export_modules_as_functions={ScaledProduct},
        large_model=True,
        external_threshold=1024,
    )
    (function,) = large.proto.functions
    assert len(function.input) == 2, "expected the rows and the large weight"
    assert [node.op_type for node in function.node].count("Constant") == 1
