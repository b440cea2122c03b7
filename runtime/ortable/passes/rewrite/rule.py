"""What codegen makes of a rewrite: a row with a matcher and a maker, and what a matcher gives. Data
alone: written by generated modules, read by `choose`, the engine and replacements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ortable.ir.node import Node

STAGES = ("simplify", "fuse", "runtime", "arrange")


class Match(NamedTuple):
    """A place where a pattern fits.

    ``nodes``: every node of the pattern, those that make the results first; ``results``: the names
    of the results that are replaced; ``values``: what the maker takes after graph and ``res``.
    """

    nodes: tuple[Node, ...]
    results: tuple[str, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Rule:
    """One pattern of a rewrite; a rewrite with alternatives has one row for each.

    Attributes:
        name: of the rewrite; `-name` in the argument ``rewrites`` switches it off.
        file: the spec file, ``specs/rewrites/linear.yaml`` or the user's.
        stage: one of STAGES; every stage runs to its fixpoint before the next.
        root: operator of the node that the matcher is called with, ``Add`` or
            ``com.microsoft::Gelu``.
        child: an operator that one input of the root must come from; ``""`` for none.
        size: number of nodes of the pattern; larger patterns are tried first.
        match: returns a Match or None, and tells the Matcher why a node that looked right is not.
        make: builds the replacement, as a converter does.
        shared: intermediate results that may have readers outside the pattern, by place in
            ``Match.nodes``.
        target: ``"onnxruntime"`` for a rule that is right in graphs built for ONNX Runtime only.
        opsets: first and last opset of the main domain that the rule is for.
        off: why the rule is not among the default ones; empty when it is.
        why: what the rewrite is good for, in a sentence.
    """

    name: str
    file: str
    stage: str
    root: str
    child: str
    size: int
    match: Callable[[Any, Node], Match | None]
    make: Callable[..., Any]
    shared: tuple[int, ...] = ()
    target: str = ""
    opsets: tuple[int, int] = (0, 1000)
    off: str = ""
    why: str = ""
