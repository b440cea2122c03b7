"""A node of the graph under construction, and the origin of nodes.

It is plain Python, about ten times cheaper than a NodeProto, which `ir.proto.node_proto` writes
once. The origin is the FX node that results are named after; of a node made by a rewrite, the
origin of the replaced node and the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
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


# of metadata_props: the rules that made the node, the last one first
REWRITES = "ortable.passes.rewrite"


@dataclass(frozen=True, eq=False)
class Rewritten:
    """Origin of a node made by ``rule`` in place of nodes of which the first had ``source``."""

    rule: str
    source: Any

    def rule_chain(self) -> str:
        """Return the rules that led to the node as text, the last one first."""
        names = [self.rule]
        source = self.source
        while isinstance(source, Rewritten):
            names.append(source.rule)
            source = source.source
        return ", ".join(dict.fromkeys(names))

    @property
    def name(self) -> str | None:
        """The prefix of the names of the node's results."""
        return name_stem(self.find_original())

    def find_original(self) -> Any:
        """Return the origin of the first replaced node."""
        source = self.source
        while isinstance(source, Rewritten):
            source = source.source
        return source


def name_stem(origin: Any) -> str | None:
    """Return the FX node's name of an origin, or None.

    Names of results inside a lowering start with it.
    """
    if origin.__class__ is dict:
        return origin.get("fx_node")
    return getattr(origin, "name", None)
