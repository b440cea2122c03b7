# ruff: noqa: E501  (tables: a row is read as one line)
"""Patterns of the basic optimizers, which match one or two nodes."""

from __future__ import annotations

import numpy as np

from tests.optimizers.harness import CORNERS, INF, NAN, Patterns, numbers

PATTERNS = Patterns()
row = PATTERNS.row
F, D, H = np.float32, np.float64, np.float16
EMPTY = CORNERS[:0]
FULL_SLICE = {"s": [0], "e": [2**63 - 1], "a": [0], "t": [1]}
LINE = "(float[n] x) => (float[n] y)"
DOUBLES = "(double[n] x) => (double[n] y)"

row(
    "EliminateIdentity", "between", LINE + "{ a = Abs(x) b = Identity(a) y = Neg(b) }",
    [{"x": CORNERS}, {"x": EMPTY}],
)  # fmt: skip
row(
    "EliminateSlice", "whole", LINE + "{ a = Abs(x) b = Slice(a, s, e, ax, t) y = Neg(b) }",
    [{"x": CORNERS}, {"x": EMPTY}],
    {"s": [0], "e": [2**63 - 1], "ax": [0], "t": [1]},
)  # fmt: skip
for name, changed in (
    ("reversed", {"t": [-1]}),
    ("by two", {"t": [2]}),
    ("from -1", {"s": [-1]}),
    ("to the largest int32", {"e": [2**31 - 1]}),
    ("to -1", {"e": [-1]}),
):
    row(
        "EliminateSlice", name,
        "(float[n] x) => (float[k] y) { b = Abs(x) c = Slice(b, s, e, a, t) y = Neg(c) }",
        {"x": CORNERS}, FULL_SLICE | changed, fires=False,
    )  # fmt: skip
for axes in ([0], [-1], [0, -1], [-1, 0], [2, 0], [0, 3]):
    sizes = "p,q,r" if len(axes) == 1 else "p,q,r,t"
    row(
        "UnsqueezeElimination", str(axes),
        f"(float x) => (float[{sizes}] y) {{ a = Unsqueeze(w, ax) y = Add(a, x) }}",
        {"x": F(2)}, {"w": numbers(2, 3), "ax": axes}, fires=False,
    )  # fmt: skip
DROPOUT = (
    "(float[n] x) => (float y) { a = Abs(x) b = Dropout(a, r, t) y = ReduceMin<keepdims=0>(b) }"
)
row("EliminateDropout", "evaluating", DROPOUT, {"x": np.ones(256, F)}, {"r": F(0.5), "t": False})
row(
    "EliminateDropout", "training", DROPOUT, {"x": np.ones(256, F)},
    {"r": F(0.5), "t": True}, outcome="wrong",
)  # fmt: skip
for length, size, outcome in ((1, "n", "equal"), (5, "5", "equal"), (0, "1", "wrong")):
    row(
        "ExpandElimination", f"to {length}",
        f"(float[{size}] x) => (float[k] y) {{ a = Abs(x) b = Expand(a, s) y = Neg(b) }}",
        {"x": CORNERS[:5] if size != "1" else CORNERS[:1]}, {"s": [length]}, outcome=outcome,
    )  # fmt: skip
for name, size, sizes in (("stretched", "1", [5]), ("more axes", "5", [1, 5])):
    out = ",".join("pq"[: len(sizes)])
    row(
        "ExpandElimination", name,
        f"(float[{size}] x) => (float[{out}] y) {{ a = Abs(x) b = Expand(a, s) y = Neg(b) }}",
        {"x": CORNERS[: int(size)]}, {"s": sizes}, fires=False,
    )  # fmt: skip
row("CastElimination", "same", LINE + "{ a = Abs(x) b = Cast<to=1>(a) y = Neg(b) }", {"x": CORNERS})
for kind, x in ((10, [70000, 1e-9, 1.0001]), (7, [2.5, 1e9, -1.5]), (9, [2.5, 0, NAN])):
    row(
        "CastElimination", f"to {kind} and back",
        LINE + f"{{ a = Abs(x) b = Cast<to={kind}>(a) c = Cast<to=1>(b) y = Neg(c) }}",
        {"x": np.array(x, F)}, fires=False,
    )  # fmt: skip
for start in (0, -1):
    row(
        "PreShapeNodeElimination", f"from {start}",
        f"(float[n,2] x) => (int64[k] y) {{ b = Cast<to=6>(x) c = Neg(b) d = Cast<to=1>(c) "
        f"y = Shape<start={start}>(d) }}",
        [{"x": numbers(3, 2)}, {"x": numbers(0, 2)}],
    )  # fmt: skip
for text, z, outcome in (
    ("Mul(x, z)", 1, "equal"), ("Mul(z, x)", 1, "equal"), ("Div(x, z)", 1, "equal"),
    ("Sub(x, z)", 0.0, "equal"), ("Add(x, z)", -0.0, "equal"),
    ("Add(x, z)", 0.0, "wrong"), ("Sub(x, z)", -0.0, "wrong"),
):  # fmt: skip
    row(
        "NoopElimination", f"{text} of {z}",
        f"(float[n] a) => (float[n] y) {{ x = Neg(a) b = {text} y = Neg(b) }}",
        {"a": CORNERS}, {"z": F(z)}, outcome=outcome,
    )  # fmt: skip
