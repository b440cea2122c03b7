"""Programs, grown from random numbers. A program is run in eager while it grows, so each step knows
the dtypes, shapes and numbers that it may read: samples are spliced onto results there are, through
casts, reshapes and clamps where they do not fit, and steps that eager refuses are left out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch

from ortablegen.language.samples import TensorSample

from . import contexts
from .catalog import CallSite, catalog
from .program import LAYOUTS, Input, Program, Step, compiled, results_of

LARGEST = 3000  # elements of a value
MOST_OUTPUTS = 6
PLAIN = (
    "float32",
    "float32",
    "float32",
    "int64",
    "float64",
    "float16",
    "bool",
    "int32",
    "bfloat16",
)
SHAPES = (
    (3, 4),
    (2, 3),
    (4,),
    (2, 3, 4),
    (1, 3),
    (3, 1),
    (),
    (1,),
    (0, 3),
    (2, 0),
    (5, 5),
    (2, 2, 3, 3),
)
FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLE = ("int64", "int32", "int16", "int8", "uint8")

Choose = Callable[[int], int]


@dataclass
class Growing:
    """A program on its way. Values have numbers of their own: an input may join late."""

    choose: Choose
    values: dict[int, torch.Tensor] = field(default_factory=dict)
    inputs: list[tuple[int, Input]] = field(default_factory=list)
    steps: list[tuple[Step, list[int]]] = field(default_factory=list)
    read: set[int] = field(default_factory=set)
    hidden: set[int] = field(default_factory=set)  # results that nothing may read
    pure: bool = False  # calls of operators alone, none that writes

    def some(self, chances: int, of: int = 100) -> bool:
        """True in so many cases of a hundred."""
        return self.choose(of) < chances

    def one(self, rows: Sequence[Any]) -> Any:
        return rows[self.choose(len(rows))]

    # -- values

    def number(self, value: torch.Tensor) -> int:
        self.values[len(self.values)] = value
        return len(self.values) - 1

    def add_input(self, made: Input) -> int:
        found = self.number(made.tensor())
        self.inputs.append((found, made))
        return found

    def fresh(self, leaf: TensorSample) -> int:
        """An input as a sample has it; at times in another layout, dtype, with special numbers."""
        given = Input(
            leaf.dtype, leaf.shape, self.choose(1000), leaf.low, leaf.high, leaf.values,
            layout=self.one(LAYOUTS) if self.some(40) else "contiguous",
        )  # fmt: skip
        free = leaf.values is None and leaf.low is None and leaf.dtype in FLOATS
        if free and self.some(2):
            given = replace(given, special=True)
        if leaf.dtype in FLOATS and self.some(12):
            given = replace(given, dtype=self.one(FLOATS))
        if leaf.dtype in WHOLE and leaf.low is None and leaf.values is None and self.some(10):
            given = replace(given, dtype=self.one(WHOLE))
        return self.add_input(given)

    def plain(self) -> int:
        """An input of any kind."""
        made = Input(self.one(PLAIN), self.one(SHAPES), self.choose(1000), layout=self.one(LAYOUTS))
        return self.add_input(made)

    def visible(self) -> list[int]:
        return [each for each in self.values if each not in self.hidden]

    def recent(self) -> int:
        """A value, the newest likeliest."""
        pool = self.visible()
        if not pool:
            return self.plain()
        few = pool[-3:] if self.some(70) else pool
        return int(self.one(few))

    # -- steps

    def attempt(self, step: Step, operands: Sequence[int]) -> list[int] | None:
        """Runs a step; the numbers of its results, or None where eager refuses it."""
        values = [self.values[each] for each in operands]
        before = [value._version for value in values]
        try:
            found = compiled(step.text, len(operands))(*values)
        except Exception:
            return None
        made = _tensors(found)
        if made is None or not all(map(_fits, made.values())):
            return None
        if any(_undefined(value, each) for value in values for each in made.values()):
            if before != [value._version for value in values]:
                raise _Spoilt
            return None
        step = replace(step, results=tuple(made))
        self.steps.append((step, list(operands)))
        self.read.update(operands)
        return [self.number(each) for each in results_of(step, found)]

    def context(self, rows: Sequence[str], count: int, silent: bool = False) -> list[int] | None:
        """One of the rows, on values that are there."""
        text = self.one(rows)
        operands = [self.recent() for _ in range(count)]
        name = text.replace("{0}", "x").replace("{1}", "y")
        return self.attempt(Step(text, (), (), f"context: {name}"), operands)

    def sample(self, key: str) -> list[int] | None:
        """A call of one of the samples of an entry, spliced onto the values."""
        site = self.one(catalog().sites[key])
        text = site.text
        if self.some(8) and not self.pure:
            text = _in_place(text) or text
        step = Step(text, (), (), key, site.tolerance, site.random)
        for _ in range(3):
            operands = [self.operand(leaf) for leaf in site.leaves]
            found = self.attempt(step, operands)
            if found is not None:
                break
        else:
            return self.as_written(site)
        return self.read_as(site, found)

    def as_written(self, site: CallSite) -> list[int] | None:
        """The call of a sample on inputs of its own."""
        step = Step(site.text, (), (), site.key, site.tolerance, site.random)
        operands = [
            self.add_input(_as_written(leaf, place)) for place, leaf in enumerate(site.leaves)
        ]
        return self.read_as(site, self.attempt(step, operands))

    def read_as(self, site: CallSite, found: list[int] | None) -> list[int] | None:
        """Hides the results that the sample says nothing may read."""
        if found is not None:
            places = self.steps[-1][0].results
            self.hidden.update(
                each for each, place in zip(found, places, strict=True) if place in site.unread
            )
        return found

    def operand(self, leaf: TensorSample) -> int:
        """What a sample reads: a new input, or a value, adapted if it must be."""
        if not self.values or self.some(45):
            return self.fresh(leaf)
        fitting = [each for each in self.visible() if _is_like(self.values[each], leaf)]
        if fitting and self.some(80):
            return int(self.one(fitting))
        adapted = None if leaf.values is not None else self.adapt(leaf)
        return self.fresh(leaf) if adapted is None else adapted

    def adapt(self, leaf: TensorSample) -> int | None:
        """A value made to fit a sample: cast, brought into its range and its shape."""
        if self.pure:
            return None
        source = self.recent()
        value = self.values[source]
        text = "{0}"
        if str(value.dtype) != f"torch.{leaf.dtype}":
            if value.is_complex() or leaf.dtype.startswith("complex"):
                return None
            whole = leaf.dtype in WHOLE and value.is_floating_point()
            text = f"{text}.nan_to_num().clamp(-9, 9)" if whole else text
            text = f"{text}.to(torch.{leaf.dtype})"
        if leaf.low is not None and leaf.high is not None and leaf.dtype != "bool":
            if leaf.dtype in FLOATS:
                text = f"({text}.nan_to_num().sigmoid() * {leaf.high - leaf.low} + {leaf.low})"
            else:
                span = max(int(leaf.high - leaf.low), 1)
                text = f"({text}.remainder({span}) + {int(leaf.low)})"
        if tuple(value.shape) != leaf.shape:
            count = int(torch.Size(leaf.shape).numel())
            if value.numel() == 0 and count:
                return None
            if value.numel() < count:
                text = f"{text}.reshape(-1).repeat({count // value.numel() + 1})"
            size = list(leaf.shape)
            if value.numel() != count:
                text = f"{text}.reshape(-1)[:{count}]"
            text = f"{text}.reshape({size})"
        if text == "{0}":
            return source
        found = self.attempt(Step(text, (), (), "context: fit"), [source])
        return found[0] if found else None

    def control(self, unary: Sequence[CallSite]) -> list[int] | None:
        """A branch or a loop whose bodies are samples that keep shape and dtype."""
        source = self.recent()
        bodies = [self.body(unary, self.values[source]) for _ in range(2)]
        if self.some(60):
            text = self.one(contexts.BRANCHES)
        else:
            text = self.one(contexts.LOOPS)
        text = text.replace("{f}", bodies[0]).replace("{g}", bodies[1])
        return self.attempt(Step(text, (), (), f"context: {text[: text.index('(')]}"), [source])

    def body(self, unary: Sequence[CallSite], value: torch.Tensor) -> str:
        for _ in range(6):
            text = self.one(unary).text
            try:
                found = compiled(text, 1)(value)
            except Exception:
                continue
            if isinstance(found, torch.Tensor) and (found.shape, found.dtype) == (
                value.shape,
                value.dtype,
            ):
                return text.format("a")
        return "a * 2"

    def finish(self, dynamic: bool) -> Program | None:
        """The program: what nothing has read is an output, and at times more."""
        own = {number for number, _ in self.inputs}
        open_ends = [
            each for each in self.visible()
            if each not in self.read and each not in own and _may_leave(self.values[each])
        ]  # fmt: skip
        outputs = open_ends[-MOST_OUTPUTS:]
        pool = [each for each in self.visible() if _may_leave(self.values[each])]
        while pool and self.some(35) and len(outputs) < MOST_OUTPUTS + 2:
            outputs.append(int(self.one(pool)))  # a copy, an intermediate result, an input
        if not self.steps or not outputs:
            return None
        self.inputs = [each for each in self.inputs if each[0] in {*self.read, *outputs}]
        order = [number for number, _ in self.inputs]
        rest = [each for each in self.values if each not in own]  # inputs that nothing reads go
        place = {each: at for at, each in enumerate((*order, *rest))}
        return Program(
            tuple(made for _, made in self.inputs),
            tuple(
                replace(step, operands=tuple(place[each] for each in operands))
                for step, operands in self.steps
            ),
            tuple(place[each] for each in outputs),
            dynamic,
        )


class _Spoilt(Exception):
    """A step that may not stay has written into a value."""


def _tensors(found: Any) -> dict[int, torch.Tensor] | None:
    """The tensors of a result by their place; -1 for a result that is one; None for others."""
    if isinstance(found, torch.Tensor):
        return {-1: found}
    if found is None:
        return {}
    if isinstance(found, (list, tuple)):
        return {at: each for at, each in enumerate(found) if isinstance(each, torch.Tensor)}
    return None


def _fits(value: torch.Tensor) -> bool:
    return value.layout == torch.strided and value.numel() <= LARGEST and value.dim() <= 6


def _may_leave(value: torch.Tensor) -> bool:
    return not value.is_quantized


def _undefined(source: torch.Tensor, result: torch.Tensor) -> bool:
    """Whether C++ leaves open what becomes of a float that no integer holds."""
    if result.dtype.is_floating_point or result.dtype in (torch.bool,) or result.is_complex():
        return False
    if not source.dtype.is_floating_point or not source.numel() or source.is_quantized:
        return False
    try:
        bound = 100 if torch.iinfo(result.dtype).bits == 8 else 30000
        return not bool((source.abs() < bound).all())
    except (TypeError, RuntimeError):
        return True


def _is_like(value: torch.Tensor, leaf: TensorSample) -> bool:
    if str(value.dtype) != f"torch.{leaf.dtype}" or tuple(value.shape) != leaf.shape:
        return False
    if leaf.values is not None:  # chosen ones: sorted, positive definite, indices
        return False
    if leaf.low is None or leaf.high is None or not value.numel():
        return True
    return bool((value >= leaf.low).all()) and bool((value < leaf.high).all())


def _as_written(leaf: TensorSample, place: int) -> Input:
    return Input(leaf.dtype, leaf.shape, place, leaf.low, leaf.high, leaf.values)


@cache
def _in_place(text: str) -> str | None:
    """The same call of the overload that writes into its first argument, where torch has one."""
    head, _, rest = text.partition("(")
    space, name, overload = head.removeprefix("torch.ops.").split(".")
    packet = getattr(getattr(torch.ops, space), f"{name}_", None)
    if packet is None or not hasattr(packet, overload):
        return None
    return f"torch.ops.{space}.{name}_.{overload}({rest}"


@cache
def _unary() -> tuple[CallSite, ...]:
    """Samples of one float tensor."""
    return tuple(
        site
        for key in catalog().keys
        for site in catalog().sites[key]
        if len(site.leaves) == 1 and site.leaves[0].dtype == "float32" and not site.random
        and "{0}" in site.text
    )  # fmt: skip


def grow(
    choose: Choose, keys: Sequence[str], wanted: Sequence[str], pure: bool = False,
    plain: bool = False,
) -> Program | None:  # fmt: skip
    """A program of 2 to 8 steps around one or two of the ``wanted`` entries; None where nothing
    came. ``pure``: of calls of operators alone; ``plain``: the first step is a sample as it is
    written, and few follow."""
    growing = Growing(choose, pure=pure)
    count = 1 + choose(3) if plain else 2 + choose(7)
    anchors = set() if plain else {choose(count), choose(count)}
    dynamic = not pure and growing.some(15 if plain else 30)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            if plain:
                growing.as_written(growing.one(catalog().sites[growing.one(wanted)]))
            for number in range(count):
                _grow_one(growing, keys, wanted, number in anchors)
        except _Spoilt:
            return None
    return growing.finish(dynamic)


def _grow_one(growing: Growing, keys: Sequence[str], wanted: Sequence[str], anchor: bool) -> None:
    if anchor or not growing.values:
        growing.sample(growing.one(wanted))
        return
    kind = growing.choose(45 if growing.pure else 100)
    if kind < 45:
        growing.sample(growing.one(keys))
    elif kind < 60:
        growing.context(contexts.VIEWS, 1)
    elif kind < 72:
        growing.context(contexts.ARITHMETIC, 1)
    elif kind < 82:
        growing.context(contexts.PAIRS, 2)
    elif kind < 89:
        growing.context(contexts.WRITES, 1)
    elif kind < 92:
        growing.context(contexts.SILENT_WRITES, 1)
    elif kind < 96:
        growing.context(contexts.PAIR_WRITES, 2)
    elif kind < 98:
        growing.control(_unary())
    else:
        growing.plain()
