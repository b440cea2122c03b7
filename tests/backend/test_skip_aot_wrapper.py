"""Graphs are called without AOTAutograd's wrappers where the wrappers would do nothing."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

from ortable.backend.aot import skip_aot_wrapper
from ortable.backend.aot.compilation import Compilation
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.options import OrtOptions


def add_one(x):
    return torch.relu(x) + 1


def return_three(x):
    return torch.relu(x), (x * 2).t().contiguous(), x.shape[0]


def return_permuted(x):
    return (x * 2).t()


def write_argument(x):
    x.add_(1)
    return x * 2


def return_view(x):
    return x.t()


def return_argument(x):
    return x


def return_two_views(x):
    y = x * 2
    return y, y.t()


def return_pieces(x):
    return *x.split(1), x, x[1:].t()


def return_same_view_twice(x):
    return x.view(-1), x.view(-1)


def return_detached(x):
    return x.detach(), x.t()


def disable_grad(x):
    torch._C._set_grad_enabled(False)
    return x * 2


CASES = [
    (add_one, False, True),
    (return_three, False, True),
    (return_permuted, False, True),
    (add_one, True, False),
    (write_argument, False, False),
    (return_view, False, True),
    (return_argument, False, False),
    (return_two_views, False, True),
    (return_pieces, False, True),
    (return_same_view_twice, False, True),
    (return_detached, False, False),
    (disable_grad, False, False),
]


def compile_and_collect(fn, **kwargs):
    """Return the compiled function, and the list of functions that Dynamo will call."""
    entry_points = []

    def backend(gm, args):
        entry_points.append(compile_with_autograd(gm, args, OrtOptions()))
        return entry_points[-1]

    return torch.compile(fn, backend=backend, **kwargs), entry_points


def has_no_wrapper(function):
    return function.__module__ == skip_aot_wrapper.__name__


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("fn", "grad", "expected"), CASES)
def test_only_what_needs_no_wrapper_goes_without(fn, grad, expected, dynamic):
    compiled, entry_points = compile_and_collect(fn, dynamic=dynamic)
    for size in (3, 4):
        x = torch.randn(size, 2, requires_grad=grad)
        y = x.detach().clone().requires_grad_(grad)
        was_enabled = torch.is_grad_enabled()
        with torch.set_grad_enabled(grad or fn is disable_grad):
            results = compiled(x)
        with torch.set_grad_enabled(grad or fn is disable_grad):
            expected_results = fn(y)
        torch.set_grad_enabled(was_enabled)
        torch.testing.assert_close(results, expected_results)
        torch.testing.assert_close(x, y)
        for result, expected_result in zip(
            torch.utils._pytree.tree_leaves(results),
            torch.utils._pytree.tree_leaves(expected_results),
            strict=True,
        ):
            if isinstance(result, torch.Tensor):
                assert result.stride() == expected_result.stride()
                assert result.requires_grad == expected_result.requires_grad
    # the wrapper marks the dynamic dimensions of results; Dynamo itself returns arguments
    assert all(has_no_wrapper(entry) == (expected and not dynamic) for entry in entry_points)


def test_each_view_of_an_argument_is_a_tensor_of_its_own():
    compiled, _ = compile_and_collect(lambda x: (*return_same_view_twice(x), *x.split(1)))
    x = torch.zeros(2, 2)
    with torch.no_grad():
        results = compiled(x)
    assert len({id(view) for view in results}) == 4 and all(view._base is x for view in results)
    results[3].add_(1)
    assert results[0].tolist() == [0, 0, 1, 1] and x._version == 1


def test_an_argument_given_twice():
    compiled, _ = compile_and_collect(lambda x, y: torch.relu(x) * y)
    x = torch.randn(3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, x), torch.relu(x) * x)
        torch.testing.assert_close(compiled(x, x + 1), torch.relu(x) * (x + 1))


def test_weights_that_require_grad_give_results_that_do_not():
    model = torch.nn.Linear(3, 2)
    compiled, entry_points = compile_and_collect(model)
    with torch.no_grad():
        result = compiled(torch.ones(1, 3))
        torch.testing.assert_close(result, model(torch.ones(1, 3)))
    assert not result.requires_grad
    assert has_no_wrapper(entry_points[0])


def test_weights_that_dynamo_leaves_in_the_graph_need_no_wrapper():
    model = torch.nn.Linear(3, 2)
    compiled, entry_points = compile_and_collect(model)
    with torch.no_grad(), torch._dynamo.config.patch(install_free_tensors=True):
        torch.testing.assert_close(compiled(torch.ones(1, 3)), model(torch.ones(1, 3)))
    assert entry_points[0].__qualname__.startswith("OrtBackend.")


def test_results_survive_the_next_call():
    compiled, _ = compile_and_collect(add_one)
    with torch.no_grad():
        first = compiled(torch.ones(4))
        first_before = first.clone()
        compiled(torch.zeros(4))
    assert torch.equal(first, first_before)


def test_metadata_that_is_not_known_keeps_the_wrapper():
    class Unknown:
        num_mutated_inp_runtime_indices = 0

    compiled, entry_points = compile_and_collect(add_one)
    with torch.no_grad():
        compiled(torch.ones(2))
    (inner,) = (cell.cell_contents for cell in entry_points[0].__closure__)
    graph_module = torch.fx.symbolic_trace(add_one)
    for graphs in ([(inner, Unknown())], [(inner, None)], []):
        compilation = Compilation(graph_module, [torch.ones(2)], OrtOptions(), add_one, add_one)
        compilation.compiled = graphs
        assert skip_aot_wrapper.remove_wrapper(compilation, add_one) is add_one


def test_a_first_call_with_fake_tensors_keeps_the_wrapper():
    """DDPOptimizer calls each of its subgraphs while it compiles the next one."""
    entry_points = []

    def backend(gm, args):
        context = torch._guards.TracingContext.get()
        context.fakify_first_call = True
        try:
            entry_points.append(compile_with_autograd(gm, args, OrtOptions()))
        finally:
            context.fakify_first_call = False
        return entry_points[-1]

    with torch.no_grad():
        torch.compile(add_one, backend=backend)(torch.ones(2))
    assert not has_no_wrapper(entry_points[0])


class Wrapped(torch.Tensor):
    """A tensor around one tensor, so that a graph has as many arguments as its function."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):  # dynamo prints its examples
        return f"Wrapped({self.inner})"

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(tensors, context, size, stride):
        return Wrapped(tensors["inner"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        args, kwargs = pytree.tree_map_only(Wrapped, lambda x: x.inner, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, Wrapped, function(*args, **kwargs))


def test_an_argument_that_wraps_a_tensor_keeps_the_wrapper():
    compiled, entry_points = compile_and_collect(lambda x: x * 2)
    result = compiled(Wrapped(torch.ones(3)))
    assert type(result) is Wrapped and result.inner.tolist() == [2, 2, 2]
    assert not has_no_wrapper(entry_points[0])


@pytest.mark.parametrize("grad", [False, True])
def test_a_result_that_wraps_tensors_keeps_the_wrapper(grad):
    """Forward graphs do not switch to inference graphs, which would return the inner tensors."""
    compiled, entry_points = compile_and_collect(
        lambda x: (x - 5, TwoTensor(x * 2, x + 1), torch.exp(x))
    )
    x = torch.zeros(2, requires_grad=grad)
    for _ in range(6):
        results = compiled(x)
        assert [type(result) for result in results] == [torch.Tensor, TwoTensor, torch.Tensor]
        assert results[1].a.tolist() == [0, 0] and results[1].b.tolist() == [1, 1]
    assert not has_no_wrapper(entry_points[0])
    if grad:
        ones = torch.ones(2)
        (gradient,) = torch.autograd.grad(results, x, [ones, TwoTensor(ones, ones), ones])
        assert gradient.tolist() == [2, 2]  # AOTAutograd adds none of a new TwoTensor


def test_a_nested_tensor_made_inside_is_returned_whole():
    def fn(values, offsets):
        return torch.nested.nested_tensor_from_jagged(values * 2, offsets)

    values, offsets = torch.arange(6.0).view(6, 1), torch.tensor([0, 2, 6])
    result = compile_and_collect(fn)[0](values, offsets)
    assert result.is_nested
    assert [part.flatten().tolist() for part in result.unbind()] == [[0, 2], [4, 6, 8, 10]]


def test_weights_and_unknown_results_count_as_subclasses():
    graph_module = torch.fx.symbolic_trace(add_one)
    compilation = Compilation(graph_module, [torch.ones(2)], OrtOptions(), add_one, add_one)
    assert skip_aot_wrapper._has_subclass_values(compilation)
    graph_module.graph.output_node().args[0].meta["val"] = torch.ones(2)
    assert not skip_aot_wrapper._has_subclass_values(compilation)
    graph_module.register_buffer("weight", Wrapped(torch.ones(2)))
    assert skip_aot_wrapper._has_subclass_values(compilation)


DETACHED_VIEWS = {
    "select of a detached": lambda x: x.detach()[0],
    "detached select": lambda x: x[0].detach(),
    "detached transpose": lambda x: x.t().detach(),
    "beside a view": lambda x: (x.t(), x.detach()[0])[1],
}


@pytest.mark.parametrize("name", DETACHED_VIEWS)
def test_a_view_of_a_detached_argument_passes_no_gradient(name):
    x = torch.ones(2, 3, requires_grad=True)
    result = torch.compile(DETACHED_VIEWS[name], backend="ortable", dynamic=False)(x)
    assert not result.requires_grad
    with torch.no_grad():
        assert result.data_ptr() == DETACHED_VIEWS[name](x).data_ptr()
