"""Graphs with operators that torch runs: values, strides, aliases, mutations, symbols."""

from __future__ import annotations

import pytest
import torch

from ortable.backend.partition.placement import is_ordered, is_rng_call
from ortable_generated import sessions
from ortable_generated.aten import dispatch
from tests.backend.threads import in_threads

SPIN_KEY = "session.intra_op.spin_duration_us"


@pytest.fixture
def place_in_torch(monkeypatch):
    """Return a function that places operators in torch, as `place: torch` of a spec does."""

    def place(*names):
        for name in names:
            monkeypatch.setitem(dispatch.PLACE, name, "a test places it there")

    return place


def get_placements(storage, side="torch"):
    return [p for p in storage["instance"][0]["placement"] if p.where == side]


def compile_graph(fn, storage=None, **kwargs):
    options = {} if storage is None else {"storage": storage}
    return torch.compile(fn, backend="ortable", fullgraph=True, options=options, **kwargs)


@pytest.mark.parametrize("dynamic", [False, True])
def test_values_and_strides_around_torch_nodes(place_in_torch, run_both, dynamic):
    place_in_torch("aten::sin")
    storage = {}

    def fn(x, w):
        a = (x @ w).relu()
        b = (torch.sin(a) + a) @ a.t() @ a
        c = torch.sin(b.t()) @ a * 2
        return c, b, a.t(), x, c, None, 3

    x, w = torch.rand(3, 4), torch.rand(4, 5)
    run_both(fn, x, w, dynamic=dynamic, options={"storage": storage})
    sine_placements = [p for p in get_placements(storage) if p.why == "a test places it there"]
    assert [p.operator for p in sine_placements] == ["aten::sin", "aten::sin"]
    assert "torch.sin(a) + a" in sine_placements[0].line
    assert len(storage["instance"]) == 3
    assert {record["kind"] for record in storage["instance"]} == {"inference"}


def test_partitions_of_a_graph_have_the_settings_of_graphs_that_train(
    place_in_torch, backends, monkeypatch
):
    monkeypatch.setitem(sessions.TRAINING, SPIN_KEY, "7")
    place_in_torch("aten::sin")
    with torch.no_grad():
        compiled = torch.compile(lambda x: torch.sin(x @ x) @ x, backend="ortable")
        compiled(torch.rand(3, 3))
        assert len(backends) == 2
        for backend in backends:
            assert backend.compiled.is_partition
            assert backend.session.get_session_options().get_session_config_entry(SPIN_KEY) == "7"
        torch.compile(lambda x: torch.cos(x @ x) @ x, backend="ortable")(torch.rand(3, 3))
    assert not backends[2].compiled.is_partition
    options = backends[2].session.get_session_options()
    assert options.get_session_config_entry(SPIN_KEY) == "50"


def test_a_product_does_not_wait_for_a_later_session_where_an_earlier_one_is(
    place_in_torch, backends
):
    """Tied embeddings: the product is added to torch's gradient of the embedding."""
    place_in_torch("aten::sin", "aten::embedding_dense_backward")
    net = torch.nn.Embedding(512, 128)

    def fn(indices):
        return (torch.tanh(net(indices)) @ net.weight.t()).logsumexp(-1)

    indices = torch.randint(512, (512,))
    gradient = torch.autograd.grad(torch.compile(fn, backend="ortable")(indices).sum(), net.weight)
    torch.testing.assert_close(gradient, torch.autograd.grad(fn(indices).sum(), net.weight))
    backward_backends = [backend for backend in backends if backend.compiled.kind == "backward"]
    assert [backend.compiled.is_partition for backend in backward_backends] == [True]
    op_types = [node.op_type for node in backward_backends[0].compiled.model.graph.node]
    assert sum(op_type in ("MatMul", "Gemm", "FusedMatMul") for op_type in op_types) == 2


def test_a_product_waits_for_the_only_session(place_in_torch, backends):
    place_in_torch("aten::sin")

    def fn(x, w):
        return torch.sin(x).tanh() @ (x @ w)

    x, w = torch.rand(4, 4), torch.rand(4, 4)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(fn, backend="ortable")(x, w), fn(x, w))
    assert len(backends) == 1


def test_gradients_through_torch_nodes(place_in_torch, every_partition):
    place_in_torch("aten::convolution_backward", "aten::tanh")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Tanh(),
        torch.nn.Conv2d(4, 2, 3), torch.nn.Flatten(), torch.nn.Linear(32, 3),
    )  # fmt: skip
    import copy

    twin = copy.deepcopy(model)
    storage = {}
    compiled = compile_graph(twin, storage)
    for _ in range(2):
        x = torch.rand(2, 3, 8, 8)
        eager_input, compiled_input = x.clone().requires_grad_(), x.clone().requires_grad_()
        model(eager_input).square().sum().backward()
        compiled(compiled_input).square().sum().backward()
        torch.testing.assert_close(compiled_input.grad, eager_input.grad, rtol=1e-3, atol=1e-5)
    for expected, result in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(result.grad, expected.grad, rtol=1e-3, atol=1e-5)
    for expected, result in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(result, expected)
    backward = [record for record in storage["instance"] if record["kind"] == "backward"]
    torch_nodes = [p.operator for p in backward[0]["placement"] if p.where == "torch"]
    assert torch_nodes.count("aten::convolution_backward") == 2
    assert all(p.why for p in backward[0]["placement"] if p.where == "torch")


def test_mutations_land_after_every_reader(place_in_torch, run_both):
    place_in_torch("aten::sin")

    def fn(x, y):
        before = torch.sin(x) + y
        x.add_(1)
        y.mul_(torch.sin(x @ x))
        return before, x * 2, torch.sin(y)

    run_both(fn, torch.rand(3, 3), torch.rand(3, 3))


