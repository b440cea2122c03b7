"""One replacement: built as a converter builds nodes, checked against what it replaces, undone when
it does not fit. In come the index of a graph, a rule and its match, out go the nodes around the
change. Called by the engine."""

from __future__ import annotations

from typing import Any

from ortable import dims
from ortable.dtypes import name as dtype_name
from ortable.errors import OrtableError
from ortable.inference.shape import ValueInfo
from ortable.ir.captures import read_names
from ortable.ir.editing import replace_inputs
from ortable.ir.node import Node, Rewritten
from ortable.ir.result import ResultSpec
from ortable.ir.state import describe_shape

from .index import GraphIndex
from .rule import Match, Rule


class ReplacementRejected(Exception):
    """A place where a rule's pattern fits and its replacement does not; the text says why."""


class Replacement:
    """Replaces the nodes of a match; the graph is as before when ``run`` raises Refused."""

    def __init__(self, index: GraphIndex, rule: Rule, match: Match) -> None:
        self.index = index
        self.graph = index.graph
        self.rule = rule
        self.match = match
        producers = index.matcher.producers
        roots = [producers[name] for name in match.results]
        self.roots = list(dict.fromkeys(roots))
        self.place = min(index.keys[node] for node in self.roots)
        self.old: dict[str, ValueInfo] = {}
        self.constant: list[str] = []  # among the replaced results
        self.rounding = _rounding(self.graph)
        self.rounded = {} if self.rounding is None else dict(self.rounding.rounded)

    def run(self) -> tuple[list[Node], list[Node]]:
        """Replaces; the nodes around the change, and those that were made."""
        self._check_closed()
        graph = self.graph
        origin = graph.origin
        graph.analysed.clear()
        graph.origin = Rewritten(self.rule.name, self.match.nodes[0].origin)
        try:
            made = self._make()
            nodes = list(graph.nodes)
            self._check_order(nodes)
            results = [self._checked(*pair) for pair in zip(self.old, made, strict=True)]
            targets = [self._settle(*pair, nodes) for pair in zip(self.old, results, strict=True)]
        except ReplacementRejected:
            self._undo()
            raise
        except OrtableError as error:
            self._undo()
            raise ReplacementRejected(str(error).splitlines()[0]) from None
        except KeyError as error:  # a size that only the replaced result has
            self._undo()
            if error.args[0] not in self.old:
                raise
            raise ReplacementRejected(
                f"the replacement reads {error.args[0]}, which it replaces"
            ) from None
        finally:
            graph.origin = origin
            graph.nodes[:] = []
            graph.analysed.clear()
        return self._install(nodes, targets), nodes

    def _check_closed(self) -> None:
        """Refuses when a result inside the pattern is read outside, or is an output."""
        nodes, results = self.match.nodes, self.match.results
        shared = self.match.shared
        uses, is_output = self.index.matcher.uses, self.index.is_output
        for node in nodes:
            if node in shared:
                continue
            for name in node.outputs:
                if not name or name in results:
                    continue
                if is_output(name) or not all(each in nodes for each in uses.get(name, ())):
                    raise ReplacementRejected(f"{name} is read elsewhere")

    def _make(self) -> list[str | None]:
        graph = self.graph
        for name in self.match.results:
            self.old[name] = graph.values.pop(name)
            if name in graph.constant_names:
                self.constant.append(name)
                graph.constant_names.discard(name)
        infos = list(self.old.values())
        res = ResultSpec(list(self.old), [i.dtype for i in infos], [i.shape for i in infos])
        found = self.rule.make(graph, res, *self.match.values)
        made = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(made) != len(self.old):
            raise ReplacementRejected(
                f"the replacement has {len(made)} results instead of {len(self.old)}"
            )
        return made

    def _check_order(self, nodes: list[Node]) -> None:
        """Everything that the nodes read must be there already where they are put, or be brought
        there: what was made of weights only for a node far below, for instance."""
        index = self.index
        own = {name for node in nodes for name in node.outputs}
        for node in nodes:
            replace_inputs(node, index.aliases)
            for name in read_names(node) - own:
                if name in index.removed:
                    index.revive(name)
                maker = index.matcher.producers.get(name)
                if maker is None or (index.keys[maker] < self.place and maker not in self.roots):
                    continue
                if not index.bring_before(name, self.place, self.roots):
                    raise ReplacementRejected(f"{name} comes later in the graph")

    def _checked(self, name: str, made: str | None) -> str | None:
        """The result that the replacement gives for ``name``; it must be as ``name`` was."""
        if made is None:
            if self.index.is_read(name):
                raise ReplacementRejected(f"the replacement does not give {name}, which is read")
            return None
        made = self.index.aliases.get(made, made)
        info = self.graph.values.get(made)
        if info is None:
            raise ReplacementRejected(
                f"the replacement gives {made!r}, which is no result of the graph"
            )
        self._check_same(name, self.old[name], info)
        copies = any(root.op_type == "Identity" for root in self.roots)
        if copies and made != name and self.index.is_output(name):
            raise ReplacementRejected(f"{name} is an output")
        return made

    def _settle(self, name: str, made: str | None, nodes: list[Node]) -> str:
        """What takes the place of ``name``: itself where a node makes it, else what its readers
        will read."""
        if made is None:
            return name
        if made != name:
            own = any(made in node.outputs for node in nodes)
            if own and made not in self.old:
                self._rename(made, name, nodes)
            elif self.index.is_output(name):
                self.graph.make_node("Identity", [made], [name])
                nodes.append(self.graph.nodes[-1])
            else:
                if _merge(self.graph.values[made], self.old[name]):
                    self.index.learnt += 1
                return made
        self._keep_knowledge(name, self.old[name])
        return name

    def _check_same(self, name: str, old: ValueInfo, info: ValueInfo) -> None:
        if old.dtype != info.dtype:
            kinds = [dtype_name(x.dtype) if x.dtype else "unknown" for x in (old, info)]
            raise ReplacementRejected(f"{name} would have type {kinds[1]} instead of {kinds[0]}")
        if old.shape is None:
            raise ReplacementRejected(f"the shape of {name} is not known")
        if info.shape is not None:
            ranks = len(old.shape) != len(info.shape)
            if ranks or any(map(dims.always_differ, old.shape, info.shape)):
                shapes = [describe_shape(x) for x in (old.shape, info.shape)]
                raise ReplacementRejected(
                    f"{name} would have shape {shapes[1]} instead of {shapes[0]}"
                )
        elif info.rank is not None and info.rank != len(old.shape):
            raise ReplacementRejected(
                f"{name} would have rank {info.rank} instead of {len(old.shape)}"
            )

    def _rename(self, made: str, name: str, nodes: list[Node]) -> None:
        """A result made under a name of its own gets the name of the one it replaces."""
        values = self.graph.values
        info = values.pop(made)
        info.name = name
        values[name] = info
        for node in nodes:
            replace_inputs(node, {made: name})
            node.outputs = [name if each == made else each for each in node.outputs]
        if made in self.graph.constant_names:
            self.graph.constant_names.discard(made)
            self.graph.constant_names.add(name)
        self.index.alias(made, name)
        values[made] = info  # until the end, for who remembers the name

    def _keep_knowledge(self, name: str, old: ValueInfo) -> None:
        """The result's record stays the same object: the list of outputs holds it."""
        values = self.graph.values
        info = values[name]
        _merge(info, old)
        old.dtype, old.shape, old.rank, old.value = info.dtype, info.shape, info.rank, info.value
        old.constant, old.producer = info.constant, info.producer
        values[name] = old

    def _undo(self) -> None:
        graph = self.graph
        for node in graph.nodes:
            for name in node.outputs:
                graph.values.pop(name, None)
                graph.constant_names.discard(name)
        graph.materializer.drop_dead(graph.values)
        graph.values.update(self.old)
        graph.constant_names.update(self.constant)
        if self.rounding is not None:  # codes that nothing reads are no rounded weight
            self.rounding.rounded = self.rounded

    def _install(self, nodes: list[Node], targets: list[str]) -> list[Node]:
        index = self.index
        read = {name for node in self.match.nodes for name in read_names(node)}
        for node in self.roots:
            index.drop(node)
            for name in node.outputs:
                index.removed.pop(name, None)
        for place, node in enumerate(nodes):
            index.add(node, (*self.place, place))
        around = list(nodes)
        for name, target in zip(self.old, targets, strict=True):
            if target != name:
                around += index.redirect(name, target)
                self.graph.values[name] = self.old[name]  # until the end, for who remembers it
        return around + index.drop_unread(read)


def _rounding(graph: Any) -> Any:
    """What rules about weights keep an account in, where they run."""
    while graph.parent is not None:
        graph = graph.parent
    return graph.rounding


def _merge(info: ValueInfo, old: ValueInfo) -> bool:
    """What is known of the replaced result is true of the one in its place; whether that is more
    than was known of this one."""
    before = info.dtype, info.shape, info.value
    info.dtype = info.dtype or old.dtype
    if info.shape is None:
        info.shape, info.rank = old.shape, old.rank
    elif old.shape is not None:
        info.shape = tuple(
            b if isinstance(b, int) else a for a, b in zip(info.shape, old.shape, strict=True)
        )
    if info.value is None:
        info.value = old.value
    return before != (info.dtype, info.shape, info.value)
