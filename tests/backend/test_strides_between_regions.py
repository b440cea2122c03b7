"""Values between regions of a graph, and between graphs: whatever runs in torch and whatever in
ONNX Runtime, what reads strides gets those that were traced."""

from __future__ import annotations

import copy
import os
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.fx import Graph, GraphModule, Interpreter, Node

from ortable.backend.aot import build
from ortable.backend.aot.entry import onnx_custom_backend
from ortable.backend.autotune.graphs import make_torch_callable
from ortable.backend.cache.graph_key import graph_text
from ortable.backend.execute import call
from ortable.backend.lower.argument_marks import mark_argument_strides
from ortable.backend.lower.outputs import require_traced_strides
from ortable.backend.lower.strides import with_strides
from ortable.backend.partition.host_graph import (
    HostGraph,
    PartitionedGraph,
    decode_host_graph,
    encode_host_graph,
    join_partitions,
)
from ortable.backend.partition.placement import is_rng_call
from tests.backend.drawn_programs import draw_layout, draw_program
from tests.rotation import turn

# The same ones, and some that follow from what is tested; ORTABLE_DRAWN=0-500 runs more.
NUMBERS = [*range(6), *(turn() % 100_000 + number for number in range(6))]
if "ORTABLE_DRAWN" in os.environ:
    NUMBERS = range(*map(int, os.environ["ORTABLE_DRAWN"].split("-")))
QUIET = {"hints": False}  # what the backend leaves to torch is no matter of these tests


class CheckedHost(Interpreter):
    """Runs a host graph, and compares what every operator of torch reads with what was traced."""

    def __init__(self, host, callables, constants, deviating):
        super().__init__(constants or nn.Module(), graph=host)
        self.callables = callables
        self.deviating = deviating

    def call_module(self, target, args, kwargs):
        return self.callables[target](list(args[0]))

    def run_node(self, n):
        given = [(each, self.env.get(each)) for each in n.all_input_nodes]
        tensors = [(node, value) for node, value in given if isinstance(value, torch.Tensor)]
        known = [has_traced_strides(node, value) for node, value in tensors]
        if n.op == "output" or (n.op == "call_function" and n.target is not with_strides):
            for (node, value), traced in zip(tensors, known, strict=True):
                if not traced and node not in self.deviating and not is_free(n, value):
                    raise AssertionError(f"{n.format_node()} reads {node} as {value.stride()}")
        result = super().run_node(n)
        if n.op == "call_function":
            own = all(known) and not has_traced_strides(n, result)
            if own or any(node in self.deviating for node, _ in given):
                self.deviating.add(n)
        return result


def has_traced_strides(node, value):
    """Whether a tensor has the strides that its node says, where these have a meaning."""
    if isinstance(value, list | tuple):
        return True  # its items are looked at
    if not isinstance(value, torch.Tensor) or not value.numel():
        return True
    sizes = zip(value.shape, value.stride(), node.meta["val"].stride(), strict=True)
    return all(
        size == 1 or not isinstance(traced, int) or stride == traced
        for size, stride, traced in sizes
    )


def is_free(node, value):
    """Whether a node may be given a tensor in any layout."""
    if torch.Tag.pointwise in getattr(node.target, "tags", ()) or is_view(node):
        return True
    return node.op == "call_function" and value.is_contiguous() and not reads_strides(node)


def is_view(node):
    return getattr(node.target, "is_view", False) and not reads_strides(node)


def reads_strides(node):
    words = ("as_strided", "view.dtype", "view_as_complex", "drawn::")
    return any(word in str(node.target) for word in words)


@pytest.fixture
def checked_hosts(monkeypatch):
    """Host graphs are checked node by node. The fixture is the set of nodes whose operators give
    other strides than torch's tracing says, as some do in aot_eager."""
    deviating = set()

    def join(host, callables, constants=None, text=None):
        made = join_partitions(host, callables, constants, text)
        checked = CheckedHost(host, callables, constants, deviating)

        def run(args):
            given = list(args)
            args.clear()
            return list(checked.run(*given, enable_io_processing=False))

        return PartitionedGraph(run, made.partitions, text)

    monkeypatch.setattr(build, "join_partitions", join)
    return deviating


@pytest.fixture
def place(monkeypatch):
    """`place(numbers, share)` leaves a share of all calls to torch, drawn anew for each graph; it
    returns a list that gets the traced strides of the results of forward graphs."""

    def placed(numbers, share):
        traced = []

        def find_disabled_calls(graph):
            if graph.kind != "backward":
                traced[:] = [node.meta["val"].stride() for node in results_of(graph)]
            calls = [node for node in graph.module.graph.nodes if has_a_choice(graph, node)]
            return {node: "a test draws it" for node in calls if numbers.random() < share}

        monkeypatch.setattr(build, "find_disabled_calls", find_disabled_calls)
        if numbers.random() < 0.7:
            monkeypatch.setattr(
                build, "absorb_small_partitions", lambda graph, in_torch, **_: in_torch
            )
        return traced

    return placed


