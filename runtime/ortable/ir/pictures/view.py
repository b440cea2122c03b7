"""Select the visible part of a scene: a module, folded repeated blocks, and open groups.

Blocks are equal if their modules have the same classes and the same names apart from numbers, and
their nodes have the same operators, attributes, types, weight shapes and edges.
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

MAX_OPEN_BOXES = 24  # boxes that fit on a screen, which limits the default depth
_LONG_RANKS = 4  # an edge over at least this number of ranks is drawn as a long edge


@dataclass(eq=False)
class Link:
    """An edge between visible items, for all results of ``source`` that ``target`` reads.

    ``names`` maps the results to their types. ``inner`` is set if all edges lead into a subgraph of
    a node, ``long`` if the link spans several ranks; see `_mark_long_links`.
    """

    source: Item
    target: Item
    names: dict[str, str] = field(default_factory=dict)
    inner: bool = True
    long: bool = False


@dataclass(eq=False)
class View:
    """The visible part of a scene: items of ``root``, with ``closed`` groups drawn as boxes."""

    root: Group
    closed: set[Group]
    links: list[Link]

    def count_boxes(self) -> int:
        """Return the number of visible boxes."""
        return _count_boxes(self.root, self.closed)


def extract_module(scene: Scene, name: str) -> Scene:
    """Return the scene of one module, given by path or class.

    Results that the module reads from outside become inputs; its results that are read outside
    become outputs. Raises OptionError if there is no such module.
    """
    module = _find_module(scene, name)
    root = Group("model", module.path, module.kind, module.path)
    root.items = list(module.items)
    inner_boxes = set(boxes_of(root))
    end_boxes: dict[tuple[Box, str, str], Box] = {}

    def make_end_box(edge: Edge, role: Literal["input", "output"]) -> Box:
        key = (edge.source, edge.name, role)
        if key not in end_boxes:
            title = edge.name or edge.source.title
            types = (edge.type,) if role == "input" else ()
            names = (edge.name,) if role == "input" else ()
            end_boxes[key] = Box(role, title, edge.type, outputs=types, results=names)
        return end_boxes[key]

    edges: dict[tuple[Box, Box, str, int], Edge] = {}
    for edge in scene.edges:
        source, target = edge.source, edge.target
        if source not in inner_boxes and target not in inner_boxes:
            continue
        if source not in inner_boxes:
            edge = replace(edge, source=make_end_box(edge, "input"), output=0)
        if target not in inner_boxes:
            edge = replace(edge, target=make_end_box(edge, "output"), index=0)
        edges.setdefault((edge.source, edge.target, edge.name, edge.index), edge)
    root.items[:0] = [box for box in end_boxes.values() if box.role == "input"]
    root.items += [box for box in end_boxes.values() if box.role == "output"]
    return Scene(root, list(edges.values()))


def view_of(scene: Scene, depth: int | None = None) -> View:
    """Return a view with ``depth`` open levels; None opens as many as fit in `MAX_OPEN_BOXES`."""
    root = scene.root
    if depth is None:
        depths = range(1, _nesting_depth(root) + 1)
        depth = max(
            (levels for levels in depths if count_visible(root, levels) <= MAX_OPEN_BOXES),
            default=0,
        )
    closed = set(_closed_groups(root, depth))
    links = _visible_links(scene, closed)
    _mark_long_links(links)
    return View(root, closed, links)


def _nesting_depth(group: Group) -> int:
    """Return the number of levels of nested groups."""
    inner = [_nesting_depth(item) for item in group.items if isinstance(item, Group)]
    return 1 + max(inner) if inner else 0


def count_visible(root: Group, depth: int) -> int:
    """Return the number of visible boxes with ``depth`` levels of open groups."""
    return _count_boxes(root, set(_closed_groups(root, depth)))


def _count_boxes(group: Group, closed: set[Group]) -> int:
    return sum(
        1 if isinstance(item, Box) or item in closed else _count_boxes(item, closed)
        for item in group.items
    )


def _closed_groups(group: Group, depth: int) -> Iterator[Group]:
    """Yield the outermost closed groups; a group ``repeat`` does not count as a level."""
    for item in group.items:
        if isinstance(item, Box):
            continue
        if item.role in ("others", "ends") or depth <= 0:
            yield item
        else:
            yield from _closed_groups(item, depth - (item.role != "repeat"))


def _find_module(scene: Scene, name: str) -> Group:
    """Return the group of a module with path or class ``name``; merge the parts of a module."""
    groups = [group for group in groups_of(scene.root) if group.role in ("module", "function")]
    matches = [group for group in groups if name == group.path]
    matches = matches or [group for group in groups if name == group.kind][:1]
    if not matches:
        paths = list(dict.fromkeys(group.path for group in groups))
        suggestions = difflib.get_close_matches(name, paths, 3, 0.3) or paths[:3]
        hint = (
            f"it has {', '.join(suggestions)}"
            if suggestions
            else "its nodes have no metadata about modules"
        )
        others_text = (
            f" and {len(paths) - len(suggestions)} others" if len(paths) > len(suggestions) else ""
        )
        raise OptionError(f"the graph has no module {name!r}: {hint}{others_text}")
    if len(matches) == 1:
        return matches[0]
    return Group("module", name, matches[0].kind, name, items=list(matches))


def _visible_links(scene: Scene, closed: set[Group]) -> list[Link]:
    """Merge the edges of a scene into links between visible items."""
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


def _mark_long_links(links: list[Link]) -> None:
    """Mark links over several ranks, such as residual connections, as long.

    The rank of an item is the length of the longest path to it.
    """
    sources: dict[Item, set[Item]] = {}
    for link in links:
        sources.setdefault(link.target, set()).add(link.source)
    rank: dict[Item, int] = {}
    try:
        for item in TopologicalSorter(sources).static_order():
            rank[item] = max((rank[source] + 1 for source in sources.get(item, ())), default=0)
    except CycleError:  # a group of several blocks can form a cycle with an item between them
        return
    for link in links:
        if not isinstance(link.source, Box) or link.source.role != "input":
            link.long = rank[link.target] - rank[link.source] >= _LONG_RANKS


def summarize_group(group: Group) -> tuple[str, str]:
    """Return counts, as ``12 nodes, 7.1 M weights``, and the most frequent operators of a group.

    For a group of equal blocks, both are those of one block.
    """
    boxes = [box for box in boxes_of(group) if box.role == "node"]
    block_count = group.times
    weights = sum(box.parameters for box in boxes) // block_count
    if not boxes:
        return "", ""
    counts_text = f"{len(boxes) // block_count} node{'s' if len(boxes) != block_count else ''}"
    if weights:
        counts_text += f", {count_text(weights)} weights"
    counts = Counter(box.title for box in boxes)
    names = [
        f"{title} {number // block_count}" if number // block_count > 1 else title
        for title, number in counts.most_common(4)
    ]
    ellipsis = ", \N{HORIZONTAL ELLIPSIS}" if len(counts) > len(names) else ""
    return counts_text + (" each" if block_count > 1 else ""), ", ".join(names) + ellipsis


def count_text(number: int) -> str:
    """Format a number with a unit, as in ``7.1 M``."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


