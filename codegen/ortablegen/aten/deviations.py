"""``deviates:`` of an entry: where ONNX Runtime is wrong and nothing exact can be emitted at a cost
that is worth it. What, why, where it was told upstream, a sample call that shows it, and the
derived samples that fail for it.

In: the YAML node. Out: `Deviation` for the model, lines for docs/operators.md. A test runs the
sample call and fails when it has become exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq

from .model import Deviation, OpEntry, Sample

KEYS = ("what", "why", "upstream", "shows", "derived")
FORM = 'deviates: [{what: ..., why: ..., upstream: ..., shows: {self: "f32[1] = [nan]"}}]'


def read_deviations(
    node: YNode | None,
    sample: Callable[[YNode], Sample | None],
    diagnostics: Diagnostics,
) -> tuple[Deviation, ...]:
    """The deviations of an entry; ``sample`` reads a sample call of the entry's schema."""
    if node is None:
        return ()
    found = []
    for each in node if isinstance(node, YSeq) else (node,):
        deviation = _deviation(each, sample, diagnostics)
        if deviation is not None:
            found.append(deviation)
    return tuple(found)


def _deviation(
    node: YNode, sample: Callable[[YNode], Sample | None], diagnostics: Diagnostics
) -> Deviation | None:
    if not isinstance(node, YMap):
        diagnostics.error(node.span, "a deviation is a mapping", fix=FORM)
        return None
    for key, _ in node.items():
        if key.text not in KEYS:
            notes = [f"keys are {', '.join(KEYS)}"]
            diagnostics.error(key.span, f"unknown key '{key.text}' in deviates", notes)
    texts: dict[str, str] = {}
    for name in ("what", "why", "upstream"):
        value = node.get(name)
        if not isinstance(value, YScalar) or not value.text.strip():
            diagnostics.error(node.span, f"a deviation needs '{name}'", fix=FORM)
            return None
        texts[name] = value.text.strip()
    shown = node.get("shows")
    if shown is None:
        fix = "give a sample call that shows it, so that a test can tell when it is gone"
        diagnostics.error(node.span, "a deviation needs 'shows'", fix=fix)
        return None
    shows = sample(shown)
    derived = node.get("derived")
    patterns = (
        [each.text for each in derived or () if isinstance(each, YScalar)]
        if isinstance(derived, YSeq)
        else [derived.text]
        if isinstance(derived, YScalar)
        else []
    )
    if shows is None:
        return None
    return Deviation(**texts, shows=shows, derived=tuple(patterns), span=node.span)


def deviation_lines(entries: Iterable[OpEntry]) -> list[str]:
    """What a reader of docs/operators.md has to know."""
    lines = [
        f"- `{entry.key}`: {each.what}: {each.why} ({each.upstream})"
        for entry in entries
        for each in entry.deviates
    ]
    if not lines:
        return []
    return ["", "Where ONNX Runtime differs from torch and no other nodes were found:", "", *lines]
