"""Call inference graphs without AOTAutograd's wrappers where these have nothing to do; they cost
about as much as a small session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.backend.execute.call import OrtBackend
from ortable.backend.lower.views import DETACH
from ortable.backend.roles import OutputRole, OutputRoleKind
from ortable.compat.torch import TracingContext

from .compilation import Compilation

_PLAIN = "PlainTensorMeta"


def note_metadata(
    compilation: Compilation, graph_module: GraphModule, arguments: Sequence[Any]
) -> None:
    """Store the last callable with the metadata of the graph that AOTAutograd compiles now.

    Without metadata where the first call is one with fake tensors, as DDPOptimizer makes of each
    of its pieces: a wrapper answers that call.
    """
    context = TracingContext.try_get()
    has_metadata = context is not None and not context.fakify_first_call
    metadata = context.fw_metadata if has_metadata else None
    compilation.compiled.append((compilation.callables[-1], metadata))


def remove_wrapper(compilation: Compilation, wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Return `wrapped`, which AOTAutograd returned, or a function that calls the only graph
    directly.

    The latter where `wrapped` would do nothing else (torch 2.13, `_create_runtime_wrapper`): no
    argument is written, removed as a duplicate or unpacked; no result gets marks or is a view to be
    regenerated, except of arguments, which the call does itself; no token, no generator state and
    no change of the grad mode.
    """
    if len(compilation.compiled) != 1:
        return wrapped
    compiled, metadata = compilation.compiled[0]
    free = _free_tensors(compilation.graph_module) if compilation.serialize_for is None else ()
    count = len(free) + len(compilation.args)
    if not isinstance(compiled, OrtBackend) or compiled.compiled.kind != "inference":
        return wrapped
    roles = compiled.compiled
    pairs = zip(roles.outputs, getattr(metadata, "output_info", ()), strict=False)
    views = sum(_is_as_promised(role, info.output_type.name) for role, info in pairs)
    if len(roles.inputs) != count or not is_idle(metadata, count, views=views):
        return wrapped
    if free:
        return compiled.with_fixed(free)

    def call(*args: Any) -> Any:
        return compiled(list(args))

    return call


def _free_tensors(graph_module: GraphModule) -> list[torch.Tensor]:
    """Return parameters and buffers that dynamo left in the graph (`install_free_tensors`).

    AOTAutograd passes them before the arguments.
    """
    parameters = dict(graph_module.named_parameters(remove_duplicate=False))
    buffers = dict(graph_module.named_buffers(remove_duplicate=False))
    return [*parameters.values(), *buffers.values()]


def clear_boxed_mark(compilation: Compilation, call: Any) -> Any:
    """Clear the mark "takes one list": AOTAutograd copies it from what it wraps.

    torch's minifier, which looks for differences, would use it.
    """
    attributes = getattr(call, "__dict__", {})
    if attributes.get("_boxed_call"):
        attributes["_boxed_call"] = False
    return call


def _is_as_promised(role: OutputRole, kind: str) -> bool:
    """Whether a result is an argument where AOTAutograd says so, and a separate tensor
    elsewhere.
    """
    if role.kind is OutputRoleKind.INPUT:
        return kind == "is_input"
    if kind != "alias_of_input" or role.kind is not OutputRoleKind.VIEW or role.fetch >= 0:
        return False
    # what detach makes shares memory and is no view; AOTAutograd traces it as an alias
    return all(step.op not in (DETACH, torch.ops.aten.alias.default) for step in role.steps)


def is_idle(metadata: Any, count: int, marks: bool = True, views: int = 0) -> bool:
    """Whether the wrapper around a graph only passes on `count` arguments and the results.

    It may make a node of autograd of them where gradients may be requested.

    Args:
        marks: marks of results with dynamic sizes, from which dynamo compiles what follows with
            dynamic shapes, count as work.
        views: number of results that are views of arguments, and are returned as such.
    """
    if metadata is None:
        return False
    try:
        idle = not (
            metadata.num_mutated_inp_runtime_indices
            or metadata.num_mutated_graph_handled_indices
            or metadata.num_outputs_aliased > views
            or metadata.num_intermediate_bases
            or (marks and metadata.dynamic_outputs)
            or metadata.grad_enabled_mutation is not None
            or metadata.tokens
            or metadata.num_graphsafe_rng_states
            or metadata.is_rng_op_functionalized
        )
        described = [*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta]
    except AttributeError:  # another version of torch, which may have more to do
        return False
    plain = all(type(meta).__name__ == _PLAIN for meta in described)
    return idle and plain and count == len(metadata.input_info)
