"""A program as data: inputs, steps, outputs. A step is the text of one call with places for what it
reads, so the same program runs step by step in eager, as one function under a front door, and is
printed as it is. Made by `strategies`, changed by `shrink`, run by `oracle` and `judge`."""

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
    """A tensor that is fed: random numbers of ``seed`` in ``low..high``, or ``values``, laid out in
    memory as ``layout`` says; ``special`` puts infinities, NaN and both zeros among them."""

    dtype: str
    shape: tuple[int, ...]
    seed: int
    low: float | None = None
    high: float | None = None
    values: Any = None
    layout: str = "contiguous"
    special: bool = False

    def tensor(self, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        """The tensor, of its own or another shape."""
        size = self.shape if shape is None else shape
        return laid_out(self._plain(size), self.layout)

    def _plain(self, shape: tuple[int, ...]) -> torch.Tensor:
        dtype = getattr(torch, self.dtype)
        generator = torch.Generator().manual_seed(self.seed)
        if self.values is not None:
            given = torch.tensor(self.values, dtype=dtype)
            count = int(torch.Size(shape).numel())
            if given.numel() == count:
                return given.reshape(shape)
            again = given.reshape(-1).repeat(count // max(given.numel(), 1) + 1)
            return again[:count].reshape(shape)
        if dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=generator).bool()
        if not (dtype.is_floating_point or dtype.is_complex):
            least = 0 if dtype == torch.uint8 else -9
            low = int(self.low if self.low is not None else least)
            high = int(self.high if self.high is not None else 10)
            return torch.randint(low, max(high, low + 1), shape, generator=generator).to(dtype)
        if self.low is not None and self.high is not None:
            made = torch.rand(shape, generator=generator, dtype=torch.float64)
            return (made * (self.high - self.low) + self.low).to(dtype)
        kind = torch.complex128 if dtype.is_complex else torch.float64
        made = torch.randn(shape, generator=generator, dtype=kind)
        if self.special and not dtype.is_complex:
            chosen = torch.tensor(SPECIAL, dtype=torch.float64)
            at = torch.randint(0, len(SPECIAL), shape, generator=generator)
            made = torch.where(torch.rand(shape, generator=generator) < 0.3, chosen[at], made)
        return made.to(dtype)


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers with other strides, or not at the beginning of their memory."""
    if layout == "transposed" and tensor.dim() > 1:
        turned = tuple(range(tensor.dim()))[::-1]
        return tensor.permute(turned).contiguous().permute(turned)
    if layout == "strided" and tensor.dim():
        return torch.stack([tensor, tensor], -1)[..., 0]
    if layout == "offset":
        flat = tensor.reshape(-1)
        return torch.cat([flat.new_zeros(3), flat])[3:].view(tensor.shape)
    return tensor


@dataclass(frozen=True)
class Step:
    """One call: ``operands`` are the values that ``{0}``, ``{1}``... of ``text`` stand for, and
    ``results`` the leaves of what it returns that are tensors which may be read (place by place).
    ``key`` is the entry of the specs that it is made from, or the name of a context."""

    text: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    key: str
    tolerance: float = 0.0
    random: bool = False

    def call(self, names: Sequence[str]) -> str:
        """The call with names for its operands."""
        return self.text.format(*(names[each] for each in self.operands))


@dataclass(frozen=True)
class Program:
    """``steps`` in order; their values are numbered after those of ``inputs``. ``outputs`` are
    values, inputs among them."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    dynamic: bool = False

    @property
    def random(self) -> bool:
        """Whether a step draws numbers: two runs differ."""
        return any(step.random for step in self.steps)

    @property
    def tolerance(self) -> float:
        """The largest tolerance that the sample of a step asks for."""
        return max((step.tolerance for step in self.steps), default=0.0)

    def tensors(self, shapes: Sequence[tuple[int, ...]] | None = None) -> list[torch.Tensor]:
        """The inputs as tensors."""
        sizes = [each.shape for each in self.inputs] if shapes is None else shapes
        return [each.tensor(tuple(s)) for each, s in zip(self.inputs, sizes, strict=True)]

    def source(self, name: str = "forward") -> str:
        """The program as a Python function."""
        names = [f"x{place}" for place in range(len(self.inputs))]
        lines = [f"def {name}({', '.join(names)}):"]
        for number, step in enumerate(self.steps):
            call = step.call(names)
            made = [f"v{len(names) + place}" for place in range(len(step.results))]
            if step.results == (-1,):
                lines.append(f"    {made[0]} = {call}")
            else:
                lines.append(f"    r{number} = {call}")
                lines += [
                    f"    {result} = r{number}[{place}]"
                    for result, place in zip(made, step.results, strict=True)
                ]
            names += made
        chosen = "".join(f"{names[each]}, " for each in self.outputs)
        return "\n".join([*lines, f"    return ({chosen})"])

    def function(self, **words: Any) -> Callable[..., Any]:
        """The program as a function; ``words`` are names of its text that mean something else."""
        text = self.source()
        file = f"<program {hash(text)}>"
        namespace = {**NAMESPACE, **words}
        exec(compile(text, file, "exec"), namespace)
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        made = namespace["forward"]
        assert callable(made)
        return made

    def module(self) -> torch.nn.Module:
        """The program as a module for torch.export: its control flow is torch's."""
        return Function(self.function(**TRACED))


# -- control flow: in eager it is Python's, so that a reference needs no tracing


def cond(pred: Any, true: Callable[..., Any], false: Callable[..., Any], operands: Any) -> Any:
    """torch.cond, written out."""
    return true(*operands) if bool(pred) else false(*operands)


def while_loop(test: Callable[..., Any], body: Callable[..., Any], carried: Any) -> Any:
    """torch's while_loop, written out."""
    while bool(test(*carried)):
        carried = tuple(each.clone() for each in body(*carried))
    return carried


def scan(step: Callable[..., Any], init: Any, xs: Any) -> Any:
    """torch's scan over the first axis, written out."""
    made = []
    for row in xs:
        init, out = step(init, row)
        made.append(out)
    return init, torch.stack(made)


NAMESPACE: dict[str, Any] = {
    "torch": torch, "operator": operator, "cond": cond, "while_loop": while_loop, "scan": scan,
}  # fmt: skip


def _traced() -> dict[str, Any]:
    from torch._higher_order_ops import scan as torch_scan
    from torch._higher_order_ops import while_loop as torch_while_loop

    return {
        "cond": torch.cond,
        "while_loop": torch_while_loop,
        "scan": lambda step, init, xs: torch_scan(step, init, xs),
    }


TRACED: dict[str, Any] = _traced()


# -- step by step


@lru_cache(maxsize=20000)
def compiled(text: str, count: int) -> Callable[..., Any]:
    """The call of a step as a function of its operands."""
    names = [f"a{place}" for place in range(count)]
    made = eval(f"lambda {', '.join(names)}: {text.format(*names)}", dict(NAMESPACE))
    assert callable(made)
    return made


def results_of(step: Step, found: Any) -> list[Any]:
    """The values that a step adds, of what its call returned."""
    if step.results == (-1,):
        return [found]
    return [found[place] for place in step.results]


def run_steps(
    program: Program,
    tensors: Sequence[torch.Tensor],
    after: Callable[[Step, list[Any], list[Any]], list[Any]] | None = None,
) -> list[Any]:
    """Every value of the program, in eager; ``after`` may replace the results of a step: it is
    given the step, the values before it and its results."""
    values: list[Any] = list(tensors)
    for step in program.steps:
        call = compiled(step.text, len(step.operands))
        made = results_of(step, call(*(values[each] for each in step.operands)))
        values += after(step, values, made) if after is not None else made
    return values


def leaves(found: Any) -> list[Any]:
    """The tensors of a result."""
    return [leaf for leaf in pytree.tree_leaves(found) if leaf is not None]
