"""Single operators of random graphs.

Each function adds one or two nodes, or nothing when no result fits. `a`, `b` and `c` are the
random numbers of the step, which select the inputs and the variant.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ortable import dtypes

from .random_graphs import FLOATS, INTEGERS, RandomGraph

NUMERIC = FLOATS + INTEGERS
ALL_DTYPES = (*NUMERIC, dtypes.boolean)
FACTORS = (1.0, 0.5, 2.0, -1.0, 3.0, 0.0, 0.1)
INTEGER_FACTORS = (1, 2, 0, -1, 3)


def cast(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ALL_DTYPES)
    if x is None:
        return
    targets = (*FLOATS, dtypes.float32, *INTEGERS, dtypes.boolean)
    target = targets[b % len(targets)]
    if g.dtype(x) in FLOATS and target not in FLOATS:
        if g.error[x]:
            return  # a small error may change the rounded integer
        g.finite_only = True
    name = g.node("Cast", x, to=target)
    if g.error[x]:
        g.add_rounded(name, x)
    else:
        g.add_exact(name, x)


def transpose(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ALL_DTYPES, min_rank=1)
    if x is not None:
        orders = list(itertools.permutations(range(g.rank(x))))
        g.add_exact(g.node("Transpose", x, perm=list(orders[-1 - b % len(orders)])), x)


def unsqueeze(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ALL_DTYPES, accept=lambda name: g.rank(name) < 4)
    if x is not None:
        axis = b % (g.rank(x) + 1) - (g.rank(x) + 1 if c % 2 else 0)
        g.add_exact(g.node("Unsqueeze", x, [axis]), x)


def squeeze(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ALL_DTYPES, accept=lambda name: 1 in g.shape(name))
    if x is not None:
        axes = [axis for axis, dim in enumerate(g.shape(x)) if dim == 1]
        g.add_exact(g.node("Squeeze", x, axes if b % 2 else [axes[0]]), x)


def reshape(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ALL_DTYPES, min_rank=1)
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
    target = choices[b % len(choices)]
    if all(isinstance(dim, int) for dim in target):
        g.add_exact(g.node("Reshape", x, target), x)
    else:
        g.add_exact(g.node("Reshape", x, g.builder.shape_as_vector(target)), x)


def flatten(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ALL_DTYPES, min_rank=1)
    if x is not None:
        g.add_exact(g.node("Flatten", x, axis=b % (g.rank(x) + 1)), x)


def arithmetic(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Combine a result and a constant, in both orders and several ranks."""
    x = g.pick(a, NUMERIC)
    if x is None:
        return
    op = ("Mul", "Add", "Sub", "Div", "Mul", "Add")[b % 6]
    values: tuple[Any, ...] = FACTORS if g.dtype(x) in FLOATS else INTEGER_FACTORS
    value = values[c % len(values)]
    if op == "Div" and not value:
        value = 2
    if op == "Add" and c % 3 == 0:
        value = 0
    shape = ((), (1,), (), (1,) * g.rank(x), (1,) * (g.rank(x) + 1 if g.rank(x) < 4 else 1))[c % 5]
    number = g.const(np.full(shape, value), x)
    first, second = (number, x) if b % 4 == 1 and op != "Div" else (x, number)
    g.add_rounded(g.node(op, first, second), x)


