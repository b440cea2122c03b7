"""The model set of the benchmarks at small sizes: every model compiles as one graph, with a fixed
or with a free batch size, as the commit chooses (the sweeps run the other), and computes
what eager does."""

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


@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("free", [False, True], ids=["fixed batch", "free batch"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_runs_whole_in_onnxruntime_and_is_compiled_once(name, free):
    model, arguments = build(name, small=True)
    storage = {}
    if free:
        for argument in arguments:
            torch._dynamo.mark_dynamic(argument, 0)
        compiled = compiled_with(model, storage)
        _, others = build(name, small=True, batch=3)
    else:
        compiled, others = compiled_with(model, storage, dynamic=False), arguments
    check(model, compiled, arguments)
    check(model, compiled, others)
    assert [record["kind"] for record in storage["instance"]] == ["inference"]
