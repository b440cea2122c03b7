"""Compile specs/runtime/older_opsets.yaml: operators of opset 18 in older opsets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import onnx
import yaml

from ortablegen.schemas.onnx import FLOOR, OnnxSchema, schema_at
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.templates import header
from ortablegen.source.yaml_source import YMap, YScalar, YSeq

from .operators import rows_of

OLDEST = 13  # the oldest opset of the table
_FORMS = ("drop", "refuse", "attributes", "body", "through", "lower")
_KEYS = ("op", "before", "when", "defaults", "names", *_FORMS)
_COMPUTED = {"dtype": "1", "wide": "1", "trailing": "-1"}  # texts of a body, with examples
_FORM = "a row is {op: name, before: opset} with one of " + ", ".join(_FORMS)


def emit_older_opsets(path: Path, diagnostics: Diagnostics) -> dict[str, str]:
    """Emit ``OLDER``: operator -> rows in the order of the table, each a dict of its entries."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for entry in rows_of(path, diagnostics, _FORM, _KEYS):
        row = {key.text: _plain_value(value) for key, value in entry.items()}
        problem = _find_problem(row)
        if problem:
            diagnostics.error(entry.span, problem)
        else:
            rows.setdefault(str(row.pop("op")), []).append(row)
    lines = "".join(f'    "{op}": ({_rows_text(rows[op])}),\n' for op in sorted(rows))
    text = (
        f"# {header(f'specs/runtime/{path.name}')}\n"
        '"""How operators of opset 18 are written in older opsets."""\n\n'
        "from typing import Any\n\n"
        f"OLDER: dict[str, tuple[dict[str, Any], ...]] = {{\n{lines}}}\n"
    )
    return {"ortable_generated/older_opsets.py": text}


def _rows_text(rows: list[dict[str, Any]]) -> str:
    return " ".join(f"{row!r}," for row in rows)


def _plain_value(node: Any) -> Any:
    if isinstance(node, YMap):
        return {yaml.safe_load(key.text): _plain_value(value) for key, value in node.items()}
    if isinstance(node, YSeq):
        return [_plain_value(value) for value in node.values]
    assert isinstance(node, YScalar)
    return yaml.safe_load(node.text) if node.style == "" else node.text


def _find_problem(row: Mapping[str, Any]) -> str:
    """Return what is wrong with a row, or an empty text."""
    before = row.get("before")
    if not isinstance(before, int) or not OLDEST < before <= FLOOR:
        return f"'before' is an opset from {OLDEST + 1} to {FLOOR}"
    if sum(form in row for form in _FORMS) != 1:
        return _FORM
    schema = schema_at(str(row.get("op")), "", FLOOR)
    if schema is None:
        return f"opset {FLOOR} has no operator '{row.get('op')}'"
    attributes = {attribute.name for attribute in schema.attributes}
    inputs = {formal.name for formal in schema.inputs}
    for key, known in (
        ("when", attributes), ("drop", attributes), ("refuse", attributes), ("names", attributes),
        ("attributes", inputs), ("defaults", attributes | inputs),
    ):  # fmt: skip
        unknown = sorted(set(row.get(key, ())) - known)
        if unknown:
            return f"'{key}' names {', '.join(unknown)}, which {schema.op} lacks"
    return _find_body_problem(row, schema) if "body" in row else ""


def _find_body_problem(row: Mapping[str, Any], schema: OnnxSchema) -> str:
    """Instantiate a body with example values, and check it at the opsets for which it is."""
    examples = dict(_COMPUTED)
    for attribute in schema.attributes:
        default = row.get("defaults", {}).get(attribute.name, attribute.default)
        examples[attribute.name] = str(0 if default is None else default)
    for name, texts in row.get("names", {}).items():
        examples[name] = next(iter(texts.values()))
    try:
        body = Template(row["body"]).substitute(examples)
    except KeyError as error:
        return f"the body reads ${error.args[0]}, which is not known"
    arguments = re.match(r"\s*\(([^)]*)\)", body)
    formals = [formal.name for formal in schema.inputs]
    if arguments is None or not {*map(str.strip, arguments[1].split(","))} <= set(formals):
        return f"the body begins with its inputs: ({', '.join(formals)}) => (...)"
    for opset in (OLDEST, row["before"] - 1):
        text = f'<domain: "older", opset_import: ["": {opset}]> {schema.op} {body}'
        try:
            onnx.checker.check_function(onnx.parser.parse_function(text))
        except (onnx.parser.ParseError, onnx.checker.ValidationError) as error:
            return f"the body is not valid at opset {opset}: {str(error).strip()}"
    return ""
