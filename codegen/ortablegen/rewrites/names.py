"""The names of a rewrite: captures of the pattern, ``let`` values, and their readers."""

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

    ``kinds`` are the kinds of captures, intermediate results, attributes and ``let`` values in the
    order of the text. ``read`` are the names that ``let``, ``when`` or ``replace`` read; ``values``
    are the parameters of the maker, the function that builds the replacement. ``attr_dicts`` are
    the names of ``attrs=``, which hold the attributes that the pattern does not name.
    """

    kinds: dict[str, Kind]
    read: frozenset[str]
    values: tuple[str, ...]
    attr_dicts: tuple[str, ...]


def names_of(rewrite: Rewrite, patterns: tuple[Pattern, ...]) -> Names:
    """Collect the names of a rewrite; a name that some alternative does not bind may be None."""
    per_pattern = [kinds_of(pattern) for pattern in patterns]
    merged: dict[str, Kind] = {}
    for pattern_kinds in per_pattern:
        for name, kind in pattern_kinds.items():
            earlier_kind = merged.get(name)
            merged[name] = kind if earlier_kind is None else kinds.join_kinds(earlier_kind, kind)
    for name, kind in merged.items():
        if any(name not in pattern_kinds for pattern_kinds in per_pattern):
            merged[name] = Kind(kind.base, True, kind.elements_optional)
    for name, _ in rewrite.let:
        merged.setdefault(name, Kind(kinds.ANY))
    maker_names = _free_names(rewrite.replace.body)
    read = set(maker_names)
    for code in (*(code for _, code in rewrite.let), *([rewrite.when] if rewrite.when else [])):
        read |= find_names_read(code.body)
    attr_dicts = tuple(
        dict.fromkeys(
            n.attrs_name for p in patterns for n in p.nodes if n.attrs_name not in (None, "_")
        )
    )
    return Names(
        merged,
        frozenset(read & set(merged)),
        tuple(n for n in merged if n in maker_names),
        attr_dicts,
    )


def _free_names(body: Iterable[ast.stmt]) -> set[str]:
    """Return the names that a block reads before it assigns them."""
    free: set[str] = set()
    assigned: set[str] = set()
    for statement in body:
        free |= find_names_read([statement]) - assigned
        if isinstance(statement, ast.Assign):
            assigned |= {name.id for name in names_in(statement.targets[0])}
    return free


def kinds_of(pattern: Pattern) -> dict[str, Kind]:
    """Return the kinds of the names that one alternative binds."""
    bound: dict[str, Kind] = {}
    for name, capture in pattern.captures_by_name().items():
        if isinstance(capture, Rest):
            bound[name] = Kind(kinds.RESULTS)
        else:
            bound[name] = Kind(kinds.RESULT, capture.optional)
    for name in pattern.output_names():
        bound[name] = Kind(kinds.RESULT)
    for name, argument in pattern.aliases.items():
        bound[name] = Kind(kinds.RESULT, isinstance(argument, Capture) and argument.optional)
    for name, (node, attribute) in pattern.attribute_names().items():
        bound[name] = _attribute_kind(node, attribute)
    for node in pattern.nodes:
        if node.attrs_name not in (None, "_"):
            bound[node.attrs_name] = Kind(kinds.ANY)
    return bound


def _attribute_kind(node: PatternNode, name: str) -> Kind:
    attribute = attribute_of(node, name)
    if attribute is None:
        return Kind(kinds.ANY)
    base = kinds.ATTRIBUTES.get(attribute.type, kinds.ANY)
    return Kind(base, not attribute.required and attribute.default is None)


def attribute_of(
    node: PatternNode, name: str, opsets: tuple[int, int] = (0, 1000)
) -> OnnxAttribute | None:
    """Return the attribute in the newest version of the operator in the range, or None."""
    for schema in reversed(schemas_of(node, opsets)):
        attribute = schema.attribute(name)
        if attribute is not None:
            return attribute
    return None


def schemas_of(node: PatternNode, opsets: tuple[int, int] = (0, 1000)) -> tuple[OnnxSchema, ...]:
    """Return the versions of the node's operator in a range of opsets, oldest first."""
    low, high = DOMAIN_RANGE[node.domain]
    if node.domain == "":
        low, high = max(low, opsets[0]), min(high, opsets[1])
    return versions_between(node.op, node.domain, low, high)


def opset_range(rewrite: Rewrite) -> tuple[int, int]:
    """Return the first and last opset of the rule."""
    if rewrite.opset is None:
        return 0, 1000
    if rewrite.opset.startswith(">="):
        return int(rewrite.opset[2:]), 1000
    return 0, int(rewrite.opset[1:]) - 1


def find_names_read(body: Iterable[ast.AST]) -> set[str]:
    """Return the names that code reads, except names of called functions."""
    nodes = [node for tree in body for node in ast.walk(tree)]
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    references = (
        node for node in nodes if isinstance(node, ast.Name) and id(node) not in functions
    )
    return {node.id for node in references if isinstance(node.ctx, ast.Load)}


def literal_dtype(node: ast.expr) -> frozenset[int] | None:
    """Return a literal dtype as a set of one element, or None."""
    if isinstance(node, ast.Name) and node.id in DTYPES:
        return frozenset({getattr(dtypes, node.id)})
    return None


def source_of(code: Code, node: ast.AST) -> str:
    """Return the source of a node on one line."""
    return " ".join((ast.get_source_segment(code.text, node) or ast.unparse(node)).split())
