"""Write a view as DOT text for graphviz, with open groups as clusters and boxes as tables."""

from __future__ import annotations

import colorsys
import html
import zlib
from collections.abc import Iterator

from .scene import Box, Group, Item, Row
from .view import View, summarize_group

_FONT = "Helvetica,Arial,sans-serif"
_HEAD = f"""digraph onnx {{{{
  graph [rankdir={{rankdir}}, fontname="{_FONT}", ranksep=0.32, nodesep=0.22, pad=0.2, \
compound=true, tooltip=" ", bgcolor="white", label={{title}}, labelloc=t, labeljust=l, fontsize=16];
  node [shape=plain, fontname="{_FONT}", fontsize=11];
  edge [fontname="{_FONT}", fontsize=8, fontcolor="#667788", color="#8899aa", arrowsize=0.6, \
penwidth=1.0];"""
_FILLS = ("#f4f7fb", "#e9eff7", "#dde7f3", "#d2dff0")  # fill colors of clusters by depth
_END_COLORS = {"input": "#cfe8ff", "output": "#d3f2d3"}
_LONG_EDGE_STYLE = ', color="#d9822b", penwidth=1.8, weight=0'


def format_dot(
    view: View, *, rankdir: str = "TB", weights: bool = True, attributes: bool = True
) -> str:
    """Format a view as DOT text.

    The statement of a visible item is named ``k<number>``, or ``cluster_k<number>`` for an open
    group. Without ``weights`` or ``attributes``, boxes have no rows of them.
    """
    writer = _Writer(view, weights, attributes)
    root = view.root
    title = root.name if not root.kind else f"{root.name}  {root.kind}"
    lines = [_HEAD.format(rankdir=rankdir, title=_quote_text(title))]
    lines += writer.group_statements(root, 1)
    lines += writer.link_statements()
    return "\n".join([*lines, "}", ""])


def operator_color(operator: str) -> str:
    """Return a light color that depends only on the name of the operator."""
    hue = (zlib.crc32(operator.encode()) % 360) / 360
    red, green, blue = colorsys.hls_to_rgb(hue, 0.86, 0.55)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


class _Writer:
    """Formats the statements of one view."""

    def __init__(self, view: View, weights: bool, attributes: bool) -> None:
        self.view = view
        self.weights = weights
        self.attributes = attributes
        self.names: dict[Item, str] = {}

    def item_id(self, item: Item) -> str:
        """Return the name of the statement of an item."""
        return self.names.setdefault(item, f"k{len(self.names) + 1}")

    def group_statements(self, group: Group, depth: int) -> Iterator[str]:
        """Yield the statements of the items in an open group."""
        indent = "  " * depth
        for item in group.items:
            if isinstance(item, Box):
                yield f"{indent}{self.item_id(item)} [{self.box_attributes(item)}];"
            elif item in self.view.closed:
                yield f"{indent}{self.item_id(item)} [{_closed_attributes(item)}];"
            else:
                yield f"{indent}subgraph cluster_{self.item_id(item)} {{"
                fill = _FILLS[(depth - 1) % len(_FILLS)]
                style = (
                    "rounded,filled,dashed" if item.role in ("repeat", "body") else "rounded,filled"
                )
                title, tooltip = _cluster_title(item), _quote_text(_group_tooltip(item))
                yield (
                    f'{indent}  graph [style="{style}", color="#9fb3c8", fillcolor="{fill}", '
                    f"margin=8, fontsize=11, label={title}, tooltip={tooltip}];"
                )
                yield from self.group_statements(item, depth + 1)
                yield f"{indent}}}"

    def box_attributes(self, box: Box) -> str:
        """Format the DOT attributes of a box."""
        details = [box.name, *(f"{key}: {text}" for key, text in box.about.items())]
        details += [row.full_name for row in box.weights]
        tooltip = _quote_text("\n".join(filter(None, details)) or box.title)
        if box.role != "node":
            rows = [f"<tr><td><b>{_escape_html(box.title)}</b></td></tr>"]
            if box.note:
                note_text = f'<font point-size="9">{_escape_html(box.note)}</font>'
                rows.append(f"<tr><td>{note_text}</td></tr>")
            table = _html_table(rows, color=_END_COLORS[box.role], style="rounded")
            return f"label=<{table}>, tooltip={tooltip}"
        rows = [
            f'<tr><td colspan="2" bgcolor="{operator_color(box.title)}">'
            f"<b>{_escape_html(box.title)}</b>"
        ]
        if box.note:
            rows[0] += f' <font point-size="8" color="#556677">{_escape_html(box.note)}</font>'
        rows[0] += "</td></tr>"
        if self.attributes:
            rows += [_html_row(row, "#667788") for row in box.attributes]
        if self.weights:
            rows += [_html_row(row, "#1f4e79") for row in box.weights]
        return f"label=<{_html_table(rows)}>, tooltip={tooltip}"

    def link_statements(self) -> Iterator[str]:
        """Yield the statements of the edges; only the first edge of a result shows its type."""
        typed_results: set[tuple[Item, str]] = set()
        for link in self.view.links:
            types = [(name, text) for name, text in link.names.items() if text]
            new_types = [text for name, text in types if (link.source, name) not in typed_results]
            typed_results.update((link.source, name) for name, _ in types)
            is_end = isinstance(link.source, Box) and link.source.role == "input"
            is_end = is_end or (isinstance(link.target, Box) and link.target.role == "output")
            label = "" if is_end else _edge_text(new_types)
            tooltip = _quote_text(
                "\n".join(f"{result} {type}".strip() for result, type in link.names.items()) or " "
            )
            style = f"tooltip={tooltip}"
            if label:
                style += f", label={_quote_text(label)}, labeltooltip={tooltip}"
            if link.inner:
                style += ', style=dashed, color="#a58fc0"'
            elif link.long:
                style += _LONG_EDGE_STYLE
            else:
                style += ", weight=4"
            yield f"  {self.item_id(link.source)} -> {self.item_id(link.target)} [{style}];"


