"""Merge the paths of a traced module into one torch.fx graph; tracing.py calls it.

A path is one run of forward with fixed outcomes of its decisions, the conditions on data that it
evaluates. Computations that all paths share come first. Every decision becomes a torch.cond whose
branches contain the rest.
"""

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
_MAX_COMPARED_ELEMENTS = 1 << 20
_COPIED_META = ("stack_trace", "nn_module_stack")


@dataclass(frozen=True)
class TracedPath:
    """One run of forward; its program returns the results, and ``decisions`` bool tensors."""

    program: ExportedProgram
    decisions: int

    def iter_paths(self) -> Iterator[TracedPath]:
        """Yield this path."""
        yield self


@dataclass(frozen=True)
class DecisionNode:
    """Decision number ``depth``, at source ``line``, with the subtrees of its two outcomes."""

    depth: int
    if_true: TracedPath | DecisionNode
    if_false: TracedPath | DecisionNode
    line: Any

    def iter_paths(self) -> Iterator[TracedPath]:
        """Yield the paths below, those with outcome True first."""
        yield from self.if_true.iter_paths()
        yield from self.if_false.iter_paths()

    def count_paths(self) -> int:
        """Count the paths."""
        return sum(1 for _ in self.iter_paths())

    def decision_lines(self) -> Iterator[Any]:
        """Yield the source lines of the decisions, the root's first."""
        yield self.line
        for subtree in (self.if_true, self.if_false):
            if isinstance(subtree, DecisionNode):
                yield from subtree.decision_lines()


@dataclass
class _NumberedPath:
    """A path whose nodes have value numbers: equal numbers in two paths are the same computation.

    ``order`` has the numbers in the order of computation. ``results`` are forward's results: a
    number, or a constant in a tuple of length 1. ``conditions`` are the numbers of the decisions'
    conditions.
    """

    order: list[int]
    results: list[int | tuple[Any]]
    conditions: list[int]
    out_spec: Any


@dataclass
class _Value:
    """The definition of a value number: a node of a path, and the numbers of that path's nodes."""

    node: Node
    owner: GraphModule
    numbers: dict[Node, int]

    def input_numbers(self) -> list[int]:
        """Return the numbers of the node's inputs."""
        return [self.numbers[node] for node in self.node.all_input_nodes]


