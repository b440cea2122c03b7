"""Metadata of exported models: names, provenance of nodes, versions and user metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import ortable
from ortable.errors import OptionError
from ortable.exporter.frontend.export_request import ExportOptions
from ortable.exporter.frontend.fake_weights import match_input_parameters
from ortable.exporter.to_onnx import to_onnx

from .helpers import assert_same, run_onnx

STATE_DICT = ExportOptions(initializer_names="state_dict")
PLACEHOLDERS = ExportOptions(initializer_names="placeholders")
PROVENANCE_KEYS = {"fx_node", "aten_target", "module_path", "source"}


class Named(torch.nn.Module):
    """Weights whose names differ by a dot or by case, or equal an input's; tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.emb.weight
        self.a = torch.nn.Module()
        self.a.b = torch.nn.Parameter(torch.rand(3))
        self.a_b = torch.nn.Parameter(torch.rand(3))
        self.A_b = torch.nn.Parameter(torch.rand(3))
        self.x = torch.nn.Parameter(torch.rand(3))
        self.output_0 = torch.nn.Parameter(torch.rand(3))
        self.add = torch.nn.Parameter(torch.rand(3))
        self.register_buffer("table", torch.rand(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = self.emb(x) + self.a.b + self.a_b * 2 + self.A_b * 3 + self.x * 4
        return self.head(total + self.output_0 + self.add + self.table)


def properties(proto: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in proto.metadata_props}


def weights(model: onnx.ModelProto) -> dict[str, str]:
    return {
        tensor.name: tensor.doc_string for tensor in model.graph.initializer if tensor.doc_string
    }


def test_weights_are_named_as_in_the_state_dict() -> None:
    module = Named()
    args = (torch.tensor([1, 4]),)
    # with constant folding, self.a_b * 2 would be one constant instead of the weight
    options = replace(STATE_DICT, constant_folding=False)
    model = to_onnx(module, args, export_options=options)
    assert weights(model) == {
        "a_b": "a_b",
        "A_b": "A_b",
        "p_x": "x",  # the input has that name
        "p_output_0": "output_0",  # the output has that name
        "add": "add",
        "emb.weight": "emb.weight",
        "a.b": "a.b",
        "table": "table",
    }
    for name, path in weights(model).items():
        tensor = next(t for t in model.graph.initializer if t.name == name)
        module_tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        assert (onnx.numpy_helper.to_array(tensor) == module_tensors[path].detach().numpy()).all()
    assert_same(model, module, args)


@pytest.mark.parametrize("options", [STATE_DICT, PLACEHOLDERS])
def test_tied_weights_are_one_initializer_and_the_other_names_are_noted(options) -> None:
    module = Named()
    model = to_onnx(module, (torch.tensor([1, 4]),), export_options=options)
    paths = list(weights(model).values())
    assert "emb.weight" in paths and "head.weight" not in paths
    assert sorted(set(paths)) == sorted(paths)
    assert properties(model)["ortable.tied_weights"] == "head.weight=emb.weight"
    assert_same(model, module, (torch.tensor([0, 3]),))


def test_placeholder_names_are_torchs_and_the_paths_are_written_too() -> None:
    model = to_onnx(torch.nn.Linear(3, 2), (torch.rand(1, 3),), export_options=PLACEHOLDERS)
    assert weights(model) == {"p_weight": "weight", "p_bias": "bias"}


def test_a_weight_that_is_kept_transposed_says_whose_it_is() -> None:
    module = torch.nn.Linear(3, 2, bias=False)
    model = to_onnx(module, (torch.rand(4, 2, 3),))
    assert weights(model) == {"weight_transposed": "weight, transposed"}
    assert_same(model, module, (torch.rand(4, 2, 3),))


def test_buffers_that_change_have_their_path_as_output() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Module()
            self.inner.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.inner.count.add_(1)
            return x + self.inner.count

    model = to_onnx(Counter(), (torch.rand(1),), export_options=STATE_DICT)
    assert [value.name for value in model.graph.output] == ["output_0", "inner.count"]
    assert weights(model) == {"b_inner_count": "inner.count"}
    assert run_onnx(model, {"x": torch.zeros(1).numpy()})[1].item() == 1


def test_large_models_and_fake_weights_have_these_names_too(tmp_path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    large = to_onnx(
        module, (torch.rand(1, 3),), export_options=STATE_DICT, large_model=True,
        external_threshold=1,
    )  # fmt: skip
    assert sorted(large.tensors) == sorted(module.state_dict())
    with FakeTensorMode():
        fake = torch.nn.Linear(3, 4)
        model = to_onnx(fake, (torch.rand(2, 3),), export_options=STATE_DICT)
    names = [value.name for value in model.graph.input]
    assert names == ["input", "weight", "bias"]
    real, x = torch.nn.Linear(3, 4), torch.rand(2, 3)
    feeds = match_input_parameters(real, names, (x,))
    (result,) = run_onnx(model, {k: v.detach().numpy() for k, v in feeds.items()})
    torch.testing.assert_close(result, real(x))


# -- metadata of nodes


def iterate_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from iterate_nodes(attribute.g)


class Branches(torch.nn.Module):
    """A model with control flow, a lowering to Loop, sizes as outputs and a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor):
        y = self.linear(x)
        z = torch.cond(y.sum() > 0, lambda v: torch.sin(v) + 1, lambda v: torch.cos(v), (y,))
        return z.flatten(), x.shape[0] * 2, torch.linalg.cholesky(z.T @ z)


def test_every_node_says_where_it_comes_from_inside_graphs_too() -> None:
    model = to_onnx(Branches(), (torch.rand(4, 3),), dynamic_shapes={"x": {0: "n"}})
    nodes = list(iterate_nodes(model.graph))
    assert len(nodes) > len(model.graph.node)
    missing = [node.op_type for node in nodes if not properties(node).get("fx_node")]
    assert missing == []
    assert {key for node in nodes for key in properties(node)} <= PROVENANCE_KEYS
    inner = [properties(node) for node in nodes if node.op_type in ("Sin", "Cos")]
    assert [p["aten_target"] for p in inner] == ["aten.sin.default", "aten.cos.default"]
    assert all(p["source"].startswith("test_metadata.py:") for p in inner)
    gemm = next(node for node in nodes if node.op_type in ("Gemm", "MatMul"))
    entries = properties(gemm)
    assert entries["module_path"] == "linear" and entries["aten_target"] == "aten.linear.default"
    assert entries["source"].endswith("y = self.linear(x)")
    linalg_nodes = [n for n in nodes if properties(n)["aten_target"].startswith("aten.linalg")]
    assert any(node not in list(model.graph.node) for node in linalg_nodes)


def test_nodes_of_functions_and_calls_of_functions_too() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    model = to_onnx(module, (torch.rand(2, 3),), export_modules_as_functions=True)
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    calls = [n for n in nodes if n.domain == "aten_local_function"]
    assert [properties(n) for n in calls] == [
        {"module_path": "0", "module_type": "torch.nn.modules.linear.Linear"},
        {"module_path": "1", "module_type": "torch.nn.modules.activation.ReLU"},
    ]
    others = [n for n in nodes if n not in calls and n.op_type != "Constant"]
    assert others and all("fx_node" in properties(n) for n in others)


# -- metadata of the model


def test_the_examples_of_the_page_run() -> None:
    names: dict[str, Any] = {"__name__": "page", "torch": torch, "ortable": ortable}
    docs = Path(__file__).parents[2] / "docs"
    for name, title in (
        ("export-operators.md", "Converters of your own"),
        ("export.md", "What the model says about itself"),
    ):
        section = (docs / name).read_text(encoding="utf-8").split(f"\n## {title}\n")[1]
        section = section.split("\n## ")[0]
        snippets = re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
        assert snippets
        for code in snippets:
            exec(compile(code, name, "exec"), names)
    assert [node.op_type for node in names["model"].graph.node] == ["Gemm", "Celu"]


def test_the_model_says_who_made_it_and_carries_the_users_notes() -> None:
    options = ExportOptions(metadata={"license": "MIT", "trained.on": "nothing"})
    model = to_onnx(Branches(), (torch.rand(4, 3),), export_options=options)
    metadata = properties(model)
    assert (model.producer_name, model.producer_version) == ("ortable", ortable.__version__)
    assert metadata["ortable.version"] == ortable.__version__
    assert metadata["torch.version"] == torch.__version__
    assert (metadata["license"], metadata["trained.on"]) == ("MIT", "nothing")
    assert model.graph.name == "Branches"
    onnx.checker.check_model(model)


def test_a_program_keeps_the_name_of_its_module() -> None:
    program = torch.export.export(Branches(), (torch.rand(4, 3),))
    assert to_onnx(program).graph.name == "Branches"
    assert to_onnx(program.module(), (torch.rand(4, 3),)).graph.name in ("Branches", "ortable")
    large = to_onnx(program, large_model=True)
    assert large.proto.graph.name == "Branches"
    assert properties(large.proto)["torch.version"] == torch.__version__


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metadata": {"a": 1}}, "maps texts to texts, not 'a' to 1"),
        ({"metadata": {"ortable.version": "9"}}, "is reserved: to_onnx writes it"),
        ({"initializer_names": "paths"}, "initializer_names is one of"),
        ({"value_info": "yes"}, "value_info is True or False"),
        ({"doc_string": 3}, "doc_string is a text or None"),
    ],
)
def test_these_options_are_checked(options, message) -> None:
    with pytest.raises(OptionError, match=message):
        ExportOptions(**options)


def test_shapes_of_intermediate_results_are_written_unless_they_are_not_wanted() -> None:
    class ConcatSin(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(torch.cat([x, x])) + 1

    args = (torch.rand(4, 3),)
    sizes = {"x": {0: "n"}}
    no_value_info = ExportOptions(value_info=False)
    plain = to_onnx(ConcatSin(), args, dynamic_shapes=sizes, export_options=no_value_info)
    assert not plain.graph.value_info
    model = to_onnx(ConcatSin(), args, dynamic_shapes=sizes)
    shapes = {
        info.name: [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim]
        for info in model.graph.value_info
    }
    assert shapes["cat"] == ["2*n", 3] and list(shapes.values()) == [["2*n", 3]] * 2
    assert {info.type.tensor_type.elem_type for info in model.graph.value_info} == {1}
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    assert inferred.graph.output[0].type == model.graph.output[0].type


def test_inputs_and_outputs_have_type_and_shape() -> None:
    model = to_onnx(Branches(), (torch.rand(4, 3),), dynamic_shapes={"x": {0: "n"}})
    (x,) = model.graph.input
    assert [d.dim_param or d.dim_value for d in x.type.tensor_type.shape.dim] == ["n", 3]
    types = [value.type.tensor_type for value in model.graph.output]
    assert [t.elem_type for t in types] == [1, 7, 1]
    assert [len(t.shape.dim) for t in types] == [1, 0, 2]
