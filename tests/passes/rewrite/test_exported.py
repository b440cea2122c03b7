"""Rules run wherever the exporter puts nodes: in the graph, in branches, in local functions; and
the model says where they did."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch

import ortable
from ortable.debug.harness.runs import ModelRunner, check_same_values

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
    """A file of rules of a user."""
    path = tmp_path / "even.yaml"
    path.write_text(RULES, encoding="utf-8")
    return str(path)


class Part(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5, -2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cos(-x) * self.weight


class Whole(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Part(), Part()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.cos(-x), lambda x: torch.sin(-x), (x,))


def operators(model: onnx.ModelProto) -> list[str]:
    """Operators of the graph, of the graphs inside and of the functions."""

    def of(nodes: object) -> list[str]:
        found: list[str] = []
        for node in nodes:  # type: ignore[attr-defined]
            found.append(node.op_type)
            for attribute in node.attribute:
                found += of(attribute.g.node)
        return found

    return of(model.graph.node) + [op for f in model.functions for op in of(f.node)]


def run(model: onnx.ModelProto, x: torch.Tensor) -> list[torch.Tensor]:
    return ModelRunner(model)({model.graph.input[0].name: x})


@pytest.mark.parametrize("functions", [False, True])
def test_rules_run_in_local_functions(rules: str, functions: bool) -> None:
    module = Whole().eval()
    options = {"export_modules_as_functions": functions}
    plain = ortable.to_onnx(module, (X,), rewrites="none", **options)
    model = ortable.to_onnx(module, (X,), rewrites=[rules], **options)
    assert bool(model.functions) == functions
    assert "Neg" in operators(plain) and "Neg" not in operators(model)
    assert operators(model).count("Cos") == operators(plain).count("Cos")
    check_same_values([module(X).detach()], run(model, X))


def test_rules_run_in_branches(rules: str) -> None:
    model = ortable.to_onnx(Branches(), (X,), rewrites=[rules])
    assert operators(model).count("Neg") == 1, "the one of the sine"
    for x in (X, -X):
        check_same_values([Branches()(x)], run(model, x))


def test_the_model_says_which_rule_made_a_node(rules: str) -> None:
    module = Whole().eval()
    model, builder = ortable.to_onnx(module, (X,), rewrites=[rules], return_builder=True)
    assert builder.record.rewrites.counts() == {"cosine_of_negative": 2}
    plain = ortable.to_onnx(module, (X,), rewrites="none")
    known = [{p.key for p in n.metadata_props} for n in plain.graph.node if n.op_type == "Cos"]
    made = [node for node in model.graph.node if node.op_type == "Cos"]
    for node, keys in zip(made, known, strict=True):
        texts = {p.key: p.value for p in node.metadata_props}
        assert texts["ortable.passes.rewrite"] == "cosine_of_negative"
        assert set(texts) == {*keys, "ortable.passes.rewrite"}, "what torch said of the node stays"
    others = [node for node in model.graph.node if node.op_type != "Cos"]
    assert not any(
        p.key == "ortable.passes.rewrite" for node in others for p in node.metadata_props
    )


def test_nothing_is_rewritten_without_optimize(rules: str) -> None:
    model, builder = ortable.to_onnx(
        Whole().eval(), (X,), rewrites=[rules], optimize=False, return_builder=True
    )
    assert operators(model).count("Neg") == 2
    assert not builder.record.rewrites.fired


def test_two_exports_are_equal_to_the_byte(rules: str) -> None:
    module = Whole().eval()
    found = [ortable.to_onnx(module, (X,), rewrites=["default", rules]) for _ in range(2)]
    assert found[0].SerializeToString() == found[1].SerializeToString()


def test_the_backend_runs_the_rules_too(rules: str) -> None:
    torch._dynamo.reset()
    module = Whole().eval()
    compiled = torch.compile(module, backend="ortable", options={"rewrites": ["default", rules]})
    check_same_values([module(X).detach()], [compiled(X).detach()])
    torch._dynamo.reset()
