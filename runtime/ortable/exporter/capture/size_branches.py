"""Branches on sizes: a program holds for the sizes that take the example's side of every branch,
``if x.shape[1] > 8``, and its guards say so. In come that program and a way to capture the module
again, out goes one program that chooses, by a torch.cond on the sizes, among several: that of the
example, and those of calls on other sides. Called by strategies.py where a fallback is asked for.

Nothing is specialised: the programs are tried in turn, each where its guards hold, and the last one
runs without a question only where it is proved that one of them always holds. Where that is not
proved, "one of them" remains as a guard of the whole, which is told, kept and checked as others
are. A branch is a whole program, since torch writes into every line of one what its guards say of
the sizes; weights are those of the whole."""

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
from ortable.exporter.account.resize import example_sizes, resized, sizes_of
from ortable.exporter.request.program import Guard, Program, Request
from ortable.exporter.signature.dimension_names import free_symbols
from ortable.exporter.signature.dynamic_shapes import value_of

from .exported_program import requested_dims
from .guard_proofs import Range, cases_of, uncovered
from .guards import ranges_of_sizes

MOST_PROGRAMS = 4
_MOST_FAILURES = 2  # captures that fail: each takes as long as one that does not
_MOST_TRIED = 2000
_MOST_BYTES = 2**28  # of matrices, which a side may store in its own form
_FURTHER = (1, 2, 3, 4, 8, 16, 32, 64, 100, 128, 256, 512, 1000)  # sizes besides the example's


@dataclass(frozen=True)
class Sides:
    """The programs of several sides, and what is said of them: ``conditions`` are each one's
    relations, ``proved`` says whether they cover all sizes, ``notes`` what failed."""

    programs: list[Program]
    conditions: list[list[Any]]
    proved: bool
    notes: list[str]


def with_every_side(
    program: Program, request: Request, capture: Callable[[Request], Program]
) -> Program:
    """The program that holds for the sizes of several calls, ``program`` itself where it holds for
    all of them or no other call can be captured; its notes say what was done.
    ``capture`` makes the program of a request that differs in the sizes of the example."""
    if any(guard.condition is None for guard in program.guards) or not _conditions(program):
        return program
    try:
        _check_weights(program)
        sides = _sides(program, request, capture)
        if len(sides.programs) == 1:
            program.notes += sides.notes
            return program
        joined = _joined(sides)
        request.record.sides = len(sides.programs)
        return joined
    except Exception as error:  # torch's words on sizes; the program of the example is there
        reason = str(error).partition("\n")[0]
        program.notes.append(f"branches on sizes have one side: {reason}")
        return program


# -- calls of other sizes


def _sides(program: Program, request: Request, capture: Callable[[Request], Program]) -> Sides:
    leaves, structure = pytree.tree_flatten((request.args, request.kwargs))
    if len(leaves) != len(program.user_inputs) or program.exported is None:
        raise ExportError("the inputs of the program are not those of the call")
    sizes = [sizes_of(node.meta.get("val")) for node in program.user_inputs]
    for size in itertools.chain.from_iterable(each for each in sizes if isinstance(each, list)):
        if len(getattr(size, "free_symbols", ())) > 1:
            raise ExportError(f"the size {size} of an input is no size by itself")
    hints = example_sizes(leaves, sizes)
    ranges = ranges_of_sizes(program.exported, requested_dims(program, program.exported, request))
    programs, conditions = [program], [_conditions(program)]
    notes: list[str] = []
    failures: list[dict[Any, int]] = []
    while True:
        cases = cases_of(conditions, ranges)
        missing = [] if cases is None else list(itertools.islice(uncovered(conditions, cases), 1))
        if cases is not None and not missing:
            return Sides(programs, conditions, True, notes)
        if len(programs) == MOST_PROGRAMS or len(failures) == _MOST_FAILURES:
            return Sides(programs, conditions, False, notes)
        values = _next(program, hints, ranges, conditions, cases, failures)
        if values is None:
            return Sides(programs, conditions, False, notes)
        moved = [resized(leaf, dims, values) for leaf, dims in zip(leaves, sizes, strict=True)]
        args, kwargs = pytree.tree_unflatten(moved, structure)
        try:
            found = capture(replace(request, args=args, kwargs=kwargs))
            _check_alike(program, found)
        except Exception as error:  # forward is any Python code, torch.export raises many types
            failures.append(values)
            words = str(error).partition("\n")[0]
            notes.append(f"sizes {_words(values, program)} are left out: {words}")
            continue
        condition = _conditions(found)
        if not _all_hold(condition, values):
            raise ExportError(f"the program of {_words(values, program)} does not hold for it")
        if _holds_once(condition, values, ranges):
            raise ExportError(
                f"the code fixes sizes: a program holds for {_words(values, program)}"
            )
        programs.append(found)
        conditions.append(condition)


