"""Re-roll the captured steps of each loop over a dynamic size into one
``torch.ops.higher_order.scan``. Runs on a program without writes in which marks of dynamic_loops.py
delimit the steps; loop_capture.py calls it.

The steps are compared node by node, from their results back to their inputs: every step must
compute the same from the values of the previous step, from values in front of the loop, and from
its own index. What a step reads of the previous one is carried.
"""

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
from ortable.exporter.capture.dynamic_loops import COLLECT, STEP
from ortable.interpreter.modules import find_attribute
from ortable.ir.initializers import is_fake
from ortable_generated.aten import traits

from .dynamic_loops import DynamicLoop, RerollError
from .export_failures import lines_in

# Constants up to this many elements are compared by value.
_MAX_COMPARED_ELEMENTS = 1 << 20
_LOCATION_META = ("stack_trace", "nn_module_stack")
_COPIED_META = ("val", "unbacked_bindings", "tensor_meta", *_LOCATION_META)
_SCAN: Any = torch.ops.higher_order.scan
_COND: Any = torch.ops.higher_order.cond


def reroll_loops(program: ExportedProgram, loops: Sequence[DynamicLoop]) -> None:
    """Replace the steps of each loop by a scan; the inner ones first.

    Raises RerollError for steps that differ, and for values of one step that are read elsewhere.
    """
    _merge_constants(program)
    marks = _find_marks(program.graph)
    order = {node: index for index, node in enumerate(program.graph.nodes)}
    inner_first = sorted(marks, key=lambda number: order[marks[number][loops[number].steps]])
    for number in inner_first:
        _LoopReroller(program, loops[number], marks[number]).replace_steps()
    _drop_constants(program)
    program.graph.lint()
    program.graph_module.recompile()


def _merge_constants(program: ExportedProgram) -> None:
    """Merge the copies of a constant, of which each step has its own."""
    first: dict[Any, Node] = {}
    for node, value in list(_lifted_constants(program)):
        if (
            is_fake(value)
            or value.layout is not torch.strided
            or value.numel() > _MAX_COMPARED_ELEMENTS
        ):
            continue
        content = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        key = (value.dtype, value.device, tuple(value.shape), content)
        if first.setdefault(key, node) is not node:
            node.replace_all_uses_with(first[key])


def _drop_constants(program: ExportedProgram) -> None:
    """Remove constants that nothing reads, and the bodies of loops that were merged into others."""
    signature = program.graph_signature
    for node, _ in list(_lifted_constants(program)):
        if not node.users:
            signature.input_specs[:] = [s for s in signature.input_specs if s.arg.name != node.name]
            program.graph.erase_node(node)
    read = {str(node.target) for node in program.graph.find_nodes(op="get_attr")}
    for name in [name for name, _ in program.graph_module.named_children() if name not in read]:
        program.graph_module.delete_submodule(name)


def _lifted_constants(program: ExportedProgram) -> Iterator[tuple[Node, torch.Tensor]]:
    """Yield the inputs of the graph that are constants which torch has lifted out of it."""
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    for spec in program.graph_signature.input_specs:
        value = program.constants.get(str(spec.target))
        if spec.kind == InputKind.CONSTANT_TENSOR and isinstance(value, torch.Tensor):
            yield nodes[spec.arg.name], value


def _find_marks(graph: Graph) -> dict[int, dict[int, Node]]:
    """Return the marks of each loop, by step."""
    marks: dict[int, dict[int, Node]] = {}
    for node in graph.find_nodes(op="call_function", target=STEP):
        _, _, loop, number = node.args
        marks.setdefault(int(str(loop)), {})[int(str(number))] = node
    return marks


