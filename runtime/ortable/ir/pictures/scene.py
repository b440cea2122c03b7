"""The content of a picture: boxes (nodes, inputs, outputs), groups of boxes, and edges.

`read` builds a scene from a model; `view` folds it and selects a part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, eq=False)
class Constant:
    """A weight, or the value of a Constant node.

    ``value`` is its text, empty for a large constant; ``size`` is the number of its elements.
    """

    name: str
    type: str
    value: str = ""
    size: int = 0


@dataclass(frozen=True)
class Row:
    """A line inside a box: an attribute, or a weight, with the ``index`` of the input it feeds."""

    name: str
    text: str
    constant: Constant | None = None
    index: int = 0

    @property
    def full_name(self) -> str:
        """Full name of a weight; empty for an attribute."""
        return "" if self.constant is None else self.constant.name


@dataclass(eq=False)
class Box:
    """A node, or an input or output of a graph.

    Attributes:
        role: node, input or output.
        title: the operator, or the name of the input or output.
        note: the domain of an operator, or the type of an input or output.
        name: name of the node.
        attributes: rows of the attributes.
        weights: rows of the weights and constants.
        outputs: types of the results.
        results: names of the results; in a call of a local function, prefixed with the path of the
            called module.
        parameters: number of elements of the weights and constants.
        about: metadata of the node, for tooltips.
        group: the group that contains the box.
    """

    role: Literal["node", "input", "output"]
    title: str
    note: str = ""
    name: str = ""
    attributes: tuple[Row, ...] = ()
    weights: tuple[Row, ...] = ()
    outputs: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    parameters: int = 0
    about: dict[str, str] = field(default_factory=dict)
    group: Group | None = None


@dataclass(eq=False)
class Group:
    """A group of boxes and groups.

    Attributes:
        role: ``model``, the root; ``module``, a module of the torch model; ``function``, a call of
            a local function; ``body``, a subgraph of a node; ``repeat``, a run of equal blocks,
            which contains the items of the first block and a group ``others`` of the other blocks;
            ``ends``, a folded list of inputs or outputs of the model.
        name: the last part of ``path``, or a description.
        kind: the class of a module.
        path: dotted path from the root of the torch model.
        part: number, from 1, of this group among those of the same module; see `modules.Placer`.
        items: boxes and groups in the order of the graph.
        times: number of blocks of a group ``repeat`` or ``others``.
        group: the group that contains this group.
    """

    role: Literal["model", "module", "function", "body", "repeat", "others", "ends"]
    name: str
    kind: str = ""
    path: str = ""
    part: int = 1
    items: list[Item] = field(default_factory=list)
    times: int = 1
    group: Group | None = None

    def add(self, item: Item) -> None:
        """Append an item."""
        item.group = self
        self.items.append(item)

    def title(self) -> str:
        """Return the title of the group in a picture."""
        text = self.name
        if self.role in ("repeat", "others"):
            return f"{text}  \N{MULTIPLICATION SIGN} {self.times}"
        if self.part > 1:
            text += f" (part {self.part})"
        return text


Item = Box | Group


@dataclass(frozen=True, eq=False)
class Edge:
    """A result of ``source`` that ``target`` reads.

    ``inner`` is set for an edge into a subgraph of a node. ``output`` and ``index`` are the
    positions of the result among the outputs of ``source`` and the inputs of ``target``.
    """

    source: Box
    target: Box
    name: str
    type: str = ""
    inner: bool = False
    output: int = 0
    index: int = 0


@dataclass(eq=False)
class Scene:
    """All groups, boxes and edges of a model."""

    root: Group
    edges: list[Edge]


def groups_of(group: Group) -> Iterator[Group]:
    """Yield the groups inside a group, each before the groups that it contains."""
    for item in group.items:
        if isinstance(item, Group):
            yield item
            yield from groups_of(item)


def boxes_of(item: Item) -> Iterator[Box]:
    """Yield the boxes inside an item, or the item itself if it is a box, in order."""
    if isinstance(item, Box):
        yield item
        return
    stack = [iter(item.items)]
    while stack:
        inner = next(stack[-1], None)
        if inner is None:
            stack.pop()
        elif isinstance(inner, Box):
            yield inner
        else:
            stack.append(iter(inner.items))
