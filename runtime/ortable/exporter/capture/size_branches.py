"""Merge programs for the sides of branches on sizes.

sources.py calls this module if a fallback or tracing is enabled. A program holds for the sizes
that take the example's side of every branch, ``if x.shape[1] > 8``, and has guards for these
branches. This module captures calls of other sizes, too, and chooses among the programs with a
torch.cond on the sizes.

The merged program tests the guards of all programs but the last in turn, and runs the last one if
no earlier one holds. Unless it is proved that one of the programs holds for every size, the merged
program has the guard that one of them holds, which is reported and checked like others. A branch of
the torch.cond is a whole program, because torch uses the guards to simplify every line of a
program. The programs share weights.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ortable.compat.torch import pytree
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Guard, Program, Request
from ortable.exporter.reporting.example_sizes import example_sizes, resize_leaf, size_expressions
from ortable.exporter.signature.dimension_names import free_symbols
from ortable.exporter.signature.dynamic_shapes import evaluate_dim_expression

from .exported_program import get_requested_dims
from .guard_proofs import Range, choose_size_cases, find_uncovered_sizes
from .guards import get_size_ranges

MAX_PROGRAMS = 4
_MAX_FAILURES = 2  # failing captures: each takes as long as a successful one
_MAX_TRIED = 2000  # combinations of sizes
_MAX_BYTES = 2**28  # of matrices, which a branch may store in a layout of its own
_SIZE_STEPS = (1, 2, 3, 4, 8, 16, 32, 64, 100, 128, 256, 512, 1000)  # added to known sizes


@dataclass(frozen=True)
class BranchVariants:
    """The programs of several sides, and notes on failed captures.

    ``conditions`` has a list of sympy relations per program, which must all hold. ``proved`` says
    whether at every size the relations of one of the programs hold.
    """

    programs: list[Program]
    conditions: list[list[Any]]
    proved: bool
    notes: list[str]


def merge_branch_variants(
    program: Program, request: Request, capture: Callable[[Request], Program]
) -> Program:
    """Return a program that holds for the sizes of several calls.

    The result is ``program`` itself if it has no guard on a single size, or a guard without an
    expression; also if no other program can be captured or merged, with the reason in its notes.
    ``capture`` makes the program of a request with other example sizes.
    """
    if any(guard.condition is None for guard in program.guards) or not _branch_conditions(program):
        return program
    try:
        _check_weights(program)
        variants = _capture_variants(program, request, capture)
        if len(variants.programs) == 1:
            program.notes += variants.notes
            return program
        merged = _join_variants(variants)
        request.record.sides = len(variants.programs)
        return merged
    except Exception as error:  # torch's errors about sizes; the program of the example is valid
        reason = str(error).partition("\n")[0]
        program.notes.append(f"branches on sizes have one side: {reason}")
        return program


# -- calls of other sizes


def _capture_variants(
    program: Program, request: Request, capture: Callable[[Request], Program]
) -> BranchVariants:
    leaves, structure = pytree.tree_flatten((request.args, request.kwargs))
    if len(leaves) != len(program.user_inputs) or program.exported is None:
        raise ExportError("the inputs of the program do not match the arguments of the call")
    sizes = [size_expressions(node.meta.get("val")) for node in program.user_inputs]
    for size in itertools.chain.from_iterable(
        size_list for size_list in sizes if isinstance(size_list, list)
    ):
        if len(getattr(size, "free_symbols", ())) > 1:
            raise ExportError(f"the size {size} of an input is not a single symbol")
    hints = example_sizes(leaves, sizes)
    ranges = get_size_ranges(
        program.exported, get_requested_dims(program, program.exported, request)
    )
    programs, conditions = [program], [_branch_conditions(program)]
    notes: list[str] = []
    failures: list[dict[Any, int]] = []
    while True:
        cases = choose_size_cases(conditions, ranges)
        missing = (
            []
            if cases is None
            else list(itertools.islice(find_uncovered_sizes(conditions, cases), 1))
        )
        if cases is not None and not missing:
            return BranchVariants(programs, conditions, True, notes)
        if len(programs) == MAX_PROGRAMS or len(failures) == _MAX_FAILURES:
            return BranchVariants(programs, conditions, False, notes)
        values = _next_sizes(program, hints, ranges, conditions, cases, failures)
        if values is None:
            return BranchVariants(programs, conditions, False, notes)
        resized_leaves = [
            resize_leaf(leaf, dims, values) for leaf, dims in zip(leaves, sizes, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(resized_leaves, structure)
        try:
            variant = capture(replace(request, args=args, kwargs=kwargs))
            _check_compatible(program, variant)
        except Exception as error:  # forward is any Python code, torch.export raises many types
            failures.append(values)
            reason = str(error).partition("\n")[0]
            notes.append(f"sizes {_format_sizes(values, program)} are left out: {reason}")
            continue
        condition = _branch_conditions(variant)
        if not _all_hold(condition, values):
            raise ExportError(
                f"the program of {_format_sizes(values, program)} does not hold for these sizes"
            )
        if _holds_at_one_size(condition, values, ranges):
            raise ExportError(
                f"the code fixes sizes: a program holds only for {_format_sizes(values, program)}"
            )
        programs.append(variant)
        conditions.append(condition)


def _holds_at_one_size(
    conditions: Sequence[Any], values: Mapping[Any, int], ranges: Mapping[Any, Range]
) -> bool:
    """Whether a symbol has one size only, because the code computes with the number."""
    symbols = {symbol for condition in conditions for symbol in condition.free_symbols}
    for moved_symbol in symbols:
        for move_all in (False, True):  # equal sizes may have to stay equal
            for step in (*_SIZE_STEPS, *(-step for step in _SIZE_STEPS)):
                near_sizes = {
                    symbol: values[symbol] + step * (symbol == moved_symbol or move_all)
                    for symbol in symbols
                }
                if all(
                    map(
                        _is_in_range,
                        near_sizes.values(),
                        (ranges.get(symbol) for symbol in near_sizes),
                    )
                ) and _all_hold(conditions, near_sizes):
                    break
            else:
                continue
            break
        else:
            return True
    return False


def _is_in_range(size: int, size_range: Range | None) -> bool:
    smallest, largest = size_range or (2, None)
    return smallest <= size and (largest is None or size <= largest)


def _check_weights(program: Program) -> None:
    """Raise ExportError if the weights that another side would store again are large."""
    byte_count = sum(weight.nbytes for weight in program.weights.values() if weight.ndim == 2)
    if byte_count > _MAX_BYTES:
        raise ExportError(f"each side would store {byte_count / 2**20:.0f} MiB of weights again")


def _branch_guards(program: Program) -> list[Guard]:
    """Return the guards on a single size; the merged program keeps guards on several sizes."""
    return [guard for guard in program.guards if len(guard.condition.free_symbols) == 1]


def _branch_conditions(program: Program) -> list[Any]:
    return [guard.condition for guard in _branch_guards(program)]


def _relation_guards(program: Program) -> list[Guard]:
    branching = _branch_guards(program)
    return [guard for guard in program.guards if guard not in branching]


def _next_sizes(
    program: Program,
    hints: Mapping[Any, int],
    ranges: Mapping[Any, Range],
    conditions: Sequence[Sequence[Any]],
    cases: Mapping[Any, range] | None,
    failures: Sequence[Mapping[Any, int]],
) -> dict[Any, int] | None:
    """Return sizes near the example at which no program holds yet; None if there are none.

    Larger sizes come first, because most calls have them. Symbols of the same name get the same
    size.
    """
    names = {symbol: program.symbol_names.get(str(symbol), str(symbol)) for symbol in hints}
    branch_symbols = {
        symbol
        for variant_conditions in conditions
        for condition in variant_conditions
        for symbol in condition.free_symbols
    }
    related_symbols = {
        symbol for guard in _relation_guards(program) for symbol in guard.condition.free_symbols
    }
    moved_symbols = [symbol for symbol in hints if symbol in branch_symbols | related_symbols]
    relations = [guard.condition for guard in _relation_guards(program)]
    for values in itertools.chain(
        _move_equal_sizes(hints, moved_symbols), _move_sizes(hints, moved_symbols, ranges, cases)
    ):
        sizes = _unify_names({**hints, **values}, hints, names)
        is_valid = all(_is_in_range(sizes[symbol], ranges.get(symbol)) for symbol in moved_symbols)
        is_valid = is_valid and _all_hold(relations, sizes)
        if (
            is_valid
            and sizes not in failures
            and any(
                find_uncovered_sizes(
                    conditions,
                    {symbol: [sizes[symbol]] for symbol in branch_symbols & sizes.keys()},
                )
            )
        ):
            return sizes
    return None


def _move_equal_sizes(
    hints: Mapping[Any, int], moved_symbols: Sequence[Any]
) -> Iterator[dict[Any, int]]:
    """Yield one new size for all symbols of equal size, in case they must stay equal."""
    for size in dict.fromkeys(hints[symbol] for symbol in moved_symbols):
        for new_size in [*(size + step for step in _SIZE_STEPS), size * 2, *range(size - 1, 1, -1)]:
            yield {symbol: new_size for symbol in moved_symbols if hints[symbol] == size}


def _move_sizes(
    hints: Mapping[Any, int],
    moved_symbols: Sequence[Any],
    ranges: Mapping[Any, Range],
    cases: Mapping[Any, range] | None,
) -> Iterator[dict[Any, int]]:
    candidates = []
    for symbol in moved_symbols:
        smallest, _ = ranges.get(symbol, (2, None))
        hint = hints[symbol]
        sizes = [hint, *(hint + step for step in _SIZE_STEPS), *range(hint - 1, smallest - 1, -1)]
        candidates.append(dict.fromkeys([*sizes, *(cases or {}).get(symbol, ())]))
    for combination in itertools.islice(itertools.product(*candidates), _MAX_TRIED):
        yield dict(zip(moved_symbols, combination, strict=True))


def _unify_names(
    values: Mapping[Any, int], hints: Mapping[Any, int], names: Mapping[Any, str]
) -> dict[Any, int]:
    """Use one size per name, preferably not the example's; evaluate names like ``past + new``."""
    by_name: dict[str, int] = {}
    for symbol, value in values.items():
        name = names[symbol]
        if name not in by_name or value != hints[symbol]:
            by_name[name] = value
    sizes = {}
    for symbol in values:
        derived = evaluate_dim_expression(names[symbol], by_name)
        sizes[symbol] = by_name[names[symbol]] if derived is None else derived
    return sizes


