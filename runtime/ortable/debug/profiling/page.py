"""A Profile as a page of HTML: a flame graph of its modules, by plotly, and all tables. In comes a
Profile, out goes a text; called by `Profile.save_html`. The page holds plotly's JavaScript, and
loads nothing."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ortable.errors import OrtableError

from .times import (
    AROUND_TORCH,
    HEADS,
    IN_SESSION,
    NO_LINE,
    NodeTime,
    Table,
    Times,
    head,
    tables_of,
)

_COLORS = {
    "call": "#cfd8dc",
    "graph": "#90a4ae",
    "module": "#ffcc80",
    "kernel": "#e57373",
    "rest": "#b0bec5",
}
_READABLE = {"minsize": 11, "mode": "hide"}  # smaller text is left out
_ROWS = 40  # of a table in the page


@dataclass
class Frame:
    """A box of the flame graph: microseconds a call, with those of the boxes on it."""

    label: str
    what: str
    about: str
    us: float = 0.0
    inside: dict[str, Frame] = field(default_factory=dict)

    def child(self, label: str, what: str, about: str) -> Frame:
        """The box of a name on this one, made where there is none."""
        return self.inside.setdefault(label, Frame(label, what, about))


def frames_of(profile: Times) -> Frame:
    """The call, its graphs, their modules one inside the other, and kernels; what is in no kernel
    lies beside them. The boxes on a box are never longer than it."""
    root = Frame(profile.model, "call", "the call", profile.call_us)
    for number, graph in enumerate(profile.graphs):
        box = root.child(graph.label, "graph", graph.where)
        for module in profile.modules:  # in the order of the table
            if module.graph == number:
                _inside(box, module.path)
        for node in profile.nodes:
            if node.graph == number:
                _add(box, node)
        for label, us in (
            (IN_SESSION, graph.session_us),
            (AROUND_TORCH, graph.torch_us),
        ):
            if us:
                box.child(label, "rest", label).us = us
        box.us = sum(each.us for each in box.inside.values())
    for row in profile.rest:
        if row.name not in (IN_SESSION, AROUND_TORCH):  # which are of their graphs
            root.child(row.name, "rest", row.name).us = row.us
    return root


def _inside(box: Frame, module: str, us: float = 0.0) -> Frame:
    """The box of a module, those around it being longer by some time."""
    path = ""
    for name in module.split(".") if module else ():
        path = f"{path}.{name}" if path else name
        box = box.child(name, "module", path)
        box.us += us
    return box


def _add(box: Frame, node: NodeTime) -> None:
    """The boxes of a node: its modules, then its kernel."""
    torch = node.kernel == node.operator
    label = f"torch: {node.operator}" if torch else f"{node.kernel}: {node.operator}"
    about = f"{node.module or 'the root'}, {node.line or NO_LINE}"
    _inside(box, node.module, node.us).child(label, "kernel", about).us += node.us


# -- the page


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; color: #222; }}
h1 {{ font-size: 1.2rem; margin: 0 0 .4rem; }}
h2 {{ font-size: 1rem; margin: 1.6rem 0 .4rem; }}
table {{ border-collapse: collapse; }}
td, th {{ padding: .1rem .7rem; text-align: right; white-space: pre; }}
td:first-child, th:first-child {{ text-align: left; font-family: ui-monospace, monospace; }}
tr:nth-child(even) {{ background: #f4f6f7; }}
</style>
</head>
<body>
<h1>{head}</h1>
{notes}
{figure}
{tables}
</body>
</html>
"""


def html_of(profile: Times) -> str:
    """The page."""
    try:
        import plotly.graph_objects as go
        import plotly.io
    except ImportError as error:
        raise OrtableError(
            "The page of a profile needs the Python package 'plotly': install the extra with "
            "`pip install 'ortable[profile]'`. text(), json() and trace() need nothing."
        ) from error
    figure = go.Figure(go.Icicle(**_icicle(frames_of(profile), profile.call_us)))
    figure.update_layout(
        margin={"t": 10, "l": 0, "r": 0, "b": 10}, height=620, uniformtext=_READABLE
    )
    drawn = plotly.io.to_html(
        figure, include_plotlyjs=True, full_html=False, config={"displayModeBar": False}
    )
    return _PAGE.format(
        title=html.escape(f"{profile.model}: profile"),
        head=html.escape(head(profile)),
        notes="".join(f"<p>{html.escape(note)}</p>" for note in profile.notes),
        figure=drawn,
        tables="".join(map(_table, tables_of(profile, _ROWS))),
    )


def _icicle(root: Frame, whole: float) -> dict[str, Any]:
    """The boxes as plotly has them: lists of the same length."""
    boxes = list(_numbered(root))
    return {
        "ids": [str(number) for number, _, _ in boxes],
        "parents": ["" if parent < 0 else str(parent) for _, parent, _ in boxes],
        "labels": [html.escape(box.label) for _, _, box in boxes],
        "values": [box.us / 1000 for _, _, box in boxes],
        "customdata": [[html.escape(box.about), 100 * box.us / whole] for _, _, box in boxes],
        "marker": {"colors": [_COLORS[box.what] for _, _, box in boxes]},
        "branchvalues": "total",
        "sort": False,
        "tiling": {"orientation": "v"},
        "texttemplate": "%{label}<br>%{value:.3f} ms",
        "hovertemplate": (
            "<b>%{label}</b><br>%{customdata[0]}<br>%{value:.3f} ms, %{customdata[1]:.1f} %"
            "<extra></extra>"
        ),
    }


def _numbered(root: Frame) -> Iterator[tuple[int, int, Frame]]:
    """Each box with its number and that of the box below it."""
    stack = [(-1, root)]
    number = 0
    while stack:
        parent, box = stack.pop()
        yield number, parent, box
        stack += [(number, each) for each in reversed(box.inside.values())]
        number += 1


def _table(table: Table) -> str:
    heads = "".join(f"<th>{each}</th>" for each in ("", *HEADS))
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return f"<h2>{html.escape(table.title)}</h2><table><tr>{heads}</tr>{rows}</table>"
