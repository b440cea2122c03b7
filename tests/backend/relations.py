"""Compare a compiled function with eager in its writes and in which tensors share memory."""

from __future__ import annotations

import itertools

import torch
from torch.utils import _pytree as pytree


def randn(*shape, **kwargs):
    return torch.randn(shape, **kwargs)


def tensors_of(values):
    return [t for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]


def properties(tensor):
    """Return a tensor's properties that must equal eager's, without strides of axes of size 1."""
    strides = [
        stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1
    ]
    return {
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "strides": strides if tensor.numel() else None,
        "offset": tensor.storage_offset(),
        "requires_grad": tensor.requires_grad,
        "leaf": tensor.is_leaf,
        "written": not tensor.is_inference() and tensor._version > 0,
    }


def relations(tensors, identity=True):
    """Return how each pair relates: same object (with `identity`), shared memory, or views."""
    pairs = {}
    for (i, a), (j, b) in itertools.combinations(enumerate(tensors), 2):
        start = a.untyped_storage().data_ptr()
        pairs[i, j] = {
            "same": identity and a is b,
            "memory": start != 0 and start == b.untyped_storage().data_ptr(),
            "view": (a._base is b, b._base is a),
            "siblings": a._base is not None and a._base is b._base,
        }
    return pairs


def compare(fn, make, *, grad=False, calls=2, identity=True, reference=None, **kwargs):
    """Compare `fn` in eager (or `reference`) with the compiled `fn` over several calls.

    `make` returns the arguments of a call. Arguments and results are compared after each call, and
    the values of all calls once more at the end.
    """
    kwargs.setdefault("fullgraph", True)
    compiled = torch.compile(fn, backend="ortable", **kwargs)
    results = []
    for call in range(calls):
        torch.manual_seed(call)
        eager_args = make()
        torch.manual_seed(call)
        compiled_args = make()
        with torch.set_grad_enabled(grad):
            expected = tensors_of((eager_args, (reference or fn)(*eager_args)))
            got = tensors_of((compiled_args, compiled(*compiled_args)))
        assert len(got) == len(expected)
        assert [properties(t) for t in got] == [properties(t) for t in expected]
        assert relations(got, identity) == relations(expected, identity)
        results.append((got, expected))
    for got, expected in results:
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b, **tolerances(a.dtype), equal_nan=True)
    return results


def tolerances(dtype):
    """Return close tolerances, or torch.testing's own for 16-bit dtypes."""
    return {} if dtype in (torch.float16, torch.bfloat16) else {"atol": 1e-5, "rtol": 1e-5}