@dataclass
class _LoopReroller:
    """One loop of a program.

    ``region`` is the step that a node belongs to; ``before`` maps a node of a step to the node of
    the previous step that computes the same; ``starts``: what the first step reads in place of a
    node that the second one reads of the first; ``size``: the number of scan iterations.
    """

    program: ExportedProgram
    loop: DynamicLoop
    marks: Mapping[int, Node]
    region: dict[Node, int] = field(default_factory=dict)
    position: dict[Node, int] = field(default_factory=dict)
    before: dict[Node, Node] = field(default_factory=dict)
    starts: dict[Node, Node] = field(default_factory=dict)
    size: Any = 0

    def replace_steps(self) -> None:
        graph = self.program.graph
        self._find_regions()
        collects = [
            node
            for node in graph.find_nodes(op="call_function", target=COLLECT)
            if node.args[2] == self.loop.number
        ]
        for step in range(self.loop.first_step, self.loop.steps - 1):
            self._match_step(step, collects)
        self._write_scan(collects)
        self._erase_steps()

    def _find_regions(self) -> None:
        step = None
        numbers = {node: number for number, node in self.marks.items()}
        for index, node in enumerate(self.program.graph.nodes):
            self.position[node] = index
            step = numbers.get(node, step)
            # the first step of a loop that has it apart is in front of the loop
            if step is not None and self.loop.first_step <= step < self.loop.steps:
                self.region[node] = step

    # -- comparing

    def _match_step(self, step: int, collects: Sequence[Node]) -> None:
        """Compare ``step`` with the one after it."""
        earlier, later = (_node_leaves(self.marks[step + more].args[0]) for more in (1, 2))
        if len(earlier) != len(later):
            raise self._make_mismatch(step, f"it makes {len(earlier)} tensors, then {len(later)}")
        pairs = [(self.marks[step], self.marks[step + 1]), *zip(earlier, later, strict=True)]
        for node in collects:
            a, b = _node_leaves(node.args[0])[step - self.loop.first_step :][:2]
            if (self.region.get(a), self.region.get(b)) != (step, step + 1):
                raise self._make_mismatch(step, "what a list has of it is changed later on", node)
            pairs.append((a, b))
        while pairs:
            a, b = pairs.pop()
            if self.region.get(a) == step and self.region.get(b) == step + 1:
                if b not in self.before:
                    self.before[b] = a
                    pairs += self._match_nodes(a, b, step)
                elif self.before[b] is not a:
                    raise self._make_mismatch(step, "it uses values in another order", b)
            elif a is not b:
                self._link_carried(a, b, step)

    def _match_nodes(self, a: Node, b: Node, step: int) -> list[tuple[Node, Node]]:
        """Return the pairs of arguments of two nodes that must match."""
        if a in self.marks.values() and b in self.marks.values():
            return []
        if a.op != b.op or (a.target != b.target and a.op != "get_attr"):
            raise self._make_mismatch(step, f"{_target_name(a)}, then {_target_name(b)}", b)
        if a.op == "get_attr":
            owner = self.program.graph_module
            graphs = [find_attribute(owner, str(node.target)) for node in (a, b)]
            if not same_graph(*graphs):
                raise self._make_mismatch(step, "an inner loop or branch differs", b)
            return []
        mine, spec = pytree.tree_flatten((a.args, a.kwargs))
        others, other_spec = pytree.tree_flatten((b.args, b.kwargs))
        if spec != other_spec:
            raise self._make_mismatch(step, f"{_target_name(b)} has other arguments", b)
        pairs = []
        for one, other in zip(mine, others, strict=True):
            if isinstance(one, Node) and isinstance(other, Node):
                pairs.append((one, other))
            elif (
                isinstance(one, Node)
                or isinstance(other, Node)
                or _literal_key(one) != _literal_key(other)
            ):
                raise self._make_mismatch(
                    step,
                    f"{_target_name(b)} of {_format_value(one)}, then of {_format_value(other)}",
                    b,
                )
        return pairs

    def _link_carried(self, a: Node, b: Node, step: int) -> None:
        """Record that a step reads ``b`` of the previous one, where that step read ``a``."""
        if self.region.get(b) != step:
            raise self._make_mismatch(
                step, f"it takes {_format_value(a)}, then {_format_value(b)}", b
            )
        if step == self.loop.first_step:
            start = self.starts.setdefault(b, a)
            if a in self.region:
                raise self._make_mismatch(
                    step, f"it takes {_format_value(a)}, then {_format_value(b)}", b
                )
            if start is not a:
                raise self._make_mismatch(
                    step, f"it begins with {_format_value(start)} and {_format_value(a)}", b
                )
        elif self.before.get(b) is not a:
            raise self._make_mismatch(
                step, f"it takes {_format_value(a)}, then {_format_value(b)}", b
            )

    def _make_mismatch(self, step: int, why: str, node: Node | None = None) -> RerollError:
        line = None if node is None else _source_line(node)
        text = f"step {step + 1} differs from step {step}: {why}"
        text += "" if line is None else f"\n  at {line}"
        return RerollError(self.loop, text, step == self.loop.first_step)

    # -- writing

    def _write_scan(self, collects: Sequence[Node]) -> None:
        carried = self._find_carried({a: b for b, a in self.before.items()})
        collected = [
            (node, self._template_node(_node_leaves(node.args[0])[-1])) for node in collects
        ]
        last = self._read_after(collects)
        unread_rows = [node for _, node in last if node not in carried.values()]
        rows = list(dict.fromkeys([*(node for _, node in collected), *unread_rows]))
        for node in rows:
            self._same_size(node)
        filled = self._find_filled(carried, rows)
        rows = list(dict.fromkeys([*rows, *(row for row, _ in filled.values())]))
        results = [*carried.values(), *rows]
        body, captured = self._build_body(self.loop.first_step + 1, list(carried), results)
        end = self.position[self.marks[self.loop.steps]]
        with self.program.graph.inserting_before(self.marks[self.loop.steps]):
            scan = self._emit_scan(body, [self.starts[node] for node in carried], captured, rows)
            ends, stacks = self._emit_results(scan, list(carried.values()), rows)
            for node, item in collected:
                self._replace_uses(
                    node, self._move_axis(stacks[item], int(str(node.args[3])), node)
                )
            for node, item in last:
                if item in filled:
                    row, axis = filled[item]
                    value = self._move_axis(stacks[row], axis, node)
                else:
                    value = ends.get(item) or self._select_last(stacks[item], node)
                self._replace_uses(node, value, end)

    def _find_filled(
        self, carried: dict[Node, Node], rows: Sequence[Node]
    ) -> dict[Node, tuple[Node, int]]:
        """Find tensors of which each step writes the part at its index, and reads nothing.

        They are removed from ``carried``; returned are the part and its axis, to be joined
        after the loop.
        """
        template = self.loop.first_step + 1
        filled: dict[Node, tuple[Node, int]] = {}
        for read_node, result in list(carried.items()):
            part = self._written_part(read_node, result)
            if part is None:
                continue
            others = [node for node in carried.values() if node is not result]
            others += [*rows, part[0], *(row for row, _ in filled.values())]
            needed = self._backward_slice(template, others)
            read = {node for item in needed for node in item.all_input_nodes} | {*others}
            if read_node not in read and result not in read:
                filled[result] = part
                del carried[read_node]
        return filled

    def _written_part(self, read_node: Node, result: Node) -> tuple[Node, int] | None:
        """Return what a step writes at its own index into a full axis, and the axis."""
        if result.target is not torch.ops.aten.select_scatter.default or self.loop.first_step:
            return None
        written, part, axis, index = result.args
        whole, length = read_node.meta["val"], self.marks[self.loop.steps].args[1]
        if not (isinstance(part, Node) and isinstance(index, Node) and isinstance(length, Node)):
            return None
        axis = int(str(axis)) % whole.dim()
        if part.target is torch.ops.aten.copy.default:
            _, part = _node_leaves(part.args)
        at_own_index = index.args == (self.marks[1],)  # the number that the mark is
        sizes = [*whole.shape[:axis], *whole.shape[axis + 1 :]]
        value = part.meta["val"]
        same = value.dtype == whole.dtype and tuple(map(str, value.shape)) == tuple(map(str, sizes))
        full = str(whole.shape[axis]) == str(length.meta["val"])
        return (part, axis) if written is read_node and at_own_index and same and full else None

    def _find_carried(self, after: Mapping[Node, Node]) -> dict[Node, Node]:
        """Map what the second step reads of the first to its new value."""
        carried = {}
        for node in sorted(self.starts, key=lambda each: self.position[each]):
            if node not in after or not isinstance(node.meta.get("val"), torch.Tensor):
                raise self._make_mismatch(
                    self.loop.first_step, f"{_format_value(node)} is a number that counts", node
                )
            carried[node] = after[node]
            sizes = [_type_text(value) for value in (self.starts[node], node, after[node])]
            if sizes[0] != sizes[1] or sizes[1] != sizes[2]:
                types = " then ".join(sizes)
                raise self._make_mismatch(
                    self.loop.first_step, f"what it carries to the next step is {types}", node
                )
        return carried

    def _template_node(self, node: Node) -> Node:
        """Return the node of the second step that corresponds to ``node`` of the last one."""
        while self.region.get(node, 0) > self.loop.first_step + 1:
            node = self.before[node]
        return node

    def _read_after(self, collects: Sequence[Node]) -> list[tuple[Node, Node]]:
        """Find the nodes of the last step that are read after the loop, with those of the
        second.
        """
        end = self.position[self.marks[self.loop.steps]]
        read_after = []
        for node, step in self.region.items():
            users = [u for u in node.users if self.position[u] > end and u not in collects]
            if not users or step != self.loop.steps - 1:
                continue
            if node not in self.before or not isinstance(node.meta.get("val"), torch.Tensor):
                raise RerollError(
                    self.loop,
                    f"{_format_value(node)} of its last step is read afterwards\n"
                    f"  at {_source_line(users[0])}",
                )
            read_after.append((node, self._template_node(node)))
        return read_after

    def _same_size(self, node: Node) -> None:
        one, other = _type_text(self.before[node]), _type_text(node)
        if one != other:
            raise RerollError(
                self.loop,
                f"what is kept of each step is {one}, then {other}\n  at {_source_line(node)}",
            )

    def _build_body(
        self, template: int, carried: list[Node], results: list[Node]
    ) -> tuple[GraphModule, list[Node]]:
        """Build the graph of a step; return it and the nodes of the outer graph that it reads."""
        owner = self.program.graph_module
        # assertions of a step stay in it, where the export report finds them
        needed = self._backward_slice(template, [*results, *self._step_assertions(template)])
        mark = self.marks[template]
        inputs = [*carried, mark]
        captured = list(
            dict.fromkeys(
                node
                for item in needed
                for node in item.all_input_nodes
                if self.region.get(node) != template
                and node not in carried
                and node.op != "get_attr"
            )
        )
        graph, attributes = Graph(), {}
        copies = _add_placeholders(graph, [*inputs, *captured])
        for node in needed:
            for source in (node, *node.all_input_nodes):
                if source.op == "get_attr" and source not in copies:
                    attributes[str(source.target)] = find_attribute(owner, str(source.target))
                    copies[source] = graph.get_attr(str(source.target))
            if node in copies:
                continue
            args, kwargs = map_arg((node.args, node.kwargs), copies.__getitem__)
            copies[node] = graph.create_node(node.op, node.target, args, kwargs, node.name)
            copies[node].meta.update(_copied_meta(node))
        graph.output(tuple(copies[node] for node in results))
        return GraphModule(attributes, graph, "LoopStep"), captured

    def _step_assertions(self, template: int) -> list[Node]:
        """Return the assertions of a step that depend on more than its index."""
        return [
            node
            for node, step in self.region.items()
            if step == template
            and _is_assertion(node)
            and any(
                isinstance(operand.meta.get("val"), torch.Tensor)
                for operand in self._backward_slice(template, [node])
            )
        ]

    def _backward_slice(self, template: int, results: Sequence[Node]) -> list[Node]:
        """Return the nodes of a step that ``results`` are computed from, in order."""
        needed: set[Node] = set()
        todo = list(results)
        while todo:
            node = todo.pop()
            if node in needed or self.region.get(node) != template or node is self.marks[template]:
                continue
            needed.add(node)
            todo += node.all_input_nodes
        return sorted(needed, key=lambda each: self.position[each])

    def _emit_scan(
        self, body: GraphModule, starts: list[Node], captured: list[Node], rows: list[Node]
    ) -> Node:
        """Emit the scan, or a branch around it where there may be no step at all."""
        owner, graph, loop = self.program.graph_module, self.program.graph, self.loop
        length: Any = self.marks[loop.steps].args[1]
        size = length.meta["val"] - loop.first_step
        options = {"dtype": torch.int64, "device": torch.device("cpu"), "pin_memory": False}
        index = graph.call_function(
            torch.ops.aten.arange.start, (loop.first_step, length), dict(options)
        )
        example = self.marks[loop.first_step].meta["val"]
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
        has_steps = graph.call_function(operator.gt, (length, loop.first_step))
        has_steps.meta["val"] = length.meta["val"] > loop.first_step
        branches = [graph.get_attr(name) for name in names]
        operands = (*dict.fromkeys([*starts, *captured]), index)
        return graph.call_function(_COND, (has_steps, *branches, operands))

    def _emit_results(
        self, scan: Node, carried: Sequence[Node], rows: Sequence[Node]
    ) -> tuple[dict[Node, Node], dict[Node, Node]]:
        """Emit the results of a scan, by the node of a step: the last carried values, and
        all rows.
        """
        values = [node.meta["val"] for node in carried]
        values += [_stacked_value(node.meta["val"], self.size) for node in rows]
        mark = self.marks[self.loop.steps]
        where = {key: mark.meta[key] for key in _LOCATION_META if key in mark.meta}
        scan.meta.update({**where, "val": tuple(values)})
        items = []
        for index, value in enumerate(values):
            node = self.program.graph.call_function(operator.getitem, (scan, index))
            node.meta.update({**where, "val": value})
            items.append(node)
        count = len(carried)
        return (
            dict(zip(carried, items[:count], strict=True)),
            dict(zip(rows, items[count:], strict=True)),
        )

    def _move_axis(self, rows: Node, axis: int, like: Node) -> Node:
        """Move the steps of stacked rows to ``axis``, contiguous as they were in one tensor."""
        if axis == 0:
            return rows
        order = list(range(1, rows.meta["val"].dim()))
        order.insert(axis, 0)
        value = rows.meta["val"]
        whole = value.new_empty([value.shape[source_axis] for source_axis in order])
        moved = self._emit_call(torch.ops.aten.permute.default, (rows, order), whole)
        contiguous = self._emit_call(torch.ops.aten.clone.default, (moved,), whole)
        contiguous.kwargs = {"memory_format": torch.contiguous_format}
        for node in (moved, contiguous):
            node.meta.update({key: like.meta[key] for key in _LOCATION_META if key in like.meta})
        return contiguous

    def _select_last(self, rows: Node, like: Node) -> Node:
        value = like.meta["val"]
        selected = self._emit_call(
            torch.ops.aten.select.int, (rows, 0, -1), value.new_empty(value.shape)
        )
        selected.meta.update({key: like.meta[key] for key in _LOCATION_META if key in like.meta})
        return selected

    def _emit_call(self, target: Any, args: tuple[Any, ...], value: torch.Tensor) -> Node:
        # values are made, not computed: torch would evaluate sizes, and add a guard to the program
        node = self.program.graph.call_function(target, args)
        node.meta["val"] = value
        return node

    def _replace_uses(self, node: Node, value: Node, end: int = -1) -> None:
        """Replace ``node`` by ``value`` in the nodes after ``end``."""
        node.replace_all_uses_with(
            value, delete_user_cb=lambda user: self.position.get(user, -1) > end
        )
        self.program.graph_signature.replace_all_uses(node.name, value.name)

    def _erase_steps(self) -> None:
        """Erase the remaining nodes of the steps."""
        graph = self.program.graph
        graph_nodes = list(graph.nodes)
        of_steps = set(self.marks.values())
        for node in graph_nodes:
            if any(operand in of_steps for operand in node.all_input_nodes):
                of_steps.add(node)
        for node in self.marks.values():
            node.args = ([], *node.args[1:])
        for node in reversed(graph_nodes):
            loose = node in of_steps or node in self.region
            ends = node.op in ("call_function", "get_attr") and not node.users
            if loose and (ends or _is_assertion(node)):
                graph.erase_node(node)
        left = set(graph.nodes)
        for node in self.marks.values():
            if node in left:
                raise self._make_escape_error(node)

    def _make_escape_error(self, mark: Node) -> RerollError:
        """Make the error for a value of one step that is read outside of it."""
        node = mark
        while node.users and next(iter(node.users)).op != "output":
            node = next(iter(node.users))
        why = "a value of one of its steps, which is not the last one, is read outside of that step"
        return RerollError(self.loop, f"{why}\n  at {_source_line(node)}", True)


