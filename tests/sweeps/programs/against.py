"""One program compiled and in eager: results, gradients, written arguments, layouts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import Program

SIZES = {"inference": (5,), "dynamic": (5, 3), "training": (5,), "dynamic training": (5, 3)}


def modes(program: Program) -> Iterator[str]:
    """The ways in which a program is run, the most telling ones first."""
    yield "inference"
    if program.train and program.dynamic:
        yield from ("dynamic training", "training", "dynamic")
    elif program.train:
        yield "training"
    elif program.dynamic:
        yield "dynamic"


def check(program: Program, mode: str, backend: str = "ortable") -> None:
    """Runs a program at the sizes of ``mode``; AssertionError where it differs from eager."""
    dynamic, train = "dynamic" in mode, "training" in mode
    patches = dict.fromkeys(program.patches, True)
    with ExitStack() as stack:
        stack.enter_context(torch._dynamo.config.patch(**patches))
        stack.enter_context(torch.set_grad_enabled(train))
        fast = torch.compile(program.fn, backend=backend, fullgraph=True, dynamic=dynamic)
        for size in SIZES[mode]:
            expected, args = _run(program, program.fn, size, train)
            got, fast_args = _run(program, fast, size, train)
            _compare(got, expected, program, layouts=program.strides and not train)
            _compare(fast_args, args, program, layouts=False)


def _run(program: Program, fn: Any, size: int, train: bool) -> tuple[Any, list[Any]]:
    """The results, and in training the gradients; and the arguments after the call."""
    made_args = program.make(size)
    copies = {id(arg): _leaf(arg, train) for arg in made_args}
    args = [copies[id(arg)] for arg in made_args]  # one that is given twice stays one
    torch.manual_seed(0)
    made = fn(*args)
    leaves = pytree.tree_leaves(made)
    inputs = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
    losses = [_weighted(x) for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
    if not train or not losses:
        return made, [_detached(x) for x in args]
    grads = torch.autograd.grad(torch.stack(losses).sum(), inputs, allow_unused=True)
    return [pytree.tree_map(_detached, made), grads], []


def _leaf(value: Any, train: bool) -> Any:
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


def _weighted(x: torch.Tensor) -> torch.Tensor:
    """A sum in which every element counts differently."""
    real = torch.view_as_real(x) if x.is_complex() else x
    weights = torch.linspace(0.5, 1.5, real.numel(), dtype=torch.float64).to(real.dtype)
    return (real * weights.reshape(real.shape)).sum().double()


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _compare(got: Any, expected: Any, program: Program, layouts: bool) -> None:
    found, shape = pytree.tree_flatten(got)
    wanted, other = pytree.tree_flatten(expected)
    assert shape == other, f"{shape} is not {other}"
    for mine, theirs in zip(found, wanted, strict=True):
        if not isinstance(theirs, torch.Tensor):
            assert type(mine) is type(theirs), f"{type(mine)} is not {type(theirs)}"
            assert mine == theirs, f"{mine} is not {theirs}"
            continue
        rtol, atol = program.rtol, program.atol
        if rtol is not None or atol is not None:
            rtol, atol = rtol or 1e-5, atol or 1e-5
        elif theirs.dtype in (torch.float32, torch.complex64):
            rtol, atol = 1e-5, 1e-5
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol, equal_nan=True)
        if layouts and theirs.numel():
            assert _steps(mine) == _steps(theirs), f"{mine.stride()} is not {theirs.stride()}"


def _steps(x: torch.Tensor) -> list[int]:
    """The strides that matter: those of axes with more than one element."""
    return [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1]