_MAX_BLOCK = 400  # maximum number of items of a folded block
_MIN_BLOCKS = 3  # minimum number of equal blocks to fold
_MIN_BOXES = 3  # minimum number of boxes of a folded block
_MAX_ENDS = 8  # if a model has more inputs (or outputs), most of them are folded to one box
_SHOWN_ENDS = 3  # number of first inputs (or outputs) that are not folded
_NUMBER = re.compile(r"\d+")


def fold_repeats(scene: Scene) -> None:
    """Fold the repeated blocks of all groups of a scene."""
    reads: dict[Box, list[Edge]] = {}
    for edge in scene.edges:
        reads.setdefault(edge.target, []).append(edge)
    _Folder(reads).fold_group(scene.root)


class _Folder:
    """Finds and folds runs of equal blocks; see `item_class` for when items are equal."""

    def __init__(self, reads: dict[Box, list[Edge]]) -> None:
        self.incoming_edges = reads
        self.class_by_signature: dict[Hashable, int] = {}
        self.class_by_item: dict[Item, int] = {}

    def fold_group(self, group: Group) -> None:
        """Fold repeated blocks in a group and in the groups inside it."""
        classes = [self.item_class(item) for item in group.items]
        folded: list[Item] = []
        start = 0
        while start < len(group.items):
            size, times = self.find_run(group.items, classes, start)
            block = group.items[start : start + size]
            if times > 1:
                other_items = group.items[start + size : start + size * times]
                folded.append(self.fold_blocks(group, block, other_items, times))
            else:
                folded += block
            start += size * times
        group.items = []
        for item in folded:
            group.add(item)
        for item in folded:
            repeat = item if isinstance(item, Group) and item.role == "repeat" else None
            for inner in repeat.items if repeat else [item]:
                if isinstance(inner, Group) and inner.role != "others":  # "others" is never open
                    self.fold_group(inner)

    def item_class(self, item: Item) -> int:
        """Return a number that is equal for items with equal content, apart from their edges."""
        number = self.class_by_item.get(item)
        if number is None:
            signature: Hashable
            if isinstance(item, Box):
                signature = _box_signature(item) if item.role == "node" else item
            else:
                inner = tuple(map(self.item_class, item.items))
                signature = (item.role, _NUMBER.sub("", item.name), item.kind, inner)
            number = self.class_by_item[item] = self.class_by_signature.setdefault(
                signature, len(self.class_by_signature)
            )
        return number

    def find_run(
        self, items: Sequence[Item], classes: Sequence[int], start: int
    ) -> tuple[int, int]:
        """Return size and number of equal blocks from ``start``; (1, 1) if there are too few."""
        best = (1, 1)
        for size in range(1, min(_MAX_BLOCK, (len(classes) - start) // _MIN_BLOCKS) + 1):
            if not classes[start] == classes[start + size] == classes[start + 2 * size]:
                continue
            block = classes[start : start + size]
            times = 1
            while classes[start + size * times : start + size * (times + 1)] == block:
                times += 1
            if times < _MIN_BLOCKS or size * times <= best[0] * best[1]:
                continue
            if sum(1 for item in items[start : start + size] for _ in boxes_of(item)) < _MIN_BOXES:
                continue
            times = self.count_equal(items[start : start + size * times], size)
            if times >= _MIN_BLOCKS and size * times > best[0] * best[1]:
                best = (size, times)
                if start + size * (times + 1) > len(classes):
                    break  # the run extends to the end, so no larger size covers more items
        return best

    def count_equal(self, items: Sequence[Item], size: int) -> int:
        """Return the number of leading blocks of ``size`` items that have equal edges."""
        blocks = [items[start : start + size] for start in range(0, len(items), size)]
        first_signature = self.edge_signature(blocks[0])
        for count, block in enumerate(blocks):
            if self.edge_signature(block) != first_signature:
                return count
        return len(blocks)

    def edge_signature(self, block: Sequence[Item]) -> Hashable:
        """Return a key of the edges into a block, in which results are numbered by first use."""
        numbers: dict[tuple[Box, str], int] = {}
        inner_boxes = {box for item in block for box in boxes_of(item)}
        signature = []
        for item in block:
            for box in boxes_of(item):
                for edge in self.incoming_edges.get(box, ()):
                    number = numbers.setdefault((edge.source, edge.name), len(numbers))
                    signature.append((number, edge.source in inner_boxes, edge.inner))
                signature.append((-1, False, False))
        return tuple(signature)

    def fold_blocks(
        self, group: Group, block: Sequence[Item], other_items: Sequence[Item], times: int
    ) -> Group:
        """Return a group of the items of the first block and of a group of the other blocks."""
        first_item, last_item = block[0], other_items[-1]
        is_single = (
            len(block) == 1 and isinstance(first_item, Group) and isinstance(last_item, Group)
        )
        named_items = (first_item, other_items[0], last_item) if is_single else ()
        class_name = first_item.kind if is_single and isinstance(first_item, Group) else ""
        repeat = Group("repeat", _range_name(named_items[::2]), class_name, group.path, times=times)
        other_blocks = Group(
            "others", _range_name(named_items[1:]), class_name, group.path, times=times - 1
        )
        for item in block:
            repeat.add(item)
        for item in other_items:
            other_blocks.add(item)
        repeat.add(other_blocks)
        return repeat


def _range_name(items: Sequence[Item]) -> str:
    """Format the names of the first and the last group, as in ``layer.1 ... layer.11``."""
    names = [item.name for item in items if isinstance(item, Group)]
    if not names:
        return "block of nodes"
    return " \N{HORIZONTAL ELLIPSIS} ".join(dict.fromkeys(names))


def _box_signature(box: Box) -> Hashable:
    """Return a key that is equal for boxes that differ only in names and metadata."""
    weights = tuple(row.text for row in box.weights)
    return (box.title, box.note, box.attributes, weights, box.outputs)


def gather_ends(root: Group) -> None:
    """Fold all but the first inputs of a model with many inputs to one box; outputs likewise."""
    for role in ("input", "output"):
        ends = [item for item in root.items if isinstance(item, Box) and item.role == role]
        if len(ends) <= _MAX_ENDS:
            continue
        folded = ends[_SHOWN_ENDS:]
        group = Group("ends", f"{len(folded)} more {role}s", path=root.path)
        for item in folded:
            group.add(item)
        root.items = [item for item in root.items if item not in set(folded)]
        root.items.insert(0 if role == "input" else len(root.items), group)
        group.group = root
