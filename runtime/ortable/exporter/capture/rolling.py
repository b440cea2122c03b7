"""Unrolled steps of loops as one scan each. In comes a program without writes in which marks of
free_loops.py say where the steps of loops over free sizes begin, out goes the same program with a
``torch.ops.higher_order.scan`` in place of each. Called by rolled.py.

The steps are compared node by node, from what they made back to what they took: every step must
compute the same from the values of the step before, from values in front of the loop, and from its
own index. What a step takes of the one before is carried."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from ortable.compat.torch import OpOverload, pytree
from ortable.exporter.capture.free_loops import COLLECT, STEP
from ortable.interpreter.modules import find_attribute
from ortable.ir.initializers import is_fake
from ortable_generated.aten import traits

from .export_failures import lines_in
from .free_loops import FreeLoop, RollError

# Constants up to this many elements are compared by value.
_SMALL = 1 << 20
_PLACE_META = ("stack_trace", "nn_module_stack")
_KEPT_META = ("val", "unbacked_bindings", "tensor_meta", *_PLACE_META)
_SCAN: Any = torch.ops.higher_order.scan
_COND: Any = torch.ops.higher_order.cond


def roll(program: ExportedProgram, loops: Sequence[FreeLoop]) -> None:
    """Put a scan in place of the steps of each loop; the inner ones first.

    Raises RollError for steps that are not alike, and for values of one step that others read.
    """
    _merge_constants(program)
    marks = _marks(program.graph)
    order = {node: place for place, node in enumerate(program.graph.nodes)}
    inner_first = sorted(marks, key=lambda number: order[marks[number][loops[number].steps]])
    for number in inner_first:
        _Roller(program, loops[number], marks[number]).run()
    _drop_constants(program)
    program.graph.lint()
    program.graph_module.recompile()


def _merge_constants(program: ExportedProgram) -> None:
    """Each step has its own copy of a constant: one for all of them."""
    first: dict[Any, Node] = {}
    for node, value in list(_constants(program)):
        if is_fake(value) or value.layout is not torch.strided or value.numel() > _SMALL:
            continue
        content = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        key = (value.dtype, value.device, tuple(value.shape), content)
        if first.setdefault(key, node) is not node:
            node.replace_all_uses_with(first[key])


def _drop_constants(program: ExportedProgram) -> None:
    """Take away constants that nothing reads, and the bodies of loops that became others'."""
    signature = program.graph_signature
    for node, _ in list(_constants(program)):
        if not node.users:
            signature.input_specs[:] = [s for s in signature.input_specs if s.arg.name != node.name]
            program.graph.erase_node(node)
    read = {str(node.target) for node in program.graph.find_nodes(op="get_attr")}
    for name in [name for name, _ in program.graph_module.named_children() if name not in read]:
        program.graph_module.delete_submodule(name)


def _constants(program: ExportedProgram) -> Iterator[tuple[Node, torch.Tensor]]:
    """The inputs of the graph that are constants which torch has lifted out of it."""
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    for spec in program.graph_signature.input_specs:
        value = program.constants.get(str(spec.target))
        if spec.kind == InputKind.CONSTANT_TENSOR and isinstance(value, torch.Tensor):
            yield nodes[spec.arg.name], value


def _marks(graph: Graph) -> dict[int, dict[int, Node]]:
    """The marks of each loop, by step."""
    found: dict[int, dict[int, Node]] = {}
    for node in graph.find_nodes(op="call_function", target=STEP):
        _, _, loop, number = node.args
        found.setdefault(int(str(loop)), {})[int(str(number))] = node
    return found


