"""``checks:`` of an entry: torch's requirements on the data of a call, which ONNX does not check.

The backend raises torch's error if a requirement is not met; tests/data_checks runs each
row's sample call in eager and in the backend.
"""

from __future__ import annotations

from collections.abc import Iterable

from ortablegen.language.emit import Needs, expression_text
from ortablegen.schemas.torch import OpSchema
from ortablegen.source.yaml_source import YMap, YNode, YScalar

from .model import DataCheck, OpEntry, data_check_lets
from .parts import PartReader

KEYS = ("values", "low", "high", "holds", "axis", "when", "raises", "message", "repro")
ERRORS = ("IndexError", "RuntimeError", "ValueError")
FORM = (
    "checks: [{values: index, low: 0, high: dim_of(self, 0), raises: IndexError, message: ...,"
    " repro: {...}}]"
)


def read_checks(node: YNode | None, schema: OpSchema, reader: PartReader) -> tuple[DataCheck, ...]:
    """Read the rows of ``checks``, whose sample calls are calls of ``schema``."""
    return reader.read_rows(node, lambda row: _read_row(row, schema, reader))


def _read_row(node: YNode, schema: OpSchema, reader: PartReader) -> DataCheck | None:
    if not isinstance(node, YMap):
        return reader.error(node.span, "a row of checks is a mapping", fix=FORM)
    reader.check_keys(node, KEYS, "a row of checks")
    missing = [name for name in ("raises", "message", "repro") if node.get(name) is None]
    if (node.get("values") is None) == (node.get("holds") is None):
        missing.append("values' or 'holds")
    if missing:
        return reader.error(node.span, f"a row of checks needs '{missing[0]}'", fix=FORM)
    raises = reader.read_key(node, "raises") or ""
    if raises not in ERRORS:
        return reader.error(node.span, f"'{raises}' is not one of {', '.join(ERRORS)}")
    condition, message, sample_node = node.get("holds"), node.get("message"), node.get("repro")
    if condition is None and node.get("low") is None and node.get("high") is None:
        text = "a row of checks with 'values' needs 'low' or 'high'"
        return reader.error(node.span, text, fix=FORM)
    checked_node = node.get("values") if condition is None else condition
    assert checked_node is not None and sample_node is not None
    checked = reader.read_expression(checked_node, "a row of checks")
    codes = {
        name: reader.read_expression(value, f"'{name}' of checks") if value is not None else None
        for name in ("low", "high", "axis", "when")
        for value in [node.get(name)]
    }
    repro = reader.read_sample(sample_node, schema)
    if checked is None or repro is None or not isinstance(message, YScalar):
        return None
    return DataCheck(
        values=checked,
        **codes,
        is_condition=condition is not None,
        raises=raises,
        message=message.text,
        repro=repro,
        span=node.span,
    )


def data_check_lines(entry: OpEntry, needs: Needs) -> list[str]:
    """Emit the body of the function that lists the data checks of one call."""
    needs.add("ortable.dispatch", "DataCheck")
    lines = [
        f"    {name} = {expression_text(code.expression, needs)}"
        for name, code in data_check_lets(entry)
    ]
    rows = []
    for row in entry.checks:
        values = expression_text(row.values.expression, needs)
        low, high, axis = (
            "None" if code is None else expression_text(code.expression, needs)
            for code in (row.low, row.high, row.axis)
        )
        if row.is_condition:
            needs.add("ortable.prelude.values", "cast")
            needs.add("ortable.dtypes", "int32")
            values, low = f"cast(graph, {values}, int32)", "1"
        text = f"DataCheck({values}, {low}, {high}, {row.raises!r}, {row.message!r}, {axis})"
        if row.when is not None:
            text = f"*([{text}] if {expression_text(row.when.expression, needs)} else [])"
        rows.append(f"        {text},")
    return [*lines, "    return [", *rows, "    ]"]


def data_check_table(entries: Iterable[OpEntry]) -> list[str]:
    """Describe the data checks for docs/operators.md."""
    return [
        f"- `{entry.key}`: {_format_condition(row)}, else `{row.raises}`: {row.message}"
        for entry in entries
        for row in entry.checks
    ]


def _format_condition(row: DataCheck) -> str:
    """Format the condition of a row as one line of code."""
    text = row.values.text.strip()
    if not row.is_condition:
        text = f"{row.low.text} <= {text}" if row.low is not None else text
        text = f"{text} < {row.high.text}" if row.high is not None else text
    text = f"{text}, when {row.when.text}" if row.when is not None else text
    return f"`{text}`"