def _holds_once(
    conditions: Sequence[Any], values: Mapping[Any, int], ranges: Mapping[Any, Range]
) -> bool:
    """Whether a program holds for one size alone of those near it: the code does not branch on a
    size, it computes with the number."""
    free = {symbol for each in conditions for symbol in each.free_symbols}
    for moved in free:
        for together in (False, True):  # sizes that are equal may be so for a reason
            for step in (*_FURTHER, *(-step for step in _FURTHER)):
                near = {
                    symbol: values[symbol] + step * (symbol == moved or together) for symbol in free
                }
                if all(map(_inside, near.values(), (ranges.get(s) for s in near))) and _all_hold(
                    conditions, near
                ):
                    break
            else:
                continue
            break
        else:
            return True
    return False


def _inside(size: int, span: Range | None) -> bool:
    least, most = span or (2, None)
    return least <= size and (most is None or size <= most)


def _check_weights(program: Program) -> None:
    """Raises ExportError where the weights that another side would store again are large."""
    again = sum(each.nbytes for each in program.weights.values() if each.ndim == 2)
    if again > _MOST_BYTES:
        raise ExportError(f"each side would store {again / 2**20:.0f} MiB of weights again")


def _branching(program: Program) -> list[Guard]:
    """The guards that are decided by one size. One that relates two sizes says that inputs fit
    each other, and remains a guard of the whole."""
    return [guard for guard in program.guards if len(guard.condition.free_symbols) == 1]


def _conditions(program: Program) -> list[Any]:
    return [guard.condition for guard in _branching(program)]


def _relations(program: Program) -> list[Guard]:
    branching = _branching(program)
    return [guard for guard in program.guards if guard not in branching]


def _next(
    program: Program,
    hints: Mapping[Any, int],
    ranges: Mapping[Any, Range],
    conditions: Sequence[Sequence[Any]],
    cases: Mapping[Any, range] | None,
    failures: Sequence[Mapping[Any, int]],
) -> dict[Any, int] | None:
    """Sizes near the example at which none of the conditions holds, larger ones first: those are
    on the side that most sizes are on. Sizes of one name are one size. None where there are none.
    """
    names = {symbol: program.symbol_names.get(str(symbol), str(symbol)) for symbol in hints}
    free = {symbol for each in conditions for one in each for symbol in one.free_symbols}
    related = {symbol for each in _relations(program) for symbol in each.condition.free_symbols}
    moving = [symbol for symbol in hints if symbol in free | related]
    fitting = [guard.condition for guard in _relations(program)]
    for values in itertools.chain(_together(hints, moving), _apart(hints, moving, ranges, cases)):
        whole = _by_name({**hints, **values}, hints, names)
        inside = all(_inside(whole[symbol], ranges.get(symbol)) for symbol in moving)
        inside = inside and _all_hold(fitting, whole)
        if (
            inside
            and whole not in failures
            and any(
                uncovered(conditions, {symbol: [whole[symbol]] for symbol in free & whole.keys()})
            )
        ):
            return whole
    return None


def _together(hints: Mapping[Any, int], moving: Sequence[Any]) -> Iterator[dict[Any, int]]:
    """Sizes of which those that are equal in the example stay so: they may be equal for a
    reason."""
    for size in dict.fromkeys(hints[symbol] for symbol in moving):
        for other in [*(size + step for step in _FURTHER), size * 2, *range(size - 1, 1, -1)]:
            yield {symbol: other for symbol in moving if hints[symbol] == size}


def _apart(
    hints: Mapping[Any, int],
    moving: Sequence[Any],
    ranges: Mapping[Any, Range],
    cases: Mapping[Any, range] | None,
) -> Iterator[dict[Any, int]]:
    chosen = []
    for symbol in moving:
        least, _ = ranges.get(symbol, (2, None))
        hint = hints[symbol]
        sizes = [hint, *(hint + step for step in _FURTHER), *range(hint - 1, least - 1, -1)]
        chosen.append(dict.fromkeys([*sizes, *(cases or {}).get(symbol, ())]))
    for combination in itertools.islice(itertools.product(*chosen), _MOST_TRIED):
        yield dict(zip(moving, combination, strict=True))