def _edge_text(types: list[str]) -> str:
    if len(types) > 2:
        types = [f"{len(types)} results"]
    return "\n".join(f"  {text}" for text in types)  # the spaces separate the text from the edge


def _closed_attributes(group: Group) -> str:
    """Format the DOT attributes (label and tooltip) of a closed group."""
    counts, operators = summarize_group(group)
    class_text = f'  <font color="#556677">{_escape_html(group.kind)}</font>' if group.kind else ""
    rows = [f'<tr><td bgcolor="#c9d8ea"><b>{_escape_html(group.title())}</b>{class_text}</td></tr>']
    small_row = '<tr><td align="left"><font point-size="9" color="#445566">{}</font></td></tr>'
    rows += [small_row.format(_escape_html(text)) for text in (counts, operators) if text]
    if group.role == "others":
        rows.insert(1, small_row.format("each equal to the first"))
    border = 3 if group.times > 1 else 2
    tooltip = _quote_text(_group_tooltip(group))
    return f"label=<{_html_table(rows, border)}>, tooltip={tooltip}"


def _cluster_title(group: Group) -> str:
    text = f"<b>{_escape_html(group.title())}</b>"
    if group.kind:
        text += f'  <font color="#556677">{_escape_html(group.kind)}</font>'
    return f"<{text}>"


def _group_tooltip(group: Group) -> str:
    return " ".join(filter(None, (group.path or group.name, group.kind)))


def _html_table(rows: list[str], border: int = 1, color: str = "white", style: str = "") -> str:
    style_attribute = f' style="{style}"' if style else ""
    return (
        f'<table border="{border}" cellborder="0" cellspacing="0" cellpadding="3" '
        f'color="#7a93ab" bgcolor="{color}"{style_attribute}>{"".join(rows)}</table>'
    )


def _html_row(row: Row, color: str) -> str:
    cell = '<td align="{}"><font point-size="9" color="{}">{}</font></td>'
    return (
        f"<tr>{cell.format('left', color, _escape_html(row.name) or ' ')}"
        f"{cell.format('right', '#333333', _escape_html(row.text) or ' ')}</tr>"
    )


def _escape_html(text: str) -> str:
    """Escape a text for an HTML label of graphviz, with spaces for control characters."""
    return html.escape(_replace_control(text), quote=True).replace("&#x27;", "&#39;")


def _quote_text(text: str) -> str:
    """Quote a text for DOT, and escape backslashes, quotes and ``&``."""
    lines = [
        _replace_control(line).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
        for line in text.split("\n")
    ]
    return '"' + "\\n".join(lines) + '"'


def _replace_control(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
