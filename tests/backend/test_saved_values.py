"""Gradients of modules that write into tensors that their gradient reads.

torch's partition saves the argument and recomputes values from it after the forward graph has
written into it: aot_eager and inductor count such a write twice.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ortable.backend.aot import saved_values


class _Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(-1, 2, 12).reshape(3, 4))
        self.b = nn.Buffer(torch.linspace(0.5, 1, 12).reshape(4, 3))
        self.calls = nn.Buffer(torch.zeros(()))
        self.norm = nn.BatchNorm1d(4)


class ParameterWriter(_Module):
    def forward(self, x):
        with torch.no_grad():
            self.w.add_(1.0)
        return x * self.w * self.w


class BufferWriter(_Module):
    def forward(self, x):
        self.b.mul_(2)
        return x * self.b.t() * self.w


class CounterWriter(_Module):
    def forward(self, x):
        self.calls.add_(1)
        return torch.tanh(x * self.w) * self.calls


class CounterReader(_Module):
    def forward(self, x):
        self.calls.add_(1)
        return nn.functional.linear(x, self.w) * self.calls**2 + torch.exp(self.calls) * x.sum()


class StatisticsReader(_Module):
    def forward(self, x):
        self.calls.add_(1)
        return self.norm(x) * self.calls * self.norm.running_mean


def _run_three_steps(model, module):
    results = []
    for _ in range(3):
        x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
        module.zero_grad()
        y = model(x)
        y.sum().backward()
        results += [y.detach(), x.grad]
        results += [p.grad.clone() for p in module.parameters() if p.grad is not None]
        results += [value.clone() for value in module.state_dict().values()]
    return results


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "program", [ParameterWriter, BufferWriter, CounterWriter, CounterReader, StatisticsReader]
)
def test_what_is_saved_is_not_what_is_written(program, dynamic):
    module = program()
    expected = _run_three_steps(module, module)
    module = program()
    results = _run_three_steps(torch.compile(module, backend="ortable", dynamic=dynamic), module)
    torch.testing.assert_close(results, expected)


def test_a_view_of_what_is_written_is_saved_as_it_was(monkeypatch):
    """torch's partition prefers to save the argument, but may also save the view."""
    graph = torch.fx.Graph()
    buffer, x = graph.placeholder("buffer"), graph.placeholder("x")
    view = graph.call_function(torch.ops.aten.t.default, (buffer,))
    y = graph.call_function(torch.ops.aten.mul.Tensor, (x, view))
    incremented = graph.call_function(torch.ops.aten.add.Tensor, (buffer, 1))
    graph.call_function(torch.ops.aten.copy_.default, (buffer, incremented))
    graph.output((y, view))
    forward = torch.fx.GraphModule({}, graph)
    monkeypatch.setattr(
        "ortable.compat.torch.min_cut_partition", lambda joint, inputs, **_: (joint, None)
    )
    partitioned_graph, _ = saved_values.partition_joint(forward, (), num_fwd_outputs=1)
    before = torch.arange(6.0).reshape(2, 3)
    argument = before.clone()
    result, saved = partitioned_graph(argument, torch.ones(3, 2))
    assert torch.equal(argument, before + 1)
    assert torch.equal(result, before.t()) and torch.equal(saved, before.t())


@pytest.mark.parametrize("reduce", [torch.amax, torch.amin], ids=["amax", "amin"])
def test_the_gradient_of_a_float16_extreme_finds_the_saved_extreme(reduce, fresh_dynamo):
    x = torch.linspace(-2, 2, 24, dtype=torch.float16).reshape(8, 3).requires_grad_()

    def compute(x):
        return reduce(torch.sigmoid(x) * 1.1, 0) + reduce((x * 1.1).abs().unsqueeze(0), (0, 2))[:3]

    (expected,) = torch.autograd.grad(compute(x).sum(), x)
    (result,) = torch.autograd.grad(torch.compile(compute, backend="ortable")(x).sum(), x)
    torch.testing.assert_close(result, expected, rtol=2e-3, atol=2e-3)
