"""Re-roll the captured steps of each loop over a dynamic size into one scan.

The scan is a ``torch.ops.higher_order.scan``. loop_capture.py calls `reroll_loops` with a
functionalized program, in which marks of dynamic_loops.py delimit the steps.

The steps are compared node by node, from their results back to their inputs: every step must
compute the same from values of the previous step, values before the loop, and its own index. A
value of the previous step that a step reads becomes a carried value of the scan.
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
from .export_failures import parse_user_lines

# Constants up to this many elements are compared by value.
_MAX_COMPARED_ELEMENTS = 1 << 20
_LOCATION_META = ("stack_trace", "nn_module_stack")
_COPIED_META = ("val", "unbacked_bindings", "tensor_meta", *_LOCATION_META)
_SCAN: Any = torch.ops.higher_order.scan
_COND: Any = torch.ops.higher_order.cond


def reroll_loops(program: ExportedProgram, loops: Sequence[DynamicLoop]) -> None:
    """Replace the steps of each loop by a scan, inner loops first.

    Raises RerollError if steps differ, or if other code reads a value of one step.
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
    """Merge equal constants, because each captured step has its own copies."""
    first_nodes: dict[Any, Node] = {}
    for node, value in list(_lifted_constants(program)):
        if (
            is_fake(value)
            or value.layout is not torch.strided
            or value.numel() > _MAX_COMPARED_ELEMENTS
        ):
            continue
        content = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        key = (value.dtype, value.device, tuple(value.shape), content)
        if first_nodes.setdefault(key, node) is not node:
            node.replace_all_uses_with(first_nodes[key])


def _drop_constants(program: ExportedProgram) -> None:
    """Remove unused constants, and unused subgraphs of inner loops and branches."""
    signature = program.graph_signature
    for node, _ in list(_lifted_constants(program)):
        if not node.users:
            signature.input_specs[:] = [s for s in signature.input_specs if s.arg.name != node.name]
            program.graph.erase_node(node)
    used = {str(node.target) for node in program.graph.find_nodes(op="get_attr")}
    for name in [name for name, _ in program.graph_module.named_children() if name not in used]:
        program.graph_module.delete_submodule(name)