def _by_name(
    values: Mapping[Any, int], hints: Mapping[Any, int], names: Mapping[Any, str]
) -> dict[Any, int]:
    """One value for the symbols that have one name: that which is not the example's. What a name
    like ``past + new`` comes to is computed."""
    by_name: dict[str, int] = {}
    for symbol, value in values.items():
        name = names[symbol]
        if name not in by_name or value != hints[symbol]:
            by_name[name] = value
    found = {}
    for symbol in values:
        whole = value_of(names[symbol], by_name)
        found[symbol] = by_name[names[symbol]] if whole is None else whole
    return found


def _words(values: Mapping[Any, int], program: Program) -> str:
    names = program.symbol_names
    return ", ".join(
        dict.fromkeys(f"{names.get(str(symbol), symbol)}={size}" for symbol, size in values.items())
    )


def _all_hold(conditions: Sequence[Any], values: Mapping[Any, int]) -> bool:
    return all(bool(each.subs(values) == True) for each in conditions)  # noqa: E712  (sympy's)


# -- what can be joined


def _check_alike(one: Program, other: Program) -> None:
    """Raises ExportError for programs that cannot be branches of one graph: their inputs have other
    symbols, their results are others in kind, or they make sizes of data."""
    for program in (one, other):
        for module in program.graph_module.modules():
            if isinstance(module, GraphModule) and any(
                node.meta.get("unbacked_bindings") for node in module.graph.nodes
            ):
                raise ExportError("a size depends on data, on a side of a branch on a size")
    for first, second in zip(one.user_inputs, other.user_inputs, strict=True):
        ours, theirs = (sizes_of(each.meta.get("val")) for each in (first, second))
        if str(ours) != str(theirs):
            raise ExportError(
                f"input '{first.name}' has sizes {ours} on one side of a branch, {theirs} on the "
                "other"
            )
    kinds = [
        [(each.kind, each.target, each.is_none, each.label) for each in program.outputs]
        for program in (one, other)
    ]
    if kinds[0] != kinds[1]:
        raise ExportError("the sides of a branch on a size return, or write to, other things")
    for first, second in zip(_returned(one), _returned(other), strict=True):
        left, right = (_value(each) for each in (first, second))
        tensors = isinstance(left, torch.Tensor), isinstance(right, torch.Tensor)
        if tensors == (True, True):
            if (left.dtype, left.ndim) != (right.dtype, right.ndim):
                raise ExportError("a result has another dtype or rank by the size of an input")
        elif any(isinstance(each, Node) for each in (first, second)) or left != right:
            raise ExportError("a result that is no tensor depends on the size of an input")


def _returned(program: Program) -> list[Any]:
    output: Any = program.graph_module.graph.output_node().args[0]
    return list(output)


def _value(result: Any) -> Any:
    return result.meta.get("val") if isinstance(result, Node) else result


# -- one graph of them


def _joined(sides: Sides) -> Program:
    first = sides.programs[0]
    shared = _shared(sides.programs)
    operands, graph = shared.operands, shared.graph
    inputs = {node.name for node in first.user_inputs}
    emitter = _Conditions(graph, [node for node in operands if node.name in inputs])
    asked = [emitter.all_of(each) for each in sides.conditions[:-1]]
    wanted = [
        index
        for index, each in enumerate(_returned(first))
        if isinstance(_value(each), torch.Tensor)
    ]
    results = _results(sides.programs, wanted)
    modules: dict[str, Any] = {}
    taken = [*operands, *asked[1:]]
    branches = [
        _branch(program, places, len(taken), wanted)
        for program, places in zip(sides.programs, shared.places, strict=True)
    ]
    node = _chain(graph, modules, branches, taken, asked)
    node.meta["val"] = results
    returned = _returned(first)
    for position, index in enumerate(wanted):
        returned[index] = graph.call_function(operator.getitem, (node, position))
        returned[index].meta["val"] = results[position]
    graph.output(tuple(returned))
    whole = GraphModule(modules, graph, type(first.graph_module).__name__)
    return _account(sides, whole, shared, results)


@dataclass
class _Shared:
    """The whole graph, its placeholders, and which of them each placeholder of each program is."""

    graph: Graph
    operands: list[Node]
    places: list[list[int]]
    weights: dict[str, Any]
    paths: dict[str, str]


