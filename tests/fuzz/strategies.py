"""Build random programs by running them in eager, step by step."""

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

MAX_ELEMENTS = 3000
MAX_OUTPUTS = 6
INPUT_DTYPES = (
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
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
# Before a cast to integers. Results on simple numbers are integers but for a rounding error, and a
# cast makes 0 of 0.9999999 and 1 of 1.0: with 0.3 added, it makes 1 of both.
BEFORE_INTEGERS = ".nan_to_num().clamp(-9, 9).add(0.3)"

Choose = Callable[[int], int]


@dataclass
class ProgramBuilder:
    """A program under construction; value numbers are its own, as inputs may be added late."""

    choose: Choose
    values: dict[int, torch.Tensor] = field(default_factory=dict)
    inputs: list[tuple[int, Input]] = field(default_factory=list)
    steps: list[tuple[Step, list[int]]] = field(default_factory=list)
    read: set[int] = field(default_factory=set)
    hidden: set[int] = field(default_factory=set)  # results that no step may read
    pure: bool = False  # only calls of operators that do not write

    def chance(self, chances: int, of: int = 100) -> bool:
        """Return True with a probability of ``chances`` in ``of``."""
        return self.choose(of) < chances

    def pick(self, rows: Sequence[Any]) -> Any:
        return rows[self.choose(len(rows))]

    # -- values

    def add_value(self, value: torch.Tensor) -> int:
        self.values[len(self.values)] = value
        return len(self.values) - 1

    def add_input(self, program_input: Input) -> int:
        number = self.add_value(program_input.tensor())
        self.inputs.append((number, program_input))
        return number

    def add_sample_input(self, leaf: TensorSample) -> int:
        """Add an input for a sample; at times with other layout, dtype or values."""
        sample_input = Input(
            leaf.dtype, leaf.shape, self.choose(1000), leaf.low, leaf.high, leaf.values,
            layout=self.pick(LAYOUTS) if self.chance(40) else "contiguous",
        )  # fmt: skip
        is_free = leaf.values is None and leaf.low is None and leaf.dtype in FLOATS
        if is_free and self.chance(2):
            sample_input = replace(sample_input, special=True)
        if leaf.dtype in FLOATS and self.chance(12):
            sample_input = replace(sample_input, dtype=self.pick(FLOATS))
        if leaf.dtype in INTEGERS and leaf.low is None and leaf.values is None and self.chance(10):
            sample_input = replace(sample_input, dtype=self.pick(INTEGERS))
        return self.add_input(sample_input)

    def add_random_input(self) -> int:
        """Add an input of a random dtype, shape and layout."""
        random_input = Input(
            self.pick(INPUT_DTYPES), self.pick(SHAPES), self.choose(1000), layout=self.pick(LAYOUTS)
        )
        return self.add_input(random_input)

    def visible_values(self) -> list[int]:
        return [number for number in self.values if number not in self.hidden]

    def recent_value(self) -> int:
        """Return a value, with a preference for the latest."""
        pool = self.visible_values()
        if not pool:
            return self.add_random_input()
        candidates = pool[-3:] if self.chance(70) else pool
        return int(self.pick(candidates))

    # -- steps

    def try_step(self, step: Step, operands: Sequence[int]) -> list[int] | None:
        """Run a step; return the numbers of its results, or None where eager refuses it."""
        values = [self.values[number] for number in operands]
        versions = [value._version for value in values]
        try:
            output = compiled(step.text, len(operands))(*values)
        except Exception:
            return None
        results = _tensors(output)
        if results is None or not all(map(_is_supported, results.values())):
            return None
        if any(_is_undefined(value, result) for value in values for result in results.values()):
            if versions != [value._version for value in values]:
                raise _ValueOverwritten
            return None
        step = replace(step, results=tuple(results))
        self.steps.append((step, list(operands)))
        self.read.update(operands)
        return [self.add_value(tensor) for tensor in results_of(step, output)]

    def add_call(self, rows: Sequence[str], count: int, silent: bool = False) -> list[int] | None:
        """Add one of the calls in ``rows``, on random values."""
        text = self.pick(rows)
        operands = [self.recent_value() for _ in range(count)]
        name = text.replace("{0}", "x").replace("{1}", "y")
        return self.try_step(Step(text, (), (), f"context: {name}"), operands)

    def add_sample(self, key: str) -> list[int] | None:
        """Add a call of one of the samples of an entry, on existing values where they fit."""
        site = self.pick(catalog().sites[key])
        text = site.text
        if self.chance(8) and not self.pure:
            text = _in_place_call(text) or text
        step = Step(text, (), (), key, site.tolerance, site.random)
        for _ in range(3):
            operands = [self.make_operand(leaf) for leaf in site.leaves]
            results = self.try_step(step, operands)
            if results is not None:
                break
        else:
            return self.add_original_sample(site)
        return self.hide_unread(site, results)

    def add_original_sample(self, site: CallSite) -> list[int] | None:
        """Add the call of a sample on new inputs."""
        step = Step(site.text, (), (), site.key, site.tolerance, site.random)
        operands = [
            self.add_input(_original_input(leaf, index)) for index, leaf in enumerate(site.leaves)
        ]
        return self.hide_unread(site, self.try_step(step, operands))

    def hide_unread(self, site: CallSite, results: list[int] | None) -> list[int] | None:
        """Hide the results that the sample excludes from use."""
        if results is not None:
            indices = self.steps[-1][0].results
            self.hidden.update(
                n for n, index in zip(results, indices, strict=True) if index in site.unread
            )
        return results

    def make_operand(self, leaf: TensorSample) -> int:
        """Return an operand of a sample: a new input, or a value, adapted if needed."""
        if not self.values or self.chance(45):
            return self.add_sample_input(leaf)
        candidates = [n for n in self.visible_values() if _is_like(self.values[n], leaf)]
        if candidates and self.chance(80):
            return int(self.pick(candidates))
        adapted = None if leaf.values is not None else self.adapt_value(leaf)
        return self.add_sample_input(leaf) if adapted is None else adapted

    def adapt_value(self, leaf: TensorSample) -> int | None:
        """Adapt a value to a sample by a cast, a clamp and a reshape."""
        if self.pure:
            return None
        source = self.recent_value()
        value = self.values[source]
        text = "{0}"
        if str(value.dtype) != f"torch.{leaf.dtype}":
            if value.is_complex() or leaf.dtype.startswith("complex"):
                return None
            to_integer = leaf.dtype in INTEGERS and value.is_floating_point()
            text = f"{text}{BEFORE_INTEGERS}" if to_integer else text
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
        results = self.try_step(Step(text, (), (), "context: fit"), [source])
        return results[0] if results else None

    def add_control_flow(self, unary: Sequence[CallSite]) -> list[int] | None:
        """Add a branch or a loop whose bodies are samples that keep shape and dtype."""
        source = self.recent_value()
        bodies = [self.make_body(unary, self.values[source]) for _ in range(2)]
        if self.chance(60):
            text = self.pick(contexts.BRANCHES)
        else:
            text = self.pick(contexts.LOOPS)
        text = text.replace("{f}", bodies[0]).replace("{g}", bodies[1])
        return self.try_step(Step(text, (), (), f"context: {text[: text.index('(')]}"), [source])

    def make_body(self, unary: Sequence[CallSite], value: torch.Tensor) -> str:
        for _ in range(6):
            text = self.pick(unary).text
            try:
                result = compiled(text, 1)(value)
            except Exception:
                continue
            if isinstance(result, torch.Tensor) and (result.shape, result.dtype) == (
                value.shape,
                value.dtype,
            ):
                return text.format("a")
        return "a * 2"

    def finish(self, dynamic: bool) -> Program | None:
        """Return the program; results that no step reads are outputs, and at times others, too."""
        input_numbers = {number for number, _ in self.inputs}
        unread = [
            n for n in self.visible_values()
            if n not in self.read and n not in input_numbers and _can_be_output(self.values[n])
        ]  # fmt: skip
        outputs = unread[-MAX_OUTPUTS:]
        pool = [n for n in self.visible_values() if _can_be_output(self.values[n])]
        while pool and self.chance(35) and len(outputs) < MAX_OUTPUTS + 2:
            outputs.append(int(self.pick(pool)))  # any value, at times twice
        if not self.steps or not outputs:
            return None
        self.inputs = [row for row in self.inputs if row[0] in {*self.read, *outputs}]
        order = [number for number, _ in self.inputs]
        rest = [n for n in self.values if n not in input_numbers]  # without unread inputs
        index = {n: position for position, n in enumerate((*order, *rest))}
        return Program(
            tuple(program_input for _, program_input in self.inputs),
            tuple(
                replace(step, operands=tuple(index[n] for n in operands))
                for step, operands in self.steps
            ),
            tuple(index[n] for n in outputs),
            dynamic,
        )


class _ValueOverwritten(Exception):
    """A step that is dropped has written into a value."""


def _tensors(output: Any) -> dict[int, torch.Tensor] | None:
    """Return the tensors of an output by index, -1 for a single tensor; None for other types."""
    if isinstance(output, torch.Tensor):
        return {-1: output}
    if output is None:
        return {}
    if isinstance(output, (list, tuple)):
        return {i: item for i, item in enumerate(output) if isinstance(item, torch.Tensor)}
    return None


def _is_supported(value: torch.Tensor) -> bool:
    return value.layout == torch.strided and value.numel() <= MAX_ELEMENTS and value.dim() <= 6


def _can_be_output(value: torch.Tensor) -> bool:
    return not value.is_quantized


def _is_undefined(source: torch.Tensor, result: torch.Tensor) -> bool:
    """Return whether an integer cannot represent a converted float, which C++ leaves undefined."""
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
    if leaf.values is not None:  # fixed values: sorted, positive definite, indices
        return False
    if leaf.low is None or leaf.high is None or not value.numel():
        return True
    return bool((value >= leaf.low).all()) and bool((value < leaf.high).all())


def _original_input(leaf: TensorSample, seed: int) -> Input:
    return Input(leaf.dtype, leaf.shape, seed, leaf.low, leaf.high, leaf.values)


@cache
def _in_place_call(text: str) -> str | None:
    """Return the call of the in-place overload, None where torch has none."""
    head, _, rest = text.partition("(")
    namespace, name, overload = head.removeprefix("torch.ops.").split(".")
    packet = getattr(getattr(torch.ops, namespace), f"{name}_", None)
    if packet is None or not hasattr(packet, overload):
        return None
    return f"torch.ops.{namespace}.{name}_.{overload}({rest}"


@cache
def _unary_samples() -> tuple[CallSite, ...]:
    """Return the samples of one float tensor."""
    return tuple(
        site
        for key in catalog().keys
        for site in catalog().sites[key]
        if len(site.leaves) == 1 and site.leaves[0].dtype == "float32" and not site.random
        and "{0}" in site.text
    )  # fmt: skip


def grow(
    choose: Choose, keys: Sequence[str], anchor_keys: Sequence[str], pure: bool = False,
    plain: bool = False,
) -> Program | None:  # fmt: skip
    """Return a program around entries of ``anchor_keys``, or None where eager refuses all steps.

    ``pure`` allows only calls of operators; ``plain`` starts with an unchanged sample.
    """
    builder = ProgramBuilder(choose, pure=pure)
    count = 1 + choose(3) if plain else 2 + choose(7)
    anchors = set() if plain else {choose(count), choose(count)}
    dynamic = not pure and builder.chance(15 if plain else 30)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            if plain:
                builder.add_original_sample(
                    builder.pick(catalog().sites[builder.pick(anchor_keys)])
                )
            for number in range(count):
                _add_step(builder, keys, anchor_keys, number in anchors)
        except _ValueOverwritten:
            return None
    return builder.finish(dynamic)


def _add_step(
    builder: ProgramBuilder, keys: Sequence[str], anchor_keys: Sequence[str], is_anchor: bool
) -> None:
    if is_anchor or not builder.values:
        builder.add_sample(builder.pick(anchor_keys))
        return
    kind = builder.choose(45 if builder.pure else 100)
    if kind < 45:
        builder.add_sample(builder.pick(keys))
    elif kind < 60:
        builder.add_call(contexts.VIEWS, 1)
    elif kind < 72:
        builder.add_call(contexts.ARITHMETIC, 1)
    elif kind < 82:
        builder.add_call(contexts.PAIRS, 2)
    elif kind < 89:
        builder.add_call(contexts.WRITES, 1)
    elif kind < 92:
        builder.add_call(contexts.SILENT_WRITES, 1)
    elif kind < 96:
        builder.add_call(contexts.PAIR_WRITES, 2)
    elif kind < 98:
        builder.add_control_flow(_unary_samples())
    else:
        builder.add_random_input()