def has_a_choice(graph, node):
    """Whether torch can run a node in place of ONNX Runtime."""
    is_call = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    numbers = (torch.SymInt, torch.SymFloat, torch.SymBool)
    is_number = isinstance(node.meta.get("val"), numbers)
    return is_call and not (is_number or graph.is_mutation(node) or is_rng_call(node))


def results_of(graph):
    results = [node for node in graph.output.args[0] if isinstance(node, Node)]
    return [node for node in results if isinstance(node.meta["val"], torch.Tensor)]


def assert_equal_to_eager(program, arguments, numbers, traced, deviating, **options):
    """Results and gradients of two calls, with tangents in any layout."""
    twin = copy.deepcopy(program)
    compiled = torch.compile(twin, **{"backend": "ortable", "options": QUIET, **options})
    for _ in range(2):
        given = [x.detach().clone().requires_grad_() for x in arguments]
        again = [x.detach().clone().requires_grad_() for x in arguments]
        expected, got = program(*given), compiled(*again)
        for one, other, strides in zip(expected, got, traced, strict=False):
            assert one.shape == other.shape
            pairs = zip(one.shape, other.stride(), strides, strict=True)
            assert deviating or all(size == 1 or a == b for size, a, b in pairs)
            torch.testing.assert_close(other, one, atol=1e-3, rtol=1e-3)
        sources = [*given, *program.parameters()]
        others = [*again, *twin.parameters()]
        results = [(a, b) for a, b in zip(expected, got, strict=True) if a.requires_grad]
        if not results:
            return
        tangents = [draw_layout(numbers, a.shape) for a, _ in results]
        wanted = torch.autograd.grad([a for a, _ in results], sources, tangents, allow_unused=True)
        found = torch.autograd.grad([b for _, b in results], others, tangents, allow_unused=True)
        for one, other in zip(wanted, found, strict=True):
            one = torch.zeros(()) if one is None else one
            other = torch.zeros(one.shape) if other is None else other
            scale = max(1.0, float(one.abs().max()))
            torch.testing.assert_close(
                other / scale, one.expand_as(other) / scale, atol=1e-3, rtol=1e-3
            )


@pytest.mark.parametrize("number", NUMBERS)
def test_any_placement_of_a_random_program(number, checked_hosts, place):
    numbers = random.Random(number)
    torch.manual_seed(number)
    program, arguments = draw_program(numbers)
    traced = place(numbers, numbers.choice((0.0, 0.2, 0.5, 0.8)))
    dynamic = numbers.random() < 0.2
    assert_equal_to_eager(program, arguments, numbers, traced, checked_hosts, dynamic=dynamic)


