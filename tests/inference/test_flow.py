"""Inference for operators with subgraphs uses only the valid facts of their bodies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from ortable import dims
from ortable.inference.shape import ValueInfo
from ortable_generated.onnx.dispatch import INFER
from tests.suites.onnx_forms import inferred, wrong_inference

from .nodes import f

n, m = dims.make_symbol("n"), dims.make_symbol("m")


def _make_body(*results: ValueInfo) -> SimpleNamespace:
    return SimpleNamespace(
        outputs=[f"r{k}" for k in range(len(results))],
        values={f"r{k}": info for k, info in enumerate(results)},
    )


def _infer(
    op: str, inputs: list[ValueInfo | None], n_outputs: int, **attrs: object
) -> tuple[object, ...]:
    return INFER[op](inputs, attrs, n_outputs, 18)


def test_if_keeps_what_both_branches_say() -> None:
    then = _make_body(
        ValueInfo("a", 1, (n, 3)), ValueInfo("b", 7, (2,), value=(n, 4)), ValueInfo("c", 1, (2,))
    )
    orelse = _make_body(
        ValueInfo("a", 1, (n, 3)), ValueInfo("b", 7, (2,), value=(n, 4)), ValueInfo("c", 1, (3,))
    )
    results = _infer("If", [ValueInfo("cond", 9, ())], 3, then_branch=then, else_branch=orelse)
    assert results == ((1, (n, 3), None), (7, (2,), (n, 4)), (1, None, None))


def test_if_reads_graph_protos_without_trusting_their_dim_names() -> None:
    def body(size: object) -> object:
        return helper.make_graph(
            [], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, size])]
        )

    found = _infer("If", [ValueInfo("c", 9, ())], 1, then_branch=body(3), else_branch=body(3))
    assert found == ((1, (2, 3), None),)
    found = _infer("If", [ValueInfo("c", 9, ())], 1, then_branch=body("x"), else_branch=body("x"))
    assert found == ((1, None, None),)


def test_loop_keeps_carried_shapes_that_never_change() -> None:
    body = _make_body(
        ValueInfo("cond", 9, ()),
        ValueInfo("a", 1, (n, 3)),
        ValueInfo("b", 1, (4,)),
        ValueInfo("s", 7, ()),
    )
    inputs = [ValueInfo("m", 7, ()), None, ValueInfo("a", 1, (n, 3)), ValueInfo("b", 1, (2,))]
    assert _infer("Loop", inputs, 3, body=body) == (
        (1, (n, 3), None),
        (1, None, None),
        (7, None, None),
    )


def test_scan_stacks_slices_along_the_scanned_axis() -> None:
    body = _make_body(ValueInfo("state", 1, (3,)), ValueInfo("slice", 1, (3, 2)))
    inputs = [ValueInfo("state", 1, (3,)), ValueInfo("xs", 1, (n, 5))]
    assert _infer("Scan", inputs, 2, body=body, num_scan_inputs=1) == (
        (1, (3,), None),
        (1, (n, 3, 2), None),
    )
    results = _infer(
        "Scan", inputs, 2, body=body, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-1]
    )
    assert results[1] == (1, (3, 2, 5), None)


def test_scan_drops_symbols_that_only_the_body_knows() -> None:
    body = _make_body(ValueInfo("slice", 1, (m, 2)))
    assert _infer("Scan", [ValueInfo("xs", 1, (n, 5))], 1, body=body, num_scan_inputs=1) == (
        (1, None, None),
    )


def test_if_has_no_dtype_where_its_branches_differ() -> None:
    floats, ints = _make_body(ValueInfo("a", 1, (n,))), _make_body(ValueInfo("a", 7, (n,)))
    for then, orelse in ((floats, ints), (ints, floats)):
        results = _infer("If", [ValueInfo("cond", 9, ())], 1, then_branch=then, else_branch=orelse)
        assert results == ((None, (n,), None),)


_HEAD = '<ir_version: 10, opset_import: ["" : 18]> g '
# Per model: text, feeds, and the inferred facts of each output with static sizes and with symbols.
# Size names in a subgraph are not trusted: symbols are known only through the inputs of the node.
MODELS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "If": (
        """(bool c, float[N,3] x) => (y, z) {
            y, z = If (c) <
                then_branch = yes () => (float[N,3] a, float[M] p) {
                    a = Relu (x)
                    i = Constant <value_ints = [0]> ()
                    j = Constant <value_ints = [1]> ()
                    k = Constant <value_ints = [1]> ()
                    p0 = Slice (x, i, j, k)
                    shape = Constant <value_ints = [-1]> ()
                    p = Reshape (p0, shape)
                },
                else_branch = no () => (float[N,3] b, float[M] q) {
                    b = Neg (x)
                    shape = Constant <value_ints = [-1]> ()
                    q = Reshape (x, shape)
                }>
        }""",
        {"c": np.array(True), "x": f(4, 3)},
        "sizes dtype",
        "dtype dtype",
    ),
    "Loop": (
        """(int64 n, float[N,3] x) => (y, s) {
            c = Constant <value = bool {1}> ()
            y, s = Loop (n, c, x) <
                body = once (int64 i, bool before, float[N,3] a)
                        => (bool d, float[N,3] b, float[N,3] t) {
                    d = Identity (before)
                    b = Add (a, a)
                    t = Neg (a)
                }>
        }""",
        {"n": np.array(2), "x": f(4, 3)},
        "sizes dtype",
        "dtype dtype",
    ),
    "Scan": (
        """(float[3] start, float[N,3] x) => (last, all) {
            last, all = Scan (start, x) <num_scan_inputs = 1,
                body = once (float[3] a, float[3] b) => (float[3] c, float[3] d) {
                    c = Add (a, b)
                    d = Identity (c)
                }>
        }""",
        {"start": f(3), "x": f(4, 3)},
        "sizes sizes",
        "sizes sizes",
    ),
    "SequenceMap": (
        """(float[N,3] x) => (n) {
            s = SequenceConstruct (x, x)
            t = SequenceMap (s) <body = once (float[N,3] a) => (float[N,3] b) { b = Neg (a) }>
            n = SequenceLength (t)
        }""",
        {"x": f(4, 3)},
        "sizes",
        "sizes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("sizes", ["static", "symbolic"])
@pytest.mark.parametrize("name", MODELS)
def test_results_of_graphs_are_those_of_the_runtime(name: str, sizes: str) -> None:
    text, feeds, static, symbolic = MODELS[name]
    if sizes == "static":
        text = text.replace("[N", "[4")
    model = onnx.parser.parse_model(_HEAD + text)
    expected = ReferenceEvaluator(model).run(None, feeds)
    builder = inferred(model)
    assert wrong_inference(builder, feeds, expected) == ""
    facts = []
    for info in builder.outputs:
        assert info.dtype is not None
        facts.append("dtype" if info.shape is None else "sizes")
        symbols = {s for i in builder.inputs for d in i.shape or () for s in dims.free_symbols(d)}
        assert all(dims.free_symbols(dim) <= symbols for dim in info.shape or ())
    assert " ".join(facts) == (static if sizes == "static" else symbolic)
