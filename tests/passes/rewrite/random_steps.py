"""Single operators of random graphs: each function adds one or two nodes, or nothing when no
result fits. ``a``, ``b``, ``c`` are the numbers of the step."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ortable import dtypes

from .random_graphs import FLOATS, INTEGERS, RandomGraph

NUMBERS = FLOATS + INTEGERS
ANY = (*NUMBERS, dtypes.boolean)
FACTORS = (1.0, 0.5, 2.0, -1.0, 3.0, 0.0, 0.1)
WHOLE = (1, 2, 0, -1, 3)


def cast(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ANY)
    if x is None:
        return
    kinds = (*FLOATS, dtypes.float32, *INTEGERS, dtypes.boolean)
    kind = kinds[b % len(kinds)]
    if g.dtype(x) in FLOATS and kind not in FLOATS:
        if g.error[x]:
            return  # the next integer is too near
        g.plain = True
    name = g.node("Cast", x, to=kind)
    if g.error[x]:
        g.computed(name, x)
    else:
        g.moved(name, x)


def transpose(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ANY, least=1)
    if x is not None:
        orders = list(itertools.permutations(range(g.rank(x))))
        g.moved(g.node("Transpose", x, perm=list(orders[-1 - b % len(orders)])), x)


def unsqueeze(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ANY, wanted=lambda name: g.rank(name) < 4)
    if x is not None:
        axis = b % (g.rank(x) + 1) - (g.rank(x) + 1 if c % 2 else 0)
        g.moved(g.node("Unsqueeze", x, [axis]), x)


def squeeze(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ANY, wanted=lambda name: 1 in g.shape(name))
    if x is not None:
        axes = [axis for axis, dim in enumerate(g.shape(x)) if dim == 1]
        g.moved(g.node("Squeeze", x, axes if b % 2 else [axes[0]]), x)


def reshape(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ANY, least=1)
    if x is None:
        return
    shape = list(g.shape(x))
    rank = len(shape)
    choices: list[list[Any]] = [
        [-1],
        [0] * (rank - 1) + [-1],
        [1, *[0] * 0, -1],
        [*[0] * rank, 1],
        shape[::-1],
        [*shape[:-1], 1, shape[-1]],
        shape,
    ]
    chosen = choices[b % len(choices)]
    if all(isinstance(dim, int) for dim in chosen):
        g.moved(g.node("Reshape", x, chosen), x)
    else:
        g.moved(g.node("Reshape", x, g.builder.shape_as_vector(chosen)), x)


def flatten(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ANY, least=1)
    if x is not None:
        g.moved(g.node("Flatten", x, axis=b % (g.rank(x) + 1)), x)


def arithmetic(g: RandomGraph, a: int, b: int, c: int) -> None:
    """A result and a constant, in both orders, of several ranks."""
    x = g.pick(a, NUMBERS)
    if x is None:
        return
    op = ("Mul", "Add", "Sub", "Div", "Mul", "Add")[b % 6]
    values: tuple[Any, ...] = FACTORS if g.dtype(x) in FLOATS else WHOLE
    value = values[c % len(values)]
    if op == "Div" and not value:
        value = 2
    if op == "Add" and c % 3 == 0:
        value = 0
    shape = ((), (1,), (), (1,) * g.rank(x), (1,) * (g.rank(x) + 1 if g.rank(x) < 4 else 1))[c % 5]
    number = g.const(np.full(shape, value), x)
    first, second = (number, x) if b % 4 == 1 and op != "Div" else (x, number)
    g.computed(g.node(op, first, second), x)


def pair(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Two results of one dtype and shape."""
    x = g.pick(a, NUMBERS)
    y = x and g.pick(b, (g.dtype(x),), wanted=lambda name: g.shape(name) == g.shape(x))
    if x is not None and y is not None:
        op = ("Add", "Mul", "Sub", "Max", "Min", "Add")[c % 6]
        g.computed(g.node(op, x, y), x, y)


def unary(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, (*FLOATS, dtypes.int64))
    if x is None:
        return
    op = ("Neg", "Abs", "Relu", "Identity", "Tanh", "Sigmoid", "Neg", "Erf")[b % 8]
    if g.dtype(x) not in FLOATS:
        op = ("Neg", "Abs")[b % 2]
    name = g.node(op, x)
    if op in ("Tanh", "Sigmoid", "Erf"):
        g.computed(name, x, roundings=2)
    else:
        g.moved(name, x)


def twice(g: RandomGraph, a: int, b: int, c: int) -> None:
    """The same operator two times."""
    x = g.pick(a, FLOATS)
    if x is not None:
        op = ("Neg", "Relu", "Abs", "Identity", "Ceil")[b % (5 if not g.error[x] else 4)]
        g.moved(g.node(op, g.node(op, x)), x)


def clip(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLOATS)
    if x is not None:
        # A missing bound turns infinities into the largest numbers, whose products overflow in the
        # graph before and not in the operator after: the cases of the rules have those.
        low, high = ((0.0, 6.0), (-math.inf, 1.0), (0.0, math.inf), (1.0, -1.0), (-1.0, 1.0))[b % 5]
        g.moved(g.node("Clip", x, g.const(low, x), g.const(high, x)), x)


def extreme(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLOATS)
    if x is not None:
        g.moved(g.node(("Max", "Min")[b % 2], x, g.const((0.0, 1.0, -1.0)[c % 3], x)), x)


