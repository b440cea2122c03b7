"""A program as data: inputs, steps and outputs.

A step is the text of one call with placeholders for its operands, so that the same program runs
step by step in eager, as one function, and can be printed.
"""

from __future__ import annotations

import linecache
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.modules import Function

LAYOUTS = ("contiguous", "transposed", "strided", "offset")
SPECIAL = (0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -1.0, 0.5, 100.0)


@dataclass(frozen=True)
class Input:
    """An input of random numbers or ``values``; ``special`` adds infinities, NaN and zeros."""

    dtype: str
    shape: tuple[int, ...]
    seed: int
    low: float | None = None
    high: float | None = None
    values: Any = None
    layout: str = "contiguous"
    special: bool = False

    def tensor(self, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        """Return the tensor, in its shape or another shape."""
        size = self.shape if shape is None else shape
        return apply_layout(self._make_values(size), self.layout)

    def _make_values(self, shape: tuple[int, ...]) -> torch.Tensor:
        dtype = getattr(torch, self.dtype)
        generator = torch.Generator().manual_seed(self.seed)
        if self.values is not None:
            values = torch.tensor(self.values, dtype=dtype)
            count = int(torch.Size(shape).numel())
            if values.numel() == count:
                return values.reshape(shape)
            repeated = values.reshape(-1).repeat(count // max(values.numel(), 1) + 1)
            return repeated[:count].reshape(shape)
        if dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=generator).bool()
        if not (dtype.is_floating_point or dtype.is_complex):
            minimum = 0 if dtype == torch.uint8 else -9
            low = int(self.low if self.low is not None else minimum)
            high = int(self.high if self.high is not None else 10)
            return torch.randint(low, max(high, low + 1), shape, generator=generator).to(dtype)
        if self.low is not None and self.high is not None:
            x = torch.rand(shape, generator=generator, dtype=torch.float64)
            return (x * (self.high - self.low) + self.low).to(dtype)
        wide_dtype = torch.complex128 if dtype.is_complex else torch.float64
        x = torch.randn(shape, generator=generator, dtype=wide_dtype)
        if self.special and not dtype.is_complex:
            special = torch.tensor(SPECIAL, dtype=torch.float64)
            index = torch.randint(0, len(SPECIAL), shape, generator=generator)
            x = torch.where(torch.rand(shape, generator=generator) < 0.3, special[index], x)
        return x.to(dtype)


def apply_layout(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """Return the same values with other strides, or with a storage offset."""
    if layout == "transposed" and tensor.dim() > 1:
        reversed_axes = tuple(range(tensor.dim()))[::-1]
        return tensor.permute(reversed_axes).contiguous().permute(reversed_axes)
    if layout == "strided" and tensor.dim():
        return torch.stack([tensor, tensor], -1)[..., 0]
    if layout == "offset":
        flat = tensor.reshape(-1)
        return torch.cat([flat.new_zeros(3), flat])[3:].view(tensor.shape)
    return tensor


@dataclass(frozen=True)
class Step:
    """One call: ``operands`` are the values for ``{0}``, ``{1}``... of ``text``.

    ``results`` are the indices of the readable tensors of its output. ``key`` is the entry of the
    specs that it is made from, or the name of a context.
    """

    text: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    key: str
    tolerance: float = 0.0
    random: bool = False

    def call(self, names: Sequence[str]) -> str:
        """Return the call with names for its operands."""
        return self.text.format(*(names[operand] for operand in self.operands))


@dataclass(frozen=True)
class Program:
    """Steps in order; values are numbered from the inputs on, and ``outputs`` are values."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    dynamic: bool = False

    @property
    def random(self) -> bool:
        """Return whether a step draws random numbers, so that two runs differ."""
        return any(step.random for step in self.steps)

    @property
    def tolerance(self) -> float:
        """Return the largest tolerance of the steps' samples."""
        return max((step.tolerance for step in self.steps), default=0.0)

    def tensors(self, shapes: Sequence[tuple[int, ...]] | None = None) -> list[torch.Tensor]:
        """Return the inputs as tensors."""
        sizes = [x.shape for x in self.inputs] if shapes is None else shapes
        return [x.tensor(tuple(s)) for x, s in zip(self.inputs, sizes, strict=True)]

    def source(self, name: str = "forward") -> str:
        """Return the program as the source of a Python function."""
        names = [f"x{index}" for index in range(len(self.inputs))]
        lines = [f"def {name}({', '.join(names)}):"]
        for number, step in enumerate(self.steps):
            call = step.call(names)
            result_names = [f"v{len(names) + index}" for index in range(len(step.results))]
            if step.results == (-1,):
                lines.append(f"    {result_names[0]} = {call}")
            else:
                lines.append(f"    r{number} = {call}")
                lines += [
                    f"    {result} = r{number}[{index}]"
                    for result, index in zip(result_names, step.results, strict=True)
                ]
            names += result_names
        returned = "".join(f"{names[output]}, " for output in self.outputs)
        return "\n".join([*lines, f"    return ({returned})"])

    def function(self, **overrides: Any) -> Callable[..., Any]:
        """Return the program as a function; ``overrides`` replace names of its text."""
        text = self.source()
        file = f"<program {hash(text)}>"
        namespace = {**NAMESPACE, **overrides}
        exec(compile(text, file, "exec"), namespace)
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        function = namespace["forward"]
        assert callable(function)
        return function

    def module(self) -> torch.nn.Module:
        """Return the program as a module for torch.export, with torch's control flow."""
        return Function(self.function(**TRACED))


# -- control flow of eager runs, in Python, so that a reference needs no tracing


def cond(pred: Any, true: Callable[..., Any], false: Callable[..., Any], operands: Any) -> Any:
    """Run torch.cond in Python."""
    return true(*operands) if bool(pred) else false(*operands)


def while_loop(condition: Callable[..., Any], body: Callable[..., Any], carried: Any) -> Any:
    """Run torch's while_loop in Python."""
    while bool(condition(*carried)):
        carried = tuple(value.clone() for value in body(*carried))
    return carried


def scan(step: Callable[..., Any], init: Any, xs: Any) -> Any:
    """Run torch's scan over the first axis in Python."""
    outputs = []
    for row in xs:
        init, out = step(init, row)
        outputs.append(out)
    return init, torch.stack(outputs)


NAMESPACE: dict[str, Any] = {
    "torch": torch, "operator": operator, "cond": cond, "while_loop": while_loop, "scan": scan,
}  # fmt: skip


def _torch_control_flow() -> dict[str, Any]:
    from torch._higher_order_ops import scan as torch_scan
    from torch._higher_order_ops import while_loop as torch_while_loop

    return {
        "cond": torch.cond,
        "while_loop": torch_while_loop,
        "scan": lambda step, init, xs: torch_scan(step, init, xs),
    }


TRACED: dict[str, Any] = _torch_control_flow()


# -- step by step


@lru_cache(maxsize=20000)
def compiled(text: str, count: int) -> Callable[..., Any]:
    """Return the call of a step as a function of its operands."""
    names = [f"a{index}" for index in range(count)]
    function = eval(f"lambda {', '.join(names)}: {text.format(*names)}", dict(NAMESPACE))
    assert callable(function)
    return function


def results_of(step: Step, output: Any) -> list[Any]:
    """Return the values that a step adds, from the output of its call."""
    if step.results == (-1,):
        return [output]
    return [output[index] for index in step.results]


def run_steps(
    program: Program,
    tensors: Sequence[torch.Tensor],
    after: Callable[[Step, list[Any], list[Any]], list[Any]] | None = None,
) -> list[Any]:
    """Return every value of the program in eager; ``after`` may replace the results of a step."""
    values: list[Any] = list(tensors)
    for step in program.steps:
        call = compiled(step.text, len(step.operands))
        results = results_of(step, call(*(values[n] for n in step.operands)))
        values += after(step, values, results) if after is not None else results
    return values


def leaves(output: Any) -> list[Any]:
    """Return the tensors of an output."""
    return [leaf for leaf in pytree.tree_leaves(output) if leaf is not None]