@dataclass
class _Roller:
    """One loop of a program.

    ``region`` is the step that a node belongs to; ``before`` is, for a node of a step, the node of
    the step before that computes the same; ``starts``: what the first step takes in place of a node
    that the second one takes of the first; ``size``: how many steps are rolled.
    """

    program: ExportedProgram
    loop: FreeLoop
    marks: Mapping[int, Node]
    region: dict[Node, int] = field(default_factory=dict)
    place: dict[Node, int] = field(default_factory=dict)
    before: dict[Node, Node] = field(default_factory=dict)
    starts: dict[Node, Node] = field(default_factory=dict)
    size: Any = 0

    def run(self) -> None:
        graph = self.program.graph
        self._find_regions()
        collects = [
            node
            for node in graph.find_nodes(op="call_function", target=COLLECT)
            if node.args[2] == self.loop.number
        ]
        for step in range(self.loop.first, self.loop.steps - 1):
            self._match_step(step, collects)
        self._write(collects)
        self._clear()

    def _find_regions(self) -> None:
        step = None
        numbers = {node: number for number, node in self.marks.items()}
        for place, node in enumerate(self.program.graph.nodes):
            self.place[node] = place
            step = numbers.get(node, step)
            # the first step of a loop that has it apart is in front of the loop
            if step is not None and self.loop.first <= step < self.loop.steps:
                self.region[node] = step

    # -- comparing

    def _match_step(self, step: int, collects: Sequence[Node]) -> None:
        """Compare ``step`` with the one after it."""
        earlier, later = (_nodes(self.marks[step + more].args[0]) for more in (1, 2))
        if len(earlier) != len(later):
            raise self._unlike(step, f"it makes {len(earlier)} tensors, then {len(later)}")
        pairs = [(self.marks[step], self.marks[step + 1]), *zip(earlier, later, strict=True)]
        for node in collects:
            a, b = _nodes(node.args[0])[step - self.loop.first :][:2]
            if (self.region.get(a), self.region.get(b)) != (step, step + 1):
                raise self._unlike(step, "what a list has of it is changed later on", node)
            pairs.append((a, b))
        while pairs:
            a, b = pairs.pop()
            if self.region.get(a) == step and self.region.get(b) == step + 1:
                if b not in self.before:
                    self.before[b] = a
                    pairs += self._matched(a, b, step)
                elif self.before[b] is not a:
                    raise self._unlike(step, "it uses values in another order", b)
            elif a is not b:
                self._link(a, b, step)

    def _matched(self, a: Node, b: Node, step: int) -> list[tuple[Node, Node]]:
        """The arguments of two nodes that have to be the same."""
        if a in self.marks.values() and b in self.marks.values():
            return []
        if a.op != b.op or (a.target != b.target and a.op != "get_attr"):
            raise self._unlike(step, f"{_called(a)}, then {_called(b)}", b)
        if a.op == "get_attr":
            owner = self.program.graph_module
            graphs = [find_attribute(owner, str(node.target)) for node in (a, b)]
            if not same_graph(*graphs):
                raise self._unlike(step, "an inner loop or branch differs", b)
            return []
        mine, spec = pytree.tree_flatten((a.args, a.kwargs))
        others, other_spec = pytree.tree_flatten((b.args, b.kwargs))
        if spec != other_spec:
            raise self._unlike(step, f"{_called(b)} has other arguments", b)
        pairs = []
        for one, other in zip(mine, others, strict=True):
            if isinstance(one, Node) and isinstance(other, Node):
                pairs.append((one, other))
            elif isinstance(one, Node) or isinstance(other, Node) or _text(one) != _text(other):
                raise self._unlike(
                    step, f"{_called(b)} of {_shown(one)}, then of {_shown(other)}", b
                )
        return pairs

    def _link(self, a: Node, b: Node, step: int) -> None:
        """``b`` is what a step takes of the one before, ``a`` what that took in its place."""
        if self.region.get(b) != step:
            raise self._unlike(step, f"it takes {_shown(a)}, then {_shown(b)}", b)
        if step == self.loop.first:
            known = self.starts.setdefault(b, a)
            if a in self.region:
                raise self._unlike(step, f"it takes {_shown(a)}, then {_shown(b)}", b)
            if known is not a:
                raise self._unlike(step, f"it begins with {_shown(known)} and {_shown(a)}", b)
        elif self.before.get(b) is not a:
            raise self._unlike(step, f"it takes {_shown(a)}, then {_shown(b)}", b)

    def _unlike(self, step: int, why: str, node: Node | None = None) -> RollError:
        line = None if node is None else _line(node)
        words = f"step {step + 1} differs from step {step}: {why}"
        words += "" if line is None else f"\n  at {line}"
        return RollError(self.loop, words, step == self.loop.first)

    # -- writing

    def _write(self, collects: Sequence[Node]) -> None:
        carried = self._carried({a: b for b, a in self.before.items()})
        wanted = [(node, self._template(_nodes(node.args[0])[-1])) for node in collects]
        last = self._read_after(collects)
        kept = [node for _, node in last if node not in carried.values()]
        rows = list(dict.fromkeys([*(node for _, node in wanted), *kept]))
        for node in rows:
            self._same_size(node)
        filled = self._filled(carried, rows)
        rows = list(dict.fromkeys([*rows, *(row for row, _ in filled.values())]))
        results = [*carried.values(), *rows]
        body, captured = self._body(self.loop.first + 1, list(carried), results)
        end = self.place[self.marks[self.loop.steps]]
        with self.program.graph.inserting_before(self.marks[self.loop.steps]):
            scan = self._scan(body, [self.starts[node] for node in carried], captured, rows)
            ends, stacks = self._results(scan, list(carried.values()), rows)
            for node, item in wanted:
                self._use(node, self._moved(stacks[item], int(str(node.args[3])), node))
            for node, item in last:
                if item in filled:
                    row, axis = filled[item]
                    value = self._moved(stacks[row], axis, node)
                else:
                    value = ends.get(item) or self._select_last(stacks[item], node)
                self._use(node, value, end)

    def _filled(
        self, carried: dict[Node, Node], rows: Sequence[Node]
    ) -> dict[Node, tuple[Node, int]]:
        """Tensors of which each step writes the part at its index, and reads nothing: they are
        taken out of ``carried``, and come with that part and its axis, which is put together after
        the loop."""
        template = self.loop.first + 1
        found: dict[Node, tuple[Node, int]] = {}
        for taken, made in list(carried.items()):
            part = self._written_part(taken, made)
            if part is None:
                continue
            others = [node for node in carried.values() if node is not made]
            others += [*rows, part[0], *(row for row, _ in found.values())]
            needed = self._slice(template, others)
            read = {node for each in needed for node in each.all_input_nodes} | {*others}
            if taken not in read and made not in read:
                found[made] = part
                del carried[taken]
        return found

    def _written_part(self, taken: Node, made: Node) -> tuple[Node, int] | None:
        """What a step writes at its own index into all there is along an axis, and the axis."""
        if made.target is not torch.ops.aten.select_scatter.default or self.loop.first:
            return None
        written, part, axis, index = made.args
        whole, length = taken.meta["val"], self.marks[self.loop.steps].args[1]
        if not (isinstance(part, Node) and isinstance(index, Node) and isinstance(length, Node)):
            return None
        axis = int(str(axis)) % whole.dim()
        if part.target is torch.ops.aten.copy.default:
            _, part = _nodes(part.args)
        own = index.args == (self.marks[1],)  # the number that the mark is
        sizes = [*whole.shape[:axis], *whole.shape[axis + 1 :]]
        value = part.meta["val"]
        same = value.dtype == whole.dtype and tuple(map(str, value.shape)) == tuple(map(str, sizes))
        full = str(whole.shape[axis]) == str(length.meta["val"])
        return (part, axis) if written is taken and own and same and full else None

    def _carried(self, after: Mapping[Node, Node]) -> dict[Node, Node]:
        """What the second step takes of the first, with what it makes of it."""
        found = {}
        for node in sorted(self.starts, key=lambda each: self.place[each]):
            if node not in after or not isinstance(node.meta.get("val"), torch.Tensor):
                raise self._unlike(self.loop.first, f"{_shown(node)} is a number that counts", node)
            found[node] = after[node]
            sizes = [_size(each) for each in (self.starts[node], node, after[node])]
            if sizes[0] != sizes[1] or sizes[1] != sizes[2]:
                shown = " then ".join(sizes)
                raise self._unlike(
                    self.loop.first, f"what it carries to the next step is {shown}", node
                )
        return found

    def _template(self, node: Node) -> Node:
        """The node of the second step that ``node`` of the last one is."""
        while self.region.get(node, 0) > self.loop.first + 1:
            node = self.before[node]
        return node

    def _read_after(self, collects: Sequence[Node]) -> list[tuple[Node, Node]]:
        """The nodes of the last step that are read after the loop, with those of the second."""
        end = self.place[self.marks[self.loop.steps]]
        found = []
        for node, step in self.region.items():
            users = [u for u in node.users if self.place[u] > end and u not in collects]
            if not users or step != self.loop.steps - 1:
                continue
            if node not in self.before or not isinstance(node.meta.get("val"), torch.Tensor):
                raise RollError(
                    self.loop,
                    f"{_shown(node)} of its last step is read afterwards\n  at {_line(users[0])}",
                )
            found.append((node, self._template(node)))
        return found

    def _same_size(self, node: Node) -> None:
        one, other = _size(self.before[node]), _size(node)
        if one != other:
            raise RollError(
                self.loop, f"what is kept of each step is {one}, then {other}\n  at {_line(node)}"
            )

    def _body(
        self, template: int, carried: list[Node], results: list[Node]
    ) -> tuple[GraphModule, list[Node]]:
        """The graph of a step, and the nodes of the graph around it that it reads."""
        owner = self.program.graph_module
        # what a step asserts stays in it, where the account of an export finds it
        needed = self._slice(template, [*results, *self._checks(template)])
        mark = self.marks[template]
        inputs = [*carried, mark]
        captured = list(
            dict.fromkeys(
                node
                for each in needed
                for node in each.all_input_nodes
                if self.region.get(node) != template
                and node not in carried
                and node.op != "get_attr"
            )
        )
        graph, attributes = Graph(), {}
        made = _inputs(graph, [*inputs, *captured])
        for node in needed:
            for held in (node, *node.all_input_nodes):
                if held.op == "get_attr" and held not in made:
                    attributes[str(held.target)] = find_attribute(owner, str(held.target))
                    made[held] = graph.get_attr(str(held.target))
            if node in made:
                continue
            args, kwargs = map_arg((node.args, node.kwargs), made.__getitem__)
            made[node] = graph.create_node(node.op, node.target, args, kwargs, node.name)
            made[node].meta.update(_meta(node))
        graph.output(tuple(made[node] for node in results))
        return GraphModule(attributes, graph, "LoopStep"), captured

    def _checks(self, template: int) -> list[Node]:
        """The assertions of a step that are about more than its index."""
        return [
            node
            for node, step in self.region.items()
            if step == template
            and _asserts(node)
            and any(
                isinstance(each.meta.get("val"), torch.Tensor)
                for each in self._slice(template, [node])
            )
        ]

    def _slice(self, template: int, results: Sequence[Node]) -> list[Node]:
        """The nodes of a step that ``results`` are computed from, in order."""
        found: set[Node] = set()
        todo = list(results)
        while todo:
            node = todo.pop()
            if node in found or self.region.get(node) != template or node is self.marks[template]:
                continue
            found.add(node)
            todo += node.all_input_nodes
        return sorted(found, key=lambda each: self.place[each])

    def _scan(
        self, body: GraphModule, starts: list[Node], captured: list[Node], rows: list[Node]
    ) -> Node:
        """The scan, or a branch that has it where there may be no step at all."""
        owner, graph, loop = self.program.graph_module, self.program.graph, self.loop
        length: Any = self.marks[loop.steps].args[1]
        size = length.meta["val"] - loop.first
        options = {"dtype": torch.int64, "device": torch.device("cpu"), "pin_memory": False}
        index = graph.call_function(
            torch.ops.aten.arange.start, (loop.first, length), dict(options)
        )
        example = self.marks[loop.first].meta["val"]
        index.meta["val"] = example.new_empty((size,), dtype=torch.int64)
        self.size = size
        empty = _no_steps(starts, captured, rows) if _may_be_zero(size) else None
        if empty is None:
            name = f"loop_step_{loop.number}"
            owner.add_submodule(name, body)
            return graph.call_function(
                _SCAN, (graph.get_attr(name), starts, [index], tuple(captured))
            )
        some = _some_steps(body, starts, index, captured, len(starts) + len(rows))
        names = [f"loop_{loop.number}_of_{count}_steps" for count in ("some", "no")]
        for name, branch in zip(names, (some, empty), strict=True):
            owner.add_submodule(name, branch)
        several = graph.call_function(operator.gt, (length, loop.first))
        several.meta["val"] = length.meta["val"] > loop.first
        branches = [graph.get_attr(name) for name in names]
        operands = (*dict.fromkeys([*starts, *captured]), index)
        return graph.call_function(_COND, (several, *branches, operands))

    def _results(
        self, scan: Node, carried: Sequence[Node], rows: Sequence[Node]
    ) -> tuple[dict[Node, Node], dict[Node, Node]]:
        """The results of a scan, by the node of a step: the last carried values, and all rows."""
        values = [node.meta["val"] for node in carried]
        values += [_stacked(node.meta["val"], self.size) for node in rows]
        mark = self.marks[self.loop.steps]
        where = {key: mark.meta[key] for key in _PLACE_META if key in mark.meta}
        scan.meta.update({**where, "val": tuple(values)})
        made = []
        for place, value in enumerate(values):
            node = self.program.graph.call_function(operator.getitem, (scan, place))
            node.meta.update({**where, "val": value})
            made.append(node)
        count = len(carried)
        return (
            dict(zip(carried, made[:count], strict=True)),
            dict(zip(rows, made[count:], strict=True)),
        )

    def _moved(self, rows: Node, axis: int, like: Node) -> Node:
        """Stacked rows with the steps along ``axis``, in memory as they were in one tensor."""
        if axis == 0:
            return rows
        order = list(range(1, rows.meta["val"].dim()))
        order.insert(axis, 0)
        value = rows.meta["val"]
        whole = value.new_empty([value.shape[each] for each in order])
        moved = self._called(torch.ops.aten.permute.default, (rows, order), whole)
        kept = self._called(torch.ops.aten.clone.default, (moved,), whole)
        kept.kwargs = {"memory_format": torch.contiguous_format}
        for node in (moved, kept):
            node.meta.update({key: like.meta[key] for key in _PLACE_META if key in like.meta})
        return kept

    def _select_last(self, rows: Node, like: Node) -> Node:
        value = like.meta["val"]
        made = self._called(torch.ops.aten.select.int, (rows, 0, -1), value.new_empty(value.shape))
        made.meta.update({key: like.meta[key] for key in _PLACE_META if key in like.meta})
        return made

    def _called(self, target: Any, args: tuple[Any, ...], value: torch.Tensor) -> Node:
        # values are made, not computed: torch would ask for sizes, and add a guard to the program
        made = self.program.graph.call_function(target, args)
        made.meta["val"] = value
        return made

    def _use(self, node: Node, value: Node, end: int = -1) -> None:
        """Read ``value`` in place of ``node``, in what comes after ``end``."""
        node.replace_all_uses_with(
            value, delete_user_cb=lambda user: self.place.get(user, -1) > end
        )
        self.program.graph_signature.replace_all_uses(node.name, value.name)

    def _clear(self) -> None:
        """Take away what is left of the steps."""
        graph = self.program.graph
        graph_nodes = list(graph.nodes)
        of_steps = set(self.marks.values())
        for node in graph_nodes:
            if any(each in of_steps for each in node.all_input_nodes):
                of_steps.add(node)
        for node in self.marks.values():
            node.args = ([], *node.args[1:])
        for node in reversed(graph_nodes):
            loose = node in of_steps or node in self.region
            ends = node.op in ("call_function", "get_attr") and not node.users
            if loose and (ends or _asserts(node)):
                graph.erase_node(node)
        left = set(graph.nodes)
        for node in self.marks.values():
            if node in left:
                raise self._escaped(node)

    def _escaped(self, mark: Node) -> RollError:
        """What reads a value of one step."""
        node = mark
        while node.users and next(iter(node.users)).op != "output":
            node = next(iter(node.users))
        why = "a value of one of its steps, which is not the last one, is read outside of that step"
        return RollError(self.loop, f"{why}\n  at {_line(node)}", True)


