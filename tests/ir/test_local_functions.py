"""Bodies of local functions are compared by structure, simplified, and removed if unused."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from ortable.builder import GraphBuilder
from ortable.ir.local_functions import FunctionTable, drop_unused_inputs, graph_fingerprint
from ortable.passes.unused_nodes import remove_unused_functions

FLOAT = TensorProto.FLOAT


def body(prefix: str = "", constant: float = 1.0, op_type: str = "Add") -> GraphBuilder:
    """Return a graph with an If that reads its input; `prefix` starts every name."""
    graph = GraphBuilder(18)
    x = graph.make_tensor_input(f"{prefix}x", FLOAT, (2,))
    one = graph.make_initializer(f"{prefix}c", np.array([constant, 2], dtype=np.float32))
    condition = graph.make_node("IsNaN", [graph.make_node("ReduceSum", [x], keepdims=0)])
    branches = []
    for name in ("a", "b"):
        child = graph.subgraph(f"{prefix}{name}")
        child.make_node(op_type if name == "a" else "Sub", [x, one], [f"{prefix}{name}_out"])
        child.make_tensor_output(f"{prefix}{name}_out", FLOAT, (2,))
        branches.append(child)
    graph.make_node(
        "If", [condition], [f"{prefix}y"], then_branch=branches[0], else_branch=branches[1]
    )
    graph.make_tensor_output(f"{prefix}y", FLOAT, (2,))
    return graph


def test_names_do_not_tell_bodies_apart_but_constants_and_operators_do() -> None:
    assert graph_fingerprint(body()) == graph_fingerprint(body("other_"))
    assert graph_fingerprint(body()) != graph_fingerprint(body(constant=3.0))
    assert graph_fingerprint(body()) != graph_fingerprint(body(op_type="Mul"))
    assert graph_fingerprint(body(constant=0.0)) != graph_fingerprint(body(constant=-0.0))


def test_equal_bodies_are_one_function_and_others_are_numbered() -> None:
    table, functions = FunctionTable(), {}
    names = []
    for graph in (body(), body("p_"), body(constant=5.0), body("q_", 5.0), body(op_type="Mul")):
        graph.functions = functions
        names.append(table.add_body(graph, "F", "local", "text", {"key": "value"}))
    assert names == ["F", "F", "F_1", "F_1", "F_2"]
    assert set(functions) == {("local", "F"), ("local", "F_1"), ("local", "F_2")}
    proto = functions["local", "F"]
    assert proto.doc_string == "text"
    assert [(prop.key, prop.value) for prop in proto.metadata_props] == [("key", "value")]


def test_inputs_that_nothing_reads_are_dropped_also_when_a_branch_is_all_that_reads() -> None:
    graph = body()
    graph.make_tensor_input("unused", FLOAT, (2,))
    assert drop_unused_inputs(graph) == [0]
    assert [info.name for info in graph.inputs] == ["x"]


@pytest.mark.parametrize("called", [True, False])
def test_functions_that_nobody_calls_are_dropped(called: bool) -> None:
    functions: dict = {}
    table = FunctionTable()
    inner, outer = body(), GraphBuilder(18)
    inner.functions = outer.functions = functions
    table.add_body(inner, "Inner", "local")
    outer.make_tensor_input("x", FLOAT, (2,))
    outer.make_node("Inner", ["x"], ["y"], domain="local")
    outer.make_tensor_output("y", FLOAT, (2,))
    table.add_body(outer, "Outer", "local")
    model = GraphBuilder(18)
    model.functions = functions
    x = model.make_tensor_input("x", FLOAT, (2,))
    y = model.make_node("Outer", [x], domain="local") if called else model.make_node("Abs", [x])
    model.make_tensor_output(y, FLOAT, (2,))
    assert remove_unused_functions(model) == (0 if called else 2)
    assert set(functions) == ({("local", "Inner"), ("local", "Outer")} if called else set())
    assert "remove_unused_functions" in model.optimize() or not called
