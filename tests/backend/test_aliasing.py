"""Results share memory with arguments and each other as in eager, with and without gradients."""

from __future__ import annotations

import pytest
import torch

from tests.backend.relations import compare, randn

F = torch.nn.functional


# -- arguments that alias each other ------------------------------------------------------------


def write_first(a, b):
    a.mul_(2)
    return a + b


def write_both(a, b):
    a.mul_(2)
    b.add_(1)
    return a * b


def make_overlapping():
    base = randn(6)
    return base[:3], base[2:5]


def make_base_and_transposed():
    base = randn(4, 4)
    return base, base.t()


def make_same_tensor_twice():
    x = randn(3)
    return x, x


ALIASED = {
    "overlapping": (write_first, make_overlapping),
    "overlapping_both": (write_both, make_overlapping),
    "base_and_view": (write_both, make_base_and_transposed),
    "twice": (write_first, make_same_tensor_twice),
    "twice_unwritten": (lambda a, b: (a + b, a, b), make_same_tensor_twice),
    "twice_returned": (lambda a, b: (a.mul_(2) + b, b), make_same_tensor_twice),
}


@pytest.mark.parametrize("name", ALIASED)
def test_arguments_that_alias(name):
    compare(*ALIASED[name])


def test_arguments_that_alias_and_require_gradients():
    def make():
        base = randn(6, requires_grad=True) * 1
        return base[:3], base[2:5]

    compare(write_first, make, grad=True)


# -- results that alias -------------------------------------------------------------------------


def several_views(x):
    y = x + 1
    return y.t(), y[0], y.view(-1)


def view_and_value(x):
    y = x + 1
    return y, y.t()


def return_result_twice(x):
    y = x + 1
    return y, y


def return_pieces_twice(x):
    y = x + 1
    return y.split(2)[0], y.split(2)[0], y.split(2)[1].t(), y.split(2)[0].t(), x.split(2)[0]


def make_renaming_function(make_names):
    """Return a function that names one computed tensor twice, and a maker of its argument."""

    def fn(x):
        return make_names(x + 1)

    return fn, lambda: (randn(3, 4),)


# One tensor under two names. `_base` of a view is its base; `detach` does not create a view.
NAMES = {
    "detached": lambda y: (y, y.detach()),
    "detached_first": lambda y: (y.detach(), y),
    "detached_twice": lambda y: (y.detach(), y.detach()),
    "detached_and_transposed": lambda y: (y, y.detach().t()),
    "transposed_and_detached": lambda y: (y.t().detach(), y),
    "detached_beside_a_view": lambda y: (y.detach(), y.t()),
    "transposed_twice": lambda y: (y, y.t().t()),
    "transposed_twice_first": lambda y: (y.t().t(), y),
    "alias": lambda y: (y, torch.ops.aten.alias(y)),
    "alias_first": lambda y: (torch.ops.aten.alias(y), y),
    "aliases": lambda y: (torch.ops.aten.alias(y), torch.ops.aten.alias(y)),
}


@pytest.mark.parametrize("name", NAMES)
def test_one_tensor_under_two_names(name):
    fn, make = make_renaming_function(NAMES[name])
    compare(fn, make, calls=1)
    torch._dynamo.reset()
    compare(fn, lambda: (randn(3, 4, requires_grad=True),), grad=True, calls=1)