def binary(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Combine two results of equal dtype and shape."""
    x = g.pick(a, NUMERIC)
    y = x and g.pick(b, (g.dtype(x),), accept=lambda name: g.shape(name) == g.shape(x))
    if x is not None and y is not None:
        op = ("Add", "Mul", "Sub", "Max", "Min", "Add")[c % 6]
        g.add_rounded(g.node(op, x, y), x, y)


def unary(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, (*FLOATS, dtypes.int64))
    if x is None:
        return
    op = ("Neg", "Abs", "Relu", "Identity", "Tanh", "Sigmoid", "Neg", "Erf")[b % 8]
    if g.dtype(x) not in FLOATS:
        op = ("Neg", "Abs")[b % 2]
    name = g.node(op, x)
    if op in ("Tanh", "Sigmoid", "Erf"):
        g.add_rounded(name, x, roundings=2)
    else:
        g.add_exact(name, x)


def repeated(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLOATS)
    if x is not None:
        op = ("Neg", "Relu", "Abs", "Identity", "Ceil")[b % (5 if not g.error[x] else 4)]
        g.add_exact(g.node(op, g.node(op, x)), x)


def clip(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLOATS)
    if x is not None:
        # Never omit a bound: the finite limits would replace infinities, and products of them
        # overflow only in the original graph. The samples of the rules cover missing bounds.
        low, high = ((0.0, 6.0), (-math.inf, 1.0), (0.0, math.inf), (1.0, -1.0), (-1.0, 1.0))[b % 5]
        g.add_exact(g.node("Clip", x, g.const(low, x), g.const(high, x)), x)


def bound(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLOATS)
    if x is not None:
        g.add_exact(g.node(("Max", "Min")[b % 2], x, g.const((0.0, 1.0, -1.0)[c % 3], x)), x)


def concat(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ALL_DTYPES, min_rank=1)
    y = x and g.pick(b, (g.dtype(x),), accept=lambda name: g.shape(name) == g.shape(x))
    if x is not None and y is not None:
        axis = c % g.rank(x) - (g.rank(x) if b % 2 else 0)
        parts = ([x, y], [x], [x, y, x])[b % 3]
        g.add_exact(g.node("Concat", *parts, axis=axis), x, y)


def split(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Split the last axis; concatenate the parts or use them separately."""
    x = g.pick(a, ALL_DTYPES, accept=lambda n: g.rank(n) > 0 and g.shape(n)[-1] in (2, 3, 4, 6))
    if x is None:
        return
    size = g.shape(x)[-1]
    sizes = [1, size - 1] if b % 2 else [1] * size
    parts = g.node("Split", x, g.const(sizes), axis=-1, outputs=len(sizes))
    order = list(parts) if c % 2 else list(parts)[::-1]
    if c % 3:
        g.add_exact(g.node("Concat", *order, axis=-1), x)
    else:
        for part in parts:
            g.add_exact(part, x)


def slices(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ALL_DTYPES, min_rank=1)
    if x is None:
        return
    end, begin = 2**62, -(2**62)
    ranges = (
        (0, end, 1), (1, end, 1), (0, -1, 1), (-1, begin, -1), (0, end, 2), (0, 3, 1),
        (-2, end, 1), (0, 2, 1), (1, 3, 2),
    )  # fmt: skip
    start, end, step = ranges[b % len(ranges)]
    axis = c % g.rank(x)
    g.add_exact(g.node("Slice", x, *([value] for value in (start, end, axis, step))), x)


def gather(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ALL_DTYPES, accept=lambda n: g.rank(n) > 0 and g.shape(n)[-1] in (2, 3, 4))
    if x is not None:
        index: Any = (0, -1, [1, 0], [-1], [0, 1], [[0], [-1]])[b % 6]
        g.add_exact(g.node("Gather", x, g.const(index), axis=-1 if c % 2 else g.rank(x) - 1), x)


def expand(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, ALL_DTYPES, accept=lambda n: g.rank(n) < 4)
    if x is not None:
        shape = list(g.shape(x))
        sizes = (shape, [2, *shape], [1] * len(shape), [1, *shape])[b % 4] or [1]
        g.add_exact(g.node("Expand", x, g.builder.shape_as_vector(sizes)), x)


def where(g: RandomGraph, a: int, b: int, c: int) -> None:
    condition = g.pick(a, (dtypes.boolean,))
    x = condition and g.pick(b, NUMERIC, accept=lambda n: g.shape(n) == g.shape(condition))
    if condition is not None and x is not None:
        values = (None, 0, 1, -np.inf)[: 4 if g.dtype(x) in FLOATS else 3]
        value = values[c % len(values)]
        other = x if value is None else g.const(value, x)
        branches = (x, other) if c % 8 < 4 else (other, x)
        g.add_exact(g.node("Where", condition, *branches), x)


def compare(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, NUMERIC, exact=True)
    if x is not None and g.dtype(x) not in (dtypes.float16, dtypes.bfloat16):
        name = g.node(("Equal", "Less", "Greater")[b % 3], x, g.const((0, 1)[c % 2], x))
        g.add_exact(name, x)


def logic(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, (dtypes.boolean,))
    y = x and g.pick(b, (dtypes.boolean,), accept=lambda n: g.shape(n) == g.shape(x))
    if x is None or y is None:
        return
    if c % 4 == 0:
        g.add_exact(g.node("Not", x), x)
    elif c % 4 < 3:
        g.add_exact(g.node(("And", "Or", "Xor")[b % 3], x, y), x, y)
    else:
        g.add_exact(g.node(("And", "Or")[b % 2], x, g.const(np.array(b % 4 < 2))), x)


def reduction(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, (dtypes.float32, dtypes.float64), min_rank=1)
    if x is None:
        return
    op = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceSum")[b % 4]
    name = g.node(op, x, [c % g.rank(x) - g.rank(x)], keepdims=c % 2)
    if op == "ReduceMax":
        g.add_exact(name, x)
    else:
        g.add_rounded(name, x, error_scale=8, roundings=8)


def no_op(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Add a node without effect: Dropout in inference, or Pad, Tile or Cast as identity."""
    x = g.pick(a, FLOATS[:2], min_rank=1)
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
    g.add_exact(name, x)


def power(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLOATS[:2])
    if x is None:
        return
    if b % 3 == 0:
        g.add_rounded(g.node("Pow", x, g.const((1.0, 2.0)[c % 2], x)), x, error_scale=2)
    elif b % 3 == 1:
        g.add_rounded(g.node("Mul", x, x), x)
    else:
        shifted = g.node("Add", g.node("Mul", x, x), g.const(1.0, x))
        g.add_rounded(g.node("Reciprocal", g.node("Sqrt", shifted)), x, roundings=4, error_scale=2)


STEPS = (
    cast, cast, cast, transpose, transpose, unsqueeze, squeeze, reshape, reshape, flatten,
    arithmetic, arithmetic, arithmetic, binary, binary, unary, repeated, clip, clip, bound, concat,
    split, slices, slices, gather, expand, where, compare, logic, logic, reduction, no_op, power,
)  # fmt: skip