def concat(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ANY, least=1)
    y = x and g.pick(b, (g.dtype(x),), wanted=lambda name: g.shape(name) == g.shape(x))
    if x is not None and y is not None:
        axis = c % g.rank(x) - (g.rank(x) if b % 2 else 0)
        parts = ([x, y], [x], [x, y, x])[b % 3]
        g.moved(g.node("Concat", *parts, axis=axis), x, y)


def split(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Parts along the last axis; put together again, or used one by one."""
    x = g.pick(a, ANY, wanted=lambda n: g.rank(n) > 0 and g.shape(n)[-1] in (2, 3, 4, 6))
    if x is None:
        return
    size = g.shape(x)[-1]
    sizes = [1, size - 1] if b % 2 else [1] * size
    parts = g.node("Split", x, g.const(sizes), axis=-1, outputs=len(sizes))
    order = list(parts) if c % 2 else list(parts)[::-1]
    if c % 3:
        g.moved(g.node("Concat", *order, axis=-1), x)
    else:
        for part in parts:
            g.moved(part, x)


def slices(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ANY, least=1)
    if x is None:
        return
    end, begin = 2**62, -(2**62)
    ranges = (
        (0, end, 1), (1, end, 1), (0, -1, 1), (-1, begin, -1), (0, end, 2), (0, 3, 1),
        (-2, end, 1), (0, 2, 1), (1, 3, 2),
    )  # fmt: skip
    start, end, step = ranges[b % len(ranges)]
    axis = c % g.rank(x)
    g.moved(g.node("Slice", x, *([each] for each in (start, end, axis, step))), x)


def gather(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ANY, wanted=lambda n: g.rank(n) > 0 and g.shape(n)[-1] in (2, 3, 4))
    if x is not None:
        index: Any = (0, -1, [1, 0], [-1], [0, 1], [[0], [-1]])[b % 6]
        g.moved(g.node("Gather", x, g.const(index), axis=-1 if c % 2 else g.rank(x) - 1), x)


def expand(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ANY, wanted=lambda n: g.rank(n) < 4)
    if x is not None:
        shape = list(g.shape(x))
        sizes = (shape, [2, *shape], [1] * len(shape), [1, *shape])[b % 4] or [1]
        g.moved(g.node("Expand", x, g.builder.shape_as_vector(sizes)), x)


def where(g: RandomGraph, a: int, b: int, c: int) -> None:
    condition = g.pick(a, (dtypes.boolean,))
    x = condition and g.pick(b, NUMBERS, wanted=lambda n: g.shape(n) == g.shape(condition))
    if condition is not None and x is not None:
        kinds = (None, 0, 1, -np.inf)[: 4 if g.dtype(x) in FLOATS else 3]
        value = kinds[c % len(kinds)]
        other = x if value is None else g.const(value, x)
        pair = (x, other) if c % 8 < 4 else (other, x)
        g.moved(g.node("Where", condition, *pair), x)


def compare(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, NUMBERS, exact=True)
    if x is not None and g.dtype(x) not in (dtypes.float16, dtypes.bfloat16):
        name = g.node(("Equal", "Less", "Greater")[b % 3], x, g.const((0, 1)[c % 2], x))
        g.moved(name, x)


def logic(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, (dtypes.boolean,))
    y = x and g.pick(b, (dtypes.boolean,), wanted=lambda n: g.shape(n) == g.shape(x))
    if x is None or y is None:
        return
    if c % 4 == 0:
        g.moved(g.node("Not", x), x)
    elif c % 4 < 3:
        g.moved(g.node(("And", "Or", "Xor")[b % 3], x, y), x, y)
    else:
        g.moved(g.node(("And", "Or")[b % 2], x, g.const(np.array(b % 4 < 2))), x)


def reduction(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, (dtypes.float32, dtypes.float64), least=1)
    if x is None:
        return
    op = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceSum")[b % 4]
    name = g.node(op, x, [c % g.rank(x) - g.rank(x)], keepdims=c % 2)
    if op == "ReduceMax":
        g.moved(name, x)
    else:
        g.computed(name, x, times=8, roundings=8)


def neutral(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Nodes that do nothing: Dropout without training, Pad by nothing, Tile by one, Cast to the
    same type."""
    x = g.pick(a, FLOATS[:2], least=1)
    if x is None:
        return
    if b % 4 == 0:
        name = g.node("Dropout", x)
    elif b % 4 == 1:
        name = g.node("Pad", x, [0] * (2 * g.rank(x)))
    elif b % 4 == 2:
        name = g.node("Tile", x, [1] * g.rank(x))
    else:
        name = g.node("Cast", x, to=g.dtype(x))
    g.moved(name, x)


def power(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLOATS[:2])
    if x is None:
        return
    if b % 3 == 0:
        g.computed(g.node("Pow", x, g.const((1.0, 2.0)[c % 2], x)), x, times=2)
    elif b % 3 == 1:
        g.computed(g.node("Mul", x, x), x)
    else:
        shifted = g.node("Add", g.node("Mul", x, x), g.const(1.0, x))
        g.computed(g.node("Reciprocal", g.node("Sqrt", shifted)), x, roundings=4, times=2)


STEPS = (
    cast, cast, cast, transpose, transpose, unsqueeze, squeeze, reshape, reshape, flatten,
    arithmetic, arithmetic, arithmetic, pair, pair, unary, twice, clip, clip, extreme, concat,
    split, slices, slices, gather, expand, where, compare, logic, logic, reduction, neutral, power,
)  # fmt: skip
