"""Select what of a scene is drawn: which module, which repeated blocks are folded, how deep.

Blocks are equal when their modules have the same classes and names but for numbers, and their nodes
the same operators, attributes, types, shapes of weights and edges between them.
"""

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

MAX_OPEN_BOXES = 24  # boxes that fit a screen: as deep is it opened when nobody says how deep
_LONG_RANKS = 4  # ranks that an edge passes to be drawn as a long one


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

    def count_boxes(self) -> int:
        """How many boxes are to be seen."""
        return _count_boxes(self.root, self.closed)


def part_of(scene: Scene, name: str) -> Scene:
    """The scene of one module, by its path or class. What it reads from outside are its inputs, and
    what others read of it are its outputs.

    Raises OptionError when there is no such module.
    """
    module = _find_module(scene, name)
    root = Group("model", module.path, module.kind, module.path)
    root.items = list(module.items)
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
            edge = replace(edge, target=stand_in(edge, "output"), index=0)
        edges.setdefault((edge.source, edge.target, edge.name, edge.index), edge)
    root.items[:0] = [box for box in stands.values() if box.role == "input"]
    root.items += [box for box in stands.values() if box.role == "output"]
    return Scene(root, list(edges.values()))


def view_of(scene: Scene, depth: int | None = None) -> View:
    """A view with groups open ``depth`` levels down; without a depth, as deep as the picture has no
    more than 24 boxes."""
    root = scene.root
    if depth is None:
        depths = range(1, _nesting_depth(root) + 1)
        depth = max(
            (deeper for deeper in depths if count_visible(root, deeper) <= MAX_OPEN_BOXES),
            default=0,
        )
    closed = set(_closed_groups(root, depth))
    links = _visible_links(scene, closed)
    _mark_long(links)
    return View(root, closed, links)


def _nesting_depth(group: Group) -> int:
    """How many groups lie in one another."""
    inner = [_nesting_depth(item) for item in group.items if isinstance(item, Group)]
    return 1 + max(inner) if inner else 0


def count_visible(root: Group, depth: int) -> int:
    """How many boxes are to be seen when groups are open ``depth`` levels down."""
    return _count_boxes(root, set(_closed_groups(root, depth)))


def _count_boxes(group: Group, closed: set[Group]) -> int:
    return sum(
        1 if isinstance(item, Box) or item in closed else _count_boxes(item, closed)
        for item in group.items
    )


def _closed_groups(group: Group, depth: int) -> Iterator[Group]:
    """The outermost groups that are closed."""
    for item in group.items:
        if isinstance(item, Box):
            continue
        if item.role in ("others", "ends") or depth <= 0:
            yield item
        else:
            yield from _closed_groups(item, depth - (item.role != "repeat"))


def _find_module(scene: Scene, name: str) -> Group:
    """The module of a path or class, or all of its parts in one group."""
    groups = [group for group in groups_of(scene.root) if group.role in ("module", "function")]
    matches = [group for group in groups if name == group.path]
    matches = matches or [group for group in groups if name == group.kind][:1]
    if not matches:
        paths = list(dict.fromkeys(group.path for group in groups))
        close = difflib.get_close_matches(name, paths, 3, 0.3) or paths[:3]
        hint = f"it has {', '.join(close)}" if close else "its nodes do not say of which module"
        more = f" and {len(paths) - len(close)} others" if len(paths) > len(close) else ""
        raise OptionError(f"the graph has no module {name!r}: {hint}{more}")
    if len(matches) == 1:
        return matches[0]
    return Group("module", name, matches[0].kind, name, items=list(matches))


def _visible_links(scene: Scene, closed: set[Group]) -> list[Link]:
    """Edges between what is visible."""
    visible: dict[Box, Item] = {}

    def visit(group: Group) -> None:
        for item in group.items:
            if isinstance(item, Box):
                visible[item] = item
            elif item in closed:
                visible.update((box, item) for box in boxes_of(item))
            else:
                visit(item)

    visit(scene.root)
    links: dict[tuple[Item, Item], Link] = {}
    for edge in scene.edges:
        source, target = visible[edge.source], visible[edge.target]
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
            rank[item] = max((rank[source] + 1 for source in sources.get(item, ())), default=0)
    except CycleError:  # a box of several blocks may read what reads one of them
        return
    for link in links:
        if not isinstance(link.source, Box) or link.source.role != "input":
            link.long = rank[link.target] - rank[link.source] >= _LONG_RANKS


def summarize_group(group: Group) -> tuple[str, str]:
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


_MAX_BLOCK = 400  # items of a block
_MIN_BLOCKS = 3  # blocks in a row that are worth folding
_MIN_BOXES = 3  # boxes of a block
_ENDS = 8  # inputs, and outputs, that stand by themselves; of more of them, the first few do
_FIRST = 3
_NUMBER = re.compile(r"\d+")


def fold_repeats(scene: Scene) -> None:
    """Fold the repeated blocks of all groups."""
    reads: dict[Box, list[Edge]] = {}
    for edge in scene.edges:
        reads.setdefault(edge.target, []).append(edge)
    _Folder(reads).fold_group(scene.root)