def _shared(programs: Sequence[Program]) -> _Shared:
    first = programs[0]
    shared = _Shared(Graph(), [], [], {}, {})
    known: dict[str, int] = {}
    for program in programs:
        inputs = [node.name for node in program.user_inputs]
        found = []
        for node in _placeholders(program.graph_module):
            name = node.name
            if name in inputs:
                name = first.user_inputs[inputs.index(name)].name
            elif name in program.weights:
                name = _weight_of(program, name, shared)
            if name not in known:
                known[name] = len(shared.operands)
                shared.operands.append(_placeholder(shared.graph, name, node))
            found.append(known[name])
        shared.places.append(found)
    return shared


def _branch(
    program: Program, places: Sequence[int], count: int, wanted: Sequence[int]
) -> GraphModule:
    """A program as a branch of torch.cond, which takes all operands, and returns new tensors."""
    graph = Graph()
    operands = [graph.placeholder(f"operand_{index}") for index in range(count)]
    values: dict[Node, Any] = {
        node: operands[place]
        for node, place in zip(_placeholders(program.graph_module), places, strict=True)
    }
    graph.graph_copy(program.graph_module.graph, values)
    copies = []
    for index in wanted:
        result = _returned(program)[index]
        copy = graph.call_function(
            torch.ops.aten.clone.default,
            (values[result],),
            {"memory_format": torch.contiguous_format},
        )
        copy.meta["val"] = result.meta["val"]
        copies.append(copy)
    graph.output(tuple(copies))
    return GraphModule(program.graph_module, graph)


def _chain(
    graph: Graph,
    modules: dict[str, Any],
    branches: Sequence[GraphModule],
    operands: Sequence[Node],
    asked: Sequence[Node],
) -> Node:
    """The torch.cond of the first question, whose other branch asks the next one. Questions that
    are asked inside are the last operands."""
    yes, no = branches[0], branches[1]
    if len(branches) > 2:
        inner = Graph()
        inside: dict[str, Any] = {}
        taken = [inner.placeholder(f"operand_{index}") for index in range(len(operands))]
        node = _chain(inner, inside, branches[1:], taken, taken[len(taken) - len(asked) + 1 :])
        output: Any = yes.graph.output_node().args[0]
        node.meta["val"] = [each.meta.get("val") for each in output]
        parts = [inner.call_function(operator.getitem, (node, i)) for i in range(len(output))]
        inner.output(tuple(parts))
        no = GraphModule(inside, inner)
    modules["side"], modules["others"] = yes, no
    branch_nodes = (graph.get_attr("side"), graph.get_attr("others"))
    return graph.call_function(
        torch.ops.higher_order.cond, (asked[0], *branch_nodes, tuple(operands))
    )


def _account(
    sides: Sides, whole: GraphModule, shared: _Shared, results: Sequence[torch.Tensor]
) -> Program:
    first = sides.programs[0]
    named = dict(first.symbol_names)
    for symbol in (s for value in results for size in value.shape for s in free_symbols(size)):
        if symbol in named:
            continue
        number = 0
        while f"size_{number}" in named.values():
            number += 1
        named[symbol] = f"size_{number}"
    texts = [" and ".join(guard.text for guard in _branching(each)) for each in sides.programs]
    note = f"branches on sizes: a program each for {'; '.join(each or 'all' for each in texts)}"
    nodes = {node.name: node for node in shared.operands}
    relations = {guard.text: guard for each in sides.programs for guard in _relations(each)}
    return replace(
        first,
        graph_module=whole,
        weights=shared.weights,
        paths=shared.paths,
        user_inputs=[nodes[node.name] for node in first.user_inputs],
        symbol_names=named,
        notes=[*first.notes, note, *sides.notes],
        guards=[*([] if sides.proved else [_any_of(sides)]), *relations.values()],
        ranges=_ranges(sides.programs),
    )


def _any_of(sides: Sides) -> Guard:
    """The guard of the whole: that of one of the programs."""
    guards = [_branching(program) for program in sides.programs]
    text = " or ".join(" and ".join(f"({guard.text})" for guard in each) for each in guards if each)
    line = guards[0][0].line

    def holds(values: Mapping[str, int]) -> bool:
        return any(all(guard.holds(values) for guard in each) for each in guards)

    return Guard(text, line, holds)


def _ranges(programs: Sequence[Program]) -> dict[Any, Any]:
    """The smallest and the largest size that one of the programs takes."""
    found: dict[Any, Any] = {}
    for program in programs:
        each = program.exported.range_constraints if program.exported is not None else {}
        for symbol, span in each.items():
            before = next((s for s in found if str(s) == str(symbol)), None)
            if before is None:
                found[symbol] = span
            else:
                old = found[before]
                found[before] = type(span)(min(old.lower, span.lower), max(old.upper, span.upper))
    return found