def _format_sizes(values: Mapping[Any, int], program: Program) -> str:
    names = program.symbol_names
    return ", ".join(
        dict.fromkeys(f"{names.get(str(symbol), symbol)}={size}" for symbol, size in values.items())
    )


def _all_hold(conditions: Sequence[Any], values: Mapping[Any, int]) -> bool:
    return all(bool(condition.subs(values) == True) for condition in conditions)  # noqa: E712  (sympy's)


# -- conditions for merging programs


def _check_compatible(base: Program, variant: Program) -> None:
    """Raise ExportError for programs that cannot be branches of one graph.

    Their inputs have different symbols, their results different types, or a size depends on data.
    """
    for program in (base, variant):
        for module in program.graph_module.modules():
            if isinstance(module, GraphModule) and any(
                node.meta.get("unbacked_bindings") for node in module.graph.nodes
            ):
                raise ExportError("a size depends on data, on a side of a branch on a size")
    for left_input, right_input in zip(base.user_inputs, variant.user_inputs, strict=True):
        left_sizes, right_sizes = (
            size_expressions(item.meta.get("val")) for item in (left_input, right_input)
        )
        if str(left_sizes) != str(right_sizes):
            raise ExportError(
                f"input '{left_input.name}' has sizes {left_sizes} on one side of a branch, "
                f"{right_sizes} on the other"
            )
    signatures = [
        [(item.kind, item.target, item.is_none, item.label) for item in program.outputs]
        for program in (base, variant)
    ]
    if signatures[0] != signatures[1]:
        raise ExportError("the sides of a branch on a size return, or write to, different values")
    for left_result, right_result in zip(
        _output_values(base), _output_values(variant), strict=True
    ):
        left, right = (_node_value(item) for item in (left_result, right_result))
        tensors = isinstance(left, torch.Tensor), isinstance(right, torch.Tensor)
        if tensors == (True, True):
            if (left.dtype, left.ndim) != (right.dtype, right.ndim):
                raise ExportError("the dtype or rank of a result depends on the size of an input")
        elif any(isinstance(item, Node) for item in (left_result, right_result)) or left != right:
            raise ExportError("a result that is not a tensor depends on the size of an input")


