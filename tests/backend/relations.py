"""Compares a compiled function with eager in what it writes and in which tensors share memory."""

from __future__ import annotations

import itertools

import torch
from torch.utils import _pytree as pytree


def randn(*shape, **kwargs):
    return torch.randn(shape, **kwargs)


def tensors_of(values):
    return [t for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]


def properties(tensor):
    """What eager promises of one tensor besides its values. Where a dimension has one element its
    stride says nothing."""
    strides = [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]
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
    """Which pairs are one object, share memory, or are views of each other or of a third tensor;
    without ``identity`` two objects may stand for one."""
    found = {}
    for (i, a), (j, b) in itertools.combinations(enumerate(tensors), 2):
        start = a.untyped_storage().data_ptr()
        found[i, j] = {
            "same": identity and a is b,
            "memory": start != 0 and start == b.untyped_storage().data_ptr(),
            "view": (a._base is b, b._base is a),
            "siblings": a._base is not None and a._base is b._base,
        }
    return found


def compare(fn, make, *, grad=False, calls=2, identity=True, reference=None, **kwargs):
    """Runs `fn` in eager (or `reference`) and compiled on the arguments that `make` gives, several
    times, and compares arguments and results after each call, then the values of all calls again.
    """
    kwargs.setdefault("fullgraph", True)
    compiled = torch.compile(fn, backend="ortable", **kwargs)
    kept = []
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
        kept.append((got, expected))
    for got, expected in kept:
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b, **tolerances(a.dtype), equal_nan=True)
    return kept


def tolerances(dtype):
    """Of 16 bits the last one may differ, as torch.testing has it; others are compared closely."""
    return {} if dtype in (torch.float16, torch.bfloat16) else {"atol": 1e-5, "rtol": 1e-5}