def _may_be_zero(size: Any) -> bool:
    """Whether a number of steps may be 0: all but the size of an input, which torch takes for 2 or
    more, and those who call the model with 1 have a step."""
    expression, env = size.node.expr, size.node.shape_env
    symbols = list(expression.free_symbols)
    if len(symbols) != 1 or env.is_unbacked_symint(symbols[0]):
        return True
    more = expression - symbols[0]  # than a size of an input
    return not (more.is_Integer and more >= 0)


def _inputs(graph: Graph, nodes: Sequence[Node]) -> dict[Node, Node]:
    made = {}
    for node in nodes:
        made[node] = graph.placeholder(f"{node.name}_in")
        made[node].meta.update(_meta(node))
    return made


def _some_steps(
    body: GraphModule, starts: list[Node], index: Node, captured: list[Node], count: int
) -> GraphModule:
    """The side of a branch that has the scan."""
    graph = Graph()
    made = _inputs(graph, list(dict.fromkeys([*starts, *captured, index])))
    inner = [made[node] for node in starts]
    step = graph.get_attr("step")
    outer = tuple(made[node] for node in captured)
    scan = graph.call_function(_SCAN, (step, inner, [made[index]], outer))
    graph.output(tuple(graph.call_function(operator.getitem, (scan, k)) for k in range(count)))
    return GraphModule({"step": body}, graph, "SomeSteps")


