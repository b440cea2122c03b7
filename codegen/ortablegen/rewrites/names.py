"""The names of a rewrite: what the pattern captures, what ``let`` adds, who reads them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from ortable import dtypes
from ortablegen.language import kinds
from ortablegen.language.kinds import Kind
from ortablegen.language.parse import Code, names_in
from ortablegen.language.vocabulary import DTYPES
from ortablegen.schemas.onnx import DOMAIN_RANGE, OnnxAttribute, OnnxSchema, versions_between

from .model import Rewrite
from .pattern import Capture, Pattern, PatternNode, Rest


@dataclass(frozen=True)
class Names:
    """Names of a rewrite over all alternatives.

    ``kinds``: captures, intermediate results, attributes and ``let`` values in the order of the
    text; ``read``: those that ``let``, ``when`` or ``replace`` read; ``values``: those that the
    maker takes; ``kept``: dicts of attributes.
    """

    kinds: dict[str, Kind]
    read: frozenset[str]
    values: tuple[str, ...]
    kept: tuple[str, ...]


def names_of(rewrite: Rewrite, patterns: tuple[Pattern, ...]) -> Names:
    """The names of a rewrite; one that some alternative lacks may be None."""
    each = [kinds_of(pattern) for pattern in patterns]
    found: dict[str, Kind] = {}
    for one in each:
        for name, kind in one.items():
            before = found.get(name)
            found[name] = kind if before is None else kinds.join(before, kind)
    for name, kind in found.items():
        if any(name not in one for one in each):
            found[name] = Kind(kind.base, True, kind.elements_optional)
    for name, _ in rewrite.let:
        found.setdefault(name, Kind(kinds.ANY))
    wanted = _names_taken(rewrite.replace.body)
    read = set(wanted)
    for code in (*(code for _, code in rewrite.let), *([rewrite.when] if rewrite.when else [])):
        read |= names_read(code.body)
    kept = tuple(
        dict.fromkeys(n.kept for p in patterns for n in p.nodes if n.kept not in (None, "_"))
    )
    return Names(found, frozenset(read & set(found)), tuple(n for n in found if n in wanted), kept)


def _names_taken(body: Iterable[ast.stmt]) -> set[str]:
    """Names that a block reads before it assigns them."""
    taken: set[str] = set()
    assigned: set[str] = set()
    for statement in body:
        taken |= names_read([statement]) - assigned
        if isinstance(statement, ast.Assign):
            assigned |= {name.id for name in names_in(statement.targets[0])}
    return taken


def kinds_of(pattern: Pattern) -> dict[str, Kind]:
    """The names that one alternative binds, and what they are."""
    found: dict[str, Kind] = {}
    for name, capture in pattern.captures().items():
        if isinstance(capture, Rest):
            found[name] = Kind(kinds.RESULTS)
        else:
            found[name] = Kind(kinds.RESULT, capture.optional)
    for name in pattern.made_names():
        found[name] = Kind(kinds.RESULT)
    for name, argument in pattern.aliases.items():
        found[name] = Kind(kinds.RESULT, isinstance(argument, Capture) and argument.optional)
    for name, (node, attribute) in pattern.attribute_names().items():
        found[name] = _attribute_kind(node, attribute)
    for node in pattern.nodes:
        if node.kept not in (None, "_"):
            found[node.kept] = Kind(kinds.ANY)
    return found


def _attribute_kind(node: PatternNode, name: str) -> Kind:
    attribute = attribute_of(node, name)
    if attribute is None:
        return Kind(kinds.ANY)
    base = kinds.ATTRIBUTES.get(attribute.type, kinds.ANY)
    return Kind(base, not attribute.required and attribute.default is None)


def attribute_of(
    node: PatternNode, name: str, opsets: tuple[int, int] = (0, 1000)
) -> OnnxAttribute | None:
    """The attribute as the newest version of the operator in the range has it."""
    for schema in reversed(schemas_of(node, opsets)):
        found = schema.attribute(name)
        if found is not None:
            return found
    return None


def schemas_of(node: PatternNode, opsets: tuple[int, int] = (0, 1000)) -> tuple[OnnxSchema, ...]:
    """Versions of the node's operator in a range of opsets, oldest first."""
    low, high = DOMAIN_RANGE[node.domain]
    if node.domain == "":
        low, high = max(low, opsets[0]), min(high, opsets[1])
    return versions_between(node.op, node.domain, low, high)


def opset_range(rewrite: Rewrite) -> tuple[int, int]:
    """First and last opset that the rule is for."""
    if rewrite.opset is None:
        return 0, 1000
    if rewrite.opset.startswith(">="):
        return int(rewrite.opset[2:]), 1000
    return 0, int(rewrite.opset[1:]) - 1


def names_read(body: Iterable[ast.AST]) -> set[str]:
    """Names that code reads; called words are not among them."""
    nodes = [node for tree in body for node in ast.walk(tree)]
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    found = (node for node in nodes if isinstance(node, ast.Name) and id(node) not in functions)
    return {node.id for node in found if isinstance(node.ctx, ast.Load)}


def written_dtype(node: ast.expr) -> frozenset[int] | None:
    """The dtype that is written out, as a set of one."""
    if isinstance(node, ast.Name) and node.id in DTYPES:
        return frozenset({getattr(dtypes, node.id)})
    return None


def source_of(code: Code, node: ast.AST) -> str:
    """The text of a part of a piece of language, on one line."""
    return " ".join((ast.get_source_segment(code.text, node) or ast.unparse(node)).split())
