"""Decide which results of an ATen graph ONNX Runtime computes, and which torch returns.

Arguments, constants, None, duplicates and ints that depend only on the arguments do not pass
through ONNX Runtime. torch makes views from their bases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable import dims, dtypes
from ortable.backend.roles import Check, Mutation, OutputRole, OutputRoleKind, ViewStep
from ortable.errors import ConversionError, UnsupportedCase
from ortable.interpreter.assertions import run_time_checks
from ortable.interpreter.control_flow import is_token_result

from .aot_graph import AotGraph
from .argument_marks import has_untraced_strides
from .inputs import InputPlan, no_data_error, shape_of, strides_of
from .strides import contiguous_strides, has_gaps
from .views import DETACH, is_view, trace_views

aten = torch.ops.aten
# the steps of a result that has the elements of its base, but is another tensor object
_ALIAS = (ViewStep(aten.alias.default, (), {}),)
_PROMISED_MARK = "ortable_promised_strides"
_SAVED_DESCRIPTION = "SavedForBackwardsAOTOutput"


@dataclass
class OutputPlan:
    """Roles of the `n_results` results, then of the values that `mutations` copy into arguments.

    `checks` are the assertions. `fetched` are the nodes that ONNX Runtime must return, in order;
    `names` are their ONNX outputs. `promised` are the fetched nodes that must have the strides that
    torch traced.
    """

    roles: list[OutputRole] = field(default_factory=list)
    n_results: int = 0
    mutations: list[Mutation] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    fetched: list[Node] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    promised: set[Node] = field(default_factory=set)


def require_traced_strides(graph_module: GraphModule) -> None:
    """Mark a graph whose results must all have their traced strides.

    This includes values saved for the backward, if another backend, which relies on their strides,
    may compile it.
    """
    graph_module.graph.output_node().meta[_PROMISED_MARK] = True


def requires_traced_strides(output: Node) -> bool:
    """Whether `require_traced_strides` marked the graph of this output node."""
    return _PROMISED_MARK in output.meta


def plan_outputs(graph: AotGraph) -> OutputPlan:
    """Decide the role of every result and of every `copy_` into an argument.

    Raises:
        ConversionError: if a result is not a tensor, a number, a Python constant or None, or is a
            tensor on device meta.
        UnsupportedCase: if an operator other than `copy_` writes to an argument, or if a view of an
            argument has an offset that depends on data.
    """
    _refuse_other_writes(graph)
    plan, inputs = OutputPlan(), graph.inputs
    results: Any = graph.output.args[0]
    results = list(results) if isinstance(results, list | tuple) else [results]
    descriptions = graph.output.meta.get("desc") or []
    descriptions = descriptions if isinstance(descriptions, list | tuple) else ()
    description_names = [type(description).__name__ for description in descriptions]
    # only the compiled backward, or AOTAutograd's copy into an argument, reads an internal result
    is_internal = [
        name in (_SAVED_DESCRIPTION, "InputMutationAOTOutput") for name in description_names
    ] + [False] * len(results)
    copies = {copy: copy.args[0] for copy in graph.module.graph.nodes if graph.is_mutation(copy)}
    builder = _RoleBuilder(plan, inputs, copies)
    builder.collect_bases(results)
    builder.keeps_strides = requires_traced_strides(graph.output)
    if not builder.keeps_strides:
        pairs = zip(results, description_names, strict=False)
        builder.dense = {
            value for value, name in pairs if isinstance(value, Node) and name == _SAVED_DESCRIPTION
        }
    for index, result in enumerate(results):
        plan.roles.append(builder.make_role(index, result, promised=not is_internal[index]))
    plan.roles = [_with_true_strides(role, plan) for role in plan.roles]
    plan.n_results = len(plan.roles)
    for node, target in copies.items():
        index = len(plan.roles)
        plan.mutations.append(Mutation(inputs.position[target], index))
        plan.roles.append(builder.make_role(index, node.args[1], promised=False))
    for number, assertion in enumerate(run_time_checks(graph.module.graph)):
        fetch = builder.add_fetch(assertion.condition, f"assertion_{number}")
        plan.checks.append(
            Check(fetch, assertion.message, assertion.comparison, assertion.bound, assertion.dim)
        )
    fetch_counts = Counter(role.fetch for role in plan.roles)
    plan.roles = [
        replace(role, alone=True)
        if role.kind is OutputRoleKind.VIEW and role.fetch >= 0 and fetch_counts[role.fetch] == 1
        else role
        for role in plan.roles
    ]
    return plan


def _refuse_other_writes(graph: AotGraph) -> None:
    for node in graph.module.graph.nodes:
        schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
        if schema is None or not schema.is_mutable or graph.is_mutation(node):
            continue
        target = node.args[0] if node.args else None
        if isinstance(target, Node) and target in graph.inputs.position:
            name = str(schema.name).partition("::")[2]
            raise UnsupportedCase(
                f"{name} on a graph input, {target.name}: it would replace the memory of an "
                "argument; assign outside of the compiled function"
            )


def _with_true_strides(role: OutputRole, plan: OutputPlan) -> OutputRole:
    """Note contiguous strides in a role whose traced strides differ and are not promised."""
    if role.kind is not OutputRoleKind.TENSOR or plan.fetched[role.fetch] in plan.promised:
        return role
    traced = strides_of(plan.fetched[role.fetch].meta["val"])
    assert role.shape is not None
    dense = contiguous_strides(role.shape)
    if dense == traced:
        return role
    return replace(role, strides=tuple(int(stride) for stride in dense))  # type: ignore[arg-type]


class _RoleBuilder:
    """The running state of `plan_outputs`.

    `copies` maps each `copy_` into an argument to the argument. `seen` maps earlier results to
    their positions.
    """

    def __init__(self, plan: OutputPlan, inputs: InputPlan, copies: dict[Node, Any]) -> None:
        self.plan = plan
        self.inputs = inputs
        self.copies = copies
        self.seen: dict[Node, int] = {}
        self.results: set[Node] = set()
        self.dense: set[Node] = set()  # saved for the backward: returned without gaps
        self.keeps_strides = False
        self.shared: Counter[Node] = Counter()  # number of results per base tensor

    def collect_bases(self, results: Sequence[Any]) -> None:
        """Collect the results, and count those of each base, before any role is decided."""
        self.results = {self.copies.get(node, node) for node in results if isinstance(node, Node)}
        for result in self.results:
            if isinstance(result.meta.get("val"), torch.Tensor):
                views = trace_views(result, self.inputs.is_computable)
                base = views[0] if views is not None else result
                self.shared[self.copies.get(base, base)] += 1

    def make_role(self, index: int, result: Any, promised: bool) -> OutputRole:
        if result is None:
            return OutputRole(index, OutputRoleKind.NONE, f"output_NONE_{index}")
        if isinstance(result, Node) and is_token_result(result):
            return OutputRole(index, OutputRoleKind.NONE, f"output_NONE_{index}")
        if not isinstance(result, Node):
            return OutputRole(index, OutputRoleKind.CONSTANT, f"output_{index}", value=result)
        result = self.copies.get(result, result)
        if result in self.seen:
            return OutputRole(
                index, OutputRoleKind.DUPLICATE, f"output_{index}", source=self.seen[result]
            )
        self.seen[result] = index
        value = result.meta.get("val")
        if isinstance(value, torch.Tensor):
            if value.device.type == "meta" and result not in self.inputs.position:
                raise no_data_error(f"Result {index} ({result.name}) of the graph")
            return self._tensor_role(index, result, value, promised)
        if result in self.inputs.position:
            prefix = "output_dim" if isinstance(value, torch.SymInt) else "output"
            source = self.inputs.position[result]
            return OutputRole(index, OutputRoleKind.INPUT, f"{prefix}_{index}", source=source)
        if value is None:
            return OutputRole(index, OutputRoleKind.NONE, f"output_NONE_{index}")
        return self._number_role(index, result, value)

    def _number_role(self, index: int, result: Node, value: Any) -> OutputRole:
        if isinstance(value, int | float | bool):
            return OutputRole(index, OutputRoleKind.CONSTANT, f"output_{index}", value=value)
        if isinstance(value, torch.SymFloat | torch.SymBool):
            fetch = self.add_fetch(result, f"output_{index}")
            return OutputRole(index, OutputRoleKind.NUMBER, f"output_{index}", fetch=fetch)
        if not isinstance(value, torch.SymInt):
            raise ConversionError(
                f"Result {index} ({result.name}) of the graph is a {type(value).__name__}; ortable "
                "can return only tensors, numbers and None."
            )
        dim = dims.from_torch(value)
        name = f"output_dim_{index}"
        if isinstance(dim, int):
            return OutputRole(index, OutputRoleKind.CONSTANT, name, value=dim)
        if self.inputs.is_computable(dim):
            return OutputRole(index, OutputRoleKind.DIMENSION, name, value=dim)
        fetch = self.add_fetch(result, name)
        return OutputRole(index, OutputRoleKind.DIMENSION, name, fetch=fetch, value=dim)

    def _tensor_role(
        self, index: int, result: Node, value: torch.Tensor, promised: bool
    ) -> OutputRole:
        elem_type, shape = dtypes.from_torch(value.dtype), shape_of(value)
        name = f"output_{index}"
        views = trace_views(result, self.inputs.is_computable)
        base, steps = views if views is not None else (result, ())
        if views is None:
            self._check_offset(result, value)
        base = self.copies.get(base, base)
        needs_dense = not promised and result in self.dense
        if needs_dense and base not in self.inputs.position and has_gaps(value):
            base, steps = result, ()  # ONNX Runtime copies a slice faster than torch
        is_argument = base in self.inputs.position and not has_untraced_strides(base)
        if base in self.inputs.position and not is_argument:
            base, steps = result, ()  # a torch view of other strides than traced would differ
        # internal results need not be aliases; AOTAutograd recreates views of arguments
        if not promised or is_argument:
            steps = tuple(step for step in steps if step.op is not DETACH)
        if is_argument:
            kind = OutputRoleKind.INPUT if base is result else OutputRoleKind.VIEW
            steps = () if base is result else steps or _ALIAS
            source = self.inputs.position[base]
            return OutputRole(index, kind, name, -1, source, None, steps, elem_type, shape)
        if result is not base and all(step.op is DETACH for step in steps):
            # an alias of the base; its memory matters only if another result shares it
            is_shared = base in self.results or self.shared[base] > 1
            steps = (steps or _ALIAS) if is_shared else ()
        fetch = self.add_fetch(base, name)
        kind = OutputRoleKind.VIEW if steps else OutputRoleKind.TENSOR
        is_static = all(isinstance(size, int) for size in shape)
        if promised or steps or self.keeps_strides or not is_static:
            self.plan.promised.add(base)
        return OutputRole(index, kind, name, fetch, -1, None, steps, elem_type, shape)

    def _check_offset(self, result: Node, value: torch.Tensor) -> None:
        """Refuse a view of an argument whose offset in memory is not known to be 0.

        AOTAutograd recreates such a view from the result's offset in memory, but a result that ONNX
        Runtime computes has offset 0.
        """
        base = result
        while is_view(base):
            base = base.args[0]  # type: ignore[assignment]
        offset = value.storage_offset()
        if base in self.inputs.position and not (isinstance(offset, int) and offset == 0):
            raise UnsupportedCase(
                f"{result.name}: a view of an argument whose storage offset depends on data"
            )

    def add_fetch(self, node: Node, name: str) -> int:
        """Return the position of a node among the fetched nodes; append it if it is new."""
        if node not in self.plan.fetched:
            self.plan.fetched.append(node)
            self.plan.names.append(name)
        return self.plan.fetched.index(node)
