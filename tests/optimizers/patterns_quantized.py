# ruff: noqa: E501  (tables: a row is read as one line)
"""Patterns of the optimizers that match quantized tensors."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.optimizers.harness import Patterns, numbers

PATTERNS = Patterns()
row = PATTERNS.row
F, A = np.float32, np.array
X = A([-3, -0.1, 0, 0.1, 1, 5, 6, 7, 300], F)
KINDS = {"uint8": np.uint8, "int8": np.int8}

for kind, dtype in KINDS.items():
    for zero in (0, 10, 127, -128):
        if not np.iinfo(dtype).min <= zero <= np.iinfo(dtype).max:
            continue
        row(
            "ReluQuantRewrite", f"{kind} {zero}",
            f"(float[n] x) => ({kind}[n] y) {{ c = Relu(x) y = QuantizeLinear(c, s, z) }}",
            {"x": X}, {"s": F(0.05), "z": dtype(zero)}, fires=zero == np.iinfo(dtype).min,
        )  # fmt: skip
        for low, high in ((0, 6), (-1, 1), (0, 1e6), (-1e6, 1e6)):
            row(
                "ClipQuantRewrite", f"{kind} {zero} {low} {high}",
                f"(float[n] x) => ({kind}[n] y) {{ c = Clip(x, lo, hi) y = QuantizeLinear(c, s, z) }}",
                {"x": X}, {"lo": F(low), "hi": F(high), "s": F(0.05), "z": dtype(zero)}, fires=False,
            )  # fmt: skip
for again, zero, outcome in ((0.05, 3, "equal"), (0.07, 3, "wrong"), (0.05, 9, "wrong"), (0.01, 200, "wrong")):  # fmt: skip
    row(
        "DoubleQDQPairsRemover", f"{again}, {zero}",
        "(float[n] x) => (float[n] y) { w = Neg(x) q = QuantizeLinear(w, s, z) d = DequantizeLinear(q, s, z) "
        "r = QuantizeLinear(d, t, u) e = DequantizeLinear(r, t, u) y = Abs(e) }",
        {"x": X}, {"s": F(0.05), "z": np.uint8(3), "t": F(again), "u": np.uint8(zero)}, outcome=outcome,
        fires=outcome == "wrong",
    )  # fmt: skip
QDQ = "q{0} = QuantizeLinear({1}, s, z) d{0} = DequantizeLinear(q{0}, s, z)"
Q = {"s": F(0.05), "z": np.uint8(128)}
for name, text, names in (
    ("Transpose", "t = Transpose<perm=[1,0]>(x) " + QDQ.format("", "t") + " y = Neg(d)", "p,q"),
    ("Reshape", "t = Reshape(x, h) " + QDQ.format("", "t") + " y = Neg(d)", "p"),
    ("after", QDQ.format("", "x") + " t = Transpose<perm=[1,0]>(d) y = Neg(t)", "p,q"),
    ("MaxPool", QDQ.format("", "x") + " a = Unsqueeze(d, o) t = MaxPool<kernel_shape=[2]>(a) u = Squeeze(t, o) y = Neg(u)", "p,q"),
):  # fmt: skip
    known = {"h": A([-1]), "o": A([0])}
    row(
        "QDQPropagationTransformer", name, f"(float[n,m] x) => (float[{names}] y) {{ {text} }}",
        [{"x": numbers(3, 4)}, {"x": F(1000) * numbers(3, 4)}],
        {**Q, **{k: v for k, v in known.items() if f", {k})" in text}},
    )  # fmt: skip
SIGNED = QDQ.format("", "x") + " t = Transpose<perm=[1,0]>(d) y = Neg(t)"
for opset, outcome in ((20, "equal"), (21, "no session")):
    row(
        "QDQPropagationTransformer",
        f"int8 at opset {opset}",
        f"(float[n,m] x) => (float[p,q] y) {{ {SIGNED} }}",
        {"x": numbers(3, 4)},
        {"s": F(0.05), "z": np.int8(3)},
        opset=opset,
        outcome=outcome,
    )
WEIGHT = {"sw": F(0.02), "zw": np.int8(0), "sy": F(0.1), "zy": np.uint8(100)}
LINEAR = QDQ.format("a", "x") + " w = DequantizeLinear(qw, sw, zw) {0} qy = QuantizeLinear(v, sy, zy) y = DequantizeLinear(qy, sy, zy)"  # fmt: skip
CODES = np.random.default_rng(0).integers(-100, 100, (3, 4)).astype(np.int8)
row(
    "QDQSelectorActionTransformer", "MatMul", "(float[n,3] x) => (float[n,4] y) { " + LINEAR.format("v = MatMul(da, w)") + " }",
    {"x": numbers(5, 3)}, {**Q, **WEIGHT, "qw": CODES}, tolerance=0.02,
)  # fmt: skip
row(
    "QDQSelectorActionTransformer", "Add",
    "(float[n,4] x) => (float[n,4] y) { " + QDQ.format("a", "x") + " w = DequantizeLinear(qw, s, z) v = Add(da, w) "
    "qy = QuantizeLinear(v, sy, zy) y = DequantizeLinear(qy, sy, zy) }",
    {"x": numbers(3, 4)}, {**Q, "qw": (CODES.astype(int) + 128).astype(np.uint8), "sy": F(0.1), "zy": np.uint8(100)}, tolerance=0.05,
)  # fmt: skip
FOUR_BITS = "(float[n,32] x) => (float[n,4] y) { w = DequantizeLinear<axis=0,block_size=16>(q, s) y = MatMul(x, w) }"
row(
    "QDQSelectorActionTransformer",
    "four bits",
    FOUR_BITS,
    {"x": numbers(3, 32)},
    {
        "q": np.random.default_rng(2).integers(-8, 8, (32, 4)).astype(ml_dtypes.int4),
        "s": np.abs(numbers(2, 4)) + F(0.1),
    },
    opset=21,
    tolerance=1e-4,
    outcome="wrong",
)
row(
    "QDQS8ToU8Transformer", "activations",
    "(float[n,3] x) => (float[n,4] y) { qa = QuantizeLinear(x, s, z) da = DequantizeLinear(qa, s, z) "
    "w = DequantizeLinear(qw, sw, zw) v = MatMul(da, w) qy = QuantizeLinear(v, sy, z) y = DequantizeLinear(qy, sy, z) }",
    {"x": numbers(5, 3)}, {"s": F(0.05), "z": np.int8(-3), "sw": F(0.02), "zw": np.int8(0), "sy": F(0.1), "qw": CODES}, tolerance=0.02,
    fires=False,
)  # fmt: skip
CONV = (
    "(float[n,3,h,k] x) => (float[p,q,t,u] y) {{ "
    + QDQ.format("a", "x")
    + " w = DequantizeLinear(qw, sw, zw) "
    "v = Conv(da, w, b) qy = QuantizeLinear(v, sy, zy) y = DequantizeLinear(qy, sy, zy) }}"
)
row(
    "WeightBiasQuantization", "bias", CONV.format(), {"x": numbers(1, 3, 6, 6)},
    {**Q, **WEIGHT, "b": numbers(2), "qw": np.random.default_rng(1).integers(-100, 100, (2, 3, 3, 3)).astype(np.int8)},
    tolerance=0.03,
)  # fmt: skip
row(
    "EnsureUniqueDQForNodeUnit", "two readers",
    "(uint8[n] q) => (float[n] y, float[n] v) { d = DequantizeLinear(q, s, z) y = Neg(d) v = Abs(d) }",
    {"q": np.arange(9, dtype=np.uint8)}, Q, fires=False,
)  # fmt: skip
row(
    "WhereDummyDq", "constant branch",
    "(bool[n] c, uint8[n] q) => (uint8[n] y) { d = DequantizeLinear(q, s, z) w = Where(c, d, k) y = QuantizeLinear(w, s, z) }",
    {"c": A([1, 0, 1], bool), "q": A([1, 200, 3], np.uint8)}, {**Q, "k": F(-1.5)},
)  # fmt: skip
row(
    "MatMulIntegerToFloatFusion", "scaled",
    "(uint8[n,3] q, float k) => (float[n,4] y) { p = MatMulInteger(q, w, z) f = Cast<to=1>(p) t = Mul(k, sw) y = Mul(f, t) }",
    {"q": np.arange(15, dtype=np.uint8).reshape(5, 3) * 16, "k": F(0.3)}, {"w": CODES, "z": np.uint8(9), "sw": F(0.02)}, tolerance=1e-6,
)  # fmt: skip
row(
    "DynamicQuantizeMatMulFusion", "dynamic",
    "(float[n,3] x) => (float[n,4] y) { q, k, z = DynamicQuantizeLinear(x) p = MatMulInteger(q, w, z) f = Cast<to=1>(p) "
    "t = Mul(k, sw) y = Mul(f, t) }",
    [{"x": numbers(5, 3)}, {"x": np.zeros((5, 3), F)}], {"w": CODES, "sw": F(0.02)}, tolerance=1e-6,
)  # fmt: skip
row(
    "QDQFinalCleanupTransformer", "codes back and forth",
    "(uint8[n] q) => (uint8[n] y) { d = DequantizeLinear(q, s, z) e = Identity(d) y = QuantizeLinear(e, s, z) }",
    {"q": np.arange(256, dtype=np.uint8)}, Q, fires=False,
)  # fmt: skip
row(
    "MatMulNBitsFusion", "bias",
    "(float[n,16] x) => (float[n,4] y) { p = com.microsoft.MatMulNBits<K=16,N=4,bits=4,block_size=16,accuracy_level=1>(x, w, k) "
    "y = Add(p, b) }",
    {"x": numbers(3, 16)},
    {"w": np.arange(32, dtype=np.uint8).reshape(4, 1, 8) * 7, "k": np.abs(numbers(4)), "b": numbers(4)}, tolerance=1e-6, fires=False,
)  # fmt: skip
