"""What of a scene is looked at: the whole or one module, groups open down to some depth, and the
edges between what is then to be seen. In comes a scene, out goes a View; called by `draw`."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from ortable.errors import OptionError

from .scene import Box, Edge, Group, Item, Scene, boxes_of, groups_of

FEW = 24  # boxes that fit a screen: as deep is it opened when nobody says how deep
_LONG = 4  # ranks that an edge passes to be drawn as a long one


@dataclass(eq=False)
class Link:
    """All that one visible item reads from another one."""

    source: Item
    target: Item
    names: dict[str, str] = field(default_factory=dict)
    inner: bool = True
    long: bool = False


@dataclass(eq=False)
class View:
    """A picture: ``root`` is not drawn itself; groups in ``closed`` are single boxes."""

    root: Group
    closed: set[Group]
    links: list[Link]

    def boxes(self) -> int:
        """How many boxes are to be seen."""
        return _count(self.root, self.closed)


def part_of(scene: Scene, name: str) -> Scene:
    """The scene of one module, by its path or class. What it reads from outside are its inputs, and
    what others read of it are its outputs.

    Raises OptionError when there is no such module.
    """
    chosen = _chosen(scene, name)
    root = Group("model", chosen.path, chosen.kind, chosen.path)
    root.items = list(chosen.items)
    inside = set(boxes_of(root))
    stands: dict[tuple[Box, str, str], Box] = {}

    def stand_in(edge: Edge, role: Literal["input", "output"]) -> Box:
        key = (edge.source, edge.name, role)
        if key not in stands:
            title = edge.name or edge.source.title
            types = (edge.type,) if role == "input" else ()
            names = (edge.name,) if role == "input" else ()
            stands[key] = Box(role, title, edge.type, outputs=types, results=names)
        return stands[key]

    edges: dict[tuple[Box, Box, str, int], Edge] = {}
    for edge in scene.edges:
        source, target = edge.source, edge.target
        if source not in inside and target not in inside:
            continue
        if source not in inside:
            edge = replace(edge, source=stand_in(edge, "input"), output=0)
        if target not in inside:
            edge = replace(edge, target=stand_in(edge, "output"), place=0)
        edges.setdefault((edge.source, edge.target, edge.name, edge.place), edge)
    root.items[:0] = [box for box in stands.values() if box.role == "input"]
    root.items += [box for box in stands.values() if box.role == "output"]
    return Scene(root, list(edges.values()))


def view_of(scene: Scene, depth: int | None = None) -> View:
    """A view with groups open ``depth`` levels down; without a depth, as deep as the picture has no
    more than 24 boxes."""
    root = scene.root
    if depth is None:
        depths = range(1, _levels(root) + 1)
        depth = max((deeper for deeper in depths if shown(root, deeper) <= FEW), default=0)
    closed = set(_closed(root, depth))
    links = _links(scene, closed)
    _mark_long(links)
    return View(root, closed, links)


def _levels(group: Group) -> int:
    """How many groups lie in one another."""
    inner = [_levels(item) for item in group.items if isinstance(item, Group)]
    return 1 + max(inner) if inner else 0


def shown(root: Group, depth: int) -> int:
    """How many boxes are to be seen when groups are open ``depth`` levels down."""
    return _count(root, set(_closed(root, depth)))


def _count(group: Group, closed: set[Group]) -> int:
    return sum(
        1 if isinstance(item, Box) or item in closed else _count(item, closed)
        for item in group.items
    )


def _closed(group: Group, depth: int) -> Iterator[Group]:
    """The outermost groups that are closed."""
    for item in group.items:
        if isinstance(item, Box):
            continue
        if item.role in ("others", "ends") or depth <= 0:
            yield item
        else:
            yield from _closed(item, depth - (item.role != "repeat"))


def _chosen(scene: Scene, name: str) -> Group:
    """The module of a path or class, or all of its parts in one group."""
    groups = [group for group in groups_of(scene.root) if group.role in ("module", "function")]
    found = [group for group in groups if name == group.path]
    found = found or [group for group in groups if name == group.kind][:1]
    if not found:
        paths = list(dict.fromkeys(group.path for group in groups))
        close = difflib.get_close_matches(name, paths, 3, 0.3) or paths[:3]
        known = f"it has {', '.join(close)}" if close else "its nodes do not say of which module"
        more = f" and {len(paths) - len(close)} others" if len(paths) > len(close) else ""
        raise OptionError(f"the graph has no module {name!r}: {known}{more}")
    if len(found) == 1:
        return found[0]
    return Group("module", name, found[0].kind, name, items=list(found))


def _links(scene: Scene, closed: set[Group]) -> list[Link]:
    """Edges between what is visible."""
    place: dict[Box, Item] = {}

    def visit(group: Group) -> None:
        for item in group.items:
            if isinstance(item, Box):
                place[item] = item
            elif item in closed:
                place.update((box, item) for box in boxes_of(item))
            else:
                visit(item)

    visit(scene.root)
    links: dict[tuple[Item, Item], Link] = {}
    for edge in scene.edges:
        source, target = place[edge.source], place[edge.target]
        if source is not target:
            link = links.setdefault((source, target), Link(source, target))
            link.names[edge.name] = edge.type
            link.inner = link.inner and edge.inner
    return list(links.values())


def _mark_long(links: list[Link]) -> None:
    """Mark the links that pass several ranks: residuals. Ranks are lengths of longest ways."""
    sources: dict[Item, set[Item]] = {}
    for link in links:
        sources.setdefault(link.target, set()).add(link.source)
    rank: dict[Item, int] = {}
    try:
        for item in TopologicalSorter(sources).static_order():
            rank[item] = max((rank[each] + 1 for each in sources.get(item, ())), default=0)
    except CycleError:  # a box of several blocks may read what reads one of them
        return
    for link in links:
        if not isinstance(link.source, Box) or link.source.role != "input":
            link.long = rank[link.target] - rank[link.source] >= _LONG


def summary(group: Group) -> tuple[str, str]:
    """What a closed group has inside: ``12 nodes, 7.1 M weights`` and its most frequent operators.
    Of blocks that repeat, what one of them has."""
    boxes = [box for box in boxes_of(group) if box.role == "node"]
    share = group.times
    weights = sum(box.parameters for box in boxes) // share
    if not boxes:
        return "", ""
    first = f"{len(boxes) // share} node{'s' if len(boxes) != share else ''}"
    if weights:
        first += f", {count_text(weights)} weights"
    counts = Counter(box.title for box in boxes)
    names = [
        f"{title} {number // share}" if number // share > 1 else title
        for title, number in counts.most_common(4)
    ]
    more = ", \N{HORIZONTAL ELLIPSIS}" if len(counts) > len(names) else ""
    return first + (" each" if share > 1 else ""), ", ".join(names) + more


def count_text(number: int) -> str:
    """``7.1 M``."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)