def _placeholders(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _placeholder(graph: Graph, name: str, like: Node) -> Node:
    made = graph.placeholder(name)
    made.meta.update(like.meta)
    if made.name != name:
        raise ExportError(f"two inputs of the program are called '{name}'")
    return made


def _weight_of(program: Program, name: str, shared: _Shared) -> str:
    """The name of a weight in the whole graph: that of the same one, or a new name."""
    tensor, path = program.weights[name], program.paths.get(name)
    for known, other in shared.weights.items():
        if other is tensor or (shared.paths.get(known) == path and _equal(other, tensor)):
            return known
    taken = {node.name for node in shared.operands}
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    shared.weights[found] = tensor
    if path is not None:
        shared.paths[found] = path
    return found


def _equal(one: torch.Tensor, other: Any) -> bool:
    return (
        isinstance(other, torch.Tensor)
        and one.dtype == other.dtype
        and one.shape == other.shape
        and (one.data_ptr() == other.data_ptr() or torch.equal(one, other))
    )


def _results(programs: Sequence[Program], wanted: Sequence[int]) -> list[torch.Tensor]:
    """What the whole returns, without data: a size is the programs' where it is the same in all of
    them, and a new symbol elsewhere."""
    found = []
    for index in wanted:
        values = [_value(_returned(program)[index]) for program in programs]
        first = values[0]
        shapes = [[str(size) for size in value.shape] for value in values]
        if all(shape == shapes[0] for shape in shapes):
            found.append(first)
            continue
        sizes = [
            size if len({shape[axis] for shape in shapes}) == 1 else _new_size(programs[0])
            for axis, size in enumerate(first.shape)
        ]
        with first.fake_mode:
            found.append(torch.empty(sizes, dtype=first.dtype, device=first.device))
    return found


def _new_size(program: Program) -> Any:
    for node in program.user_inputs:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                return size.node.shape_env.create_unbacked_symint()
    raise ExportError("no input of the program has a free size")


class _Conditions:
    """Writes conditions on sizes into a graph: Python's operators on the sizes of the inputs."""

    def __init__(self, graph: Graph, inputs: Sequence[Node]) -> None:
        self.graph = graph
        self.sizes: dict[str, tuple[Node, int | None]] = {}  # input and axis, by symbol
        for node in inputs:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self.sizes.setdefault(str(value.node.expr), (node, None))
            elif isinstance(value, torch.Tensor):
                for axis, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt):
                        self.sizes.setdefault(str(size.node.expr), (node, axis))

    def size(self, node: Node, axis: int | None) -> Node:
        """A size of an input, or an input that is one."""
        if axis is None:
            return node
        made = self.graph.call_function(torch.ops.aten.sym_size.int, (node, axis))
        made.meta["val"] = node.meta["val"].shape[axis]
        return made

    def all_of(self, conditions: Sequence[Any]) -> Node:
        """A condition that holds where all of them do.

        Raises ExportError for an expression that has no form here.
        """
        found = reduce(
            lambda one, other: self.call(operator.and_, one, other), map(self.written, conditions)
        )
        if not isinstance(found, Node) or not isinstance(found.meta["val"], torch.SymBool):
            raise ExportError("torch takes a condition on sizes for settled")
        return found

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """A node, or the number that a function on numbers gives."""
        values = [each.meta["val"] if isinstance(each, Node) else each for each in args]
        value = function(*values)
        if not any(isinstance(each, Node) for each in args):
            return value
        node = self.graph.call_function(function, args)
        node.meta["val"] = value
        return node

    def written(self, expression: Any) -> Any:
        """An expression of sympy as a node or a number."""
        if expression.is_Symbol:
            if str(expression) not in self.sizes:
                raise ExportError(f"no input of the program has the size {expression}")
            return self.size(*self.sizes[str(expression)])
        if expression.is_Integer:
            return int(expression)
        function = _FUNCTIONS.get(type(expression).__name__)
        if function is None:
            raise ExportError(f"a condition on sizes has {type(expression).__name__} in it")
        return (
            reduce(
                lambda one, other: self.call(function, one, other),
                map(self.written, expression.args),
            )
            if len(expression.args) > 1
            else self.call(function, self.written(expression.args[0]))
        )


# Sympy's classes and torch's -> Python's functions.
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
