"""Dynamic shapes: results equal eager's at every size, with no more graphs than dynamo needs."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.config as dynamo_config
from torch._dynamo import mark_dynamic
from torch._dynamo.decorators import mark_unbacked
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils import _pytree as pytree

F = torch.nn.functional
capture_data_dependence = dynamo_config.patch(
    capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
)


GENERATOR = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(shape, generator=GENERATOR)


def assert_equal_results(expected, got):
    expected, got = pytree.tree_leaves(expected), pytree.tree_leaves(got)
    assert len(expected) == len(got)
    for expected_value, got_value in zip(expected, got, strict=True):
        assert type(expected_value) is type(got_value)
        if not isinstance(expected_value, torch.Tensor):
            assert expected_value == got_value
            continue
        assert expected_value.shape == got_value.shape and expected_value.dtype == got_value.dtype
        assert expected_value.stride() == got_value.stride() or expected_value.numel() == 0
        torch.testing.assert_close(got_value, expected_value, atol=1e-5, rtol=1e-5, equal_nan=True)


def run_at_sizes(fn, calls, dynamic=True, mark=None, graphs=None):
    """Compare results with eager's, and the number of graphs with dynamo's and with `graphs`."""
    storage = {}
    torch._dynamo.reset()
    options = {"storage": storage}
    compiled = torch.compile(
        fn, backend="ortable", dynamic=dynamic, fullgraph=True, options=options
    )
    for args in calls:
        if mark:
            mark(*args)
        assert_equal_results(fn(*args), compiled(*args))
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    reference = torch.compile(fn, backend=counter, dynamic=dynamic, fullgraph=True)
    for args in calls:
        if mark:
            mark(*args)
        reference(*args)
    assert len(storage["instance"]) == counter.frame_count
    assert graphs is None or counter.frame_count == graphs
    return storage["instance"]


# -- sources of symbols --------------------------------------------------------------------------


def test_a_second_shape_makes_the_dimension_dynamic():
    calls = [(randn(n, 4),) for n in (3, 5, 7, 2, 100)]
    run_at_sizes(lambda x: torch.relu(x) * x.shape[0], calls, dynamic=None, graphs=2)


def test_every_dimension_is_dynamic_from_the_start():
    calls = [(randn(3, 4), randn(4, 5)), (randn(5, 6), randn(6, 2)), (randn(7, 2), randn(2, 9))]
    (record,) = run_at_sizes(lambda x, y: torch.relu(x @ y), calls, graphs=1)
    dims = [d for value in record["onnx"].graph.input for d in value.type.tensor_type.shape.dim]
    assert all(d.dim_param for d in dims if d.dim_value != 1)


def test_no_dimension_is_dynamic():
    calls = [(randn(n, 4),) for n in (3, 5, 7)]
    run_at_sizes(lambda x: x * x.shape[0], calls, dynamic=False, graphs=3)


def test_marked_dimension_with_limits():
    calls = [(randn(n, 4),) for n in (3, 64, 2)]
    mark = lambda x: mark_dynamic(x, 0, min=2, max=64)  # noqa: E731
    run_at_sizes(lambda x: torch.softmax(x, 0).sum(1), calls, dynamic=None, mark=mark, graphs=1)


def test_marked_dimensions_that_must_be_equal():
    def mark(x, y):
        mark_dynamic(x, 0)
        mark_dynamic(y, 0)

    calls = [(randn(n, 2), randn(n, 2)) for n in (5, 6, 9)]
    run_at_sizes(lambda x, y: x + y, calls, dynamic=None, mark=mark, graphs=1)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w: torch.relu(x) * 2 + w[0],
        lambda x, w: torch.relu(x @ w).sum(0),
        lambda x, w: torch.cat([x, x]) @ w,
    ],
    ids=["pointwise", "matmul", "cat"],
)
def test_unbacked_dimension_serves_zero_and_one(fn):
    calls = [(randn(n, 4), randn(4, 4)) for n in (3, 0, 1, 9)]
    run_at_sizes(fn, calls, dynamic=None, mark=lambda x, w: mark_unbacked(x, 0), graphs=1)


def test_sizes_zero_and_one_are_graphs_of_their_own():
    calls = [(randn(n, 2),) for n in (5, 1, 0, 3, 1, 0)]
    run_at_sizes(lambda x: torch.relu(x).sum(0), calls, graphs=3)


def test_nothing_is_compiled_again():
    compiled = torch.compile(lambda x: x * 2 + x.shape[1], backend="ortable", dynamic=True)
    compiled(randn(3, 4))
    with dynamo_config.patch(error_on_recompile=True):
        for rows in (5, 100, 2):
            x = randn(rows, 7)
            torch.testing.assert_close(compiled(x), x * 2 + 7)


# -- derived dimensions -------------------------------------------------------------------------

DERIVED = {
    "cat": (
        lambda x, y: torch.cat([x, y, x]),
        [(randn(3, 4), randn(2, 4)), (randn(5, 6), randn(6, 6)), (randn(7, 2), randn(3, 2))],
    ),
    "slices": (
        lambda x: (x[1:], x[:-1] * 2, x[:, 1:-1].contiguous(), x[: x.shape[0] // 2] + 1),
        [(randn(5, 6),), (randn(7, 9),), (randn(9, 8),)],
    ),
    "products": (
        lambda x: (x.reshape(-1), (x * 2).view(x.shape[0] * x.shape[1], x.shape[2])),
        [(randn(5, 4, 2),), (randn(7, 6, 3),), (randn(9, 8, 4),)],
    ),
    "inferred": (
        lambda x: (x + 1).view(x.shape[0], -1),
        [(randn(5, 4, 2),), (randn(7, 6, 3),), (randn(9, 8, 4),)],
    ),
    "flatten": (
        lambda x: x.flatten(1).unflatten(1, (x.shape[1], x.shape[2])) * 2,
        [(randn(3, 4, 5),), (randn(5, 6, 2),)],
    ),
    "chunk": (
        lambda x: [c * 2 for c in torch.chunk(x, 2, dim=1)],
        [(randn(5, 4),), (randn(7, 6),), (randn(9, 8),)],
    ),
    "floor_division": (
        lambda x: (x[:, : x.shape[1] // 3] * 2, x[:, x.shape[1] // 3 :] * 3),
        [(randn(5, 4),), (randn(7, 6),), (randn(9, 11),)],
    ),
    "modulo": (
        lambda x: (x.new_ones((x.shape[0] % 3) + 2), x.shape[0] % 3),
        [(randn(4, 5),), (randn(5, 6),), (randn(9, 6),)],
    ),
    "max_min": (
        lambda x, y: (
            x.new_zeros(torch.sym_max(x.shape[0], y.shape[0])) + 1,
            x[: torch.sym_min(x.shape[0], y.shape[0])] * 2,
        ),
        [(randn(5), randn(4)), (randn(3), randn(6)), (randn(9), randn(9))],
    ),
    "same_symbol": (
        lambda x, y: (x + y, x * y.sum()),
        [(randn(5), randn(5)), (randn(6), randn(6)), (randn(9), randn(9))],
    ),
    "expand": (
        lambda x, y: x.unsqueeze(0).expand(y.shape[0], -1) + y,
        [(randn(3), randn(4, 3)), (randn(5), randn(7, 5))],
    ),
    "pad": (
        lambda x: F.pad(x, (0, 16 - x.shape[1])),
        [(randn(5, 4),), (randn(7, 6),), (randn(9, 8),)],
    ),
    "arange": (
        lambda x: x + torch.arange(x.shape[1])[None, :],
        [(randn(3, 4),), (randn(5, 6),)],
    ),
    "triangle": (
        lambda x: torch.tril(torch.ones(x.shape[0], x.shape[0])) @ x,
        [(randn(3, 4),), (randn(5, 6),)],
    ),
    "interpolate": (
        lambda x: F.interpolate(x, scale_factor=2.0),
        [(randn(2, 3, 4, 5),), (randn(3, 2, 6, 7),)],
    ),
    "attention": (
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        [(randn(2, 3, 5, 8),), (randn(3, 4, 7, 6),), (randn(5, 2, 9, 4),)],
    ),
    "transposed_input": (
        lambda x: (x * 2, x.t()),
        [(randn(4, 3).t(),), (randn(6, 5).t(),), (randn(9, 7).t(),)],
    ),
    "strided_input": (
        lambda x: x * 2,
        [(randn(4, 6)[:, ::2],), (randn(6, 10)[:, ::2],), (randn(9, 8)[:, ::2],)],
    ),
}


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("name", DERIVED)
def test_derived_dimensions(name):
    run_at_sizes(*DERIVED[name])


def test_convolutions_at_every_image_size():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    ).eval()
    with torch.no_grad():
        calls = [(randn(2, 3, 16, 18),), (randn(4, 3, 20, 24),), (randn(5, 3, 33, 17),)]
        run_at_sizes(model, calls)


# -- numbers as arguments and results -----------------------------------------------------------


def test_ints_are_arguments_and_results():
    def fn(x, n):
        return x * n, n + 1, n // 3, n % 4, -n, x.shape[0], x.numel(), x.shape[0] * n + 3

    run_at_sizes(fn, [(randn(3, 4), 7), (randn(5, 6), 9), (randn(9, 2), 12)], graphs=1)


def test_graph_without_tensor_arguments():
    run_at_sizes(lambda n: torch.arange(n) * 2, [(7,), (9,), (12,)], graphs=1)


def test_list_of_tensors_and_list_of_ints():
    def fn(xs):
        return [x.shape[0] + 1 for x in xs] + [torch.stack([x.sum() for x in xs])]

    run_at_sizes(fn, [([randn(3), randn(4)],), ([randn(5), randn(7)],)], graphs=1)


def test_floats_are_arguments_and_results():
    def fn(x, a):
        return x * a, x / x.shape[0] ** 0.5, x.shape[0] / 3

    run_at_sizes(fn, [(randn(3, 4), 0.5), (randn(5, 6), 2.5), (randn(9, 2), -1.25)], graphs=1)


def test_comparison_of_sizes_is_a_result():
    def fn(x):
        return x + 1, x.shape[0] > 4, x.shape[0] == x.shape[1]

    with capture_data_dependence:
        run_at_sizes(fn, [(randn(3, 4),), (randn(5, 6),), (randn(9, 2),)])


# -- data-dependent sizes and numbers ------------------------------------------------------------


def get_bounded_number(tensor, limit=None):
    number = tensor.item()
    torch._check(number >= 0)
    if limit is not None:
        torch._check(number <= limit)
    return number


def split_by(x, sizes):
    first, second = sizes.tolist()
    torch._check(first >= 0)
    torch._check(second >= 0)
    return [part + 1 for part in torch.split(x, [first, second])]


def index_with_nonzero(x):
    indices = torch.nonzero(x).squeeze(1)
    return x[indices].sum(), indices.shape[0], torch.cat([x[indices], x])


SIGNED_CALLS = [(randn(5, 2),), (randn(7, 2),), (-randn(3, 4).abs(),)]
FROM_DATA = {
    "nonzero": (lambda x: (torch.nonzero(x > 0), x + 1), SIGNED_CALLS),
    "masked_select": (lambda x: torch.masked_select(x, x > 0) * 2, SIGNED_CALLS),
    "mask_index": (lambda x: (x[x > 0] * 2, x[x > 0].shape[0]), SIGNED_CALLS),
    "nonzero_as_index": (
        index_with_nonzero,
        [(torch.tensor([0.0, 1, 2]),), (torch.tensor([0.0, 0, 0, 5]),), (torch.zeros(6),)],
    ),
    "unique": (torch.unique, [(torch.randint(0, 5, (n,)),) for n in (10, 20)]),
    "repeat_interleave": (
        torch.repeat_interleave,
        [(randn(3), torch.tensor([1, 2, 0])), (randn(2), torch.tensor([4, 1]))],
    ),
    "int_factor": (
        lambda x, n: x * n.item(),
        [(randn(5, 2), torch.tensor(3)), (randn(7, 2), torch.tensor(0))],
    ),
    "float_factor": (
        lambda x, n: x * n.item(),
        [(randn(5, 2), torch.tensor(3.5)), (randn(7, 2), torch.tensor(0.25))],
    ),
    "int_result": (
        lambda x, n: (x + 1, n.item(), n.item() + 1),
        [(randn(5, 2), torch.tensor(3)), (randn(7, 2), torch.tensor(0))],
    ),
    "float_result": (
        lambda x, n: (x + 1, n.item()),
        [(randn(5, 2), torch.tensor(3.0)), (randn(7, 2), torch.tensor(0.5))],
    ),
    "bool_result": (
        lambda x, n: (x + 1, n.item()),
        [(randn(5, 2), torch.tensor(True)), (randn(7, 2), torch.tensor(False))],
    ),
    "new_size": (
        lambda n: torch.zeros(get_bounded_number(n), 3) + 1,
        [(torch.tensor(3),), (torch.tensor(0),), (torch.tensor(1),)],
    ),
    "slice": (
        lambda x, n: x[: get_bounded_number(n, x.shape[0])] * 2,
        [(randn(5, 2), torch.tensor(n)) for n in (3, 0, 1, 5)],
    ),
    "narrow_view": (
        lambda x, n: x.narrow(0, 0, get_bounded_number(n, x.shape[0])),
        [(randn(5, 2), torch.tensor(n)) for n in (3, 0, 1, 5)],
    ),
    "tolist": (
        split_by,
        [(randn(5, 2), torch.tensor([3, 2])), (randn(7, 2), torch.tensor([0, 7]))],
    ),
}


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("name", FROM_DATA)
def test_sizes_from_data(name):
    fn, calls = FROM_DATA[name]
    with capture_data_dependence:
        run_at_sizes(fn, calls)


# -- training -----------------------------------------------------------------------------------


def train_at_sizes(fn, calls, parameters=()):
    """Check gradients of arguments and parameters against eager's; return the kinds of graphs."""
    storage = {}
    options = {"storage": storage}
    compiled = torch.compile(fn, backend="ortable", dynamic=True, fullgraph=True, options=options)
    for args in calls:
        leaves = [a.requires_grad_() for a in args if isinstance(a, torch.Tensor)]
        leaves = [*leaves, *parameters]
        expected = torch.autograd.grad(fn(*args).pow(2).sum(), leaves)
        got = torch.autograd.grad(compiled(*args).pow(2).sum(), leaves)
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-3)
    return [record["kind"] for record in storage["instance"]]


