"""Construction of the graphs and inputs of rewrite samples."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.testing.graphs import build_graph
from ortable.testing.values import (
    concrete_shape,
    draw_tensor,
    list_sizes,
    parse_attribute,
    parse_operand,
    symbolic_shape,
)
from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.language.samples import SampleProblem
from ortablegen.rewrites.read import read_rewrites_text
from ortablegen.source.diagnostics import Diagnostics


def build_sample_graph(pattern: str, sample: str) -> GraphBuilder:
    text = "- rewrite: tried\n  stage: simplify\n  why: it is tried here\n  pattern: |\n"
    text += textwrap.indent(textwrap.dedent(pattern).strip(), "    ")
    text += f"\n  replace: return x\n  samples:\n    - {sample}\n"
    diagnostics = Diagnostics()
    (rewrite,) = read_rewrites_text(text, "tried.yaml", diagnostics, BY_TRAIT)
    diagnostics.raise_if_any()
    return build_graph(rewrite, rewrite.samples[0], 18, None).builder


def ops(builder: GraphBuilder) -> list[str]:
    return [node.op_type for node in builder.nodes]


def input_constant(builder: GraphBuilder, node_index: int, index: int) -> np.ndarray:
    return builder.get_constant(builder.nodes[node_index].inputs[index])


def test_captures_are_inputs_or_initializers() -> None:
    builder = build_sample_graph(
        """
        product = MatMul(a, b)
        return Add(product, bias)
        """,
        '{a: "f32[n=2,3]", b: "const f32[3,4]", bias: "const f32[4] = [1, 2, 3, 4]"}',
    )
    assert ops(builder) == ["MatMul", "Add"]
    assert [info.name for info in builder.inputs] == ["a"]
    assert list(builder.initializers_dict) == ["b", "bias"]
    assert builder.get_constant("bias").tolist() == [1, 2, 3, 4]
    assert builder.nodes[0].outputs == ["product"]
    assert [str(dim) for dim in builder.get_shape("result")] == ["n", "4"]


def test_numbers_have_the_dtype_of_the_other_input() -> None:
    builder = build_sample_graph("return Mul(Pow(x, 2), 0.5)", '{x: "f16[2]"}')
    assert input_constant(builder, 0, 1).dtype == input_constant(builder, 1, 1).dtype == np.float16
    builder = build_sample_graph("return Reshape(Unsqueeze(x, [0]), [0, -1])", '{x: "f16[2]"}')
    assert input_constant(builder, 0, 1).dtype == input_constant(builder, 1, 1).dtype == np.int64
    builder = build_sample_graph("return Clip(Where(c, x, -inf), 0, 6)", '{c: "b[2]", x: "f64[2]"}')
    assert input_constant(builder, 0, 2).tolist() == -np.inf
    assert [input_constant(builder, 1, index).dtype for index in (1, 2)] == [np.float64] * 2
    builder = build_sample_graph("return Slice(x, [0], [2], [1], [1])", '{x: "i32[2,3]"}')
    assert [input_constant(builder, 0, index).dtype for index in (1, 2, 3, 4)] == [np.int64] * 4


def test_attributes_are_literals_or_values_of_the_sample() -> None:
    builder = build_sample_graph(
        "return Cast(Transpose(x, perm=[1, 0]), to=kind)", '{x: "f32[2,3]", kind: float16}'
    )
    assert [node.attrs for node in builder.nodes] == [{"perm": [1, 0]}, {"to": dtypes.float16}]
    builder = build_sample_graph("return Transpose(x, perm=p)", '{x: "f32[2,3]"}')
    assert builder.nodes[0].attrs == {}
    builder = build_sample_graph(
        "return Conv(x, w, maybe(b), attrs=kept)",
        '{x: "f32[1,2,5]", w: "f32[3,2,2]", kept: "{strides: [2], pads: [1, 1]}"}',
    )
    assert builder.nodes[0].inputs == ["x", "w"]
    assert builder.nodes[0].attrs == {"strides": [2], "pads": [1, 1]}


def test_alternatives_follow_the_captures_that_are_given() -> None:
    pattern = "return Relu(optional(Cast(x, to=kind)))"
    assert ops(build_sample_graph(pattern, '{x: "f32[2]"}')) == ["Relu"]
    assert ops(build_sample_graph(pattern, '{x: "f32[2]", kind: float64}')) == ["Cast", "Relu"]
    pattern = "return any_of(Add(x, y), Mul(x, z))"
    assert ops(build_sample_graph(pattern, '{x: "f32[2]", y: "f32[2]"}')) == ["Add"]
    assert ops(build_sample_graph(pattern, '{x: "f32[2]", z: "f32[2]"}')) == ["Mul"]
    with pytest.raises(SampleProblem, match="does not define all captures of an alternative"):
        build_sample_graph(pattern, '{x: "f32[2]"}')


def test_lists_and_several_results() -> None:
    builder = build_sample_graph(
        "return Concat(*xs, axis=axis)", '{xs: ["f32[2,3]", "const f32[1,3]"], axis: "0"}'
    )
    assert builder.nodes[0].inputs == ["xs_0", "xs_1"]
    builder = build_sample_graph(
        """
        first, _, last = Split(x, [1, 1, 2])
        return last, first
        """,
        '{x: "f32[4]"}',
    )
    assert [info.name for info in builder.outputs] == ["last", "first"]


def test_outputs_that_are_inputs_are_copied() -> None:
    builder = build_sample_graph("return Neg(x)", '{x: "f32[2]", graph: "return Neg(x), x"}')
    assert ops(builder) == ["Neg", "Identity"]
    builder = build_sample_graph(
        """
        y = Neg(x)
        return Abs(y)
        """,
        '{x: "f32[2]", extra_outputs: [y]}',
    )
    assert [info.name for info in builder.outputs] == ["result", "y"]


def test_a_capture_that_the_sample_forgets_is_named() -> None:
    with pytest.raises(SampleProblem, match="does not define 'y'"):
        build_sample_graph("return Add(x, y)", '{x: "f32[2]"}')


def test_sizes() -> None:
    parsed = parse_operand("f32[n=3,2*n=6,4]")
    assert parsed is not None and parsed.symbols == {"n": 3}
    assert [str(d) for d in symbolic_shape(parsed.sample, parsed.symbols)] == ["n", "2*n", "4"]
    shapes = [concrete_shape(parsed.sample, sizes) for sizes in list_sizes(parsed.symbols)]
    assert shapes == [(3, 6, 4), (6, 12, 4), (1, 2, 4)]
    with pytest.raises(SampleProblem, match="needs the size of n"):
        concrete_shape(parsed.sample, {"m": 1})


def test_draws() -> None:
    generator = torch.Generator().manual_seed(0)
    floats, fixed, ranged, integers = (
        operand.sample
        for operand in map(
            parse_operand, ("f32[64]", "i64[3] = [1, 2, 3]", "f32[64] in 2..3", "i32[64]")
        )
        if operand is not None
    )
    special = draw_tensor(floats, (64,), generator, special=True)
    assert special.isnan().any() and special.isinf().any() and (special == 0).any()
    assert draw_tensor(floats, (64,), generator).isfinite().all()
    assert draw_tensor(fixed, (5,), generator).tolist() == [1, 2, 3, 1, 2]
    in_range = draw_tensor(ranged, (64,), generator, special=True)
    assert in_range.min() >= 2 and in_range.max() < 3
    assert (draw_tensor(integers, (64,), generator) == 0).any()
    assert not (draw_tensor(integers, (64,), generator, zeros=False) == 0).any()


def test_texts_of_attributes() -> None:
    assert parse_attribute("[0, -1]") == [0, -1]
    assert parse_attribute("bfloat16") == dtypes.bfloat16
    assert parse_attribute("NOTSET") == "NOTSET"
    assert parse_attribute("{axis: 1, 'mode': edge}") == {"axis": 1, "mode": "edge"}
    assert parse_attribute("-inf") == -float("inf")
    assert parse_attribute("const f32[1] = [3]").tolist() == [3.0]
