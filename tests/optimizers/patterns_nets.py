# ruff: noqa: E501  (tables: a row is read as one line)
"""Patterns of the optimizers that match decomposed layers: Gelu and normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.optimizers.harness import CORNERS, Patterns, numbers

PATTERNS = Patterns()
row = PATTERNS.row
F, D, H = np.float32, np.float64, np.float16
LINE = "({0}[n] x) => ({0}[n] y)"
A = np.array
# without the largest numbers, which overflow when doubled
CURVE = np.concatenate([CORNERS[np.abs(CORNERS) != F(3e38)], np.linspace(-9, 9, 99, dtype=F)])
FEEDS = [{"x": CURVE}, {"x": CURVE[:0]}]

for name, text in (
    ("half last", "a = Div(x, s) e = Erf(a) p = Add(e, o) m = Mul(x, p) y = Mul(m, h)"),
    ("half first", "a = Div(x, s) e = Erf(a) p = Add(e, o) m = Mul(x, h) y = Mul(m, p)"),
):
    for root, outcome in ((2**0.5, "equal"), (1.4142, "wrong")):
        row(
            "GeluFusionL1", f"{name}, {root:.4f}", LINE.format("float") + f" {{ {text} }}", FEEDS,
            {"s": F(root), "o": F(1), "h": F(0.5)}, tolerance=2e-7, outcome=outcome,
        )  # fmt: skip
row(
    "BiasGeluFusion", "bias",
    "(float[n,4] x) => (float[n,4] y) { u = Add(x, bb) a = Div(u, s) e = Erf(a) p = Add(e, o) m = Mul(u, h) y = Mul(m, p) }",
    [{"x": np.resize(CURVE, (30, 4))}, {"x": numbers(0, 4)}],
    {"bb": numbers(4), "s": F(2**0.5), "o": F(1), "h": F(0.5)}, tolerance=2e-7,
)  # fmt: skip
TANH = "a = Mul(x, k0) b = Mul(x, a) c = Add(b, o) d = Mul(x, k1) e = Mul(d, c) t = Tanh(e) p = Add(t, o) m = Mul(x, h) y = Mul(m, p)"  # fmt: skip
TANH_POW = "q = Pow(x, three) a = Mul(q, k0) b = Add(x, a) c = Mul(b, k1) t = Tanh(c) p = Add(t, o) m = Mul(x, h) y = Mul(m, p)"  # fmt: skip
for name, text in (("products", TANH), ("power", TANH_POW)):
    constants = {
        "three": F(3),
        "k0": F(0.044715),
        "k1": F(0.7978845834732056),
        "o": F(1),
        "h": F(0.5),
    }
    row(
        "FastGeluFusion", name, f"(float[2,3,n] x) => (float[2,3,n] y) {{ {text} }}",
        {"x": np.resize(CURVE, (2, 3, 20))}, {k: v for k, v in constants.items() if f"{k})" in text},
        fires=False,
    )  # fmt: skip
row("QuickGeluFusion", "float silu", LINE.format("float") + " { s = Sigmoid(x) y = Mul(x, s) }", FEEDS, tolerance=1e-6)  # fmt: skip
for factor in (1.702, -3.0, 1e30):
    row(
        "QuickGeluFusion", f"float {factor}",
        LINE.format("float") + " { a = Mul(x, k) s = Sigmoid(a) y = Mul(x, s) }", FEEDS, {"k": F(factor)},
        tolerance=1e-6,
    )  # fmt: skip

LAYER = (
    "({0}[n,8] x) => ({0}[n,8] y) {{ m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = {1} "
    "v = ReduceMean<axes=[-1]>(q) w = Add(v, small) s = Sqrt(w) r = Div(d, s) k = Mul(r, g) y = Add(k, b) }}"
)


def add_layer_norm(name: str, dtype: Any, power: float, small: float, scale: float = 1.0, shift: float = 0.0, **settings: Any) -> None:  # fmt: skip
    kind = {F: "float", D: "double", H: "float16"}[dtype]
    x = (numbers(3, 8).astype(D) * scale + shift).astype(dtype)
    row(
        "LayerNormFusionL1", f"{kind} {name}", LAYER.format(kind, "Pow(d, two)"), [{"x": x}, {"x": x[:0]}],
        {"two": dtype(power), "small": dtype(small), "g": numbers(8, dtype=dtype), "b": numbers(8, seed=1, dtype=dtype)},
        opset=17, **settings,
    )  # fmt: skip


add_layer_norm("plain", F, 2, 1e-5, tolerance=1e-6)
add_layer_norm("large epsilon", F, 2, 0.1, tolerance=1e-6)
add_layer_norm("small numbers", F, 2, 1e-12, 1e-6, tolerance=1e-5)
add_layer_norm("far from zero", F, 2, 1e-5, 1, 1e3, tolerance=2e-4)
add_layer_norm("plain", H, 2, 1e-5, tolerance=5e-3)
add_layer_norm("fourth power", F, 4, 1e-5, outcome="wrong", tolerance=1e-3)
add_layer_norm(
    "epsilon", D, 2, 1e-5, outcome="wrong", tolerance=1e-13, besides=("SimplifiedLayerNormFusion",)
)
row(
    "LayerNormFusionL1", "product", LAYER.format("float", "Mul(d, d)"), {"x": numbers(3, 8)},
    {"small": F(1e-5), "g": numbers(8), "b": numbers(8)}, opset=17, fires=False,
)  # fmt: skip
for sizes in ([3, 8], [1, 8], []):
    row(
        "LayerNormFusionL1", f"scale {sizes}", LAYER.format("float", "Pow(d, two)"), {"x": numbers(3, 8)},
        {"two": F(2), "small": F(1e-5), "g": numbers(*sizes), "b": numbers(*sizes)}, opset=17, fires=False,
    )  # fmt: skip
ROOT = "({0}[n,8] x) => ({0}[n,8] y) {{ q = {1} v = ReduceMean<axes=[-1]>(q) w = Add(v, small) s = Sqrt(w) r = Div(x, s) y = Mul(r, g) }}"  # fmt: skip
for dtype, small, scale, outcome in (
    (F, 1e-5, 1, "equal"), (F, 1e-12, 1e-6, "equal"), (D, 1e-6, 1, "wrong"), (D, 1e-12, 1e-6, "wrong"), (H, 1e-5, 1, "equal"),
):  # fmt: skip
    kind = {F: "float", D: "double", H: "float16"}[dtype]
    tolerance = {F: 1e-6, D: 1e-9, H: 5e-3}[dtype]
    x = (numbers(3, 8) * F(scale)).astype(dtype)
    row(
        "SimplifiedLayerNormFusion", f"{kind} {small}", ROOT.format(kind, "Pow(x, two)"), [{"x": x}, {"x": x[:0]}],
        {"two": dtype(2), "small": dtype(small), "g": numbers(8, dtype=dtype)}, opset=17, outcome=outcome, tolerance=tolerance,
    )  # fmt: skip
row(
    "SimplifiedLayerNormFusion", "product", ROOT.format("double", "Mul(x, x)"), {"x": numbers(3, 8, dtype=D)},
    {"small": D(1e-6), "g": numbers(8, dtype=D)}, opset=17, fires=False,
)  # fmt: skip
NORM = {"g": numbers(8), "b": numbers(8, seed=1)}
row(
    "SkipLayerNormFusion", "sum",
    "(float[n,s,8] x, float[n,s,8] z) => (float[n,s,8] y) { a = Add(x, z) y = LayerNormalization<axis=-1>(a, g, b) }",
    [{"x": numbers(*s, 3, 8), "z": numbers(*s, 3, 8, seed=1)} for s in ((2,), (0,))], NORM, opset=17, tolerance=2e-6,
)  # fmt: skip
row(
    "SkipLayerNormFusion", "sum that stretches",
    "(float[n,s,8] x, float[m,s,8] z) => (float[p,s,8] y) { a = Add(x, z) y = LayerNormalization<axis=-1>(a, g, b) }",
    {"x": numbers(1, 3, 8), "z": numbers(2, 3, 8, seed=1)}, NORM, opset=17, tolerance=2e-6, fires=False,
)  # fmt: skip
for sizes in ((8,), (3, 8), (2, 1, 8)):
    names = ",".join(map(str, sizes))
    row(
        "SkipLayerNormFusion", f"with [{names}]",
        f"(float[n,s,8] x, float[{names}] z) => (float[p,s,8] y) {{ a = Add(x, z) y = LayerNormalization<axis=-1>(a, g, b) }}",
        {"x": numbers(2, 3, 8), "z": numbers(*sizes)}, NORM, opset=17, fires=False,
    )  # fmt: skip
row(
    "BiasSkipLayerNormFusion", "bias",
    "(float[2,3,8] x, float[2,3,8] z) => (float[2,3,8] y) { m = MatMul(x, k) c = Add(m, w) "
    "y = com.microsoft.SkipLayerNormalization(c, z, g, b) }",
    {"x": numbers(2, 3, 8), "z": numbers(2, 3, 8, seed=1)}, {"k": numbers(8, 8), "w": numbers(8), **NORM},
    opset=17, fires=False,
)  # fmt: skip
row(
    "BiasSoftmaxFusion", "mask",
    "(float[n,2,3,4] x, float[n,1,1,4] z) => (float[n,2,3,4] y) { a = Add(x, z) y = Softmax<axis=-1>(a) }",
    {"x": numbers(2, 2, 3, 4), "z": numbers(2, 1, 1, 4)}, fires=False,
)  # fmt: skip
