"""Fixtures that register the backend and clear compiled code before each test."""

from __future__ import annotations

import pytest
import torch

from tests.backend.freezing import backends  # noqa: F401


@pytest.fixture(autouse=True)
def fresh_compiler():
    """Clear compiled graphs and caches, and seed torch's generator."""
    from torch._dynamo.backends.registry import _BACKENDS, list_backends, register_backend

    from ortable.backend.aot.entry import ortable
    from ortable.backend.cache.memory import clear_caches

    if "ortable" not in list_backends() and "ortable" not in _BACKENDS:
        register_backend(ortable, name="ortable")  # the package is on the path, not installed
    torch._dynamo.reset()
    clear_caches()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def every_partition(monkeypatch):
    """Keep the sessions of all partitions of training graphs, however small their products."""
    from ortable.backend.partition import absorb_small

    for name in ("LONG_FLOPS", "_LONG_FLOPS_OF_MANY"):
        monkeypatch.setattr(absorb_small, name, -1)


@pytest.fixture
def run_both():
    """Return a function that compares results and arguments of a compiled call with eager."""
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
    """Check that every tensor of `got` has the expected dtype, shape, strides and values."""
    expected = expected if isinstance(expected, list | tuple) else [expected]
    got = got if isinstance(got, list | tuple) else [got]
    assert len(expected) == len(got)
    for expected_value, got_value in zip(expected, got, strict=True):
        if not isinstance(expected_value, torch.Tensor):
            assert expected_value == got_value
            continue
        assert expected_value.dtype == got_value.dtype
        assert expected_value.shape == got_value.shape
        if strides:
            assert expected_value.stride() == got_value.stride()
        torch.testing.assert_close(got_value, expected_value, atol=atol, rtol=1e-5, equal_nan=True)