def _may_be_zero(size: Any) -> bool:
    """Whether a number of steps may be 0: all but the size of an input, which torch takes for 2 or
    more; calls with 1 have a step.
    """
    expression, env = size.node.expr, size.node.shape_env
    symbols = list(expression.free_symbols)
    if len(symbols) != 1 or env.is_unbacked_symint(symbols[0]):
        return True
    more = expression - symbols[0]  # than a size of an input
    return not (more.is_Integer and more >= 0)


def _add_placeholders(graph: Graph, nodes: Sequence[Node]) -> dict[Node, Node]:
    placeholders = {}
    for node in nodes:
        placeholders[node] = graph.placeholder(f"{node.name}_in")
        placeholders[node].meta.update(_copied_meta(node))
    return placeholders


def _some_steps(
    body: GraphModule, starts: list[Node], index: Node, captured: list[Node], count: int
) -> GraphModule:
    """Build the branch that has the scan."""
    graph = Graph()
    placeholders = _add_placeholders(graph, list(dict.fromkeys([*starts, *captured, index])))
    inner = [placeholders[node] for node in starts]
    step = graph.get_attr("step")
    outer = tuple(placeholders[node] for node in captured)
    scan = graph.call_function(_SCAN, (step, inner, [placeholders[index]], outer))
    graph.output(tuple(graph.call_function(operator.getitem, (scan, k)) for k in range(count)))
    return GraphModule({"step": body}, graph, "SomeSteps")


