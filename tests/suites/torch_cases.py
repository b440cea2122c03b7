"""What torch's own test tools describe beside operators: modules, optimizers, custom operators and
higher-order operators. Out come names, and for each what to run; called by `module_tests`.

A name is ``<kind>/<what>/<way>/<number>``: the way is ``compile`` (torch.compile, forward and
backward; modules in training mode), ``export`` (modules in eval mode) or ``step`` (of an
optimizer)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

SAMPLES = 2  # of a module in one way, spread over those that torch has
SEED = 7


@dataclass(frozen=True)
class Program:
    """A module, or a function as one, and what to call it with."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Function(torch.nn.Module):
    """A sample of an operator as a module of its tensors; what else it takes stays fixed."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> None:
        super().__init__()
        self.function = function
        self.leaves, self.tree = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self.places = [n for n, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(self.leaves[place] for place in self.places)
        for place in self.places:
            self.leaves[place] = None

    def forward(self, *tensors: torch.Tensor) -> Any:
        """The operator, called with these tensors."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return self.function(*args, **kwargs)


def seed() -> None:
    """The same numbers in every process."""
    torch.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)


@cache
def names() -> tuple[str, ...]:
    """Every case."""
    found = []
    for name, info in _modules().items():
        for way, training in (("compile", True), ("export", False)):
            count = min(len(_module_inputs(info, training)), SAMPLES)
            found += [f"module/{name}/{way}/{n}" for n in range(count)]
    for name, info in _optimizers().items():
        found += [f"optimizer/{name}/step/{n}" for n in range(len(_optimizer_inputs(info)))]
    for kind in ("custom", "higher-order"):
        for name, info in _operators(kind).items():
            count = len(_samples(info))
            found += [f"{kind}/{name}/{w}/{n}" for w in ("compile", "export") for n in range(count)]
    return tuple(sorted(found))


def program(case: str) -> Program:
    """What a case runs, unless it is a step of an optimizer."""
    kind, name, way, number = case.split("/")
    seed()
    if kind == "module":
        info, training = _modules()[name], way == "compile"
        inputs = _module_inputs(info, training)
        chosen = inputs[int(number) * len(inputs) // min(len(inputs), SAMPLES)]
        made = chosen.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).train(training).to(torch.float32)
        call = chosen.forward_input
        return Program(module, tuple(call.args), dict(call.kwargs))
    info = _operators(kind)[name]
    sample = _samples(info)[int(number)]
    function = Function(info.op, (sample.input, *sample.args), sample.kwargs)
    return Program(function, function.tensors, {})


def optimizer(case: str) -> tuple[type[torch.optim.Optimizer], Any, Any]:
    """The class, the keywords and the OptimizerInfo of a case."""
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
    """Keywords of each configuration, plain and with each implementation that takes them."""
    found = []
    for each in info.optim_inputs_func(device="cpu"):
        found.append(dict(each.kwargs))
        if not {"foreach", "fused", "differentiable"} & set(each.kwargs):
            found += [{**each.kwargs, way: True} for way in info.supported_impls if way != "fused"]
    return found


@cache
def _operators(kind: str) -> dict[str, Any]:
    if kind == "custom":
        from torch.testing._internal.custom_op_db import custom_op_db as found
    else:
        from torch.testing._internal.hop_db import hop_db as found
    named: dict[str, Any] = {}
    for info in found:
        name = f"{info.name}.{info.variant_test_name}".rstrip(".")
        while name in named:
            name += "+"
        named[name] = info
    return named


def _samples(info: Any) -> list[Any]:
    seed()
    try:
        return list(info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd))[
            :4
        ]
    except (RuntimeError, ValueError, AssertionError):
        return []  # of a device that is not here
