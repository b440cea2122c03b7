"""Graphs and node data for Model Explorer: nodes, edges, weights, and profile overlays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper

import ortable
from ortable.errors import InputError, OptionError
from ortable.ir.pictures.dot import operator_color
from ortable.ir.pictures.draw import DrawStyle, render_model
from tests.ir.pictures.models import MODELS, count_nodes, function_model, loop_and_branch, stack
from tests.ir.pictures.test_dot import make_hostile_model


def render_json(model: ModelProto, **style: Any) -> dict[str, Any]:
    """Return the Model Explorer graph of a model."""
    collection = json.loads(render_model(model, "json", DrawStyle(**style)))
    (graph,) = collection["graphs"]
    assert collection["label"] == graph["id"]
    return graph


def to_dict(entries: list[dict[str, str]]) -> dict[str, str]:
    attrs = {pair["key"]: pair["value"] for pair in entries}
    assert len(attrs) == len(entries)
    return attrs


def list_edges(node: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the incoming edges of a node: input index, source node, output index."""
    keys = ("targetNodeInputId", "sourceNodeId", "sourceNodeOutputId")
    return sorted(tuple(edge[key] for key in keys) for edge in node["incomingEdges"])


def make_nested_model() -> ModelProto:
    """Return a model with modules at two levels; the first result of its Split is unused."""
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "enc.fc.weight")
    sizes = numpy_helper.from_array(np.array([1, 2], np.int64), "sizes")
    metadata = {"fx_node": "mm", "aten_target": "aten.mm.default", "source": "net.py:3: x @ w"}
    nodes = [
        helper.make_node("Split", ["x", "sizes"], ["a", "b"], "enc/split", axis=1),
        helper.make_node("MatMul", ["b", "enc.fc.weight"], ["c"], "enc.fc/mm"),
        helper.make_node("Odd", ["c", "c"], ["y"], "odd", domain="my.ops"),
    ]
    for node, path in zip(nodes, ("enc", "enc.fc", ""), strict=True):
        for key, value in {**metadata, "module_path": path}.items():
            node.metadata_props.add(key=key, value=value)
    nodes[2].metadata_props.add(key="ortable.passes.rewrite", value="fuse_odd")
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["n", 3]), ("y", ["n", 3]))
    )
    types = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in (("a", 1), ("b", 2), ("c", 3))
    ]
    graph = helper.make_graph(nodes, "two", [x], [y], [weight, sizes], value_info=types)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my.ops", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.metadata_props.add(key="ortable.modules", value="enc=Encoder; enc.fc=Linear")
    return model


def test_the_nodes_of_a_model_of_two_levels() -> None:
    graph = render_json(make_nested_model())
    assert graph["groupNodeAttributes"] == {
        "enc": {"class": "Encoder", "module": "enc"},
        "enc/fc": {"class": "Linear", "module": "enc.fc"},
    }
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert {name: (node["label"], node["namespace"]) for name, node in nodes.items()} == {
        "x": ("x", ""),
        "enc/split": ("Split", "enc"),
        "enc.fc/mm": ("MatMul", "enc/fc"),
        "odd": ("my.ops.Odd", ""),
        "y": ("y", ""),
        "enc.fc.weight": ("weight", "enc/fc"),
    }
    assert {name: list_edges(node) for name, node in nodes.items()} == {
        "x": [],
        "enc/split": [("0", "x", "0")],
        "enc.fc/mm": [("0", "enc/split", "1"), ("1", "enc.fc.weight", "0")],
        "odd": [("0", "enc.fc/mm", "0"), ("1", "enc.fc/mm", "0")],
        "y": [("0", "odd", "0")],
        "enc.fc.weight": [],
    }
    line = {"fx_node": "mm", "aten_target": "aten.mm.default", "source": "net.py:3: x @ w"}
    assert {name: to_dict(node["attrs"]) for name, node in nodes.items()} == {
        "x": {"type": "input"},
        "enc/split": {"axis": "1", "split": "[1, 2]", **line, "module_path": "enc"},
        "enc.fc/mm": {**line, "module_path": "enc.fc"},
        "odd": {**line, "ortable.passes.rewrite": "fuse_odd"},
        "y": {"type": "output"},
        "enc.fc.weight": {"type": "weight", "name": "enc.fc.weight"},
    }
    results = {
        name: [to_dict(result["attrs"]) for result in node["outputsMetadata"]]
        for name, node in nodes.items()
    }
    assert results == {
        "x": [{"__tensor_tag": "x", "tensor_shape": "float32[n, 3]"}],
        "enc/split": [
            {"__tensor_tag": "a", "tensor_shape": "float32[n, 1]"},
            {"__tensor_tag": "b", "tensor_shape": "float32[n, 2]"},
        ],
        "enc.fc/mm": [{"__tensor_tag": "c", "tensor_shape": "float32[n, 3]"}],
        "odd": [{"__tensor_tag": "y", "tensor_shape": "float32[n, 3]"}],
        "y": [],
        "enc.fc.weight": [{"__tensor_tag": "enc.fc.weight", "tensor_shape": "float32[2, 3]"}],
    }


