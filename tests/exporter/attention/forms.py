"""The forms of attention that ortable can write, collected from tables and lowerings.

The kind of a node is its operator, which inputs and outputs it has, and its attributes.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as runtime
import yaml
from onnx import defs, helper

from ortablegen.language.parse import onnx_call
from ortablegen.rewrites.model import Rewrite
from tests.passes.rewrite.harness import all_rewrites

ROOT = Path(__file__).parents[3]
_FAMILY = re.compile(r"\w*(Attention|RotaryEmbedding)\w*")
# Attributes whose value changes the computation; a kind has only the names of the others.
_MODES = ("causal", "do_rotary", "interleaved", "is_causal", "qk_matmul_output_mode", "update_rule")


@dataclass(frozen=True, order=True)
class Form:
    """A call that writes an attention operator in a rule, an entry of specs/aten or a source."""

    location: str
    writes: str


@cache
def operators() -> frozenset[tuple[str, str]]:
    """Return (domain, name) of every attention operator of onnx and ONNX Runtime."""
    schemas = {(s.domain, s.name) for s in defs.get_all_schemas_with_history()}
    schemas |= {(s.domain, s.name) for s in runtime.get_all_operator_schema()}
    return frozenset((d, name) for d, name in schemas if _FAMILY.fullmatch(name))


def calls(code: str) -> list[str]:
    """Return the calls of attention operators in a block of a spec."""
    tree = ast.parse(textwrap.dedent(code))
    return [ast.unparse(node) for node in ast.walk(tree) if onnx_call(node) in operators()]


def read_by(rewrite: Rewrite) -> set[str]:
    """Return the names of the attention operators in the pattern of a rule."""
    called = {onnx_call(node) for node in ast.walk(ast.parse(rewrite.pattern.text))}
    return {call[1] for call in called if call in operators()}


def written_by(rewrite: Rewrite) -> set[str]:
    """Return the names of the attention operators in the replacement of a rule."""
    called = {onnx_call(node) for node in ast.walk(ast.parse(rewrite.replace.text))}
    return {call[1] for call in called if call in operators()}


@cache
def forms() -> frozenset[Form]:
    """Return all forms of rules, of lowerings in tables, and of operators named in Python."""
    return frozenset((*_of_rules(), *_of_tables(), *_of_python()))


def _of_rules() -> Iterator[Form]:
    for rewrite in all_rewrites():
        for call in calls(rewrite.replace.text):
            yield Form(rewrite.name, call)


def _of_tables() -> Iterator[Form]:
    for path in sorted((ROOT / "specs" / "aten").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if re.search(rf"\b{_FAMILY.pattern}\(", text):
            for entry in yaml.safe_load(text):
                name = str(next(iter(entry.values()))).partition("(")[0]
                for call in _calls_in([entry.get("lower"), entry.get("complex")]):
                    yield Form(name, call)


def _calls_in(part: Any) -> Iterator[str]:
    """Yield the calls in the nested blocks of an entry."""
    if isinstance(part, str) and re.search(rf"\b{_FAMILY.pattern}\(", part):
        yield from calls(part)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key not in ("refuse", "why", "note"):
                yield from _calls_in(value)
    elif isinstance(part, list):
        for item in part:
            yield from _calls_in(item)


def _of_python() -> Iterator[Form]:
    """Yield attention operators that are string constants of code that makes nodes."""
    folder = ROOT / "runtime" / "ortable"
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                domain, _, name = node.value.rpartition("::")
                if (domain, name) in operators():
                    yield Form(path.relative_to(folder).as_posix(), node.value)


def sets_of_rules() -> list[tuple[str | None, tuple[str, ...]]]:
    """Return targets with ``rewrites`` under which every rule that writes attention can fire.

    Rules that are off by default are added, in two sets, of which one would preempt the other.
    """
    optional = [rule for rule in all_rewrites() if written_by(rule) and rule.off_reason]
    runtime_rules = [rule.name for rule in optional if rule.target is not None]
    general_rules = [rule.name for rule in optional if rule.target is None]
    return [
        ("onnxruntime", ("default", *runtime_rules)),
        ("onnxruntime", ("default", *general_rules)),
        (None, ("default", *general_rules)),
    ]


# -- nodes of a model


def kinds(model: onnx.ModelProto) -> list[str]:
    """Return the kinds of attention nodes of a model, its subgraphs and functions."""
    nodes = [*_nodes(model.graph.node), *(n for f in model.functions for n in _nodes(f.node))]
    return [_kind(node) for node in nodes if (node.domain, node.op_type) in operators()]


def _nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)


def _kind(node: onnx.NodeProto) -> str:
    """Return for example ``com.microsoft::GroupQueryAttention xxx--xx -> x do_rotary=1 scale``."""
    name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    inputs, outputs = ("".join("x" if x else "-" for x in x) for x in (node.input, node.output))
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    attributes = [
        f"{key}={x.decode() if isinstance(x, bytes) else x}" if key in _MODES else key
        for key, x in sorted(values.items())
    ]
    return " ".join([name, inputs, "->", outputs.rstrip("-"), *attributes])
