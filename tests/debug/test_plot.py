"""Drawings of graphs: DOT text without dependencies, and clear errors if a tool is missing."""

from __future__ import annotations

import itertools
import re
import shutil
import sys

import pytest
from onnx import TensorProto, helper

from ortable.debug.plot import draw_onnx, plot_dot, to_dot
from ortable.errors import OrtableError


@pytest.fixture
def model():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y]))


def test_dot_text_links_every_node(model):
    dot = to_dot(model)
    assert dot.startswith("digraph")
    assert "<b>Relu</b>" in dot and "<b>Neg</b>" in dot
    assert "float32[batch, 3]" in dot
    keys = [re.search(rf"(k\d+) \[.*<b>{name}</b>", dot)[1] for name in ("x", "Relu", "Neg", "y")]
    for source, target in itertools.pairwise(keys):
        assert f"{source} -> {target} " in dot


def test_missing_dot_program_names_the_remedy(model, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OrtableError, match=r"'dot'.*graphviz"):
        draw_onnx(model)
    with pytest.raises(OrtableError, match="apt install graphviz"):
        plot_dot(model)


def test_missing_graphviz_package_names_the_extra(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(OrtableError, match=r"ortable\[plot\]"):
        draw_onnx(model)


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs the dot program")
def test_plot_dot_returns_axes(model):
    import matplotlib

    matplotlib.use("Agg")
    ax = plot_dot(model)
    assert len(ax.images) == 1
    assert draw_onnx(model, "svg").lstrip().startswith(b"<?xml")


def test_other_objects_are_refused_by_name():
    with pytest.raises(TypeError, match="ModelProto"):
        to_dot(3)
