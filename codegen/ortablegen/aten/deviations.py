"""``deviates:`` of an entry: where ONNX Runtime is wrong and nothing exact can be emitted at a cost
that is worth it. A test runs the sample call of each and fails when it has become exact."""

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
    """Read the deviations of an entry; their sample calls are of its schema."""
    return reader.rows(node, lambda each: _read(each, schema, reader))


def _read(node: YNode, schema: OpSchema, reader: PartReader) -> Deviation | None:
    if not isinstance(node, YMap):
        return reader.error(node.span, "a deviation is a mapping", fix=FORM)
    reader.keys(node, KEYS, "deviates")
    texts: dict[str, str] = {}
    for name in ("what", "why", "upstream"):
        value = node.get(name)
        if not isinstance(value, YScalar) or not value.text.strip():
            return reader.error(node.span, f"a deviation needs '{name}'", fix=FORM)
        texts[name] = value.text.strip()
    shown = node.get("repro")
    if shown is None:
        fix = "give a sample call that shows it, so that a test can tell when it is gone"
        return reader.error(node.span, "a deviation needs 'repro'", fix=fix)
    shows = reader.sample(shown, schema)
    derived = node.get("derived")
    patterns = derived if isinstance(derived, YSeq) else (derived,)
    texts_of = tuple(each.text for each in patterns if isinstance(each, YScalar))
    return Deviation(**texts, shows=shows, derived=texts_of, span=node.span) if shows else None


def deviation_lines(entries: Iterable[OpEntry]) -> list[str]:
    """What a reader of docs/operators.md has to know."""
    return [
        f"- `{entry.key}`: {each.what}: {each.why} ({each.upstream})"
        for entry in entries
        for each in entry.deviates
    ]
