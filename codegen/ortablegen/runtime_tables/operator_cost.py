"""Emit specs/runtime/operator_cost.yaml: operators that cost more than torch's kernels."""

from __future__ import annotations

from pathlib import Path

from ortablegen.schemas.record import Record
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.yaml_source import YMap, YScalar, load

_KEYS = ("op", "dtype", "from", "ratio", "why")
_HEADER = (
    "# Generated from specs/runtime/operator_cost.yaml by codegen. Do not edit: change the spec,"
    " then run `make codegen`.\n"
)


def emit_operator_costs(path: Path, diagnostics: Diagnostics, record: Record) -> dict[str, str]:
    """Emit ``COSTS``: operator -> dtype of its first tensor -> (elements from which, ratio).

    Rows are ``{op: aten::x, dtype: float32, from: 1000, ratio: 12}``; ``op: "*"`` stands for every
    operator without a row. A row with ``why`` was not measured, and one of these without ``from``
    is for readers: the operator stays in ONNX Runtime.
    """
    costs: dict[str, dict[str, tuple[int, int]]] = {}
    seen: set[tuple[str, str]] = set()
    for entry in load(path, f"specs/runtime/{path.name}", diagnostics):
        if not isinstance(entry, YMap):
            diagnostics.error(
                entry.span, "a row is {op: aten::x, dtype: ..., from: ..., ratio: ...}"
            )
            continue
        for key, _ in entry.items():
            if key.text not in _KEYS:
                diagnostics.error(key.span, f"'{key.text}' is no key of a row: {', '.join(_KEYS)}")
        texts = [node.text if isinstance(node := entry.get(key), YScalar) else "" for key in _KEYS]
        operator, dtype, start, ratio, why = texts
        if not dtype or not ratio.isdecimal() or not (start.isdecimal() or why.strip()):
            diagnostics.error(entry.span, "a row needs 'op', 'dtype', 'ratio', and 'from' or 'why'")
        elif operator != "*" and all(
            record.text(operator, version) is None for version in record.versions
        ):
            diagnostics.error(entry.span, f"no recorded version of torch has operator '{operator}'")
        elif (operator, dtype) in seen:
            diagnostics.error(entry.span, f"a second row for '{operator}' and {dtype}")
        elif start:
            costs.setdefault(operator, {})[dtype] = int(start), int(ratio)
        seen.add((operator, dtype))
    lines = "".join(f'    "{name}": {_emit_row(row)},\n' for name, row in sorted(costs.items()))
    text = (
        f'{_HEADER}"""Operators that cost more than torch\'s kernels, from a size on."""\n\n'
        f"COSTS: dict[str, dict[str, tuple[int, int]]] = {{\n{lines}}}\n"
    )
    return {"ortable_generated/operator_cost.py": text}


def _emit_row(row: dict[str, tuple[int, int]]) -> str:
    return "{" + ", ".join(f'"{dtype}": {cost}' for dtype, cost in sorted(row.items())) + "}"
