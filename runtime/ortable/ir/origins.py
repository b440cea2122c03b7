"""What nodes are made for: the FX node that results are named after; for a node that a rewrite
made, what the replaced node was made for, and the rules. Called where nodes are made, rewritten
and written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

KEY = (
    "ortable.passes.rewrite"  # of metadata_props: the rules that made the node, the last one first
)


@dataclass(frozen=True, eq=False)
class Rewritten:
    """Origin of a node made by ``rule`` in place of nodes of which the first had ``source``."""

    rule: str
    source: Any

    def rules(self) -> str:
        """The rules that led to the node, the last one first, as text."""
        names = [self.rule]
        source = self.source
        while isinstance(source, Rewritten):
            names.append(source.rule)
            source = source.source
        return ", ".join(dict.fromkeys(names))

    @property
    def name(self) -> str | None:
        """What the results of the node are named after."""
        return stem(self.original())

    def original(self) -> Any:
        """What the first replaced node was made for."""
        source = self.source
        while isinstance(source, Rewritten):
            source = source.source
        return source


def stem(origin: Any) -> str | None:
    """The name of the FX node of an origin, which the names of results inside a lowering start
    with; None where there is none."""
    if origin.__class__ is dict:
        return origin.get("fx_node")
    return getattr(origin, "name", None)
