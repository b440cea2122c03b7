"""The scene of a model: one box per node, grouped by module, with repeats folded.

Weights are rows of boxes; subgraphs and functions are groups.
"""

from __future__ import annotations

import graphlib

import numpy as np
import pytest
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper

import ortable
from ortable.ir.pictures.modules import (
    compact_classes,
    make_class_lookup,
    steps_from_node,
    steps_from_path,
)
from ortable.ir.pictures.read import read_scene
from ortable.ir.pictures.scene import Group, Scene, boxes_of, groups_of
from ortable.ir.pictures.view import fold_repeats, gather_ends
from tests.ir.pictures.models import (
    MODELS,
    TIMES,
    count_nodes,
    function_model,
    loop_and_branch,
    make_chain,
    node_boxes,
    reused,
    stack,
)


def list_groups(scene: Scene, role: str) -> list[Group]:
    return [group for group in groups_of(scene.root) if group.role == role]


def fold(model: ModelProto) -> Scene:
    scene = read_scene(model)
    fold_repeats(scene)
    return scene


@pytest.mark.parametrize("model", MODELS)
def test_every_node_is_one_box_also_when_blocks_are_folded(model) -> None:
    proto = model()
    scene = read_scene(proto)
    boxes = node_boxes(scene)
    assert len(boxes) == count_nodes(proto)
    fold_repeats(scene)
    gather_ends(scene.root)
    assert node_boxes(scene) == boxes  # the same boxes in the same order
    endpoints = {*boxes_of(scene.root)}
    assert all(edge.source in endpoints and edge.target in endpoints for edge in scene.edges)


def test_modules_are_groups_with_their_classes() -> None:
    scene = read_scene(stack())
    classes = {group.path: (group.name, group.kind) for group in list_groups(scene, "module")}
    assert classes["layers.3"] == ("layers.3", "Block")
    assert classes["layers.3.fc"] == ("fc", "Linear")
    assert classes["head"] == ("head", "Linear")
    assert len(classes) == 12 * 3 + 1
    for box in node_boxes(scene):
        assert box.about.get("module_path", "") == box.group.path


def test_weights_are_rows_and_inputs_and_outputs_are_boxes() -> None:
    scene = read_scene(stack())
    roles = [(box.role, box.title) for box in boxes_of(scene.root) if box.role != "node"]
    assert roles == [("input", "x"), ("output", "output_0")]
    rows = [row for box in node_boxes(scene) for row in box.weights]
    names = [row.full_name for row in rows]
    for tensor in stack().graph.initializer:
        assert tensor.name in names
    head = next(box for box in node_boxes(scene) if box.group.path == "head")
    assert [(row.name, row.text) for row in head.weights] == [
        ("weight", "float32[2, 4]"),
        ("bias", "float32[2]"),
    ]
    assert head.parameters == 10 and head.outputs == ("float32[n, 2]",)
    assert all(edge.type for edge in scene.edges)


def test_small_constants_show_their_values() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    shape = numpy_helper.from_array(np.array([2, -1]), "auto_1")
    scale = helper.make_node("Constant", [], ["scale"], value_float=0.5)
    nodes = [
        scale,
        helper.make_node("Reshape", ["x", "auto_1"], ["a"], allowzero=1),
        helper.make_node("Mul", ["a", "scale"], ["b"]),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.INT32),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [2, 2])
    reshape, mul, cast = node_boxes(
        read_scene(helper.make_model(helper.make_graph(nodes, "g", [x], [y], [shape])))
    )
    assert [(row.name, row.text) for row in reshape.weights] == [("shape", "[2, -1]")]
    assert [(row.name, row.text) for row in reshape.attributes] == [("allowzero", "1")]
    assert [(row.name, row.text) for row in mul.weights] == [("B", "0.5")]
    assert [(row.name, row.text) for row in cast.attributes] == [("to", "int32")]
    assert reshape.outputs == ("float32[2, 2]",)  # inferred, because the model has no value_info


