"""Operators that need dynamic sizes as numbers: the graph computes them or torch recompiles."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounterWithBackend

from .against_eager import assert_close, compiled

ONE_GRAPH = {
    "CLIP's loss": (
        lambda a, b: F.cross_entropy(a @ b.t(), torch.arange(a.shape[0])),
        lambda n: (torch.randn(n, 4), torch.randn(n, 4)),
    ),
    "loss over dynamic classes": (
        lambda x: F.cross_entropy(x, torch.arange(2) + 1, label_smoothing=0.1),
        lambda n: (torch.randn(2, n),),
    ),
    "loss of images": (
        lambda x: F.nll_loss(x, torch.ones(2, 3, 3, dtype=torch.long)),
        lambda n: (torch.randn(2, n, 3, 3),),
    ),
    "adaptive pooling": (
        lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
        lambda n: (torch.randn(2, 2, n, n + 1),),
    ),
    "uneven pooling": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda n: (torch.randn(2, 2, n, n),),
    ),
    "uneven pooling in double": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
        lambda n: (torch.randn(2, 2, n, n, dtype=torch.float64),),
    ),
    "edges repeated": (
        lambda x: F.pad(x, (2, -1, 1, 0), mode="replicate"),
        lambda n: (torch.randn(2, 2, n, n),),
    ),
    "arange in steps of a half": (
        lambda x: torch.arange(0.0, x.shape[0], 0.5) * x.sum(),
        lambda n: (torch.randn(n),),
    ),
    "arange downwards": (
        lambda x: torch.arange(x.shape[0], -x.shape[0], -1.0) * x.sum(),
        lambda n: (torch.randn(n),),
    ),
    "differences": (lambda x: x.diff(dim=0), lambda n: (torch.randn(n, 3),)),
    "round to digits": (
        lambda x: x * round(x.shape[0] / 2 * 1.5, 1),
        lambda n: (torch.randn(n),),
    ),
}
GRAPH_PER_SIZE = {
    "groups": (
        lambda x: F.conv2d(x, torch.ones(x.shape[1], 1, 3, 3), groups=x.shape[1]),
        lambda n: (torch.randn(2, n, 5, 5),),
    ),
    "dilation": (
        lambda x: F.conv2d(x, torch.ones(2, 3, 2, 2), dilation=x.size(0)),
        lambda n: (torch.randn(n, 3, 12, 12),),
    ),
    "order of a norm": (lambda x, p: x.norm(p=p), lambda n: (torch.randn(4), n)),
    "order from a size": (
        lambda x: torch.linalg.vector_norm(x, x.shape[0] / 2),
        lambda n: (torch.randn(n, 4),),
    ),
}


INFERENCE_ONLY = ("groups", "dilation")  # in training, torch runs the convolutions for every size


def run_without_gradients(fn, args):
    """Return a function's result without gradients."""
    with torch.no_grad():
        return fn(*args)


def run_with_gradients(fn, args):
    """Return a function's result and the gradients of its tensors."""
    args = [x.detach().requires_grad_() if isinstance(x, torch.Tensor) else x for x in args]
    result = fn(*args)
    weights = torch.linspace(1, 2, result.numel(), dtype=result.dtype).reshape(result.shape)
    (result * weights).sum().backward()
    return result.detach(), [x.grad for x in args if isinstance(x, torch.Tensor)]


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_training_graph_serves_every_size(name, fresh_dynamo):
    fn, make = ONE_GRAPH[name]
    counter = CompileCounterWithBackend("ortable")
    compiled_fn = torch.compile(fn, backend=counter, dynamic=True)
    for size in (7, 4):
        args = make(size)
        assert_close(run_with_gradients(compiled_fn, args), run_with_gradients(fn, args))
    assert counter.frame_count == 1


@pytest.mark.parametrize("name", GRAPH_PER_SIZE)
def test_a_size_that_must_be_known_compiles_anew_for_another(name, fresh_dynamo):
    fn, make = GRAPH_PER_SIZE[name]
    run = run_without_gradients if name in INFERENCE_ONLY else run_with_gradients
    counter = CompileCounterWithBackend("ortable")
    compiled_fn = torch.compile(fn, backend=counter, dynamic=True)
    for size in (4, 3, 4):
        args = make(size)
        assert_close(run(compiled_fn, args), run(fn, args))
    assert counter.frame_count == 2


def test_a_size_in_the_backward_alone_is_guarded_too(fresh_dynamo):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.size = x.shape[0]
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * torch.linalg.vector_norm(grad, ctx.size)

    compiled_fn = compiled(Doubled.apply, dynamic=True)
    for size in (4, 3):
        args = (torch.randn(size, 3),)
        assert_close(run_with_gradients(compiled_fn, args), run_with_gradients(Doubled.apply, args))


def test_round_to_digits_is_pythons(fresh_dynamo):
    compiled_fn = compiled(lambda x: x * 0 + round(x.shape[0] * 0.0001, 3), dynamic=True)
    for size in range(5, 200, 10):  # each product is halfway between two results
        x = torch.zeros(size, dtype=torch.float64)
        assert compiled_fn(x)[0].item() == round(size * 0.0001, 3)


def test_verbose_says_what_is_compiled_for_one_size(fresh_dynamo, capsys):
    compiled_fn = compiled(lambda x, p: x.norm(p=p), dynamic=True, verbose=1)
    with torch.no_grad():
        compiled_fn(torch.randn(3), 3)
    report = capsys.readouterr().out
    assert " = 3: test_known_sizes.py:" in report and "aten::linalg_vector_norm" in report
