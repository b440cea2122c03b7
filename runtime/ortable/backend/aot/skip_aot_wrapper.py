"""Call inference graphs directly if AOTAutograd's runtime wrapper would do nothing.

The wrapper takes about as long as a small session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.backend.execute.call import OrtBackend
from ortable.backend.lower.views import DETACH
from ortable.backend.roles import OutputRole, OutputRoleKind
from ortable.compat.torch import TracingContext, is_traceable_wrapper_subclass, pytree

from .compilation import Compilation


def store_metadata(
    compilation: Compilation, graph_module: GraphModule, arguments: Sequence[Any]
) -> None:
    """Store the last callable with AOTAutograd's metadata of its graph.

    The metadata is stored as None if the first call returns fake tensors, as DDPOptimizer requests
    for each submodule. None keeps AOTAutograd's wrapper, which handles that call.
    """
    context = TracingContext.try_get()
    has_metadata = context is not None and not context.fakify_first_call
    metadata = context.fw_metadata if has_metadata else None
    compilation.compiled.append((compilation.callables[-1], metadata))


def remove_wrapper(compilation: Compilation, wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Return a direct call of the only graph, or `wrapped` if AOTAutograd's wrapper is needed.

    The wrapper (torch 2.13, `_create_runtime_wrapper`) is not needed if

    - no argument is mutated or removed as a duplicate;
    - no argument has to be unpacked from a tensor subclass, and no result packed into one;
    - no result has dynamic sizes to mark or is a view to regenerate; views of arguments do not
      count, as the direct call returns them itself;
    - there are no effect tokens, no RNG states and no change of the grad mode.

    Args:
        compilation: the state of the compilation.
        wrapped: the callable that AOTAutograd returned.
    """
    if len(compilation.compiled) != 1:
        return wrapped
    compiled, metadata = compilation.compiled[0]
    writes_file = compilation.serialization_mode is not None
    free_tensors = () if writes_file else _free_tensors(compilation.graph_module)
    count = len(free_tensors) + len(compilation.args)
    if not isinstance(compiled, OrtBackend) or compiled.compiled.kind != "inference":
        return wrapped
    compiled_graph = compiled.compiled
    output_info = getattr(metadata, "output_info", ())
    described_outputs = zip(compiled_graph.outputs, output_info, strict=False)
    view_count = sum(
        _is_expected_alias(role, info, metadata.input_info) for role, info in described_outputs
    )
    if len(compiled_graph.inputs) != count or not is_wrapper_idle(
        compilation, metadata, count, view_count=view_count
    ):
        return wrapped
    if free_tensors:
        return compiled.with_fixed(free_tensors)

    def call(*args: Any) -> Any:
        return compiled(list(args))

    return call


def _free_tensors(graph_module: GraphModule) -> list[torch.Tensor]:
    """Return the parameters and buffers that dynamo left in the graph (`install_free_tensors`).

    AOTAutograd passes them before the arguments.
    """
    parameters = dict(graph_module.named_parameters(remove_duplicate=False))
    buffers = dict(graph_module.named_buffers(remove_duplicate=False))
    return [*parameters.values(), *buffers.values()]


def clear_boxed_mark(compilation: Compilation, call: Any) -> Any:
    """Clear `_boxed_call`, torch's mark of a callable that takes one list of arguments.

    AOTAutograd copies the mark from the callable that it wraps, and torch's accuracy minifier would
    then pass one list.
    """
    attributes = getattr(call, "__dict__", {})
    if attributes.get("_boxed_call"):
        attributes["_boxed_call"] = False
    return call


def _is_expected_alias(role: OutputRole, info: Any, input_info: Sequence[Any]) -> bool:
    """Whether a result is the alias of an argument that AOTAutograd expects.

    ``info`` is AOTAutograd's description of the result, ``input_info`` those of the arguments.
    """
    output_type = info.output_type.name
    if role.kind is OutputRoleKind.INPUT:
        return output_type == "is_input"
    if output_type != "alias_of_input" or role.kind is not OutputRoleKind.VIEW or role.fetch >= 0:
        return False
    if input_info[info.base_idx].requires_grad and not info.requires_grad:
        return False  # a view of a detached argument, whose steps may not tell
    # a detached tensor shares memory but is no view, whereas AOTAutograd expects an alias
    return all(step.op not in (DETACH, torch.ops.aten.alias.default) for step in role.steps)


def _has_subclass_values(compilation: Compilation) -> bool:
    """Whether an argument, a weight or a result of dynamo's graph is a wrapper subclass.

    AOTAutograd's metadata does not tell: torch 2.13 stores the metadata of the graph whose tensor
    subclasses are already unpacked. A result whose value is unknown counts as a subclass.
    """
    graph_module = compilation.graph_module
    values = [*compilation.args, *_free_tensors(graph_module)]
    for node in graph_module.graph.output_node().all_input_nodes:
        if "example_value" not in node.meta and "val" not in node.meta:
            return True
        values.append(node.meta.get("example_value", node.meta.get("val")))
    return any(is_traceable_wrapper_subclass(value) for value in pytree.tree_leaves(values))


def is_wrapper_idle(
    compilation: Compilation,
    metadata: Any,
    argument_count: int,
    check_dynamic_outputs: bool = True,
    view_count: int = 0,
) -> bool:
    """Whether AOTAutograd's wrapper of a graph only passes its arguments and results on.

    The wrapper may still record an autograd node if gradients are enabled.

    Args:
        compilation: the state of the compilation, with dynamo's graph and its arguments.
        metadata: AOTAutograd's metadata of the graph; the result is False for None.
        argument_count: the number of arguments of the graph.
        check_dynamic_outputs: whether marking results with dynamic sizes counts as work; dynamo
            needs the marks to compile users of the results with dynamic shapes.
        view_count: the number of results that the compiled graph returns as views of arguments.
    """
    if metadata is None:
        return False
    try:
        idle = not (
            metadata.num_mutated_inp_runtime_indices
            or metadata.num_mutated_graph_handled_indices
            or metadata.num_outputs_aliased > view_count
            or metadata.num_intermediate_bases
            or (check_dynamic_outputs and metadata.dynamic_outputs)
            or metadata.grad_enabled_mutation is not None
            or metadata.tokens
            or metadata.num_graphsafe_rng_states
            or metadata.is_rng_op_functionalized
        )
    except AttributeError:  # another torch version, whose wrapper may do more
        return False
    has_all_arguments = argument_count == len(metadata.input_info)
    return idle and has_all_arguments and not _has_subclass_values(compilation)