def _no_steps(starts: list[Node], captured: list[Node], rows: Sequence[Node]) -> GraphModule | None:
    """The other side: what the loop begins with, and rows of which there are none. None where the
    sizes of a row are those of nothing that is there."""
    graph = Graph()
    given = list(dict.fromkeys([*starts, *captured]))
    made = _inputs(graph, given)
    sizes: dict[str, tuple[Node, int]] = {}
    for node in given:
        shape = getattr(node.meta.get("val"), "shape", ())
        for axis, size in enumerate(shape):
            if isinstance(size, torch.SymInt):
                sizes.setdefault(str(size.node.expr), (made[node], axis))
    results = [made[node] for node in starts]
    for row in rows:
        value = row.meta["val"]
        wanted: list[Any] = [0]
        for size in value.shape:
            if isinstance(size, torch.SymInt):
                if str(size.node.expr) not in sizes:
                    return None
                wanted.append(
                    graph.call_function(torch.ops.aten.sym_size.int, sizes[str(size.node.expr)])
                )
                wanted[-1].meta["val"] = size
            else:
                wanted.append(size)
        options = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
        results.append(graph.call_function(torch.ops.aten.zeros.default, (wanted,), dict(options)))
        results[-1].meta["val"] = value.new_empty((0, *value.shape))
    graph.placeholder("index_in")
    graph.output(tuple(results))
    return GraphModule({}, graph, "NoSteps")


