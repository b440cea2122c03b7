"""Compare modules, compiled and in eager, by their results and gradients over several calls."""

from __future__ import annotations

import contextlib
import copy
import warnings

import torch
from torch.utils import _pytree as pytree


def compiled(fn, dynamic=False, fullgraph=True, **options):
    return torch.compile(
        fn, backend="ortable", fullgraph=fullgraph, dynamic=dynamic, options=options
    )


@contextlib.contextmanager
def every_warning_an_error():
    """Turn warnings into errors, except the one of torch about Python 3.13.0."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Guards may run slower on Python 3.13.0")
        yield


def call_until_decided(run, x, storage):
    """Call until option `autotune` has decided the first graph; return the last result."""
    for _ in range(50_000):
        result = run(x)
        if not storage["autotune"][0].is_open:
            break
    return result


def assert_close(got, expected):
    got, expected = pytree.tree_leaves(got), pytree.tree_leaves(expected)
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-3)


def assert_equal_to_eager(model, calls, *, train=True, **kwargs):
    """Check a module's results and gradients at every call of `calls`; return the records."""
    storage = {}
    eager = copy.deepcopy(model)
    fn = compiled(model, storage=storage, **kwargs)
    for args in calls:
        with torch.no_grad():
            assert_close(fn(*args), eager(*args))
        if train:
            expected = torch.autograd.grad(loss_of(eager(*args)), list(eager.parameters()))
            got = torch.autograd.grad(loss_of(fn(*args)), list(model.parameters()))
            assert_close(got, expected)
    return storage["instance"]


def loss_of(result):
    return result.float().pow(2).mean()
