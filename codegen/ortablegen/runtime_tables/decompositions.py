"""specs/runtime/decompositions.yaml -> the names of operators that the backend lets torch
decompose."""

from __future__ import annotations

from pathlib import Path

from ortablegen.schemas.torch import registered_schema
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.yaml_source import YMap, YScalar, load

_HEADER = (
    "# Generated from specs/runtime/decompositions.yaml by codegen. Do not edit: change the spec,"
    " then run `make codegen`.\n"
)


def emit_decompositions(path: Path, diagnostics: Diagnostics) -> dict[str, str]:
    """Entries are ``{op: aten::x, why: reason}``; the result is ``DECOMPOSE``, sorted."""
    names: list[str] = []
    display = "specs/runtime/" + path.name
    for entry in load(path, display, diagnostics):
        if not isinstance(entry, YMap):
            diagnostics.error(entry.span, "an entry is {op: aten::name, why: reason}")
            continue
        op, why = entry.get("op"), entry.get("why")
        if not isinstance(op, YScalar) or not isinstance(why, YScalar) or not why.text.strip():
            diagnostics.error(entry.span, "an entry needs 'op' and 'why'")
        elif registered_schema(op.text) is None:
            diagnostics.error(op.span, f"torch has no operator '{op.text}'")
        else:
            names.append(op.text)
    lines = "".join(f'    "{name}",\n' for name in sorted(names))
    text = (
        f'{_HEADER}"""Operators that torch decomposes before conversion."""\n\nDECOMPOSE:'
        f" tuple[str, ...] = (\n{lines})\n"
    )
    return {"ortable_generated/decompositions.py": text}
