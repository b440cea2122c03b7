"""Weights without checks (`freeze="trust"`) and weights in the graph (`install_free_tensors`)."""

from __future__ import annotations

import copy

import pytest
import torch

import ortable
from ortable.backend.cache.memory import clear_caches
from tests.backend.threads import in_threads

from .freezing import BATCH, backends, check, compile_frozen, is_frozen, make_model, rests

__all__ = ["backends"]  # a fixture that the tests use

WEIGHTS_IN_GRAPH = torch._dynamo.config.patch(install_free_tensors=True)


def run_without_grad(compiled):
    with torch.no_grad():
        return compiled(BATCH)


def double_weights(model):
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)


@pytest.mark.parametrize("in_graph", [False, True])
def test_trusted_weights_are_read_again_when_told(backends, in_graph):
    model = make_model()
    with torch._dynamo.config.patch(install_free_tensors=in_graph):
        compiled = compile_frozen(model, backends, freeze="trust")
    before = run_without_grad(compiled)
    double_weights(model)
    torch.testing.assert_close(run_without_grad(compiled), before)
    ortable.refresh(model)
    rests(compiled, model, backends)
    source = backends[-1].source
    assert "_version" not in source
    assert "windows" not in source


@pytest.mark.parametrize("in_graph", [False, True])
def test_steps_of_optimizers_are_seen_with_trust(backends, in_graph):
    model = make_model()
    with torch._dynamo.config.patch(install_free_tensors=in_graph):
        compiled = compile_frozen(model, backends, freeze="trust")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(BATCH).sum().backward()
    optimizer.step()
    rests(compiled, model, backends)


def test_assigned_weights_are_seen_with_trust(backends):
    model = make_model()
    compiled = compile_frozen(model, backends, freeze="trust")
    model[0].weight = torch.nn.Parameter(torch.ones(5, 4))
    check(compiled, model)


def test_a_graph_for_training_trusts_nothing(backends):
    model = make_model()
    compiled = torch.compile(model, backend="ortable", options={"freeze": "trust"})
    compiled(BATCH)
    assert isinstance(backends[-1].frozen, str)


WRITES = {
    "in place": double_weights,
    "data": lambda model: setattr(model[0].weight, "data", torch.ones(5, 4)),
    "through data": lambda model: model[0].weight.data.mul_(3),
    "state": lambda model: model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()}),
    "a buffer": lambda model: model[2].running_mean.add_(1),
}


@pytest.mark.parametrize("name", WRITES)
def test_weights_in_the_graph_are_not_passed_and_their_changes_are_seen(backends, name):
    model = make_model()
    with WEIGHTS_IN_GRAPH:
        compiled = compile_frozen(model, backends)
    check(compiled, model)
    call = backends[-1]._short_call
    assert call is not None
    assert call.__code__.co_varnames[:2] == ("args", f"a{len(backends[-1].compiled.inputs) - 1}")
    WRITES[name](model)
    rests(compiled, model, backends)
    assert is_frozen(backends[-1])


def test_a_forked_child_has_no_call_of_a_session_of_its_parent(backends):
    model = make_model()
    torch.set_num_threads(2)  # sessions of one thread survive a fork
    try:
        with WEIGHTS_IN_GRAPH:
            compiled = compile_frozen(model, backends)
        assert backends[-1]._short_call is not None
        parent_session = backends[-1].session
        clear_caches()  # as in the child
        assert parent_session in backends[-1].after_fork()
        assert backends[-1]._short_call is None and backends[-1]._call is None
        check(compiled, model)
        assert backends[-1].session is not parent_session
    finally:
        torch.set_num_threads(1)


def test_weights_in_the_graph_that_are_results_are_passed(backends):
    class ReturningModel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x), self.linear.weight, x.shape[0]

    model = ReturningModel().eval()
    with WEIGHTS_IN_GRAPH:
        compiled = torch.compile(model, backend="ortable")
        for _ in range(3):
            with torch.no_grad():
                results = compiled(BATCH)
            torch.testing.assert_close(results[0], model(BATCH)[0])
            assert results[1] is model.linear.weight


def test_weights_in_the_graph_with_gradients_on(backends):
    model = make_model()
    eager = copy.deepcopy(model)
    with WEIGHTS_IN_GRAPH:
        compiled = torch.compile(model, backend="ortable")
        compiled(BATCH).sum().backward()
    eager(BATCH).sum().backward()
    torch.testing.assert_close(model[0].weight.grad, eager[0].weight.grad)


def test_weights_in_the_graph_and_sizes_that_vary(backends):
    model = make_model()
    with WEIGHTS_IN_GRAPH:
        compiled = torch.compile(model, backend="ortable", dynamic=True)
        for size in (3, 2, 3):
            check(compiled, model, BATCH[:size])
        double_weights(model)
        check(compiled, model, BATCH[:2])


def test_several_threads_and_a_write(backends):
    model = make_model()
    with WEIGHTS_IN_GRAPH:
        compiled = compile_frozen(model, backends)
    expected = run_without_grad(model)
    failures = []

    def compare_with_eager(_):
        for _ in range(100):
            if not torch.allclose(run_without_grad(compiled), expected, rtol=1e-5, atol=1e-5):
                failures.append(1)

    in_threads(4, compare_with_eager)
    assert not failures
    double_weights(model)
    check(compiled, model)