def _lifted_constants(program: ExportedProgram) -> Iterator[tuple[Node, torch.Tensor]]:
    """Yield the graph inputs that are constants lifted out of the graph by torch."""
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
    """Replaces the steps of one loop.

    ``region`` maps a node to its step, ``position`` a node to its index in the graph, and
    ``before`` a node of a step to the node of the previous step that computes the same. ``starts``
    maps a result of the first step that the second one reads to the value that the first step reads
    instead: ``{h1: h0}`` for ``h1 = f(h0); h2 = f(h1)``. ``size`` is the number of scan iterations.
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
            # a peeled first step is before the loop
            if step is not None and self.loop.first_step <= step < self.loop.steps:
                self.region[node] = step

    # -- comparing

    def _match_step(self, step: int, collects: Sequence[Node]) -> None:
        """Compare ``step`` with the next step."""
        outputs, next_outputs = (_node_leaves(self.marks[step + k].args[0]) for k in (1, 2))
        if len(outputs) != len(next_outputs):
            raise self._make_mismatch(
                step, f"it makes {len(outputs)} tensors, then {len(next_outputs)}"
            )
        pairs = [(self.marks[step], self.marks[step + 1]), *zip(outputs, next_outputs, strict=True)]
        for node in collects:
            earlier, later = _node_leaves(node.args[0])[step - self.loop.first_step :][:2]
            if (self.region.get(earlier), self.region.get(later)) != (step, step + 1):
                raise self._make_mismatch(step, "a tensor that it puts into a list changes", node)
            pairs.append((earlier, later))
        while pairs:
            earlier, later = pairs.pop()
            if self.region.get(earlier) == step and self.region.get(later) == step + 1:
                if later not in self.before:
                    self.before[later] = earlier
                    pairs += self._match_nodes(earlier, later, step)
                elif self.before[later] is not earlier:
                    raise self._make_mismatch(step, "it uses values in another order", later)
            elif earlier is not later:
                self._link_carried(earlier, later, step)

    def _match_nodes(self, earlier: Node, later: Node, step: int) -> list[tuple[Node, Node]]:
        """Return the pairs of argument nodes that must match for two nodes to match."""
        if earlier in self.marks.values() and later in self.marks.values():
            return []
        if earlier.op != later.op or (earlier.target != later.target and earlier.op != "get_attr"):
            raise self._make_mismatch(
                step, f"{_target_name(earlier)}, then {_target_name(later)}", later
            )
        if earlier.op == "get_attr":
            owner = self.program.graph_module
            graphs = [find_attribute(owner, str(node.target)) for node in (earlier, later)]
            if not is_same_graph(*graphs):
                raise self._make_mismatch(step, "an inner loop or branch differs", later)
            return []
        earlier_leaves, earlier_spec = pytree.tree_flatten((earlier.args, earlier.kwargs))
        later_leaves, later_spec = pytree.tree_flatten((later.args, later.kwargs))
        if earlier_spec != later_spec:
            raise self._make_mismatch(step, f"{_target_name(later)} has other arguments", later)
        pairs = []
        for earlier_leaf, later_leaf in zip(earlier_leaves, later_leaves, strict=True):
            if isinstance(earlier_leaf, Node) and isinstance(later_leaf, Node):
                pairs.append((earlier_leaf, later_leaf))
            elif (
                isinstance(earlier_leaf, Node)
                or isinstance(later_leaf, Node)
                or _literal_key(earlier_leaf) != _literal_key(later_leaf)
            ):
                raise self._make_mismatch(
                    step,
                    f"{_target_name(later)} of {_format_value(earlier_leaf)}, "
                    f"then of {_format_value(later_leaf)}",
                    later,
                )
        return pairs

    def _link_carried(self, earlier: Node, later: Node, step: int) -> None:
        """Record that the next step reads ``later`` where ``step`` itself reads ``earlier``."""
        if self.region.get(later) != step:
            raise self._make_mismatch(
                step, f"it takes {_format_value(earlier)}, then {_format_value(later)}", later
            )
        if step == self.loop.first_step:
            start = self.starts.setdefault(later, earlier)
            if earlier in self.region:
                raise self._make_mismatch(
                    step, f"it takes {_format_value(earlier)}, then {_format_value(later)}", later
                )
            if start is not earlier:
                raise self._make_mismatch(
                    step,
                    f"it begins with {_format_value(start)} and {_format_value(earlier)}",
                    later,
                )
        elif self.before.get(later) is not earlier:
            raise self._make_mismatch(
                step, f"it takes {_format_value(earlier)}, then {_format_value(later)}", later
            )

    def _make_mismatch(self, step: int, difference: str, node: Node | None = None) -> RerollError:
        line = None if node is None else _source_line(node)
        text = f"step {step + 1} differs from step {step}: {difference}"
        text += "" if line is None else f"\n  at {line}"
        return RerollError(self.loop, text, step == self.loop.first_step)

    # -- writing

    def _write_scan(self, collects: Sequence[Node]) -> None:
        carried = self._find_carried({earlier: later for later, earlier in self.before.items()})
        collected = [
            (node, self._template_node(_node_leaves(node.args[0])[-1])) for node in collects
        ]
        last_results = self._read_after(collects)
        uncarried_results = [node for _, node in last_results if node not in carried.values()]
        rows = list(dict.fromkeys([*(node for _, node in collected), *uncarried_results]))
        for node in rows:
            self._check_same_type(node)
        filled = self._take_filled(carried, rows)
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
            for node, item in last_results:
                if item in filled:
                    row, axis = filled[item]
                    value = self._move_axis(stacks[row], axis, node)
                else:
                    value = ends.get(item) or self._select_last(stacks[item], node)
                self._replace_uses(node, value, end)

    def _take_filled(
        self, carried: dict[Node, Node], rows: Sequence[Node]
    ) -> dict[Node, tuple[Node, int]]:
        """Remove tensors from ``carried`` of which each step only writes a part: ``out[:, i] = y``.

        Returns the part ``y`` and the axis, 1, by the written tensor: stacking the parts after the
        loop makes the tensor. ``i`` is the index of the step, which covers the full axis.
        """
        template = self.loop.first_step + 1
        filled: dict[Node, tuple[Node, int]] = {}
        for read_node, result in list(carried.items()):
            part = self._written_part(read_node, result)
            if part is None:
                continue
            other_results = [node for node in carried.values() if node is not result]
            other_results += [*rows, part[0], *(row for row, _ in filled.values())]
            needed = self._backward_slice(template, other_results)
            read = {node for item in needed for node in item.all_input_nodes} | {*other_results}
            if read_node not in read and result not in read:
                filled[result] = part
                del carried[read_node]
        return filled

    def _written_part(self, read_node: Node, result: Node) -> tuple[Node, int] | None:
        """Return the part that a step writes at its own index, and the axis; None for other writes.

        The loop must cover the full axis.
        """
        if result.target is not torch.ops.aten.select_scatter.default or self.loop.first_step:
            return None
        target, part, axis, index = result.args
        full_value, length = read_node.meta["val"], self.marks[self.loop.steps].args[1]
        if not (isinstance(part, Node) and isinstance(index, Node) and isinstance(length, Node)):
            return None
        axis = int(str(axis)) % full_value.dim()
        if part.target is torch.ops.aten.copy.default:
            _, part = _node_leaves(part.args)
        at_own_index = index.args == (self.marks[1],)  # the index that the mark returns
        sizes = [*full_value.shape[:axis], *full_value.shape[axis + 1 :]]
        value = part.meta["val"]
        same_type = value.dtype == full_value.dtype and tuple(map(str, value.shape)) == tuple(
            map(str, sizes)
        )
        covers_axis = str(full_value.shape[axis]) == str(length.meta["val"])
        return (
            (part, axis)
            if target is read_node and at_own_index and same_type and covers_axis
            else None
        )

    def _find_carried(self, next_values: Mapping[Node, Node]) -> dict[Node, Node]:
        """Map each value of the first step that the second reads to the second step's value."""
        carried = {}
        for node in sorted(self.starts, key=lambda item: self.position[item]):
            if node not in next_values or not isinstance(node.meta.get("val"), torch.Tensor):
                raise self._make_mismatch(
                    self.loop.first_step, f"{_format_value(node)} is a number that changes", node
                )
            carried[node] = next_values[node]
            types = [_type_text(value) for value in (self.starts[node], node, next_values[node])]
            if types[0] != types[1] or types[1] != types[2]:
                type_text = " then ".join(types)
                raise self._make_mismatch(
                    self.loop.first_step, f"the value carried to the next step is {type_text}", node
                )
        return carried

    def _template_node(self, node: Node) -> Node:
        """Return the node of the second captured step that corresponds to ``node`` of the last."""
        while self.region.get(node, 0) > self.loop.first_step + 1:
            node = self.before[node]
        return node

    def _read_after(self, collects: Sequence[Node]) -> list[tuple[Node, Node]]:
        """Return the nodes of the last step that are read after the loop, and their templates."""
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

    def _check_same_type(self, node: Node) -> None:
        earlier_type, later_type = _type_text(self.before[node]), _type_text(node)
        if earlier_type != later_type:
            raise RerollError(
                self.loop,
                f"the rows of its steps are {earlier_type}, then {later_type}\n"
                f"  at {_source_line(node)}",
            )

    def _build_body(
        self, template: int, carried: list[Node], results: list[Node]
    ) -> tuple[GraphModule, list[Node]]:
        """Build the graph of a step; return it and the outer graph's nodes that it reads."""
        owner = self.program.graph_module
        # the body keeps the assertions of a step: the export report looks for them there
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
        """Return the assertions of a step that depend on tensors besides its index."""
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
        """Return the nodes of a step that ``results`` depend on, in order."""
        needed: set[Node] = set()
        worklist = list(results)
        while worklist:
            node = worklist.pop()
            if node in needed or self.region.get(node) != template or node is self.marks[template]:
                continue
            needed.add(node)
            worklist += node.all_input_nodes
        return sorted(needed, key=lambda item: self.position[item])

    def _emit_scan(
        self, body: GraphModule, starts: list[Node], captured: list[Node], rows: list[Node]
    ) -> Node:
        """Emit the scan, in a torch.cond if there may be no step and all row sizes are known."""
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
        no_steps = _build_empty_branch(starts, captured, rows) if _may_be_zero(size) else None
        if no_steps is None:
            name = f"loop_step_{loop.number}"
            owner.add_submodule(name, body)
            return graph.call_function(
                _SCAN, (graph.get_attr(name), starts, [index], tuple(captured))
            )
        some_steps = _build_scan_branch(body, starts, index, captured, len(starts) + len(rows))
        names = [f"loop_{loop.number}_of_{count}_steps" for count in ("some", "no")]
        for name, branch in zip(names, (some_steps, no_steps), strict=True):
            owner.add_submodule(name, branch)
        has_steps = graph.call_function(operator.gt, (length, loop.first_step))
        has_steps.meta["val"] = length.meta["val"] > loop.first_step
        branches = [graph.get_attr(name) for name in names]
        operands = (*dict.fromkeys([*starts, *captured]), index)
        return graph.call_function(_COND, (has_steps, *branches, operands))

    def _emit_results(
        self, scan: Node, carried: Sequence[Node], rows: Sequence[Node]
    ) -> tuple[dict[Node, Node], dict[Node, Node]]:
        """Emit the scan's results; return last carried values, and stacked rows, by template."""
        values = [node.meta["val"] for node in carried]
        values += [_stacked_value(node.meta["val"], self.size) for node in rows]
        mark = self.marks[self.loop.steps]
        location_meta = {key: mark.meta[key] for key in _LOCATION_META if key in mark.meta}
        scan.meta.update({**location_meta, "val": tuple(values)})
        items = []
        for index, value in enumerate(values):
            node = self.program.graph.call_function(operator.getitem, (scan, index))
            node.meta.update({**location_meta, "val": value})
            items.append(node)
        count = len(carried)
        return (
            dict(zip(carried, items[:count], strict=True)),
            dict(zip(rows, items[count:], strict=True)),
        )

    def _move_axis(self, rows: Node, axis: int, like: Node) -> Node:
        """Move the step axis of stacked rows to ``axis``, and make the result contiguous."""
        if axis == 0:
            return rows
        order = list(range(1, rows.meta["val"].dim()))
        order.insert(axis, 0)
        value = rows.meta["val"]
        moved_value = value.new_empty([value.shape[source_axis] for source_axis in order])
        moved = self._emit_call(torch.ops.aten.permute.default, (rows, order), moved_value)
        contiguous = self._emit_call(torch.ops.aten.clone.default, (moved,), moved_value)
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
        # the caller passes the fake value: to compute it, torch would evaluate sizes and add guards
        node = self.program.graph.call_function(target, args)
        node.meta["val"] = value
        return node

    def _replace_uses(self, node: Node, value: Node, end: int = -1) -> None:
        """Replace ``node`` by ``value`` in the program's outputs and in old nodes after ``end``."""
        node.replace_all_uses_with(
            value, delete_user_cb=lambda user: self.position.get(user, -1) > end
        )
        self.program.graph_signature.replace_all_uses(node.name, value.name)

    def _erase_steps(self) -> None:
        """Erase the nodes of the steps; raise RerollError if another node reads one of them."""
        graph = self.program.graph
        graph_nodes = list(graph.nodes)
        step_nodes = set(self.marks.values())
        for node in graph_nodes:
            if any(operand in step_nodes for operand in node.all_input_nodes):
                step_nodes.add(node)
        for node in self.marks.values():
            node.args = ([], *node.args[1:])
        for node in reversed(graph_nodes):
            in_steps = node in step_nodes or node in self.region
            is_unused = node.op in ("call_function", "get_attr") and not node.users
            if in_steps and (is_unused or _is_assertion(node)):
                graph.erase_node(node)
        remaining = set(graph.nodes)
        for node in self.marks.values():
            if node in remaining:
                raise self._make_escape_error(node)

    def _make_escape_error(self, mark: Node) -> RerollError:
        """Make the error for a value of one step that is read outside that step."""
        node = mark
        while node.users and next(iter(node.users)).op != "output":
            node = next(iter(node.users))
        reason = "a value of one of its steps, which is not the last, is read outside that step"
        return RerollError(self.loop, f"{reason}\n  at {_source_line(node)}", True)


