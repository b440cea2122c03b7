"""The content of a picture: boxes (nodes, inputs, outputs), groups of them, and edges.

`read` builds it; `view` folds it and selects a part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, eq=False)
class Constant:
    """A weight, or what a Constant node holds: a large one has no value."""

    name: str
    type: str
    value: str = ""
    size: int = 0


@dataclass(frozen=True)
class Row:
    """A line inside a box: an attribute or a weight, and its value or type; of a weight, what it
    shows, and which input of the node that is."""

    name: str
    text: str
    constant: Constant | None = None
    index: int = 0

    @property
    def full_name(self) -> str:
        """The full name of a weight."""
        return "" if self.constant is None else self.constant.name


@dataclass(eq=False)
class Box:
    """A node, or what stands for an input or output of a graph.

    Attributes:
        role: what it is.
        title: the operator, or the name of the input or output.
        note: the domain of an operator, the type of an input or output.
        name: of the node.
        attributes, weights: its rows.
        outputs: types of its results.
        results: their names; in a function, after the path of the module that calls it.
        parameters: elements of its weights.
        about: what its metadata says, for tooltips.
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
    """Items that belong together.

    Attributes:
        role: ``model``; ``module`` of the torch model; ``function``, a call of a local function;
            ``body``, a graph inside a node; ``repeat``, equal blocks in a row: the first of them
            and ``others``, a group of the rest; ``ends``, inputs or outputs of the model of which
            there are many.
        name: the last part of ``path``, or what else it is called.
        kind: the class of a module.
        path: dotted, from the root of the torch model.
        part: 2 for what a module computes when it is called again, or later; 3...
        items: in the order of the graph.
        times: how many blocks a ``repeat`` has, or ``others``.
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
        """Put an item at the end."""
        item.group = self
        self.items.append(item)

    def title(self) -> str:
        """What it is called in a picture, in one line."""
        text = self.name
        if self.role in ("repeat", "others"):
            return f"{text}  \N{MULTIPLICATION SIGN} {self.times}"
        if self.part > 1:
            text += f" (part {self.part})"
        return text


Item = Box | Group


@dataclass(frozen=True, eq=False)
class Edge:
    """A result of ``source`` that ``target`` reads: which one, and as which input.

    ``inner``: from a node to a graph inside it, or from outside of such a graph into it.
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
    """All of a model."""

    root: Group
    edges: list[Edge]


def groups_of(group: Group) -> Iterator[Group]:
    """Every group inside a group, outer ones first."""
    for item in group.items:
        if isinstance(item, Group):
            yield item
            yield from groups_of(item)


def boxes_of(item: Item) -> Iterator[Box]:
    """Every box inside an item, in order."""
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