RESULTS = {
    "argument": (lambda x: (x, x + 1), lambda: (randn(3, 4),)),
    "views_of_argument": (lambda x: (x.t(), x[0], x.view(-1)), lambda: (randn(3, 4),)),
    "other_dtype": (
        lambda x: (x.view(torch.int32), torch.view_as_complex(x)),
        lambda: (randn(4, 2),),
    ),
    "view_and_value": (view_and_value, lambda: (randn(3, 4),)),
    "several_views": (several_views, lambda: (randn(3, 4),)),
    "split": (lambda x: (x + 1).split(2), lambda: (randn(4, 2),)),
    "same_piece_twice": (return_pieces_twice, lambda: (randn(4, 2),)),
    "same_object": (return_result_twice, lambda: (randn(3),)),
    "detached": (lambda x: (x.detach(), (x * 2).detach()), lambda: (randn(3, 4),)),
    "real": (lambda x: x.real, lambda: (randn(4, dtype=torch.complex64),)),
    "complex": (lambda x: x * 2, lambda: (randn(4, dtype=torch.complex64),)),
    "layout_kept": (lambda x: torch.exp(x), lambda: (randn(3, 4).t(),)),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_alias(name, dynamic):
    compare(*RESULTS[name], dynamic=dynamic)


def test_a_write_into_a_result_is_seen_by_its_views():
    fn = torch.compile(view_and_value, backend="ortable")
    y, transposed = fn(randn(3, 4))
    y.zero_()
    assert float(transposed.abs().sum()) == 0


def test_two_equal_pieces_are_two_tensors():
    fn = torch.compile(return_pieces_twice, backend="ortable")
    first, second, *_ = fn(torch.zeros(4, 2))
    assert first is not second
    first.unsqueeze_(0)
    assert second.shape == (2, 2)


def test_a_write_into_a_result_leaves_the_next_call_alone():
    fn = torch.compile(lambda x: x * 0 + torch.arange(3.0), backend="ortable")
    x = randn(3)
    fn(x).add_(10)
    torch.testing.assert_close(fn(x), torch.arange(3.0))


# -- gradients ----------------------------------------------------------------------------------


def update_running_average(buffer, x, weight):
    buffer.mul_(0.9).add_(x.detach() * 0.1)
    return (x * weight).sum()


def write_own_result(x):
    y = x * 2
    y.mul_(3)
    y[0].add_(1)
    return y.sum()


def write_weight(weight, x):
    with torch.no_grad():
        weight.add_(1)
    return x * weight


def write_nonleaf(x):
    x.mul_(2)
    return x * 3


TRAINED = {
    "buffer": (
        update_running_average,
        lambda: (randn(3, 4), randn(3, 4), randn(3, 4, requires_grad=True)),
    ),
    "own": (write_own_result, lambda: (randn(3, 4, requires_grad=True),)),
    "leaf_under_no_grad": (write_weight, lambda: (randn(3, requires_grad=True), randn(3))),
    "not_leaf": (write_nonleaf, lambda: (randn(3, 4, requires_grad=True) * 1,)),
    "mixed_results": (
        lambda x, y: (x * 2, y * 2, x.t(), y.t(), x, (x * 3).detach()),
        lambda: (randn(3, 4, requires_grad=True), randn(3, 4)),
    ),
    "views": (view_and_value, lambda: (randn(3, 4, requires_grad=True),)),
    "view_of_not_leaf": (lambda x: x.t(), lambda: (randn(3, 4, requires_grad=True) * 1,)),
}


@pytest.mark.parametrize("name", TRAINED)
def test_writes_and_aliases_while_training(name):
    for got, expected in compare(*TRAINED[name], grad=True):
        for got_result, expected_result in zip(got, expected, strict=True):
            assert (got_result.grad_fn is None) == (expected_result.grad_fn is None)


@pytest.mark.parametrize("make", [lambda: randn(3, 4).t(), lambda: randn(3, 4)])
def test_results_may_be_written_while_training(make):
    """Autograd would raise an error here if the result were a view."""
    x = make().requires_grad_()
    y = torch.compile(lambda x: torch.sinh(x).t().contiguous().t(), backend="ortable")(x)
    y.mul_(2)
    (got,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(got, 2 * torch.cosh(x))


def test_a_write_into_what_the_backward_needs_is_refused():
    x = randn(3, 4, requires_grad=True)
    y = torch.compile(lambda x: torch.exp(x), backend="ortable")(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_statistics(training):
    def run_model(use_compiled):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU()
        )
        statistics = dict(model.named_buffers())
        fn = torch.compile(model, backend="ortable", fullgraph=True) if use_compiled else model
        for _ in range(3):
            with torch.set_grad_enabled(training):
                result = fn(randn(2, 2, 6, 6))
            if training:
                result.sum().backward()
        assert all(statistics[name] is buffer for name, buffer in model.named_buffers())
        assert int(model[1].num_batches_tracked) == 3
        return result, statistics, [p.grad for p in model.parameters()]

    torch.testing.assert_close(run_model(True), run_model(False), atol=1e-5, rtol=1e-4)
