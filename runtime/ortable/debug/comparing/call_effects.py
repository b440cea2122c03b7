"""Record and compare the effects of a model call: results, gradients and in-place writes.

A call may write into buffers, parameters and arguments. `difference.py` and `bisection` record
eager and compiled calls.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.compat.torch_explain import compile_isolated
from ortable.exporter.reporting.numeric_diff import NumericDiff, ToleranceOverride, compare_tensors
from ortable.interpreter.complex_numbers import real_tensor

from ..explain_state import (
    copy_arguments,
    find_modules,
    find_optimizers,
    isolated_call,
    optimizer_parameters,
    preserve_optimizers,
    run_call,
)

CallEffects = Mapping[str, Any]
_SEED = 0


@dataclass(frozen=True)
class Call:
    """A model call that runs in eager and compiled, on copies of its arguments.

    Attributes:
        function: the model.
        args: positional arguments.
        kwargs: keyword arguments.
        train: run with gradients.
        dynamic: the argument `dynamic` of torch.compile.
        times: the number of calls in one run.
        state: compare buffers and gradients of the model.
        parameters: with `state`, compare the parameters too.
    """

    function: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    train: bool = False
    dynamic: bool | None = None
    times: int = 1
    state: bool = True
    parameters: bool = True

    def record_compiled(self, backend: Any) -> CallEffects:
        """Record the effects of the calls compiled by `backend`, a function or the name of one."""
        return self.record_effects(lambda: compile_isolated(self.function, backend, self.dynamic))

    def record_effects(self, make: Callable[[], Callable[..., Any]] | None = None) -> CallEffects:
        """Record the effects of calls of the function that `make` returns, or of eager calls.

        The model, its optimizers and random states are restored afterwards.
        """
        calls = [copy_arguments(self.args, self.kwargs) for _ in range(self.times)]
        has_optimizer = bool(find_optimizers(self.function))  # such a function runs backward itself
        train = self.train and not has_optimizer
        stance = "force_eager" if make is None else "default"
        random_state = random.getstate()
        with (
            preserve_optimizers(self.function),
            isolated_call(self.function, (calls, {}), train, stance),
            torch.set_grad_enabled(self.train),
        ):
            torch.manual_seed(_SEED)
            random.seed(_SEED)
            try:
                callee = self.function if make is None else make()
                effects: dict[str, Any] = {}
                for number, call in enumerate(calls, 1):
                    prefix = "" if number == 1 else f"call {number}: "
                    effects |= {
                        f"{prefix}{name}": value
                        for name, value in self._call_effects(callee, call, train).items()
                    }
                return effects | self._written_state()
            finally:
                random.setstate(random_state)

    def _call_effects(self, callee: Callable[..., Any], call: Any, train: bool) -> dict[str, Any]:
        """Run one call and collect its results, arguments and gradients."""
        results: list[Any] = []

        def record_result(*args: Any, **kwargs: Any) -> Any:
            results.append(callee(*args, **kwargs))
            return results[0]

        run_call(record_result, call, train, _run_backward)
        effects = collect_leaves("result", results[0])
        for path, leaf in _named_leaves(call):
            if isinstance(leaf, torch.Tensor):
                effects |= collect_leaves(f"argument{path}", leaf)
                effects |= _gradient_entry(f"argument{path}", leaf)
        for module in self._tracked_modules():
            for name, tensor in (*module.named_buffers(), *module.named_parameters()):
                effects |= _gradient_entry(name, tensor)
        return effects

    def _written_state(self) -> dict[str, Any]:
        """Collect buffers, the parameters that are compared, and the optimizers' parameters."""
        state: dict[str, Any] = {}
        for module in self._tracked_modules():
            for name, tensor in (
                *module.named_buffers(),
                *(module.named_parameters() if self.parameters else ()),
            ):
                state |= collect_leaves(name, tensor)
        for index, tensor in enumerate(optimizer_parameters(self.function)):
            state |= collect_leaves(f"parameter {index} of the optimizer", tensor)
        return state

    def _tracked_modules(self) -> list[torch.nn.Module]:
        return find_modules(self.function) if self.state else []


def _run_backward(results: Sequence[torch.Tensor], _: Any) -> None:
    """Run backward with cosines as gradients.

    With equal gradients, the gradients of normalizations would vanish.
    """
    gradients = []
    for result in results:
        indices = torch.arange(result.numel(), device=result.device).reshape(result.shape)
        gradients.append(torch.cos(indices).to(result.dtype))
    torch.autograd.backward(results, gradients)


def collect_leaves(prefix: str, tree: Any) -> dict[str, Any]:
    """Collect the leaves of a result by path, with tensors cloned."""
    return {
        prefix + path: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
        for path, leaf in _named_leaves(tree)
    }


def _gradient_entry(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    gradient = tensor.grad if tensor.is_leaf else None
    return {} if gradient is None else {f"gradient of {name}": gradient.detach().clone()}


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    leaves, _ = pytree.tree_flatten_with_path(tree)
    return [(pytree.keystr(path), leaf) for path, leaf in leaves]


# -- comparison


def describe_difference(
    expected: CallEffects, got: CallEffects, tolerance: ToleranceOverride
) -> str:
    """Describe the first value that differs; empty if all values agree."""
    for name, value in expected.items():
        if name not in got:
            return f"{name} is missing"
        gap = compute_gap(value, got[name], tolerance)
        if gap is not None:
            return f"{name}: {gap.what}"
    return ""


def compute_gap(expected: Any, got: Any, tolerance: ToleranceOverride) -> NumericDiff | None:
    """Compute the difference of a value from eager's; None if it is within the tolerance.

    Complex tensors are compared as real tensors; Python floats have the tolerance of float64.
    Sparse tensors are not compared.
    """
    are_tensors = isinstance(expected, torch.Tensor), isinstance(got, torch.Tensor)
    if all(are_tensors):
        if expected.layout is not torch.strided:
            return None
        expected, got = real_tensor(expected), real_tensor(got)
        return compare_tensors(expected, got, tolerance.of(expected.dtype))
    if type(expected) is float and type(got) is float:
        a, b = (torch.tensor(number, dtype=torch.float64) for number in (expected, got))
        return compute_gap(a, b, ToleranceOverride())
    message = ""
    if type(expected) is not type(got):
        message = f"{_class_name(got)} in place of {_class_name(expected)}"
    elif isinstance(expected, bool | int | str | complex) and expected != got:
        message = f"{got!r} in place of {expected!r}"
    empty = torch.empty(0)
    return NumericDiff(math.inf, message, empty, empty) if message else None


def _class_name(value: Any) -> str:
    return type(value).__name__
