"""DOT text and its rendering by graphviz: clusters, folding, escaping, depth, and errors."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import ortable
from ortable.errors import InputError, OptionError, OrtableError
from ortable.ir.pictures import draw as drawing
from ortable.ir.pictures.dot import operator_color
from ortable.ir.pictures.draw import DrawStyle, render_model, to_dot
from ortable.ir.pictures.view import count_text
from tests.ir.pictures.models import MODELS, TIMES, count_nodes, loop_and_branch, make_chain, stack

DOT = pytest.mark.skipif(shutil.which("dot") is None, reason="needs the dot program")
SVG = "{http://www.w3.org/2000/svg}"


def list_declared_keys(dot: str) -> list[str]:
    """Return the keys of declared boxes, without clusters."""
    return re.findall(r"^\s*(\w+) \[(?:label)", dot, re.MULTILINE)


def list_operators(dot: str) -> list[str]:
    return re.findall(r'colspan="2" bgcolor="[^"]*"><b>(\w+)</b>', dot)


@pytest.mark.parametrize("model", MODELS)
def test_what_is_open_is_declared_once_and_edges_join_what_is_declared(model) -> None:
    for depth in range(5):
        dot = to_dot(model(), depth=depth)
        keys = list_declared_keys(dot)
        assert len(keys) == len(set(keys))
        edges = re.findall(r"^  (\w+) -> (\w+) \[", dot, re.MULTILINE)
        assert {key for pair in edges for key in pair} <= set(keys)
        assert len(edges) == len(set(edges))
    assert len(list_operators(to_dot(model(), depth=9, fold=False))) == count_nodes(model())


def test_clusters_are_modules_with_name_and_class() -> None:
    dot = to_dot(stack(), depth=9)
    titles = re.findall(r"label=<<b>([^<]*)</b>(?:  <font[^>]*>(\w+)</font>)?>", dot)
    assert titles == [
        (f"layers.0 … layers.11  {TIMES} 12", "Block"), ("layers.0", "Block"),
        ("norm", "LayerNorm"),
        ("fc", "Linear"), ("head", "Linear"),
    ]  # fmt: skip
    assert dot.count("subgraph cluster_") == 5
    assert dot.index("cluster_") < dot.index("LayerNormalization")


def test_the_count_and_what_one_of_the_blocks_has() -> None:
    dot = to_dot(stack(), depth=9)
    (box,) = re.findall(r"^.*layers\.1 … layers\.11.*$", dot, re.MULTILINE)
    assert f"layers.1 … layers.11  {TIMES} 11" in box and "each equal to the first" in box
    node_count = (count_nodes(stack()) - 1) // 12
    assert f"{node_count} nodes, 28 weights each" in box
    collapsed = to_dot(stack(), depth=0)
    assert f"layers.0 … layers.11  {TIMES} 12" in collapsed and "cluster_" not in collapsed


def test_rows_can_be_left_out() -> None:
    dot = to_dot(stack(), depth=9)
    assert ">weight</font>" in dot and ">epsilon</font>" in dot and "float32[2, 4]" in dot
    assert ">weight</font>" not in to_dot(stack(), depth=9, weights=False)
    assert ">epsilon</font>" not in to_dot(stack(), depth=9, attributes=False)
    assert "rankdir=LR" in to_dot(stack(), rankdir="LR")


def test_edges_have_types_and_long_ones_stand_out() -> None:
    dot = to_dot(stack(), depth=9)
    assert 'label="  float32[n, 4]"' in dot
    assert "style=dashed" in to_dot(loop_and_branch()) and "style=dashed, color" not in dot
    residuals = to_dot(stack(), depth=9, fold=False).count("penwidth=1.8")
    assert residuals == 11  # around three nodes; the first block's edge starts at the input


def test_a_picture_is_opened_as_deep_as_it_fits() -> None:
    assert len(list_declared_keys(to_dot(stack()))) <= 24
    assert "LayerNormalization" in to_dot(stack())
    assert len(list_declared_keys(to_dot(make_chain(5000)))) <= 24


def test_one_module_has_what_it_reads_and_what_is_read_of_it() -> None:
    dot = to_dot(stack(), module="layers.4", depth=9)
    assert list_operators(dot)[0] == "LayerNormalization" and "layers.5" not in dot
    blue, green = dot.count("#cfe8ff"), dot.count("#d3f2d3")
    assert (blue, green) == (1, 1)
    assert 'label="layers.4  Block"' in dot
    assert list_operators(to_dot(stack(), module="Block", depth=9)) == list_operators(dot)
    with pytest.raises(OptionError, match=r"no module 'layers.44': it has layers.4, .* others"):
        to_dot(stack(), module="layers.44")
    with pytest.raises(OptionError, match="have no metadata about modules"):
        to_dot(make_chain(3), module="a")


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({"depth": -1}, {"depth": "2"}, {"rankdir": "down"}):
        with pytest.raises(OptionError, match=r"^(depth|rankdir) must be"):
            to_dot(stack(), **options)
    for path in ("x.html", "x.HTM"):
        with pytest.raises(OptionError, match=r"cannot draw an .html file. .* Model Explorer"):
            ortable.draw(stack(), tmp_path / path)
    with pytest.raises(OptionError, match=r"overlays require a .json"):
        ortable.draw(stack(), tmp_path / "x.dot", overlays=["dtype"])
    assert not list(tmp_path.iterdir())
    with pytest.raises(OptionError, match="does not exist"):
        ortable.draw(stack(), tmp_path / "none" / "x.dot")
    for name, content in (("text.onnx", b"not a model"), ("empty.onnx", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name}' is not an ONNX model"):
            ortable.draw(tmp_path / name, tmp_path / "x.dot")
    monkeypatch.setattr(drawing, "MAX_BOXES", 20)
    with pytest.raises(OptionError, match=r"\d+ boxes, more than 20: give depth=0, module="):
        render_model(stack(), "svg", DrawStyle(depth=5, fold=False))
    with pytest.raises(OptionError, match=r"52 boxes, more than 20: give module=.* a .json for"):
        render_model(make_chain(50), "svg", DrawStyle(fold=False))


@DOT
def test_a_format_that_graphviz_lacks_and_axes_without_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OrtableError, match="graphviz could not draw format 'docx': unknown format"):
        ortable.draw(make_chain(3), tmp_path / "x.docx")
    assert not list(tmp_path.iterdir())
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OrtableError, match=r"plot_dot requires matplotlib: .*ortable\[plot\]"):
        ortable.plot_dot(make_chain(3))


HOSTILE = "a\"b<i>&c\\d'e]]>\x07é</script>"


def make_hostile_model() -> ModelProto:
    """Return a model whose names are special in DOT, HTML or JavaScript."""
    x = helper.make_tensor_value_info(f"x{HOSTILE}", TensorProto.FLOAT, [f"n{HOSTILE}"])
    y = helper.make_tensor_value_info(f"y{HOSTILE}", TensorProto.FLOAT, None)
    weight = numpy_helper.from_array(np.ones((2, 2), np.float32), f"w{HOSTILE}")
    nodes = [
        helper.make_node("MatMul", [x.name, weight.name], ["m"], name=f"/{HOSTILE}/mm"),
        helper.make_node(
            "Odd", ["m"], [y.name], domain=HOSTILE, note=HOSTILE, name=f"/q{HOSTILE}/r"
        ),
    ]
    return helper.make_model(helper.make_graph(nodes, HOSTILE, [x], [y], [weight]))


def test_hostile_names_are_escaped() -> None:
    dot = to_dot(make_hostile_model())
    assert "<i>" not in re.sub(r'"(?:[^"\\]|\\.)*"', "", dot)
    assert "&quot;b&lt;i&gt;&amp;c" in dot and "\x07" not in dot
    assert '\\"b<i>&amp;c\\\\d' in dot  # in a tooltip


@DOT
@pytest.mark.parametrize("model", [*MODELS, make_hostile_model])
def test_graphviz_draws_it(model, tmp_path: Path) -> None:
    ortable.draw(model(), tmp_path / "x.svg", depth=9)
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    text = " ".join("".join(element.itertext()) for element in root.iter(f"{SVG}text"))
    for operator in list_operators(to_dot(model(), depth=9)):
        assert operator in text
    if model is make_hostile_model:
        assert "<i>&c" in text.replace("\N{NO-BREAK SPACE}", " ")


@DOT
def test_a_png_of_ten_thousand_nodes(tmp_path: Path) -> None:
    ortable.draw(make_chain(10_000, lambda i: f"/enc/layer.{i // 100}/op"), tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_every_model_that_onnx_brings_is_drawn() -> None:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    files = sorted(folder.glob("*/*/model.onnx"))
    assert len(files) > 50
    texts = []
    for file in files:
        model = onnx.load(file)
        texts.append(to_dot(model, depth=9, fold=False))
        assert len(list_operators(texts[-1])) == count_nodes(model), file
        (graph,) = json.loads(render_model(model, "json"))["graphs"]
        assert len({node["id"] for node in graph["nodes"]}) == len(graph["nodes"])
    if shutil.which("dot") is not None:
        completed = subprocess.run(
            ["dot", "-Tcanon"], input="".join(texts), text=True, capture_output=True
        )
        assert completed.returncode == 0 and not completed.stderr
        assert completed.stdout.count("digraph onnx") == len(files)


def test_programs_paths_and_large_models_are_drawn(tmp_path: Path) -> None:
    import torch

    program = ortable.export(torch.nn.Linear(2, 3), (torch.rand(1, 2),), large_model=True)
    onnx.save(stack(), tmp_path / "m.onnx")
    for model in (program, program.model, tmp_path / "m.onnx", stack().graph):
        ortable.draw(model, tmp_path / "x.dot")
        assert (tmp_path / "x.dot").read_text().startswith("digraph onnx {")
    program.draw(tmp_path / "y.json", overlays=["dtype"])
    assert json.loads((tmp_path / "y.json").read_text())["label"] == "Linear"
    assert "float32" in (tmp_path / "y.dtype.json").read_text()
    with pytest.raises(TypeError, match="give a ModelProto"):
        ortable.draw(3, tmp_path / "x.dot")


def test_colors_and_counts() -> None:
    assert operator_color("Relu") == operator_color("Relu") != operator_color("Add")
    assert [count_text(n) for n in (7, 1500, 7_090_000, 10**10)] == ["7", "1.5 k", "7.09 M", "10 G"]
