"""specs/runtime/decompositions.yaml -> the names of operators that the backend lets torch
decompose."""

from __future__ import annotations

from pathlib import Path

from ortablegen.schemas.ranges import listed
from ortablegen.schemas.record import Record
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.yaml_source import YMap, YScalar, load

_HEADER = (
    "# Generated from specs/runtime/decompositions.yaml by codegen. Do not edit: change the spec,"
    " then run `make codegen`.\n"
)


def emit_decompositions(path: Path, diagnostics: Diagnostics, record: Record) -> dict[str, str]:
    """Entries are ``{op: aten::x, why: reason}``, of operators that every recorded version of torch
    has; the result is ``DECOMPOSE``, sorted."""
    names: list[str] = []
    display = "specs/runtime/" + path.name
    for entry in load(path, display, diagnostics):
        if not isinstance(entry, YMap):
            diagnostics.error(entry.span, "an entry is {op: aten::name, why: reason}")
            continue
        for key, _ in entry.items():
            if key.text not in ("op", "why"):
                diagnostics.error(key.span, f"'{key.text}' is no key of an entry", fix="quote why:")
        op, why = entry.get("op"), entry.get("why")
        if not isinstance(op, YScalar) or not isinstance(why, YScalar) or not why.text.strip():
            diagnostics.error(entry.span, "an entry needs 'op' and 'why'")
        elif missing := [v for v in record.versions if record.text(op.text, v) is None]:
            diagnostics.error(op.span, f"torch {listed(missing)} has no operator '{op.text}'")
        elif op.text in names:
            diagnostics.error(op.span, f"a second entry for '{op.text}'")
        else:
            names.append(op.text)
    lines = "".join(f'    "{name}",\n' for name in sorted(names))
    text = (
        f'{_HEADER}"""Operators that torch decomposes before conversion."""\n\nDECOMPOSE:'
        f" tuple[str, ...] = (\n{lines})\n"
    )
    return {"ortable_generated/decompositions.py": text}
