"""Several operators of random graphs at once: what is written by hand in models and becomes one
operator, sizes computed from sizes, and branches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ortable import dtypes

from .random_graphs import FLOATS, INTEGERS, ROWS, RandomGraph

FLAT = (dtypes.float32,)


def _last(g: RandomGraph, number: int, rank: int | None = None, least: int = 1) -> str | None:
    """A float32 result whose last size is small and known."""

    def known(name: str) -> bool:
        size = g.shape(name)[-1]
        return isinstance(size, int) and size > 0

    return g.pick(number, FLAT, rank, least, wanted=known)


def linear(g: RandomGraph, a: int, b: int, c: int) -> None:
    """A product with a constant, and what may be added to it."""
    x = _last(g, a, least=2)
    if x is None:
        return
    size = g.shape(x)[-1]
    weight = g.weight((size, 3), x, c % 5)
    if b % 5 == 4:
        weight = g.node("Transpose", g.weight((3, size), x, c % 5), perm=[1, 0])
    product = g.node("MatMul", x, weight)
    if c % 4 == 0:
        product = g.node("Mul", product, g.const((0.5, 2.0)[b % 2], x))
    shape = ((3,), (1, 3), (), (1,), (2, 1, 1, 3))[b % 5]
    if b % 7 == 6:
        g.add(product, size * 2e-7 + g.error[x] * size)
    bias = g.weight(shape, x, 7)
    first, second = (bias, product) if c % 3 == 0 else (product, bias)
    g.computed(g.node("Add", first, second), x, times=size, roundings=2 * size)


def gemm(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = _last(g, a, rank=2)
    if x is None:
        return
    size = g.shape(x)[-1]
    if b % 2:
        weight = g.node("Transpose", g.weight((3, size), x, 3), perm=[1, 0])
        name = g.node("Gemm", x, weight, g.weight((3,), x, 4))
    else:
        turned = g.node("Transpose", x, perm=[1, 0])
        name = g.node("Gemm", turned, g.weight((size, 3), x, 5), transA=1)
    if c % 3 == 0:
        name = g.node(("Relu", "Identity")[b % 2], name)
    if c % 3 == 1:
        name = g.node("Add", name, g.weight((3,), x, 6))
    g.computed(name, x, times=size, roundings=2 * size)


def softmax(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = _last(g, a)
    if x is None:
        return
    if b % 3 == 0:
        name = g.node("Softmax", x, axis=-1)
        name = g.node("Log", name) if c % 3 == 0 else name
    elif b % 3 == 1:
        name = g.node("Softmax", x, axis=c % g.rank(x))
    else:
        raised = g.node("Exp", g.node("Tanh", x))
        name = g.node("Div", raised, g.node("ReduceSum", raised, [-1], keepdims=1))
    g.computed(name, x, times=4, roundings=16)


def normalisation(g: RandomGraph, a: int, b: int, c: int) -> None:
    """LayerNormalization and RMSNormalization in parts, some of them nearly so."""
    x = _last(g, a)
    if x is None:
        return
    size = g.shape(x)[-1]
    keep = 1
    centred = x
    if b % 3:
        centred = g.node("Sub", x, g.node("ReduceMean", x, [-1], keepdims=keep))
    square = g.node("Pow", centred, g.const(2.0, x)) if c % 2 else g.node("Mul", centred, centred)
    variance = g.node("ReduceMean", square, [-1], keepdims=keep)
    deviation = g.node("Sqrt", g.node("Add", variance, g.const(0.5, x)))
    if c % 3 == 0:
        name = g.node("Mul", centred, g.node("Reciprocal", deviation))
    else:
        name = g.node("Div", centred, deviation)
    if b % 2:
        name = g.node("Mul", name, g.weight((size,), x, 8))
        if c % 4:
            name = g.node("Add", name, g.weight((size,), x, 9))
    g.computed(name, x, times=8, roundings=40)


def activation(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLAT)
    if x is None:
        return
    half, one = g.const(0.5, x), g.const(1.0, x)
    kind = b % 7
    if kind in (0, 1):
        root = g.const(np.sqrt(2.0), x)
        inner = g.node("Erf", g.node("Div", x, root))
        if kind == 1:
            inner = g.node("Erf", g.node("Mul", x, g.const(np.sqrt(0.5), x)))
        gate = g.node("Add", inner, one)
        name = g.node("Mul", g.node("Mul", x, half), gate)
        if c % 2:
            name = g.node("Mul", g.node("Mul", x, gate), half)
    elif kind == 2:
        cube = g.node("Mul", g.const(0.044715, x), g.node("Pow", x, g.const(3.0, x)))
        inner = g.node("Mul", g.const(np.sqrt(2 / np.pi), x), g.node("Add", x, cube))
        gate = g.node("Add", one, g.node("Tanh", inner))
        name = g.node("Mul", g.node("Mul", half, x), gate)
    elif kind == 3:
        name = g.node("Mul", x, g.node("Sigmoid", x))
    elif kind == 4:
        name = g.node("Mul", x, g.node("Sigmoid", g.node("Mul", x, g.const(1.702, x))))
    elif kind == 5:
        shifted = g.node(
            "Clip", g.node("Add", x, g.const(3.0, x)), g.const(0.0, x), g.const(6.0, x)
        )
        name = g.node("Div", g.node("Mul", x, shifted), g.const(6.0, x))
    else:
        name = g.node("Mul", x, g.node("Tanh", g.node("Softplus", x)))
    g.computed(name, x, times=4, roundings=20)


def attention(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Scores, scaled before or after, softmax, product."""
    x, y = _last(g, a, least=2), _last(g, b, least=2)
    if x is None or y is None or g.shape(x) != g.shape(y):
        y = x
    if x is None or y is None:
        return
    x, y = (g.node("Tanh", each) for each in (x, y))
    rank = g.rank(x)
    keys = g.node("Transpose", y, perm=[*range(rank - 2), rank - 1, rank - 2])
    left = g.node("Mul", x, g.const(0.5, x)) if c % 2 else x
    scores = g.node("MatMul", left, keys)
    if c % 3 == 0:
        scores = g.node("Div", scores, g.const(2.0, x))
    name = g.node("MatMul", g.node("Softmax", scores, axis=-1), y)
    g.computed(name, *g.pool[-1:], times=32, roundings=100)