def test_aliases_of_arguments_and_results(place_in_torch):
    place_in_torch("aten::sin")

    def fn(x):
        y = torch.sin(x) @ x
        return x, x.t(), y, y.view(-1), y[1:], y

    x = torch.rand(3, 3)
    with torch.no_grad():
        argument, transposed, y, flat, tail, same_y = compile_graph(fn)(x)
    assert argument is x
    assert transposed.data_ptr() == x.data_ptr()
    assert flat.data_ptr() == y.data_ptr()
    assert tail.data_ptr() == y[1:].data_ptr()
    assert same_y is y
    y_before = y.clone()
    with torch.no_grad():
        compile_graph(fn)(x + 1)
    assert torch.equal(y_before, y)


def test_symbols_that_only_an_argument_of_the_whole_graph_has(place_in_torch, run_both):
    place_in_torch("aten::sin")

    def fn(x):
        flat = torch.sin(x.reshape(-1))
        n, m = x.shape
        return flat.reshape(m, n) * n, flat.sum() / x.shape[0], x.shape[1] * 2

    for shape in ((3, 5), (4, 6)):
        run_both(fn, torch.rand(shape), dynamic=True)


def test_symbols_of_an_argument_of_which_only_a_view_leaves_the_partition(place_in_torch, run_both):
    place_in_torch("aten::sin")

    def fn(x, weight):
        rows = torch.arange(0, x.numel(), x.shape[1]).float()
        product = rows[:, None] @ weight  # large enough to get a session
        return torch.sin(x.view(-1)), torch.sin(product)

    run_both(fn, torch.rand(4, 6), torch.rand(1, 3), dynamic=True)


def test_sizes_that_depend_on_data(place_in_torch, run_both):
    place_in_torch("aten::sin")
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    try:

        def fn(x):
            indices = torch.nonzero(x > 0.5)
            return torch.sin(indices.to(torch.float32)) * 2, indices.shape[0]

        run_both(fn, torch.rand(3, 4))
    finally:
        torch._dynamo.config.capture_dynamic_output_shape_ops = False


def test_several_results_bools_constants_and_empty_tensors(place_in_torch, run_both):
    place_in_torch("aten::sort", "aten::topk", "aten::logical_not")
    table = torch.arange(4.0)

    def fn(x, flags):
        values, indices = torch.sort(x, dim=-1)
        largest, _ = torch.topk(values * table, 2)
        inverted = torch.logical_not(flags)
        return largest + 1, indices + 1, inverted & flags, inverted.to(torch.float32)

    run_both(fn, torch.rand(3, 4), torch.tensor([True, False]))
    run_both(fn, torch.rand(0, 4), torch.tensor([True, False]))


def test_a_graph_all_of_torch(place_in_torch, run_both):
    place_in_torch("aten::sin", "aten::cos")
    run_both(lambda x: (torch.sin(x), torch.cos(x), x), torch.rand(3))


def test_weights_are_seen_when_they_change(place_in_torch):
    place_in_torch("aten::sin")
    layer = torch.nn.Linear(4, 4)

    def fn(x):
        return torch.sin(layer(x)) @ layer.weight

    compiled, x = compile_graph(fn), torch.rand(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), fn(x))
        layer.weight.mul_(3)
        torch.testing.assert_close(compiled(x), fn(x))
        layer.load_state_dict({"weight": torch.rand(4, 4), "bias": torch.rand(4)})
        torch.testing.assert_close(compiled(x), fn(x))


def test_threads_share_a_partitioned_graph(place_in_torch):
    place_in_torch("aten::sin")

    def fn(x):
        return torch.sin(x @ x) @ x

    compiled, failed_inputs = compile_graph(fn), []
    inputs = [torch.rand(8, 8) for _ in range(4)]
    with torch.no_grad():
        compiled(inputs[0])

    def compare_with_eager(index):
        x = inputs[index]
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(compiled(x), fn(x), atol=1e-5):
                    failed_inputs.append(x)

    in_threads(4, compare_with_eager)
    assert not failed_inputs


def test_what_runs_in_torch_is_printed(place_in_torch, capsys):
    place_in_torch("aten::sin")
    with torch.no_grad():
        torch.compile(lambda x: torch.sin(x @ x) @ x, backend="ortable", options={"verbose": 1})(
            torch.rand(3, 3)
        )
    output = capsys.readouterr().out
    assert "inference in 2 partitions" in output
    assert "torch: aten::sin, 1 call at test_partition.py:" in output
    assert "a test places it there" in output


def test_what_has_to_stay_in_order():
    """Order matters for random numbers, writes and collectives that wait for other processes."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    ordered_nodes = [
        graph.call_function(torch.ops._c10d_functional.all_reduce.default, (x, "sum", "0")),
        graph.call_function(torch.ops._c10d_functional.wait_tensor.default, (x,)),
        graph.call_function(torch.ops.aten.bernoulli.default, (x,)),
        graph.call_function(torch.ops.aten.add_.Tensor, (x, x)),
    ]
    assert all(map(is_ordered, ordered_nodes))
    assert not is_ordered(graph.call_function(torch.ops.aten.add.Tensor, (x, x)))


def test_attention_draws_where_it_drops():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    attention = torch.ops.aten._scaled_dot_product_flash_attention.default
    for args, kwargs, is_random in (
        ((x, x, x), {}, False),
        ((x, x, x, 0.0), {}, False),
        ((x, x, x, 0.5), {}, True),
        ((x, x, x), {"dropout_p": 0.5}, True),
    ):
        assert is_rng_call(graph.call_function(attention, args, kwargs)) == is_random
