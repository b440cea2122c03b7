"""Graphs of which some operators run in torch: values, strides, aliases, mutations, symbols."""

from __future__ import annotations

import pytest
import torch

from ortable.backend.partition.placement import is_ordered, is_rng_call
from ortable_generated import sessions
from ortable_generated.aten import dispatch
from tests.backend.threads import in_threads

KEY = "session.intra_op.spin_duration_us"


@pytest.fixture
def in_torch(monkeypatch):
    """`in_torch("aten::sin")` places operators in torch, as `place: torch` of a spec does."""

    def place(*names):
        for name in names:
            monkeypatch.setitem(dispatch.PLACE, name, "a test places it there")

    return place


def placed(storage, where="torch"):
    return [p for p in storage["instance"][0]["placement"] if p.where == where]


def compiled(fn, storage=None, **kwargs):
    options = {} if storage is None else {"storage": storage}
    return torch.compile(fn, backend="ortable", fullgraph=True, options=options, **kwargs)


@pytest.mark.parametrize("dynamic", [False, True])
def test_values_and_strides_around_torch_nodes(in_torch, run_both, dynamic):
    in_torch("aten::sin")
    storage = {}

    def fn(x, w):
        a = (x @ w).relu()
        b = (torch.sin(a) + a) @ a.t() @ a
        c = torch.sin(b.t()) @ a * 2
        return c, b, a.t(), x, c, None, 3

    x, w = torch.rand(3, 4), torch.rand(4, 5)
    run_both(fn, x, w, dynamic=dynamic, options={"storage": storage})
    ours = [p for p in placed(storage) if p.why == "a test places it there"]
    assert [p.operator for p in ours] == ["aten::sin", "aten::sin"]
    assert "torch.sin(a) + a" in ours[0].line
    assert len(storage["instance"]) == 3
    assert {record["kind"] for record in storage["instance"]} == {"inference"}


def test_partitions_of_a_graph_have_the_settings_of_graphs_that_train(
    in_torch, backends, monkeypatch
):
    monkeypatch.setitem(sessions.TRAINING, KEY, "7")
    in_torch("aten::sin")
    with torch.no_grad():
        compiled = torch.compile(lambda x: torch.sin(x @ x) @ x, backend="ortable")
        compiled(torch.rand(3, 3))
        assert len(backends) == 2
        for each in backends:
            assert each.compiled.is_partition
            assert each.session.get_session_options().get_session_config_entry(KEY) == "7"
        torch.compile(lambda x: torch.cos(x @ x) @ x, backend="ortable")(torch.rand(3, 3))
    assert not backends[2].compiled.is_partition
    options = backends[2].session.get_session_options()
    assert options.get_session_config_entry(KEY) == "50"


def test_a_product_does_not_wait_for_a_later_session_where_an_earlier_one_is(in_torch, backends):
    """The gradient of tied embeddings, which torch's gradient of the embedding is added to."""
    in_torch("aten::sin", "aten::embedding_dense_backward")
    net = torch.nn.Embedding(512, 128)

    def fn(indices):
        return (torch.tanh(net(indices)) @ net.weight.t()).logsumexp(-1)

    indices = torch.randint(512, (512,))
    got = torch.autograd.grad(torch.compile(fn, backend="ortable")(indices).sum(), net.weight)
    torch.testing.assert_close(got, torch.autograd.grad(fn(indices).sum(), net.weight))
    backward = [each for each in backends if each.compiled.kind == "backward"]
    assert [each.compiled.is_partition for each in backward] == [True]
    kinds = [node.op_type for node in backward[0].compiled.model.graph.node]
    assert sum(kind in ("MatMul", "Gemm", "FusedMatMul") for kind in kinds) == 2


def test_a_product_waits_for_the_only_session(in_torch, backends):
    in_torch("aten::sin")

    def fn(x, w):
        return torch.sin(x).tanh() @ (x @ w)

    x, w = torch.rand(4, 4), torch.rand(4, 4)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(fn, backend="ortable")(x, w), fn(x, w))
    assert len(backends) == 1


def test_gradients_through_torch_nodes(in_torch, every_partition):
    in_torch("aten::convolution_backward", "aten::tanh")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Tanh(),
        torch.nn.Conv2d(4, 2, 3), torch.nn.Flatten(), torch.nn.Linear(32, 3),
    )  # fmt: skip
    import copy

    twin = copy.deepcopy(model)
    storage = {}
    fast = compiled(twin, storage)
    for _ in range(2):
        x = torch.rand(2, 3, 8, 8)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        model(a).square().sum().backward()
        fast(b).square().sum().backward()
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-3, atol=1e-5)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-3, atol=1e-5)
    for p, q in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(q, p)
    backward = [r for r in storage["instance"] if r["kind"] == "backward"]
    torch_nodes = [p.operator for p in backward[0]["placement"] if p.where == "torch"]
    assert torch_nodes.count("aten::convolution_backward") == 2
    assert all(p.why for p in backward[0]["placement"] if p.where == "torch")


def test_mutations_land_after_every_reader(in_torch, run_both):
    in_torch("aten::sin")

    def fn(x, y):
        before = torch.sin(x) + y
        x.add_(1)
        y.mul_(torch.sin(x @ x))
        return before, x * 2, torch.sin(y)

    run_both(fn, torch.rand(3, 3), torch.rand(3, 3))