def make_network(*layers):
    model = torch.nn.Sequential(*layers)
    return model, list(model.parameters())


def test_gradients_of_dense_layers_at_every_batch_size():
    nn = torch.nn
    model, parameters = make_network(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2))
    kinds = train_at_sizes(model, [(randn(n, 4),) for n in (3, 5, 9, 2)], parameters)
    assert kinds == ["forward", "backward"]


def test_gradients_of_convolutions_at_every_image_size():
    nn = torch.nn
    model, parameters = make_network(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    kinds = train_at_sizes(model, [(randn(n, 2, 4 * n, 8),) for n in (3, 5, 9)], parameters)
    assert kinds.count("forward") == 1
    assert kinds.count("backward") <= 1  # the tables may place the whole backward in torch


GRADIENTS = {
    "slices": lambda x, y: torch.cat([x[: x.shape[0] // 2] * 2, y.repeat(2, 1)]) * x.shape[0],
    "sizes_as_factors": lambda x, y: (x / x.shape[0] ** 0.5).sum(0) * y / y.shape[1],
    "attention": lambda x, y: F.scaled_dot_product_attention(*[x[None, None] * y.mean()] * 3),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_with_derived_dimensions(name):
    calls = [(randn(n, n + 3), randn(n + 1, n + 3)) for n in (4, 6, 9)]
    assert train_at_sizes(GRADIENTS[name], calls) == ["forward", "backward"]


def test_int_argument_is_saved_for_the_backward():
    calls = [(randn(n, n + 3), n * 4) for n in (4, 6, 9)]
    assert train_at_sizes(lambda x, n: torch.sin(x * n) / n, calls) == ["forward", "backward"]


@pytest.mark.parametrize("kind", [int, float])
def test_number_of_a_tensor_is_saved_for_the_backward(kind):
    def fn(x):
        return torch.sin(x * (torch.tensor([2, 3]).sum().to(kinds[kind]).item() * 2 + x.shape[0]))

    kinds = {int: torch.int64, float: torch.float32}
    with capture_data_dependence:
        calls = [(randn(n, n + 3),) for n in (4, 6)]
        assert train_at_sizes(fn, calls) == ["forward", "backward"]


def test_gradients_through_a_selection():
    with capture_data_dependence:
        kinds = train_at_sizes(lambda x: x[x > 0] * 3, [(randn(n, n + 3),) for n in (4, 6, 9)])
    assert kinds == ["forward", "backward"]


@pytest.mark.parametrize("beta", [0, 3])
def test_a_dynamic_factor_of_0_hides_what_it_is_multiplied_with(beta: int) -> None:
    """With a factor of 0, torch ignores the first tensor; the graph serves other factors, too."""

    def product(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: int) -> torch.Tensor:
        return torch.addmm(x, a, b, beta=beta) + torch.addmv(x[0], b.T, a[0], beta=beta)

    x = torch.full((3, 3), float("inf"))
    a, b = torch.randn(3, 4), torch.randn(4, 3)
    compiled = torch.compile(product, backend="ortable", dynamic=True)
    torch.testing.assert_close(compiled(x, a, b, 5), product(x, a, b, 5))
    torch.testing.assert_close(compiled(x, a, b, beta), product(x, a, b, beta))


def test_an_empty_result_as_long_as_data_says() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(torch.nonzero, backend="ortable", fullgraph=True)
        for number in (torch.tensor(3.0), torch.tensor(0.0)):
            assert compiled(number).shape == torch.nonzero(number).shape
