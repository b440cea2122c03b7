"""Products of quantized weights that read the same rows become one product and a Split."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

from ortable.builder import GraphBuilder
from ortable.passes.join_products import join_products

WIDTH, GROUP = 64, 32
BASE = {"K": WIDTH, "bits": 4, "block_size": GROUP, "accuracy_level": 4}


def _add_product(
    graph: GraphBuilder,
    rows: str,
    outer: int,
    zeros: bool = False,
    bias: bool = False,
    weight: list[str] | None = None,
    **attributes: Any,
) -> str:
    """Add a product of random 4-bit weights [outer, WIDTH], or of the given parts."""
    settings = {**BASE, "N": outer, "domain": "com.microsoft", **attributes}
    size = settings["block_size"]
    count = WIDTH // size
    random = np.random.default_rng(outer)
    parts: list[Any] = [
        random.integers(0, 256, (outer, count, size // 2), np.uint8),
        random.random((outer, count), np.float32),
        random.integers(0, 256, (outer, (count + 1) // 2), np.uint8) if zeros else None,
        None,
        random.random(outer, np.float32) if bias else None,
    ]
    names = weight or [
        "" if part is None else graph.make_initializer(graph.unique_name("w"), part)
        for part in parts
    ]
    return graph.make_node("MatMulNBits", [rows, *names], **settings)


def _make_graph() -> GraphBuilder:
    graph = GraphBuilder(23, target="onnxruntime")
    for name in ("x", "y"):
        graph.make_tensor_input(name, TensorProto.FLOAT, ("n", WIDTH))
    return graph


def _run_graph(graph: GraphBuilder) -> list[np.ndarray]:
    """Return the outputs of the graph for random rows."""
    session = onnxruntime.InferenceSession(graph.to_onnx(optimize=False).SerializeToString())
    rows = np.random.default_rng(0).random((3, WIDTH), np.float32)
    return list(session.run(None, {"x": rows, "y": rows}))


@pytest.mark.parametrize("options", [{}, {"zeros": True}, {"zeros": True, "bias": True}])
@pytest.mark.parametrize("sizes", [(8, 16), (24, 8, 8)])
def test_products_of_the_same_rows_are_joined(sizes: tuple[int, ...], options: Any) -> None:
    graph = _make_graph()
    results = [_add_product(graph, "x", outer, **options) for outer in sizes]
    for number, result in enumerate(results):
        graph.make_tensor_output(
            graph.make_node("Neg", [result], f"out{number}"), TensorProto.FLOAT
        )
    expected = _run_graph(graph)
    stored = sum(value.nbytes for value in graph.initializers_dict.values())
    assert join_products(graph) == len(sizes) - 1
    assert [node.op_type for node in graph.nodes[:2]] == ["MatMulNBits", "Split"]
    assert graph.nodes[1].outputs == results
    assert sum(value.nbytes for value in graph.initializers_dict.values()) == stored + 8 * len(
        sizes
    )
    for actual, value in zip(_run_graph(graph), expected, strict=True):
        np.testing.assert_array_equal(actual, value)


OTHERS = {"rows": "y", "block_size": 16, "accuracy_level": 1, "zeros": True, "bias": True}


@pytest.mark.parametrize("name", [*OTHERS, "weight", "output", "input"])
def test_other_products_stay(name: str) -> None:
    graph = _make_graph()
    first = _add_product(graph, "x", 8)
    parts = graph.nodes[0].inputs[1:]
    options: dict[str, Any] = {"rows": "x", **({name: OTHERS[name]} if name in OTHERS else {})}
    if name == "weight":  # both products read the same weight
        options["weight"] = parts
    second = _add_product(graph, outer=8, **options)
    graph.make_tensor_output(graph.make_node("Neg", [first], "out0"), TensorProto.FLOAT)
    last = second if name == "output" else graph.make_node("Neg", [second], "out1")
    graph.make_tensor_output(last, TensorProto.FLOAT)
    if name == "input":  # whoever runs the model may give other scales
        graph.inputs.append(graph.values[parts[1]])
    assert join_products(graph) == 0
