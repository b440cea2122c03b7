"""Hostile models raise only errors of ortable, and nothing allocates what their sizes claim."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto

import ortable
from ortable.errors import BuilderError, InputError, OrtableError
from ortable.ir.pictures.draw import render_model
from ortable.ir.proto.large_model import LargeModel
from tests.rotation import rotation_seed

from . import models

_EXTRA_BYTES = 2 << 30  # bytes that a test may allocate beyond the current size of the process


@pytest.fixture(autouse=True)
def limit_memory() -> Iterator[None]:
    """Limit the address space, so that a giant allocation fails instead of exhausting memory."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    match = re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())
    assert match is not None
    resource.setrlimit(resource.RLIMIT_AS, ((int(match[1]) << 10) + _EXTRA_BYTES, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def _optimize(model: ModelProto) -> None:
    builder = ortable.GraphBuilder(model)
    builder.optimize()
    builder.to_onnx()


_to_json, _to_dot = partial(render_model, format="json"), partial(render_model, format="dot")

ENTRY_POINTS: dict[str, Callable[[ModelProto], object]] = {
    "builder": ortable.GraphBuilder,
    "passes": _optimize,
    "text": ortable.pretty_onnx,
    "whole text": lambda model: ortable.pretty_onnx(model, shorten=False),
    "explorer": _to_json,
    "dot": _to_dot,
}


def _find_accepting(model: ModelProto) -> set[str]:
    """Return the entry points that accept a model; only errors of ortable are caught."""
    accepted = set()
    for name, call in ENTRY_POINTS.items():
        try:
            call(model)
        except OrtableError as error:
            assert error.message
            continue
        accepted.add(name)
    return accepted


@pytest.mark.parametrize("name", models.HOSTILE)
def test_doors(name: str) -> None:
    """No hostile model causes another library's error, a giant allocation or a stack overflow."""
    _find_accepting(models.HOSTILE[name]())


def test_a_harmless_model_passes_every_door() -> None:
    assert _find_accepting(models.model([models.node("Relu", ["x"])])) == set(ENTRY_POINTS)


EXPECTED_ERRORS = {
    "negative size": "negative size",
    "short data": "does not fit",
    "result twice": "two results called 'y'",
    "cycle": "not computed by a node before it",
    "10000 levels": "more than 64 levels deep",
    "names that are not UTF-8": "is not UTF-8",
}


@pytest.mark.parametrize("name", EXPECTED_ERRORS)
def test_the_builder_says_what_is_wrong(name: str) -> None:
    with pytest.raises(BuilderError, match=EXPECTED_ERRORS[name]):
        ortable.GraphBuilder(models.HOSTILE[name]())


def test_the_text_shows_data_that_does_not_fit() -> None:
    text = ortable.pretty_onnx(models.HOSTILE["short data"]())
    assert "does not fit" in text
    assert "shape=(4,)" in text


def test_the_text_holds_nothing_that_a_terminal_obeys() -> None:
    name = "y\x1b]0;title\x07\x1b[2J\x9b31m"
    model = models.model([models.h.make_node("Relu", ["x"], [name]), models.node("Relu", [name])])
    model.doc_string = model.graph.name = name
    text = ortable.pretty_onnx(model)
    assert "\\x1b]0;title" in text
    assert all(letter.isprintable() for letter in text.replace("\n", ""))


def test_functions_without_end_are_drawn_and_not_inlined() -> None:
    assert b'"F"' in _to_json(models.recursive())  # the call inside is a node
    for model in (models.recursive(), models.functions(40)):
        with pytest.raises(BuilderError, match="functions of the model expand to more than"):
            ortable.GraphBuilder(model).to_onnx(inline=True)
    assert ortable.GraphBuilder(models.functions(5)).to_onnx(inline=True).graph.node


def _make_valid_model() -> bytes:
    nodes = [
        models.h.make_node("Gemm", ["x", "w"], ["a"], name="/lin/Gemm", transB=1),
        models.h.make_node("Split", ["a", "s"], ["b", "c"], axis=1),
        models.h.make_node("Concat", ["c", "b"], ["d"], axis=-1),
        models.h.make_node("Reshape", ["d", "t"], ["e"]),
        models.h.make_node("Softmax", ["e"], ["y"], axis=0),
    ]
    arrays = {
        "w": np.ones((4, 2), np.float32),
        "s": np.array([1, 3]),
        "t": np.array([-1]),
    }
    tensors = tuple(models.numpy_helper.from_array(value, name) for name, value in arrays.items())
    model = models.model(nodes, tensors, inputs=[models.h.make_tensor_value_info("x", 1, ["n", 2])])
    model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'lin']")
    return model.SerializeToString()


def test_damaged_bytes() -> None:
    """A few changed bytes raise only errors of ortable; the commit selects the bytes."""
    sources = [
        _make_valid_model(),
        models.functions(4).SerializeToString(),
        models.deep(4).SerializeToString(),
    ]
    first, parsed = rotation_seed(), 0
    for number in range(1500):
        model = models.damaged(first + number, sources[number % len(sources)])
        if model is not None:
            parsed += 1
            _find_accepting(model)
    assert parsed > 40


# -- files


@pytest.mark.parametrize("name", models.EXTERNAL)
def test_external_data(name: str, tmp_path: Path) -> None:
    folder = models.make_folder(tmp_path)
    (folder / "m.onnx").write_bytes(models.EXTERNAL[name]().SerializeToString())
    with pytest.raises(BuilderError, match="'w'"):
        LargeModel.load(folder / "m.onnx")
    # printing the graph reads no weights
    assert "external" in ortable.pretty_onnx(folder / "m.onnx")


def test_external_data_that_overlaps_is_read(tmp_path: Path) -> None:
    """Tensors over the same bytes are views of the file, which is mapped read-only."""
    folder = models.make_folder(tmp_path)
    model = models.external("w.bin")
    twin = model.graph.initializer.add()
    twin.CopyFrom(model.graph.initializer[0])
    twin.name, twin.dims[0], twin.external_data[2].value = "v", 2, "8"
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    tensors = LargeModel.load(folder / "m.onnx").numpy_tensors()
    np.testing.assert_array_equal(tensors["w"], np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(tensors["v"], np.arange(2, dtype=np.float32))
    assert not tensors["w"].flags.writeable


@pytest.mark.parametrize("name", ["up", "absolute", "a link out of the folder"])
def test_onnxruntime_stays_in_the_folder(name: str, tmp_path: Path) -> None:
    """ortable.profile and language models leave reading external data to ONNX Runtime."""
    from ortable.errors import ProviderError

    folder = models.make_folder(tmp_path)
    (folder / "m.onnx").write_bytes(models.EXTERNAL[name]().SerializeToString())
    feeds = {"x": np.zeros(4, np.float32)}
    with pytest.raises((ProviderError, InputError)):
        ortable.profile(str(folder / "m.onnx"), feeds)
    with pytest.raises(onnx.checker.ValidationError):  # reads models for `first_difference`
        onnx.load(folder / "m.onnx")


@pytest.mark.parametrize("ending", [".onnx", ".json", ".textproto", ".onnxtxt", ""])
def test_files_that_are_no_model(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"m{ending}"
    for content in (b"", b"\xff" * 100, b"{" * 2000, b"\0", b"ir_version: x", "é".encode() * 9):
        path.write_bytes(content)
        for load in (ortable.pretty_onnx, lambda p: ortable.draw(p, tmp_path / "o.dot")):
            with pytest.raises(InputError, match=re.escape(str(path))):
                load(path)
    for content, reason in ((b"\xff\xff", "Error parsing"), (b"", "it has no graph")):
        with pytest.raises(InputError, match=f"'bytes' is not an ONNX model: {reason}"):
            ortable.pretty_onnx(content)


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    for load in (ortable.pretty_onnx, lambda p: ortable.draw(p, tmp_path / "o.dot")):
        with pytest.raises(InputError, match="is a folder; give the path of a model"):
            load(tmp_path)
        with pytest.raises(FileNotFoundError, match=r"nothing\.onnx"):
            load(tmp_path / "nothing.onnx")


# -- names in pictures


def test_names_are_data_of_a_graph_of_model_explorer() -> None:
    (graph,) = json.loads(_to_json(models.scripted()))["graphs"]
    inputs, node, outputs = graph["nodes"]
    assert inputs["label"] == f"x{models.SCRIPT}" and outputs["label"] == f"y{models.SCRIPT}"
    assert {"key": models.SCRIPT, "value": models.SCRIPT} in node["attrs"]
    assert node["namespace"] in graph["groupNodeAttributes"]


def test_dot_text_quotes_names(tmp_path: Path) -> None:
    """A name with a quote, a newline or a backslash stays one string of the DOT text."""
    name = 'a" ]; evil [label="x\\'
    model = models.model([models.h.make_node("Relu", ["x"], ["y"], name=name)])
    model.graph.name = name
    text = _to_dot(model).decode()
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", re.sub(r"<<.*?>>", "", text, flags=re.DOTALL))
    assert "evil" not in outside


def test_pages_of_a_profile_quote_names(tmp_path: Path) -> None:
    model = models.scripted()
    del model.graph.node[0].attribute[:]  # ONNX Runtime refuses attributes that Relu has not
    profile = ortable.profile(model, {f"x{models.SCRIPT}": np.zeros(2, np.float32)})
    profile.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "alert(1)" in page  # a name, as text
    assert "<script>alert(1)" not in page and "<img src=x" not in page
