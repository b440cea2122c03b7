"""Caches in memory: only equal graphs share a conversion and a session."""

from __future__ import annotations

import gc
import os
import time
import weakref

import pytest
import torch
from torch import nn

from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.cache.graph_key import conversion_key
from ortable.backend.cache.keys import session_key
from ortable.backend.cache.memory import Sessions, new_conversions, shared_session
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.options import OrtOptions
from ortable.backend.store import Uncacheable
from tests.backend.threads import in_threads


class RecordingBackend:
    """A backend that stores the callables it creates, which hold the keys of their graphs."""

    def __init__(self, **options):
        self.options = OrtOptions(storage={}, **options)
        self.runners = []

    def __call__(self, graph_module, args):
        return compile_with_autograd(graph_module, args, self.options, self._run)

    def _run(self, compiled, options):
        self.runners.append(run_with_onnxruntime(compiled, options))
        return self.runners[-1]

    @property
    def cache_states(self):
        return [record["cache"] for record in self.options.storage["instance"]]

    @property
    def sessions(self):
        return [runner.session for runner in self.runners]


def compile_both(first, second, *args, reset=False, dynamic=None, **options):
    """Compile two functions, check their results and return the backend."""
    backend = RecordingBackend(**options)
    for fn in (first, second):
        if reset:
            torch._dynamo.reset()
        got = torch.compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
        torch.testing.assert_close(got, fn(*args))
    return backend


def make_block(width=4):
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)).eval()


# -- sharing


def test_equal_layers_compiled_separately_share_conversion_and_session():
    backend = RecordingBackend()
    layers = [make_block() for _ in range(6)]
    compiled_layers = [torch.compile(layer, backend=backend, fullgraph=True) for layer in layers]
    x = torch.randn(2, 4)
    for layer, compiled_layer in zip(layers, compiled_layers, strict=True):
        torch._dynamo.reset_code_caches()
        torch.testing.assert_close(compiled_layer(x), layer(x))
    forward_runners = [runner for runner in backend.runners if runner.compiled.kind == "forward"]
    assert len(forward_runners) == 6
    assert len({id(runner.session) for runner in forward_runners}) == 1
    assert backend.cache_states.count("miss") == 1


def test_recompilation_after_reset_shares_what_is_in_use():
    model = make_block()
    backend = RecordingBackend()
    x = torch.randn(2, 4)
    for _ in range(3):
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(model, backend=backend)(x), model(x))
    assert backend.cache_states == ["miss", "memory", "memory"]
    assert len(set(map(id, backend.sessions))) == 1


def test_forward_and_backward_are_shared():
    backend = RecordingBackend()
    gradients = []
    for _ in range(2):
        torch._dynamo.reset()
        model = nn.Linear(4, 4)
        nn.init.ones_(model.weight)
        torch.compile(model, backend=backend)(torch.ones(2, 4)).pow(2).sum().backward()
        gradients.append(model.weight.grad)
    assert backend.cache_states == ["miss", "miss", "memory", "memory"]
    assert backend.sessions[0] is backend.sessions[2]
    assert backend.sessions[1] is backend.sessions[3]
    assert gradients[0].shape == (4, 4)


def test_names_of_nodes_and_symbols_do_not_matter():
    def first(x, y):
        return x @ y + x.shape[0]

    def second(left, right):
        product = left @ right
        return product + left.shape[0]

    backend = compile_both(first, second, torch.ones(3, 4), torch.ones(4, 5), dynamic=True)
    assert backend.cache_states == ["miss", "memory"]


def test_names_of_nodes_in_a_record_are_those_of_its_own_graph():
    def first(x, y):
        return x.exp() + y.sin()

    def second(x, y):
        return x.exp() + y.sin()

    backend = compile_both(first, second, torch.ones(3), torch.ones(3))
    assert backend.cache_states == ["miss", "memory"]
    graphs = [record["graph_module"].graph for record in backend.options.storage["instance"]]
    for graph, runner in zip(graphs, backend.runners, strict=True):
        names = {node.name for node in graph.nodes}
        assert runner.compiled.fx_names and set(runner.compiled.fx_names.values()) <= names
        assert runner.compiled.cases and set(runner.compiled.cases) <= names


