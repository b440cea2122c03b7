"""The tables that codegen generates from rewrites: rules with a matcher and a maker, and matches.
Written by generated modules, read by `rule_selection`, the engine and replacements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from ortable.ir.node import Node

CONSTANT = "="  # the end of a path, in place of an operator: a constant with a value
Path = tuple[tuple[int, str], ...]

STAGES = ("simplify", "fuse", "runtime", "arrange")


class Match(NamedTuple):
    """A place where a pattern matches.

    ``nodes``: every node of the pattern, those that make the results first; ``results``: the names
    of the results that are replaced; ``values``: arguments of the maker after graph and ``res``;
    ``shared``: nodes of intermediate results that may have readers outside the pattern.
    """

    nodes: tuple[Node, ...]
    results: tuple[str, ...]
    values: tuple[Any, ...]
    shared: tuple[Node, ...] = ()


@dataclass(frozen=True, eq=False)
class Rule:
    """The alternatives of a rewrite whose results one operator makes.

    Attributes:
        name: of the rewrite; `-name` in the argument ``rewrites`` switches it off.
        file: the spec file, ``specs/rewrites/linear.yaml`` or the user's.
        stage: one of STAGES; every stage runs to its fixpoint before the next.
        root: operator of the node that the matcher is called with, ``Add`` or
            ``com.microsoft::Gelu``.
        paths: of each alternative, from the root up to one of its producers, as steps: the index
            of an input, -1 for any, and the operator that makes it, or CONSTANT. The pattern can
            match only where one of these paths exists.
        size: number of nodes of the largest alternative; larger ones are tried first.
        home: where matcher and maker are: the name of a module, imported when the rule is first
            tried, or the namespace that a user's file was compiled to.
        matcher: name of the function that returns a Match or None, and gives the Matcher the reason
            why a node with the right operators does not match.
        maker: name of the function that builds the replacement, as a converter does.
        target: ``"onnxruntime"`` for a rule that is right in graphs built for ONNX Runtime only.
        opsets: first and last opset of the main domain that the rule is for.
        off: why the rule is not among the default ones; empty when it is.
        why: the purpose of the rewrite, in a sentence.
    """

    name: str
    file: str
    stage: str
    root: str
    paths: tuple[Path, ...]
    size: int
    home: str | Mapping[str, Any]
    matcher: str
    maker: str
    target: str = ""
    opsets: tuple[int, int] = (0, 1000)
    off: str = ""
    why: str = ""

    @cached_property
    def match(self) -> Callable[[Any, Node], Match | None]:
        """The function that ``matcher`` names."""
        matcher: Callable[[Any, Node], Match | None] = self._load_function(self.matcher)
        return matcher

    @cached_property
    def make(self) -> Callable[..., Any]:
        """The function that ``maker`` names."""
        maker: Callable[..., Any] = self._load_function(self.maker)
        return maker

    def _load_function(self, name: str) -> Any:
        home = self.home
        return getattr(import_module(home), name) if isinstance(home, str) else home[name]


def make_rules(
    *matchers: tuple[str, tuple[Path, ...], int], name: str, **common: Any
) -> tuple[Rule, ...]:
    """Make the rules of one rewrite: ``matchers`` are root, paths and size of each, in order;
    ``common`` are the other fields. The functions have the names that codegen gives them.
    """
    is_numbered = len(matchers) > 1
    return tuple(
        Rule(
            name=name,
            root=root,
            paths=paths,
            size=size,
            matcher=f"match_{name}_{number}" if is_numbered else f"match_{name}",
            maker=f"make_{name}",
            **common,
        )
        for number, (root, paths, size) in enumerate(matchers, 1)
    )