@dataclass
class _ValueNumbering:
    """Value numbering over all paths."""

    by_key: dict[Hashable, int] = field(default_factory=dict)
    values: list[_Value] = field(default_factory=list)

    def number_of(self, key: Hashable, value: _Value) -> int:
        """Return the number of the value with ``key``; a new key gets the next number."""
        number = self.by_key.setdefault(key, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


def merge_paths(tree: TracedPath | DecisionNode, module: torch.nn.Module) -> GraphModule:
    """Return one GraphModule that computes all paths of ``tree``, with the inputs of ``module``.

    Raises ExportError for writes to inputs or buffers, results that differ in structure, results
    that depend on a decision and are no tensors, and a decision that differs between paths.
    """
    numbering = _ValueNumbering()
    graphs = _functional_graphs(tuple(tree.iter_paths()))
    weights = frozenset(module.state_dict(keep_vars=True))
    paths = [
        _number_path(graph, numbering, weights, leaf.decisions)
        for graph, leaf in zip(graphs, tree.iter_paths(), strict=True)
    ]
    specs = {str(path.out_spec) for path in paths}
    if len(specs) > 1:
        raise ExportError(
            f"tracing: the results of {type(module).__name__} have different structures on its "
            "paths:\n" + "\n".join(sorted(specs))
        )
    builder = _Builder(numbering, dict(zip(map(id, tree.iter_paths()), paths, strict=True)))
    scope = _Scope(Graph(), {}, {})
    for number, value in enumerate(numbering.values):
        if value.node.op == "placeholder":
            scope.nodes[number] = scope.graph.placeholder(str(value.node.target))
    for number, value in enumerate(numbering.values):
        if value.node.op == "get_attr":
            _add_attribute(scope, number, value)
    count = len(paths[0].results)
    results = builder.emit_tree(tree, scope, range(count))
    graph = scope.graph
    graph.output(tuple(results[index] for index in range(count)))
    info = codegen_of(graphs[0].graph).pytree_info
    graph.set_codegen(PyTreeCodeGen(PyTreeInfo(info.orig_args, info.in_spec, paths[0].out_spec)))
    graph.eliminate_dead_code()
    merged_module = GraphModule(scope.attributes, graph, type(module).__name__)
    merged_module.train(module.training)
    return merged_module


def _functional_graphs(paths: Sequence[TracedPath]) -> list[GraphModule]:
    """Return the graphs without writes; raise ExportError for writes to inputs or buffers.

    If one path writes, all are rewritten: torch's rewrite also changes operators that do not write,
    and what two paths share must stay the same computation.
    """
    programs = [path.program for path in paths]
    if any(_is_write(node) for program in programs for node in program.graph.nodes):
        programs = [_functional_program(program) for program in programs]
    return [program.module(check_guards=False) for program in programs]  # type: ignore[misc]


def _functional_program(program: ExportedProgram) -> ExportedProgram:
    rewritten = program.run_decompositions({})
    signature = rewritten.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise ExportError(
            f"tracing: the module decides on data and writes to {', '.join(written)} in "
            "place. Return the new value instead, or write the branch with torch.where."
        )
    return rewritten


def _is_write(node: Node) -> bool:
    target = node.target
    return (
        isinstance(target, OpOverload)
        and target._schema.is_mutable
        and target.name() not in traits.METADATA_ONLY
    )


def is_same_tree(
    left: TracedPath | DecisionNode, right: TracedPath | DecisionNode, module: torch.nn.Module
) -> bool:
    """Whether two trees have the same decisions, and compute the same on every path."""
    if isinstance(left, DecisionNode) and isinstance(right, DecisionNode):
        return (
            left.depth == right.depth
            and is_same_tree(left.if_true, right.if_true, module)
            and is_same_tree(left.if_false, right.if_false, module)
        )
    if isinstance(left, DecisionNode) or isinstance(right, DecisionNode):
        return False
    numbering, weights = _ValueNumbering(), frozenset(module.state_dict(keep_vars=True))
    left_path, right_path = (
        _number_path(graph, numbering, weights, path.decisions)
        for graph, path in zip(_functional_graphs((left, right)), (left, right), strict=True)
    )
    return (left_path.order, left_path.results, left_path.conditions, str(left_path.out_spec)) == (
        right_path.order,
        right_path.results,
        right_path.conditions,
        str(right_path.out_spec),
    )


def _number_path(
    owner: GraphModule, numbering: _ValueNumbering, weights: frozenset[str], decisions: int
) -> _NumberedPath:
    node_numbers: dict[Node, int] = {}
    random_call_counts: dict[Hashable, int] = {}
    order: list[int] = []
    for index, node in enumerate(owner.graph.nodes):
        if node.op == "output" or (node.op == "call_module" and is_guard_call(owner, node)):
            continue
        if isinstance(node.target, OpOverload) and node.target.name() in traits.METADATA_ONLY:
            node_numbers[node] = node_numbers[node.args[0]]  # detach_ returns the same tensor
            continue
        key = _value_key(owner, node, index, node_numbers, weights)
        if (
            isinstance(node.target, OpOverload)
            and torch.Tag.nondeterministic_seeded in node.target.tags
        ):
            # two random calls differ; the n-th call of one path equals the n-th call of another
            random_call_counts[key] = random_call_counts.get(key, 0) + 1
            key = (key, random_call_counts[key])
        node_numbers[node] = numbering.number_of(key, _Value(node, owner, node_numbers))
        order.append(node_numbers[node])
    output = owner.graph.output_node()
    flat_results: Any = output.args[0]
    results = [node_numbers[leaf] if isinstance(leaf, Node) else (leaf,) for leaf in flat_results]
    spec = codegen_of(owner.graph).pytree_info.out_spec
    spec = spec.child(0) if decisions else spec
    count = spec.num_leaves
    conditions: Any = results[count:]
    return _NumberedPath(list(dict.fromkeys(order)), results[:count], conditions, spec)


def is_guard_call(owner: GraphModule, node: Node) -> bool:
    """Whether the node calls the module that checks a program's inputs."""
    return is_guard(find_attribute(owner, str(node.target), None))


def _value_key(
    owner: GraphModule,
    node: Node,
    index: int,
    node_numbers: dict[Node, int],
    weights: frozenset[str],
) -> Hashable:
    """Return a key that is equal for nodes that compute the same, also in different paths."""
    if node.op == "placeholder":
        return ("placeholder", node.target)
    if node.op == "get_attr":
        return _attribute_key(str(node.target), find_attribute(owner, str(node.target)), weights)
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    parts = tuple(
        ("#", node_numbers[leaf]) if isinstance(leaf, Node) else (type(leaf), repr(leaf))
        for leaf in leaves
    )
    return (node.op, node.target, str(spec), parts)


def _attribute_key(name: str, value: Any, weights: frozenset[str]) -> Hashable:
    if isinstance(value, GraphModule):
        # the body of a region or of a torch.cond; its weights are operands of the call
        return (
            "graph",
            *(inner.code for inner in value.modules() if isinstance(inner, GraphModule)),
        )
    if name in weights:
        return ("weight", name)
    if value.numel() <= _MAX_COMPARED_ELEMENTS and value.layout is torch.strided:
        content = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        return ("constant", value.dtype, tuple(value.shape), content)
    return ("constant", id(value))


@dataclass
class _Scope:
    """A graph under construction: its nodes by value number, and its submodules and tensors.

    ``outside`` has the value numbers that enclosing graphs have computed.
    """

    graph: Graph
    nodes: dict[int, Node]
    attributes: dict[str, Any]
    outside: frozenset[int] = frozenset()

    def has_number(self, number: int) -> bool:
        """Whether this graph or an enclosing one has computed the number."""
        return number in self.nodes or number in self.outside


@dataclass
class _Builder:
    """Writes the tree of paths into graphs."""

    numbering: _ValueNumbering
    paths: dict[int, _NumberedPath]

    def paths_below(self, tree: TracedPath | DecisionNode) -> list[_NumberedPath]:
        return [self.paths[id(path)] for path in tree.iter_paths()]

    def emit_tree(
        self, tree: TracedPath | DecisionNode, scope: _Scope, indices: Sequence[int]
    ) -> dict[int, Any]:
        """Emit ``tree``; return the node or constant of each result in ``indices``."""
        paths = self.paths_below(tree)
        common = set(paths[0].order).intersection(*(path.order for path in paths[1:]))
        for number in paths[0].order:
            if number in common and not scope.has_number(number):
                scope.nodes[number] = self.copy_node(number, scope)
        results: dict[int, Any] = {}
        for index in indices:
            values = {_hashable_result(path.results[index]) for path in paths}
            value = paths[0].results[index]
            if len(values) == 1:
                results[index] = value[0] if isinstance(value, tuple) else scope.nodes[value]
        remaining = [index for index in indices if index not in results]
        if isinstance(tree, DecisionNode) and remaining:
            results.update(self.emit_decision(tree, scope, remaining))
        return results

    def emit_decision(
        self, tree: DecisionNode, scope: _Scope, indices: Sequence[int]
    ) -> dict[int, Any]:
        """Write a decision as a torch.cond; return the nodes of its results."""
        paths = self.paths_below(tree)
        conditions = {path.conditions[tree.depth] for path in paths}
        if len(conditions) != 1:
            raise ExportError(
                f"tracing: the decision at {tree.line} is not the same computation in every path: "
                "it depends on a Python number (random, a counter). Draw it with torch"
            )
        self.check_tensors(tree, indices)
        needed = self.needed_numbers(tree, indices, scope)
        branches = [
            self.emit_branch(subtree, needed, indices, scope)
            for subtree in (tree.if_true, tree.if_false)
        ]
        operands = tuple(scope.nodes[number] for number in needed)
        graph = scope.graph
        node = graph.call_function(
            torch.ops.higher_order.cond, (scope.nodes[conditions.pop()], *branches, operands)
        )
        return {
            index: graph.call_function(operator.getitem, (node, position))
            for position, index in enumerate(indices)
        }

    def emit_branch(
        self,
        tree: TracedPath | DecisionNode,
        needed: Sequence[int],
        indices: Sequence[int],
        scope: _Scope,
    ) -> Node:
        """Write a branch as a submodule of ``scope``; return the node that reads it."""
        graph = Graph()
        placeholders = {
            number: graph.placeholder(f"operand_{position}")
            for position, number in enumerate(needed)
        }
        inner = _Scope(graph, placeholders, {}, scope.outside.union(scope.nodes))
        results = self.emit_tree(tree, inner, indices)
        # a branch of torch.cond must return distinct new tensors, no operands and no views of them
        copies = [
            graph.call_function(
                torch.ops.aten.clone.default,
                (results[index],),
                {"memory_format": torch.contiguous_format},
            )
            for index in indices
        ]
        graph.output(tuple(copies))
        graph.eliminate_dead_code()
        return _attach_module(scope, GraphModule(inner.attributes, graph), "branch")

    def needed_numbers(
        self, tree: DecisionNode, indices: Sequence[int], scope: _Scope
    ) -> list[int]:
        """Return the value numbers in the graph of ``scope`` that the branches read."""
        numbers: dict[int, None] = {}
        for path in self.paths_below(tree):
            for number in path.order:
                if not scope.has_number(number):
                    value = self.numbering.values[number]
                    numbers.update(dict.fromkeys(value.input_numbers()))
            results = (path.results[index] for index in indices)
            numbers.update({result: None for result in results if not isinstance(result, tuple)})
            numbers.update(dict.fromkeys(path.conditions[tree.depth + 1 :]))
        return [number for number in numbers if number in scope.nodes]

    def check_tensors(self, tree: DecisionNode, indices: Sequence[int]) -> None:
        """Raise ExportError if a result that depends on the decision is not a tensor."""
        for path in self.paths_below(tree):
            for index in indices:
                result = path.results[index]
                value = None
                if not isinstance(result, tuple):
                    value = self.numbering.values[result].node.meta.get("val")
                if not isinstance(value, torch.Tensor):
                    raise ExportError(
                        f"tracing: result {index} is not a tensor, and depends on the decision at "
                        f"{tree.line}; return a tensor"
                    )

    def copy_node(self, number: int, scope: _Scope) -> Node:
        """Copy the node of a value number into the graph of ``scope``."""
        value = self.numbering.values[number]
        node = value.node
        if node.op == "get_attr":
            return _attach_module(scope, find_attribute(value.owner, str(node.target)), "body")
        args, kwargs = map_arg(
            (node.args, node.kwargs), lambda operand: scope.nodes[value.numbers[operand]]
        )
        copied = scope.graph.create_node(node.op, node.target, args, kwargs)
        copied.meta.update({key: node.meta[key] for key in _COPIED_META if key in node.meta})
        return copied


def _add_attribute(scope: _Scope, number: int, value: _Value) -> None:
    """Add a weight under its name in the state_dict, or a constant.

    The body of a region is skipped: `_Builder.copy_node` adds it to each graph that calls it.
    """
    name = str(value.node.target)
    attribute = find_attribute(value.owner, name)
    if isinstance(attribute, GraphModule):
        return
    while name in scope.attributes:  # constants of two paths may have the same name
        name += "_"
    scope.attributes[name] = attribute
    scope.nodes[number] = scope.graph.get_attr(name)


def _attach_module(scope: _Scope, module: GraphModule, kind: str) -> Node:
    """Add ``module`` to the scope's attributes; return a node that reads it."""
    name = f"traced_{kind}_{len(scope.attributes)}"
    scope.attributes[name] = module
    return scope.graph.get_attr(name)


def _hashable_result(result: int | tuple[Any]) -> Hashable:
    return (type(result[0]), repr(result[0])) if isinstance(result, tuple) else result
