"""Fixtures of the backend tests: each starts with no compiled code, one thread, and the name
registered."""

from __future__ import annotations

import pytest
import torch

from tests.backend.freezing import backends  # noqa: F401


@pytest.fixture(autouse=True)
def fresh_compiler():
    """No graph of an earlier test, and the same random numbers."""
    from torch._dynamo.backends.registry import _BACKENDS, list_backends, register_backend

    from ortable.backend.aot.entry import ortable
    from ortable.backend.cache.memory import clear_caches

    if "ortable" not in list_backends() and "ortable" not in _BACKENDS:
        register_backend(ortable, name="ortable")  # the package is on the path, not installed
    torch._dynamo.reset()
    clear_caches()  # no session of an earlier test is shared
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def every_partition(monkeypatch):
    """Partitions of graphs that train keep their sessions however short their products are."""
    from ortable.backend.partition import absorb_small

    for name in ("LONG_FLOPS", "_LONG_FLOPS_OF_MANY"):
        monkeypatch.setattr(absorb_small, name, -1)


@pytest.fixture
def run_both():
    """`run_both(fn, *args, **compile_arguments)`: results of eager and of the compiled function, on
    copies of the arguments; checks dtype, shape, strides and values of every tensor result."""
    import copy

    def run(fn, *args, atol=1e-5, grad=False, strides=True, **kwargs):
        eager_args, compiled_args = copy.deepcopy(args), copy.deepcopy(args)
        kwargs.setdefault("backend", "ortable")
        with torch.set_grad_enabled(grad):
            expected = fn(*eager_args)
            got = torch.compile(fn, fullgraph=True, **kwargs)(*compiled_args)
        assert_same(expected, got, atol, strides)
        assert_same(eager_args, compiled_args, atol, strides)
        return expected, got

    return run


def assert_same(expected, got, atol, strides=True):
    """Every tensor of `got` equals that of `expected` in dtype, shape, strides and value."""
    expected = expected if isinstance(expected, list | tuple) else [expected]
    got = got if isinstance(got, list | tuple) else [got]
    assert len(expected) == len(got)
    for a, b in zip(expected, got, strict=True):
        if not isinstance(a, torch.Tensor):
            assert a == b
            continue
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if strides:
            assert a.stride() == b.stride()
        torch.testing.assert_close(b, a, atol=atol, rtol=1e-5, equal_nan=True)