def test_symbols_of_other_names_are_the_same_graph():
    def fn(x):
        return x * 2

    backend = RecordingBackend()
    sizes = []
    for extra_count in (0, 3):  # more arguments change the number in the symbol's name
        torch._dynamo.reset()
        extra_args = [torch.ones(i + 2) for i in range(extra_count)]

        def call_fn(x, *extra_args):
            return fn(x)

        got = torch.compile(call_fn, backend=backend, dynamic=True)(torch.ones(5, 6), *extra_args)
        sizes.append(tuple(got.shape))
    texts = [str(runner.compiled.inputs[-1].shape) for runner in backend.runners]
    assert backend.cache_states[-1] == "memory" and texts[0] == texts[1]
    assert sizes == [(5, 6), (5, 6)]
    # each session reads its sizes from its own arguments
    first, second = (runner for runner in backend.runners)
    for runner in (first, second):
        args = [7, 8, torch.ones(7, 8)][-len(runner.compiled.inputs) :]
        assert runner(list(args))[0].shape == (7, 8)


# -- differences between graphs


def get_cache_states(first, second, first_args, second_args=None):
    backend = RecordingBackend()
    for fn, args in ((first, first_args), (second, second_args or first_args)):
        torch._dynamo.reset()
        torch.compile(fn, backend=backend, fullgraph=True)(*args)
    return backend.cache_states


X = torch.arange(12.0).reshape(3, 4)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize(
    "first, second",
    [
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: x + 1, lambda x: x + 1.0000001),
        (lambda x: x.sum(0), lambda x: x.sum(1)),
        (lambda x: x.sum(0), lambda x: x.sum(0, keepdim=True)),
        (lambda x: x.to(torch.float64), lambda x: x.to(torch.int64)),
        (lambda x: (x.exp(), x.log()), lambda x: (x.log(), x.exp())),
        (lambda x: x.exp().t(), lambda x: x.exp().view(4, 3)),
        (lambda x: x * 0.0, lambda x: x * -0.0),
        (lambda x: x + torch.tensor([1.0, 2, 3, 4]), lambda x: x + torch.tensor([1.0, 2, 3, 5])),
        (lambda x: x.exp(), lambda x: x.mul_(2).exp()),
    ],
)
def test_other_graphs_are_others(first, second):
    assert get_cache_states(first, second, (X.clone(),)) == ["miss", "miss"]


@pytest.mark.parametrize(
    "other",
    [X.double(), X.t().contiguous().t(), X[:2].clone(), X.reshape(3, 2, 2)],
    ids=["dtype", "strides", "shape", "rank"],
)
def test_other_arguments_are_other_graphs(other):
    def fn(x):
        return x.exp()

    assert get_cache_states(fn, fn, (X,), (other,)) == ["miss", "miss"]


@pytest.mark.parametrize(
    "options",
    [{"target_opset": 18}, {"optimize": False}, {"raise_on": ("aten::relu",)}],
)
def test_other_options_are_other_conversions(options):
    def fn(x):
        return x.exp() + 1

    first, second = RecordingBackend(), RecordingBackend(**options)
    for backend in (first, second):
        torch._dynamo.reset()
        torch.compile(fn, backend=backend)(X)
    assert second.cache_states == ["miss"]
    assert first.sessions[0] is not second.sessions[0]
    assert first.runners[0].compiled.key != second.runners[0].compiled.key


def test_session_options_share_the_conversion_and_not_the_session():
    def fn(x):
        return x.exp() + 1

    backends = [RecordingBackend(), RecordingBackend(session_options={"log_severity_level": 4})]
    for backend in backends:
        torch._dynamo.reset()
        torch.compile(fn, backend=backend)(X)
    assert backends[1].cache_states == ["memory"]
    assert backends[0].sessions[0] is not backends[1].sessions[0]


