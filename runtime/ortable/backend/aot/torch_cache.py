"""Compiled graphs in torch's own cache of AOTAutograd, so that a later process neither traces
nor converts, forward or backward.

In comes a function that compiles, out comes a compiler whose results torch may keep; called by
`entry`. What torch pickles into its folder (`TORCHINDUCTOR_CACHE_DIR`) is the key of a
conversion, or those of the partitions of a graph and a description of what torch runs around
them; models stand in `cache_dir` alone, but where torch precompiles: then it pickles all of them.
Torch's key does not know the backend: an attribute of the graph module adds versions, options and
the values of constants, so that nobody loads what another backend or other options made."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.backend.cache.graph_key import Uncacheable, constant_text
from ortable.backend.cache.keys import disk_key
from ortable.backend.cache.session_keys import option_settings
from ortable.backend.options import OrtOptions
from ortable.backend.precompile.artifact import Artifact, Loader, loader
from ortable.backend.precompile.host_graph import HostGraph
from ortable.backend.roles import CompiledGraph
from ortable.compat.torch import (
    OpOverload,
    OpOverloadPacket,
    SerializableAOTDispatchCompiler,
    functorch_config,
    unset_fake_temporarily,
)
from ortable.compat.undone import undone, value_set

from .build import Compiled

__all__ = ["torch_cache"]


_SALT = "_ortable_cache_salt"
CompileGraph = Callable[[GraphModule, Sequence[Any]], Compiled]
_NAMESPACES = frozenset({"aten", "prim", "prims"})  # operators that torch's version describes


@contextlib.contextmanager
def torch_cache(
    graph_module: GraphModule,
    options: OrtOptions,
    load: Callable[[Sequence[CompiledGraph], HostGraph | None], Compiled],
    own_decompositions: bool,
    written: frozenset[int] = frozenset(),
    precompiles: str | None = None,
) -> Iterator[Callable[[CompileGraph], Any]]:
    """AOTAutograd called inside looks for a graph of dynamo in torch's cache, and keeps it there.
    Yields what makes a compiler for it of a function.  Settings of torch are those of before on
    leaving.

    :param load: makes a callable of the conversions that torch's cache names
    :param own_decompositions: the decompositions are the user's
    :param written: positions of weights that stay inputs
    :param precompiles: what makes files of compiled graphs now (`precompiles` of compat); None:
        torch's cache alone, whose entries name those of `cache_dir`
    """
    whole = precompiles is not None
    salt = _salt(graph_module, options, own_decompositions, written, whole)
    if salt is None and precompiles == "aot_compile":
        salt = secrets.token_hex(16)  # what goes into a file of the user needs no key
    if salt is None:
        yield lambda compile_it: compile_it
        return
    settings = {"bundled_autograd_cache": True, "force_non_lazy_backward_lowering": True}
    with (
        undone(lambda: vars(graph_module).pop(_SALT, None)),
        value_set(loader, Loader(options, load)),
        functorch_config.patch(settings),
    ):
        setattr(graph_module, _SALT, salt)
        yield lambda compile_it: _compiler(compile_it, options, whole)


def _compiler(compile_it: CompileGraph, options: OrtOptions, whole: bool = False) -> Any:
    """A compiler for AOTAutograd whose results torch's cache may keep."""

    def compile_graph(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Artifact:
        return Artifact(compile_it(graph_module, example_inputs), options, whole)

    return SerializableAOTDispatchCompiler(Artifact, compile_graph)


def _salt(
    graph_module: GraphModule,
    options: OrtOptions,
    own_decompositions: bool,
    written: frozenset[int],
    whole: bool,
) -> str | None:
    """Versions, the options that change a compiled graph, and the constants of dynamo's graph,
    which torch's key compares by shape and type only.

    None for graphs that stay out of torch's cache: functions of the user, which no key compares,
    change what becomes of them (transforms, decompositions, operators).
    """
    if (
        own_decompositions
        or options.pre_ort_model_transforms
        or not _has_torch_operators_only(graph_module)
    ):
        return None
    settings = [*option_settings(options), sorted(written), *(["whole"] if whole else [])]
    try:
        with unset_fake_temporarily():
            constants = [
                f"{path}.{name} {constant_text(value)}"
                for path, module in graph_module.named_modules()
                for values in (vars(module), module._parameters, module._buffers)
                for name, value in values.items()
                if isinstance(value, torch.Tensor)
            ]
        key = disk_key(json.dumps(settings, default=repr))
    except Uncacheable:
        return None
    return hashlib.sha256(f"{key} {constants}".encode()).hexdigest()


def _has_torch_operators_only(graph_module: GraphModule) -> bool:
    """Whether all operators of a graph are torch's own, which torch's version describes."""
    return all(
        str(node.target).partition(".")[0] in _NAMESPACES
        for module in graph_module.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
        if isinstance(node.target, OpOverload | OpOverloadPacket)
    )
