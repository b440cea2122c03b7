"""A Profile as a page of HTML: a flame graph of its modules, by plotly, and all tables. In comes a
Profile, out goes a text; called by `Profile.save_html`. The page holds plotly's JavaScript, and
loads nothing."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ortable.errors import OrtableError

from .report import AROUND_TORCH, HEADS, IN_SESSION, NO_LINE, Profile, Table, head, tables_of

_COLORS = {
    "call": "#cfd8dc",
    "graph": "#90a4ae",
    "module": "#ffcc80",
    "kernel": "#e57373",
    "rest": "#b0bec5",
}
_READABLE = {"minsize": 11, "mode": "hide"}  # smaller text is left out
_ROWS = 40  # of a table in the page


def _boxes(profile: Profile) -> Iterator[tuple[tuple[str, ...], str, str, float]]:
    """What the flame graph is made of, each with the way from the call, what it is, what to say of
    it, and its own microseconds: modules in the order of the table, kernels, and what is in no
    kernel."""
    for number, graph in enumerate(profile.graphs):
        yield (graph.label,), "graph", graph.where, 0.0
        for module in profile.modules:
            parts = module.path.split(".") if module.path and module.graph == number else []
            for depth in range(1, len(parts) + 1):
                yield (graph.label, *parts[:depth]), "module", ".".join(parts[:depth]), 0.0
        for node in profile.nodes:
            if node.graph == number:
                torch = node.kernel == node.operator
                label = f"torch: {node.operator}" if torch else f"{node.kernel}: {node.operator}"
                about = f"{node.module or 'the root'}, {node.line or NO_LINE}"
                parts = node.module.split(".") if node.module else []
                yield (graph.label, *parts, label), "kernel", about, node.us
        for label, us in ((IN_SESSION, graph.session_us), (AROUND_TORCH, graph.torch_us)):
            if us:
                yield (graph.label, label), "rest", label, us
    for row in profile.rest:
        if row.name not in (IN_SESSION, AROUND_TORCH):  # which are of their graphs
            yield (row.name,), "rest", row.name, row.us


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


def html_of(profile: Profile) -> str:
    """The page."""
    try:
        import plotly.graph_objects as go
        import plotly.io
    except ImportError as error:
        raise OrtableError(
            "The page of a profile needs the Python package 'plotly': install the extra with "
            "`pip install 'ortable[profile]'`. text(), json() and trace() need nothing."
        ) from error
    figure = go.Figure(go.Icicle(**_icicle(profile)))
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


def _icicle(profile: Profile) -> dict[str, Any]:
    """The boxes as plotly has them: lists of the same length. A box is as long as those on it."""
    known = {(): (profile.model, "call", "the call")}
    times: dict[tuple[str, ...], float] = defaultdict(float)
    for way, what, about, us in _boxes(profile):
        known.setdefault(way, (way[-1], what, about))
        for depth in range(1, len(way) + 1):
            times[way[:depth]] += us
    times[()] = profile.call_us
    numbers = {way: str(number) for number, way in enumerate(known)}
    return {
        "ids": list(numbers.values()),
        "parents": [numbers[way[:-1]] if way else "" for way in known],
        "labels": [html.escape(label) for label, _, _ in known.values()],
        "values": [times[way] / 1000 for way in known],
        "customdata": [
            [html.escape(about), 100 * times[way] / profile.call_us]
            for way, (_, _, about) in known.items()
        ],
        "marker": {"colors": [_COLORS[what] for _, what, _ in known.values()]},
        "branchvalues": "total",
        "sort": False,
        "tiling": {"orientation": "v"},
        "texttemplate": "%{label}<br>%{value:.3f} ms",
        "hovertemplate": (
            "<b>%{label}</b><br>%{customdata[0]}<br>%{value:.3f} ms, %{customdata[1]:.1f} %"
            "<extra></extra>"
        ),
    }


def _table(table: Table) -> str:
    heads = "".join(f"<th>{each}</th>" for each in ("", *HEADS))
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return f"<h2>{html.escape(table.title)}</h2><table><tr>{heads}</tr>{rows}</table>"
