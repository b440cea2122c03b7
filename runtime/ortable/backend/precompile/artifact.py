"""Artifacts of compiled graphs that torch stores, and that other processes load without tracing.

`aot.torch_cache` creates an `Artifact` for torch's AOTAutograd cache. Its pickle contains the keys
of conversions in `cache_dir`, or, if torch precompiles, the entire graph as bytes.
`aot.serialization` creates a `Precompiled` from AOTAutograd's result; torch receives it instead of
a compiled function when it writes files (`aot_compile`, TORCH_CACHING_PRECOMPILE).
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from ortable.backend.cache.envelope import seal_bytes, unseal_bytes
from ortable.backend.cache.keys import disk_key
from ortable.backend.cache.memory import conversions
from ortable.backend.execute.call import OrtBackend
from ortable.backend.options import OrtOptions
from ortable.backend.partition.host_graph import HostGraph, decode_host_graph
from ortable.backend.roles import CompiledGraph
from ortable.backend.store import Uncacheable
from ortable.compat.torch import (
    BackendCacheArtifact,
    BypassAOTAutogradCache,
    FXGraphCacheMiss,
    OutputCode,
    PrecompileContext,
    SerializableCallable,
    deserialize_bundled_cache_entry,
    find_installing_backend,
    functorch_config,
    unset_fake_temporarily,
)
from ortable.errors import OrtableError, PrecompileError

from .pack import digest_options, get_conversions, pack_graph, unpack_graph

Compiled = Callable[..., Any]


@dataclass(frozen=True)
class GraphLoader:
    """The options and the function by which a compilation restores a graph from torch's cache.

    `run` makes a callable of the conversions and of the host graph, the torch graph that calls them
    (None if the only conversion is the entire graph).
    """

    options: OrtOptions
    run: Callable[[Sequence[CompiledGraph], HostGraph | None], Compiled]


active_loader: ContextVar[GraphLoader | None] = ContextVar("ortable_loader", default=None)


class Artifact(OutputCode):
    """A compiled graph that torch can store, pickled as keys and a text or as `packed` bytes.

    `keys` are the keys of its conversions, or None if a conversion has none. `text` is the encoded
    host graph of a graph that runs partly in torch. `whole`: pickle the entire graph as bytes, for
    processes without this `cache_dir`.
    """

    kept_by_torch = True  # lets a pickler recognize the class without an import

    def __init__(self, run: Compiled, options: OrtOptions, whole: bool = False) -> None:
        super().__init__()
        self._time_taken_ns = 0  # torch reads it
        self._boxed_call = True  # an instance attribute, because dynamo copies only `__dict__`
        self.run: Compiled | None = run
        self.options: OrtOptions | None = options
        self.whole = whole
        self.packed: bytes | None = None
        self.keys, self.text = (None, None) if whole else _keys_and_text(run)

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Run the graph."""
        return self.run(inputs)  # type: ignore[misc]

    def prepare_for_serialization(self) -> None:
        """Drop everything but the keys and the text, or the bytes; torch calls this on a copy.

        Raises:
            BypassAOTAutogradCache: if a conversion is in no file, or the graph cannot be packed.
            PrecompileError: if the graph cannot be packed and torch sets `strict_autograd_cache`.
        """
        options = self.options
        assert options is not None
        if self.whole:
            self.packed = _pack_or_bypass(self.run, options)
        else:
            self._check_files(options.cache_dir)
        self.run = self.options = None

    def _check_files(self, folder: str | None) -> None:
        try:
            names = None if self.keys is None else list(map(disk_key, self.keys))
        except Uncacheable as exc:
            raise BypassAOTAutogradCache(str(exc)) from None
        if folder is None or names is None:
            raise BypassAOTAutogradCache("ortable cannot describe this graph in a file")
        if not all(conversions.path(folder, name).exists() for name in names):
            raise BypassAOTAutogradCache("cache_dir has no file of this graph")

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Restore the callable from the bytes, or from the keys and the text with `cache_dir`.

        Raises:
            FXGraphCacheMiss: if `cache_dir` has lost a model, or another version wrote the text;
                torch then compiles again.
            PrecompileError: if the bytes are damaged, or of other versions.
            OrtableError: if there are only keys, and no compilation is running.
        """
        active = active_loader.get()
        packed = self.packed
        if packed is not None:
            parts = unpack_graph(packed)
            with unset_fake_temporarily():
                self.run = (
                    parts.make_callable()
                    if active is None
                    else active.run(parts.conversions, parts.host)
                )
            self.options, self.packed = parts.options, None
            return
        if active is None:
            raise OrtableError(
                "A graph that ortable compiled was loaded outside torch.compile, but torch's cache "
                "has only the key of its model. Compile with backend='ortable' and the same "
                "cache_dir."
            )
        self._load_cached(active)

    def _load_cached(self, active: GraphLoader) -> None:
        from ortable.backend.cache.conversion import load_cached  # lazy: imports the conversion

        keys = self.keys or ()
        try:
            host = None if self.text is None else decode_host_graph(self.text, len(keys))
        except Exception as exc:  # a damaged text can raise anything
            raise FXGraphCacheMiss(f"not a description of a graph: {exc!r}") from exc
        graphs = [load_cached(key, active.options) for key in keys]
        if None in graphs:
            missing = keys[graphs.index(None)]
            raise FXGraphCacheMiss(f"{active.options.cache_dir} has no model for {missing}")
        self.options = active.options
        with unset_fake_temporarily():
            self.run = active.run([graph for graph in graphs if graph is not None], host)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Do nothing: there are no Triton kernels."""