def _output_values(program: Program) -> list[Any]:
    output: Any = program.graph_module.graph.output_node().args[0]
    return list(output)


def _node_value(result: Any) -> Any:
    return result.meta.get("val") if isinstance(result, Node) else result


# -- the merged graph


def _join_variants(variants: BranchVariants) -> Program:
    first = variants.programs[0]
    shared = _make_shared_graph(variants.programs)
    operands, graph = shared.operands, shared.graph
    inputs = {node.name for node in first.user_inputs}
    emitter = _ConditionEmitter(graph, [node for node in operands if node.name in inputs])
    conditions = [emitter.emit_all(item) for item in variants.conditions[:-1]]
    indices = [
        index
        for index, item in enumerate(_output_values(first))
        if isinstance(_node_value(item), torch.Tensor)
    ]
    results = _result_values(variants.programs, indices)
    modules: dict[str, Any] = {}
    branch_operands = [*operands, *conditions[1:]]
    branches = [
        _make_branch(program, operand_indices, len(branch_operands), indices)
        for program, operand_indices in zip(variants.programs, shared.operand_indices, strict=True)
    ]
    node = _chain_branches(graph, modules, branches, branch_operands, conditions)
    node.meta["val"] = results
    returned = _output_values(first)
    for position, index in enumerate(indices):
        returned[index] = graph.call_function(operator.getitem, (node, position))
        returned[index].meta["val"] = results[position]
    graph.output(tuple(returned))
    module = GraphModule(modules, graph, type(first.graph_module).__name__)
    return _joined_program(variants, module, shared, results)


