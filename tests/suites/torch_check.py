"""One case of `torch_cases` through torch.compile or an export, compared with eager: results,
gradients, buffers, parameters after three steps. In comes its name, out comes a Record; called by
`module_tests`."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import ortable
from ortable.errors import FunctionNotFoundError, KernelError, OrtableError, UnsupportedCase

from .torch_cases import Program, optimizer, program, seed
from .workers import Record

RTOL, ATOL = 1e-4, 2e-5  # what eager's own order of summation leaves open
STEPS = 3


class NotSeen(Exception):
    """The backend was given no graph."""


def check_case(case: str) -> Record:
    """Run a case in eager and through ortable; say how it ended."""
    torch.set_num_threads(1)
    way = case.split("/")[2]
    check = {"compile": _check_compile, "export": _check_export, "step": _check_step}[way]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check(case)


# -- torch.compile


def _check_compile(case: str) -> Record:
    def through(backend: str) -> list[Any]:
        torch._dynamo.reset()
        given = program(case)
        return _trained(given, _compiled(given.module, backend))

    try:
        given = program(case)
        expected = _trained(given, given.module)
    except Exception as error:
        return Record(case, "uncaptured", "eager", _line(error))
    return _judged(case, through, expected)


def _judged(case: str, through: Callable[[str], list[Any]], expected: list[Any]) -> Record:
    try:
        found = through("ortable")
    except Exception as error:
        outcome, detail = _named(error)
        if outcome == "error":
            try:
                through("aot_eager")
            except Exception as other:
                return Record(case, "uncaptured", "torch.compile", _line(other))
        return Record(case, outcome, "torch.compile", detail)
    wrong = _difference(expected, found)
    if not wrong:
        return Record(case, "exact")
    # what torch's own decompositions change is the same with every backend
    try:
        if not _difference(through("aot_eager_decomp_partition"), found):
            return Record(case, "exact", facts={"decomposed": True})
    except Exception:  # then it is ours
        return Record(case, "different", "torch.compile", wrong)
    return Record(case, "different", "torch.compile", wrong)


def _compiled(function: Any, backend: str) -> Callable[..., Any]:
    if backend != "ortable":
        return torch.compile(function, backend=backend)
    storage: dict[str, Any] = {}
    options = {"storage": storage, "fallback": "error"}
    compiled = torch.compile(function, backend="ortable", options=options)

    def call(*args: Any, **kwargs: Any) -> Any:
        result = compiled(*args, **kwargs)
        if not storage.get("instance"):
            raise NotSeen("no graph reached the backend")
        return result

    return call


def _trained(given: Program, call: Callable[..., Any]) -> list[Any]:
    """Results, gradients of inputs and parameters, and buffers after the call."""
    args, kwargs = pytree.tree_map(_fresh, (given.args, given.kwargs))
    seed()
    results = [leaf for leaf in pytree.tree_leaves(call(*args, **kwargs)) if leaf is not None]
    roots = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    if roots:
        seed()
        torch.autograd.backward(roots, [torch.randn_like(root) for root in roots])
    leaves = [*pytree.tree_leaves((args, kwargs)), *given.module.parameters()]
    gradients = [leaf.grad for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_leaf]
    return [*results, *gradients, *given.module.buffers()]


def _fresh(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


# -- export


def _check_export(case: str) -> Record:
    try:
        given = program(case)
        args, kwargs = pytree.tree_map(_plain, (given.args, given.kwargs))
        given.module(*copy.deepcopy(args), **copy.deepcopy(kwargs))  # lazy ones get their weights
        given.module.requires_grad_(False)
        seed()
        result = copy.deepcopy(given.module)(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        expected = [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]
    except Exception as error:
        return Record(case, "uncaptured", "eager", _line(error))
    try:
        seed()
        captured = torch.export.export(
            copy.deepcopy(given.module), copy.deepcopy(args), copy.deepcopy(kwargs), strict=False
        )
    except Exception as error:
        return Record(case, "uncaptured", "torch.export", _line(error))
    try:
        exported = ortable.export(captured)
        found = [leaf for leaf in pytree.tree_leaves(exported(*args, **kwargs)) if leaf is not None]
    except Exception as error:
        outcome, detail = _named(error)
        return Record(case, outcome, "export", detail)
    wrong = _difference(expected, found)
    return Record(case, "different", "export", wrong) if wrong else Record(case, "exact")


def _plain(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


# -- optimizers


def _check_step(case: str) -> Record:
    def through(backend: str) -> list[Any]:
        torch._dynamo.reset()
        return _stepped(case, lambda step: _compiled(step, backend))

    try:
        expected = _stepped(case, lambda step: step)
    except Exception as error:
        return Record(case, "uncaptured", "eager", _line(error))
    return _judged(case, through, expected)


def _stepped(case: str, compiled: Callable[[Any], Any]) -> list[Any]:
    """The parameters, and the optimizer's state, after some steps."""
    kind, keywords, info = optimizer(case)
    keywords = copy.deepcopy(keywords)
    seed()
    trains = not keywords.get("differentiable")  # else autograd follows the step, into no leaf
    parameters = [
        torch.nn.Parameter(torch.randn(size), requires_grad=trains) for size in ((3, 4), (5, 2))
    ]
    made = kind(parameters, **keywords)
    gradients = [[torch.randn_like(p) for p in parameters] for _ in range(STEPS)]

    def closure() -> torch.Tensor:
        for parameter in parameters:
            parameter.grad = parameter.detach() * 0.5
        return torch.stack([(p.detach() ** 2).sum() for p in parameters]).sum()

    def step() -> None:
        if info.step_requires_closure:
            made.step(closure)
        else:
            made.step()

    call = compiled(step)
    for number in range(STEPS):
        for parameter, gradient in zip(parameters, gradients[number], strict=True):
            parameter.grad = gradient.to_sparse() if info.only_supports_sparse_grads else gradient
        call()
    state = [
        value
        for parameter in parameters
        for _, value in sorted(made.state[parameter].items())
        if isinstance(value, torch.Tensor)
    ]
    return [*(p.detach() for p in parameters), *state]


# -- outcomes


def _named(error: BaseException) -> tuple[str, str]:
    """The outcome that an error stands for: refusals have a name."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, FunctionNotFoundError):
            return "missing", ", ".join(seen.operators)
        if isinstance(seen, UnsupportedCase | KernelError):
            return "refused", _line(seen)
        if isinstance(seen, OrtableError):
            return "error", _line(seen)
        if isinstance(seen, NotSeen):
            return "uncaptured", str(seen)
        seen = getattr(seen, "inner_exception", None) or seen.__cause__
    return "error", _line(error)


def _difference(expected: Sequence[Any], found: Sequence[Any]) -> str:
    if len(expected) != len(found):
        return f"{len(found)} results instead of {len(expected)}"
    for place, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        if not isinstance(wanted, torch.Tensor) or not isinstance(got, torch.Tensor):
            if wanted is None or got is None or isinstance(wanted, torch.Tensor):
                if wanted is not got:
                    return f"result {place}: {got} instead of {wanted}"
            elif wanted != got:
                return f"result {place}: {got} instead of {wanted}"
            continue
        try:
            torch.testing.assert_close(
                got.detach(), wanted.detach(), rtol=RTOL, atol=ATOL, equal_nan=True
            )
        except AssertionError as error:
            return f"result {place}: {' '.join(str(error).split())[:200]}"
    return ""


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
