"""``for:``: expand an entry once per row of a table, ``$name`` replaced by the row's value.

Errors point at the written text and name the row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ortablegen.source.diagnostics import Diagnostics, Row, Span, did_you_mean
from ortablegen.source.yaml_source import Piece, YMap, YNode, YScalar, YSeq

FORM = "for: [{op: aten::amax, largest: True}, {op: aten::amin, largest: False}]"
_PARAMETER = re.compile(r"\$(?:(?P<bare>[A-Za-z]\w*)|\{(?P<braced>[A-Za-z]\w*)\})?")
_NAME = re.compile(r"[A-Za-z]\w*")


def expand_tables(entries: Iterable[YNode], diagnostics: Diagnostics) -> Iterator[YNode]:
    """Yield the entries of a file with ``for:`` expanded; those of a wrong table are left out."""
    for node in entries:
        if not isinstance(node, YMap) or node.key("for") is None:
            yield node
        else:
            yield from _expand_rows(node, diagnostics)


def _expand_rows(node: YMap, diagnostics: Diagnostics) -> list[YMap]:
    """Expand the entry once per row of its table; empty after a reported error."""
    before = diagnostics.reports
    rows = _read_table(node, diagnostics)
    body = YMap(node.pairs[1:], node.span)
    if diagnostics.reports == before:
        _check_parameters(body, rows, diagnostics)
    if diagnostics.reports > before:
        return []
    entries = [
        _Substitution(values, Row(values.span, number), diagnostics).expand_entry(body)
        for number, values in enumerate(rows)
    ]
    _check_order(entries, diagnostics)
    if diagnostics.reports == before:
        _check_differences(rows, diagnostics)
    return entries if diagnostics.reports == before else []


def _read_table(node: YMap, diagnostics: Diagnostics) -> list[YMap]:
    """Read the rows of ``for:``, reporting errors."""
    key, table = node.key("for"), node.get("for")
    assert key is not None and table is not None
    if node.pairs[0][0] is not key:
        diagnostics.error(key.span, "'for' is not the first key of its entry", fix="begin with it")
    if not isinstance(table, YSeq) or not all(isinstance(row, YMap) for row in table):
        diagnostics.error(table.span, "for must be a list of rows, each a mapping", fix=FORM)
        return []
    rows = [row for row in table if isinstance(row, YMap)]
    if len(rows) < 2:
        fix = "write the entry without 'for'"
        diagnostics.error(table.span, "'for' has fewer than two rows", fix=fix)
        return []
    parameters = {name.text: name for row in reversed(rows) for name, _ in row.items()}
    for name in parameters.values():
        if not _NAME.fullmatch(name.text):
            diagnostics.error(name.span, f"'{name.text}' is no name of a parameter")
    for row in rows:
        for name in parameters.values():
            if row.get(name.text) is None:
                notes = [f"line {name.span.line} gives it"]
                diagnostics.error(row.span, f"the row has no value for '{name.text}'", notes)
    return rows


def _check_parameters(body: YMap, rows: list[YMap], diagnostics: Diagnostics) -> None:
    """Check that the entry reads every parameter, and no other."""
    names = [key.text for key, _ in rows[0].items()]
    used, unknown = set(), False
    for scalar in _iter_scalars(body):
        for match in _PARAMETER.finditer(scalar.text):
            name = match["bare"] or match["braced"]
            if name in names:
                used.add(name)
                continue
            unknown = True
            hint = did_you_mean(f"${name}", [f"${known_name}" for known_name in names])
            notes = [f"parameters are {', '.join(names)}"]
            text = f"the rows have no '{name}'{hint}" if name else "'$' without a name"
            before = scalar.text[: match.start()]
            line = before.count("\n") + 1
            span = scalar.at(line, len(before.rpartition("\n")[2]))
            diagnostics.error(span, text, notes)
    for key, _ in rows[0].items():
        if key.text not in used and not unknown:
            fix = f"write ${key.text} where it belongs, or take it out of the rows"
            diagnostics.error(key.span, f"the entry does not read '{key.text}'", fix=fix)


def _check_differences(rows: list[YMap], diagnostics: Diagnostics) -> None:
    """Check that the rows differ in every parameter."""
    for key, value in rows[0].items():
        if all(_to_plain(row.get(key.text)) == _to_plain(value) for row in rows):
            fix = f"write it in the place of ${key.text}"
            diagnostics.error(key.span, f"'{key.text}' is the same in every row", fix=fix)


def _check_order(entries: list[YMap], diagnostics: Diagnostics) -> None:
    """Check that the rows are of different operators, in order."""
    seen: dict[str, Span] = {}
    for entry in entries:
        row = entry.span.row
        operator = entry.pairs[0][1]
        if not isinstance(operator, YScalar) or row is None:
            continue
        if operator.text in seen:
            notes = [f"first given at {seen[operator.text]}"]
            text = f"two rows are of '{_operator_name(operator)}'"
            diagnostics.error(row.span, text, notes, "give each row an operator of its own")
        seen.setdefault(operator.text, row.span)
    names = [name for entry in entries if isinstance(name := entry.pairs[0][1], YScalar)]
    rows = [
        (_operator_name(name), name.span.row.span) for name in names if name.span.row is not None
    ]
    diagnostics.check_sorted(rows, "keep the rows of a table sorted")


def _operator_name(operator: YScalar) -> str:
    """Return the name in front of the schema."""
    return operator.text.partition("(")[0]


class _Substitution:
    """Expands an entry for one row."""

    def __init__(self, values: YMap, row: Row, diagnostics: Diagnostics) -> None:
        self.values = values
        self.row = row
        self.diagnostics = diagnostics

    def expand_entry(self, body: YMap) -> YMap:
        expanded = self.substitute(body)
        assert isinstance(expanded, YMap)
        return expanded

    def substitute(self, node: YNode) -> YNode:
        """Substitute the row's values in a node.

        They may be lists and mappings where a parameter is the whole scalar.
        """
        if isinstance(node, YSeq):
            return YSeq(tuple(self.substitute_items(node)), self.row_span(node))
        if isinstance(node, YMap):
            pairs = [
                (self.substitute_scalar(key), self.substitute(value)) for key, value in node.items()
            ]
            self.check_keys([key for key, _ in pairs])
            return YMap(tuple(pairs), self.row_span(node))
        value_node = self.parameter_value(node)
        return self.with_row(value_node) if value_node is not None else self.substitute_scalar(node)

    def check_keys(self, keys: list[YScalar]) -> None:
        """Report keys that are equal after the substitution."""
        seen: dict[str, Span] = {}
        for key in keys:
            if key.text in seen:
                notes = [f"first given at line {seen[key.text].line}"]
                self.diagnostics.error(key.span, f"duplicate key '{key.text}'", notes)
            seen.setdefault(key.text, key.span)

    def substitute_items(self, node: YSeq) -> Iterator[YNode]:
        """Yield the items of a list; a parameter that is a list is spliced."""
        for item in node:
            value_node = self.parameter_value(item) if isinstance(item, YScalar) else None
            if isinstance(value_node, YSeq):
                yield from (self.with_row(value_item) for value_item in value_node)
            else:
                yield self.substitute(item)

    def parameter_value(self, scalar: YScalar) -> YNode | None:
        """Return the value of the parameter that is the whole scalar."""
        match = _PARAMETER.fullmatch(scalar.text)
        return self.values.get(match["bare"] or match["braced"]) if match is not None else None

    def substitute_scalar(self, scalar: YScalar) -> YScalar:
        """Substitute the row's values in a scalar."""
        lines, pieces = [], []
        for number, line in enumerate(scalar.text.split("\n"), 1):
            text, end = "", 0
            for match in _PARAMETER.finditer(line):
                text += line[end : match.start()]
                value = self.value_text(scalar, match)
                piece = Piece(number, len(text), len(text) + len(value), *match.span())
                text, end = text + value, match.end()
                pieces.append(piece)
            lines.append(text + line[end:])
        return replace(
            scalar, text="\n".join(lines), span=self.row_span(scalar), pieces=tuple(pieces)
        )

    def value_text(self, scalar: YScalar, match: re.Match[str]) -> str:
        """Return the value of a parameter inside a text."""
        name = match["bare"] or match["braced"]
        value = self.values.get(name)
        if isinstance(value, YScalar) and "\n" not in value.text:
            return value.text
        assert value is not None
        notes = [f"${name} at line {scalar.span.line} is part of a text"]
        what = f"'{name}' must be text of one line"
        self.diagnostics.error(value.span, what, notes)
        return ""

    def with_row(self, node: YNode) -> YNode:
        """Add the row to the location of a node of the row itself."""
        if isinstance(node, YSeq):
            return YSeq(tuple(self.with_row(item) for item in node), self.row_span(node))
        if isinstance(node, YMap):
            pairs = ((replace(k, span=self.row_span(k)), self.with_row(v)) for k, v in node.items())
            return YMap(tuple(pairs), self.row_span(node))
        return replace(node, span=self.row_span(node))

    def row_span(self, node: YNode) -> Span:
        """Return the location of a node, with the row."""
        return replace(node.span, row=self.row)


def _iter_scalars(node: YNode) -> Iterator[YScalar]:
    """Yield the keys and values below a node that are text."""
    if isinstance(node, YScalar):
        yield node
    elif isinstance(node, YSeq):
        for item in node:
            yield from _iter_scalars(item)
    else:
        for key, value in node.items():
            yield key
            yield from _iter_scalars(value)


def _to_plain(node: YNode | None) -> object:
    """Convert a node to plain data, without locations."""
    if isinstance(node, YSeq):
        return [_to_plain(item) for item in node]
    if isinstance(node, YMap):
        return [(key.text, _to_plain(value)) for key, value in node.items()]
    return node.text if node is not None else None