def test_a_module_that_is_called_again_has_two_parts_and_no_way_leads_back() -> None:
    scene = read_scene(reused())
    parts = [(g.name, g.part, g.title()) for g in scene.root.items if isinstance(g, Group)]
    assert parts == [("fc", 1, "fc"), ("norm", 1, "norm"), ("fc", 2, "fc (part 2)")]
    predecessors: dict[object, set[object]] = {}
    top_item = {box: item for item in scene.root.items for box in boxes_of(item)}
    for edge in scene.edges:
        if top_item[edge.source] is not top_item[edge.target]:
            predecessors.setdefault(top_item[edge.target], set()).add(top_item[edge.source])
    assert len(list(graphlib.TopologicalSorter(predecessors).static_order())) == 5


def test_graphs_inside_nodes_are_groups_that_edges_lead_into() -> None:
    scene = read_scene(loop_and_branch())
    names = {group.name for group in list_groups(scene, "body")}
    assert names == {"Loop: body", "If: then_branch", "If: else_branch"}
    (cell,) = list_groups(scene, "module")
    assert (cell.path, cell.kind) == ("cell", "Linear")
    body = next(group for group in list_groups(scene, "body") if group.name == "Loop: body")
    inside = {*boxes_of(body)}
    assert cell in groups_of(body)
    incoming = [edge for edge in scene.edges if edge.target in inside and edge.source not in inside]
    assert incoming and all(edge.inner for edge in incoming)
    assert "n" in {edge.name for edge in incoming}  # captured
    assert {"Loop"} == {e.source.title for e in incoming if e.target.role == "input"}
    for group in list_groups(scene, "body"):
        assert any(e.inner and e.target in {*boxes_of(group)} for e in scene.edges)


def test_calls_of_functions_are_groups_with_their_nodes_and_weights() -> None:
    scene = read_scene(function_model())
    calls = [group for group in list_groups(scene, "function") if group.kind == "Block"]
    assert [group.path for group in calls] == [f"layers.{n}" for n in range(4)]
    linear_paths = [group.path for group in groups_of(calls[2]) if group.kind == "Linear"]
    assert linear_paths == ["layers.2.fc"]
    weight_names = {row.full_name for box in boxes_of(calls[2]) for row in box.weights}
    assert any(name.startswith("layers.2.fc.") for name in weight_names)
    group_pairs = {(edge.source.group, edge.target.group) for edge in scene.edges}
    assert all(source is not None and target is not None for source, target in group_pairs)


def test_weights_that_are_inputs_of_a_training_graph_are_rows() -> None:
    x, w, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 3])
        for name in ("x", "fc.w", "y")
    )
    node = helper.make_node("MatMul", ["x", "fc.w"], ["y"], name="fc/matmul")
    scene = read_scene(helper.make_model(helper.make_graph([node], "g", [x, w], [y])))
    (box,) = node_boxes(scene)
    assert [(row.name, row.text) for row in box.weights] == [("w", "float32[3, 3] input")]
    assert box.parameters == 9
    assert [item.title for item in boxes_of(scene.root) if item.role == "input"] == ["x"]


def test_the_three_ways_to_say_of_which_module_a_node_is() -> None:
    types = make_class_lookup("layer1=Sequential; layer1.*=Block; layer1.*.conv=Conv2d")
    node = helper.make_node("Conv", ["x"], ["y"], name="/enc/layer.0/fc/MatMul")
    from_ortable = steps_from_node(node, {"module_path": "layer1.0.conv", "fx_node": "conv"}, types)
    assert [tuple(part) for part in from_ortable] == [
        ("layer1", "layer1", "Sequential"),
        ("0", "layer1.0", "Block"),
        ("conv", "layer1.0.conv", "Conv2d"),
    ]
    from_torch = steps_from_node(
        node,
        {
            "pkg.torch.onnx.name_scopes": "['', 'enc', 'enc.layer.0', 'linear']",
            "pkg.torch.onnx.class_hierarchy": "['a.Model', 'a.Enc', 'a.Layer', 'aten.linear']",
        },
        types,
    )
    assert [tuple(part) for part in from_torch] == [
        ("enc", "enc", "Enc"),
        ("layer.0", "enc.layer.0", "Layer"),
    ]
    from_name = steps_from_node(node, {}, types)
    assert [part.path for part in from_name] == ["enc", "enc.layer.0", "enc.layer.0.fc"]
    node.name = "layer1.1/relu"
    assert [part.path for part in steps_from_node(node, {}, types)] == ["layer1", "layer1.1"]
    node.name = "plain"
    assert steps_from_node(node, {}, types) == ()


