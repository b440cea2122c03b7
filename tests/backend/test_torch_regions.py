"""Option `torch_regions`: graphs without a session run in eager or compiled by inductor."""

from __future__ import annotations

import copy
import shutil
import sys

import pytest
import torch
from torch import nn

from ortable.backend.autotune import decisions, inductor
from ortable.backend.options import OrtOptions
from ortable.compat import torch as compat
from ortable.errors import FallbackWarning, OptionError
from tests.backend.against_eager import assert_close, call_until_decided

pytestmark = pytest.mark.alternates(parts=3)

NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


@pytest.fixture(autouse=True)
def clear_state(monkeypatch):
    decisions.STORE.clear()
    monkeypatch.setattr(inductor, "_warned", False)
    limit = sys.getrecursionlimit()
    yield
    decisions.STORE.clear()
    sys.setrecursionlimit(limit)  # inductor raises it for the process


@pytest.fixture
def compiled_graphs(monkeypatch):
    """List the graphs that inductor compiles."""
    graphs = []
    compile_graph = compat.inductor_compile

    def record(graph_module, *args, **kwargs):
        graphs.append(graph_module)
        return compile_graph(graph_module, *args, **kwargs)

    monkeypatch.setattr(compat, "inductor_compile", record)
    return graphs


class ConvolutionalNetwork(nn.Module):
    """Convolutions that torch trains, with statistics and random numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)
        self.norm, self.dropout = nn.BatchNorm2d(8), nn.Dropout(0.5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        return self.second(self.dropout(x)).mean((2, 3))


def compile_with(net, **options):
    """Return the compiled model and the storage of its records."""
    storage = {}
    options = {"hints": False, "storage": storage, **options}
    return torch.compile(net, backend="ortable", options=options), storage


def check_training(net, run, sizes, steps=3):
    """Compare steps of a compiled model with eager: loss, gradients, buffers, random numbers."""
    eager = copy.deepcopy(net)
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (net, eager)]
    for step in range(steps):
        x = torch.randn(sizes[step % len(sizes)], 3, 8, 8)
        losses = []
        for module, optimizer in zip((run, eager), optimizers, strict=True):
            torch.manual_seed(step)
            optimizer.zero_grad()
            losses.append(module(x).pow(2).sum())
            losses[-1].backward()
        assert_close(losses[0], losses[1])
        assert_close([p.grad for p in net.parameters()], [p.grad for p in eager.parameters()])
        for optimizer in optimizers:
            optimizer.step()
        assert_close([*net.buffers()], [*eager.buffers()])


@pytest.mark.slow  # a C++ compiler runs
@NEEDS_COMPILER
@pytest.mark.parametrize("sizes", [(2,), (2, 3, 5)])
def test_inductor_trains_a_network_of_convolutions(compiled_graphs, sizes):
    net = ConvolutionalNetwork()
    run, _ = compile_with(net, torch_regions="inductor")
    check_training(net, run, sizes)
    assert len(compiled_graphs) == min(len(sizes), 2)  # the second one has a dynamic batch


@NEEDS_COMPILER
def test_auto_measures_eager_and_inductor():
    net = ConvolutionalNetwork()
    run, storage = compile_with(net, torch_regions="auto")
    check_training(net, run, (2,), steps=5)
    (tuner,) = storage["autotune"]
    assert tuner._candidates == ("onnxruntime", "torch", "inductor")  # dropout is in a session
    assert tuner.label.startswith("a step of the forward graph of ConvolutionalNetwork.forward")


@NEEDS_COMPILER
def test_autotune_measures_inductor_for_graphs_of_onnx_runtime(compiled_graphs):
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).eval()
    run, storage = compile_with(net, autotune=True, torch_regions="auto")
    x = torch.randn(2, 4)
    with torch.no_grad():
        assert_close(call_until_decided(run, x, storage), net(x))
        assert_close(run(x), net(x))
    (tuner,) = storage["autotune"]
    assert tuner.decisions[()].seconds.keys() == {"onnxruntime", "torch", "inductor"}
    assert tuner.kept in tuner.decisions[()].seconds and len(compiled_graphs) == 1


@NEEDS_COMPILER
def test_a_graph_of_sessions_is_left_to_onnx_runtime(compiled_graphs):
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).eval()
    run, storage = compile_with(net, torch_regions="inductor")
    with torch.no_grad():
        assert_close(run(torch.ones(2, 4)), net(torch.ones(2, 4)))
    assert not compiled_graphs and "autotune" not in storage


def fail(*_, **__):
    raise RuntimeError("no C++ compiler\nsecond line")


@pytest.mark.parametrize("value", ["inductor", "auto"])
def test_without_a_compiler_the_graph_runs_in_eager_with_one_warning(monkeypatch, value):
    monkeypatch.setattr(compat, "inductor_compile", fail)
    with pytest.warns(FallbackWarning, match=r"\(RuntimeError: no C\+\+ compiler\)") as record:
        for net in (ConvolutionalNetwork(), ConvolutionalNetwork()):
            run, storage = compile_with(net, torch_regions=value, hints=True)
            check_training(net, run, (2,))
            assert all("inductor" not in tuned._candidates for tuned in storage.get("autotune", ()))
    assert [item.category for item in record].count(FallbackWarning) == 1


def test_without_a_compiler_it_is_an_error_where_fallbacks_are(monkeypatch):
    monkeypatch.setattr(compat, "inductor_compile", fail)
    run, _ = compile_with(ConvolutionalNetwork(), torch_regions="inductor", fallback="error")
    with pytest.raises(Exception, match=r"OptionError.*torch_regions: inductor cannot compile"):
        run(torch.randn(2, 3, 8, 8))


def test_eager_is_the_default(compiled_graphs):
    net = ConvolutionalNetwork()
    check_training(net, compile_with(net)[0], (2,))
    assert not compiled_graphs


def test_a_wrong_value_is_refused():
    with pytest.raises(OptionError, match="'torch_regions' must be 'eager', 'inductor' or 'auto'"):
        OrtOptions(torch_regions="fast")
