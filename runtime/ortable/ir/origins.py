"""What a node that a rewrite made was made for: what the replaced node was made for, and by which
rules."""

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

    def original(self) -> Any:
        """What the first replaced node was made for."""
        source = self.source
        while isinstance(source, Rewritten):
            source = source.source
        return source
