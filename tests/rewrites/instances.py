"""Small graphs for the proof of a rule, generated from its samples.

Every size is 0 to 3, static and dynamic; ranks, broadcasting, constants, axes, permutations and
the operators of `any_of` alternatives vary. `proofs` tries the rule on each graph.
"""

from __future__ import annotations

import ast
import copy
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ortable.testing.values import parse_operand
from ortablegen.language.samples import ABBREVIATIONS
from ortablegen.rewrites.model import Code, Rewrite, RewriteSample

SHORT = {long: short for short, long in ABBREVIATIONS.items()}
SIZES = (0, 1, 2, 3)
NUMBERS = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 6.0, -2.0, float("inf"), float("-inf"), float("nan"),
    2.0**-9, 240.0,
)  # fmt: skip
INTEGERS = (-4, -3, -2, -1, 0, 1, 2, 3, 4, 9223372036854775807)
SWITCHES = frozenset({"ta", "tb", "transposed", "zero", "keep", "counts"})  # 0/1 attributes
SHAPES = tuple(
    shape for rank in range(4) for shape in itertools.product(SIZES, repeat=rank)
)  # every shape of rank 3 or less
SMALL_SHAPES = tuple(shape for shape in SHAPES if len(shape) <= 2)


@dataclass(frozen=True)
class Instance:
    """A sample with other sizes and numbers; `dynamic`: some sizes are symbols."""

    sample: RewriteSample
    kind: str
    dynamic: bool


@dataclass(frozen=True)
class TensorSpec:
    """A parsed tensor of a sample; labels are sizes, or names of dynamic sizes."""

    dtype: str
    labels: tuple[Any, ...]
    sizes: tuple[int, ...]
    constant: bool
    bounds: tuple[float, float] | None
    values: Any

    def text(self, shape: Sequence[Any], values: Any = None) -> str:
        """Return the specification with other sizes, and optionally other values."""
        dims = ",".join(str(dim) for dim in shape)
        spec = f"{SHORT[self.dtype]}[{dims}]"
        if values is not None:
            spec += f" = {_format_values(_resize(values, shape))}"
        elif self.bounds is not None:
            spec += f" in {self.bounds[0]:g}..{self.bounds[1]:g}"
        return f"const {spec}" if self.constant else spec


def _resize(values: Any, shape: Sequence[Any]) -> Any:
    """Repeat or truncate the values for another shape."""
    sizes = [int(str(dim).rpartition("=")[2]) for dim in shape]
    flat = _flatten(values)
    if flat and math.prod(sizes) % len(flat) == 0:
        return values
    return np.resize(np.array(flat or [0], dtype=object), sizes).tolist()


def _format_values(values: Any) -> str:
    return repr(values).replace("nan", "nan").replace("'", "")


def _parse_tensor(text: object) -> TensorSpec | None:
    operand = parse_operand(text) if isinstance(text, str) else None
    if operand is None:
        return None
    sample = operand.sample
    bounds = None
    if sample.low is not None and sample.high is not None:
        bounds = (float(sample.low), float(sample.high))
    labels = tuple(name or size for size, name in sample.dims)
    return TensorSpec(sample.dtype, labels, sample.shape, operand.constant, bounds, sample.values)