@dataclass
class _SharedGraph:
    """The merged graph, its placeholders, and for each program the indices of its placeholders.

    ``weights`` and ``paths`` are those of `Program`.
    """

    graph: Graph
    operands: list[Node]
    operand_indices: list[list[int]]
    weights: dict[str, Any]
    paths: dict[str, str]


def _make_shared_graph(programs: Sequence[Program]) -> _SharedGraph:
    first = programs[0]
    shared = _SharedGraph(Graph(), [], [], {}, {})
    indices: dict[str, int] = {}
    for program in programs:
        inputs = [node.name for node in program.user_inputs]
        operand_indices = []
        for node in _graph_inputs(program.graph_module):
            name = node.name
            if name in inputs:
                name = first.user_inputs[inputs.index(name)].name
            elif name in program.weights:
                name = _add_weight(program, name, shared)
            if name not in indices:
                indices[name] = len(shared.operands)
                shared.operands.append(_add_placeholder(shared.graph, name, node))
            operand_indices.append(indices[name])
        shared.operand_indices.append(operand_indices)
    return shared


def _make_branch(
    program: Program, operand_indices: Sequence[int], count: int, indices: Sequence[int]
) -> GraphModule:
    """Make a program a branch of torch.cond, which takes all operands and returns new tensors."""
    graph = Graph()
    operands = [graph.placeholder(f"operand_{index}") for index in range(count)]
    values: dict[Node, Any] = {
        node: operands[position]
        for node, position in zip(_graph_inputs(program.graph_module), operand_indices, strict=True)
    }
    graph.graph_copy(program.graph_module.graph, values)
    copies = []
    for index in indices:
        result = _output_values(program)[index]
        copy = graph.call_function(
            torch.ops.aten.clone.default,
            (values[result],),
            {"memory_format": torch.contiguous_format},
        )
        copy.meta["val"] = result.meta["val"]
        copies.append(copy)
    graph.output(tuple(copies))
    return GraphModule(program.graph_module, graph)