class _Folder:
    """The equality of items, each computed once."""

    def __init__(self, reads: dict[Box, list[Edge]]) -> None:
        self.reads = reads
        self.numbers: dict[Hashable, int] = {}
        self.of_item: dict[Item, int] = {}

    def fold_group(self, group: Group) -> None:
        """Fold the items of a group, then those of its groups."""
        kinds = [self.kind_of(item) for item in group.items]
        folded: list[Item] = []
        start = 0
        while start < len(group.items):
            size, times = self.find_run(group.items, kinds, start)
            block = group.items[start : start + size]
            if times > 1:
                others = group.items[start + size : start + size * times]
                folded.append(self.fold_blocks(group, block, others, times))
            else:
                folded += block
            start += size * times
        group.items = []
        for item in folded:
            group.add(item)
        for item in folded:
            repeat = item if isinstance(item, Group) and item.role == "repeat" else None
            for inner in repeat.items if repeat else [item]:
                if isinstance(inner, Group) and inner.role != "others":  # which is never open
                    self.fold_group(inner)

    def kind_of(self, item: Item) -> int:
        """A number that items share which have the same form, whatever they are joined to."""
        number = self.of_item.get(item)
        if number is None:
            signature: Hashable
            if isinstance(item, Box):
                signature = _box_signature(item) if item.role == "node" else item
            else:
                inner = tuple(map(self.kind_of, item.items))
                signature = (item.role, _NUMBER.sub("", item.name), item.kind, inner)
            number = self.of_item[item] = self.numbers.setdefault(signature, len(self.numbers))
        return number

    def find_run(self, items: Sequence[Item], kinds: Sequence[int], start: int) -> tuple[int, int]:
        """Size of the block that starts at a place and how many equal ones stand in a row."""
        best = (1, 1)
        for size in range(1, min(_MAX_BLOCK, (len(kinds) - start) // _MIN_BLOCKS) + 1):
            if not kinds[start] == kinds[start + size] == kinds[start + 2 * size]:
                continue
            block = kinds[start : start + size]
            times = 1
            while kinds[start + size * times : start + size * (times + 1)] == block:
                times += 1
            if times < _MIN_BLOCKS or size * times <= best[0] * best[1]:
                continue
            if sum(1 for item in items[start : start + size] for _ in boxes_of(item)) < _MIN_BOXES:
                continue
            times = self.count_equal(items[start : start + size * times], size)
            if times >= _MIN_BLOCKS and size * times > best[0] * best[1]:
                best = (size, times)
                if start + size * (times + 1) > len(kinds):
                    break  # no other one covers more
        return best

    def count_equal(self, items: Sequence[Item], size: int) -> int:
        """How many blocks of ``size`` items, from the first on, have the same ways inside."""
        blocks = [items[start : start + size] for start in range(0, len(items), size)]
        first = self.edge_signature(blocks[0])
        for count, block in enumerate(blocks):
            if self.edge_signature(block) != first:
                return count
        return len(blocks)

    def edge_signature(self, block: Sequence[Item]) -> Hashable:
        """Where the boxes of a block read from, by the order in which results are met."""
        numbers: dict[tuple[Box, str], int] = {}
        inside = {box for item in block for box in boxes_of(item)}
        signature = []
        for item in block:
            for box in boxes_of(item):
                for edge in self.reads.get(box, ()):
                    number = numbers.setdefault((edge.source, edge.name), len(numbers))
                    signature.append((number, edge.source in inside, edge.inner))
                signature.append((-1, False, False))
        return tuple(signature)

    def fold_blocks(
        self, group: Group, block: Sequence[Item], others: Sequence[Item], times: int
    ) -> Group:
        """All blocks as one group: the first one, and a group of the others."""
        first, last = block[0], others[-1]
        single = len(block) == 1 and isinstance(first, Group) and isinstance(last, Group)
        names = (first, others[0], last) if single else ()
        kind = first.kind if single and isinstance(first, Group) else ""
        repeat = Group("repeat", _from_to(names[::2]), kind, group.path, times=times)
        rest = Group("others", _from_to(names[1:]), kind, group.path, times=times - 1)
        for item in block:
            repeat.add(item)
        for item in others:
            rest.add(item)
        repeat.add(rest)
        return repeat


def _from_to(items: Sequence[Item]) -> str:
    """``layer.1 ... layer.11``, of a first and a last group."""
    names = [item.name for item in items if isinstance(item, Group)]
    if not names:
        return "block of nodes"
    return " \N{HORIZONTAL ELLIPSIS} ".join(dict.fromkeys(names))


def _box_signature(box: Box) -> Hashable:
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
        group = Group("ends", f"{len(rest)} more {role}s", path=root.path)
        for item in rest:
            group.add(item)
        root.items = [item for item in root.items if item not in set(rest)]
        root.items.insert(0 if role == "input" else len(root.items), group)
        group.group = root
