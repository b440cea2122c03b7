"""Names, types, shapes and doc strings in exported models."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import onnx
import pytest
import torch
import transformers
from torch import nn

from ortable import ExportOptions, to_onnx

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


def mlp() -> tuple[nn.Module, tuple[Any, ...], Any]:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return model, (torch.rand(3, 4),), ({0: "batch"},)


class Residual(nn.Module):
    """A residual block of a ResNet with a classification head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 3, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(3)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)) + x)
        return self.fc(torch.flatten(self.pool(x), 1))


def resnet() -> tuple[nn.Module, tuple[Any, ...], Any]:
    return Residual().eval(), (torch.rand(2, 3, 8, 8),), ({0: "batch"},)


def bert() -> tuple[nn.Module, tuple[Any, ...], Any]:
    config = transformers.BertConfig(vocab_size=99, max_position_embeddings=64, **SMALL)
    ids = torch.randint(0, 99, (2, 8))
    return transformers.BertModel(config).eval(), (ids,), ({0: "batch"},)


def vit() -> tuple[nn.Module, tuple[Any, ...], Any]:
    config = transformers.ViTConfig(image_size=32, patch_size=8, **SMALL)
    return transformers.ViTModel(config).eval(), (torch.rand(1, 3, 32, 32),), None


def llama() -> tuple[nn.Module, tuple[Any, ...], Any]:
    config = transformers.LlamaConfig(
        vocab_size=99, num_key_value_heads=1, use_cache=False, **SMALL
    )
    ids = torch.randint(0, 99, (2, 8))
    model = transformers.LlamaForCausalLM(config).eval()
    return model, (ids,), {"input_ids": {0: "batch", 1: "sequence"}}


MODELS = pytest.mark.parametrize("make", [mlp, resnet, bert, vit, llama])
OPTIMIZE = pytest.mark.parametrize("optimize", [True, False])


@functools.cache  # tests do not modify the model
def export_model(make: Any, optimize: bool) -> tuple[nn.Module, onnx.ModelProto]:
    torch.manual_seed(0)
    model, args, sizes = make()
    return model, to_onnx(model, args, dynamic_shapes=sizes, optimize=optimize)


def properties(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def iterate_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from iterate_nodes(attribute.g)


@pytest.mark.alternates(parts=2)
@MODELS
@OPTIMIZE
def test_results_are_called_as_the_nodes_of_torchs_graph(make: Any, optimize: bool) -> None:
    _, model = export_model(make, optimize)
    output_names = {value.name for value in model.graph.output}
    results_per_node: dict[str, int] = {}
    for node in iterate_nodes(model.graph):
        source = properties(node)["fx_node"]
        for name in filter(None, node.output):
            assert not name.startswith("_onx_")
            if name in output_names:
                continue
            fx_name, _, inner = name.partition(".")
            assert fx_name.isidentifier(), name
            if not inner:
                results_per_node[fx_name] = results_per_node.get(fx_name, 0) + 1
            elif "ortable.passes.rewrite" not in properties(node):
                assert fx_name == source, (name, source)
    assert results_per_node and set(results_per_node.values()) == {1}


@MODELS
@OPTIMIZE
def test_nodes_are_called_as_the_module_and_their_result(make: Any, optimize: bool) -> None:
    _, model = export_model(make, optimize)
    names = [node.name for node in iterate_nodes(model.graph)]
    assert len(set(names)) == len(names)
    for node in iterate_nodes(model.graph):
        path = properties(node).get("module_path", "")
        assert node.name.startswith(f"{path}/") if path else "/" not in node.name, node.name


@MODELS
def test_initializers_are_called_as_in_the_state_dict(make: Any) -> None:
    module, model = export_model(make, False)
    module_tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    constants = [i for i in model.graph.initializer if not i.name.startswith("init")]
    assert constants
    for tensor in constants:
        assert tensor.name in module_tensors and tensor.doc_string == tensor.name
        assert tuple(tensor.dims) == tuple(module_tensors[tensor.name].shape)


@MODELS
def test_weights_that_were_changed_say_whose_they_are(make: Any) -> None:
    module, model = export_model(make, True)
    module_tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    changed = [
        tensor
        for tensor in model.graph.initializer
        if tensor.name not in module_tensors and "." in tensor.name
    ]
    for tensor in changed:
        path, _, change = tensor.name.rpartition("_")
        assert path in module_tensors and tensor.doc_string == f"{path}, {change}"


def sizes(info: onnx.ValueInfoProto) -> list[Any]:
    return [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim]


@MODELS
@OPTIMIZE
def test_every_result_has_a_type_and_a_shape_that_onnx_agrees_with(
    make: Any, optimize: bool
) -> None:
    _, model = export_model(make, optimize)
    onnx.checker.check_model(model, full_check=True)
    value_infos = {info.name: info for info in (*model.graph.value_info, *model.graph.output)}
    assert set(value_infos) >= {name for node in model.graph.node for name in node.output if name}
    for info in value_infos.values():
        assert info.type.tensor_type.elem_type and info.type.tensor_type.HasField("shape")
    stripped = onnx.ModelProto()
    stripped.CopyFrom(model)
    del stripped.graph.value_info[:]
    inferred = onnx.shape_inference.infer_shapes(stripped, strict_mode=True, data_prop=True)
    assert inferred.graph.value_info
    for info in inferred.graph.value_info:
        exported = value_infos[info.name]
        assert exported.type.tensor_type.elem_type == info.type.tensor_type.elem_type
        assert len(sizes(exported)) == len(sizes(info))
        for exported_size, inferred_size in zip(sizes(exported), sizes(info), strict=True):
            if isinstance(inferred_size, int) and inferred_size:
                assert exported_size == inferred_size, (info.name, sizes(exported), sizes(info))


def test_dimensions_in_shapes_have_the_users_names() -> None:
    _, model = export_model(bert, True)
    all_sizes = {size for info in model.graph.value_info for size in sizes(info)}
    assert {size for size in all_sizes if isinstance(size, str)} == {"batch"}


def test_renamed_dimensions_of_outputs_are_renamed_everywhere() -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0].exp() * 2

    model = to_onnx(Masked(), (torch.rand(5),), output_dynamic_shapes={"output_0": {0: "positive"}})
    shapes = {info.name: sizes(info) for info in model.graph.value_info}
    assert shapes["exp"] == ["positive"] and sizes(model.graph.output[0]) == ["positive"]


