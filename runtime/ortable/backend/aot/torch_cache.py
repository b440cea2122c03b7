"""Store compiled graphs in torch's own AOTAutograd cache.

A later process then neither traces nor converts the forward or backward graph. In its folder
(`TORCHINDUCTOR_CACHE_DIR`) torch pickles the key of a conversion. For a partitioned graph torch
pickles the keys of all partitions and a description of the host graph, which calls the partitions.
The models are stored only in `cache_dir`, but precompilation pickles them too. torch's cache key
does not include the backend. Therefore an attribute of the graph module adds versions, options and
the values of constants to the key.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.backend.cache.graph_key import constant_text
from ortable.backend.cache.keys import disk_key, option_settings
from ortable.backend.partition.host_graph import NAMESPACES, HostGraph
from ortable.backend.roles import CompiledGraph
from ortable.backend.store import Uncacheable
from ortable.compat.scoped_patch import restore_on_exit, set_context_var
from ortable.compat.torch import (
    OpOverload,
    OpOverloadPacket,
    precompile_mode,
    unset_fake_temporarily,
)

from .build import load_compiled
from .compilation import Compilation, Compiled

_SALT = "_ortable_cache_salt"


def is_used(compilation: Compilation) -> bool:
    """Whether torch may store the compiled graphs, in a file or (with `cache_dir`) in its cache."""
    in_folder = compilation.is_native and compilation.options.cache_dir is not None
    # a precompiled package must not contain keys of a folder that other processes may not have
    return compilation.serialization_mode is not None or (in_folder and precompile_mode() is None)


@contextlib.contextmanager
def use_torch_cache(compilation: Compilation) -> Iterator[None]:
    """Let AOTAutograd look up a graph of dynamo in torch's cache, and store it there.

    This sets `compilation.compiler`. torch's settings are restored on exit.
    """
    from ortable.backend.precompile.artifact import GraphLoader, active_loader  # imports inductor
    from ortable.compat.torch import functorch_config

    salt = _compute_salt(compilation)
    if salt is None and compilation.serialization_mode == "aot_compile":
        salt = secrets.token_hex(16)  # any value: aot_compile looks up no key
    if salt is None:
        yield
        return

    def load_graph(conversions: Sequence[CompiledGraph], host: HostGraph | None) -> Compiled:
        run = load_compiled(conversions, host, compilation.options, compilation.runner)
        compilation.callables.append(run)
        return run

    graph_module = compilation.graph_module
    settings = {"bundled_autograd_cache": True, "force_non_lazy_backward_lowering": True}
    with (
        restore_on_exit(lambda: vars(graph_module).pop(_SALT, None)),
        set_context_var(active_loader, GraphLoader(compilation.options, load_graph)),
        functorch_config.patch(settings),
    ):
        setattr(graph_module, _SALT, salt)
        compilation.compiler = lambda compile_it: _make_serializing_compiler(
            compile_it, compilation
        )
        yield


def _make_serializing_compiler(compile_it: Compiled, compilation: Compilation) -> Any:
    """Make a compiler for AOTAutograd whose results torch's cache may store."""
    from ortable.backend.precompile.artifact import Artifact
    from ortable.compat.torch import SerializableAOTDispatchCompiler

    options, is_self_contained = compilation.options, compilation.serialization_mode is not None

    def compile_graph(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Artifact:
        return Artifact(compile_it(graph_module, example_inputs), options, is_self_contained)

    return SerializableAOTDispatchCompiler(Artifact, compile_graph)


def _compute_salt(compilation: Compilation) -> str | None:
    """Return a digest of versions, options and constants; None if torch must not cache the graph.

    torch's key compares the constants by shape and type only. Graphs that user functions change
    (transforms, decompositions, operators) are not cached, because no key compares the functions.
    """
    graph_module, options = compilation.graph_module, compilation.options
    if (
        compilation.decompositions is not None
        or options.pre_ort_model_transforms
        or not _has_torch_operators_only(graph_module)
    ):
        return None
    content_settings = [] if compilation.serialization_mode is None else ["whole"]
    settings = [*option_settings(options), sorted(compilation.untracked_writes), *content_settings]
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
    """Whether all operators of a graph are torch's own, which torch's version determines."""
    return all(
        str(node.target).partition(".")[0] in NAMESPACES
        for module in graph_module.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
        if isinstance(node.target, OpOverload | OpOverloadPacket)
    )
