"""The records of rewriting: rules, each with a matcher and a maker, and matches.

Modules that codegen generates from specs/rewrites make the rules, and their matchers the matches.
`rule_selection`, the engine and replacements read both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from ortable.ir.node import Node

CONSTANT = "="  # the last step of a path instead of an operator: a constant with a known value
Path = tuple[tuple[int, str], ...]

STAGES = ("simplify", "fuse", "runtime", "arrange")


class Match(NamedTuple):
    """A match of a pattern.

    ``nodes``: every node of the pattern, first the nodes that produce the results; ``results``: the
    names of the replaced results; ``values``: the arguments of the maker after graph and ``res``;
    ``shared``: nodes of intermediate results that may have readers outside the pattern.
    """

    nodes: tuple[Node, ...]
    results: tuple[str, ...]
    values: tuple[Any, ...]
    shared: tuple[Node, ...] = ()


@dataclass(frozen=True, eq=False)
class Rule:
    """The alternatives of a rewrite whose results the same operator produces.

    Attributes:
        name: the name of the rewrite; `-name` in the argument ``rewrites`` disables it.
        file: the spec file, ``specs/rewrites/linear.yaml`` or a user's file.
        stage: one of STAGES; the rules of a stage run to a fixpoint before the next stage.
        root: the operator of the node that is passed to the matcher, ``Add`` or
            ``com.microsoft::Gelu``.
        paths: one path for each alternative, from the root up to one of its producers. A step is
            the index of an input (-1 for any) and the operator that produces it, or CONSTANT. The
            pattern can match only where one of these paths exists.
        size: the number of nodes of the largest alternative; larger rules are tried first.
        home: the location of matcher and maker: the name of a module, imported when the rule is
            first tried, or the namespace that a user's file was compiled to.
        matcher: the name of the function that returns a Match or None. It reports to the Matcher
            why a node with the right operators does not match.
        maker: the name of the function that builds the replacement, like a converter.
        target: ``"onnxruntime"`` for a rule that is valid only in graphs built for ONNX Runtime.
        opsets: the first and last opset of the main domain in which the rule is valid.
        off: why the rule is not a default rule; empty if it is.
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
    """Make the rules of one rewrite.

    ``matchers`` are the root, paths and size of each rule, in order; ``common`` are the other
    fields. The function names are those that codegen generates.
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
