"""``deviates:`` of an entry: where ONNX Runtime differs and exact nodes would cost too much.

A test runs the sample call of each deviation and fails once the call is exact.
"""

from __future__ import annotations

from collections.abc import Iterable

from ortablegen.schemas.torch import OpSchema
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq

from .model import Deviation, OpEntry
from .parts import PartReader

KEYS = ("what", "why", "upstream", "repro", "derived")
FORM = 'deviates: [{what: ..., why: ..., upstream: ..., repro: {self: "f32[1] = [nan]"}}]'


def read_deviations(
    node: YNode | None, schema: OpSchema, reader: PartReader
) -> tuple[Deviation, ...]:
    """Read the deviations of an entry, whose sample calls are calls of ``schema``."""
    return reader.read_rows(node, lambda row: _read_deviation(row, schema, reader))


def _read_deviation(node: YNode, schema: OpSchema, reader: PartReader) -> Deviation | None:
    if not isinstance(node, YMap):
        return reader.error(node.span, "a deviation is a mapping", fix=FORM)
    reader.check_keys(node, KEYS, "deviates")
    texts: dict[str, str] = {}
    for name in ("what", "why", "upstream"):
        value = node.get(name)
        if not isinstance(value, YScalar) or not value.text.strip():
            return reader.error(node.span, f"a deviation needs '{name}'", fix=FORM)
        texts[name] = value.text.strip()
    sample_node = node.get("repro")
    if sample_node is None:
        fix = "give a sample call that shows it, so that a test detects when it is fixed"
        return reader.error(node.span, "a deviation needs 'repro'", fix=fix)
    repro = reader.read_sample(sample_node, schema)
    derived_node = node.get("derived")
    patterns = derived_node if isinstance(derived_node, YSeq) else (derived_node,)
    derived_patterns = tuple(pattern.text for pattern in patterns if isinstance(pattern, YScalar))
    return (
        Deviation(**texts, repro=repro, derived=derived_patterns, span=node.span) if repro else None
    )


def deviation_lines(entries: Iterable[OpEntry]) -> list[str]:
    """Describe the deviations for docs/operators.md."""
    return [
        f"- `{entry.key}`: {deviation.what}: {deviation.why} ({deviation.upstream})"
        for entry in entries
        for deviation in entry.deviates
    ]
