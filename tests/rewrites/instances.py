"""Small graphs that a rule is tried on, made of its samples: every size is taken for 0 to 3, static
and dynamic, ranks and broadcasting change, numbers of constants, axes and permutations change, and
operators of one alternative of the pattern stand for those of another. Called by `proofs`."""

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

from ortable.debug.harness.values import parse_operand
from ortablegen.language.samples import ABBREVIATIONS
from ortablegen.rewrites.model import Code, Rewrite, RewriteCase

SHORT = {long: short for short, long in ABBREVIATIONS.items()}
SIZES = (0, 1, 2, 3)
NUMBERS = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 6.0, -2.0, float("inf"), float("-inf"), float("nan"),
    2.0**-9, 240.0,
)  # fmt: skip
WHOLE = (-4, -3, -2, -1, 0, 1, 2, 3, 4, 9223372036854775807)
SWITCHES = frozenset({"ta", "tb", "transposed", "zero", "keep", "counts"})  # attributes, 0 or 1
SHAPES = tuple(
    shape for rank in range(4) for shape in itertools.product(SIZES, repeat=rank)
)  # every shape of at most three axes
FLAT = tuple(shape for shape in SHAPES if len(shape) <= 2)


@dataclass(frozen=True)
class Instance:
    """A case with other sizes and numbers; ``dynamic``: some of its sizes are symbols."""

    case: RewriteCase
    how: str
    dynamic: bool


# -- texts of tensors


@dataclass(frozen=True)
class Text:
    """A tensor of a case, taken apart: labels are sizes, or names of dynamic ones."""

    dtype: str
    labels: tuple[Any, ...]
    sizes: tuple[int, ...]
    constant: bool
    bounds: tuple[float, float] | None
    values: Any

    def text(self, shape: Sequence[Any], values: Any = None) -> str:
        """The tensor with other sizes, numbers given or drawn."""
        dims = ",".join(str(each) for each in shape)
        plain = f"{SHORT[self.dtype]}[{dims}]"
        if values is not None:
            plain += f" = {_numbers(_fitting(values, shape))}"
        elif self.bounds is not None:
            plain += f" in {self.bounds[0]:g}..{self.bounds[1]:g}"
        return f"const {plain}" if self.constant else plain


def _fitting(values: Any, shape: Sequence[Any]) -> Any:
    """The numbers of an example at another size: the same again, and some left out."""
    sizes = [int(str(each).rpartition("=")[2]) for each in shape]
    flat = _flat(values)
    if flat and math.prod(sizes) % len(flat) == 0:
        return values
    return np.resize(np.array(flat or [0], dtype=object), sizes).tolist()


def _numbers(values: Any) -> str:
    return repr(values).replace("nan", "nan").replace("'", "")


def _read(text: object) -> Text | None:
    found = parse_operand(text) if isinstance(text, str) else None
    if found is None:
        return None
    sample = found.sample
    bounds = None
    if sample.low is not None and sample.high is not None:
        bounds = (float(sample.low), float(sample.high))
    labels = tuple(name or size for size, name in sample.dims)
    return Text(sample.dtype, labels, sample.shape, found.constant, bounds, sample.values)


