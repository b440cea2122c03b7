"""Fold what repeats: equal blocks in a row become one group, a ``repeat``, with the first of them
and a group for the others. `draw` calls it.

Blocks are equal when their modules have the same classes and names but for numbers, and their nodes
the same operators, attributes, types, shapes of weights and ways between them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

from .scene import Box, Edge, Group, Item, Scene, boxes_of

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
