"""Names that nodes of ONNX read. In come nodes, out come names; called by `compile`, and by
`execute.checks`, which also runs where nothing is converted."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import NodeProto


def read_names(nodes: Iterable[NodeProto]) -> set[str]:
    """Names that nodes, or the subgraphs of one, read."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.input)
        for att in node.attribute:
            for inner in [att.g, *att.graphs] if att.HasField("g") else att.graphs:
                names |= read_names(inner.node) | {value.name for value in inner.output}
    return names
