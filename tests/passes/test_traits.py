"""Passes use operator traits, which come from `specs/onnx` alone.

A trait added there changes the passes' treatment of an operator without a change in Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ortable import GraphBuilder, dtypes
from ortable.ir.node import Node
from ortable.passes.qdq import arrange_quantized
from ortable.passes.rewrite.engine import rewrite_graph
from ortablegen.onnx.emit import emit_onnx_rules
from ortablegen.onnx.model import OnnxModel
from ortablegen.onnx.read import load_onnx_rules
from ortablegen.onnx.traits import TRAITS
from ortablegen.rewrites.emit import rewrites_text
from ortablegen.rewrites.read import read_rewrites
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[2]
SCALE = np.float32(0.25)
# (inputs after the first, attributes) of a node that reads codes of shape (1, 4, 2, 3)
REARRANGING = {
    "DepthToSpace": ([], {"blocksize": 2}),
    "Flatten": ([], {"axis": 2}),
    "Identity": ([], {}),
    "Reshape": ([[6, -1]], {}),
    "SpaceToDepth": ([], {"blocksize": 1}),
    "Squeeze": ([[0]], {}),
    "Transpose": ([], {"perm": [3, 1, 0, 2]}),
    "Unsqueeze": ([[0, 3]], {}),
}


def quantized_graph(op: str, inputs: list, attributes: dict, domain: str = "") -> GraphBuilder:
    """Return a graph with a node between QuantizeLinear to int8 and DequantizeLinear."""
    graph = GraphBuilder({"": 20, "com.microsoft": 1})
    x = graph.make_tensor_input("x", dtypes.float32, (1, 4, 2, 3))
    scale = graph.make_initializer("scale", SCALE)
    zero = graph.make_initializer("zero", np.int8(3))
    codes = graph.make_node("QuantizeLinear", [x, scale, zero])
    other_inputs = [graph.make_initializer("", np.array(values, np.int64)) for values in inputs]
    rearranged = graph.make_node(op, [codes, *other_inputs], domain=domain, **attributes)
    graph.make_tensor_output(graph.make_node("DequantizeLinear", [rearranged, scale, zero]))
    return graph


def run_graph(graph: GraphBuilder, x: np.ndarray) -> np.ndarray:
    import onnxruntime

    model = graph.to_onnx(optimize=False).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": x})
    return np.asarray(result)


@pytest.mark.parametrize("op", sorted(REARRANGING))
def test_codes_become_unsigned_behind_what_rearranges_them(op: str) -> None:
    inputs, attributes = REARRANGING[op]
    x = np.random.default_rng(0).uniform(-40, 40, (1, 4, 2, 3)).astype(np.float32)
    expected = run_graph(quantized_graph(op, inputs, attributes), x)
    graph = quantized_graph(op, inputs, attributes)
    assert arrange_quantized(graph) == 1
    assert graph.get_type(graph.nodes[0].outputs[0]) == dtypes.uint8
    np.testing.assert_array_equal(run_graph(graph, x), expected)


def test_every_operator_that_rearranges_is_tried_here(packaged_model: OnnxModel) -> None:
    assert packaged_model.operators_with("rearranges") == set(REARRANGING)


@pytest.fixture(scope="module")
def packaged_model() -> OnnxModel:
    return load_onnx_rules(ROOT / "specs" / "onnx", Diagnostics())


ENTRY = """- onnx: ExpandDims
  domain: com.microsoft
  traits: [rearranges]
  shape: unsqueeze_shape(X, value(axis))
"""
PROGRAM = """
import numpy as np
from ortable import GraphBuilder, dtypes
from ortable.passes.qdq import arrange_quantized
graph = GraphBuilder({"": 20, "com.microsoft": 1})
x = graph.make_tensor_input("x", dtypes.float32, (2, 3))
scale = graph.make_initializer("scale", np.float32(0.25))
zero = graph.make_initializer("zero", np.int8(3))
codes = graph.make_node("QuantizeLinear", [x, scale, zero])
axis = graph.make_initializer("axis", np.array([0], np.int32))
moved = graph.make_node("ExpandDims", [codes, axis], domain="com.microsoft")
graph.make_tensor_output(graph.make_node("DequantizeLinear", [moved, scale, zero]))
shape = graph.get_shape(moved) if graph.has_shape(moved) else None
print(shape, arrange_quantized(graph), dtypes.name(graph.values[codes].dtype))
"""


def _run_program(generated: Path) -> str:
    paths = [generated, ROOT / "runtime"]
    completed = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=True,
    )
    return completed.stdout.strip()


def test_a_new_operator_gets_its_rule_and_its_trait_in_yaml_only(tmp_path: Path) -> None:
    """An entry of four lines enables shape inference and `arrange_quantized` for ExpandDims.

    ONNX Runtime's ExpandDims has no entry in `specs/onnx`.
    """
    specs, generated = tmp_path / "specs", tmp_path / "generated"
    shutil.copytree(ROOT / "specs" / "onnx", specs)
    shutil.copytree(
        ROOT / "generated", generated, ignore=shutil.ignore_patterns("__pycache__", "aten")
    )
    assert _run_program(generated) == "None 0 int8"

    path = specs / "microsoft.yaml"
    before, first_entry, after = path.read_text().partition("- {onnx: FastGelu")
    path.write_text(before + ENTRY + first_entry + after)
    diagnostics = Diagnostics()
    files = emit_onnx_rules(load_onnx_rules(specs, diagnostics))
    diagnostics.raise_if_any()
    for name, text in files.items():
        (generated / name).write_text(text)
    assert _run_program(generated) == "(1, 2, 3) 1 uint8"


REWRITE = """- rewrite: remainder_of_relu
  stage: simplify
  why: shown to a test
  pattern: return Mod(Relu(x), y)
  replace: return Max(x, y)
  samples: [{x: "i32[2]", y: "i32[2]"}]
"""


def _apply_rules(rules: str) -> list[str]:
    """Apply rules to Mod(y, Relu(x)) and return the operator types of the result."""
    namespace: dict = {}
    exec(compile(rules, "<tried>", "exec"), namespace)
    graph = GraphBuilder(20)
    x, y = (graph.make_tensor_input(name, dtypes.int32, (2,)) for name in "xy")
    graph.make_tensor_output(graph.make_node("Mod", [y, graph.make_node("Relu", [x])]))
    rewrite_graph(graph, namespace["RULES"])
    return [node.op_type for node in graph.nodes]


def test_a_rewrite_matches_both_orders_of_what_commutes(
    tmp_path: Path, packaged_model: OnnxModel
) -> None:
    """The rule parser tries both operand orders once Mod is marked as commutative."""
    (tmp_path / "tried.yaml").write_text(REWRITE)
    packaged_traits = {name: packaged_model.operators_with(name) for name in TRAITS}
    extended_traits = {**packaged_traits, "commutative": packaged_traits["commutative"] | {"Mod"}}
    op_types = []
    for traits in (packaged_traits, extended_traits):
        diagnostics = Diagnostics()
        rewrites = read_rewrites(tmp_path, tmp_path, diagnostics, traits)
        diagnostics.raise_if_any()
        op_types.append(_apply_rules(rewrites_text(rewrites, "tried.yaml")))
    assert op_types == [["Relu", "Mod"], ["Max"]]


def test_a_trait_is_that_of_a_domain() -> None:
    """An operator of the same name in another domain does not have the trait."""
    from ortable_generated.onnx.traits import RANDOM

    assert Node("Bernoulli", [], []).key in RANDOM
    assert Node("Bernoulli", [], [], domain="my.domain").key not in RANDOM
