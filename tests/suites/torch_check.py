"""Compare a case of `torch_cases` with eager, by torch.compile or by an export.

Results, gradients, buffers, and parameters after three steps are compared.
"""

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

RTOL, ATOL = 1e-4, 2e-5  # differences that another order of summation causes
STEPS = 3


class NotSeen(Exception):
    """The backend received no graph."""


def check_case(case: str) -> Record:
    """Run a case in eager and with ortable; return its record."""
    torch.set_num_threads(1)
    mode = case.split("/")[2]
    check = {"compile": _check_compile, "export": _check_export, "step": _check_step}[mode]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check(case)


# -- torch.compile


def _check_compile(case: str) -> Record:
    def run_with(backend: str) -> list[Any]:
        torch._dynamo.reset()
        case_program = program(case)
        return _train(case_program, _compile(case_program.module, backend))

    try:
        case_program = program(case)
        expected = _train(case_program, case_program.module)
    except Exception as error:
        return Record(case, "uncaptured", "eager", error_line(error))
    return _judge(case, run_with, expected)


def _judge(case: str, run_with: Callable[[str], list[Any]], expected: list[Any]) -> Record:
    try:
        results = run_with("ortable")
    except Exception as error:
        outcome, detail = classify_error(error)
        if outcome == "error":
            try:
                run_with("aot_eager")
            except Exception as torch_error:
                return Record(case, "uncaptured", "torch.compile", error_line(torch_error))
        return Record(case, outcome, "torch.compile", detail)
    difference = find_difference(expected, results)
    if not difference:
        return Record(case, "exact")
    # a difference from torch's decompositions is the same with every backend
    try:
        if not find_difference(run_with("aot_eager_decomp_partition"), results):
            return Record(case, "exact", facts={"decomposed": True})
    except Exception:  # torch's backend fails: the difference is ours
        return Record(case, "different", "torch.compile", difference)
    return Record(case, "different", "torch.compile", difference)


def _compile(function: Any, backend: str) -> Callable[..., Any]:
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


def _train(case_program: Program, call: Callable[..., Any]) -> list[Any]:
    """Return results, gradients of inputs and parameters, and buffers after the call."""
    args, kwargs = pytree.tree_map(_copy_leaf, (case_program.args, case_program.kwargs))
    seed()
    results = [leaf for leaf in pytree.tree_leaves(call(*args, **kwargs)) if leaf is not None]
    roots = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    if roots:
        seed()
        torch.autograd.backward(roots, [torch.randn_like(root) for root in roots])
    leaves = [*pytree.tree_leaves((args, kwargs)), *case_program.module.parameters()]
    gradients = [leaf.grad for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_leaf]
    return [*results, *gradients, *case_program.module.buffers()]


def _copy_leaf(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


# -- export


def _check_export(case: str) -> Record:
    try:
        case_program = program(case)
        args, kwargs = pytree.tree_map(_copy_tensor, (case_program.args, case_program.kwargs))
        case_program.module(*copy.deepcopy(args), **copy.deepcopy(kwargs))  # for lazy modules
        case_program.module.requires_grad_(False)
        seed()
        result = copy.deepcopy(case_program.module)(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        expected = [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]
    except Exception as error:
        return Record(case, "uncaptured", "eager", error_line(error))
    try:
        seed()
        captured = torch.export.export(
            copy.deepcopy(case_program.module),
            copy.deepcopy(args),
            copy.deepcopy(kwargs),
            strict=False,
        )
    except Exception as error:
        return Record(case, "uncaptured", "torch.export", error_line(error))
    try:
        exported = ortable.export(captured)
        ours = [leaf for leaf in pytree.tree_leaves(exported(*args, **kwargs)) if leaf is not None]
    except Exception as error:
        outcome, detail = classify_error(error)
        return Record(case, outcome, "export", detail)
    difference = find_difference(expected, ours)
    return Record(case, "different", "export", difference) if difference else Record(case, "exact")


def _copy_tensor(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


# -- optimizers


def _check_step(case: str) -> Record:
    def run_with(backend: str) -> list[Any]:
        torch._dynamo.reset()
        return _run_steps(case, lambda step: _compile(step, backend))

    try:
        expected = _run_steps(case, lambda step: step)
    except Exception as error:
        return Record(case, "uncaptured", "eager", error_line(error))
    return _judge(case, run_with, expected)


def _run_steps(case: str, compile_step: Callable[[Any], Any]) -> list[Any]:
    """Return the parameters and the optimizer's state after some steps."""
    optimizer_class, keywords, info = optimizer(case)
    keywords = copy.deepcopy(keywords)
    seed()
    is_training = not keywords.get("differentiable")  # else autograd would record the step
    parameters = [
        torch.nn.Parameter(torch.randn(size), requires_grad=is_training)
        for size in ((3, 4), (5, 2))
    ]
    instance = optimizer_class(parameters, **keywords)
    gradients = [[torch.randn_like(p) for p in parameters] for _ in range(STEPS)]

    def closure() -> torch.Tensor:
        for parameter in parameters:
            parameter.grad = parameter.detach() * 0.5
        return torch.stack([(p.detach() ** 2).sum() for p in parameters]).sum()

    def step() -> None:
        if info.step_requires_closure:
            instance.step(closure)
        else:
            instance.step()

    call = compile_step(step)
    for number in range(STEPS):
        for parameter, gradient in zip(parameters, gradients[number], strict=True):
            parameter.grad = gradient.to_sparse() if info.only_supports_sparse_grads else gradient
        call()
    state = [
        value
        for parameter in parameters
        for _, value in sorted(instance.state[parameter].items())
        if isinstance(value, torch.Tensor)
    ]
    return [*(p.detach() for p in parameters), *state]


# -- outcomes


def classify_error(error: BaseException) -> tuple[str, str]:
    """Return the outcome and the detail for an error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, FunctionNotFoundError):
            return "missing", ", ".join(cause.operators)
        if isinstance(cause, UnsupportedCase | KernelError):
            return "refused", error_line(cause)
        if isinstance(cause, OrtableError):
            return "error", error_line(cause)
        if isinstance(cause, NotSeen):
            return "uncaptured", str(cause)
        cause = getattr(cause, "inner_exception", None) or cause.__cause__
    return "error", error_line(error)


def find_difference(
    expected: Sequence[Any], results: Sequence[Any], rtol: float = RTOL, atol: float = ATOL
) -> str:
    """Return how the first result differs from eager's, or nothing."""
    if len(expected) != len(results):
        return f"{len(results)} results instead of {len(expected)}"
    for index, (eager, result) in enumerate(zip(expected, results, strict=True)):
        if not isinstance(eager, torch.Tensor) or not isinstance(result, torch.Tensor):
            if eager is None or result is None or isinstance(eager, torch.Tensor):
                if eager is not result:
                    return f"result {index}: {result} instead of {eager}"
            elif eager != result:
                return f"result {index}: {result} instead of {eager}"
            continue
        try:
            torch.testing.assert_close(
                result.detach(), eager.detach(), rtol=rtol, atol=atol, equal_nan=True
            )
        except AssertionError as error:
            return f"result {index}: {' '.join(str(error).split())[:200]}"
    return ""


def error_line(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
