"""A node of the graph under construction, and the origin of nodes.

A `Node` is about ten times cheaper than a NodeProto, which `ir.proto.node_proto` makes when the
model is written. The origin is the FX node that results are named after. A node made by a rewrite
has a `RewriteOrigin` as origin: the rule and the origin of the replaced node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Node:
    """One ONNX node.

    Args:
        op_type: the operator, for example ``"MatMul"``.
        inputs: names of results, ``""`` for an omitted input.
        outputs: names of the results that the node makes, ``""`` for an omitted output.
        domain: domain of the operator; ``""`` is ONNX's main domain.
        name: the name of the node.
        attrs: attributes by name: Python values, numpy arrays, torch tensors, protobuf messages,
            or, for subgraphs, graphs under construction.
        origin: the FX node that the node is made for, a `RewriteOrigin`, or a dict of metadata.
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
        # key of the generated tables, for example "Add" or "com.microsoft::FusedMatMul"
        self.key = f"{domain}::{op_type}" if domain else op_type

    def __repr__(self) -> str:
        attrs = "".join(f", {key}={value!r}" for key, value in self.attrs.items())
        return f"{self.key}({', '.join(self.inputs)}{attrs}) -> {', '.join(self.outputs)}"


# key of metadata_props whose text lists the rules that made the node, the last rule first
REWRITES_KEY = "ortable.passes.rewrite"


@dataclass(frozen=True, eq=False)
class RewriteOrigin:
    """Origin of a node made by a rewrite.

    ``rule`` is the name of the rewrite, ``source`` the origin of the first node that it replaced.
    """

    rule: str
    source: Any

    def rule_chain(self) -> str:
        """Join the names of the rules that led to the node with commas, the last rule first."""
        names = [self.rule]
        source = self.source
        while isinstance(source, RewriteOrigin):
            names.append(source.rule)
            source = source.source
        return ", ".join(dict.fromkeys(names))

    @property
    def name(self) -> str | None:
        """Prefix of the names of the node's results: the FX node's name, or None without one."""
        return fx_node_name(self.find_original())

    def find_original(self) -> Any:
        """Follow ``source`` to the first origin that is not a RewriteOrigin."""
        source = self.source
        while isinstance(source, RewriteOrigin):
            source = source.source
        return source


def fx_node_name(origin: Any) -> str | None:
    """Return the name of the FX node of an origin, or None.

    Automatic names of results start with this name.
    """
    if origin.__class__ is dict:
        return origin.get("fx_node")
    return getattr(origin, "name", None)
