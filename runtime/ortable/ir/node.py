"""A node of the graph under construction: plain Python, about ten times cheaper than a NodeProto.
It becomes protobuf once, in serialize.py."""

from __future__ import annotations

from typing import Any


class Node:
    """One ONNX node. ``""`` among the inputs or outputs is an omitted one.

    ``attrs`` holds Python values, numpy arrays, protobuf messages, or GraphBuilders for
    subgraphs. ``origin`` is what the node was made for (an FX node), or a dict of metadata
    already in text.

    Args:
        op_type: the operator, ``"MatMul"``.
        inputs: names of results, ``""`` for one that is omitted.
        outputs: names of the results it makes.
        domain: of the operator; ``""`` is ONNX's own.
        name: the name of the node.
        attrs: attributes by name.
        origin: what the node was made for.
    """

    __slots__ = ("attrs", "domain", "inputs", "key", "name", "op_type", "origin", "outputs")

    def __init__(
        self,
        op_type: str,
        inputs: list[str],
        outputs: list[str],
        domain: str = "",
        name: str = "",
        attrs: dict[str, Any] | None = None,
        origin: object = None,
    ) -> None:
        self.op_type = op_type
        self.domain = domain
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = {} if attrs is None else attrs
        self.name = name
        self.origin = origin
        # the operator as written in the generated tables: Add, com.microsoft::FusedMatMul
        self.key = f"{domain}::{op_type}" if domain else op_type

    def __repr__(self) -> str:
        attrs = "".join(f", {k}={v!r}" for k, v in self.attrs.items())
        return f"{self.key}({', '.join(self.inputs)}{attrs}) -> {', '.join(self.outputs)}"