for text, z in (("Sub(z, x)", np.zeros(1, F)), ("Div(z, x)", np.ones(1, F)), ("Add(x, z)", np.zeros(12, F)), ("Mul(x, z)", np.ones((1, 1), F)), ("Add(x, z)", F(1e-30))):  # fmt: skip
    out = "p,q" if np.ndim(z) == 2 else "p"
    row(
        "NoopElimination", f"{text} of shape {np.shape(z)}",
        f"(float[n] a) => (float[{out}] y) {{ x = Neg(a) b = {text} y = Neg(b) }}",
        {"a": CORNERS}, {"z": z}, fires=False,
    )  # fmt: skip
row(
    "NoopElimination", "int64", "(int64[n] x) => (int64[n] y) { a = Neg(x) b = Add(a, z) y = Neg(b) }",
    {"x": np.array([2**62 + 1, -1])}, {"z": np.int64(0)},
)  # fmt: skip
for text, z in (("Mul", 1 + 1e-9), ("Div", 1 + 1e-9), ("Add", 1e-300)):
    row(
        "NoopElimination", f"float64 {text} of {z}",
        DOUBLES + f"{{ a = Neg(x) b = {text}(a, z) y = Neg(b) }}",
        {"x": np.array([-1e-300, 2.0])}, {"z": D(z)}, outcome="wrong",
    )  # fmt: skip
QUOTIENT = "({0}[n] x, {0}[n] z) => ({0}[n] y) {{ a = Div(one, x) y = Mul(a, z) }}"
row(
    "DivMulFusion", "float32", QUOTIENT.format("float"), {"x": numbers(9), "z": numbers(9, seed=1)},
    {"one": F(1)}, tolerance=1e-6,
)  # fmt: skip
row(
    "DivMulFusion", "reciprocals that overflow", QUOTIENT.format("float"),
    {"x": F([1e-39]), "z": F([1e-39])}, {"one": F(1)}, tolerance=1e-6, outcome="wrong",
)  # fmt: skip
for kind in ("int32", "int64"):
    row(
        "DivMulFusion", kind, QUOTIENT.format(kind),
        {"x": np.array([1, 2, -3], kind), "z": np.array([6, 12, 18], kind)},
        {"one": np.array(1, kind)}, outcome="wrong",
    )  # fmt: skip
row(
    "DivMulFusion", "a one with more axes",
    "(float[n] x, float[n] z) => (float[p,q] y) { a = Div(one, x) y = Mul(a, z) }",
    {"x": numbers(3), "z": numbers(3)}, {"one": np.ones((1, 1), F)}, outcome="wrong", tolerance=1e-6,
)  # fmt: skip
for low, high in ((-1, 6), (0, 6), (1, 6), (3, 1), (-3, -1), (-1, NAN)):
    row(
        "FuseReluClip", f"{low} to {high}", LINE + "{ r = Relu(x) y = Clip(r, lo, hi) }",
        {"x": CORNERS}, {"lo": F(low), "hi": F(high)},
    )  # fmt: skip
row(
    "FuseReluClip", "from NaN", LINE + "{ r = Relu(x) y = Clip(r, lo) }", {"x": CORNERS},
    {"lo": F(NAN)}, outcome="wrong",
)  # fmt: skip
for kind, x in (("double", np.array([-5, 0.1])), ("int8", np.array([-5, 100], np.int8))):
    row(
        "FuseReluClip", kind, f"({kind}[n] x) => ({kind}[n] y) {{ r = Relu(x) y = Clip(r, lo) }}",
        {"x": x}, {"lo": x.dtype.type(3)}, outcome="no session",
    )  # fmt: skip
for sizes in ("4", "m,4", "m,1", "1,4"):
    shape = [int(size) if size.isdigit() else 2 for size in sizes.split(",")]
    row(
        "GemmSumFusion", sizes,
        f"(float[m,k] a, float[k,4] b, float[{sizes}] c) => (float[p,q] y) {{ g = Gemm(a, b) y = Sum(g, c) }}",
        [
            {"a": numbers(2, 3), "b": numbers(3, 4), "c": numbers(*shape)},
            {"a": numbers(2, 0), "b": numbers(0, 4), "c": numbers(*shape)},
        ],
        tolerance=1e-6,
    )  # fmt: skip
row(
    "GemmSumFusion", "stretched",
    "(float[1,3] a, float[3,4] b, float[5,4] c) => (float[p,q] y) { g = Gemm(a, b) y = Sum(g, c) }",
    {"a": numbers(1, 3), "b": numbers(3, 4), "c": numbers(5, 4)}, tolerance=1e-6, fires=False,
)  # fmt: skip
for transposed in (0, 1):
    row(
        "GemmTransposeFusion", f"transA={transposed}",
        f"(float[m,k] x, float[k2,4] b, float[4] c) => (float[p,q] y) "
        f"{{ a = Transpose(x) g = Gemm<transA={transposed}>(a, b, c) y = Neg(g) }}",
        {"x": numbers(2, 3) if transposed else numbers(3, 2), "b": numbers(3, 4), "c": numbers(4)},
        tolerance=1e-6,
    )  # fmt: skip