@pytest.mark.parametrize("model", [*MODELS, make_hostile_model])
def test_each_node_is_there_once_and_edges_join_them(model: Callable[[], ModelProto]) -> None:
    graph = render_json(model())
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert len(nodes) == len(graph["nodes"])
    types = [to_dict(node["attrs"]).get("type") for node in graph["nodes"]]
    assert types.count(None) == count_nodes(model())
    for node in graph["nodes"]:
        assert {source for _, source, _ in list_edges(node)} <= nodes.keys()
        assert not node["namespace"] or node["namespace"] in graph["groupNodeAttributes"]
    for name in graph["groupNodeAttributes"]:
        parent, _, _ = name.rpartition("/")
        assert ";" not in name and (not parent or parent in graph["groupNodeAttributes"])


def test_weights_are_nodes_in_their_modules_and_can_be_left_out() -> None:
    weights = [
        (node["id"], node["namespace"])
        for node in render_json(stack())["nodes"]
        if {"key": "type", "value": "weight"} in node["attrs"]
    ]
    assert len(weights) == 12 * 4 + 2
    assert ("layers.3.fc.weight", "layers.3/fc") in weights
    plain = json.dumps(render_json(stack(), weights=False, attributes=False))
    assert "fc.weight" not in plain and "epsilon" not in plain and "LayerNormalization" in plain


def test_one_module_bodies_and_functions() -> None:
    part = render_json(stack(), module="layers.4")
    assert part["id"] == "layers.4" and [*part["groupNodeAttributes"]] == ["norm", "fc"]
    (source,) = [node for node in part["nodes"] if to_dict(node["attrs"]).get("type") == "input"]
    assert to_dict(source["outputsMetadata"][0]["attrs"])["tensor_shape"] == "float32[n, 4]"
    bodies = {node["namespace"] for node in render_json(loop_and_branch())["nodes"]}
    assert {"Loop: body", "Loop: body/cell", "If: then_branch", "If: else_branch"} <= bodies
    calls = {node["namespace"] for node in render_json(function_model())["nodes"]}
    assert {"layers.0/norm", "layers.3/fc"} <= calls


def test_modules_of_one_name_are_two_namespaces() -> None:
    branches = [
        helper.make_graph(
            [helper.make_node("Relu", ["x"], [f"r{n}"])],
            "g",
            [],
            [helper.make_tensor_value_info(f"r{n}", TensorProto.FLOAT, [2])],
        )
        for n in range(4)
    ]
    nodes = [
        helper.make_node("If", ["c"], [f"y{n}"], then_branch=branches[2 * n],
                         else_branch=branches[2 * n + 1])
        for n in range(2)
    ]  # fmt: skip
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    x, *ys = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y0", "y1")
    )
    graph = render_json(helper.make_model(helper.make_graph(nodes, "g", [c, x], ys)))
    assert "If: then_branch" in graph["groupNodeAttributes"]
    assert "If: then_branch (2)" in graph["groupNodeAttributes"]
    assert {"If", "If (2)", "Relu (4)"} <= {node["id"] for node in graph["nodes"]}


