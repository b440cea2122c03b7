"""Small benchmark models compile as one graph, with a fixed or free batch size, like eager."""

from __future__ import annotations

import pytest
import torch

from benchmarks.models.inference import MODELS, build

pytestmark = pytest.mark.alternates(parts=3)

TOLERANCE = 1e-4  # relative to the largest value of the result


@pytest.fixture(autouse=True)
def allow_recurrent_networks():
    """Let dynamo capture nn.LSTM, which it does only on request."""
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def check_equals_eager(model, compiled, arguments):
    with torch.no_grad():
        expected, got = model(*arguments), compiled(*arguments)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.stride() == expected.stride()
    assert (got - expected).abs().max() <= TOLERANCE * expected.abs().max()


def compile_model(model, storage, **kwargs):
    return torch.compile(
        model, backend="ortable", fullgraph=True, options={"storage": storage}, **kwargs
    )


@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("is_free", [False, True], ids=["fixed batch", "free batch"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_runs_whole_in_onnxruntime_and_is_compiled_once(name, is_free):
    model, arguments = build(name, small=True)
    storage = {}
    if is_free:
        for argument in arguments:
            torch._dynamo.mark_dynamic(argument, 0)
        compiled = compile_model(model, storage)
        _, other_arguments = build(name, small=True, batch=3)
    else:
        compiled, other_arguments = compile_model(model, storage, dynamic=False), arguments
    check_equals_eager(model, compiled, arguments)
    check_equals_eager(model, compiled, other_arguments)
    assert [record["kind"] for record in storage["instance"]] == ["inference"]
