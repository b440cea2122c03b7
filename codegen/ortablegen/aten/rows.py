"""``for:``: write out one entry for each row of a table, ``$name`` replaced by the row's value.

Errors point at what is written, and name the row.
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


def written_out(entries: Iterable[YNode], diagnostics: Diagnostics) -> Iterator[YNode]:
    """The entries of a file without ``for:``; those of a wrong table are left out."""
    for node in entries:
        if not isinstance(node, YMap) or node.key("for") is None:
            yield node
        else:
            yield from _rows_of(node, diagnostics)


def _rows_of(node: YMap, diagnostics: Diagnostics) -> list[YMap]:
    """The entry once for each row of its table; none after a reported error."""
    before = diagnostics.reports
    rows = _table(node, diagnostics)
    body = YMap(node.pairs[1:], node.span)
    if diagnostics.reports == before:
        _check_parameters(body, rows, diagnostics)
    if diagnostics.reports > before:
        return []
    found = [
        _Substitution(values, Row(values.span, number), diagnostics).entry(body)
        for number, values in enumerate(rows)
    ]
    _check_order(found, diagnostics)
    if diagnostics.reports == before:
        _check_differences(rows, diagnostics)
    return found if diagnostics.reports == before else []


def _table(node: YMap, diagnostics: Diagnostics) -> list[YMap]:
    """The rows of ``for:``; a wrong table is reported."""
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
    given = {name.text: name for row in reversed(rows) for name, _ in row.items()}
    for name in given.values():
        if not _NAME.fullmatch(name.text):
            diagnostics.error(name.span, f"'{name.text}' is no name of a parameter")
    for row in rows:
        for name in given.values():
            if row.get(name.text) is None:
                notes = [f"line {name.span.line} gives it"]
                diagnostics.error(row.span, f"the row has no value for '{name.text}'", notes)
    return rows


def _check_parameters(body: YMap, rows: list[YMap], diagnostics: Diagnostics) -> None:
    """The entry reads every parameter, and no other."""
    names = [key.text for key, _ in rows[0].items()]
    used, unknown = set(), False
    for scalar in _scalars(body):
        for match in _PARAMETER.finditer(scalar.text):
            name = match["bare"] or match["braced"]
            if name in names:
                used.add(name)
                continue
            unknown = True
            hint = did_you_mean(f"${name}", [f"${each}" for each in names])
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
    """The rows differ in every parameter."""
    for key, value in rows[0].items():
        if all(_plain(row.get(key.text)) == _plain(value) for row in rows):
            fix = f"write it in the place of ${key.text}"
            diagnostics.error(key.span, f"'{key.text}' is the same in every row", fix=fix)


def _check_order(entries: list[YMap], diagnostics: Diagnostics) -> None:
    """The rows are of different operators, which are sorted."""
    seen: dict[str, Span] = {}
    for entry in entries:
        row = entry.span.row
        operator = entry.pairs[0][1]
        if not isinstance(operator, YScalar) or row is None:
            continue
        if operator.text in seen:
            notes = [f"first given at {seen[operator.text]}"]
            text = f"two rows are of '{_name(operator)}'"
            diagnostics.error(row.span, text, notes, "give each row an operator of its own")
        seen.setdefault(operator.text, row.span)
    names = [name for entry in entries if isinstance(name := entry.pairs[0][1], YScalar)]
    rows = [(_name(name), name.span.row.span) for name in names if name.span.row is not None]
    diagnostics.check_sorted(rows, "keep the rows of a table sorted")


def _name(operator: YScalar) -> str:
    """What the entry is of: the name in front of the schema."""
    return operator.text.partition("(")[0]


class _Substitution:
    """Writes an entry out for one row."""

    def __init__(self, values: YMap, row: Row, diagnostics: Diagnostics) -> None:
        self.values = values
        self.row = row
        self.diagnostics = diagnostics

    def entry(self, body: YMap) -> YMap:
        """The entry for the row."""
        found = self.node(body)
        assert isinstance(found, YMap)
        return found

    def node(self, node: YNode) -> YNode:
        """The node with the row's values, which may be lists and mappings where a parameter stands
        alone."""
        if isinstance(node, YSeq):
            return YSeq(tuple(self.items(node)), self.span(node))
        if isinstance(node, YMap):
            pairs = [(self.scalar(key), self.node(value)) for key, value in node.items()]
            self.check_keys([key for key, _ in pairs])
            return YMap(tuple(pairs), self.span(node))
        alone = self.alone(node)
        return self.marked(alone) if alone is not None else self.scalar(node)

    def check_keys(self, keys: list[YScalar]) -> None:
        """No two keys are the same with the values of the row."""
        seen: dict[str, Span] = {}
        for key in keys:
            if key.text in seen:
                notes = [f"first given at line {seen[key.text].line}"]
                self.diagnostics.error(key.span, f"duplicate key '{key.text}'", notes)
            seen.setdefault(key.text, key.span)

    def items(self, node: YSeq) -> Iterator[YNode]:
        """The items of a list; a parameter that is a list itself gives its own in its place."""
        for item in node:
            alone = self.alone(item) if isinstance(item, YScalar) else None
            if isinstance(alone, YSeq):
                yield from (self.marked(each) for each in alone)
            else:
                yield self.node(item)

    def alone(self, scalar: YScalar) -> YNode | None:
        """The value of the parameter that is all of a scalar."""
        match = _PARAMETER.fullmatch(scalar.text)
        return self.values.get(match["bare"] or match["braced"]) if match is not None else None

    def scalar(self, scalar: YScalar) -> YScalar:
        """A scalar with the row's values in the places of parameters."""
        lines, pieces = [], []
        for number, line in enumerate(scalar.text.split("\n"), 1):
            text, end = "", 0
            for match in _PARAMETER.finditer(line):
                text += line[end : match.start()]
                value = self.text(scalar, match)
                piece = Piece(number, len(text), len(text) + len(value), *match.span())
                text, end = text + value, match.end()
                pieces.append(piece)
            lines.append(text + line[end:])
        return replace(scalar, text="\n".join(lines), span=self.span(scalar), pieces=tuple(pieces))

    def text(self, scalar: YScalar, match: re.Match[str]) -> str:
        """The value of a parameter inside a text."""
        name = match["bare"] or match["braced"]
        value = self.values.get(name)
        if isinstance(value, YScalar) and "\n" not in value.text:
            return value.text
        assert value is not None
        notes = [f"${name} at line {scalar.span.line} is part of a text"]
        what = f"'{name}' must be text of one line"
        self.diagnostics.error(value.span, what, notes)
        return ""

    def marked(self, node: YNode) -> YNode:
        """A node of the row itself, whose errors name the row, too."""
        if isinstance(node, YSeq):
            return YSeq(tuple(self.marked(each) for each in node), self.span(node))
        if isinstance(node, YMap):
            pairs = ((replace(k, span=self.span(k)), self.marked(v)) for k, v in node.items())
            return YMap(tuple(pairs), self.span(node))
        return replace(node, span=self.span(node))

    def span(self, node: YNode) -> Span:
        """Where a node stands, with the row."""
        return replace(node.span, row=self.row)


def _scalars(node: YNode) -> Iterator[YScalar]:
    """The keys and values below a node that are text."""
    if isinstance(node, YScalar):
        yield node
    elif isinstance(node, YSeq):
        for item in node:
            yield from _scalars(item)
    else:
        for key, value in node.items():
            yield key
            yield from _scalars(value)


def _plain(node: YNode | None) -> object:
    """What a node says, without places."""
    if isinstance(node, YSeq):
        return [_plain(each) for each in node]
    if isinstance(node, YMap):
        return [(key.text, _plain(value)) for key, value in node.items()]
    return node.text if node is not None else None
