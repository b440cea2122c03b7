"""Compile specs/runtime/decompositions.yaml and operator_cost.yaml.

They list the operators that torch decomposes before conversion, and the operators that cost more in
ONNX Runtime than in torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ortablegen.language.entries import EntryReader
from ortablegen.schemas.ranges import listed
from ortablegen.schemas.registry import Record
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.templates import header
from ortablegen.source.yaml_source import YMap, YScalar, load

PLACE = Path("specs/runtime")
_COST_KEYS = ("op", "dtype", "from", "ratio", "why")


def rows_of(
    path: Path, diagnostics: Diagnostics, form: str, keys: tuple[str, ...]
) -> Iterator[YMap]:
    """Yield the mappings of a table of specs/runtime; ``form`` is the error of other entries."""
    reader = EntryReader(path.name, diagnostics)
    for entry in load(path, str(PLACE / path.name), diagnostics):
        if isinstance(entry, YMap):
            reader.check_keys(entry, keys, "a row", fix="quote texts that have a comma")
            yield entry
        else:
            diagnostics.error(entry.span, form)


def emit_decompositions(path: Path, diagnostics: Diagnostics, record: Record) -> dict[str, str]:
    """Emit ``DECOMPOSE``, the sorted names of operators that torch decomposes before conversion.

    Entries are ``{op: aten::x, why: reason}``, of operators that every recorded torch has.
    """
    names: list[str] = []
    form = "an entry is {op: aten::name, why: reason}"
    for entry in rows_of(path, diagnostics, form, ("op", "why")):
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
        f"# {header(str(PLACE / path.name))}\n"
        '"""Operators that torch decomposes before conversion."""\n\n'
        f"DECOMPOSE: tuple[str, ...] = (\n{lines})\n"
    )
    return {"ortable_generated/decompositions.py": text}


def emit_operator_costs(path: Path, diagnostics: Diagnostics, record: Record) -> dict[str, str]:
    """Emit ``COSTS``: operator -> dtype of its first tensor -> (least element count, ratio).

    Rows are ``{op: aten::x, dtype: float32, from: 1000, ratio: 12}``; ``op: "*"`` stands for every
    operator without a row of that dtype. A row without ``from`` only documents ``why`` the operator
    stays in ONNX Runtime.
    """
    costs: dict[str, dict[str, tuple[int, int]]] = {}
    seen_rows: set[tuple[str, str]] = set()
    form = "a row is {op: aten::x, dtype: ..., from: ..., ratio: ...}"
    for entry in rows_of(path, diagnostics, form, _COST_KEYS):
        texts = {key.text: node.text for key, node in entry.items() if isinstance(node, YScalar)}
        operator, dtype, start, ratio, why = (texts.get(key, "") for key in _COST_KEYS)
        if not dtype or not ratio.isdecimal() or not (start.isdecimal() or why.strip()):
            diagnostics.error(entry.span, "a row needs 'op', 'dtype', 'ratio', and 'from' or 'why'")
        elif operator != "*" and not any(record.text(operator, v) for v in record.versions):
            diagnostics.error(entry.span, f"no recorded version of torch has operator '{operator}'")
        elif (operator, dtype) in seen_rows:
            diagnostics.error(entry.span, f"a second row for '{operator}' and {dtype}")
        elif start:
            costs.setdefault(operator, {})[dtype] = int(start), int(ratio)
        seen_rows.add((operator, dtype))
    lines = "".join(f'    "{name}": {_cost_text(row)},\n' for name, row in sorted(costs.items()))
    text = (
        f"# {header(str(PLACE / path.name))}\n"
        '"""Operators that cost more than torch\'s kernels, from a size on."""\n\n'
        f"COSTS: dict[str, dict[str, tuple[int, int]]] = {{\n{lines}}}\n"
    )
    return {"ortable_generated/operator_cost.py": text}


def _cost_text(row: dict[str, tuple[int, int]]) -> str:
    return "{" + ", ".join(f'"{dtype}": {cost}' for dtype, cost in sorted(row.items())) + "}"