# -- all names of a small model


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.gelu(self.fc(self.norm(x)))


class Small(nn.Module):
    """Two layers, and a view of what they return."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for layer in self.layers:
            x = layer(x)
        return x * self.scale, x.transpose(1, 2).reshape(2, -1)


def format_nodes(model: onnx.ModelProto) -> list[str]:
    return [
        f"{node.name}: {node.op_type}({', '.join(node.input)}) -> {', '.join(node.output)}"
        for node in model.graph.node
    ]


EXPECTED_NODES = """
layers.0.norm/layer_norm: LayerNormalization(x, layers.0.norm.weight, layers.0.norm.bias) -> layer_norm
layers.0.fc/linear.matmul: MatMul(layer_norm, layers.0.fc.weight_transposed) -> linear.matmul
layers.0.fc/linear: Add(linear.matmul, layers.0.fc.bias) -> linear
layers.0/gelu.div: Div(linear, init1_s_) -> gelu.div
layers.0/gelu.erf: Erf(gelu.div) -> gelu.erf
layers.0/gelu.mul: Mul(linear, init1_s_2) -> gelu.mul
layers.0/gelu.add: Add(gelu.erf, init1_s_3) -> gelu.add
layers.0/gelu: Mul(gelu.mul, gelu.add) -> gelu
layers.0/add: Add(x, gelu) -> add
layers.1.norm/layer_norm_1: LayerNormalization(add, layers.1.norm.weight, layers.1.norm.bias) -> layer_norm_1
layers.1.fc/linear_1.matmul: MatMul(layer_norm_1, layers.1.fc.weight_transposed) -> linear_1.matmul
layers.1.fc/linear_1: Add(linear_1.matmul, layers.1.fc.bias) -> linear_1
layers.1/gelu_1.div: Div(linear_1, init1_s_) -> gelu_1.div
layers.1/gelu_1.erf: Erf(gelu_1.div) -> gelu_1.erf
layers.1/gelu_1.mul: Mul(linear_1, init1_s_2) -> gelu_1.mul
layers.1/gelu_1.add: Add(gelu_1.erf, init1_s_3) -> gelu_1.add
layers.1/gelu_1: Mul(gelu_1.mul, gelu_1.add) -> gelu_1
layers.1/add_1: Add(add, gelu_1) -> add_1
mul: Mul(add_1, scale) -> output_0
transpose: Transpose(add_1) -> transpose
reshape: Reshape(transpose, init7_s2_2_-1) -> output_1
""".strip()  # noqa: E501


def test_the_names_of_a_small_model() -> None:
    model = to_onnx(Small(), (torch.rand(2, 3, 4),))
    assert format_nodes(model) == EXPECTED_NODES.splitlines()


# -- doc strings


class Undescribed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_the_doc_string_is_the_users() -> None:
    args = (torch.rand(2, 3, 4),)
    model = to_onnx(Small(), args)
    assert model.doc_string == "Two layers, and a view of what they return."
    assert model.producer_name == "ortable" and not model.graph.doc_string
    customized = to_onnx(Small(), args, export_options=ExportOptions(doc_string="mine"))
    assert customized.doc_string == "mine"
    assert to_onnx(Undescribed(), args).doc_string == ""
    assert to_onnx(nn.Linear(4, 2), args).doc_string == ""  # torch's docstring is omitted
    assert to_onnx(Small(), args, large_model=True).proto.doc_string == model.doc_string