def test_aliases_of_arguments_and_results(in_torch):
    in_torch("aten::sin")

    def fn(x):
        y = torch.sin(x) @ x
        return x, x.t(), y, y.view(-1), y[1:], y

    x = torch.rand(3, 3)
    with torch.no_grad():
        same, turned, y, flat, rest, again = compiled(fn)(x)
    assert same is x
    assert turned.data_ptr() == x.data_ptr()
    assert flat.data_ptr() == y.data_ptr()
    assert rest.data_ptr() == y[1:].data_ptr()
    assert again is y
    kept = y.clone()
    with torch.no_grad():
        compiled(fn)(x + 1)
    assert torch.equal(kept, y)


def test_symbols_that_only_an_argument_of_the_whole_graph_has(in_torch, run_both):
    in_torch("aten::sin")

    def fn(x):
        flat = torch.sin(x.reshape(-1))
        n, m = x.shape
        return flat.reshape(m, n) * n, flat.sum() / x.shape[0], x.shape[1] * 2

    for shape in ((3, 5), (4, 6)):
        run_both(fn, torch.rand(shape), dynamic=True)


def test_symbols_of_an_argument_of_which_only_a_view_leaves_the_partition(in_torch, run_both):
    in_torch("aten::sin")

    def fn(x, weight):
        rows = torch.arange(0, x.numel(), x.shape[1]).float()
        heavy = rows[:, None] @ weight  # worth a session of its own
        return torch.sin(x.view(-1)), torch.sin(heavy)

    run_both(fn, torch.rand(4, 6), torch.rand(1, 3), dynamic=True)


def test_sizes_that_depend_on_data(in_torch, run_both):
    in_torch("aten::sin")
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    try:

        def fn(x):
            found = torch.nonzero(x > 0.5)
            return torch.sin(found.to(torch.float32)) * 2, found.shape[0]

        run_both(fn, torch.rand(3, 4))
    finally:
        torch._dynamo.config.capture_dynamic_output_shape_ops = False


def test_several_results_bools_constants_and_empty_tensors(in_torch, run_both):
    in_torch("aten::sort", "aten::topk", "aten::logical_not")
    table = torch.arange(4.0)

    def fn(x, flags):
        values, places = torch.sort(x, dim=-1)
        best, _ = torch.topk(values * table, 2)
        turned = torch.logical_not(flags)
        return best + 1, places + 1, turned & flags, turned.to(torch.float32)

    run_both(fn, torch.rand(3, 4), torch.tensor([True, False]))
    run_both(fn, torch.rand(0, 4), torch.tensor([True, False]))


def test_a_graph_all_of_torch(in_torch, run_both):
    in_torch("aten::sin", "aten::cos")
    run_both(lambda x: (torch.sin(x), torch.cos(x), x), torch.rand(3))


def test_weights_are_seen_when_they_change(in_torch):
    in_torch("aten::sin")
    layer = torch.nn.Linear(4, 4)

    def fn(x):
        return torch.sin(layer(x)) @ layer.weight

    fast, x = compiled(fn), torch.rand(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), fn(x))
        layer.weight.mul_(3)
        torch.testing.assert_close(fast(x), fn(x))
        layer.load_state_dict({"weight": torch.rand(4, 4), "bias": torch.rand(4)})
        torch.testing.assert_close(fast(x), fn(x))


def test_threads_share_a_partitioned_graph(in_torch):
    in_torch("aten::sin")

    def fn(x):
        return torch.sin(x @ x) @ x

    fast, wrong = compiled(fn), []
    inputs = [torch.rand(8, 8) for _ in range(4)]
    with torch.no_grad():
        fast(inputs[0])

    def work(number):
        x = inputs[number]
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(fast(x), fn(x), atol=1e-5):
                    wrong.append(x)

    in_threads(4, work)
    assert not wrong


def test_what_runs_in_torch_is_printed(in_torch, capsys):
    in_torch("aten::sin")
    with torch.no_grad():
        torch.compile(lambda x: torch.sin(x @ x) @ x, backend="ortable", options={"verbose": 1})(
            torch.rand(3, 3)
        )
    text = capsys.readouterr().out
    assert "inference in 2 partitions" in text
    assert "torch: aten::sin, 1 call at test_partition.py:" in text
    assert "a test places it there" in text


def test_what_has_to_stay_in_order():
    """Draws, writes and collectives, which wait for those of other processes in their order."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    ordered = [
        graph.call_function(torch.ops._c10d_functional.all_reduce.default, (x, "sum", "0")),
        graph.call_function(torch.ops._c10d_functional.wait_tensor.default, (x,)),
        graph.call_function(torch.ops.aten.bernoulli.default, (x,)),
        graph.call_function(torch.ops.aten.add_.Tensor, (x, x)),
    ]
    assert all(map(is_ordered, ordered))
    assert not is_ordered(graph.call_function(torch.ops.aten.add.Tensor, (x, x)))


def test_attention_draws_where_it_drops():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    attention = torch.ops.aten._scaled_dot_product_flash_attention.default
    for args, kwargs, draws in (
        ((x, x, x), {}, False),
        ((x, x, x, 0.0), {}, False),
        ((x, x, x, 0.5), {}, True),
        ((x, x, x), {"dropout_p": 0.5}, True),
    ):
        assert is_rng_call(graph.call_function(attention, args, kwargs)) == draws