def _no_steps(starts: list[Node], captured: list[Node], rows: Sequence[Node]) -> GraphModule | None:
    """Build the other branch: the initial values, and rows of length 0. None where a size of a row
    is not the size of any operand.
    """
    graph = Graph()
    operands = list(dict.fromkeys([*starts, *captured]))
    placeholders = _add_placeholders(graph, operands)
    sizes: dict[str, tuple[Node, int]] = {}
    for node in operands:
        shape = getattr(node.meta.get("val"), "shape", ())
        for axis, size in enumerate(shape):
            if isinstance(size, torch.SymInt):
                sizes.setdefault(str(size.node.expr), (placeholders[node], axis))
    results = [placeholders[node] for node in starts]
    for row in rows:
        value = row.meta["val"]
        row_shape: list[Any] = [0]
        for size in value.shape:
            if isinstance(size, torch.SymInt):
                if str(size.node.expr) not in sizes:
                    return None
                row_shape.append(
                    graph.call_function(torch.ops.aten.sym_size.int, sizes[str(size.node.expr)])
                )
                row_shape[-1].meta["val"] = size
            else:
                row_shape.append(size)
        options = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
        results.append(
            graph.call_function(torch.ops.aten.zeros.default, (row_shape,), dict(options))
        )
        results[-1].meta["val"] = value.new_empty((0, *value.shape))
    graph.placeholder("index_in")
    graph.output(tuple(results))
    return GraphModule({}, graph, "NoSteps")


