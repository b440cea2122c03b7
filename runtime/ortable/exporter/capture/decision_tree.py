"""The paths of a traced module as one torch.fx graph: what all paths compute comes once, in
front, and every decision is a torch.cond whose branches hold the rest of their paths. In comes a
tree of paths, out goes a GraphModule. Called by tracing.py."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from ortable.compat.torch import OpOverload, PyTreeCodeGen, PyTreeInfo, codegen_of, pytree
from ortable.errors import ExportError
from ortable.interpreter.modules import find_attribute, is_guard
from ortable_generated.aten import traits

# Constants up to this many elements are compared by value between paths.
_SMALL = 1 << 20
_KEPT_META = ("stack_trace", "nn_module_stack")


@dataclass(frozen=True)
class TracedPath:
    """One run of forward: its program returns forward's results and, when there are ``decisions``,
    as many booleans."""

    program: ExportedProgram
    decisions: int

    def leaves(self) -> Iterator[TracedPath]:
        """This path."""
        yield self


@dataclass(frozen=True)
class DecisionNode:
    """The decision number ``depth``, asked for at ``line``, and what follows from its answers."""

    depth: int
    yes: TracedPath | DecisionNode
    no: TracedPath | DecisionNode
    line: Any

    def leaves(self) -> Iterator[TracedPath]:
        """The paths below, those that answered True first."""
        yield from self.yes.leaves()
        yield from self.no.leaves()

    def size(self) -> int:
        """How many paths there are."""
        return sum(1 for _ in self.leaves())

    def lines(self) -> Iterator[Any]:
        """Where the decisions are, from the first on."""
        yield self.line
        for each in (self.yes, self.no):
            if isinstance(each, DecisionNode):
                yield from each.lines()


@dataclass
class _Numbered:
    """A path whose nodes have numbers: equal numbers in two paths are the same computation.

    ``order`` lists them as the path computes them; ``results`` are forward's, as numbers or, in a
    tuple of one, as constants.
    """

    order: list[int]
    results: list[int | tuple[Any]]
    asked: list[int]
    out_spec: Any


@dataclass
class _Value:
    """What a number stands for: a node of some path, and the numbers of that path's nodes."""

    node: Node
    owner: GraphModule
    numbers: dict[Node, int]

    def inputs(self) -> list[int]:
        """The numbers of what it is computed from."""
        return [self.numbers[node] for node in self.node.all_input_nodes]


