"""Cases from torch's test tools: modules, optimizers, custom and higher-order operators.

A case is ``<kind>/<name>/<mode>/<number>``: the mode is ``compile`` (torch.compile, forward and
backward; modules in training mode), ``export`` (modules in eval mode) or ``step`` (an optimizer).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

SAMPLES = 2  # of a module in one mode, spread over those that torch has
SEED = 7


@dataclass(frozen=True)
class Program:
    """A module, or a function as a module, with its arguments."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Function(torch.nn.Module):
    """A sample of an operator as a module of its tensors; other arguments are constants."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> None:
        super().__init__()
        self.function = function
        self.leaves, self.tree = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self.indices = [n for n, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(self.leaves[index] for index in self.indices)
        for index in self.indices:
            self.leaves[index] = None

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Call the operator with these tensors."""
        leaves = list(self.leaves)
        for index, tensor in zip(self.indices, tensors, strict=True):
            leaves[index] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return self.function(*args, **kwargs)


def seed() -> None:
    """Seed all generators, so that every process has the same numbers."""
    torch.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)


@cache
def names() -> tuple[str, ...]:
    """Return every case."""
    cases = []
    for name, info in _modules().items():
        for mode, training in (("compile", True), ("export", False)):
            count = min(len(_module_inputs(info, training)), SAMPLES)
            cases += [f"module/{name}/{mode}/{n}" for n in range(count)]
    for name, info in _optimizers().items():
        cases += [f"optimizer/{name}/step/{n}" for n in range(len(_optimizer_inputs(info)))]
    for kind in ("custom", "higher-order"):
        for name, info in _operators(kind).items():
            count = len(_samples(info))
            cases += [f"{kind}/{name}/{m}/{n}" for m in ("compile", "export") for n in range(count)]
    return tuple(sorted(cases))


def program(case: str) -> Program:
    """Return the program of a case, unless it is an optimizer step."""
    kind, name, mode, number = case.split("/")
    seed()
    if kind == "module":
        info, training = _modules()[name], mode == "compile"
        inputs = _module_inputs(info, training)
        module_input = inputs[int(number) * len(inputs) // min(len(inputs), SAMPLES)]
        init = module_input.constructor_input
        module = info.module_cls(*init.args, **init.kwargs).train(training).to(torch.float32)
        forward = module_input.forward_input
        return Program(module, tuple(forward.args), dict(forward.kwargs))
    info = _operators(kind)[name]
    sample = _samples(info)[int(number)]
    function = Function(info.op, (sample.input, *sample.args), sample.kwargs)
    return Program(function, function.tensors, {})


def optimizer(case: str) -> tuple[type[torch.optim.Optimizer], Any, Any]:
    """Return the class, the keywords and the OptimizerInfo of a case."""
    _, name, _, number = case.split("/")
    info = _optimizers()[name]
    return info.optim_cls, _optimizer_inputs(info)[int(number)], info


@cache
def _modules() -> dict[str, Any]:
    from torch.testing._internal.common_modules import module_db

    return {info.name.removeprefix("nn."): info for info in module_db}


def _module_inputs(info: Any, training: bool) -> list[Any]:
    seed()
    return list(
        info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=training, training=training
        )
    )


@cache
def _optimizers() -> dict[str, Any]:
    from torch.testing._internal.common_optimizers import optim_db

    return {info.optim_cls.__name__: info for info in optim_db}


def _optimizer_inputs(info: Any) -> list[dict[str, Any]]:
    """Return the keywords of each configuration, without and with each implementation."""
    configurations = []
    for row in info.optim_inputs_func(device="cpu"):
        configurations.append(dict(row.kwargs))
        if not {"foreach", "fused", "differentiable"} & set(row.kwargs):
            configurations += [
                {**row.kwargs, impl: True} for impl in info.supported_impls if impl != "fused"
            ]
    return configurations


@cache
def _operators(kind: str) -> dict[str, Any]:
    if kind == "custom":
        from torch.testing._internal.custom_op_db import custom_op_db as found
    else:
        from torch.testing._internal.hop_db import hop_db as found
    by_name: dict[str, Any] = {}
    for info in found:
        name = f"{info.name}.{info.variant_test_name}".rstrip(".")
        while name in by_name:
            name += "+"
        by_name[name] = info
    return by_name


def _samples(info: Any) -> list[Any]:
    seed()
    try:
        return list(info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd))[
            :4
        ]
    except (RuntimeError, ValueError, AssertionError):
        return []  # the device is not available
