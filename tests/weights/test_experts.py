"""Quantized weights of mixture-of-experts layers, in two implementations of transformers."""

from __future__ import annotations

import pytest
import torch

import ortable

from .experts import HIDDEN, block
from .models import distance, operators

IMPLEMENTATIONS = ("batched_mm", "grouped_mm")
MATRICES = 2 * 4  # gate_up_proj and down_proj of 4 experts; the router is one more
X = torch.randn(1, 16, HIDDEN, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_an_export_has_codes_of_every_expert(implementation: str) -> None:
    model = block("mixtral", implementation)
    program = ortable.export(model, (X,), target="onnxruntime", weights="int8")
    proto = program.model_proto
    assert operators(proto)["MatMulNBits"] == MATRICES + 1
    assert len(program.report.weights.weights) == MATRICES + 1
    stored = sum(len(tensor.raw_data) for tensor in proto.graph.initializer)
    assert stored < 0.35 * 4 * sum(parameter.numel() for parameter in model.parameters())
    assert distance(program(X), model(X)) < 0.1


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_compiled_model_has_codes_of_every_expert(implementation: str) -> None:
    model = block("mixtral", implementation)
    torch._dynamo.reset()
    storage: dict = {}
    options = {"weights": "int8", "storage": storage}
    run = torch.compile(model, backend="ortable", options=options)
    with torch.no_grad():
        assert distance(run(X), model(X)) < 0.1
    account = storage["instance"][0].weights
    assert operators(account["onnx"])["MatMulNBits"] == MATRICES + 1
    names = {weight.name for weight in account["rounded"]}
    assert {
        f"experts.{part}.{i}" for part in ("gate_up_proj", "down_proj") for i in range(4)
    } < names


@pytest.mark.parametrize("excluded", ["experts.down_proj", "experts.down_proj.*"])
def test_a_name_is_that_of_the_layer_or_of_one_expert(excluded: str) -> None:
    model = block("mixtral", "grouped_mm")
    torch._dynamo.reset()
    storage: dict = {}
    options = {"weights": {"kind": "int8", "exclude": [excluded]}, "storage": storage}
    run = torch.compile(model, backend="ortable", options=options)
    with torch.no_grad():
        run(X)
    names = {weight.name for weight in storage["instance"][0].weights["rounded"]}
    assert "experts.gate_up_proj.0" in names
    assert not any("down_proj" in name for name in names)
