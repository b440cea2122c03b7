"""Store compiled graphs in torch's own cache of AOTAutograd, so that a later process neither
traces nor converts, forward or backward.

torch pickles into its folder (`TORCHINDUCTOR_CACHE_DIR`) the key of a conversion, or those of
the partitions of a graph and a description of what torch runs around them. Models are in
`cache_dir` only, except where torch precompiles: then it pickles all of them. Torch's key
does not include the backend: an attribute of the graph module adds versions, options and the
values of constants, so that no other backend or options reuse an entry.
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
    """Whether torch may store what is compiled: in a file, or in its cache, which needs
    `cache_dir`.
    """
    in_folder = compilation.is_native and compilation.options.cache_dir is not None
    # without a key of a folder in what torch keeps whole: nobody could load it
    return compilation.serialize_for is not None or (in_folder and precompile_mode() is None)


@contextlib.contextmanager
def use_torch_cache(compilation: Compilation) -> Iterator[None]:
    """Let AOTAutograd look up a graph of dynamo in torch's cache, and store it there.

    It uses `compilation.compiler`. Torch's settings are restored on leaving.
    """
    from ortable.backend.precompile.artifact import Loader, loader  # imports inductor
    from ortable.compat.torch import functorch_config

    salt = _compute_salt(compilation)
    if salt is None and compilation.serialize_for == "aot_compile":
        salt = secrets.token_hex(16)  # what goes into a file of the user needs no key
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
        set_context_var(loader, Loader(compilation.options, load_graph)),
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

    options, whole = compilation.options, compilation.serialize_for is not None

    def compile_graph(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Artifact:
        return Artifact(compile_it(graph_module, example_inputs), options, whole)

    return SerializableAOTDispatchCompiler(Artifact, compile_graph)


def _compute_salt(compilation: Compilation) -> str | None:
    """Digest versions, options that change a compiled graph, and constants of dynamo's graph.

    torch's key compares the constants by shape and type only. None for graphs that stay out of
    torch's cache: functions of the user, which no key compares, change them (transforms,
    decompositions, operators).
    """
    graph_module, options = compilation.graph_module, compilation.options
    if (
        compilation.decompositions is not None
        or options.pre_ort_model_transforms
        or not _has_torch_operators_only(graph_module)
    ):
        return None
    whole = [] if compilation.serialize_for is None else ["whole"]
    settings = [*option_settings(options), sorted(compilation.untracked_writes), *whole]
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
