"""Which ways to a program are still worth their seconds after one has failed: each captures the
model again, and a branch on data, an operator without a converter or a bug of the model are the
same in all of them. strategies.py asks after every failure."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils import _pytree as pytree

from ortable.errors import ExportError, OptionError, OrtableError
from ortable.export.request.ambient import autocast_again
from ortable.export.request.copies import copied_call, copied_module
from ortable.export.request.left_as_found import left_as_found
from ortable.export.request.program import Request
from ortable.ir.initializers import is_fake

from . import help as advice
from .functionalize import RewriteError

EVERY_WAY = frozenset({"capture", "decompose", "tracing", "draft"})
_NO_WAY: frozenset[str] = frozenset()


class MissingConverters(ExportError):
    """The program calls operators without a converter, which torch can take apart."""


class FailsInEager(ExportError):
    """The model raises on the example, without torch.export."""


def ways_after(error: Exception, fallback: bool) -> frozenset[str]:
    """The ways that may succeed where one has failed with ``error``, among ``EVERY_WAY``."""
    if isinstance(error, MissingConverters):
        return frozenset({"decompose"})
    if isinstance(error, RewriteError):
        return frozenset({"capture"})
    if isinstance(error, (OptionError, FailsInEager)):
        return _NO_WAY
    if isinstance(error, OrtableError):  # the conversion failed, or a comparison with the module
        return frozenset({"capture", "tracing"}) if fallback else _NO_WAY
    return advice.kind_of(error).helped_by


def can_decompose(missing: Sequence[torch._ops.OpOverload]) -> bool:
    """Whether torch has a decomposition of every operator."""
    table = torch._decomp.decomposition_table
    return all(overload in table or overload._can_decompose() for overload in missing)


def in_eager(error: Exception, request: Request) -> tuple[Exception, bool]:
    """``error``, or FailsInEager in its place when the model raises on the example by itself, which
    is asked only where torch's words leave it open; and whether it was asked, and runs. A copy of
    the module runs as the caller would run it, with gradients and autocast as they are there."""
    if isinstance(error, OrtableError) or advice.RUNS not in advice.kind_of(error).advice:
        return error, False
    module, call = request.model, (request.args, request.kwargs)
    tensors = (call, list(module.parameters()), list(module.buffers()))
    if any(is_fake(value) for value in pytree.tree_leaves(tensors)):
        return error, False
    try:
        copied = copied_module(module)
    except Exception:  # attributes may be of any class, and some cannot be copied
        return error, False
    args, kwargs = copied_call(*call)
    try:
        # A function that is an attribute of the copy may still belong to the module itself.
        with left_as_found(module, call), torch.random.fork_rng(devices=[]), autocast_again():
            copied(*args, **kwargs)
    except Exception as raised:  # forward is any Python code
        line = advice.user_line(raised)
        where = "" if line is None else f"\n  at {line}"
        failure = FailsInEager(
            f"{type(module).__name__} raises on the example inputs, without torch.export too: "
            f"{type(raised).__name__}: {raised}{where}"
        )
        failure.__cause__ = raised
        return failure, False
    return error, True