for name, b in (("alike", "n"), ("broadcast", "2,1")):
    out = "p,q" if name == "broadcast" else "p"
    row(
        "NotWhereFusion", name,
        f"(bool[n] c, float[n] a, float[{b}] b) => (float[{out}] y) {{ d = Not(c) y = Where(d, a, b) }}",
        {"c": np.array([1, 0, 1], bool), "a": F([INF, 2, NAN]), "b": numbers(3) if out == "p" else numbers(2, 1)},
    )  # fmt: skip
row(
    "NotWhereFusion", "zeros with a sign",
    "(bool[n] c, float[n] a, float[n] b) => (float[n] y) { d = Not(c) y = Where(d, a, b) }",
    {"c": np.array([1, 0], bool), "a": F([-0.0, -0.0]), "b": F([0, -0.0])}, outcome="wrong",
)  # fmt: skip
row(
    "CommonSubexpressionElimination", "equal", LINE + "{ a = Exp(x) b = Exp(x) y = Sub(a, b) }",
    {"x": CORNERS},
)  # fmt: skip
row(
    "CommonSubexpressionElimination", "other attributes",
    LINE + "{ a = LeakyRelu<alpha=0.1>(x) b = LeakyRelu<alpha=0.2>(x) y = Sub(a, b) }",
    {"x": CORNERS}, fires=False,
)  # fmt: skip
row(
    "CommonSubexpressionElimination", "uniform numbers",
    LINE + "{ a = RandomUniformLike(x) b = RandomUniformLike(x) c = Equal(a, b) y = Cast<to=1>(c) }",
    {"x": numbers(4)}, fires=False,
)  # fmt: skip
row(
    "CommonSubexpressionElimination", "draws",
    "(float[n] x) => (bool y) { a = Bernoulli(x) b = Bernoulli(x) c = Equal(a, b) "
    "d = Cast<to=6>(c) e = ReduceMin<keepdims=0>(d) y = Cast<to=9>(e) }",
    {"x": np.full(256, 0.5, F)}, outcome="wrong",
)  # fmt: skip
row(
    "ConstantSharing", "zeros with a sign",
    "(float[n] x) => (float[n] y, float[n] z) { a = Div(x, p) y = Neg(a) b = Div(x, m) z = Neg(b) }",
    {"x": CORNERS}, {"p": F(0.0), "m": F(-0.0)}, fires=False,
)  # fmt: skip
row(
    "ConstantSharing", "kinds and ranks",
    "(float[n] x, int32[n] i) => (float[n] y, int32[n] z, float[p,n] u, float[n] v) "
    "{ y = Mul(x, a) z = Mul(i, b) u = Mul(x, c) v = Add(x, d) }",
    {"x": CORNERS[:2], "i": np.array([1, 2], np.int32)},
    {"a": F(2), "b": np.int32(2), "c": np.full((1, 1), 2, F), "d": F(2)},
)  # fmt: skip
for name, text, constants in (
    ("-0.0", "k = Neg(z) y = Div(x, k)", {"z": F(0)}),
    ("NaN", "k = Sqrt(z) y = Mul(x, k)", {"z": F(-1)}),
    ("denormal", "k = Mul(z, z) y = Add(x, k)", {"z": F(1e-20)}),
    ("nothing", "k = Neg(z) y = Concat<axis=0>(x, k)", {"z": EMPTY}),
    ("float16", "h = Cast<to=10>(z) k = Cast<to=1>(h) y = Mul(x, k)", {"z": F(1.0001)}),
    ("maximum of nothing", "k = ReduceMax<keepdims=0>(z) y = Mul(x, k)", {"z": EMPTY}),
):
    row(
        "ConstantFolding",
        name,
        f"(float[n] x) => (float[p] y) {{ {text} }}",
        {"x": CORNERS},
        constants,
    )
row(
    "ConstantFolding", "large integers", "(int64[n] x) => (int64[n] y) { k = Mul(z, z) y = Add(x, k) }",
    {"x": np.array([1])}, {"z": np.int64(2**31 + 1)},
)  # fmt: skip
row(
    "RemoveDuplicateCastTransformer", "through float16",
    LINE + "{ a = Abs(x) b = Cast<to=10>(a) c = Cast<to=1>(b) y = Neg(c) }",
    {"x": F([70000, 1.0001, 1e-9])}, fires=False,
)  # fmt: skip
row(
    "CastFloat16Transformer", "sums", "(float16[n] x) => (float16[n] y) { a = Add(x, x) y = Sub(a, x) }",
    {"x": H([60000, 1.001])}, fires=False,
)  # fmt: skip
row(
    "FuseFp16InitializerToFp32NodeTransformer", "weight",
    "(float16[n,3] x) => (float16[p,q] y) { a = Gemm(x, w) y = Neg(a) }",
    {"x": numbers(2, 3, dtype=H)}, {"w": numbers(3, 4, dtype=H)}, tolerance=2e-3,
)  # fmt: skip