def convolution(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLAT, rank=2)
    if x is None:
        return
    image = g.node("Unsqueeze", x, [0, 1])
    bias = [g.weight((2,), x, 11)] if b % 2 else []
    name = g.node("Conv", image, g.weight((2, 1, 1, 1), x, 10), *bias)
    if b % 3 == 0:
        name = g.node("Add", name, g.weight((1, 2, 1, 1), x, 12))
    elif b % 3 == 1:
        scale = np.array([0.5, 2.0], dtype=np.float32)
        name = g.node("BatchNormalization", name, scale, scale + 1, scale - 1, scale)
    if c % 3 == 0:
        name = g.node("Relu", name)
    g.computed(name, x, times=4, roundings=20)


def sizes(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Numbers read from shapes, computed with, and used as a size."""
    x = g.pick(a, (*FLAT, dtypes.int64), least=1)
    if x is None:
        return
    axis = 0
    kind = b % 6
    if kind == 0:
        length = g.node("Gather", g.node("Shape", x), [axis], axis=0)
    elif kind == 1:
        length = g.node("Shape", x, start=0, end=1)
    else:
        whole = g.node("Gather", g.node("Shape", x), g.const(axis), axis=0)
        length = g.node("Unsqueeze", whole, [0])
    if c % 4 == 0:  # the even part of the length
        even = g.node("Mul", g.node("Div", length, [2]), [2])
        g.moved(g.node("Slice", x, [0], even, [axis]), x)
    elif c % 4 == 1:
        shape = g.node("Concat", length, [-1], axis=0)
        g.moved(g.node("Reshape", x, shape), x)
    elif c % 4 == 2:
        more = g.node("Sub", g.node("Add", length, [2]), [2])
        g.moved(g.node("Slice", x, [0], more, [axis]), x)
    else:
        g.moved(g.node("Reshape", x, g.node("Shape", x)), x)


def shape_chain(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Reshapes and transposes back and forth."""
    x = g.pick(a, (*FLOATS[:2], *INTEGERS), rank=2)
    if x is None:
        return
    name = x
    for number in (b, b // 3, c):
        if number % 3 == 0:
            name = g.node("Transpose", name, perm=[1, 0])
        elif number % 3 == 1:
            shape = list(g.shape(name))
            name = g.node(
                "Reshape", g.node("Reshape", name, [-1]), g.builder.shape_as_vector(shape)
            )
        else:
            name = g.node("Squeeze", g.node("Unsqueeze", name, [number % 2]), [number % 2])
    g.moved(name, x)


def turns(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Two transpositions, which may be one, none, or one that only looks like none."""
    x = g.pick(a, FLOATS, rank=3)
    if x is not None:
        orders = list(itertools.permutations(range(3)))
        inside = g.node("Transpose", x, perm=list(orders[b % 6]))
        g.moved(g.node("Transpose", inside, perm=list(orders[c % 6])), x)


def cast_chain(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Casts there and back, through types that hold every value and types that do not."""
    x = g.pick(a, (*FLOATS, dtypes.int32), exact=True)
    if x is None:
        return
    wide = (dtypes.float64, dtypes.float32, dtypes.float16, dtypes.bfloat16)
    if g.dtype(x) == dtypes.int32:
        wide = (dtypes.int64, dtypes.float64, dtypes.int64, dtypes.float32)
    there = g.node("Cast", x, to=wide[b % 4])
    back = g.node("Cast", there, to=g.dtype(x))
    if g.dtype(x) == dtypes.int32:
        g.plain = True
    g.moved(back, x)
    if c % 3 == 0:
        g.moved(there, x)


def branch(g: RandomGraph, a: int, b: int, c: int) -> None:
    """An If whose branches read results from outside and hold patterns of their own."""
    x = g.pick(a, FLAT)
    if x is None:
        return
    first, second = g.builder.subgraph("then"), g.builder.subgraph("else")
    factor = g.const((1.0, 0.5)[c % 2], x)
    inner: Any = x
    for number in (b, b // 4, c):
        if number % 4 == 0:
            inner = first.make_node("Neg", [inner])
        elif number % 4 == 1:
            inner = first.make_node("Mul", [inner, factor])
        elif number % 4 == 2:
            half = first.make_node("Cast", [inner], to=dtypes.float64)
            inner = first.make_node("Cast", [half], to=dtypes.float32)
        else:
            inner = first.make_node("Identity", [inner])
    first.make_tensor_output(inner)
    second.make_tensor_output(second.make_node(("Identity", "Relu")[c % 2], [x]))
    name = g.node("If", "taken", then_branch=first, else_branch=second)
    g.builder.set_type(name, dtypes.float32)
    g.builder.set_shape(name, g.shape(x))
    g.computed(name, x, roundings=3)


def rotation(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Halves of the last axis, one of them negated, put together the other way round."""
    x = g.pick(a, FLAT, wanted=lambda n: g.rank(n) > 0 and g.shape(n)[-1] in (2, 4, 6))
    if x is None:
        x = g.pick(a, FLAT, least=1, wanted=lambda n: g.shape(n)[-1] in (1, 3))
        if x is None:
            return
        x = g.node("Concat", x, x, axis=-1)
        g.error[x] = g.error[g.builder.nodes[-1].inputs[0]]
    half = g.shape(x)[-1] // 2
    low = g.node("Slice", x, [0], [half], [-1])
    high = g.node("Slice", x, [half], [2**62], [-1])
    turned = g.node("Concat", g.node("Neg", high), low, axis=-1)
    cosine, sine = (g.weight((2 * half,), x, seed) for seed in (13, 14))
    g.computed(g.node("Add", g.node("Mul", x, cosine), g.node("Mul", turned, sine)), x, roundings=3)


def shared(g: RandomGraph, a: int, b: int, c: int) -> None:
    """A result inside a pattern that others read too."""
    x = g.pick(a, FLAT)
    if x is None:
        return
    inside = g.node("Neg", x) if b % 2 else g.node("Transpose", x) if g.rank(x) else x
    outside = g.node("Neg", inside) if b % 2 else g.node("Transpose", inside) if g.rank(x) else x
    if outside != x:
        g.moved(outside, x)
        g.moved(inside, x)


CHAINS = (
    linear, linear, gemm, softmax, normalisation, activation, activation, attention, convolution,
    sizes, sizes, shape_chain, shape_chain, turns, cast_chain, cast_chain, branch, rotation, shared,
)  # fmt: skip
__all__ = ["CHAINS", "ROWS"]