def _chain_branches(
    graph: Graph,
    modules: dict[str, Any],
    branches: Sequence[GraphModule],
    operands: Sequence[Node],
    conditions: Sequence[Node],
) -> Node:
    """Emit ``cond(c0, p0, cond(c1, p1, p2))``; the last operands are ``c1`` and so on."""
    first_branch, other_branch = branches[0], branches[1]
    if len(branches) > 2:
        inner = Graph()
        inner_modules: dict[str, Any] = {}
        inner_operands = [inner.placeholder(f"operand_{index}") for index in range(len(operands))]
        node = _chain_branches(
            inner,
            inner_modules,
            branches[1:],
            inner_operands,
            inner_operands[len(inner_operands) - len(conditions) + 1 :],
        )
        output: Any = first_branch.graph.output_node().args[0]
        node.meta["val"] = [result.meta.get("val") for result in output]
        parts = [
            inner.call_function(operator.getitem, (node, position))
            for position in range(len(output))
        ]
        inner.output(tuple(parts))
        other_branch = GraphModule(inner_modules, inner)
    modules["side"], modules["others"] = first_branch, other_branch
    branch_nodes = (graph.get_attr("side"), graph.get_attr("others"))
    return graph.call_function(
        torch.ops.higher_order.cond, (conditions[0], *branch_nodes, tuple(operands))
    )


def _joined_program(
    variants: BranchVariants,
    module: GraphModule,
    shared: _SharedGraph,
    results: Sequence[torch.Tensor],
) -> Program:
    first = variants.programs[0]
    symbol_names = dict(first.symbol_names)
    for symbol in (s for value in results for size in value.shape for s in free_symbols(size)):
        if symbol in symbol_names:
            continue
        number = 0
        while f"size_{number}" in symbol_names.values():
            number += 1
        symbol_names[symbol] = f"size_{number}"
    texts = [
        " and ".join(guard.text for guard in _branch_guards(program))
        for program in variants.programs
    ]
    note = f"branches on sizes: a program each for {'; '.join(text or 'all' for text in texts)}"
    nodes = {node.name: node for node in shared.operands}
    relations = {
        guard.text: guard for program in variants.programs for guard in _relation_guards(program)
    }
    return replace(
        first,
        graph_module=module,
        weights=shared.weights,
        paths=shared.paths,
        user_inputs=[nodes[node.name] for node in first.user_inputs],
        symbol_names=symbol_names,
        notes=[*first.notes, note, *variants.notes],
        guards=[*([] if variants.proved else [_make_union_guard(variants)]), *relations.values()],
        ranges=_merge_ranges(variants.programs),
    )


def _make_union_guard(variants: BranchVariants) -> Guard:
    """Return the guard of the merged program: the guards of one of the programs hold."""
    guards = [_branch_guards(program) for program in variants.programs]
    text = " or ".join(
        " and ".join(f"({guard.text})" for guard in terms) for terms in guards if terms
    )
    line = guards[0][0].line

    def is_met(values: Mapping[str, int]) -> bool:
        return any(
            all(guard.holds(values) for guard in variant_guards) for variant_guards in guards
        )

    return Guard(text, line, is_met)


def _merge_ranges(programs: Sequence[Program]) -> dict[Any, Any]:
    """Return for each symbol the smallest range that contains the ranges of all programs."""
    ranges: dict[Any, Any] = {}
    for program in programs:
        constraints = program.exported.range_constraints if program.exported is not None else {}
        for symbol, size_range in constraints.items():
            known_symbol = next((s for s in ranges if str(s) == str(symbol)), None)
            if known_symbol is None:
                ranges[symbol] = size_range
            else:
                known_range = ranges[known_symbol]
                ranges[known_symbol] = type(size_range)(
                    min(known_range.lower, size_range.lower),
                    max(known_range.upper, size_range.upper),
                )
    return ranges