def _pack_or_bypass(run: Any, options: OrtOptions) -> bytes:
    """Pack a graph; on failure bypass torch's cache, or raise with `strict_autograd_cache`."""
    try:
        return pack_graph(run, options)
    except OrtableError as exc:
        if functorch_config.strict_autograd_cache:
            raise
        raise BypassAOTAutogradCache(str(exc)) from exc


def _keys_and_text(run: Compiled) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the keys of the conversions of a callable, and the text of its host graph.

    The keys are None if another process could not restore the callable from them.
    """
    try:
        graphs, text = get_conversions(run)
    except OrtableError:
        return None, None
    keys = tuple(graph.key for graph in graphs if graph.key is not None)
    return (keys, text) if len(keys) == len(graphs) else (None, None)


class Precompiled(SerializableCallable):
    """One compiled function of dynamo, with its backward graph; `content()` returns its bytes."""

    def __init__(self, run: Callable[..., Any], content: Callable[[], bytes]) -> None:
        self.run = run
        self.content = content

    def __call__(self, *args: Any) -> Any:
        """Run the graph."""
        return self.run(*args)

    @classmethod
    def serialize_compile_artifacts(cls, fn: Any) -> bytes:
        """Return the bytes of a Precompiled.

        Raises:
            PrecompileError: if the graph or an option cannot be stored in a file.
        """
        return bytes(fn.content())

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> Precompiled:
        """Return the function with these bytes.

        Raises:
            PrecompileError: if the bytes are damaged, or not from ortable with the same versions.
        """
        return cls(_load_function(data), lambda: data)


def precompiled_content(
    direct: Any, serialize: Callable[[], Any] | None, options: OrtOptions
) -> Callable[[], bytes]:
    """Return a function that makes the bytes of a compiled function.

    Args:
        direct: the callable of the function's only graph; None if AOTAutograd wraps it.
        serialize: makes the entry of AOTAutograd's cache for the function.
        options: the options of the backend.
    """

    def make_content() -> bytes:
        if isinstance(direct, OrtBackend):
            return pack_graph(direct, options)
        if serialize is None:
            raise PrecompileError(
                "torch stored nothing of this graph that another process could load."
            ).with_advice(
                "What to do: leave torch's caches enabled (TORCHINDUCTOR_FORCE_DISABLE_CACHES, "
                "torch._functorch.config.enable_autograd_cache)."
            )
        pickled = io.BytesIO()
        _Pickler(pickled).dump(serialize())
        return seal_bytes("entry", {"digest_options": digest_options(options)}, pickled.getvalue())

    return make_content


def _of_torch(name: str) -> Any:
    return getattr(torch, name)


class _Pickler(pickle.Pickler):
    """Pickle memory formats by name, and reject graphs that were not prepared for pickling.

    If a graph is rejected, torch does not store the function, where it can continue without the
    file. Memory formats have no `__module__`, so pickle would find them in an arbitrary module that
    has imported torch.
    """

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.memory_format | torch.layout):
            return _of_torch, (str(value).removeprefix("torch."),)
        if getattr(type(value), "kept_by_torch", False) and value.run is not None:
            raise PrecompileError("A graph of this function cannot be serialized.")
        return NotImplemented


def _load_function(data: bytes) -> Callable[..., Any]:
    header, content = unseal_bytes(None, data)
    if header["kind"] == "graph":
        backend = unpack_graph(data).make_callable()

        def call(*args: Any) -> Any:
            return backend(list(args))

        return call
    unseal_bytes("entry", data)
    loaded: Callable[..., Any] = deserialize_bundled_cache_entry(pickle.loads(content))
    return loaded


@dataclass
class PrecompiledGraph(BackendCacheArtifact):  # type: ignore[misc]
    """A compiled function in dynamo's package; `content` are its bytes.

    The bytes are checked while torch reads the package: torch then warns of an error and compiles
    again. A later error, when the package is used, would end the program.
    """

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Check the bytes.

        Raises:
            PrecompileError: if the bytes are damaged, of other versions, or made with other options
                than the backend for which torch reads them.
        """
        self.__dict__.update(state)
        header, _ = unseal_bytes(None, self.content)
        options = _options_of_install()
        if options is not None and header.get("digest_options") != digest_options(options):
            raise PrecompileError("A compiled graph has other options of the backend.")

    def __deepcopy__(self, memo: Any) -> PrecompiledGraph:
        return self  # immutable

    def after_deserialization(self) -> Callable[..., Any]:
        """Return a callable that runs the function."""
        return Precompiled(_load_function(self.content), lambda: self.content)


def _options_of_install() -> OrtOptions | None:
    """Return the options of the backend for which torch loads a package; None if unknown."""
    backend = find_installing_backend()
    if backend is None:
        return None
    function, settings = backend
    module = getattr(function, "__module__", "") or ""
    if module.partition(".")[0] != "ortable":
        raise PrecompileError(
            f"ortable compiled this function, but it is loaded for the backend {function!r}."
        )
    return OrtOptions.from_mapping(settings.get("options"))


def record_for_dynamo(backend_id: str, content: Callable[[], bytes]) -> None:
    """Store these bytes in dynamo's package of the function that is being compiled."""
    PrecompileContext.record_artifact(PrecompiledGraph(backend_id, content()))
