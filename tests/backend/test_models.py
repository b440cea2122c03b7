"""The model set of the benchmarks at small sizes: every model compiles as one graph, with fixed
and with free batch sizes, and computes what eager does."""

from __future__ import annotations

import pytest
import torch

from benchmarks.models.inference import MODELS, build

TOLERANCE = 1e-4  # of the largest value of the result


@pytest.fixture(autouse=True)
def recurrent_networks():
    """dynamo captures nn.LSTM on request only."""
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def check(model, compiled, arguments):
    with torch.no_grad():
        expected, got = model(*arguments), compiled(*arguments)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.stride() == expected.stride()
    assert (got - expected).abs().max() <= TOLERANCE * expected.abs().max()


def compiled_with(model, storage, **kwargs):
    return torch.compile(
        model, backend="ortable", fullgraph=True, options={"storage": storage}, **kwargs
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_model_runs_whole_in_onnxruntime(name):
    model, arguments = build(name, small=True)
    storage = {}
    compiled = compiled_with(model, storage, dynamic=False)
    check(model, compiled, arguments)
    check(model, compiled, arguments)
    assert [record["kind"] for record in storage["instance"]] == ["inference"]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_a_free_batch_size_is_compiled_once(name):
    model, arguments = build(name, small=True)
    for argument in arguments:
        torch._dynamo.mark_dynamic(argument, 0)
    storage = {}
    compiled = compiled_with(model, storage)
    check(model, compiled, arguments)
    _, others = build(name, small=True, batch=3)
    check(model, compiled, others)
    assert [record["kind"] for record in storage["instance"]] == ["inference"]
