"""What a call of a model leaves behind: results, gradients, and what it wrote into buffers,
parameters and arguments; and how far two of these are apart. In come a function and its arguments,
out come values by readable names; called by `difference` and `bisect`, for eager and for what
ortable makes of the model."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.compat.torch_explain import compiled_apart
from ortable.exporter.account.gaps import AskedTolerance, Gap, gap_between
from ortable.interpreter.complex_numbers import real_tensor

from ..explain_state import (
    call_apart,
    copied_arguments,
    modules_of,
    optimizers_of,
    optimizers_untouched,
    run_call,
    stepped_by,
)

Outcome = Mapping[str, Any]
_SEED = 0


@dataclass(frozen=True)
class Call:
    """A call of a model, which runs in eager and compiled, on copies of its arguments.

    `train`: with gradients; `dynamic`: as torch.compile has it; `times`: how often it is called in
    one run; `state`: whether buffers and gradients of the model are looked at, and with
    `parameters` these too.
    """

    function: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    train: bool = False
    dynamic: bool | None = None
    times: int = 1
    state: bool = True
    parameters: bool = True

    def compiled_by(self, backend: Any) -> Outcome:
        """What the calls leave behind, compiled by a backend, or by one of torch by its name."""
        return self.outcome(lambda: compiled_apart(self.function, backend, self.dynamic))

    def outcome(self, make: Callable[[], Callable[..., Any]] | None = None) -> Outcome:
        """What the calls leave behind, of what `make` makes of the function, or in eager. The
        model, its optimizers and random numbers are afterwards as they were."""
        calls = [copied_arguments(self.args, self.kwargs) for _ in range(self.times)]
        steps = bool(optimizers_of(self.function))  # it runs backward itself
        train = self.train and not steps
        stance = "force_eager" if make is None else "default"
        state = random.getstate()
        with (
            optimizers_untouched(self.function),
            call_apart(self.function, (calls, {}), train, stance),
            torch.set_grad_enabled(self.train),
        ):
            torch.manual_seed(_SEED)
            random.seed(_SEED)
            try:
                called = self.function if make is None else make()
                found: dict[str, Any] = {}
                for number, call in enumerate(calls, 1):
                    mark = "" if number == 1 else f"call {number}: "
                    found |= {f"{mark}{k}": v for k, v in self._left(called, call, train).items()}
                return found | self._written()
            finally:
                random.setstate(state)

    def _left(self, called: Callable[..., Any], call: Any, train: bool) -> dict[str, Any]:
        """Results and arguments of one call, and gradients."""
        returned: list[Any] = []

        def keeping(*args: Any, **kwargs: Any) -> Any:
            returned.append(called(*args, **kwargs))
            return returned[0]

        run_call(keeping, call, train, _backward)
        found = collected("result", returned[0])
        for path, leaf in _leaves(call):
            if isinstance(leaf, torch.Tensor):
                found |= collected(f"argument{path}", leaf)
                found |= _gradient(f"argument{path}", leaf)
        for module in self._modules():
            for name, tensor in (*module.named_buffers(), *module.named_parameters()):
                found |= _gradient(name, tensor)
        return found

    def _written(self) -> dict[str, Any]:
        """Buffers, and parameters where these are compared."""
        found: dict[str, Any] = {}
        for module in self._modules():
            for name, tensor in (
                *module.named_buffers(),
                *(module.named_parameters() if self.parameters else ()),
            ):
                found |= collected(name, tensor)
        for index, tensor in enumerate(stepped_by(self.function)):
            found |= collected(f"parameter {index} of the optimizer", tensor)
        return found

    def _modules(self) -> list[torch.nn.Module]:
        return modules_of(self.function) if self.state else []


def _backward(results: Sequence[torch.Tensor], _: Any) -> None:
    """Runs backward with gradients that differ from value to value, the same at every call:
    gradients of normalizations vanish where all are the same."""
    gradients = []
    for each in results:
        places = torch.arange(each.numel(), device=each.device).reshape(each.shape)
        gradients.append(torch.cos(places).to(each.dtype))
    torch.autograd.backward(results, gradients)


def collected(prefix: str, tree: Any) -> dict[str, Any]:
    """The leaves of a result by their path, tensors as copies."""
    return {
        prefix + path: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
        for path, leaf in _leaves(tree)
    }


def _gradient(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    gradient = tensor.grad if tensor.is_leaf else None
    return {} if gradient is None else {f"gradient of {name}": gradient.detach().clone()}


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    leaves, _ = pytree.tree_flatten_with_path(tree)
    return [(pytree.keystr(path), leaf) for path, leaf in leaves]


# -- how far apart


def differing(expected: Outcome, got: Outcome, tolerance: AskedTolerance) -> str:
    """The first value that differs, in words; empty where all agree."""
    for name, value in expected.items():
        if name not in got:
            return f"{name} is missing"
        gap = gap_of(value, got[name], tolerance)
        if gap is not None:
            return f"{name}: {gap.what}"
    return ""


def gap_of(expected: Any, got: Any, tolerance: AskedTolerance) -> Gap | None:
    """How far a value is from eager's; None where it is near enough. Complex numbers are pairs, or
    parts; floats of Python are as near as those of float64."""
    tensors = isinstance(expected, torch.Tensor), isinstance(got, torch.Tensor)
    if all(tensors):
        if expected.layout is not torch.strided:
            return None
        expected, got = real_tensor(expected), real_tensor(got)
        return gap_between(expected, got, tolerance.of(expected.dtype))
    if type(expected) is float and type(got) is float:
        one, other = (torch.tensor(each, dtype=torch.float64) for each in (expected, got))
        return gap_of(one, other, AskedTolerance())
    what = ""
    if type(expected) is not type(got):
        what = f"{_class(got)} in place of {_class(expected)}"
    elif isinstance(expected, bool | int | str | complex) and expected != got:
        what = f"{got!r} in place of {expected!r}"
    nothing = torch.empty(0)
    return Gap(math.inf, what, nothing, nothing) if what else None


def _class(value: Any) -> str:
    return type(value).__name__