def test_overlays_of_dtypes_and_rewrites(tmp_path: Path) -> None:
    ortable.draw(make_nested_model(), tmp_path / "m.json", overlays=["dtype", "rewrite"])
    dtypes = json.loads((tmp_path / "m.dtype.json").read_text())["two"]["results"]
    entry = {"value": "float32", "bgColor": operator_color("float32")}
    assert dtypes == dict.fromkeys(("x", "enc/split", "enc.fc/mm", "odd"), entry)
    rewrites = json.loads((tmp_path / "m.rewrite.json").read_text())
    expected = {"odd": {"value": "fuse_odd", "bgColor": operator_color("fuse_odd")}}
    assert rewrites == {"two": {"results": expected}}


@pytest.mark.parametrize("model", [stack, function_model])
def test_times_of_a_profile(model: Callable[[], ModelProto], tmp_path: Path) -> None:
    profile = ortable.profile(model(), torch.rand(2, 4), calls=4)
    ortable.draw(model(), tmp_path / "m.json", overlays=[profile])
    data = json.loads((tmp_path / "m.time.json").read_text())["Stack"]
    assert [item["stop"] for item in data["gradient"]] == [0, 1]
    nodes = {
        node["id"]: node
        for node in json.loads((tmp_path / "m.json").read_text())["graphs"][0]["nodes"]
    }
    times = {name: result["value"] for name, result in data["results"].items()}
    assert times.keys() <= nodes.keys()
    kernels = [node for node in profile.nodes if node.results]
    assert sum(times.values()) == pytest.approx(sum(node.us for node in kernels), abs=0.1)
    for namespace in ("layers.0/norm", "layers.2/fc"):
        total = sum(us for name, us in times.items() if nodes[name]["namespace"] == namespace)
        (module,) = [m for m in profile.modules if m.path == namespace.replace("/", ".")]
        assert total == pytest.approx(module.us, abs=0.01) and total > 0
    profile.save_json(tmp_path / "p.json")
    ortable.draw(model(), tmp_path / "n.json", overlays=[tmp_path / "p.json"])
    assert (tmp_path / "n.time.json").read_bytes() == (tmp_path / "m.time.json").read_bytes()


def test_nodes_that_one_kernel_computes_share_its_time(tmp_path: Path) -> None:
    nodes = [
        {"us": 8.0, "results": ["a", "c"]}, {"us": 1.0, "results": ["c", "gone"]},
        {"us": 5.0, "results": []},
    ]  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps({"nodes": nodes}))
    with pytest.raises(OptionError, match="of another model"):
        ortable.draw(stack(), tmp_path / "m.json", overlays=[str(tmp_path / "p.json")])
    assert not (tmp_path / "m.json").exists()
    ortable.draw(make_nested_model(), tmp_path / "m.json", overlays=[str(tmp_path / "p.json")])
    results = json.loads((tmp_path / "m.time.json").read_text())["two"]["results"]
    assert results == {"enc/split": {"value": 4.0}, "enc.fc/mm": {"value": 5.0}}


def test_overlays_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="an overlay must be 'dtype', 'rewrite', a profile"):
        ortable.draw(stack(), tmp_path / "m.json", overlays=["dtypes"])
    for text in ("[]", "{", '{"nodes": [1]}', '{"nodes": [{"us": 1.0}]}'):
        (tmp_path / "p.json").write_text(text)
        with pytest.raises(InputError, match=r"p\.json' is not a profile"):
            ortable.draw(stack(), tmp_path / "m.json", overlays=[tmp_path / "p.json"])
    assert not (tmp_path / "m.json").exists()