def _may_be_zero(size: Any) -> bool:
    """Whether a number of steps may be 0.

    False only for a symbolic size plus a constant of 0 or more: torch takes the size for 2 or
    more, and a call with size 1 has a step, too.
    """
    expression, env = size.node.expr, size.node.shape_env
    symbols = list(expression.free_symbols)
    if len(symbols) != 1 or env.is_unbacked_symint(symbols[0]):
        return True
    excess = expression - symbols[0]  # steps beyond the symbolic size
    return not (excess.is_Integer and excess >= 0)


def _add_placeholders(graph: Graph, nodes: Sequence[Node]) -> dict[Node, Node]:
    placeholders = {}
    for node in nodes:
        placeholders[node] = graph.placeholder(f"{node.name}_in")
        placeholders[node].meta.update(_copied_meta(node))
    return placeholders


def _build_scan_branch(
    body: GraphModule, starts: list[Node], index: Node, captured: list[Node], count: int
) -> GraphModule:
    """Build the branch that contains the scan."""
    graph = Graph()
    placeholders = _add_placeholders(graph, list(dict.fromkeys([*starts, *captured, index])))
    inner_starts = [placeholders[node] for node in starts]
    step = graph.get_attr("step")
    outer = tuple(placeholders[node] for node in captured)
    scan = graph.call_function(_SCAN, (step, inner_starts, [placeholders[index]], outer))
    graph.output(tuple(graph.call_function(operator.getitem, (scan, k)) for k in range(count)))
    return GraphModule({"step": body}, graph, "SomeSteps")