def _is_assertion(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.name() in traits.ASSERTION


def _node_leaves(value: Any) -> list[Node]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Node)]


def _copied_meta(node: Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in _COPIED_META if key in node.meta}


def _stacked_value(value: torch.Tensor, length: Any) -> torch.Tensor:
    return value.new_empty((length, *value.shape))


def _type_text(node: Node) -> str:
    """Return dtype and sizes of a value as text."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    sizes = ", ".join(
        str(getattr(getattr(size, "node", None), "expr", size)) for size in value.shape
    )
    return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"


def _target_name(node: Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _format_value(value: Any) -> str:
    return value.name if isinstance(value, Node) else repr(value)


def _literal_key(value: Any) -> tuple[type, str]:
    return type(value), repr(value)


def _source_line(node: Node) -> Any:
    """Return the line of the model that a node comes from."""
    lines = lines_in(str(node.meta.get("stack_trace", "")))
    return lines[-1] if lines else node.name


def same_graph(one: GraphModule, other: GraphModule) -> bool:
    """Whether two graphs compute the same of their inputs: their nodes, constants and inner graphs
    in order, whatever the names.
    """
    numbers: list[dict[Node, int]] = [
        {node: index for index, node in enumerate(module.graph.nodes)} for module in (one, other)
    ]
    if len(numbers[0]) != len(numbers[1]):
        return False
    for a, b in zip(*numbers, strict=True):
        if a.op != b.op or (a.op == "call_function" and a.target != b.target):
            return False
        if a.op == "get_attr":
            attributes = [find_attribute(m, str(n.target)) for m, n in ((one, a), (other, b))]
            if not _same_attribute(*attributes):
                return False
        count = 1 if _is_assertion(a) else None  # a message names nodes
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
            yield (
                not isinstance(a, Node)
                and not isinstance(b, Node)
                and _literal_key(a) == _literal_key(b)
            )


def _same_attribute(one: Any, other: Any) -> bool:
    if isinstance(one, GraphModule) and isinstance(other, GraphModule):
        return same_graph(one, other)
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one is other or (one.dtype == other.dtype and torch.equal(one, other))
    return one is other