@dataclass
class _Numbers:
    """Numbers of computations over all paths."""

    by_key: dict[Hashable, int] = field(default_factory=dict)
    values: list[_Value] = field(default_factory=list)

    def of(self, key: Hashable, value: _Value) -> int:
        number = self.by_key.setdefault(key, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


def merged(tree: TracedPath | DecisionNode, module: torch.nn.Module) -> GraphModule:
    """One GraphModule that computes what the paths of ``tree`` do, called as ``module`` is.

    Raises ExportError for writes that somebody else can see, and for paths whose results differ in
    structure.
    """
    numbers = _Numbers()
    graphs = [_functional(path) for path in tree.leaves()]
    weights = frozenset(module.state_dict(keep_vars=True))
    paths = [
        _numbered(graph, numbers, weights, leaf.decisions)
        for graph, leaf in zip(graphs, tree.leaves(), strict=True)
    ]
    specs = {str(path.out_spec) for path in paths}
    if len(specs) > 1:
        raise ExportError(
            f"tracing: the results of {type(module).__name__} have different structures on its "
            "paths:\n" + "\n".join(sorted(specs))
        )
    builder = _Builder(numbers, dict(zip(map(id, tree.leaves()), paths, strict=True)))
    scope = _Scope(Graph(), {}, {})
    for number, value in enumerate(numbers.values):
        if value.node.op == "placeholder":
            scope.nodes[number] = scope.graph.placeholder(str(value.node.target))
    for number, value in enumerate(numbers.values):
        if value.node.op == "get_attr":
            _add_attribute(scope, number, value)
    count = len(paths[0].results)
    results = builder.emit(tree, scope, range(count))
    graph = scope.graph
    graph.output(tuple(results[index] for index in range(count)))
    info = codegen_of(graphs[0].graph).pytree_info
    graph.set_codegen(PyTreeCodeGen(PyTreeInfo(info.orig_args, info.in_spec, paths[0].out_spec)))
    graph.eliminate_dead_code()
    found = GraphModule(scope.attributes, graph, type(module).__name__)
    found.train(module.training)
    return found


def _functional(path: TracedPath) -> GraphModule:
    """The graph of a path, without writes.

    Raises ExportError when the path writes to an input or to a buffer.
    """
    program = path.program
    if any(_is_write(node) for node in program.graph.nodes):
        program = program.run_decompositions({})
        signature = program.graph_signature
        written = [
            *signature.buffers_to_mutate.values(),
            *signature.user_inputs_to_mutate.values(),
        ]
        if written:
            raise ExportError(
                f"tracing: the module decides on data and writes to {', '.join(written)} in "
                "place. Return the new value instead, or write the branch with torch.where."
            )
    module: Any = program.module(check_guards=False)
    return module


def _is_write(node: Node) -> bool:
    target = node.target
    return (
        isinstance(target, OpOverload)
        and target._schema.is_mutable
        and target.name() not in traits.METADATA_ONLY
    )


def same(
    one: TracedPath | DecisionNode, other: TracedPath | DecisionNode, module: torch.nn.Module
) -> bool:
    """Whether two trees decide the same, and compute the same on every path."""
    if isinstance(one, DecisionNode) and isinstance(other, DecisionNode):
        return (
            one.depth == other.depth
            and same(one.yes, other.yes, module)
            and same(one.no, other.no, module)
        )
    if isinstance(one, DecisionNode) or isinstance(other, DecisionNode):
        return False
    numbers, weights = _Numbers(), frozenset(module.state_dict(keep_vars=True))
    first, second = (
        _numbered(_functional(path), numbers, weights, path.decisions) for path in (one, other)
    )
    return (first.order, first.results, first.asked, str(first.out_spec)) == (
        second.order,
        second.results,
        second.asked,
        str(second.out_spec),
    )


def _numbered(
    owner: GraphModule, numbers: _Numbers, weights: frozenset[str], decisions: int
) -> _Numbered:
    found: dict[Node, int] = {}
    random: dict[Hashable, int] = {}
    order: list[int] = []
    for index, node in enumerate(owner.graph.nodes):
        if node.op == "output" or (node.op == "call_module" and is_guard_call(owner, node)):
            continue
        if isinstance(node.target, OpOverload) and node.target.name() in traits.METADATA_ONLY:
            found[node] = found[node.args[0]]  # detach_: the same tensor
            continue
        key = _key(owner, node, index, found, weights)
        if (
            isinstance(node.target, OpOverload)
            and torch.Tag.nondeterministic_seeded in node.target.tags
        ):
            # two calls draw different numbers; the n-th of one path is the n-th of another
            random[key] = random.get(key, 0) + 1
            key = (key, random[key])
        found[node] = numbers.of(key, _Value(node, owner, found))
        order.append(found[node])
    output = owner.graph.output_node()
    flat: Any = output.args[0]
    results = [found[leaf] if isinstance(leaf, Node) else (leaf,) for leaf in flat]
    spec = codegen_of(owner.graph).pytree_info.out_spec
    spec = spec.child(0) if decisions else spec
    count = spec.num_leaves
    asked: Any = results[count:]
    return _Numbered(list(dict.fromkeys(order)), results[:count], asked, spec)


def is_guard_call(owner: GraphModule, node: Node) -> bool:
    """True for the call of the module that checks a program's inputs."""
    return is_guard(find_attribute(owner, str(node.target), None))


def _key(
    owner: GraphModule, node: Node, index: int, found: dict[Node, int], weights: frozenset[str]
) -> Hashable:
    """Equal for nodes of two paths that compute the same."""
    if node.op == "placeholder":
        return ("placeholder", node.target)
    if node.op == "get_attr":
        return _attribute_key(str(node.target), find_attribute(owner, str(node.target)), weights)
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    parts = tuple(
        ("#", found[leaf]) if isinstance(leaf, Node) else (type(leaf), repr(leaf))
        for leaf in leaves
    )
    return (node.op, node.target, str(spec), parts)


def _attribute_key(name: str, value: Any, weights: frozenset[str]) -> Hashable:
    if isinstance(value, GraphModule):
        # the body of a region or of a torch.cond: its weights are operands of the call
        return ("graph", *(each.code for each in value.modules() if isinstance(each, GraphModule)))
    if name in weights:
        return ("weight", name)
    if value.numel() <= _SMALL and value.layout is torch.strided:
        content = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        return ("constant", value.dtype, tuple(value.shape), content)
    return ("constant", id(value))


@dataclass
class _Scope:
    """The graph that is being written: its nodes by number, the modules that it will hold, and the
    numbers that graphs around it have computed."""

    graph: Graph
    nodes: dict[int, Node]
    attributes: dict[str, Any]
    outside: frozenset[int] = frozenset()

    def has(self, number: int) -> bool:
        return number in self.nodes or number in self.outside


@dataclass
class _Builder:
    """Writes the tree of paths into graphs."""

    numbers: _Numbers
    paths: dict[int, _Numbered]

    def below(self, tree: TracedPath | DecisionNode) -> list[_Numbered]:
        return [self.paths[id(path)] for path in tree.leaves()]

    def emit(
        self, tree: TracedPath | DecisionNode, scope: _Scope, wanted: Sequence[int]
    ) -> dict[int, Any]:
        """Write ``tree``; returns the nodes, or constants, of the ``wanted`` results."""
        paths = self.below(tree)
        common = set(paths[0].order).intersection(*(path.order for path in paths[1:]))
        for number in paths[0].order:
            if number in common and not scope.has(number):
                scope.nodes[number] = self.copy(number, scope)
        found: dict[int, Any] = {}
        for index in wanted:
            values = {_hashable(path.results[index]) for path in paths}
            value = paths[0].results[index]
            if len(values) == 1:
                found[index] = value[0] if isinstance(value, tuple) else scope.nodes[value]
        left = [index for index in wanted if index not in found]
        if isinstance(tree, DecisionNode) and left:
            found.update(self.decision(tree, scope, left))
        return found

    def decision(self, tree: DecisionNode, scope: _Scope, wanted: Sequence[int]) -> dict[int, Any]:
        """The torch.cond of a decision."""
        paths = self.below(tree)
        asked = {path.asked[tree.depth] for path in paths}
        if len(asked) != 1:
            raise ExportError(
                f"tracing: the decision at {tree.line} is not the same computation in every path: "
                "it depends on a number of Python (random, a counter), or on a tensor that one "
                "path writes to in place. Draw it with torch, and write y = y + 1 for y.add_(1)"
            )
        self.check_tensors(tree, wanted)
        needed = self.needed(tree, wanted, scope)
        branches = [self.branch(each, needed, wanted, scope) for each in (tree.yes, tree.no)]
        operands = tuple(scope.nodes[number] for number in needed)
        graph = scope.graph
        node = graph.call_function(
            torch.ops.higher_order.cond, (scope.nodes[asked.pop()], *branches, operands)
        )
        return {
            index: graph.call_function(operator.getitem, (node, position))
            for position, index in enumerate(wanted)
        }

    def branch(
        self,
        tree: TracedPath | DecisionNode,
        needed: Sequence[int],
        wanted: Sequence[int],
        scope: _Scope,
    ) -> Node:
        """A branch as a GraphModule that ``scope`` holds; returns the node that reads it."""
        graph = Graph()
        known = {number: graph.placeholder(f"operand_{i}") for i, number in enumerate(needed)}
        inner = _Scope(graph, known, {}, scope.outside.union(scope.nodes))
        results = self.emit(tree, inner, wanted)
        # a branch of torch.cond returns new tensors: no operand, no view of one, none twice
        copies = [
            graph.call_function(
                torch.ops.aten.clone.default,
                (results[index],),
                {"memory_format": torch.contiguous_format},
            )
            for index in wanted
        ]
        graph.output(tuple(copies))
        graph.eliminate_dead_code()
        return _held(scope, GraphModule(inner.attributes, graph), "branch")

    def needed(self, tree: DecisionNode, wanted: Sequence[int], scope: _Scope) -> list[int]:
        """The numbers of this graph that the branches read."""
        found: dict[int, None] = {}
        for path in self.below(tree):
            for number in path.order:
                if not scope.has(number):
                    value = self.numbers.values[number]
                    found.update(dict.fromkeys(value.inputs()))
            results = (path.results[index] for index in wanted)
            found.update({each: None for each in results if not isinstance(each, tuple)})
            found.update(dict.fromkeys(path.asked[tree.depth + 1 :]))
        return [number for number in found if number in scope.nodes]

    def check_tensors(self, tree: DecisionNode, wanted: Sequence[int]) -> None:
        """Raises ExportError for a result that is a tensor on one side only, or another number."""
        for path in self.below(tree):
            for index in wanted:
                result = path.results[index]
                value = None
                if not isinstance(result, tuple):
                    value = self.numbers.values[result].node.meta.get("val")
                if not isinstance(value, torch.Tensor):
                    raise ExportError(
                        f"tracing: result {index} is not a tensor, and depends on the decision at "
                        f"{tree.line}; return a tensor"
                    )

    def copy(self, number: int, scope: _Scope) -> Node:
        """The node of ``number`` in the graph of ``scope``."""
        value = self.numbers.values[number]
        node = value.node
        if node.op == "get_attr":
            return _held(scope, find_attribute(value.owner, str(node.target)), "body")
        args, kwargs = map_arg(
            (node.args, node.kwargs), lambda each: scope.nodes[value.numbers[each]]
        )
        made = scope.graph.create_node(node.op, node.target, args, kwargs)
        made.meta.update({key: node.meta[key] for key in _KEPT_META if key in node.meta})
        return made


def _add_attribute(scope: _Scope, number: int, value: _Value) -> None:
    """A weight under its name in the state_dict, or a constant; the body of a region is put where
    it is called."""
    name = str(value.node.target)
    held = find_attribute(value.owner, name)
    if isinstance(held, GraphModule):
        return
    while name in scope.attributes:  # constants of two paths may have one name
        name += "_"
    scope.attributes[name] = held
    scope.nodes[number] = scope.graph.get_attr(name)


def _held(scope: _Scope, module: GraphModule, kind: str) -> Node:
    """A node that reads ``module``, which becomes an attribute of the graph's owner."""
    name = f"traced_{kind}_{len(scope.attributes)}"
    scope.attributes[name] = module
    return scope.graph.get_attr(name)


def _hashable(result: int | tuple[Any]) -> Hashable:
    return (type(result[0]), repr(result[0])) if isinstance(result, tuple) else result
