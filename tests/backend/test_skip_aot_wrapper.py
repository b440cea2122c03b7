"""Which graphs are called without AOTAutograd's wrappers: those for which they would do
nothing."""

from __future__ import annotations

import pytest
import torch

from ortable.backend.aot import skip_aot_wrapper
from ortable.backend.aot.compilation import Compilation
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.options import OrtOptions


def added(x):
    return torch.relu(x) + 1


def several(x):
    return torch.relu(x), (x * 2).t().contiguous(), x.shape[0]


def permuted(x):
    return (x * 2).t()


def written(x):
    x.add_(1)
    return x * 2


def viewed(x):
    return x.t()


def same(x):
    return x


def two_views(x):
    y = x * 2
    return y, y.t()


def pieces(x):
    return *x.split(1), x, x[1:].t()


def twice(x):
    return x.view(-1), x.view(-1)


def detached(x):
    return x.detach(), x.t()


def grad_off(x):
    torch._C._set_grad_enabled(False)
    return x * 2


CASES = [
    (added, False, True),
    (several, False, True),
    (permuted, False, True),
    (added, True, False),
    (written, False, False),
    (viewed, False, True),
    (same, False, False),
    (two_views, False, True),
    (pieces, False, True),
    (twice, False, True),
    (detached, False, False),
    (grad_off, False, False),
]


def compile_collecting(fn, **kwargs):
    """The compiled function, and a list that gains what dynamo calls."""
    made = []

    def backend(gm, args):
        made.append(compile_with_autograd(gm, args, OrtOptions()))
        return made[-1]

    return torch.compile(fn, backend=backend, **kwargs), made


def skips_the_wrapper(function):
    return function.__module__ == skip_aot_wrapper.__name__


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("fn", "grad", "expected"), CASES)
def test_only_what_needs_no_wrapper_goes_without(fn, grad, expected, dynamic):
    compiled, made = compile_collecting(fn, dynamic=dynamic)
    for size in (3, 4):
        x = torch.randn(size, 2, requires_grad=grad)
        y = x.detach().clone().requires_grad_(grad)
        before = torch.is_grad_enabled()
        with torch.set_grad_enabled(grad or fn is grad_off):
            got = compiled(x)
        with torch.set_grad_enabled(grad or fn is grad_off):
            wanted = fn(y)
        torch.set_grad_enabled(before)
        torch.testing.assert_close(got, wanted)
        torch.testing.assert_close(x, y)
        for a, b in zip(
            torch.utils._pytree.tree_leaves(got),
            torch.utils._pytree.tree_leaves(wanted),
            strict=True,
        ):
            if isinstance(a, torch.Tensor):
                assert a.stride() == b.stride()
                assert a.requires_grad == b.requires_grad
    # the wrapper marks the dynamic dimensions of results; dynamo itself hands back arguments
    assert all(skips_the_wrapper(each) == (expected and not dynamic) for each in made)


def test_each_view_of_an_argument_is_a_tensor_of_its_own():
    compiled, _ = compile_collecting(lambda x: (*twice(x), *x.split(1)))
    x = torch.zeros(2, 2)
    with torch.no_grad():
        results = compiled(x)
    assert len({id(each) for each in results}) == 4 and all(each._base is x for each in results)
    results[3].add_(1)
    assert results[0].tolist() == [0, 0, 1, 1] and x._version == 1


def test_an_argument_given_twice():
    compiled, _ = compile_collecting(lambda x, y: torch.relu(x) * y)
    x = torch.randn(3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, x), torch.relu(x) * x)
        torch.testing.assert_close(compiled(x, x + 1), torch.relu(x) * (x + 1))


def test_weights_that_require_grad_give_results_that_do_not():
    model = torch.nn.Linear(3, 2)
    compiled, made = compile_collecting(model)
    with torch.no_grad():
        got = compiled(torch.ones(1, 3))
        torch.testing.assert_close(got, model(torch.ones(1, 3)))
    assert not got.requires_grad
    assert skips_the_wrapper(made[0])


def test_weights_that_dynamo_leaves_in_the_graph_need_no_wrapper():
    model = torch.nn.Linear(3, 2)
    compiled, made = compile_collecting(model)
    with torch.no_grad(), torch._dynamo.config.patch(install_free_tensors=True):
        torch.testing.assert_close(compiled(torch.ones(1, 3)), model(torch.ones(1, 3)))
    assert made[0].__qualname__.startswith("OrtBackend.")


def test_results_survive_the_next_call():
    compiled, _ = compile_collecting(added)
    with torch.no_grad():
        first = compiled(torch.ones(4))
        kept = first.clone()
        compiled(torch.zeros(4))
    assert torch.equal(first, kept)


def test_metadata_that_is_not_known_keeps_the_wrapper():
    class Unknown:
        num_mutated_inp_runtime_indices = 0

    compiled, made = compile_collecting(added)
    with torch.no_grad():
        compiled(torch.ones(2))
    (inner,) = (cell.cell_contents for cell in made[0].__closure__)
    graph_module = torch.fx.symbolic_trace(added)
    for graphs in ([(inner, Unknown())], [(inner, None)], []):
        compilation = Compilation(graph_module, [torch.ones(2)], OrtOptions(), added, added)
        compilation.compiled = graphs
        assert skip_aot_wrapper.remove_wrapper(compilation, added) is added


def test_a_first_call_with_fake_tensors_keeps_the_wrapper():
    """DDPOptimizer calls each of its pieces while it compiles the next one."""
    made = []

    def backend(gm, args):
        context = torch._guards.TracingContext.get()
        context.fakify_first_call = True
        try:
            made.append(compile_with_autograd(gm, args, OrtOptions()))
        finally:
            context.fakify_first_call = False
        return made[-1]

    with torch.no_grad():
        torch.compile(added, backend=backend)(torch.ones(2))
    assert not skips_the_wrapper(made[0])
