"""What of a scene is looked at: the whole or one module, blocks that repeat folded, groups open
down to some depth, and the edges between what is then seen. In comes a scene, out goes a View;
called by `draw`.

Blocks are equal when their modules have the same classes and names but for numbers, and their nodes
the same operators, attributes, types, shapes of weights and ways between them."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
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


_LONGEST = 400  # items of a block
_FEWEST = 3  # blocks in a row that are worth folding
_SMALLEST = 3  # boxes of a block
_ENDS = 8  # inputs, and outputs, that stand by themselves; of more of them, the first few do
_FIRST = 3
_NUMBER = re.compile(r"\d+")


def fold(scene: Scene) -> None:
    """Fold the repeated blocks of all groups."""
    reads: dict[Box, list[Edge]] = {}
    for edge in scene.edges:
        reads.setdefault(edge.target, []).append(edge)
    _Folder(reads).group(scene.root)


class _Folder:
    """The equality of items, each computed once."""

    def __init__(self, reads: dict[Box, list[Edge]]) -> None:
        self.reads = reads
        self.numbers: dict[Hashable, int] = {}
        self.of_item: dict[Item, int] = {}

    def group(self, group: Group) -> None:
        """Fold the items of a group, then those of its groups."""
        kinds = [self.kind(item) for item in group.items]
        found: list[Item] = []
        place = 0
        while place < len(group.items):
            size, times = self.run(group.items, kinds, place)
            block = group.items[place : place + size]
            if times > 1:
                others = group.items[place + size : place + size * times]
                found.append(self.folded(group, block, others, times))
            else:
                found += block
            place += size * times
        group.items = []
        for item in found:
            group.add(item)
        for item in found:
            repeat = item if isinstance(item, Group) and item.role == "repeat" else None
            for inner in repeat.items if repeat else [item]:
                if isinstance(inner, Group) and inner.role != "others":  # which is never open
                    self.group(inner)

    def kind(self, item: Item) -> int:
        """A number that items share which have the same form, whatever they are joined to."""
        known = self.of_item.get(item)
        if known is None:
            face: Hashable
            if isinstance(item, Box):
                face = _face(item) if item.role == "node" else item
            else:
                inner = tuple(map(self.kind, item.items))
                face = (item.role, _NUMBER.sub("", item.name), item.kind, inner)
            known = self.of_item[item] = self.numbers.setdefault(face, len(self.numbers))
        return known

    def run(self, items: Sequence[Item], kinds: Sequence[int], place: int) -> tuple[int, int]:
        """Size of the block that starts at a place and how many equal ones stand in a row."""
        best = (1, 1)
        for size in range(1, min(_LONGEST, (len(kinds) - place) // _FEWEST) + 1):
            if not kinds[place] == kinds[place + size] == kinds[place + 2 * size]:
                continue
            block = kinds[place : place + size]
            times = 1
            while kinds[place + size * times : place + size * (times + 1)] == block:
                times += 1
            if times < _FEWEST or size * times <= best[0] * best[1]:
                continue
            if sum(1 for item in items[place : place + size] for _ in boxes_of(item)) < _SMALLEST:
                continue
            times = self.equal_ways(items[place : place + size * times], size)
            if times >= _FEWEST and size * times > best[0] * best[1]:
                best = (size, times)
                if place + size * (times + 1) > len(kinds):
                    break  # no other one covers more
        return best

    def equal_ways(self, items: Sequence[Item], size: int) -> int:
        """How many blocks of ``size`` items, from the first on, have the same ways inside."""
        blocks = [items[start : start + size] for start in range(0, len(items), size)]
        first = self.ways(blocks[0])
        for count, block in enumerate(blocks):
            if self.ways(block) != first:
                return count
        return len(blocks)

    def ways(self, block: Sequence[Item]) -> Hashable:
        """Where the boxes of a block read from, by the order in which results are met."""
        met: dict[tuple[Box, str], int] = {}
        inside = {box for item in block for box in boxes_of(item)}
        found = []
        for item in block:
            for box in boxes_of(item):
                for edge in self.reads.get(box, ()):
                    number = met.setdefault((edge.source, edge.name), len(met))
                    found.append((number, edge.source in inside, edge.inner))
                found.append((-1, False, False))
        return tuple(found)

    def folded(
        self, group: Group, block: Sequence[Item], others: Sequence[Item], times: int
    ) -> Group:
        """All blocks as one group: the first one, and a group of the others."""
        first, last = block[0], others[-1]
        single = len(block) == 1 and isinstance(first, Group) and isinstance(last, Group)
        names = (first, others[0], last) if single else ()
        kind = first.kind if single and isinstance(first, Group) else ""
        whole = Group("repeat", _from_to(names[::2]), kind, group.path, times=times)
        rest = Group("others", _from_to(names[1:]), kind, group.path, times=times - 1)
        for item in block:
            whole.add(item)
        for item in others:
            rest.add(item)
        whole.add(rest)
        return whole


def _from_to(items: Sequence[Item]) -> str:
    """``layer.1 ... layer.11``, of a first and a last group."""
    names = [item.name for item in items if isinstance(item, Group)]
    if not names:
        return "block of nodes"
    return " \N{HORIZONTAL ELLIPSIS} ".join(dict.fromkeys(names))


def _face(box: Box) -> Hashable:
    """What must be the same for two boxes to be alike. Names of weights and nodes may differ."""
    weights = tuple(row.text for row in box.weights)
    return (box.title, box.note, box.attributes, weights, box.outputs)


def gather_ends(root: Group) -> None:
    """Of many inputs or outputs of the model, leave the first few; the others are one box."""
    for role in ("input", "output"):
        ends = [item for item in root.items if isinstance(item, Box) and item.role == role]
        if len(ends) <= _ENDS:
            continue
        rest = ends[_FIRST:]
        made = Group("ends", f"{len(rest)} more {role}s", path=root.path)
        for item in rest:
            made.add(item)
        root.items = [item for item in root.items if item not in set(rest)]
        root.items.insert(0 if role == "input" else len(root.items), made)
        made.group = root
