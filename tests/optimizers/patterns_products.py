# ruff: noqa: E501  (tables: a row is read as one line)
"""Patterns of the optimizers that match matrix products and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.optimizers.harness import INF, NAN, Patterns, numbers

PATTERNS = Patterns()
row = PATTERNS.row
F, D, H = np.float32, np.float64, np.float16

for name, text, shapes, outcome in (
    ("vector on the right", "(float[m,k] a, float[m] v) => (float[p] y) { t = Transpose(a) y = MatMul(t, v) }", ((3, 4), (3,)), "wrong"),
    ("vector on the right of many", "(float[b,m,k] a, float[m] v) => (float[p,q] y) { t = Transpose<perm=[0,2,1]>(a) y = MatMul(t, v) }", ((2, 3, 4), (3,)), "wrong"),
    ("vector on the left", "(float[m,k] a, float[k] v) => (float[p] y) { t = Transpose(a) y = MatMul(v, t) }", ((3, 4), (4,)), "equal"),
    ("one column", "(float[m,k] a, float[m,1] v) => (float[p,q] y) { t = Transpose(a) y = MatMul(t, v) }", ((3, 4), (3, 1)), "equal"),
    ("over nothing", "(float[m,k] a, float[m,n] v) => (float[p,q] y) { t = Transpose(a) y = MatMul(t, v) }", ((0, 4), (0, 5)), "equal"),
    ("into many", "(float[m,k] a, float[b,m2,n] v) => (float[p,q,s] y) { t = Transpose(a) y = MatMul(t, v) }", ((3, 4), (2, 3, 5)), "equal"),
    ("batch moved", "(float[b,m,k] a, float[b2,k2,n] v) => (float[p,q,s] y) { t = Transpose<perm=[1,0,2]>(a) y = MatMul(t, v) }", ((3, 2, 4), (2, 4, 5)), "equal"),
    ("batch to the end", "(float[b,m,k] a, float[b2,k2,n] v) => (float[p,q,s] y) { t = Transpose<perm=[1,2,0]>(a) y = MatMul(t, v) }", ((4, 2, 3), (2, 4, 5)), "equal"),
    ("four axes", "(float[a,b,c,d] x, float[a,b,c2,n] v) => (float[p,q,s,t] y) { u = Transpose<perm=[0,1,3,2]>(x) y = MatMul(u, v) }", ((2, 3, 4, 5), (2, 3, 4, 6)), "equal"),
):  # fmt: skip
    first = "x" if "x," in text or "x)" in text else "a"
    row(
        "MatmulTransposeFusion", name, text,
        {first: numbers(*shapes[0]), "v": numbers(*shapes[1], seed=1)}, tolerance=1e-6,
        outcome=outcome,
    )  # fmt: skip
for kind, dtype in (("int32", np.int32), ("int64", np.int64), ("double", D)):
    other = "double" if kind == "double" else "float"
    row(
        "MatmulTransposeFusion", f"{kind} that is cast",
        f"({kind}[m,k] a, {other}[m,n] v) => ({other}[p,q] y) "
        f"{{ t = Transpose(a) c = Cast<to={11 if other == 'double' else 1}>(t) y = MatMul(c, v) }}",
        {"a": np.array([[1, 2], [3, 2**24 + 1]], dtype), "v": numbers(2, 3, dtype=D if other == "double" else F)},
        tolerance=1e-6,
    )  # fmt: skip

PRODUCT = "({0}[m,k] a, {0}[k,n] b) => ({0}[p,q] y) {{ {1} }}"
BEFORE, AFTER = "c = Mul(a, z) y = MatMul(c, b)", "c = MatMul(a, b) y = {}(c, z)"


def add_scale(name: str, body: str, z: Any, a: Any, b: Any, **settings: Any) -> None:
    kind = "double" if a.dtype == D else "float"
    row(
        "MatMulScaleFusion",
        name,
        PRODUCT.format(kind, body),
        {"a": a, "b": b},
        {"z": z},
        **settings,
    )


A, B = numbers(2, 3), numbers(3, 4, seed=1)
add_scale("before", BEFORE, F(0.1), A, B, tolerance=1e-6)
add_scale("after", AFTER.format("Mul"), F(0.1), A, B, tolerance=1e-6)
add_scale("quotient", AFTER.format("Div"), F(3), A, B, tolerance=1e-6)
add_scale("infinity", AFTER.format("Mul"), F(INF), A, B)
add_scale("over zero", AFTER.format("Div"), F(0), A, B)
add_scale("zero", AFTER.format("Mul"), F(0), F([[INF, 1, 1]]), B)
add_scale("NaN", AFTER.format("Mul"), F(NAN), A, B)
for name, body in (("before", BEFORE), ("after", AFTER.format("Div"))):
    add_scale(
        f"float64 {name}", body, D(0.3), A.astype(D), B.astype(D), tolerance=1e-14, outcome="wrong"
    )
    add_scale(
        f"float64 power of two {name}", body, D(0.5), A.astype(D), B.astype(D), tolerance=1e-14
    )
add_scale(
    "two large factors", "c = Mul(a, z) d = Mul(b, z) y = MatMul(c, d)", F(1e30),
    A * F(1e-30), B * F(1e-30), tolerance=1e-6, outcome="wrong",
)  # fmt: skip
for sizes in ("4", "1,4", "m,4", "m,1"):
    shape = [int(size) if size.isdigit() else 2 for size in sizes.split(",")]
    row(
        "MatMulAddFusion", sizes,
        f"(float[m,k] a, float[k,4] b, float[{sizes}] c) => (float[p,q] y) {{ g = MatMul(a, b) y = Add(g, c) }}",
        [
            {"a": A, "b": B, "c": numbers(*shape)},
            {"a": numbers(2, 0), "b": numbers(0, 4), "c": numbers(*shape)},
            {"a": F([[NAN, 1, 0], [INF, 1, 0]]), "b": B, "c": numbers(*shape)},
        ],
        tolerance=1e-6,
    )  # fmt: skip
for sizes in ("1", "2,4", "1,1,4", "5,1,4"):
    shape = [int(size) for size in sizes.split(",")]
    out = "p,q,r" if len(shape) == 3 else "p,q"
    row(
        "MatMulAddFusion", f"[{sizes}] is not for it",
        f"(float[m,k] a, float[k,4] b, float[{sizes}] c) => (float[{out}] y) {{ g = MatMul(a, b) y = Add(g, c) }}",
        {"a": A, "b": B, "c": numbers(*shape)}, fires=False,
    )  # fmt: skip
for name, sizes, outcome in (("rank 3", (2, 5, 3), "equal"), ("no rows", (0, 5, 3), "equal"), ("over nothing", (2, 5, 0), "fails")):  # fmt: skip
    row(
        "MatMulAddFusion", name,
        f"(float[{','.join(map(str, sizes))}] a) => (float[p,q,t] y) {{ g = MatMul(a, b) y = Add(g, c) }}",
        {"a": numbers(*sizes)}, {"b": numbers(sizes[-1], 4), "c": numbers(4)}, tolerance=1e-6,
        outcome=outcome,
    )  # fmt: skip
NORM = {"s": numbers(4), "b": numbers(4, seed=1), "m": numbers(4, seed=2)}
NORMALIZED = "{{ v = MatMul(x, w) z = BatchNormalization(v, s, b, m, va) y = Neg(z) }}"
for name, variance in (("trained", numbers(4) ** 2), ("no variance", np.zeros(4, F))):
    row(
        "MatMul_BatchNormalization_Fusion", name,
        "(float[n,3] x) => (float[p,q] y)" + NORMALIZED.format(),
        [{"x": A}, {"x": A[:0]}], {"w": B, **NORM, "va": variance}, tolerance=1e-5,
    )  # fmt: skip
row(
    "MatMul_BatchNormalization_Fusion", "float64", "(double[n,3] x) => (double[p,q] y)" + NORMALIZED.format(),
    {"x": A.astype(D)},
    {"w": B.astype(D), "va": np.ones(4), **{k: v.astype(D) for k, v in NORM.items()}}, tolerance=1e-13,
)  # fmt: skip
GEMM = "({0}[m,k] a, {0}[k,4] b, {0}[4] c) => ({0}[p,q] y) {{ g = Gemm(a, b, c) y = {1}(g) }}"
for kind, dtype in (("float", F), ("float16", H)):
    for activation in (
        "Relu", "Sigmoid", "Tanh", "LeakyRelu<alpha=0.3>", "LeakyRelu<alpha=-2.0>", "HardSigmoid",
        "Softplus", "Softsign", "Elu", "ThresholdedRelu<alpha=0.1>", "Selu",
    ):  # fmt: skip
        if kind == "float":
            c = np.array([NAN, INF, -INF, -0.0], dtype)
            row(
                "GemmActivationFusion", f"{kind} {activation}", GEMM.format(kind, activation),
                [
                    {"a": A.astype(dtype), "b": B.astype(dtype), "c": c},
                    {"a": numbers(2, 0, dtype=dtype), "b": numbers(0, 4, dtype=dtype), "c": c},
                ],
                tolerance=2e-6,
            )  # fmt: skip

# sizes: the leading sizes come from Shape and Gather, as in older exporters; some tensors are empty
SIZES = "s = Shape(x) g0 = Gather(s, i0) u0 = Unsqueeze(g0, z) s1 = Shape(x) g1 = Gather(s1, i1) u1 = Unsqueeze(g1, z) "
SIZE_CONSTANTS = {"i0": 0, "i1": 1, "z": [0], "c2": [2], "c3": [3], "c6": [6]}
SHAPES = [(2, 3, 6), (0, 3, 6), (2, 0, 6), (1, 1, 6)]


def add_reshape(name: str, body: str, rank: int, **settings: Any) -> None:
    constants = {
        k: np.array(v)
        for k, v in SIZE_CONSTANTS.items()
        if any(f"{k}{end}" in body for end in ",)")
    }
    names = ",".join("pqrt"[:rank])
    row(
        "ReshapeFusion", name, f"(float[n,m,6] x) => (float[{names}] y) {{ {body} }}",
        [{"x": numbers(*shape)} for shape in settings.pop("shapes", SHAPES)], constants, **settings,
    )  # fmt: skip


add_reshape("heads", SIZES + "h = Concat<axis=0>(u0, u1, c2, c3) y = Reshape(x, h)", 4)
add_reshape("first two joined", SIZES + "k = Mul(u0, u1) h = Concat<axis=0>(k, c6) y = Reshape(x, h)", 2, shapes=[(2, 3, 6), (1, 1, 6)])  # fmt: skip
add_reshape("last two joined", SIZES + "k = Mul(u1, c6) h = Concat<axis=0>(u0, k) y = Reshape(x, h)", 2, outcome="fails", shapes=[(2, 3, 6), (0, 3, 6)])  # fmt: skip
START = "s = Shape<start=0,end=1>(x) t = Shape<start=1,end=2>(x) "
add_reshape("sizes from Shape", START + "k = Mul(t, c3) h = Concat<axis=0>(s, k, c2) y = Reshape<allowzero=1>(x, h)", 3, fires=False)  # fmt: skip
add_reshape("joined from Shape", START + "k = Mul(s, t) h = Concat<axis=0>(k, c2, c3) y = Reshape<allowzero=1>(x, h)", 3, fires=False)  # fmt: skip
add_reshape("joined from Shape, without zeros", START + "k = Mul(s, t) h = Concat<axis=0>(k, c2, c3) y = Reshape(x, h)", 3, shapes=[(2, 3, 6)])  # fmt: skip

for name, start, limit, step, outcome in (
    ("up", 0, 5, 1, "equal"), ("down to 1", 4, 1, -1, "equal"), ("empty", 3, 3, 1, "equal"),
    ("down past 0", 4, -1, -1, "wrong"), ("from below 0", -3, 0, 1, "wrong"), ("by -2", 4, -1, -2, "wrong"),
):  # fmt: skip
    for kind in ("int64", "int32"):
        row(
            "GatherToSliceFusion", f"{kind} {name}",
            f"(float[n,m] x, {kind} s, {kind} l, {kind} d) => (float[p,q] y) {{ r = Range(s, l, d) y = Gather<axis=1>(x, r) }}",
            {"x": numbers(5, 5), "s": np.array(start, kind), "l": np.array(limit, kind), "d": np.array(step, kind)},
            outcome=outcome,
        )  # fmt: skip
row(
    "GatherToSliceFusion", "moved numbers from 0",
    "(float[n,m] x, int64 s, int64 c) => (float[p,q] y) { r = Range(z, c, o) i = Sub(s, r) y = Gather(x, i) }",
    {"x": numbers(5, 5), "s": np.int64(4), "c": np.int64(5)}, {"z": np.int64(0), "o": np.int64(1)}, fires=False,
)  # fmt: skip
PIECES = (
    "(float[n,s,4,5] x) => (float[a,b,c] y, float[a,b,c] z, float[a,b,e,c] u) {{ w = Neg(x) "
    "y = Gather<axis={0}>(w, i) z = Gather<axis={0}>(w, j) u = Slice(w, f, t, k) }}"
)
for axis, i, j, first, end, fires in ((2, 2, 3, 0, 2, True), (-2, -2, -1, 0, -2, True), (2, 0, 3, 1, 3, True), (2, 1, 3, 0, 2, False), (2, 3, 3, 0, 2, False)):  # fmt: skip
    row(
        "GatherSliceToSplitFusion", f"{i}, {j}, {first}:{end} of axis {axis}", PIECES.format(axis),
        [{"x": numbers(2, 3, 4, 5)}, {"x": numbers(0, 3, 4, 5)}],
        {"i": i, "j": j, "f": [first], "t": [end], "k": [axis]}, fires=fires,
    )  # fmt: skip
