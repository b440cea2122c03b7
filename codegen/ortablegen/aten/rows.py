"""Expand ``for:`` entries to one copy per row of the table, with ``$name`` replaced by its value.

Errors point to the text of the entry, or to the row, and name the row.
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
    """Yield the entries of a file with ``for:`` expanded; drop entries with an invalid table."""
    for node in entries:
        if not isinstance(node, YMap) or node.key("for") is None:
            yield node
        else:
            yield from _expand_rows(node, diagnostics)


def _expand_rows(node: YMap, diagnostics: Diagnostics) -> list[YMap]:
    """Expand an entry once per row of its table; return no entries if an error was reported."""
    error_calls_before = diagnostics.error_calls
    rows = _read_table(node, diagnostics)
    body = YMap(node.pairs[1:], node.span)
    if diagnostics.error_calls == error_calls_before:
        _check_parameters(body, rows, diagnostics)
    if diagnostics.error_calls > error_calls_before:
        return []
    entries = [
        _Substitution(row, Row(row.span, row_index), diagnostics).expand_entry(body)
        for row_index, row in enumerate(rows)
    ]
    _check_operators(entries, diagnostics)
    if diagnostics.error_calls == error_calls_before:
        _check_values_vary(rows, diagnostics)
    return entries if diagnostics.error_calls == error_calls_before else []


def _read_table(node: YMap, diagnostics: Diagnostics) -> list[YMap]:
    """Read the rows of ``for:``; report errors."""
    key, table = node.key("for"), node.get("for")
    assert key is not None and table is not None
    if node.pairs[0][0] is not key:
        diagnostics.error(key.span, "'for' is not the first key of its entry", fix="write it first")
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
            diagnostics.error(name.span, f"'{name.text}' is not a valid parameter name")
    for row in rows:
        for name in parameters.values():
            if row.get(name.text) is None:
                notes = [f"line {name.span.line} has one"]
                diagnostics.error(row.span, f"the row has no value for '{name.text}'", notes)
    return rows


def _check_parameters(body: YMap, rows: list[YMap], diagnostics: Diagnostics) -> None:
    """Report references to unknown parameters, or else parameters that the entry does not use."""
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
            message = f"the rows have no parameter '{name}'{hint}" if name else "'$' without a name"
            text_before = scalar.text[: match.start()]
            line = text_before.count("\n") + 1
            span = scalar.at(line, len(text_before.rpartition("\n")[2]))
            diagnostics.error(span, message, notes)
    for key, _ in rows[0].items():
        if key.text not in used and not unknown:
            fix = f"use ${key.text} in the entry, or remove it from the rows"
            diagnostics.error(key.span, f"the entry does not use parameter '{key.text}'", fix=fix)


def _check_values_vary(rows: list[YMap], diagnostics: Diagnostics) -> None:
    """Report parameters that have the same value in every row."""
    for key, value in rows[0].items():
        if all(_to_plain(row.get(key.text)) == _to_plain(value) for row in rows):
            fix = f"write the value instead of ${key.text}"
            diagnostics.error(key.span, f"'{key.text}' is the same in every row", fix=fix)


def _check_operators(entries: list[YMap], diagnostics: Diagnostics) -> None:
    """Report duplicate operators, and rows that are not sorted by operator."""
    first_spans: dict[str, Span] = {}
    for entry in entries:
        row = entry.span.row
        operator = entry.pairs[0][1]
        if not isinstance(operator, YScalar) or row is None:
            continue
        if operator.text in first_spans:
            notes = [f"first given at {first_spans[operator.text]}"]
            message = f"two rows have the operator '{_operator_name(operator)}'"
            diagnostics.error(row.span, message, notes, "give each row a different operator")
        first_spans.setdefault(operator.text, row.span)
    operators = [scalar for entry in entries if isinstance(scalar := entry.pairs[0][1], YScalar)]
    sort_keys = [
        (_operator_name(scalar), scalar.span.row.span)
        for scalar in operators
        if scalar.span.row is not None
    ]
    diagnostics.check_sorted(sort_keys, "keep the rows of a table sorted")


def _operator_name(operator: YScalar) -> str:
    """Return the operator's name, without its schema."""
    return operator.text.partition("(")[0]


