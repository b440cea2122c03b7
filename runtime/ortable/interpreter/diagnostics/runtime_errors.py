"""Errors of ONNX Runtime in words of the user's model: its message names a node of the ONNX graph,
whose metadata_props have the line that the node comes from. In come a message and a model, out
go lines of text. Called by the backend's sessions and calls, and by the exporter's validation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from onnx import ModelProto, NodeProto

# `running Gather node. Name:'embedding' Status Message: ...`, `Node (embedding) Op (Gather)`
_NAMED = (
    re.compile(r"running (?P<op>\w+) node\. Name:'(?P<name>[^']*)'"),
    re.compile(r"Node:? ?\((?P<name>[^)]*)\) Op \((?P<op>\w+)\)"),
    re.compile(r"for node (?P<name>[\w./:]+)"),
    re.compile(r"Name:'(?P<name>[^']*)'"),
)
_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_STATUS = re.compile(
    r"^Non-zero status code returned while running .*? Status Message: ", re.DOTALL
)


def located(error: object, model: ModelProto | None) -> tuple[str, list[str]]:
    """What ONNX Runtime says, without its codes, and lines about the node that it names: the
    user's line, the operator. No line where the model does not have the node."""
    text = str(error).strip()
    node = None if model is None else node_of(text, model)
    words = _CODE.sub("", text)
    if node is None:
        return words, []
    return _STATUS.sub("", words), list(about(node))


def node_of(text: str, model: ModelProto) -> NodeProto | None:
    """The node of the model that a message of ONNX Runtime names; None where that is none, or one
    that ONNX Runtime made of several."""
    for pattern in _NAMED:
        found = pattern.search(text)
        if found is None:
            continue
        names = [node for node in _nodes(model) if node.name == found["name"]]
        if names and found["name"]:
            return names[0]
    return None


def about(node: NodeProto) -> Iterator[str]:
    """Lines about where a node comes from."""
    known = {entry.key: entry.value for entry in node.metadata_props}
    if "source" in known:
        yield f"  source: {known['source']}"
    parts = [f"ONNX node '{node.name}' ({node.op_type})"]
    if "aten_target" in known:
        parts.append(f"made of {known['aten_target']}")
    if "module_path" in known:
        parts.append(f"in module {known['module_path']}")
    yield f"  {', '.join(parts)}"


def place_of(lines: Iterable[str]) -> str:
    """`` at model.py:7`` of the lines that ``located`` gives; empty where they have none."""
    for line in lines:
        found = re.match(r"  source: (\S+?:\d+)", line)
        if found:
            return f" at {found[1]}"
    return ""


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    todo: list[Any] = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    while todo:
        node = todo.pop(0)
        yield node
        for attribute in node.attribute:
            graphs = [attribute.g, *attribute.graphs] if attribute.HasField("g") else []
            todo.extend(inner for graph in graphs for inner in graph.node)
