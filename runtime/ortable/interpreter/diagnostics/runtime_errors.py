"""Find the node and source line that an error of ONNX Runtime refers to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from onnx import ModelProto, NodeProto

# for example `running Gather node. Name:'embedding' Status Message: ...`
_NODE_PATTERNS = (
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
    """Return the message of an ONNX Runtime error without codes, and lines about its node.

    There are no lines if ``model`` is None or has no node of the name in the message.
    """
    text = str(error).strip()
    node = None if model is None else find_named_node(text, model)
    message = _CODE.sub("", text)
    if node is None:
        return message, []
    return _STATUS.sub("", message), list(describe_origin(node))


def find_named_node(text: str, model: ModelProto) -> NodeProto | None:
    """Return the node of the model that a message of ONNX Runtime names.

    It is None if the model has no such node, for example because ONNX Runtime fused several.
    """
    for pattern in _NODE_PATTERNS:
        match = pattern.search(text)
        if match is None:
            continue
        matches = [node for node in _all_nodes(model) if node.name == match["name"]]
        if matches and match["name"]:
            return matches[0]
    return None


def describe_origin(node: NodeProto) -> Iterator[str]:
    """Yield lines about a node: its source line if known, then name, torch target and module."""
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    if "source" in metadata:
        yield f"  source: {metadata['source']}"
    parts = [f"ONNX node '{node.name}' ({node.op_type})"]
    if "aten_target" in metadata:
        parts.append(f"made from {metadata['aten_target']}")
    if "module_path" in metadata:
        parts.append(f"in module {metadata['module_path']}")
    yield f"  {', '.join(parts)}"


def source_suffix(lines: Iterable[str]) -> str:
    """Return `` at model.py:7`` from lines of `locate_error`, or an empty string."""
    for line in lines:
        match = re.match(r"  source: (\S+?:\d+)", line)
        if match:
            return f" at {match[1]}"
    return ""


def _all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    pending: list[Any] = [
        *model.graph.node,
        *(function_node for function in model.functions for function_node in function.node),
    ]
    while pending:
        node = pending.pop(0)
        yield node
        for attribute in node.attribute:
            graphs = [attribute.g, *attribute.graphs] if attribute.HasField("g") else []
            pending.extend(inner for graph in graphs for inner in graph.node)