def _graph_inputs(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _add_placeholder(graph: Graph, name: str, like: Node) -> Node:
    placeholder = graph.placeholder(name)
    placeholder.meta.update(like.meta)
    if placeholder.name != name:
        raise ExportError(f"two inputs of the program have the name '{name}'")
    return placeholder


def _add_weight(program: Program, name: str, shared: _SharedGraph) -> str:
    """Return the name of a weight in the merged graph: that of an equal weight, or a new one."""
    tensor, path = program.weights[name], program.paths.get(name)
    for existing, known_tensor in shared.weights.items():
        if known_tensor is tensor or (
            shared.paths.get(existing) == path and _is_same_weight(known_tensor, tensor)
        ):
            return existing
    names = {node.name for node in shared.operands}
    unique, number = name, 0
    while unique in names:
        number += 1
        unique = f"{name}_{number}"
    shared.weights[unique] = tensor
    if path is not None:
        shared.paths[unique] = path
    return unique


def _is_same_weight(left: torch.Tensor, right: Any) -> bool:
    return (
        isinstance(right, torch.Tensor)
        and left.dtype == right.dtype
        and left.shape == right.shape
        and (left.data_ptr() == right.data_ptr() or torch.equal(left, right))
    )


def _result_values(programs: Sequence[Program], indices: Sequence[int]) -> list[torch.Tensor]:
    """Return the merged program's fake results; a size that differs between programs is new."""
    results = []
    for index in indices:
        values = [_node_value(_output_values(program)[index]) for program in programs]
        first = values[0]
        shapes = [[str(size) for size in value.shape] for value in values]
        if all(shape == shapes[0] for shape in shapes):
            results.append(first)
            continue
        sizes = [
            size if len({shape[axis] for shape in shapes}) == 1 else _new_size(programs[0])
            for axis, size in enumerate(first.shape)
        ]
        with first.fake_mode:
            results.append(torch.empty(sizes, dtype=first.dtype, device=first.device))
    return results


def _new_size(program: Program) -> Any:
    for node in program.user_inputs:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                return size.node.shape_env.create_unbacked_symint()
    raise ExportError("no input of the program has a dynamic size")


class _ConditionEmitter:
    """Emits conditions on sizes into a graph, as Python's operators on the sizes of the inputs."""

    def __init__(self, graph: Graph, inputs: Sequence[Node]) -> None:
        self.graph = graph
        self.sizes: dict[str, tuple[Node, int | None]] = {}  # symbol -> input and axis
        for node in inputs:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self.sizes.setdefault(str(value.node.expr), (node, None))
            elif isinstance(value, torch.Tensor):
                for axis, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt):
                        self.sizes.setdefault(str(size.node.expr), (node, axis))

    def emit_size(self, node: Node, axis: int | None) -> Node:
        """Emit the size of an input's axis; an integer input is returned unchanged."""
        if axis is None:
            return node
        size = self.graph.call_function(torch.ops.aten.sym_size.int, (node, axis))
        size.meta["val"] = node.meta["val"].shape[axis]
        return size

    def emit_all(self, conditions: Sequence[Any]) -> Node:
        """Emit the conjunction of conditions.

        Raises ExportError for an unsupported expression, and if torch evaluates it to a constant.
        """
        condition = reduce(
            lambda left, right: self.emit_call(operator.and_, left, right),
            map(self.emit_expression, conditions),
        )
        if not isinstance(condition, Node) or not isinstance(condition.meta["val"], torch.SymBool):
            raise ExportError("torch evaluates a condition on sizes to a constant")
        return condition

    def emit_call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Emit a call; return the node, or the number if all arguments are numbers."""
        values = [
            argument.meta["val"] if isinstance(argument, Node) else argument for argument in args
        ]
        value = function(*values)
        if not any(isinstance(argument, Node) for argument in args):
            return value
        node = self.graph.call_function(function, args)
        node.meta["val"] = value
        return node

    def emit_expression(self, expression: Any) -> Any:
        """Emit a sympy expression as a node or a number."""
        if expression.is_Symbol:
            if str(expression) not in self.sizes:
                raise ExportError(f"no input of the program has the size {expression}")
            return self.emit_size(*self.sizes[str(expression)])
        if expression.is_Integer:
            return int(expression)
        function = _FUNCTIONS.get(type(expression).__name__)
        if function is None:
            raise ExportError(f"a condition on sizes contains {type(expression).__name__}")
        return (
            reduce(
                lambda left, right: self.emit_call(function, left, right),
                map(self.emit_expression, expression.args),
            )
            if len(expression.args) > 1
            else self.emit_call(function, self.emit_expression(expression.args[0]))
        )


# Names of sympy's and torch's expression classes -> Python's functions.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": torch.sym_max,
    "Min": torch.sym_min,
    "Equality": operator.eq,
    "Unequality": operator.ne,
    "StrictLessThan": operator.lt,
    "LessThan": operator.le,
    "StrictGreaterThan": operator.gt,
    "GreaterThan": operator.ge,
    "And": operator.and_,
    "Or": operator.or_,
    "Not": torch.sym_not,
}
