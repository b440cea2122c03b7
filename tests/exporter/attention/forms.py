"""Which forms of attention ortable can write: found in tables and lowerings, not listed by hand.

In come the specs and the runtime's sources, out go forms: the place, and the call that it writes.
A node of a model has a kind: the operator, the inputs that are there, the names of its attributes.
Called by the tests beside it."""

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
# attributes whose value makes another computation; of others a kind has the name
_TOLD = ("causal", "do_rotary", "interleaved", "is_causal", "qk_matmul_output_mode", "update_rule")


@dataclass(frozen=True, order=True)
class Form:
    """A call that writes an attention operator: ``place`` is a rule, an entry of specs/aten, or a
    file of the runtime; ``writes`` the call as it stands there."""

    place: str
    writes: str


@cache
def operators() -> frozenset[tuple[str, str]]:
    """(domain, name) of every attention operator that onnx or ONNX Runtime knows."""
    known = {(s.domain, s.name) for s in defs.get_all_schemas_with_history()}
    known |= {(s.domain, s.name) for s in runtime.get_all_operator_schema()}
    return frozenset((d, name) for d, name in known if _FAMILY.fullmatch(name))


def calls(code: str) -> list[str]:
    """The calls of attention operators in a block of a spec."""
    tree = ast.parse(textwrap.dedent(code))
    return [ast.unparse(node) for node in ast.walk(tree) if onnx_call(node) in operators()]


def read_by(rewrite: Rewrite) -> set[str]:
    """Names of the attention operators in the pattern of a rule."""
    found = {onnx_call(node) for node in ast.walk(ast.parse(rewrite.pattern.text))}
    return {each[1] for each in found if each in operators()}


def written_by(rewrite: Rewrite) -> set[str]:
    """Names of the attention operators in the replacement of a rule."""
    found = {onnx_call(node) for node in ast.walk(ast.parse(rewrite.replace.text))}
    return {each[1] for each in found if each in operators()}


@cache
def forms() -> frozenset[Form]:
    """All forms, from rules, from lowerings in tables, and from operators named in Python."""
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
    """The calls in the blocks of an entry, however deep."""
    if isinstance(part, str) and re.search(rf"\b{_FAMILY.pattern}\(", part):
        yield from calls(part)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key not in ("refuse", "why", "note"):
                yield from _calls_in(value)
    elif isinstance(part, list):
        for each in part:
            yield from _calls_in(each)


def _of_python() -> Iterator[Form]:
    """Names of such operators as texts of their own: code that makes or replaces nodes."""
    folder = ROOT / "runtime" / "ortable"
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                domain, _, name = node.value.rpartition("::")
                if (domain, name) in operators():
                    yield Form(path.relative_to(folder).as_posix(), node.value)


def sets_of_rules() -> list[tuple[str | None, tuple[str, ...]]]:
    """Targets and ``rewrites`` under which every rule that writes attention can fire: those that
    are off by default are added, those for any runtime apart from those for ONNX Runtime, which
    would find nothing left to do."""
    off = [each for each in all_rewrites() if written_by(each) and each.off_reason]
    own = [each.name for each in off if each.target is not None]
    general = [each.name for each in off if each.target is None]
    return [
        ("onnxruntime", ("default", *own)),
        ("onnxruntime", ("default", *general)),
        (None, ("default", *general)),
    ]


# -- nodes of a model


def kinds(model: onnx.ModelProto) -> list[str]:
    """The kinds of the attention nodes of a model, those inside of graphs and functions too."""
    nodes = [*_nodes(model.graph.node), *(n for f in model.functions for n in _nodes(f.node))]
    return [_kind(node) for node in nodes if (node.domain, node.op_type) in operators()]


def _nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)


def _kind(node: onnx.NodeProto) -> str:
    """``com.microsoft::GroupQueryAttention xxx--xx -> x do_rotary=1 num_heads scale``."""
    name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    given, taken = ("".join("x" if x else "-" for x in x) for x in (node.input, node.output))
    values = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    told = [
        f"{key}={x.decode() if isinstance(x, bytes) else x}" if key in _TOLD else key
        for key, x in sorted(values.items())
    ]
    return " ".join([name, given, "->", taken.rstrip("-"), *told])
