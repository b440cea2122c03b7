"""Operators that read strides receive the traced strides, whichever regions run in torch."""

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
from tests.rotation import rotation_seed

pytestmark = pytest.mark.alternates(parts=3)

# Fixed seeds, and seeds that change with the commit; ORTABLE_DRAWN=0-500 runs more.
SEEDS = [*range(6), *(rotation_seed() % 100_000 + number for number in range(6))]
if "ORTABLE_DRAWN" in os.environ:
    SEEDS = range(*map(int, os.environ["ORTABLE_DRAWN"].split("-")))
NO_HINTS = {"hints": False}  # no warnings about operators that run in torch


class CheckingInterpreter(Interpreter):
    """Run a host graph and compare the inputs of every torch operator with the traced strides."""

    def __init__(self, host, callables, constants, deviating_nodes):
        super().__init__(constants or nn.Module(), graph=host)
        self.callables = callables
        self.deviating_nodes = deviating_nodes

    def call_module(self, target, args, kwargs):
        return self.callables[target](list(args[0]))

    def run_node(self, n):
        inputs = [(node, self.env.get(node)) for node in n.all_input_nodes]
        tensors = [(node, value) for node, value in inputs if isinstance(value, torch.Tensor)]
        traced_flags = [has_traced_strides(node, value) for node, value in tensors]
        if n.op == "output" or (n.op == "call_function" and n.target is not with_strides):
            for (node, value), traced in zip(tensors, traced_flags, strict=True):
                if (
                    not traced
                    and node not in self.deviating_nodes
                    and not accepts_any_layout(n, value)
                ):
                    raise AssertionError(f"{n.format_node()} reads {node} as {value.stride()}")
        result = super().run_node(n)
        if n.op == "call_function":
            is_deviation = all(traced_flags) and not has_traced_strides(n, result)
            if is_deviation or any(node in self.deviating_nodes for node, _ in inputs):
                self.deviating_nodes.add(n)
        return result


def has_traced_strides(node, value):
    """Return whether a tensor has the traced strides of its node, where strides matter."""
    if isinstance(value, list | tuple):
        return True  # its items are checked where they are read
    if not isinstance(value, torch.Tensor) or not value.numel():
        return True
    sizes = zip(value.shape, value.stride(), node.meta["val"].stride(), strict=True)
    return all(
        size == 1 or not isinstance(traced, int) or stride == traced
        for size, stride, traced in sizes
    )


def accepts_any_layout(node, value):
    """Return whether a node accepts a tensor in any layout."""
    if torch.Tag.pointwise in getattr(node.target, "tags", ()) or is_view(node):
        return True
    return node.op == "call_function" and value.is_contiguous() and not reads_strides(node)


def is_traceable(program, arguments):
    """Return whether torch traces a program: a batch norm has other strides there than in eager."""
    torch._dynamo.reset()
    try:
        torch.compile(copy.deepcopy(program), backend="eager")(*copy.deepcopy(arguments))
    except torch._dynamo.exc.TorchRuntimeError:
        return False
    return True


def is_view(node):
    return getattr(node.target, "is_view", False) and not reads_strides(node)


def reads_strides(node):
    operators = ("as_strided", "view.dtype", "view_as_complex", "drawn::")
    return any(operator in str(node.target) for operator in operators)


@pytest.fixture
def checked_hosts(monkeypatch):
    """Check each node of host graphs; return the set of nodes with other strides than traced."""
    deviating_nodes = set()

    def join(host, callables, constants=None, text=None, placement=()):
        partitioned_graph = join_partitions(host, callables, constants, text)
        interpreter = CheckingInterpreter(host, callables, constants, deviating_nodes)

        def run(args):
            inputs = list(args)
            args.clear()
            return list(interpreter.run(*inputs, enable_io_processing=False))

        return PartitionedGraph(run, partitioned_graph.partitions, text)

    monkeypatch.setattr(build, "join_partitions", join)
    return deviating_nodes


@pytest.fixture
def place_randomly(monkeypatch):
    """Return a function that places random calls in torch and returns the traced strides."""

    def set_placement(rng, fraction):
        traced = []

        def find_disabled_calls(graph):
            if graph.kind != "backward":
                traced[:] = [node.meta["val"].stride() for node in get_results(graph)]
            calls = [node for node in graph.module.graph.nodes if can_run_in_torch(graph, node)]
            return {node: "a test draws it" for node in calls if rng.random() < fraction}

        monkeypatch.setattr(build, "find_disabled_calls", find_disabled_calls)
        if rng.random() < 0.7:
            monkeypatch.setattr(
                build, "absorb_small_partitions", lambda graph, in_torch, **_: in_torch
            )
        return traced

    return set_placement


def can_run_in_torch(graph, node):
    """Return whether torch can run a node in place of ONNX Runtime."""
    is_call = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    number_types = (torch.SymInt, torch.SymFloat, torch.SymBool)
    is_number = isinstance(node.meta.get("val"), number_types)
    return is_call and not (is_number or graph.is_mutation(node) or is_rng_call(node))


def get_results(graph):
    results = [node for node in graph.output.args[0] if isinstance(node, Node)]
    return [node for node in results if isinstance(node.meta["val"], torch.Tensor)]


