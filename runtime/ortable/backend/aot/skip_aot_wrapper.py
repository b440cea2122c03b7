"""Inference graphs for which AOTAutograd has nothing to do at run time: called without its
wrappers, which cost about as much as a small session."""

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


def note(compilation: Compilation, graph_module: GraphModule, arguments: Sequence[Any]) -> None:
    """Keep what was compiled last with the metadata of the graph that AOTAutograd compiles now.

    Without metadata where the first call is one with fake tensors, as DDPOptimizer makes of each
    of its pieces: a wrapper answers that call.
    """
    context = TracingContext.try_get()
    known = context is not None and not context.fakify_first_call
    metadata = context.fw_metadata if known else None
    compilation.compiled.append((compilation.made[-1], metadata))


def without_wrapper(compilation: Compilation, wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """What dynamo calls: `wrapped`, which AOTAutograd returned, or a function that calls the only
    graph with the same arguments and returns what it returns.

    The latter where `wrapped` would do nothing else (torch 2.13, `_create_runtime_wrapper`): no
    argument is written, dropped as a duplicate or taken apart; no result gets marks or is a view
    to be made again, which the call does itself of arguments; no token, no generator state and no
    change of the grad mode is carried.
    """
    if len(compilation.compiled) != 1:
        return wrapped
    compiled, metadata = compilation.compiled[0]
    fixed = _fixed(compilation.graph_module) if compilation.kept is None else ()
    count = len(fixed) + len(compilation.args)
    if not isinstance(compiled, OrtBackend) or compiled.compiled.kind != "inference":
        return wrapped
    roles = compiled.compiled
    pairs = zip(roles.outputs, getattr(metadata, "output_info", ()), strict=False)
    views = sum(_is_as_promised(role, info.output_type.name) for role, info in pairs)
    if len(roles.inputs) != count or not is_idle(metadata, count, views=views):
        return wrapped
    if fixed:
        return compiled.with_fixed(fixed)

    def call(*given: Any) -> Any:
        return compiled(list(given))

    return call


def _fixed(graph_module: GraphModule) -> list[torch.Tensor]:
    """Parameters and buffers that dynamo left in the graph (`install_free_tensors`), as AOTAutograd
    puts them in front of the arguments."""
    parameters = dict(graph_module.named_parameters(remove_duplicate=False))
    buffers = dict(graph_module.named_buffers(remove_duplicate=False))
    return [*parameters.values(), *buffers.values()]


def unboxed(compilation: Compilation, call: Any) -> Any:
    """The function, without the mark "takes one list": AOTAutograd copies it from what it wraps,
    and torch's minifier, which looks for differences, believes it."""
    held = getattr(call, "__dict__", {})
    if held.get("_boxed_call"):
        held["_boxed_call"] = False
    return call


def _is_as_promised(role: OutputRole, kind: str) -> bool:
    """Whether a result is the argument where it is to be that, a tensor of its own elsewhere."""
    if role.kind is OutputRoleKind.INPUT:
        return kind == "is_input"
    if kind != "alias_of_input" or role.kind is not OutputRoleKind.VIEW or role.fetch >= 0:
        return False
    # what detach makes shares memory and is no view; AOTAutograd traces it as an alias
    return all(step.op not in (DETACH, torch.ops.aten.alias.default) for step in role.steps)


def is_idle(metadata: Any, count: int, marks: bool = True, views: int = 0) -> bool:
    """Whether the wrapper around a graph has nothing to do but to hand on `count` arguments and the
    results, and to make a node of autograd of them where gradients may be asked for.

    :param marks: marks of results whose sizes may differ, from which dynamo compiles what comes
        behind for several sizes at once, count as something
    :param views: results that are views of arguments, and are returned as such
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
    plain = all(type(each).__name__ == _PLAIN for each in described)
    return idle and plain and count == len(metadata.input_info)