def _build_empty_branch(
    starts: list[Node], captured: list[Node], rows: Sequence[Node]
) -> GraphModule | None:
    """Build the branch without steps; None if a row has a size that no operand has."""
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
    """Return the line of the model that a node comes from, or the node's name."""
    lines = parse_user_lines(str(node.meta.get("stack_trace", "")))
    return lines[-1] if lines else node.name


def is_same_graph(left: GraphModule, right: GraphModule) -> bool:
    """Whether two graphs have equal nodes, constants and inner graphs, apart from names."""
    numbers: list[dict[Node, int]] = [
        {node: index for index, node in enumerate(module.graph.nodes)} for module in (left, right)
    ]
    if len(numbers[0]) != len(numbers[1]):
        return False
    for left_node, right_node in zip(*numbers, strict=True):
        if left_node.op != right_node.op or (
            left_node.op == "call_function" and left_node.target != right_node.target
        ):
            return False
        if left_node.op == "get_attr":
            attributes = [
                find_attribute(owner, str(attribute_node.target))
                for owner, attribute_node in ((left, left_node), (right, right_node))
            ]
            if not _same_attribute(*attributes):
                return False
        count = 1 if _is_assertion(left_node) else None  # a message contains names of nodes
        left_leaves, left_spec = pytree.tree_flatten((left_node.args[:count], left_node.kwargs))
        right_leaves, right_spec = pytree.tree_flatten((right_node.args[:count], right_node.kwargs))
        if left_spec != right_spec or not all(_same_leaves(left_leaves, right_leaves, *numbers)):
            return False
    return True


def _same_leaves(
    left_leaves: Sequence[Any],
    right_leaves: Sequence[Any],
    left_numbers: Mapping[Node, int],
    right_numbers: Mapping[Node, int],
) -> Iterator[bool]:
    for left, right in zip(left_leaves, right_leaves, strict=True):
        if isinstance(left, Node) and isinstance(right, Node):
            yield left_numbers[left] == right_numbers[right]
        else:
            yield (
                not isinstance(left, Node)
                and not isinstance(right, Node)
                and _literal_key(left) == _literal_key(right)
            )


def _same_attribute(left: Any, right: Any) -> bool:
    if isinstance(left, GraphModule) and isinstance(right, GraphModule):
        return is_same_graph(left, right)
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left is right or (left.dtype == right.dtype and torch.equal(left, right))
    return left is right