def assert_equal_to_eager(program, arguments, rng, traced_strides, deviating_nodes, **options):
    """Compare results and gradients of two calls with eager, with tangents in any layout."""
    twin = copy.deepcopy(program)
    compiled = torch.compile(twin, **{"backend": "ortable", "options": NO_HINTS, **options})
    for _ in range(2):
        inputs = [x.detach().clone().requires_grad_() for x in arguments]
        twin_inputs = [x.detach().clone().requires_grad_() for x in arguments]
        expected, results = program(*inputs), compiled(*twin_inputs)
        for reference, result, strides in zip(expected, results, traced_strides, strict=False):
            assert reference.shape == result.shape
            axes = zip(reference.shape, result.stride(), strides, strict=True)
            assert deviating_nodes or all(size == 1 or a == b for size, a, b in axes)
            torch.testing.assert_close(result, reference, atol=1e-3, rtol=1e-3)
        leaves = [*inputs, *program.parameters()]
        twin_leaves = [*twin_inputs, *twin.parameters()]
        pairs = [(a, b) for a, b in zip(expected, results, strict=True) if a.requires_grad]
        if not pairs:
            return
        tangents = [draw_layout(rng, a.shape) for a, _ in pairs]
        grads = torch.autograd.grad([a for a, _ in pairs], leaves, tangents, allow_unused=True)
        twin_grads = torch.autograd.grad(
            [b for _, b in pairs], twin_leaves, tangents, allow_unused=True
        )
        for reference, result in zip(grads, twin_grads, strict=True):
            reference = torch.zeros(()) if reference is None else reference
            result = torch.zeros(reference.shape) if result is None else result
            scale = max(1.0, float(reference.abs().max()))
            torch.testing.assert_close(
                result / scale, reference.expand_as(result) / scale, atol=1e-3, rtol=1e-3
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_any_placement_of_a_random_program(seed, checked_hosts, place_randomly):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    program, arguments = draw_program(rng)
    while not is_traceable(program, arguments):
        program, arguments = draw_program(rng)
    traced = place_randomly(rng, rng.choice((0.0, 0.2, 0.5, 0.8)))
    dynamic = rng.random() < 0.2
    assert_equal_to_eager(program, arguments, rng, traced, checked_hosts, dynamic=dynamic)


class Attention(nn.Module):
    """Attention whose results are saved in another memory order than torch's."""

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
    """Attention within each window and the window before it."""

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
    compiled = torch.compile(twin, **{"backend": "ortable", "options": NO_HINTS, **options})
    for _ in range(2):
        expected = torch.autograd.grad(net(*arguments).square().mean(), [*net.parameters()])
        gradients = torch.autograd.grad(compiled(*arguments).square().mean(), [*twin.parameters()])
        torch.testing.assert_close(gradients, expected, atol=1e-4, rtol=1e-3)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("dynamic", [False, True])
def test_attention_saves_results_that_views_in_torch_read(dynamic):
    assert_trains(attention_net(), torch.randint(9, (2, 16)), dynamic=dynamic)


def test_operators_that_take_any_layout_get_saved_tensors_without_a_copy(monkeypatch):
    """The gradient of attention reads the contiguous tensors that ONNX Runtime saves."""
    hosts = []

    def join(host, callables, constants=None, text=None, placement=()):
        hosts.append(host)
        return join_partitions(host, callables, constants, text)

    monkeypatch.setattr(build, "join_partitions", join)
    assert_trains(attention_net(), torch.randint(9, (2, 16)))
    (host,) = hosts
    gradient = next(node for node in host.nodes if "attention_for_cpu_backward" in str(node.target))
    saved = [node for node in gradient.all_input_nodes if node.op == "placeholder"]
    assert len(saved) == 5
    assert any(node.target is torch.ops.aten.reshape.default for node in host.nodes)


def test_a_session_takes_saved_tensors_as_they_lie(monkeypatch):
    """Compilation of the backward fixes the layout of saved tensors, so calls do not detect it."""

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
    """A function whose gradient is a view of the saved tensor, in the layout of eager."""

    @staticmethod
    def forward(ctx, x):
        y = x.t().exp()
        ctx.save_for_backward(y)
        return y.sum()

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return y.t()


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_a_gradient_that_is_a_view_of_a_saved_tensor(fraction, checked_hosts, place_randomly):
    place_randomly(random.Random(0), fraction)
    eager_x, compiled_x = (torch.arange(6.0).view(2, 3).requires_grad_() for _ in range(2))
    SavedView.apply(eager_x).backward()
    torch.compile(SavedView.apply, backend="ortable", options=NO_HINTS)(compiled_x).backward()
    assert torch.equal(eager_x.grad, compiled_x.grad)
    assert eager_x.grad.stride() == compiled_x.grad.stride()


def test_a_backward_of_another_backend_gets_the_strides_that_were_traced():
    net = attention_net()

    def run_in_torch(graph_module, arguments):
        return make_boxed_func(graph_module.forward)

    backend = aot_autograd(fw_compiler=onnx_custom_backend, bw_compiler=run_in_torch)
    assert_trains(net, torch.randint(9, (2, 16)), backend=backend)
    backend = aot_autograd(fw_compiler=run_in_torch, bw_compiler=onnx_custom_backend)
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


@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions_in_channels_last(channels_last):
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8), nn.GroupNorm(2, 8), nn.SiLU(),
        nn.MaxPool2d(2), nn.ConvTranspose2d(8, 4, 2, 2), nn.Upsample(scale_factor=2),
        nn.Flatten(2), nn.Linear(256, 3),
    )  # fmt: skip
    if channels_last:
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
