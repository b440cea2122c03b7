"""Compare a compiled program with eager: results, gradients, mutated arguments, layouts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import Program

SIZES = {"inference": (5,), "dynamic": (5, 3), "training": (5,), "dynamic training": (5, 3)}


def modes(program: Program) -> Iterator[str]:
    """Yield the modes in which a program runs, in order of coverage."""
    yield "inference"
    if program.train and program.dynamic:
        yield from ("dynamic training", "training", "dynamic")
    elif program.train:
        yield "training"
    elif program.dynamic:
        yield "dynamic"


def check(program: Program, mode: str, backend: str = "ortable") -> None:
    """Run a program at the sizes of ``mode``; raise AssertionError if it differs from eager."""
    dynamic, train = "dynamic" in mode, "training" in mode
    patches = dict.fromkeys(program.patches, True)
    with ExitStack() as stack:
        stack.enter_context(torch._dynamo.config.patch(**patches))
        stack.enter_context(torch.set_grad_enabled(train))
        compiled = torch.compile(program.fn, backend=backend, fullgraph=True, dynamic=dynamic)
        for size in SIZES[mode]:
            expected, args = _run(program, program.fn, size, train)
            actual, compiled_args = _run(program, compiled, size, train)
            _compare(actual, expected, program, layouts=program.strides and not train)
            _compare(compiled_args, args, program, layouts=False)


def _run(program: Program, fn: Any, size: int, train: bool) -> tuple[Any, list[Any]]:
    """Return the results, in training with gradients, and the arguments after the call."""
    originals = program.make(size)
    copies = {id(arg): _copy_argument(arg, train) for arg in originals}
    args = [copies[id(arg)] for arg in originals]  # an argument passed twice stays one tensor
    torch.manual_seed(0)
    result = fn(*args)
    leaves = pytree.tree_leaves(result)
    inputs = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
    losses = [_weighted_sum(x) for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
    if not train or not losses:
        return result, [_detach(x) for x in args]
    grads = torch.autograd.grad(torch.stack(losses).sum(), inputs, allow_unused=True)
    return [pytree.tree_map(_detach, result), grads], []


def _copy_argument(value: Any, train: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if 0 in value.stride():  # expanded: elements share memory
        copy = value.clone(memory_format=torch.contiguous_format)[
            tuple(slice(0, 1) if step == 0 else slice(None) for step in value.stride())
        ].expand(value.shape)
        return copy.detach().requires_grad_(train and value.is_floating_point())
    count = value.untyped_storage().nbytes() // value.element_size()
    memory = torch.empty(count, dtype=value.dtype)
    copy = memory.as_strided(value.shape, value.stride(), value.storage_offset())
    copy.copy_(value)
    return copy.detach().requires_grad_(train and value.is_floating_point())


def _weighted_sum(x: torch.Tensor) -> torch.Tensor:
    """Sum all elements with different weights."""
    real = torch.view_as_real(x) if x.is_complex() else x
    weights = torch.linspace(0.5, 1.5, real.numel(), dtype=torch.float64).to(real.dtype)
    return (real * weights.reshape(real.shape)).sum().double()


def _detach(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _compare(actual: Any, expected: Any, program: Program, layouts: bool) -> None:
    leaves, spec = pytree.tree_flatten(actual)
    expected_leaves, expected_spec = pytree.tree_flatten(expected)
    assert spec == expected_spec, f"{spec} is not {expected_spec}"
    for a, b in zip(leaves, expected_leaves, strict=True):
        if not isinstance(b, torch.Tensor):
            assert type(a) is type(b), f"{type(a)} is not {type(b)}"
            assert a == b, f"{a} is not {b}"
            continue
        rtol, atol = program.rtol, program.atol
        if rtol is not None or atol is not None:
            rtol, atol = rtol or 1e-5, atol or 1e-5
        elif b.dtype in (torch.float32, torch.complex64):
            rtol, atol = 1e-5, 1e-5
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)
        if layouts and b.numel():
            assert _relevant_strides(a) == _relevant_strides(b), f"{a.stride()} is not {b.stride()}"


def _relevant_strides(x: torch.Tensor) -> list[int]:
    """Return the strides of the axes with more than one element; other strides are arbitrary."""
    return [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1]