def test_a_session_options_object_is_not_compared():
    import onnxruntime

    def fn(x):
        return x.exp() + 1

    backends = [RecordingBackend(session_options=onnxruntime.SessionOptions()) for _ in range(2)]
    for backend in backends:
        torch._dynamo.reset()
        torch.compile(fn, backend=backend)(X)
    assert backends[0].sessions[0] is not backends[1].sessions[0]
    assert session_key(backends[0].runners[0].compiled, backends[0].options) is None


def test_transforms_are_run_for_every_graph():
    models = []
    backend = compile_both(
        torch.exp, torch.exp, X, reset=True, pre_ort_model_transforms=models.append
    )
    assert backend.cache_states == ["miss", "miss"] and len(models) == 2
    assert backend.sessions[0] is not backend.sessions[1]


def test_constants_count_by_content():
    def make_graph(values):
        root = nn.Module()
        root.constant = torch.tensor(values)
        graph = torch.fx.Graph()
        graph.output((graph.get_attr("constant"),))
        return torch.fx.GraphModule(root, graph)

    keys = [
        conversion_key(AotGraph(make_graph(values)), OrtOptions(), frozenset())
        for values in ([1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [[1.0, 2.0]], [1, 2])
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4


def test_what_has_no_content_has_no_key():
    graph = torch.fx.Graph()
    graph.output((graph.call_function(lambda: 1),))
    module = torch.fx.GraphModule(nn.Module(), graph)
    with pytest.raises(Uncacheable, match="no content"):
        conversion_key(AotGraph(module), OrtOptions(), frozenset())


def test_static_arguments_and_default_dtype_count():
    def make_key(static=frozenset()):
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        x.meta["val"] = torch.ones(2)
        graph.output((x,))
        module = torch.fx.GraphModule(nn.Module(), graph)
        return conversion_key(AotGraph(module), OrtOptions(), static)

    default = make_key()
    torch.set_default_dtype(torch.float64)
    try:
        float64_key = make_key()
    finally:
        torch.set_default_dtype(torch.float32)
    assert len({default, float64_key, make_key(frozenset({0}))}) == 3 and make_key() == default


def test_a_record_is_the_callers_own():
    backend = RecordingBackend()
    torch.compile(torch.exp, backend=backend)(X)
    backend.options.storage["instance"][0]["onnx"].Clear()
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(torch.exp, backend=backend)(X), X.exp())
    assert backend.cache_states == ["miss", "memory"]
    assert len(backend.options.storage["instance"][1]["onnx"].graph.node)


# -- frozen weights


def compile_frozen(first, second):
    x = torch.randn(2, 4)
    backend = RecordingBackend()
    with torch.no_grad():
        for model in (first, second):
            torch._dynamo.reset()
            got = torch.compile(model, backend=backend)(x)
            torch.testing.assert_close(got, model(x))
    return backend, x


def test_frozen_sessions_of_the_same_weights_are_shared():
    model = make_block()
    backend, _ = compile_frozen(model, model)
    assert backend.runners[0].frozen and backend.sessions[0] is backend.sessions[1]


def test_frozen_sessions_of_other_weights_are_not():
    first, second = make_block(), make_block()
    backend, _ = compile_frozen(first, second)
    assert backend.cache_states == ["miss", "memory"]
    assert backend.sessions[0] is not backend.sessions[1]


@pytest.mark.parametrize("write", ["add_", "data", "swap", "refresh", "fused"])
def test_a_shared_frozen_session_is_never_stale(write):
    import ortable

    model = make_block()
    x = torch.randn(2, 4)
    backend = RecordingBackend()
    with torch.no_grad():
        first = torch.compile(model, backend=backend)
        first(x)
        torch._dynamo.reset()
        weight = model[0].weight
        if write == "add_":
            weight.add_(1)
        elif write == "data":
            weight.data = torch.randn(4, 4)
        elif write == "swap":
            model[0].weight = nn.Parameter(torch.randn(4, 4))
        elif write == "refresh":
            weight.data.mul_(3)
            ortable.refresh(model)
        else:
            weight.grad = torch.ones_like(weight)
            torch.optim.Adam([weight], lr=0.5, fused=True).step()
        second = torch.compile(model, backend=backend)
        torch.testing.assert_close(second(x), model(x))
        torch.testing.assert_close(second(x), model(x))
    assert backend.sessions[0] is not backend.sessions[1]


# -- lifetime and threads


def test_sessions_die_with_their_last_user():
    backend = compile_both(torch.exp, torch.exp, X, reset=True)
    session = weakref.ref(backend.sessions[0])
    del backend.runners[0]
    gc.collect()
    assert session() is not None
    backend.runners.clear()
    torch._dynamo.reset()
    gc.collect()
    assert session() is None


def test_conversions_are_bounded_by_number_and_size():
    backend = compile_both(torch.exp, torch.sin, X)
    first, second = (runner.compiled for runner in backend.runners)
    cache = new_conversions(count=1)
    cache.put("first", first)
    cache.put("second", second)
    assert cache.get("first") is None and cache.get("second") is second and len(cache) == 1
    cache = new_conversions(size=first.model.ByteSize() + second.model.ByteSize())
    for name in ("first", "second", "first"):
        cache.put(name, first if name == "first" else second)
    assert len(cache) == 2
    cache.put("third", second)
    assert cache.get("second") is None and cache.get("first") is first


class FakeSession:
    """A stand-in for a session that supports weak references."""


def test_threads_wait_for_one_session():
    table, created, sessions = Sessions(), [], []

    def make():
        created.append(FakeSession())
        return created[-1]

    in_threads(8, lambda _: sessions.append(table.get_or_make("key", (), make)))
    assert len(created) == 1 and len(set(map(id, sessions))) == 1


def test_sessions_by_weights():
    table, a, b = Sessions(), torch.ones(2), torch.ones(2)
    first = table.get_or_make("key", [a], FakeSession)
    assert table.get_or_make("key", [a], FakeSession) is first
    assert table.get_or_make("key", [b], FakeSession) is not first
    assert table.get_or_make("key", [a, b], FakeSession) is not first
    assert table.get_or_make("other", [a], FakeSession) is not first
    assert table.get_or_make("key", [a], FakeSession, stamp=1) is not first
    assert table.get_or_make(None, [a], FakeSession) is not first
    a.add_(1)
    assert table.get_or_make("key", [a], FakeSession) is not first
    with torch.inference_mode():
        c = torch.ones(2)
    session = table.get_or_make("key", [c], FakeSession)
    assert table.get_or_make("key", [c], FakeSession) is not session


def test_a_dead_session_leaves_the_table():
    table = Sessions()
    first = table.get_or_make("key", (), FakeSession)
    assert len(table) == 1
    del first
    gc.collect()
    assert len(table) == 0
    with pytest.raises(ZeroDivisionError):
        table.get_or_make("key", (), lambda: 1 / 0)
    assert len(table) == 0


def test_a_forked_child_shares_nothing_with_its_parent():
    session = shared_session("fork", (), FakeSession)
    assert shared_session("fork", (), FakeSession) is session
    pid = os.fork()
    if pid == 0:
        os._exit(int(shared_session("fork", (), FakeSession) is session))
    assert os.waitpid(pid, 0)[1] == 0


def test_threads_that_ask_for_one_key_get_one_session():
    class Session:
        """A stand-in for a session that supports weak references."""

    created, sessions = [], []

    def make():
        time.sleep(0.05)  # the other threads request the session meanwhile
        created.append(Session())
        return created[-1]

    in_threads(3, lambda _: sessions.append(shared_session("a key of this test", (), make)))
    assert len(created) == 1 and sessions == created * 3