def _listed(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _tensors(case: RewriteCase) -> list[Text]:
    texts = [_read(each) for _, value in case.values for each in _listed(value)]
    return [each for each in texts if each is not None]


# -- sizes


def _mapped(case: RewriteCase, mapping: dict[Any, Any], how: str, dynamic: bool) -> Instance:
    """Every size by its label, those in constants and in the graph, too."""

    def change(value: object) -> object:
        if isinstance(value, (list, tuple)):
            return [change(each) for each in value]
        text = _read(value)
        if text is None:
            return value
        shape = []
        for label, size in zip(text.labels, text.sizes, strict=True):
            shape.append(_size(label, size, mapping))
        values = text.values
        if values is not None and text.dtype in ("int64", "int32") and text.sizes and not dynamic:
            values = _known(values, mapping)
        return text.text(shape, values)

    values = tuple((name, change(value)) for name, value in case.values)
    graph = case.graph
    if graph is not None and not dynamic:
        graph = _with_sizes(graph, mapping)
    return Instance(replace(case, values=values, graph=graph), how, dynamic)


def _size(label: Any, size: int, mapping: dict[Any, Any]) -> Any:
    if label in mapping:
        return mapping[label]
    if isinstance(label, str):
        try:
            known = {k: v for k, v in mapping.items() if isinstance(k, str) and isinstance(v, int)}
            return eval(compile(ast.parse(label, mode="eval"), "", "eval"), {}, known)
        except NameError:
            return f"{label}={size}"
    return size


def _known(values: Any, mapping: dict[Any, Any]) -> Any:
    if isinstance(values, list):
        return [_known(each, mapping) for each in values]
    return mapping.get(values, values) if isinstance(values, int) else values


def _with_sizes(code: Code, mapping: dict[Any, Any]) -> Code:
    """Sizes that stand in the graph as lists of numbers."""
    numbers = {k: v for k, v in mapping.items() if isinstance(k, int) and k > 1}
    body = copy.deepcopy(list(code.body))
    for statement in body:
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("Reshape", "Expand"):
                for each in itertools.chain.from_iterable(ast.walk(a) for a in call.args[1:]):
                    if isinstance(each, ast.Constant) and each.value in numbers:
                        each.value = numbers[each.value]
    return replace(code, body=type(code.body)(body))


def _labels(case: RewriteCase) -> list[Any]:
    found: dict[Any, None] = {}
    for text in _tensors(case):
        for label in text.labels:
            if isinstance(label, int) or label.isidentifier():
                found.setdefault(label)
    return list(found)


def _small(case: RewriteCase, draw: random.Random, most: int) -> Iterator[Instance]:
    """Every size for 0 to 3 (and itself, where it is larger), all static; then all symbols."""
    labels = _labels(case)
    choices = [(*SIZES, each) if isinstance(each, int) and each > 3 else SIZES for each in labels]
    for chosen in _product(choices, draw, most):
        yield _mapped(case, dict(zip(labels, chosen, strict=True)), "sizes", False)
    named = {
        label: f"{label if isinstance(label, str) else f'd{label}'}={_example(case, label)}"
        for label in labels
    }
    yield _mapped(case, named, "all dynamic", True)
    for kept in labels if len(labels) < 6 else draw.sample(labels, 5):
        some = {key: value for key, value in named.items() if key != kept}
        yield _mapped(case, some, "some dynamic", True)


def _example(case: RewriteCase, label: Any) -> int:
    for text in _tensors(case):
        for each, size in zip(text.labels, text.sizes, strict=True):
            if each == label:
                return size
    raise KeyError(label)


def _product(choices: Sequence[Sequence[Any]], draw: random.Random, most: int) -> Iterator[Any]:
    """Every combination, or as many drawn ones."""
    count = 1
    for each in choices:
        count *= len(each)
    if count <= most:
        yield from itertools.product(*choices)
        return
    for _ in range(most):
        yield tuple(draw.choice(each) for each in choices)


def _free(case: RewriteCase, draw: random.Random, most: int) -> Iterator[Instance]:
    """Shapes of the inputs chosen by themselves: for one input every shape of at most three axes,
    for two every pair of shapes of at most two, else drawn ones near the case's."""
    places = [
        (at, inner, text)
        for at, (_, value) in enumerate(case.values)
        for inner, each in enumerate(_listed(value))
        if (text := _read(each)) is not None and (text.values is None or _uniform(text.values))
    ]
    if not places:
        return
    choices: list[Sequence[Any]] = [SHAPES if len(places) == 1 else FLAT] * len(places)
    if len(places) > 2:
        choices = [
            [s for s in SHAPES if len(s) == len(text.sizes)] if draw.random() < 0.7 else SHAPES
            for _, _, text in places
        ]
    for chosen in _product(choices, draw, most):
        values = [[name, value] for name, value in case.values]
        for (at, inner, text), shape in zip(places, chosen, strict=True):
            given = None if text.values is None else _filled(_first(text.values), shape)
            made = text.text(shape, given)
            if isinstance(values[at][1], (list, tuple)):
                values[at][1] = [*values[at][1][:inner], made, *values[at][1][inner + 1 :]]
            else:
                values[at][1] = made
        yield Instance(replace(case, values=tuple((n, v) for n, v in values)), "shapes", False)


def _first(values: Any) -> Any:
    while isinstance(values, list):
        values = values[0]
    return values


def _uniform(values: Any) -> bool:
    flat = _flat(values)
    return len(flat) > 0 and all(each == flat[0] for each in flat) and not isinstance(flat[0], bool)


def _flat(values: Any) -> list[Any]:
    if isinstance(values, list):
        return [each for inner in values for each in _flat(inner)]
    return [values]


def _filled(value: Any, shape: Sequence[int]) -> Any:
    if not shape:
        return value
    return [_filled(value, shape[1:]) for _ in range(shape[0])]


# -- numbers


def _slots(case: RewriteCase) -> list[tuple[tuple[Any, ...], list[Any]]]:
    """Places of numbers in the case, with what may stand there instead."""
    found: list[tuple[tuple[Any, ...], list[Any]]] = []
    for at, (name, value) in enumerate(case.values):
        text = _read(value)
        if text is not None and text.constant and text.values is not None:
            flat = _flat(text.values)
            choices: Sequence[Any] = NUMBERS
            if text.dtype == "bool":
                choices = (False, True)
            elif not text.dtype.startswith(("float", "bfloat")):
                ends = np.iinfo(text.dtype)
                choices = [each for each in WHOLE if ends.min <= each <= ends.max]
            for place in range(min(len(flat), 8)):
                found.append((("value", at, place), list(choices)))
        elif text is None and isinstance(value, str):
            number = _literal(value)
            if isinstance(number, list) and sorted(map(str, number)) == [
                str(i) for i in range(len(number))
            ]:
                orders = [list(each) for each in itertools.permutations(range(len(number)))]
                found.append((("attribute", at), orders))
            elif name in SWITCHES:
                found.append((("attribute", at), [0, 1]))
            elif isinstance(number, int) and name not in ("dtype", "between"):
                found.append((("attribute", at), list(range(-3, 4))))
    if case.graph is not None:
        for index, (_, choices) in enumerate(_graph_slots(case.graph.body)):
            found.append((("graph", index), list(choices)))
    return found


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None


def _graph_slots(body: Sequence[ast.stmt]) -> list[tuple[Any, Sequence[Any]]]:
    """Numbers in a graph: inputs of nodes, axes and permutations."""
    found: list[tuple[Any, Sequence[Any]]] = []
    for statement in body:
        for call in ast.walk(statement):
            if not isinstance(call, ast.Call):
                continue
            for argument in call.args:
                for each in argument.elts if isinstance(argument, ast.List) else [argument]:
                    if isinstance(each, ast.Constant) and isinstance(each.value, (int, float)):
                        whole = isinstance(argument, ast.List)
                        found.append((each, WHOLE if whole else NUMBERS))
            for keyword in call.keywords:
                if keyword.arg == "perm" and isinstance(keyword.value, ast.List):
                    count = len(keyword.value.elts)
                    orders = [list(each) for each in itertools.permutations(range(count))]
                    found.append((keyword, orders))
                elif keyword.arg in ("axis", "start", "end", "keepdims", "allowzero"):
                    found.append((keyword, (-2, -1, 0, 1, 2)))
    return found


def _changed(case: RewriteCase, chosen: Sequence[tuple[tuple[Any, ...], Any]]) -> RewriteCase:
    values = [list(each) for each in case.values]
    graph = case.graph
    for place, value in chosen:
        if place[0] == "value":
            text = _read(values[place[1]][1])
            assert text is not None
            flat = _flat(text.values)
            flat[place[2]] = value
            nested = iter(flat)
            size = 1
            for each in text.sizes:
                size *= each
            given = _shaped(nested, text.sizes) if size == len(flat) else flat
            values[place[1]][1] = text.text(_dims(text), given)
        elif place[0] == "attribute":
            values[place[1]][1] = repr(value)
        elif graph is not None:
            graph = _with_number(graph, place[1], value)
    return replace(case, values=tuple((n, v) for n, v in values), graph=graph)


def _dims(text: Text) -> list[str]:
    return [
        str(size) if label == size else f"{label}={size}"
        for label, size in zip(text.labels, text.sizes, strict=True)
    ]


def _shaped(flat: Iterator[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return next(flat)
    return [_shaped(flat, shape[1:]) for _ in range(shape[0])]


def _with_number(code: Code, index: int, value: Any) -> Code:
    body = copy.deepcopy(list(code.body))
    place, _ = _graph_slots(body)[index]
    if isinstance(place, ast.keyword):
        place.value = ast.parse(repr(value), mode="eval").body
    elif isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return code
    else:
        place.value = int(value) if isinstance(place.value, int) and value == int(value) else value
    return replace(code, body=type(code.body)(body))


def _numbered(case: RewriteCase, draw: random.Random, most: int) -> Iterator[Instance]:
    """Each number for itself, then several at once."""
    slots = _slots(case)
    every = 1
    for _, choices in slots:
        every *= len(choices)
    if slots and every <= most:
        for chosen in itertools.product(*(choices for _, choices in slots)):
            places = [(place, v) for (place, _), v in zip(slots, chosen, strict=True)]
            yield Instance(_changed(case, places), "numbers", True)
        return
    alone = [(place, value) for place, choices in slots for value in choices]
    draw.shuffle(alone)
    for each in alone[: most // 2]:
        yield Instance(_changed(case, [each]), "numbers", True)
    for _ in range(most // 2 if slots else 0):
        some = draw.sample(slots, min(len(slots), draw.choice((2, 2, 3, 4))))
        picked = [(place, draw.choice(choices)) for place, choices in some]
        yield Instance(_changed(case, picked), "numbers", True)


# -- operators


def _siblings(rewrite: Rewrite, case: RewriteCase) -> Iterator[RewriteCase]:
    """The case with each operator that the pattern allows where another one stands."""
    groups: list[set[str]] = []
    for node in ast.walk(ast.Module(body=list(rewrite.pattern.body), type_ignores=[])):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "any_of":
            calls = [each.func for each in node.args if isinstance(each, ast.Call)]
            names = {each.id for each in calls if isinstance(each, ast.Name)}
            groups.append(names - {"any_of", "optional"})
    if case.graph is None:
        return
    for group in groups:
        for index, call in enumerate(_calls(case.graph.body)):
            if getattr(call.func, "id", "") not in group:
                continue
            for other in sorted(group - {call.func.id}):  # type: ignore[attr-defined]
                body = copy.deepcopy(list(case.graph.body))
                each = _calls(body)[index]
                each.func = ast.Name(other, ast.Load())
                if other not in ("Cast", "Softmax"):
                    each.keywords = []
                elif other == "Cast":
                    each.keywords = [ast.keyword("to", ast.Constant(10))]
                yield replace(
                    case, graph=replace(case.graph, body=type(case.graph.body)(body)), expect=None
                )


def _calls(body: Sequence[ast.stmt]) -> list[ast.Call]:
    return [n for statement in body for n in ast.walk(statement) if isinstance(n, ast.Call)]


def instances(rewrite: Rewrite, seed: int, most: int) -> Iterator[Instance]:
    """About ``most`` graphs for a rule, the cases as they are among them."""
    draw = random.Random(seed)
    cases = list(rewrite.cases)
    for case in cases:
        yield Instance(case, "case", True)
    others = [each for case in cases if case.unchanged is None for each in _siblings(rewrite, case)]
    for case in others[: most // 4]:
        yield Instance(case, "operators", True)
    firing = [case for case in cases if case.unchanged is None] + draw.sample(
        others, min(4, len(others))
    )
    share = max(most // (3 * len(cases) + 1), 4)
    for case in firing:
        yield from _small(case, draw, share * 2)
        yield from _free(case, draw, share)
        yield from _numbered(case, draw, share * 2)
    refused = [case for case in cases if case.unchanged is not None]
    for case in refused:
        yield from _small(case, draw, share // 2)
        yield from _numbered(case, draw, share // 2)
    for _ in range(share * 2):
        case = draw.choice(cases)
        for first in itertools.islice(_small(case, draw, 1), 1):
            slots = _slots(first.case)
            some = draw.sample(slots, min(len(slots), 2))
            picked = [(place, draw.choice(choices)) for place, choices in some]
            yield Instance(_changed(first.case, picked), "sizes and numbers", False)
