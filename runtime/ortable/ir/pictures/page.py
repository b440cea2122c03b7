"""A scene as one page of HTML: modules are boxes that a click opens, with search, zoom and pan. The
page needs nothing else, no server and no graphviz. In comes a scene, out goes text; called by
`draw`.

The layout is made in the browser by dagre (MIT licence), whose script is in the page, as are
page.js and page.css; the model is in it as JSON."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any

from .dot import color_of
from .scene import Group, Item, Scene, boxes_of, groups_of
from .view import View, summary

__all__ = ["page_of"]

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
{css}</style>
</head>
<body>
<header>
<h1>{title}</h1><span id="count"></span>
<label><input type="checkbox" id="attributes"> attributes</label>
<label><input type="checkbox" id="weights"> weights</label>
<button id="all">open all</button><button id="none">close all</button>
<button id="out" title="smaller">&minus;</button><button id="in" title="larger">+</button>
<button id="fit">fit</button>
<span id="finder"><input id="search" type="search" placeholder="search nodes, modules, weights">
<ul id="results" hidden></ul></span>
</header>
<svg id="graph"><defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"
markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#8899aa"/></marker></defs>
<g id="scene"></g></svg>
<div id="details" hidden></div>
<script>
{dagre}</script>
<script>const data = {data};</script>
<script>
{script}</script>
</body>
</html>
"""
_ROLES = {"node": 0, "input": 1, "output": 2}


def page_of(scene: Scene, view: View, *, weights: bool = True, attributes: bool = True) -> str:
    """The page of a scene; the groups that are open in ``view`` are open when it is loaded."""
    root = scene.root
    edges = [
        [edge.source.key, edge.target.key, edge.name, edge.type, int(edge.inner)]
        for edge in scene.edges
    ]
    nodes = sum(1 for box in boxes_of(root) if box.role == "node")
    modules = {group.path for group in groups_of(root) if group.role in ("module", "function")}
    data = {
        "root": _item(root),
        "edges": edges,
        "open": [root.key, *_opened(root, view.closed)],
        "nodes": nodes,
        "modules": len(modules),
        "weights": weights,
        "attributes": attributes,
    }
    title = f"{root.name} {root.kind}".strip()
    # in a script, a text could end the script: "<" is written in another way
    written = json.dumps(data, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
    return _PAGE.format(
        title=html.escape(title),
        css=_text("page.css"),
        dagre=_text("dagre.min.js"),
        data=written,
        script=_text("page.js"),
    )


def _text(name: str) -> str:
    return files("ortable.ir.pictures").joinpath(name).read_text(encoding="utf-8")


def _opened(group: Group, closed: set[Group]) -> list[str]:
    found = []
    for item in group.items:
        if isinstance(item, Group) and item not in closed:
            found += [item.key, *_opened(item, closed)]
    return found


def _item(item: Item) -> dict[str, Any]:
    """What page.js reads. Of a box: key, role, title, note, name, attributes, weights and their
    whole names, types of outputs, what the metadata says, fill. Of a group: key, role, title,
    class, path, summary, how many blocks, items."""
    if isinstance(item, Group):
        return {
            "k": item.key,
            "g": item.role,
            "t": item.title(),
            "c": item.kind,
            "p": item.path,
            "s": [text for text in summary(item) if text],
            "u": item.times,
            "i": [_item(each) for each in item.items],
        }
    return {
        "k": item.key,
        "r": _ROLES[item.role],
        "t": item.title,
        "n": item.note,
        "m": item.name,
        "a": [[row.name, row.text] for row in item.attributes],
        "w": [[row.name, row.text] for row in item.weights],
        "z": [row.whole or row.name for row in item.weights],
        "o": list(item.outputs),
        "h": [[key, text] for key, text in item.about.items()],
        "f": color_of(item.title),
    }
