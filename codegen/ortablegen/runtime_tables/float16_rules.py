"""Compile specs/runtime/float16.yaml: operators that stay in float32 in float16 models."""

from __future__ import annotations

from pathlib import Path

from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.templates import header
from ortablegen.source.yaml_source import YScalar, YSeq

from .operators import rows_of

_FLOAT32_RULES = ("float32", "square", "sources", "angle", "reduction", "cache", "integers")
_MASK_RULES = ("mask", "softmax", "compare")
_FORM = "a row is {ops: [names], rule: name, why: reason}"


def emit_float16(path: Path, diagnostics: Diagnostics) -> dict[str, str]:
    """Emit ``FLOAT32``, operator -> (rule, reason), and ``MASKS``, operator -> rule."""
    rules: dict[str, dict[str, str]] = {"float32": {}, "masks": {}}
    for entry in rows_of(path, diagnostics, _FORM, ("ops", "rule", "why")):
        ops, rule, why = entry.get("ops"), entry.get("rule"), entry.get("why")
        if not isinstance(ops, YSeq) or not isinstance(rule, YScalar):
            diagnostics.error(entry.span, _FORM)
        elif rule.text not in (*_FLOAT32_RULES, *_MASK_RULES):
            diagnostics.error(
                rule.span, f"'rule' is one of {', '.join((*_FLOAT32_RULES, *_MASK_RULES))}"
            )
        elif (rule.text in _FLOAT32_RULES) != isinstance(why, YScalar):
            diagnostics.error(entry.span, "rules about float32 have a 'why', those of masks none")
        else:
            texts = repr((rule.text, why.text)) if isinstance(why, YScalar) else repr(rule.text)
            table = rules["float32" if isinstance(why, YScalar) else "masks"]
            for op in ops.values:
                assert isinstance(op, YScalar)
                if op.text in table:
                    diagnostics.error(op.span, f"a second row for '{op.text}'")
                table[op.text] = texts
    float32, masks = (
        "".join(f'    "{op}": {table[op]},\n' for op in sorted(table)) for table in rules.values()
    )
    text = (
        f"# {header(f'specs/runtime/{path.name}')}\n"
        '"""Which operators of float16 models compute in float32, and how masks are found."""\n\n'
        f"FLOAT32: dict[str, tuple[str, str]] = {{\n{float32}}}\n\n"
        f"MASKS: dict[str, str] = {{\n{masks}}}\n"
    )
    return {"ortable_generated/float16.py": text}