def _as_tuple(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _list_tensors(sample: RewriteSample) -> list[TensorSpec]:
    specs = [_parse_tensor(text) for _, value in sample.values for text in _as_tuple(value)]
    return [spec for spec in specs if spec is not None]


def _change_sizes(
    sample: RewriteSample, mapping: dict[Any, Any], kind: str, dynamic: bool
) -> Instance:
    """Replace every size according to its label, also in constants and in the graph."""

    def change(value: object) -> object:
        if isinstance(value, (list, tuple)):
            return [change(item) for item in value]
        spec = _parse_tensor(value)
        if spec is None:
            return value
        shape = []
        for label, size in zip(spec.labels, spec.sizes, strict=True):
            shape.append(_map_size(label, size, mapping))
        values = spec.values
        if values is not None and spec.dtype in ("int64", "int32") and spec.sizes and not dynamic:
            values = _map_values(values, mapping)
        return spec.text(shape, values)

    values = tuple((name, change(value)) for name, value in sample.values)
    graph = sample.graph
    if graph is not None and not dynamic:
        graph = _change_graph_sizes(graph, mapping)
    return Instance(replace(sample, values=values, graph=graph), kind, dynamic)


def _map_size(label: Any, size: int, mapping: dict[Any, Any]) -> Any:
    if label in mapping:
        return mapping[label]
    if isinstance(label, str):
        try:
            known = {k: v for k, v in mapping.items() if isinstance(k, str) and isinstance(v, int)}
            return eval(compile(ast.parse(label, mode="eval"), "", "eval"), {}, known)
        except NameError:
            return f"{label}={size}"
    return size


def _map_values(values: Any, mapping: dict[Any, Any]) -> Any:
    if isinstance(values, list):
        return [_map_values(item, mapping) for item in values]
    return mapping.get(values, values) if isinstance(values, int) else values


def _change_graph_sizes(code: Code, mapping: dict[Any, Any]) -> Code:
    """Replace sizes in lists of numbers in the graph."""
    numbers = {old: new for old, new in mapping.items() if isinstance(old, int) and old > 1}
    body = copy.deepcopy(list(code.body))
    for statement in body:
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("Reshape", "Expand"):
                for constant in itertools.chain.from_iterable(ast.walk(a) for a in call.args[1:]):
                    if isinstance(constant, ast.Constant) and constant.value in numbers:
                        constant.value = numbers[constant.value]
    return replace(code, body=type(code.body)(body))


def _list_labels(sample: RewriteSample) -> list[Any]:
    labels: dict[Any, None] = {}
    for spec in _list_tensors(sample):
        for label in spec.labels:
            if isinstance(label, int) or label.isidentifier():
                labels.setdefault(label)
    return list(labels)


def _vary_sizes(sample: RewriteSample, rng: random.Random, max_count: int) -> Iterator[Instance]:
    """Try every size from 0 to 3 (and larger original ones) statically, then symbols."""
    labels = _list_labels(sample)
    choices = [(*SIZES, size) if isinstance(size, int) and size > 3 else SIZES for size in labels]
    for sizes in _combinations(choices, rng, max_count):
        yield _change_sizes(sample, dict(zip(labels, sizes, strict=True)), "sizes", False)
    symbols = {
        label: f"{label if isinstance(label, str) else f'd{label}'}={_get_size(sample, label)}"
        for label in labels
    }
    yield _change_sizes(sample, symbols, "all dynamic", True)
    for static_label in labels if len(labels) < 6 else rng.sample(labels, 5):
        others = {key: value for key, value in symbols.items() if key != static_label}
        yield _change_sizes(sample, others, "some dynamic", True)


def _get_size(sample: RewriteSample, label: Any) -> int:
    for spec in _list_tensors(sample):
        for other_label, size in zip(spec.labels, spec.sizes, strict=True):
            if other_label == label:
                return size
    raise KeyError(label)


def _combinations(
    choices: Sequence[Sequence[Any]], rng: random.Random, max_count: int
) -> Iterator[Any]:
    """Yield every combination, or a random sample if there are more than the limit."""
    count = 1
    for values in choices:
        count *= len(values)
    if count <= max_count:
        yield from itertools.product(*choices)
        return
    for _ in range(max_count):
        yield tuple(rng.choice(values) for values in choices)


def _vary_shapes(sample: RewriteSample, rng: random.Random, max_count: int) -> Iterator[Instance]:
    """Vary the shapes of inputs independently.

    For one input, try every shape up to rank 3; for two, every pair up to rank 2; for more, random
    shapes, most of the original ranks.
    """
    slots = [
        (index, item, spec)
        for index, (_, value) in enumerate(sample.values)
        for item, text in enumerate(_as_tuple(value))
        if (spec := _parse_tensor(text)) is not None
        and (spec.values is None or _is_uniform(spec.values))
    ]
    if not slots:
        return
    choices: list[Sequence[Any]] = [SHAPES if len(slots) == 1 else SMALL_SHAPES] * len(slots)
    if len(slots) > 2:
        choices = [
            [s for s in SHAPES if len(s) == len(spec.sizes)] if rng.random() < 0.7 else SHAPES
            for _, _, spec in slots
        ]
    for shapes in _combinations(choices, rng, max_count):
        values = [[name, value] for name, value in sample.values]
        for (index, item, spec), shape in zip(slots, shapes, strict=True):
            new_values = None if spec.values is None else _fill(_first_value(spec.values), shape)
            new = spec.text(shape, new_values)
            if isinstance(values[index][1], (list, tuple)):
                values[index][1] = [*values[index][1][:item], new, *values[index][1][item + 1 :]]
            else:
                values[index][1] = new
        yield Instance(replace(sample, values=tuple((n, v) for n, v in values)), "shapes", False)


def _first_value(values: Any) -> Any:
    while isinstance(values, list):
        values = values[0]
    return values


def _is_uniform(values: Any) -> bool:
    flat = _flatten(values)
    return len(flat) > 0 and all(v == flat[0] for v in flat) and not isinstance(flat[0], bool)


def _flatten(values: Any) -> list[Any]:
    if isinstance(values, list):
        return [value for item in values for value in _flatten(item)]
    return [values]


def _fill(value: Any, shape: Sequence[int]) -> Any:
    if not shape:
        return value
    return [_fill(value, shape[1:]) for _ in range(shape[0])]


def _list_slots(sample: RewriteSample) -> list[tuple[tuple[Any, ...], list[Any]]]:
    """Return the positions of numbers in the sample, with the alternatives of each."""
    slots: list[tuple[tuple[Any, ...], list[Any]]] = []
    for position, (name, value) in enumerate(sample.values):
        spec = _parse_tensor(value)
        if spec is not None and spec.constant and spec.values is not None:
            flat = _flatten(spec.values)
            choices: Sequence[Any] = NUMBERS
            if spec.dtype == "bool":
                choices = (False, True)
            elif not spec.dtype.startswith(("float", "bfloat")):
                bounds = np.iinfo(spec.dtype)
                choices = [option for option in INTEGERS if bounds.min <= option <= bounds.max]
            for element in range(min(len(flat), 8)):
                slots.append((("value", position, element), list(choices)))
        elif spec is None and isinstance(value, str):
            literal = _parse_literal(value)
            if isinstance(literal, list) and sorted(map(str, literal)) == [
                str(i) for i in range(len(literal))
            ]:
                orders = [list(order) for order in itertools.permutations(range(len(literal)))]
                slots.append((("attribute", position), orders))
            elif name in SWITCHES:
                slots.append((("attribute", position), [0, 1]))
            elif isinstance(literal, int) and name not in ("dtype", "between"):
                slots.append((("attribute", position), list(range(-3, 4))))
    if sample.graph is not None:
        for index, (_, choices) in enumerate(_graph_slots(sample.graph.body)):
            slots.append((("graph", index), list(choices)))
    return slots


def _parse_literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None


def _graph_slots(body: Sequence[ast.stmt]) -> list[tuple[Any, Sequence[Any]]]:
    """Return the numbers in a graph: inputs of nodes, axes and permutations."""
    slots: list[tuple[Any, Sequence[Any]]] = []
    for statement in body:
        for call in ast.walk(statement):
            if not isinstance(call, ast.Call):
                continue
            for argument in call.args:
                for node in argument.elts if isinstance(argument, ast.List) else [argument]:
                    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
                        is_list = isinstance(argument, ast.List)
                        slots.append((node, INTEGERS if is_list else NUMBERS))
            for keyword in call.keywords:
                if keyword.arg == "perm" and isinstance(keyword.value, ast.List):
                    count = len(keyword.value.elts)
                    orders = [list(order) for order in itertools.permutations(range(count))]
                    slots.append((keyword, orders))
                elif keyword.arg in ("axis", "start", "end", "keepdims", "allowzero"):
                    slots.append((keyword, (-2, -1, 0, 1, 2)))
    return slots


def _change_numbers(
    sample: RewriteSample, edits: Sequence[tuple[tuple[Any, ...], Any]]
) -> RewriteSample:
    values = [list(pair) for pair in sample.values]
    graph = sample.graph
    for slot, value in edits:
        if slot[0] == "value":
            spec = _parse_tensor(values[slot[1]][1])
            assert spec is not None
            flat = _flatten(spec.values)
            flat[slot[2]] = value
            nested = iter(flat)
            size = 1
            for dim in spec.sizes:
                size *= dim
            new_values = _nest(nested, spec.sizes) if size == len(flat) else flat
            values[slot[1]][1] = spec.text(_list_dims(spec), new_values)
        elif slot[0] == "attribute":
            values[slot[1]][1] = repr(value)
        elif graph is not None:
            graph = _change_graph_number(graph, slot[1], value)
    return replace(
        sample, values=tuple((name, new_value) for name, new_value in values), graph=graph
    )


def _list_dims(spec: TensorSpec) -> list[str]:
    return [
        str(size) if label == size else f"{label}={size}"
        for label, size in zip(spec.labels, spec.sizes, strict=True)
    ]


def _nest(flat: Iterator[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return next(flat)
    return [_nest(flat, shape[1:]) for _ in range(shape[0])]


def _change_graph_number(code: Code, index: int, value: Any) -> Code:
    body = copy.deepcopy(list(code.body))
    slot, _ = _graph_slots(body)[index]
    if isinstance(slot, ast.keyword):
        slot.value = ast.parse(repr(value), mode="eval").body
    elif isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return code
    else:
        slot.value = int(value) if isinstance(slot.value, int) and value == int(value) else value
    return replace(code, body=type(code.body)(body))


def _draw_changes(slots: Sequence[Any], count: int, rng: random.Random) -> list[Any]:
    """Draw a new number for each of some positions."""
    drawn_slots = rng.sample(slots, min(len(slots), count))
    return [(slot, rng.choice(choices)) for slot, choices in drawn_slots]


def _vary_numbers(sample: RewriteSample, rng: random.Random, max_count: int) -> Iterator[Instance]:
    """Vary each number alone, then several at once."""
    slots = _list_slots(sample)
    count = 1
    for _, choices in slots:
        count *= len(choices)
    if slots and count <= max_count:
        for values in itertools.product(*(choices for _, choices in slots)):
            changes = [(slot, v) for (slot, _), v in zip(slots, values, strict=True)]
            yield Instance(_change_numbers(sample, changes), "numbers", True)
        return
    single_changes = [(slot, value) for slot, choices in slots for value in choices]
    rng.shuffle(single_changes)
    for change in single_changes[: max_count // 2]:
        yield Instance(_change_numbers(sample, [change]), "numbers", True)
    for _ in range(max_count // 2 if slots else 0):
        changes = _draw_changes(slots, rng.choice((2, 2, 3, 4)), rng)
        yield Instance(_change_numbers(sample, changes), "numbers", True)


def _siblings(rewrite: Rewrite, sample: RewriteSample) -> Iterator[RewriteSample]:
    """Yield the sample with each alternative operator of `any_of` in the pattern."""
    groups: list[set[str]] = []
    for node in ast.walk(ast.Module(body=list(rewrite.pattern.body), type_ignores=[])):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "any_of":
            calls = [argument.func for argument in node.args if isinstance(argument, ast.Call)]
            names = {func.id for func in calls if isinstance(func, ast.Name)}
            groups.append(names - {"any_of", "optional"})
    if sample.graph is None:
        return
    for group in groups:
        for index, call in enumerate(_list_calls(sample.graph.body)):
            if getattr(call.func, "id", "") not in group:
                continue
            for other in sorted(group - {call.func.id}):  # type: ignore[attr-defined]
                body = copy.deepcopy(list(sample.graph.body))
                new_call = _list_calls(body)[index]
                new_call.func = ast.Name(other, ast.Load())
                if other not in ("Cast", "Softmax"):
                    new_call.keywords = []
                elif other == "Cast":
                    new_call.keywords = [ast.keyword("to", ast.Constant(10))]
                yield replace(
                    sample,
                    graph=replace(sample.graph, body=type(sample.graph.body)(body)),
                    expect=None,
                )


def _list_calls(body: Sequence[ast.stmt]) -> list[ast.Call]:
    return [n for statement in body for n in ast.walk(statement) if isinstance(n, ast.Call)]


def make_instances(rewrite: Rewrite, seed: int, most: int) -> Iterator[Instance]:
    """Yield about `most` graphs for a rule, including its unchanged samples."""
    rng = random.Random(seed)
    samples = list(rewrite.samples)
    for sample in samples:
        yield Instance(sample, "sample", True)
    variants = [
        variant
        for sample in samples
        if sample.unchanged is None
        for variant in _siblings(rewrite, sample)
    ]
    for sample in variants[: most // 4]:
        yield Instance(sample, "operators", True)
    firing = [sample for sample in samples if sample.unchanged is None] + rng.sample(
        variants, min(4, len(variants))
    )
    share = max(most // (3 * len(samples) + 1), 4)
    for sample in firing:
        yield from _vary_sizes(sample, rng, share * 2)
        yield from _vary_shapes(sample, rng, share)
        yield from _vary_numbers(sample, rng, share * 2)
    rejected = [sample for sample in samples if sample.unchanged is not None]
    for sample in rejected:
        yield from _vary_sizes(sample, rng, share // 2)
        yield from _vary_numbers(sample, rng, share // 2)
    for _ in range(share * 2):
        sample = rng.choice(samples)
        for resized in itertools.islice(_vary_sizes(sample, rng, 1), 1):
            slots = _list_slots(resized.sample)
            changes = _draw_changes(slots, 2, rng)
            yield Instance(_change_numbers(resized.sample, changes), "sizes and numbers", False)