def test_numbers_join_the_name_before_them() -> None:
    names = [part.name for part in steps_from_path("a.layers.0.1.b", lambda path: "")]
    assert names == ["a", "layers.0", "1", "b"]


def test_classes_are_written_shortly_and_read_again() -> None:
    classes = {f"layers.{n}": "Block" for n in range(12)} | {
        "net.0": "Linear", "net.1": "ReLU", "layers.3.fc": "Linear", "head": "Linear",
    }  # fmt: skip
    text = compact_classes(classes)
    assert text.split("; ") == [
        "layers.*=Block", "net.0=Linear", "net.1=ReLU", "layers.*.fc=Linear", "head=Linear",
    ]  # fmt: skip
    class_of = make_class_lookup(text)
    assert {path: class_of(path) for path in classes} == classes
    assert class_of("layers") == "" == class_of("net.2")


def test_twelve_blocks_are_one_and_eleven() -> None:
    scene = fold(stack())
    (repeat,) = list_groups(scene, "repeat")
    assert (repeat.times, repeat.kind) == (12, "Block")
    assert repeat.title() == f"layers.0 … layers.11  {TIMES} 12"
    first, rest = repeat.items
    assert first.path == "layers.0"
    assert rest.role == "others" and rest.title() == f"layers.1 … layers.11  {TIMES} 11"
    assert [item.path for item in rest.items] == [f"layers.{n}" for n in range(1, 12)]


def test_functions_that_are_called_in_a_row_are_folded() -> None:
    (repeat,) = list_groups(fold(function_model()), "repeat")
    assert repeat.times == 4 and repeat.items[0].role == "function"


class Uneven(torch.nn.Module):
    """Blocks that differ in size or in an attribute."""

    def __init__(self, difference: str) -> None:
        super().__init__()
        self.difference = difference
        sizes = [4, 5, 6, 7, 8] if difference == "size" else [4] * 5
        self.layers = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.Linear(size, sizes[min(n + 1, 4)]),
                torch.nn.LeakyReLU(0.1 * (n + 1) if difference == "attribute" else 0.1),
                torch.nn.Tanh(),
            )
            for n, size in enumerate(sizes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("difference", "count"), [("size", 0), ("attribute", 0), ("nothing", 1)])
def test_blocks_that_differ_are_not_folded(difference: str, count: int) -> None:
    proto = ortable.to_onnx(Uneven(difference), (torch.rand(2, 4),))
    assert len(list_groups(fold(proto), "repeat")) == count


def test_ways_inside_of_blocks_matter() -> None:
    """Add(a, a) and Add(a, b) have the same operators, but form different blocks."""
    nodes, last = [], "x"
    for n in range(6):
        other = f"a{n}" if n % 2 else last
        nodes += [
            helper.make_node("Exp", [last], [f"a{n}"]),
            helper.make_node("Neg", [f"a{n}"], [f"b{n}"]),
            helper.make_node("Add", [f"b{n}", other], [f"c{n}"]),
        ]
        last = f"c{n}"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", last))
    (repeat,) = list_groups(
        fold(helper.make_model(helper.make_graph(nodes, "g", [x], [y]))), "repeat"
    )
    assert repeat.times == 3  # only pairs of blocks are equal
    assert len(list(boxes_of(repeat.items[0]))) == 1 and len(repeat.items) == 7


def test_a_graph_without_modules_is_folded() -> None:
    scene = fold(make_chain(100))
    (repeat,) = list_groups(scene, "repeat")
    assert repeat.times == 20 and len(node_boxes(scene)) == 100


def test_many_outputs_are_a_few_and_a_group() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    names = [f"y{n}" for n in range(40)]
    nodes = [helper.make_node("Relu", ["x"], [name]) for name in names]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in names]
    scene = read_scene(helper.make_model(helper.make_graph(nodes, "g", [x], outputs)))
    gather_ends(scene.root)
    (rest,) = list_groups(scene, "ends")
    assert rest.name == "37 more outputs" and len(rest.items) == 37