class Attention(nn.Module):
    """Attention whose results are saved in another order of memory than torch computes them in."""

    def __init__(self):
        super().__init__()
        self.norm, self.project = nn.LayerNorm(32), nn.Linear(32, 768, bias=False)
        self.out = nn.Linear(256, 32, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        parts = self.project(self.norm(x)).chunk(3, -1)
        q, k, v = (t.view(b, n, 4, 64).permute(0, 2, 1, 3) for t in parts)
        y = F.scaled_dot_product_attention(q * 1.0001, k, v, is_causal=True)
        return self.out(y.permute(0, 2, 1, 3).reshape(b, n, 256))


class Windows(nn.Module):
    """Attention within windows and the windows before them."""

    def __init__(self):
        super().__init__()
        self.project, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        parts = (t.reshape(b, n, 4, 8).permute(0, 2, 1, 3) for t in self.project(x).chunk(3, -1))
        q, k, v = (t.reshape(b * 4, n // 4, 4, 8) for t in parts)
        k, v = (torch.cat([F.pad(t, (0, 0, 0, 0, 1, 0))[:, :-1], t], 2) for t in (k, v))
        y = (q @ k.mT).softmax(-1) @ v
        return self.out(y.reshape(b, 4, n, 8).permute(0, 2, 1, 3).reshape(b, n, d))


def attention_net():
    return nn.Sequential(
        nn.Embedding(9, 32), Attention(), Windows(), nn.LayerNorm(32), nn.Linear(32, 9)
    )


def assert_trains(net, *arguments, **options):
    twin = copy.deepcopy(net)
    compiled = torch.compile(twin, **{"backend": "ortable", "options": QUIET, **options})
    for _ in range(2):
        wanted = torch.autograd.grad(net(*arguments).square().mean(), [*net.parameters()])
        found = torch.autograd.grad(compiled(*arguments).square().mean(), [*twin.parameters()])
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("dynamic", [False, True])
def test_attention_saves_results_that_views_in_torch_read(dynamic):
    assert_trains(attention_net(), torch.randint(9, (2, 16)), dynamic=dynamic)


def test_operators_that_take_any_layout_get_saved_tensors_without_a_copy(monkeypatch):
    """Among them the gradient of attention, whose saved tensors lie contiguous in ONNX Runtime."""
    hosts = []

    def join(host, callables, constants=None, text=None):
        hosts.append(host)
        return join_partitions(host, callables, constants, text)

    monkeypatch.setattr(build, "join_partitions", join)
    assert_trains(attention_net(), torch.randint(9, (2, 16)))
    (host,) = hosts
    gradient = next(n for n in host.nodes if "attention_for_cpu_backward" in str(n.target))
    saved = [node for node in gradient.all_input_nodes if node.op == "placeholder"]
    assert len(saved) == 5
    assert any(n.target is torch.ops.aten.reshape.default for n in host.nodes)


def test_a_session_takes_saved_tensors_as_they_lie(monkeypatch):
    """Their layout is known when the backward is compiled: no call looks for it."""

    def refuse(role, tensor):
        raise AssertionError(f"{role.name}: {tensor.stride()}")

    monkeypatch.setattr(call, "feed_any", refuse)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(64, 64))

        def forward(self, x):
            y = (x @ self.weight).unflatten(-1, (4, 16)).transpose(1, 2).exp()
            return (y * y.tanh()).transpose(1, 2).flatten(2) @ self.weight

    assert_trains(Net(), torch.randn(2, 8, 64) / 8)


class SavedView(torch.autograd.Function):
    """The gradient is a view of what is saved, in the layout that eager has."""

    @staticmethod
    def forward(ctx, x):
        y = x.t().exp()
        ctx.save_for_backward(y)
        return y.sum()

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return y.t()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_gradient_that_is_a_view_of_a_saved_tensor(share, checked_hosts, place):
    place(random.Random(0), share)
    x, z = (torch.arange(6.0).view(2, 3).requires_grad_() for _ in range(2))
    SavedView.apply(x).backward()
    torch.compile(SavedView.apply, backend="ortable", options=QUIET)(z).backward()
    assert torch.equal(x.grad, z.grad)
    assert x.grad.stride() == z.grad.stride()


def test_a_backward_of_another_backend_gets_the_strides_that_were_traced():
    net = attention_net()

    def run(graph_module, arguments):
        return make_boxed_func(graph_module.forward)

    backend = aot_autograd(fw_compiler=onnx_custom_backend, bw_compiler=run)
    assert_trains(net, torch.randint(9, (2, 16)), backend=backend)
    backend = aot_autograd(fw_compiler=run, bw_compiler=onnx_custom_backend)
    assert_trains(net, torch.randint(9, (2, 16)), backend=backend)


def test_torch_runs_a_backward_that_is_measured(monkeypatch):
    """Option `autotune` lets torch run a graph that was compiled for other strides."""

    def tune(backend, compiled, graph_module, options, whole=False):
        return make_torch_callable(graph_module) if compiled.kind == "backward" else backend

    monkeypatch.setattr(build, "autotune_partition", tune)
    monkeypatch.setattr(build, "absorb_small_partitions", lambda graph, in_torch, **_: in_torch)
    assert_trains(attention_net(), torch.randint(9, (2, 16)))


def test_results_of_one_graph_go_into_another():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = Attention(), Windows()

        def forward(self, x):
            y = self.one(x).transpose(1, 2)
            torch._dynamo.graph_break()
            z = self.other(y.transpose(1, 2) * 1.5).transpose(0, 1)
            torch._dynamo.graph_break()
            return z.transpose(0, 1).reshape(-1)

    assert_trains(Net(), torch.randn(2, 16, 32))


@pytest.mark.parametrize("is_last", [False, True])
def test_convolutions_in_channels_last(is_last):
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8), nn.GroupNorm(2, 8), nn.SiLU(),
        nn.MaxPool2d(2), nn.ConvTranspose2d(8, 4, 2, 2), nn.Upsample(scale_factor=2),
        nn.Flatten(2), nn.Linear(256, 3),
    )  # fmt: skip
    if is_last:
        net = net.to(memory_format=torch.channels_last)
    assert_trains(net, torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last))


def test_strides_of_arguments_are_part_of_the_key_of_a_graph():
    graph = Graph()
    argument = graph.placeholder("x")
    argument.meta["val"] = torch.empty(2, 3).t()
    graph.output((argument,))
    module = GraphModule(nn.Module(), graph)
    before = graph_text(module)
    mark_argument_strides(module, [torch.empty(3, 2)])
    assert graph_text(module) != before
    require_traced_strides(module)
    assert len({*before, *graph_text(module)}) == len(before) + 2


def test_a_host_graph_that_restores_strides_goes_through_a_file():
    graph = Graph()
    argument = graph.placeholder("x")
    graph.output((graph.call_function(with_strides, (argument, (1, 2))),))
    text = encode_host_graph(HostGraph(graph, "backward", []), [])
    run = join_partitions(decode_host_graph(text, 0).graph, {})
    x = torch.arange(6.0).view(2, 3)
    (result,) = run([x])
    assert torch.equal(result, x)
    assert result.stride() == (1, 2)
