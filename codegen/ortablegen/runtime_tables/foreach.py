"""Compile specs/runtime/foreach.yaml to functions that apply operators to lists of tensors."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from ortablegen.language.parse import python_tree
from ortablegen.schemas.ranges import listed
from ortablegen.schemas.registry import Record
from ortablegen.schemas.torch import Argument, OpSchema, from_torch_schema, parsed_schema
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.templates import header
from ortablegen.source.yaml_source import YMap, YScalar, YSeq

from .operators import rows_of

_PREFIX = "aten::_foreach_"
_KEYS = ("op", "each", "elements", "unused")
_HEADER = f'''\
# {header("specs/runtime/foreach.yaml")}
"""Operators on lists of tensors as operators of one tensor."""

from __future__ import annotations

from torch import ops
'''


@dataclass(frozen=True)
class _Row:
    """An overload: the call for an element, tensors to unbind, arguments that need not be read."""

    op: YScalar
    element_call: YScalar
    elements: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()


def emit_foreach(path: Path, diagnostics: Diagnostics, record: Record) -> dict[str, str]:
    """Emit a function for every functional `_foreach_` overload of a supported torch.

    Rows are ``{op: aten::_foreach_x, each: "x(self)"}``; the table ``FOREACH`` has the functions by
    overload.
    """
    form = "a row is {op: aten::_foreach_x, each: calls}"
    entries = rows_of(path, diagnostics, form, _KEYS)
    rows = [row for entry in entries if (row := _read_row(entry, diagnostics))]
    functions: dict[str, str] = {}
    for row in rows:
        schema = _find_schema(row.op, diagnostics, record)
        if schema is None:
            continue
        if row.op.text in functions:
            diagnostics.error(row.op.span, f"a second row for '{row.op.text}'")
        functions[row.op.text] = _function_text(row, schema, diagnostics, record)
    missing = {key for key in record.keys if key.startswith(_PREFIX)} - set(functions)
    if rows and missing and not diagnostics.errors:
        diagnostics.error(rows[-1].op.span, f"no row for {', '.join(sorted(missing))}")
    table = "".join(f'    "{key}": {_make_name(key)},\n' for key in sorted(functions))
    bodies = "\n\n".join(functions[key] for key in sorted(functions))
    text = f"{_HEADER}\naten = ops.aten\n\n\n{bodies}\n\nFOREACH = {{\n{table}}}\n"
    return {"ortable_generated/foreach.py": text}


def _read_row(entry: YMap, diagnostics: Diagnostics) -> _Row | None:
    op, element_call = entry.get("op"), entry.get("each")
    if not isinstance(op, YScalar) or not isinstance(element_call, YScalar):
        return diagnostics.error(entry.span, "a row needs 'op' and 'each'")
    elements, ignored = entry.get("elements"), entry.get("unused")
    names = elements.values if isinstance(elements, YSeq) else ()
    element_names = tuple(name.text for name in names if isinstance(name, YScalar))
    if elements is not None and (not element_names or len(element_names) != len(names)):
        diagnostics.error(elements.span, "elements is a list of arguments")
    reasons = ignored.items() if isinstance(ignored, YMap) else ()
    names_with_reason = {
        key.text for key, why in reasons if isinstance(why, YScalar) and why.text.strip()
    }
    if ignored is not None and (not names_with_reason or len(names_with_reason) != len(reasons)):
        diagnostics.error(ignored.span, "unused is a mapping from an argument to the reason")
    return _Row(op, element_call, element_names, frozenset(names_with_reason))


def _find_schema(op: YScalar, diagnostics: Diagnostics, record: Record) -> OpSchema | None:
    """Return the schema of an operator, which must be equal in all versions that have it."""
    texts = {text for v in record.versions if (text := record.text(op.text, v)) is not None}
    if not texts:
        diagnostics.error(op.span, f"no supported torch has an operator '{op.text}'")
    elif len(texts) > 1:
        diagnostics.error(
            op.span, f"supported versions of torch differ: {' / '.join(sorted(texts))}"
        )
    else:
        return from_torch_schema(parsed_schema(texts.pop()))
    return None


def _function_text(row: _Row, schema: OpSchema, diagnostics: Diagnostics, record: Record) -> str:
    """Return Python source that returns ``[aten.abs.default(one_self) for one_self in self]``."""
    arguments = {argument.name: argument for argument in schema.arguments}
    lists = [a.name for a in schema.arguments if a.type in ("Tensor[]", "Scalar[]")]
    names = [*lists, *row.elements]
    for name in {*row.elements, *row.ignored} - set(arguments):
        diagnostics.error(row.op.span, f"'{schema.key}' has no argument '{name}'")
    body = _CallEmitter(row, arguments, names, diagnostics, record).element_text()
    sources = [f"{name}.unbind()" if name in row.elements else name for name in names]
    loop = f"for {', '.join(map(_element_name, names))} in zip({', '.join(sources)}, strict=True)"
    if len(names) == 1:
        loop = f"for {_element_name(names[0])} in {sources[0]}"
    return f"def {_make_name(schema.key)}({_signature_text(schema)}):\n    return [{body} {loop}]\n"


class _CallEmitter:
    """Emits ``each`` as Python, and checks its calls against the schemas of the operators."""

    def __init__(
        self, row: _Row, arguments: dict[str, Argument], element_names: list[str],
        diagnostics: Diagnostics, record: Record,
    ) -> None:  # fmt: skip
        self._row, self._arguments, self._element_names = row, arguments, element_names
        self._diagnostics, self._record = diagnostics, record
        self._read_names: set[str] = set()

    def element_text(self) -> str:
        """Return the expression of one element: ``aten.abs.default(one_self)``."""
        try:
            tree = python_tree(self._row.element_call.text, "eval").body
        except SyntaxError as error:
            self._report_error(f"not an expression: {error.msg}")
            return ""
        text = self._emit_expression(tree)
        for name in set(self._arguments) - self._read_names - self._row.ignored:
            self._report_error(f"argument '{name}' is not read")
        return text

    def _emit_expression(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            if node.id not in self._arguments:
                self._report_error(f"'{self._row.op.text}' has no argument '{node.id}'")
            self._read_names.add(node.id)
            return _element_name(node.id) if node.id in self._element_names else node.id
        if isinstance(node, ast.Call):
            return self._emit_call(node)
        self._report_error(
            f"'{ast.unparse(node)}' is neither an argument nor a call of an operator"
        )
        return ""

    def _emit_call(self, node: ast.Call) -> str:
        name = ast.unparse(node.func)
        positional = [self._emit_expression(argument) for argument in node.args]
        named = {str(k.arg): self._emit_expression(k.value) for k in node.keywords}
        self._check_call(name, len(positional), set(named))
        overload = name if "." in name else f"{name}.default"
        return (
            f"aten.{overload}({', '.join([*positional, *(f'{k}={v}' for k, v in named.items())])})"
        )

    def _check_call(self, name: str, count: int, named: set[str]) -> None:
        """Check a call against the schemas of every version that has the row's operator."""
        key, op = f"aten::{name}", self._row.op.text
        versions = [v for v in self._record.versions if self._record.text(op, v) is not None]
        texts = {v: self._record.text(key, v) for v in versions}
        if missing := [v for v, text in texts.items() if text is None]:
            self._report_error(f"torch {listed(missing)} has no operator '{key}'")
            return
        for text in sorted({text for text in texts.values() if text is not None}):
            schema = from_torch_schema(parsed_schema(text))
            positional = [a.name for a in schema.arguments if not a.kwarg_only]
            passed = {*positional[:count], *named}
            required = {a.name for a in schema.arguments if not a.has_default}
            names = {a.name for a in schema.arguments}
            if (
                count > len(positional)
                or required - passed
                or named - names
                or named & set(positional[:count])
            ):
                self._report_error(f"the arguments do not fit {text}")

    def _report_error(self, message: str) -> None:
        self._diagnostics.error(self._row.element_call.span, message)


def _signature_text(schema: OpSchema) -> str:
    parts: list[str] = []
    for argument in schema.arguments:
        if argument.kwarg_only and "*" not in parts:
            parts.append("*")
        default = f"={argument.default!r}" if argument.has_default else ""
        parts.append(f"{argument.name}{default}")
    return ", ".join(parts)


def _element_name(name: str) -> str:
    """Return the variable name of an element of the list ``name``."""
    return f"one_{name}"


def _make_name(key: str) -> str:
    return key.removeprefix("aten::_").replace(".", "_")