class _Substitution:
    """Expands an entry for one row of its table."""

    def __init__(self, row: YMap, row_location: Row, diagnostics: Diagnostics) -> None:
        self.row = row
        self.row_location = row_location
        self.diagnostics = diagnostics

    def expand_entry(self, body: YMap) -> YMap:
        expanded = self.substitute(body)
        assert isinstance(expanded, YMap)
        return expanded

    def substitute(self, node: YNode) -> YNode:
        """Replace the parameters in a node by the row's values.

        A scalar that consists of one parameter may become a list or a mapping.
        """
        if isinstance(node, YSeq):
            return YSeq(tuple(self.substitute_items(node)), self.span_with_row(node))
        if isinstance(node, YMap):
            pairs = [
                (self.substitute_scalar(key), self.substitute(value)) for key, value in node.items()
            ]
            self.check_keys([key for key, _ in pairs])
            return YMap(tuple(pairs), self.span_with_row(node))
        value_node = self.parameter_value(node)
        return (
            self.add_row_to_spans(value_node)
            if value_node is not None
            else self.substitute_scalar(node)
        )

    def check_keys(self, keys: list[YScalar]) -> None:
        """Report keys that are equal after substitution."""
        first_spans: dict[str, Span] = {}
        for key in keys:
            if key.text in first_spans:
                notes = [f"first given at line {first_spans[key.text].line}"]
                self.diagnostics.error(key.span, f"duplicate key '{key.text}'", notes)
            first_spans.setdefault(key.text, key.span)

    def substitute_items(self, node: YSeq) -> Iterator[YNode]:
        """Yield the items of a list; an item ``$name`` whose value is a list yields its items."""
        for item in node:
            value_node = self.parameter_value(item) if isinstance(item, YScalar) else None
            if isinstance(value_node, YSeq):
                yield from (self.add_row_to_spans(spliced_item) for spliced_item in value_node)
            else:
                yield self.substitute(item)

    def parameter_value(self, scalar: YScalar) -> YNode | None:
        """Return the parameter's value if the scalar consists of one parameter, else None."""
        match = _PARAMETER.fullmatch(scalar.text)
        return self.row.get(match["bare"] or match["braced"]) if match is not None else None

    def substitute_scalar(self, scalar: YScalar) -> YScalar:
        """Replace the parameters within a scalar's text."""
        lines, pieces = [], []
        for line_number, line in enumerate(scalar.text.split("\n"), 1):
            expanded, copied_until = "", 0
            for match in _PARAMETER.finditer(line):
                expanded += line[copied_until : match.start()]
                value = self.value_text(scalar, match)
                piece = Piece(line_number, len(expanded), len(expanded) + len(value), *match.span())
                expanded, copied_until = expanded + value, match.end()
                pieces.append(piece)
            lines.append(expanded + line[copied_until:])
        return replace(
            scalar, text="\n".join(lines), span=self.span_with_row(scalar), pieces=tuple(pieces)
        )

    def value_text(self, scalar: YScalar, match: re.Match[str]) -> str:
        """Return a parameter's one-line value for use in longer text; report other values."""
        name = match["bare"] or match["braced"]
        value = self.row.get(name)
        if isinstance(value, YScalar) and "\n" not in value.text:
            return value.text
        assert value is not None
        notes = [f"${name} at line {scalar.span.line} is used within longer text"]
        message = f"'{name}' must be text of one line"
        self.diagnostics.error(value.span, message, notes)
        return ""

    def add_row_to_spans(self, node: YNode) -> YNode:
        """Return a copy of a node that comes from the row, with the row added to its locations."""
        if isinstance(node, YSeq):
            return YSeq(
                tuple(self.add_row_to_spans(item) for item in node), self.span_with_row(node)
            )
        if isinstance(node, YMap):
            pairs = (
                (replace(key, span=self.span_with_row(key)), self.add_row_to_spans(value))
                for key, value in node.items()
            )
            return YMap(tuple(pairs), self.span_with_row(node))
        return replace(node, span=self.span_with_row(node))

    def span_with_row(self, node: YNode) -> Span:
        """Return a node's location with the row added."""
        return replace(node.span, row=self.row_location)


def _iter_scalars(node: YNode) -> Iterator[YScalar]:
    """Yield every scalar of a node, including the keys of mappings."""
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
    """Convert a node to lists, pairs and strings without locations, to compare values."""
    if isinstance(node, YSeq):
        return [_to_plain(item) for item in node]
    if isinstance(node, YMap):
        return [(key.text, _to_plain(value)) for key, value in node.items()]
    return node.text if node is not None else None
