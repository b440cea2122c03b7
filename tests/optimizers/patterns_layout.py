# ruff: noqa: E501  (tables: a row is read as one line)
"""Patterns of the optimizers that move transposes, and of those that fuse convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.optimizers.harness import INF, NAN, Patterns, numbers

PATTERNS = Patterns()
row = PATTERNS.row
F = np.float32
A = np.array
IN, BACK = "t = Transpose<perm=[0,3,1,2]>(x)", "y = Transpose<perm=[0,2,3,1]>(v)"


def add_case(name: str, body: str, constants: Any = None, rank: int = 4, **settings: Any) -> None:
    """Add a pattern that moves a transpose behind ``body``.

    ``t`` is a transposed input of shape [2, 5, 3, 4]. A result ``v`` of rank 4 is transposed back;
    a result of another rank is ``y``.
    """
    fed = settings.pop("fed", {})
    declarations = "".join(f", {kind} {name}" for name, (kind, _) in fed.items())
    kind = settings.pop("kind", "float")
    names = ",".join("pqrsuw"[:rank])
    x = settings.pop("x", numbers(2, 3, 4, 5))
    back = BACK if rank == 4 and " y = " not in f" {body}" else ""
    row(
        "TransposeOptimizer", name,
        f"(float[a,b,c,d] x{declarations}) => ({kind}[{names}] y) {{ {IN} {body} {back} }}",
        {"x": x, **{k: v for k, (_, v) in fed.items()}}, constants, tolerance=1e-5, **settings,
    )  # fmt: skip


PADS = A([0, 1, 2, 0, 0, 0, 1, 3])
add_case("Pad", "v = Pad(t, p)", {"p": PADS})
add_case("Pad cuts", "v = Pad(t, p)", {"p": A([0, -1, 2, 0, 0, 0, -1, 3])})
add_case("Pad reflects", 'v = Pad<mode="reflect">(t, p)', {"p": PADS})
add_case("Pad, unknown amounts", "v = Pad(t, p)", fed={"p": ("int64[8]", PADS)})
add_case(
    "Pad with axes",
    "v = Pad(t, p, z, a)",
    {"p": A([1, 1, 1, 1]), "z": F(0), "a": A([2, 3])},
    outcome="fails",
)
add_case(
    "Pad with all axes",
    "v = Pad(t, p, z, a)",
    {"p": PADS, "z": F(0), "a": A([3, 1, 2, 0])},
    outcome="wrong",
)
add_case("Pad with unknown axes", "v = Pad(t, p, z, a)", {"p": A([1, 2, 1, 0]), "z": F(0)}, fed={"a": ("int64[2]", A([2, 3]))}, outcome="fails")  # fmt: skip
add_case(
    "CenterCropPad",
    "v = CenterCropPad<axes=[2,3]>(t, s)",
    {"s": A([5, 2])},
    opset=18,
    outcome="fails",
)
add_case(
    "Resize with axes",
    'v = Resize<mode="nearest",axes=[2,3]>(t, , s)',
    {"s": A([2, 3], F)},
    outcome="fails",
)
add_case("Resize to sizes with axes", 'v = Resize<mode="linear",axes=[2,3]>(t, , , s)', {"s": A([7, 3])}, outcome="no session")  # fmt: skip
add_case("Resize", 'v = Resize<mode="nearest">(t, , s)', {"s": A([1, 1, 2, 2], F)})
add_case("Resize to sizes", 'v = Resize<mode="linear">(t, , , s)', {"s": A([2, 5, 7, 3])})
add_case(
    "Resize, unknown scales",
    'v = Resize<mode="nearest">(t, , s)',
    fed={"s": ("float[4]", A([1, 1, 2, 2], F))},
)
for name, constants in (
    ("steps", {"s": A([0, 1]), "e": A([9, -1]), "a": A([1, 3]), "d": A([1, 2])}),
    ("backwards", {"s": A([-1, -1]), "e": A([-9, -99]), "a": A([-1, 1]), "d": A([-1, -2])}),
    ("unsorted axes", {"s": A([0, 1]), "e": A([1, 3]), "a": A([3, 1]), "d": A([1, 1])}),
    (
        "int32",
        {"s": A([1, 1], "i4"), "e": A([9, 4], "i4"), "a": A([3, 1], "i4"), "d": A([1, 1], "i4")},
    ),
):
    add_case(f"Slice, {name}", "v = Slice(t, s, e, a, d)", constants)
add_case("Slice without axes", "v = Slice(t, s, e)", {"s": A([0, 1]), "e": A([9, -1])})
add_case("Slice, unknown start", "v = Slice(t, s, e, a)", {"e": A([9, 4]), "a": A([1, 3])}, fed={"s": ("int64[2]", A([1, 1]))})  # fmt: skip
add_case("Slice, unknown axes", "v = Slice(t, s, e, a)", {"s": A([1, 1]), "e": A([9, 4])}, fed={"a": ("int64[2]", A([3, 1]))}, fires=False)  # fmt: skip
POSITIVE = np.abs(numbers(2, 3, 4, 5)) + F(0.1)
for reduce in (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
):  # fmt: skip
    for axes in ([1], [-1, 1], [2, 1]):
        add_case(f"{reduce} {axes}", f"v = {reduce}<keepdims=1>(t, a)", {"a": A(axes)}, x=POSITIVE)
        add_case(f"{reduce} {axes}, fewer axes", f"y = {reduce}<keepdims=0>(t, a)", {"a": A(axes)}, 4 - len(axes), x=POSITIVE)  # fmt: skip
    add_case(f"{reduce} of all", f"v = {reduce}<keepdims=1>(t)", x=POSITIVE)
    add_case(f"{reduce} of none", f"v = {reduce}<keepdims=1,noop_with_empty_axes=1>(t, a)", {"a": np.zeros(0, np.int64)}, x=POSITIVE)  # fmt: skip
    add_case(f"{reduce}, unknown axes", f"v = {reduce}<keepdims=1>(t, a)", x=POSITIVE, fed={"a": ("int64[m]", A([3, 1]))}, fires=False)  # fmt: skip
for axis in (1, -1, 2):
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        add_case(f"{op} {axis}", f"v = {op}<axis={axis}>(t)")
    for keep in (0, 1):
        add_case(f"ArgMax {axis} {keep}", f"y = ArgMax<axis={axis},keepdims={keep}>(t)", rank=3 + keep, kind="int64")  # fmt: skip
    add_case(f"Concat {axis}", f"v = Concat<axis={axis}>(t, t)")
    add_case(f"Gather {axis}", f"v = Gather<axis={axis}>(t, i)", {"i": A([1, -1, 0])}, fires=False)
    add_case(f"Unsqueeze {axis}", "y = Unsqueeze(t, a)", {"a": A([axis])}, 5, fires=False)
    add_case(f"Split {axis}", f"v, w = Split<axis={axis},num_outputs=2>(t)")
    add_case(f"CumSum {axis}", "v = CumSum(t, a)", {"a": A(axis)}, fires=False)
    add_case(f"TopK {axis}", f"v, w = TopK<axis={axis}>(t, k)", {"k": A([2])}, fires=False)
    sizes = [5, 3, 4][axis - 1 :] if axis > 0 else [4]
    add_case(f"LayerNormalization {axis}", f"v = LayerNormalization<axis={axis}>(t, s)", {"s": np.ones(sizes, F)}, fires=False)  # fmt: skip
for axes in ([3], [1, 3], [-3, 3]):
    add_case(
        f"Squeeze {axes}", "y = Squeeze(t, a)", {"a": A(axes)}, 4 - len(axes), x=numbers(2, 1, 1, 1)
    )
add_case("Tile", "v = Tile(t, k)", {"k": A([1, 2, 3, 1])})
add_case("Expand", "v = Expand(t, k)", {"k": A([1, 5, 3, 4])}, fires=False)
add_case("Add, three axes", "v = Add(z, t)", {"z": numbers(5, 1, 4)})
add_case("Where", "v = Where(c, t, z)", {"c": A([1, 0, 1, 0], bool), "z": numbers(5, 1, 1)})
add_case("quantized by channel", "q = QuantizeLinear<axis=-3>(t, s, z) v = DequantizeLinear<axis=-3>(q, s, z)", {"s": np.abs(numbers(5)) + F(0.01), "z": np.zeros(5, np.int8)})  # fmt: skip

# -- convolutions
X, X8, W, W8 = numbers(2, 3, 6, 6), numbers(2, 8, 6, 6), numbers(4, 3, 3, 3), numbers(8, 8, 3, 3)
NANS = X8.copy()
NANS[0, 0, 0, 0], NANS[1, 3, 5, 5] = NAN, -INF
CONV = "(float[n,3,h,w_] x) => (float[p,q,t,u] y) {{ v = Conv(x, w) y = {}(v, k) }}"
for sizes, adds, scales in (
    ((4, 1, 1), True, True), ((1, 4, 1, 1), True, True), ((), False, True), ((1,), False, False),
    ((4,), False, False), ((4, 4), False, False), ((4, 1, 4), False, False),
):  # fmt: skip
    for op, fires in (("Add", adds), ("Mul", scales)):
        row(
            f"Conv{op}Fusion", str(sizes), CONV.format(op), [{"x": X}, {"x": X[:0]}],
            {"w": W, "k": numbers(*sizes)}, tolerance=5e-6, fires=fires,
        )  # fmt: skip
ZERO_WEIGHTS = W.copy()
ZERO_WEIGHTS[:, 0] = 0
for factor, outcome in ((0.0, "equal"), (NAN, "equal"), (INF, "wrong"), (1e38, "wrong")):
    row(
        "ConvMulFusion", f"factor {factor}", CONV.format("Mul"), {"x": X},
        {"w": ZERO_WEIGHTS, "k": F(factor)}, tolerance=5e-6, outcome=outcome,
    )  # fmt: skip
for epsilon in ("1e-5", "1e-12"):
    for variance in (numbers(4) ** 2, A([1, 0, 2, 3], F)):
        row(
            "ConvBNFusion", f"{epsilon}, {variance[1]}",
            f"(float[n,3,h,w_] x) => (float[p,q,t,u] y) {{ v = Conv(x, w, b) "
            f"y = BatchNormalization<epsilon={epsilon}>(v, s, k, m, va) }}",
            {"x": X},
            {"w": W, "b": numbers(4), "s": numbers(4, seed=1), "k": numbers(4, seed=2), "m": numbers(4, seed=3), "va": variance},
            tolerance=1e-5,
        )  # fmt: skip
PADDED = "(float[n,3,h,w_] x) => (float[p,q,t,u] y) {{ p_ = Pad{0} v = {1}(p_{2}) y = Neg(v) }}"


def add_pad(name: str, pool: str, amounts: list[int], value: float = 0.0, operands: str = "", mode: str = "", **settings: Any) -> None:  # fmt: skip
    pad = f'<mode="{mode}">(x, d)' if mode else "(x, d, z)"
    constants: dict[str, Any] = {"d": A(amounts)} | ({} if mode else {"z": F(value)})
    if operands:
        constants["w"] = W
    row(
        "Pad_Fusion", name, PADDED.format(pad, pool, operands), {"x": -np.abs(X) - F(1)}, constants,
        tolerance=5e-6, **settings,
    )  # fmt: skip


PADDING = [0, 0, 1, 2, 0, 0, 0, 1]
add_pad("convolution", "Conv", PADDING, operands=", w")
add_pad("convolution that pads", "Conv<pads=[1,1,1,1]>", PADDING, operands=", w")
for name, amounts, value, mode in (
    ("ones", PADDING, 1.0, ""), ("NaN", PADDING, NAN, ""), ("cut", [0, 0, -1, 1, 0, 0, 0, 0], 0.0, ""),
    ("batch", [1, 0, 1, 1, 0, 0, 1, 1], 0.0, ""), ("reflected", PADDING, 0.0, "reflect"), ("edges", PADDING, 0.0, "edge"),
):  # fmt: skip
    add_pad(f"convolution, {name}", "Conv", amounts, value, ", w", mode, fires=False)
add_pad("maximum", "MaxPool<kernel_shape=[3,3]>", PADDING, outcome="wrong")
add_pad("maximum over -inf", "MaxPool<kernel_shape=[3,3]>", PADDING, -INF, fires=False)
add_pad("mean", "AveragePool<kernel_shape=[3,3]>", PADDING)
add_pad("mean that counts", "AveragePool<kernel_shape=[3,3],count_include_pad=1>", PADDING)
add_pad("mean, more than a window", "AveragePool<kernel_shape=[2,2],count_include_pad=1>", [0, 0, 4, 4, 0, 0, 4, 4], outcome="no session")  # fmt: skip
ACTIVE = "(float[n,8,h,w_] x) => (float[p,q,t,u] y) {{ v = Conv(x, w) y = {} }}"
for text in (
    "Relu(v)", "Sigmoid(v)", "Tanh(v)", "LeakyRelu<alpha=0.3>(v)", "LeakyRelu<alpha=-2.0>(v)",
    "Clip(v, lo, hi)", "Clip(v, hi, lo)", "Clip(v, lo)", "HardSigmoid<alpha=-1.0,beta=2.0>(v)",
):  # fmt: skip
    bounds = {key: F(x) for key, x in (("lo", -0.5), ("hi", 0.5)) if key in text}
    for optimizer in ("ConvActivationFusion", "NchwcTransformer"):
        row(
            optimizer, text, ACTIVE.format(text), [{"x": X8}, {"x": NANS}, {"x": X8[:0]}],
            {"w": W8, **bounds}, tolerance=2e-5,
        )  # fmt: skip


def add_nchwc(name: str, body: str, constants: Any = None, **settings: Any) -> None:
    """Add a pattern after a convolution of eight channels with the result ``v``.

    A MaxPool gets no NaN, because its result beside a NaN depends on the processor.
    """
    feeds = [{"x": X8}, *([] if "MaxPool" in body else [{"x": NANS}]), {"x": X8[:0]}]
    row(
        "NchwcTransformer", name,
        f"(float[n,8,h,w_] x) => (float[p,q,t,u] y) {{ v = Conv<pads=[1,1,1,1]>(x, w) {body} }}",
        feeds, {"w": W8, **(constants or {})}, tolerance=1e-5, **settings,
    )  # fmt: skip


for pool in (
    "MaxPool<kernel_shape=[3,3],pads=[1,1,1,1],strides=[2,2]>", "MaxPool<kernel_shape=[3,3],ceil_mode=1,strides=[2,2]>",
    "MaxPool<kernel_shape=[2,2],dilations=[2,2]>", 'MaxPool<kernel_shape=[3,3],auto_pad="SAME_LOWER">',
    "AveragePool<kernel_shape=[3,3],pads=[1,1,1,1]>", "AveragePool<kernel_shape=[3,3],pads=[1,1,1,1],count_include_pad=1>",
    "AveragePool<kernel_shape=[3,3],ceil_mode=1,strides=[2,2]>", "GlobalMaxPool", "GlobalAveragePool",
):  # fmt: skip
    add_nchwc(pool, f"y = {pool}(v)")
add_nchwc("Add", "y = Add(v, z)", {"z": numbers(8, 1, 1)})
add_nchwc("Sum and Relu", "u = Conv<pads=[1,1,1,1]>(x, w) s = Sum(v, u) y = Relu(s)")
add_nchwc(
    "gate",
    "g = GlobalAveragePool(v) c = Conv(g, k) s = Sigmoid(c) y = Mul(v, s)",
    {"k": numbers(8, 8, 1, 1)},
)
add_nchwc("Concat", "u = Conv<pads=[1,1,1,1]>(x, w) y = Concat<axis=1>(v, u)")
add_nchwc("Concat of heights", "u = Conv<pads=[1,1,1,1]>(x, w) y = Concat<axis=2>(v, u)")
add_nchwc("BatchNormalization", "m = MaxPool<kernel_shape=[2,2]>(v) y = BatchNormalization(m, s, s, s, k)", {"s": numbers(8), "k": numbers(8) ** 2})  # fmt: skip
row(
    "NchwcTransformer", "a stretched sum of nothing",
    "(float[n,8,h,w_] x) => (float[p,q,t,u] y) { v = Conv<pads=[1,1,1,1]>(x, w) "
    "u = Conv<strides=[6,6],pads=[1,1,1,1]>(x, w) y = Add(v, u) }",
    [{"x": X8}, {"x": X8[:0]}], {"w": W8}, tolerance=1e-5, outcome="fails",
)  # fmt: skip
RESIZED = "(float[n,8,h,w_] x) => (float[p,q,t,u] y) {{ v = Conv(x, w) y = Resize<{}>(v, , s) }}"
for mode, fed, outcome in (
    (
        'mode="nearest",coordinate_transformation_mode="asymmetric",nearest_mode="floor"',
        NANS,
        "equal",
    ),
    ('mode="linear"', X8, "equal"),
    ('mode="linear",coordinate_transformation_mode="align_corners"', X8, "equal"),
    ('mode="linear",coordinate_transformation_mode="align_corners"', NANS, "wrong"),
):
    row(
        "NchwcTransformer", f"Resize {mode} {outcome}", RESIZED.format(mode), {"x": fed},
        {"w": W8, "s": A([1, 1, 2, 2], F)}, tolerance=1e-5, outcome=outcome,
    )  # fmt: skip
for kind, conv in (("depthwise", "Conv<group=8,pads=[1,1,1,1]>"), ("asymmetric", "Conv<group=8,pads=[0,1,2,0]>"), ("dilated", "Conv<group=8,dilations=[2,2],pads=[2,2,2,2]>")):  # fmt: skip
    row(
        "NchwcTransformer", kind, f"(float[n,8,h,w_] x) => (float[p,q,t,u] y) {{ v = {conv}(x, w) y = Relu(v) }}",
        [{"x": X8}, {"x": NANS}], {"w": numbers(8, 1, 3, 3)}, tolerance=1e-5,
    )  # fmt: skip
row(
    "NhwcTransformer", "integers",
    "(uint8[n,3,h,w_] x) => (uint8[p,q,t,u] y) { y = QLinearConv(x, s, z, w, s, z2, s, z) }",
    {"x": np.arange(216, dtype=np.uint8).reshape(2, 3, 6, 6)},
    {"s": F(0.05), "z": np.uint8(128), "z2": np.int8(0), "w": (W * 20).astype(np.int8)},
)  # fmt: skip
for order in ("00 10 01 11", "00 01 10 11", "11 10 01 00"):
    cuts = "".join(f"a{k} = Slice(x, i{k}, e, a, d) " for k in range(4))
    row(
        "SliceConcatToSpaceToDepthFusion", order,
        f"(float[1,3,8,8] x) => (float[p,q,t,u] y) {{ {cuts} v = Concat<axis=1>(a0, a1, a2, a3) y = Conv(v, w) }}",
        {"x": numbers(1, 3, 8, 8)},
        {
            **{f"i{k}": A([int(c) for c in place]) for k, place in enumerate(order.split())},
            "e": A([2**62, 2**62]), "a": A([2, 3]), "d": A([2, 2]), "w": numbers(4, 12, 1, 1),
        },
        tolerance=1e-5,
    )  # fmt: skip
