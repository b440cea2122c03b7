"""Locate errors of ONNX Runtime in the user's model: the message names a node of the ONNX graph,
whose metadata_props have its source line. Sessions of the backend and the exporter's validation
call it.
"""

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


def locate_error(error: object, model: ModelProto | None) -> tuple[str, list[str]]:
    """What ONNX Runtime says, without its codes, and lines about the node that it names: the
    user's line, the operator. No line where the model does not have the node."""
    text = str(error).strip()
    node = None if model is None else node_of(text, model)
    words = _CODE.sub("", text)
    if node is None:
        return words, []
    return _STATUS.sub("", words), list(describe_origin(node))


def node_of(text: str, model: ModelProto) -> NodeProto | None:
    """The node of the model that a message of ONNX Runtime names; None where that is none, or one
    that ONNX Runtime made of several."""
    for pattern in _NAMED:
        match = pattern.search(text)
        if match is None:
            continue
        names = [node for node in _all_nodes(model) if node.name == match["name"]]
        if names and match["name"]:
            return names[0]
    return None


def describe_origin(node: NodeProto) -> Iterator[str]:
    """Lines about where a node comes from."""
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    if "source" in metadata:
        yield f"  source: {metadata['source']}"
    parts = [f"ONNX node '{node.name}' ({node.op_type})"]
    if "aten_target" in metadata:
        parts.append(f"made of {metadata['aten_target']}")
    if "module_path" in metadata:
        parts.append(f"in module {metadata['module_path']}")
    yield f"  {', '.join(parts)}"


def source_suffix(lines: Iterable[str]) -> str:
    """`` at model.py:7`` of the lines that ``located`` gives; empty where they have none."""
    for line in lines:
        match = re.match(r"  source: (\S+?:\d+)", line)
        if match:
            return f" at {match[1]}"
    return ""


def _all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    todo: list[Any] = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    while todo:
        node = todo.pop(0)
        yield node
        for attribute in node.attribute:
            graphs = [attribute.g, *attribute.graphs] if attribute.HasField("g") else []
            todo.extend(inner for graph in graphs for inner in graph.node)
