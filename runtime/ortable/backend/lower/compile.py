"""Convert one ATen graph to one ONNX model, with the roles of its arguments and results.

This runs inside AOTAutograd's compilers. It reads shapes and types of arguments, never values.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from onnx import ModelProto
from torch.fx import Graph, GraphModule, Node

from ortable import dims, dtypes
from ortable.backend.options import OrtOptions
from ortable.backend.roles import (
    DATA_CHECKS,
    CompiledGraph,
    Fetch,
    InputRole,
    RangeCheck,
    names_read,
)
from ortable.backend.sessions.providers import device_of, kernel_table
from ortable.builder import GraphBuilder
from ortable.compat.onnxruntime import empty_loses_strides
from ortable.compat.providers import CUDA, provider_names
from ortable.compat.scoped_patch import pause_gc
from ortable.errors import OptionError
from ortable.interpreter import numbers
from ortable.interpreter.complex_numbers import transpose_parts
from ortable.interpreter.control_flow import reject_effects
from ortable.passes import pipeline
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.prelude.complex_value import ComplexValue, join_pair, part_type

from .aot_graph import AotGraph
from .argument_marks import has_untracked_writes
from .cost_model import is_short
from .data_checks import CheckingInterpreter, add_checks
from .inputs import check_inputs, check_type, declare_inputs, shape_of, strides_of
from .outputs import OutputPlan, plan_outputs
from .strides import contiguous_strides, dense_order, inverse_permutation


def compile_graph(
    graph: AotGraph,
    options: OrtOptions,
    static: frozenset[int] = frozenset(),
    parent: AotGraph | None = None,
) -> CompiledGraph:
    """Convert an ATen graph whose nodes have `meta["val"]`.

    Args:
        graph: the graph.
        options: the options, with the providers that run the graph (`resolve_providers`).
        static: positions of arguments that are parameters or buffers.
        parent: the graph that `graph` is a partition of, if any.

    Raises:
        FunctionNotFoundError: if operators have no converter; the error lists all of them.
        ConversionError: if an argument, a result or an operator cannot be converted.
        ProviderError: if tensors are on a device that no provider of the options supports.
    """
    assert options.providers is not None, "call resolve_providers first"
    begin = time.perf_counter()
    reject_effects(graph.module)
    providers = provider_names(options.providers)
    check_inputs(graph.inputs, providers)
    outputs = plan_outputs(graph)
    builder = GraphBuilder(
        target_opset(options.target_opset, providers),
        target="onnxruntime",
        kernel_table=kernel_table(providers),
    )
    builder.specializes_sizes = True
    with pause_gc():
        roles, fetches, fx_names, cases, data_checks = _convert_graph(builder, graph, outputs)
        converted = time.perf_counter()
        passes = pipeline.select_passes(options.optimize, options.rewrites)
        rewrites = pipeline.run_passes(builder, passes).rewrites
        if options.weights == "keep":
            rewrite_graph(builder, rule_selection.select_rules("ort_half_products"), rewrites)
    optimized = time.perf_counter()
    # the passes have already run
    proto = builder.to_onnx(optimize=False)
    model = _apply_transforms(proto, options.pre_ort_model_transforms)
    serialized = time.perf_counter()
    return CompiledGraph(
        model=model,
        kind=(parent or graph).kind,
        inputs=_mark_weights(roles, graph, static, outputs),
        outputs=tuple(outputs.roles),
        n_results=outputs.n_results,
        fetches=fetches,
        mutations=tuple(outputs.mutations),
        sources=graph.inputs.sources,
        fed=frozenset([*names_read(model.graph.node), *(out.name for out in model.graph.output)]),
        device=graph.device,
        is_partition=parent is not None,
        is_short=graph.device == "cpu" and is_short(graph.module.graph.nodes),
        timings={
            "convert": converted - begin,
            "optimize": optimized - converted,
            "to_onnx": serialized - optimized,
        },
        rewrites=rewrites.counts(),
        refused=rewrites.refusals(),
        fx_names=fx_names,
        cases=cases,
        checks=tuple(outputs.checks),
        data_checks=data_checks,
    )


def _convert_graph(
    builder: GraphBuilder, graph: AotGraph, outputs: OutputPlan
) -> tuple[
    tuple[InputRole, ...], tuple[Fetch, ...], dict[str, str], dict[str, str], tuple[RangeCheck, ...]
]:
    """Convert into `builder` the nodes that the fetched results of a graph depend on.

    Returns the roles of the arguments, the fetched outputs in order, the result of `_map_fx_names`,
    the case that each FX node took (`aten::addmm/2`), and the data checks.
    """
    body, copies = _extract_live_graph(graph.module, outputs)
    interpreter = CheckingInterpreter(builder, module=graph.module)
    for name in (*outputs.names, DATA_CHECKS):
        builder.unique_name(name)  # reserve the name: no argument may use it
    roles = declare_inputs(builder, graph.inputs, interpreter, copies)
    interpreter.run(body, outputs=False)  # outputs are declared below
    values = interpreter.values
    fetches = tuple(
        _declare_output(
            builder,
            node,
            name,
            values[copies[node]],
            node in outputs.promised,
            graph.inputs.sources,
        )
        for node, name in zip(outputs.fetched, outputs.names, strict=True)
    )
    data_checks: tuple[RangeCheck, ...] = ()
    if graph.device == "cpu":  # on a GPU, eager's checks abort the process asynchronously
        data_checks = add_checks(interpreter, graph.kind == "backward")
    cases_by_copy = interpreter.cases
    cases = {
        node.name: cases_by_copy[copy] for node, copy in copies.items() if copy in cases_by_copy
    }
    fx_names = _map_fx_names(values, copies, outputs, fetches)
    return roles, fetches, fx_names, cases, data_checks


def _mark_weights(
    roles: Iterable[InputRole], graph: AotGraph, static: frozenset[int], outputs: OutputPlan
) -> tuple[InputRole, ...]:
    mutated = {mutation.source for mutation in outputs.mutations}
    return tuple(
        replace(
            role,
            static=role.index in static and role.index not in mutated,
            untracked_writes=has_untracked_writes(graph.inputs.nodes[role.index]),
        )
        for role in roles
    )


def _map_fx_names(
    values: Mapping[Node, Any],
    copies: Mapping[Node, Node],
    outputs: OutputPlan,
    fetches: Sequence[Fetch],
) -> dict[str, str]:
    """Map names of ONNX results to names of the FX nodes with the same values.

    Some of the ONNX results may be optimized away. The parts of a complex value map to `fft.real`
    and `fft.imag`. An output that is fetched in another layout than its FX node has is left out.
    """
    names: dict[str, str] = {}
    for node, copy in copies.items():
        name = values.get(copy)
        if isinstance(name, str) and node.op != "placeholder":
            names.setdefault(name, node.name)
        elif isinstance(name, ComplexValue) and node.op != "placeholder":
            names.setdefault(name.real, f"{node.name}.real")
            names.setdefault(name.imag, f"{node.name}.imag")
    for node, fetch in zip(outputs.fetched, fetches, strict=True):
        if fetch.permutation is None and isinstance(node.meta["val"], torch.Tensor):
            names[fetch.name] = node.name
    return names


def target_opset(
    requested: int | Mapping[str, int] | None, providers: Sequence[str]
) -> int | dict[str, int]:
    """Return the requested opsets, or the newest that ortable and the providers fully support."""
    if requested is None:
        from ortable.ir.versions import ORT_CUDA_OPSET, ORT_MAX_OPSET

        return ORT_CUDA_OPSET if CUDA in providers else ORT_MAX_OPSET
    return requested if isinstance(requested, int) else dict(requested)


def _extract_live_graph(
    graph_module: GraphModule, outputs: OutputPlan
) -> tuple[GraphModule, dict[Node, Node]]:
    """Extract the nodes that `outputs.fetched` depend on, as a graph without other results.

    Returns the graph, and a mapping from the original nodes to their copies.
    """
    live: set[Node] = set()
    stack = list(outputs.fetched)
    while stack:
        node = stack.pop()
        if node not in live:
            live.add(node)
            stack.extend(node.all_input_nodes)
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in graph_module.graph.nodes:
        if node in live:
            copies[node] = graph.node_copy(node, lambda source: copies[source])
    graph.output(tuple(copies[node] for node in outputs.fetched))
    return GraphModule(graph_module, graph), copies


def _declare_output(
    builder: Any, node: Node, name: str, result: Any, keep_strides: bool, computable: Container[str]
) -> Fetch:
    """Make an ONNX output of a converted result, in torch's memory order if `keep_strides`.

    `computable` are the symbols whose values can be computed from the arguments.
    """
    value = node.meta["val"]
    builder.origin = node
    if isinstance(value, torch.SymFloat | torch.SymBool):
        number = numbers.adopt_number(builder, numbers.make_number_result(builder, result), value)
        _name_output(builder, number, name)
        is_bool = isinstance(value, torch.SymBool)
        elem_type = dtypes.boolean if is_bool else dtypes.float64
        builder.make_tensor_output(name, elem_type, (), indexed=False)
        return Fetch(name, is_bool)
    if not isinstance(value, torch.Tensor):
        vector = result if isinstance(result, str) else builder.dim_as_vector(result)
        _name_output(builder, vector, name)
        builder.make_tensor_output(name, dtypes.int64, (1,), indexed=False, is_dimension=True)
        return Fetch(name)
    check_type(f"Result {node.name}", value)
    elem_type, shape, strides = dtypes.from_torch(value.dtype), shape_of(value), strides_of(value)
    is_bool, is_complex = elem_type == dtypes.boolean, dtypes.is_complex_type(elem_type)
    identity = tuple(range(len(shape)))
    order = dense_order(shape, strides) if keep_strides else identity
    if order is not None and order != identity:
        result = transpose_parts(builder, result, order)
        shape = tuple(shape[axis] for axis in order)
    sizes = shape
    if is_complex:
        result, sizes, elem_type = join_pair(builder, result), (*shape, 2), part_type(elem_type)
    _name_output(builder, result, name)
    builder.make_tensor_output(name, elem_type, sizes, indexed=False)
    device = device_of(value)
    float8 = elem_type if elem_type in dtypes.FLOAT8_TYPES else None
    # strides that depend on data are unknown to the call: an empty result keeps ONNX Runtime's
    is_known = all(
        symbol in computable for stride in strides for symbol in dims.free_symbols(stride)
    )
    loses_strides = empty_loses_strides and 0 in shape and is_known
    if loses_strides or (order is None and strides != contiguous_strides(shape)):
        return Fetch(name, is_bool, None, strides, is_complex, device, float8)
    permutation = None if order in (None, identity) else inverse_permutation(order)
    return Fetch(name, is_bool, permutation, None, is_complex, device, float8)


def _name_output(builder: Any, result: str, name: str) -> None:
    """Give a result the name of an output; the identity pass removes the Identity where it can."""
    builder.make_node("Identity", [result], [name])


def _apply_transforms(model: ModelProto, transforms: Sequence[Any]) -> ModelProto:
    for transform in transforms:
        transformed = transform(model)
        if transformed is None:
            continue
        if not isinstance(transformed, ModelProto):
            raise OptionError(
                f"pre_ort_model_transforms: {transform!r} returned a {type(transformed).__name__}; "
                "return a ModelProto, or None after editing the argument in place."
            )
        model = transformed
    return model
