"""Several operators of random graphs at once.

These are the decompositions that models write by hand, arithmetic on sizes, and branches.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ortable import dtypes

from .random_graphs import FLOATS, INTEGERS, ROWS, RandomGraph

FLOAT32 = (dtypes.float32,)


def _pick_with_known_width(
    g: RandomGraph, choice: int, rank: int | None = None, min_rank: int = 1
) -> str | None:
    """Return a float32 result whose last size is static."""

    def has_known_width(name: str) -> bool:
        size = g.shape(name)[-1]
        return isinstance(size, int) and size > 0

    return g.pick(choice, FLOAT32, rank, min_rank, accept=has_known_width)


def linear(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Multiply by a constant matrix and add a bias."""
    x = _pick_with_known_width(g, a, min_rank=2)
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
    g.add_rounded(g.node("Add", first, second), x, error_scale=size, roundings=2 * size)


def gemm(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = _pick_with_known_width(g, a, rank=2)
    if x is None:
        return
    size = g.shape(x)[-1]
    if b % 2:
        weight = g.node("Transpose", g.weight((3, size), x, 3), perm=[1, 0])
        name = g.node("Gemm", x, weight, g.weight((3,), x, 4))
    else:
        transposed = g.node("Transpose", x, perm=[1, 0])
        name = g.node("Gemm", transposed, g.weight((size, 3), x, 5), transA=1)
    if c % 3 == 0:
        name = g.node(("Relu", "Identity")[b % 2], name)
    if c % 3 == 1:
        name = g.node("Add", name, g.weight((3,), x, 6))
    g.add_rounded(name, x, error_scale=size, roundings=2 * size)


def softmax(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = _pick_with_known_width(g, a)
    if x is None:
        return
    if b % 3 == 0:
        name = g.node("Softmax", x, axis=-1)
        name = g.node("Log", name) if c % 3 == 0 else name
    elif b % 3 == 1:
        name = g.node("Softmax", x, axis=c % g.rank(x))
    else:
        exponentials = g.node("Exp", g.node("Tanh", x))
        name = g.node("Div", exponentials, g.node("ReduceSum", exponentials, [-1], keepdims=1))
    g.add_rounded(name, x, error_scale=4, roundings=16)


def norm(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Decompose LayerNormalization or RMSNormalization, exactly or with small deviations."""
    x = _pick_with_known_width(g, a)
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
    g.add_rounded(name, x, error_scale=8, roundings=40)


def activation(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLOAT32)
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
    g.add_rounded(name, x, error_scale=4, roundings=20)


def attention(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Add attention: scores scaled before or after the product, softmax, product."""
    x, y = _pick_with_known_width(g, a, min_rank=2), _pick_with_known_width(g, b, min_rank=2)
    if x is None or y is None or g.shape(x) != g.shape(y):
        y = x
    if x is None or y is None:
        return
    x, y = (g.node("Tanh", name) for name in (x, y))
    rank = g.rank(x)
    keys = g.node("Transpose", y, perm=[*range(rank - 2), rank - 1, rank - 2])
    left = g.node("Mul", x, g.const(0.5, x)) if c % 2 else x
    scores = g.node("MatMul", left, keys)
    if c % 3 == 0:
        scores = g.node("Div", scores, g.const(2.0, x))
    output = g.node("MatMul", g.node("Softmax", scores, axis=-1), y)
    g.add_rounded(output, *g.pool[-1:], error_scale=32, roundings=100)


def convolution(g: RandomGraph, a: int, b: int, c: int) -> None:
    x = g.pick(a, FLOAT32, rank=2)
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
    g.add_rounded(name, x, error_scale=4, roundings=20)


def sizes(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Compute a size from a shape and use it."""
    x = g.pick(a, (*FLOAT32, dtypes.int64), min_rank=1)
    if x is None:
        return
    axis = 0
    kind = b % 6
    if kind == 0:
        length = g.node("Gather", g.node("Shape", x), [axis], axis=0)
    elif kind == 1:
        length = g.node("Shape", x, start=0, end=1)
    else:
        size = g.node("Gather", g.node("Shape", x), g.const(axis), axis=0)
        length = g.node("Unsqueeze", size, [0])
    if c % 4 == 0:  # the even part of the length
        even = g.node("Mul", g.node("Div", length, [2]), [2])
        g.add_exact(g.node("Slice", x, [0], even, [axis]), x)
    elif c % 4 == 1:
        shape = g.node("Concat", length, [-1], axis=0)
        g.add_exact(g.node("Reshape", x, shape), x)
    elif c % 4 == 2:
        same_length = g.node("Sub", g.node("Add", length, [2]), [2])
        g.add_exact(g.node("Slice", x, [0], same_length, [axis]), x)
    else:
        g.add_exact(g.node("Reshape", x, g.node("Shape", x)), x)


def shape_chain(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Add reshapes and transposes that undo one another."""
    x = g.pick(a, (*FLOATS[:2], *INTEGERS), rank=2)
    if x is None:
        return
    name = x
    for choice in (b, b // 3, c):
        if choice % 3 == 0:
            name = g.node("Transpose", name, perm=[1, 0])
        elif choice % 3 == 1:
            shape = list(g.shape(name))
            name = g.node(
                "Reshape", g.node("Reshape", name, [-1]), g.builder.shape_as_vector(shape)
            )
        else:
            name = g.node("Squeeze", g.node("Unsqueeze", name, [choice % 2]), [choice % 2])
    g.add_exact(name, x)


def transposes(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Add two transposes, whose product may be the identity or similar to it."""
    x = g.pick(a, FLOATS, rank=3)
    if x is not None:
        orders = list(itertools.permutations(range(3)))
        inner = g.node("Transpose", x, perm=list(orders[b % 6]))
        g.add_exact(g.node("Transpose", inner, perm=list(orders[c % 6])), x)


def cast_chain(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Cast to another dtype and back, with or without loss."""
    x = g.pick(a, (*FLOATS, dtypes.int32), exact=True)
    if x is None:
        return
    targets = (dtypes.float64, dtypes.float32, dtypes.float16, dtypes.bfloat16)
    if g.dtype(x) == dtypes.int32:
        targets = (dtypes.int64, dtypes.float64, dtypes.int64, dtypes.float32)
    cast = g.node("Cast", x, to=targets[b % 4])
    restored = g.node("Cast", cast, to=g.dtype(x))
    if g.dtype(x) == dtypes.int32:
        g.finite_only = True
    g.add_exact(restored, x)
    if c % 3 == 0:
        g.add_exact(cast, x)


def branch(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Add an If whose branches read outer results and contain patterns."""
    x = g.pick(a, FLOAT32)
    if x is None:
        return
    then_branch, else_branch = g.builder.subgraph("then"), g.builder.subgraph("else")
    factor = g.const((1.0, 0.5)[c % 2], x)
    inner: Any = x
    for choice in (b, b // 4, c):
        if choice % 4 == 0:
            inner = then_branch.make_node("Neg", [inner])
        elif choice % 4 == 1:
            inner = then_branch.make_node("Mul", [inner, factor])
        elif choice % 4 == 2:
            double = then_branch.make_node("Cast", [inner], to=dtypes.float64)
            inner = then_branch.make_node("Cast", [double], to=dtypes.float32)
        else:
            inner = then_branch.make_node("Identity", [inner])
    then_branch.make_tensor_output(inner)
    else_branch.make_tensor_output(else_branch.make_node(("Identity", "Relu")[c % 2], [x]))
    name = g.node("If", "taken", then_branch=then_branch, else_branch=else_branch)
    g.builder.set_type(name, dtypes.float32)
    g.builder.set_shape(name, g.shape(x))
    g.add_rounded(name, x, roundings=3)


def rotation(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Swap the halves of the last axis and negate one, as rotary embeddings do."""
    x = g.pick(a, FLOAT32, accept=lambda n: g.rank(n) > 0 and g.shape(n)[-1] in (2, 4, 6))
    if x is None:
        x = g.pick(a, FLOAT32, min_rank=1, accept=lambda n: g.shape(n)[-1] in (1, 3))
        if x is None:
            return
        x = g.node("Concat", x, x, axis=-1)
        g.error[x] = g.error[g.builder.nodes[-1].inputs[0]]
    half = g.shape(x)[-1] // 2
    low = g.node("Slice", x, [0], [half], [-1])
    high = g.node("Slice", x, [half], [2**62], [-1])
    swapped = g.node("Concat", g.node("Neg", high), low, axis=-1)
    cos, sin = (g.weight((2 * half,), x, seed) for seed in (13, 14))
    g.add_rounded(g.node("Add", g.node("Mul", x, cos), g.node("Mul", swapped, sin)), x, roundings=3)


def shared(g: RandomGraph, a: int, b: int, c: int) -> None:
    """Add a pattern whose inner result has other readers."""
    x = g.pick(a, FLOAT32)
    if x is None:
        return
    inner = g.node("Neg", x) if b % 2 else g.node("Transpose", x) if g.rank(x) else x
    outer = g.node("Neg", inner) if b % 2 else g.node("Transpose", inner) if g.rank(x) else x
    if outer != x:
        g.add_exact(outer, x)
        g.add_exact(inner, x)


CHAINS = (
    linear, linear, gemm, softmax, norm, activation, activation, attention, convolution, sizes,
    sizes, shape_chain, shape_chain, transposes, cast_chain, cast_chain, branch, rotation, shared,
)  # fmt: skip
__all__ = ["CHAINS", "ROWS"]