def _asserts(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.name() in traits.ASSERTION


def _nodes(value: Any) -> list[Node]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Node)]


def _meta(node: Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in _KEPT_META if key in node.meta}


def _stacked(value: torch.Tensor, length: Any) -> torch.Tensor:
    return value.new_empty((length, *value.shape))


def _size(node: Node) -> str:
    """Dtype and sizes of a value, as text that is equal where they are."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    sizes = ", ".join(
        str(getattr(getattr(each, "node", None), "expr", each)) for each in value.shape
    )
    return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"


def _called(node: Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _shown(value: Any) -> str:
    return value.name if isinstance(value, Node) else repr(value)


def _text(value: Any) -> tuple[type, str]:
    return type(value), repr(value)


def _line(node: Node) -> Any:
    """The line of the model that a node is of."""
    lines = lines_in(str(node.meta.get("stack_trace", "")))
    return lines[-1] if lines else node.name


def same_graph(one: GraphModule, other: GraphModule) -> bool:
    """Whether two graphs compute the same of their inputs: their nodes, constants and inner
    graphs in order, whatever the names."""
    numbers: list[dict[Node, int]] = [
        {node: place for place, node in enumerate(module.graph.nodes)} for module in (one, other)
    ]
    if len(numbers[0]) != len(numbers[1]):
        return False
    for a, b in zip(*numbers, strict=True):
        if a.op != b.op or (a.op == "call_function" and a.target != b.target):
            return False
        if a.op == "get_attr":
            held = [find_attribute(m, str(n.target)) for m, n in ((one, a), (other, b))]
            if not _same_attribute(*held):
                return False
        count = 1 if _asserts(a) else None  # a message names nodes
        mine, spec = pytree.tree_flatten((a.args[:count], a.kwargs))
        others, other_spec = pytree.tree_flatten((b.args[:count], b.kwargs))
        if spec != other_spec or not all(_same_leaves(mine, others, *numbers)):
            return False
    return True


def _same_leaves(
    mine: Sequence[Any], others: Sequence[Any], one: Mapping[Node, int], other: Mapping[Node, int]
) -> Iterator[bool]:
    for a, b in zip(mine, others, strict=True):
        if isinstance(a, Node) and isinstance(b, Node):
            yield one[a] == other[b]
        else:
            yield not isinstance(a, Node) and not isinstance(b, Node) and _text(a) == _text(b)


def _same_attribute(one: Any, other: Any) -> bool:
    if isinstance(one, GraphModule) and isinstance(other, GraphModule):
        return same_graph(one, other)
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one is other or (one.dtype == other.dtype and torch.equal(one, other))
    return one is other
