"""Rules run in graphs, branches and local functions; metadata records the rewritten nodes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch

import ortable
from ortable.testing.runs import ModelRunner, check_same_values

RULES = """
- rewrite: cosine_of_negative
  stage: simplify
  why: the cosine is even
  pattern: return Cos(Neg(x))
  replace: return Cos(x)
  samples:
    - {x: "f32[2,3]", expect: Cos}
    - {x: "f32[2,3]", graph: "return Cos(Abs(x))", unchanged: the pattern does not fit}
"""
X = torch.tensor([[-1.0, 0.5], [0.0, 3.0]])


@pytest.fixture
def rules(tmp_path: Path) -> str:
    """Return the path of a user's rule file."""
    path = tmp_path / "even.yaml"
    path.write_text(RULES, encoding="utf-8")
    return str(path)


class CosineLayer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5, -2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cos(-x) * self.weight


class TwoLayers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = CosineLayer(), CosineLayer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.cos(-x), lambda x: torch.sin(-x), (x,))


def list_operators(model: onnx.ModelProto) -> list[str]:
    """Return the operators of the graph, its subgraphs and the local functions."""

    def collect(nodes: object) -> list[str]:
        op_types: list[str] = []
        for node in nodes:  # type: ignore[attr-defined]
            op_types.append(node.op_type)
            for attribute in node.attribute:
                op_types += collect(attribute.g.node)
        return op_types

    return collect(model.graph.node) + [op for f in model.functions for op in collect(f.node)]


def run(model: onnx.ModelProto, x: torch.Tensor) -> list[torch.Tensor]:
    return ModelRunner(model)({model.graph.input[0].name: x})


@pytest.mark.parametrize("functions", [False, True])
def test_rules_run_in_local_functions(rules: str, functions: bool) -> None:
    module = TwoLayers().eval()
    options = {"export_modules_as_functions": functions}
    plain = ortable.to_onnx(module, (X,), rewrites="none", **options)
    model = ortable.to_onnx(module, (X,), rewrites=[rules], **options)
    assert bool(model.functions) == functions
    assert "Neg" in list_operators(plain) and "Neg" not in list_operators(model)
    assert list_operators(model).count("Cos") == list_operators(plain).count("Cos")
    check_same_values([module(X).detach()], run(model, X))


def test_rules_run_in_branches(rules: str) -> None:
    model = ortable.to_onnx(Branches(), (X,), rewrites=[rules])
    assert list_operators(model).count("Neg") == 1, "the Neg under Sin stays"
    for x in (X, -X):
        check_same_values([Branches()(x)], run(model, x))


def test_the_model_says_which_rule_made_a_node(rules: str) -> None:
    module = TwoLayers().eval()
    model, builder = ortable.to_onnx(module, (X,), rewrites=[rules], return_builder=True)
    assert builder.record.rewrites.counts() == {"cosine_of_negative": 2}
    plain = ortable.to_onnx(module, (X,), rewrites="none")
    expected = [{p.key for p in n.metadata_props} for n in plain.graph.node if n.op_type == "Cos"]
    rewritten_nodes = [node for node in model.graph.node if node.op_type == "Cos"]
    for node, keys in zip(rewritten_nodes, expected, strict=True):
        properties = {p.key: p.value for p in node.metadata_props}
        assert properties["ortable.passes.rewrite"] == "cosine_of_negative"
        assert set(properties) == {*keys, "ortable.passes.rewrite"}, "torch's metadata is preserved"
    other_nodes = [node for node in model.graph.node if node.op_type != "Cos"]
    assert not any(
        p.key == "ortable.passes.rewrite" for node in other_nodes for p in node.metadata_props
    )


def test_nothing_is_rewritten_without_optimize(rules: str) -> None:
    model, builder = ortable.to_onnx(
        TwoLayers().eval(), (X,), rewrites=[rules], optimize=False, return_builder=True
    )
    assert list_operators(model).count("Neg") == 2
    assert not builder.record.rewrites.fired


def test_two_exports_are_equal_to_the_byte(rules: str) -> None:
    module = TwoLayers().eval()
    models = [ortable.to_onnx(module, (X,), rewrites=["default", rules]) for _ in range(2)]
    assert models[0].SerializeToString() == models[1].SerializeToString()


def test_the_backend_runs_the_rules_too(rules: str) -> None:
    torch._dynamo.reset()
    module = TwoLayers().eval()
    compiled = torch.compile(module, backend="ortable", options={"rewrites": ["default", rules]})
    check_same_values([module(X).detach()], [compiled(X).detach()])
    torch._dynamo.reset()
