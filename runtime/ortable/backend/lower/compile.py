"""One ATen graph to one ONNX model, with the roles of its arguments and results.
Runs inside AOTAutograd's compilers, under a fake tensor mode: it reads shapes and types, never
values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from onnx import ModelProto, NodeProto
from torch.fx import Graph, GraphModule, Node

from ortable import dtypes
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph, Fetch
from ortable.backend.sessions import devices
from ortable.backend.sessions.session import provider_names
from ortable.errors import OptionError
from ortable.interpreter.complex_numbers import transposed
from ortable.interpreter.control_flow import refuse_effects
from ortable.interpreter.numbers import scalars
from ortable.passes import pipeline
from ortable.prelude.complex_value import join_pair, part_type

from .inputs import InputPlan, check_inputs, check_type, declare_inputs, shape_of, strides_of
from .outputs import OutputPlan, graph_kind, plan_outputs
from .strides import contiguous_strides, dense_order, inverse
from .writers import is_marked

__all__ = ["CompiledGraph", "compile_graph", "read_names"]


def compile_graph(
    graph_module: GraphModule,
    options: OrtOptions,
    static: frozenset[int] = frozenset(),
    whole: GraphModule | None = None,
) -> CompiledGraph:
    """Converts an ATen graph whose nodes carry `meta["val"]`.

    :param static: positions of arguments that are parameters or buffers
    :param whole: the graph of which `graph_module` is a region, where it is one

    :raises FunctionNotFoundError: operators without a converter, all of them
    :raises ConversionError: an argument, a result or an operator that cannot be converted
    :raises ProviderError: tensors on a device that no provider of the options serves
    """
    from ortable.builder import GraphBuilder
    from ortable.interpreter import DynamoInterpreter

    begin = time.perf_counter()
    refuse_effects(graph_module)
    inputs = InputPlan(graph_module)
    options = devices.resolve(graph_module, options)
    providers = provider_names(options.providers)
    check_inputs(inputs, providers)
    outputs = plan_outputs(graph_module, inputs)
    body, copies = _body(graph_module, outputs)
    builder = GraphBuilder(
        target_opset(options.target_opset),
        target="onnxruntime",
        kernel_table=devices.kernel_table(providers),
    )
    interpreter = DynamoInterpreter(builder, module=graph_module)
    roles = declare_inputs(builder, inputs, interpreter, copies)
    interpreter.run(body, outputs=False)  # they are declared below
    fetches = tuple(
        _declare_output(builder, node, name, interpreter.values[copies[node]], node in outputs.kept)
        for node, name in zip(outputs.fetched, outputs.names, strict=True)
    )
    converted = time.perf_counter()
    passes = pipeline.chosen(options.optimize, options.rewrites)
    rewrites = pipeline.run_passes(builder, passes).rewrites
    optimized = time.perf_counter()
    # what runs is what the options ask for, and nothing else
    proto = builder.to_onnx(optimize=False)
    model = _transformed(proto, options.pre_ort_model_transforms)
    serialized = time.perf_counter()
    written = {mutation.source for mutation in outputs.mutations}
    return CompiledGraph(
        model=model,
        kind=graph_kind(whole or graph_module),
        inputs=tuple(
            replace(
                role,
                static=role.index in static and role.index not in written,
                written=is_marked(inputs.nodes[role.index]),
            )
            for role in roles
        ),
        outputs=tuple(outputs.roles),
        n_results=outputs.n_results,
        fetches=fetches,
        mutations=tuple(outputs.mutations),
        sources=inputs.sources,
        fed=frozenset(read_names(model.graph.node) | {v.name for v in model.graph.output}),
        device=devices.graph_device(graph_module),
        part=whole is not None,
        timings={
            "convert": converted - begin,
            "optimize": optimized - converted,
            "to_onnx": serialized - optimized,
        },
        rewrites=rewrites.counts(),
        refused=rewrites.refusals(),
        fx_names=_fx_names(interpreter.values, copies, outputs, fetches),
        checks=tuple(outputs.checks),
    )


def _fx_names(
    values: Mapping[Node, Any],
    copies: Mapping[Node, Node],
    outputs: OutputPlan,
    fetches: Sequence[Fetch],
) -> dict[str, str]:
    """Names of ONNX results (some may be optimized away) to names of the FX nodes whose values they
    are. An output has another name, and perhaps another layout, than the result it is made of."""
    found: dict[str, str] = {}
    for node, copy in copies.items():
        name = values.get(copy)
        if isinstance(name, str) and node.op != "placeholder":
            found.setdefault(name, node.name)
    for node, fetch in zip(outputs.fetched, fetches, strict=True):
        if fetch.permutation is None and isinstance(node.meta["val"], torch.Tensor):
            found[fetch.name] = node.name
    return found


def target_opset(asked: int | Mapping[str, int] | None) -> int | dict[str, int]:
    """The opsets of the model: those asked for, or the newest that ortable and ONNX Runtime run."""
    if asked is None:
        from ortable.ir.versions import ORT_MAX_OPSET

        return ORT_MAX_OPSET
    return asked if isinstance(asked, int) else dict(asked)


def _body(graph_module: GraphModule, outputs: OutputPlan) -> tuple[GraphModule, dict[Node, Node]]:
    """The part of the graph that ONNX Runtime runs: what `outputs.fetched` depends on, as a graph
    of its own without results, and the copies of the original nodes in it.
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
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph.output(tuple(copies[node] for node in outputs.fetched))
    return GraphModule(graph_module, graph), copies


def _declare_output(builder: Any, node: Node, name: str, result: Any, kept: bool) -> Fetch:
    """Makes the ONNX output `name` for `node`, in the memory order that torch promises when
    `kept`."""
    value = node.meta["val"]
    if isinstance(value, torch.SymFloat | torch.SymBool):
        number = scalars.adopt(builder, scalars.as_number(builder, result), value)
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
    order = dense_order(shape, strides) if kept else identity
    if order is not None and order != identity:
        result = transposed(builder, result, order)
        shape = tuple(shape[axis] for axis in order)
    full = shape
    if is_complex:
        result, full, elem_type = join_pair(builder, result), (*shape, 2), part_type(elem_type)
    _name_output(builder, result, name)
    builder.make_tensor_output(name, elem_type, full, indexed=False)
    device = devices.device_of(value)
    float8 = elem_type if elem_type in dtypes.FLOAT8_TYPES else None
    if order is None and strides != contiguous_strides(shape):
        return Fetch(name, is_bool, None, strides, is_complex, device, float8)
    permutation = None if order in (None, identity) else inverse(order)
    return Fetch(name, is_bool, permutation, None, is_complex, device, float8)


def _name_output(builder: Any, result: str, name: str) -> None:
    """Gives a result the name of an output; the identity pass renames what may be renamed."""
    builder.make_node("Identity", [result], [name])


def _transformed(model: ModelProto, transforms: Sequence[Any]) -> ModelProto:
    """The model after the user's transforms, in order."""
    for transform in transforms:
        changed = transform(model)
        if changed is None:
            continue
        if not isinstance(changed, ModelProto):
            raise OptionError(
                f"pre_ort_model_transforms: {transform!r} returned a {type(changed).__name__}; "
                "return a ModelProto, or None after changing it in place."
            )
        model = changed
    return model


def read_names(nodes: Iterable[NodeProto]) -> set[str]:
    """Names that nodes, or the subgraphs of one, read."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.input)
        for att in node.attribute:
            for inner in [att.g, *att.graphs] if att.HasField("g") else att.graphs:
                names |= read_names(inner.node) | {value.name for value in inner.output}
    return names
