"""Compiled graphs in torch's own cache of AOTAutograd, so that a later process neither traces
nor converts, forward or backward.

In comes a function that compiles, out comes a compiler whose results torch may keep; called by
`entry`. What torch pickles into its folder (`TORCHINDUCTOR_CACHE_DIR`) is the key of a
conversion, or those of the partitions of a graph and a description of what torch runs around
them; models stand in `cache_dir` alone. Torch's key does not know the backend: an attribute of
the graph module adds versions, options and the values of constants, so that nobody loads what
another backend or other options made."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.backend.cache import disk
from ortable.backend.cache.conversion import load_cached
from ortable.backend.cache.graph_key import Uncacheable, constant_text
from ortable.backend.cache.keys import disk_key
from ortable.backend.options import OrtOptions
from ortable.backend.partition.partitioned_graph import PartitionedGraph
from ortable.backend.roles import CompiledGraph
from ortable.compat.torch import (
    BypassAOTAutogradCache,
    FXGraphCacheMiss,
    OpOverload,
    OpOverloadPacket,
    OutputCode,
    SerializableAOTDispatchCompiler,
    functorch_config,
    unset_fake_temporarily,
)
from ortable.errors import OrtableError
from ortable.passes.rewrite.choose import content

from .build import Compiled
from .host_graph import HostGraph, decode_host_graph

__all__ = ["Artifact", "torch_cache"]


_SALT = "_ortable_cache_salt"
_NAMESPACES = frozenset({"aten", "prim", "prims"})  # operators that torch's version describes


@dataclass(frozen=True)
class Loader:
    """What a compilation in progress makes of a graph that torch's cache names: `run` takes its
    conversions, and what it is besides them, to a callable."""

    options: OrtOptions
    run: Callable[[Sequence[CompiledGraph], HostGraph | None], Compiled]


_loader: ContextVar[Loader | None] = ContextVar("ortable_loader", default=None)


class Artifact(OutputCode):
    """A compiled graph that torch can keep: pickled it is keys and a text, loaded it runs again.

    `keys` are those of its conversions, None where one has none; `text` describes a graph that runs
    partly in torch.
    """

    def __init__(self, run: Compiled, options: OrtOptions) -> None:
        super().__init__()
        self._time_taken_ns = 0  # torch subtracts it
        self._boxed_call = True  # on the object: dynamo copies `__dict__` only
        self.run: Compiled | None = run
        self.keys, self.text = _keys_and_text(run)
        self.options: OrtOptions | None = options

    def __call__(self, inputs: Sequence[Any]) -> Any:
        return self.run(inputs)  # type: ignore[misc]

    def prepare_for_serialization(self) -> None:
        """Called on a copy: leaves the keys and the text alone.

        :raises BypassAOTAutogradCache: a conversion is in no file, or the rest of the graph has no
            description, so that nobody could load it
        """
        folder = self.options.cache_dir if self.options is not None else None
        try:
            names = None if self.keys is None else list(map(disk_key, self.keys))
        except Uncacheable as exc:
            raise BypassAOTAutogradCache(str(exc)) from None
        if folder is None or names is None:
            raise BypassAOTAutogradCache("ortable cannot describe this graph in a file")
        if not all(disk.entry_path(folder, name).exists() for name in names):
            raise BypassAOTAutogradCache("ortable keeps this graph in no file")
        self.run = self.options = None

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Makes the graph run again, in the compilation that found it.

        :raises FXGraphCacheMiss: the folder has lost a model, or the text is not one of this
            version: torch compiles again
        """
        loader = _loader.get()
        if loader is None:
            raise OrtableError(
                "A graph that ortable compiled was loaded outside torch.compile: only the key of "
                "its model is in torch's cache. Compile with backend='ortable' and the same "
                "cache_dir."
            )
        keys = self.keys or ()
        try:
            host = None if self.text is None else decode_host_graph(self.text, len(keys))
        except Exception as exc:  # whatever a damaged text makes a reader raise
            raise FXGraphCacheMiss(f"not a description of a graph: {exc!r}") from exc
        found = []
        for key in keys:
            compiled = load_cached(key, loader.options)
            if compiled is None:
                raise FXGraphCacheMiss(f"{loader.options.cache_dir} has no model for {key}")
            found.append(compiled)
        self.options = loader.options
        with unset_fake_temporarily():
            self.run = loader.run(found, host)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Nothing: there are no Triton kernels."""


@contextlib.contextmanager
def torch_cache(
    graph_module: GraphModule,
    options: OrtOptions,
    load: Callable[[Sequence[CompiledGraph], HostGraph | None], Compiled],
    own_decompositions: bool,
    written: frozenset[int] = frozenset(),
) -> Iterator[Callable[[Callable[[GraphModule], Compiled]], Any]]:
    """AOTAutograd called inside looks for a graph of dynamo in torch's cache, and keeps it there.
    Yields what makes a compiler for it of a function.  Settings of torch are those of before on
    leaving.

    :param load: makes a callable of the conversions that torch's cache names
    :param own_decompositions: the decompositions are the user's
    :param written: positions of weights that stay inputs
    """
    salt = _salt(graph_module, options, own_decompositions, written)
    if salt is None:
        yield lambda compile_it: lambda gm, example_inputs: compile_it(gm)
        return
    setattr(graph_module, _SALT, salt)
    token = _loader.set(Loader(options, load))
    settings = {"bundled_autograd_cache": True, "force_non_lazy_backward_lowering": True}
    try:
        with functorch_config.patch(settings):
            yield lambda compile_it: _compiler(compile_it, options)
    finally:
        _loader.reset(token)
        delattr(graph_module, _SALT)


def _compiler(compile_it: Callable[[GraphModule], Compiled], options: OrtOptions) -> Any:
    """A compiler for AOTAutograd whose results torch's cache may keep."""

    def compile_graph(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Artifact:
        return Artifact(compile_it(graph_module), options)

    return SerializableAOTDispatchCompiler(Artifact, compile_graph)


def _keys_and_text(run: Compiled) -> tuple[tuple[str, ...] | None, str | None]:
    """Keys of the conversions that a callable runs, and the text of a graph of which torch runs a
    part; no keys (None) where another process could not make the callable from these."""
    text = None
    callables: tuple[Any, ...] = (run,)
    if isinstance(run, PartitionedGraph):
        text, callables = run.text, run.partitions
        if text is None:
            return None, None
    keys = []
    for each in callables:
        compiled = getattr(each, "compiled", None)
        if not isinstance(compiled, CompiledGraph) or compiled.device != "cpu":
            return None, None
        if compiled.key is None:
            return None, None
        keys.append(compiled.key)
    return tuple(keys), text


def _salt(
    graph_module: GraphModule,
    options: OrtOptions,
    own_decompositions: bool,
    written: frozenset[int],
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
    settings = [
        str(options.target_opset),
        options.optimize,
        content(options.rewrites),
        options.providers,
        options.raise_on,
        options.fallback,
        options.freeze,
        sorted(written),
    ]
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
