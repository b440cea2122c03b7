"""What torch keeps of a compiled graph, and loads in a process that neither traces nor converts.

An Artifact stands in its cache of AOTAutograd: pickled it is the keys of conversions that stand in
`cache_dir`, or, where torch precompiles, all of the graph as bytes; made by `aot.torch_cache`. A
Precompiled is what torch gets instead of a compiled function where it makes files (`aot_compile`,
TORCH_CACHING_PRECOMPILE); made by `aot.keep` of what AOTAutograd returned."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from ortable.backend.cache.envelope import seal, unseal
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
    backend_of_install,
    deserialize_bundled_cache_entry,
    functorch_config,
    unset_fake_temporarily,
)
from ortable.errors import OrtableError, PrecompileError

from .pack import converted_graphs, made_with, pack, unpack

Compiled = Callable[..., Any]


@dataclass(frozen=True)
class Loader:
    """What a compilation in progress makes of a graph that torch's cache names: `run` takes its
    conversions, and what it is besides them, to a callable."""

    options: OrtOptions
    run: Callable[[Sequence[CompiledGraph], HostGraph | None], Compiled]


loader: ContextVar[Loader | None] = ContextVar("ortable_loader", default=None)


class Artifact(OutputCode):
    """A compiled graph that torch can keep: pickled it is keys and a text, or `packed` whole;
    loaded it runs again.

    `keys` are those of its conversions, None where one has none; `text` describes a graph that runs
    partly in torch. `whole` says that other processes have no `cache_dir` to read.
    """

    kept_by_torch = True  # for picklers, which need not import this module

    def __init__(self, run: Compiled, options: OrtOptions, whole: bool = False) -> None:
        super().__init__()
        self._time_taken_ns = 0  # torch subtracts it
        self._boxed_call = True  # on the object: dynamo copies `__dict__` only
        self.run: Compiled | None = run
        self.options: OrtOptions | None = options
        self.whole = whole
        self.packed: bytes | None = None
        self.keys, self.text = (None, None) if whole else _keys_and_text(run)

    def __call__(self, inputs: Sequence[Any]) -> Any:
        return self.run(inputs)  # type: ignore[misc]

    def prepare_for_serialization(self) -> None:
        """Called on a copy: leaves the keys and the text alone, or the bytes.

        :raises BypassAOTAutogradCache: a conversion is in no file, or the rest of the graph has no
            description, so that nobody could load it
        :raises PrecompileError: the same, where torch was asked for bytes and for nothing else
        """
        options = self.options
        assert options is not None
        if self.whole:
            self.packed = _packed(self.run, options)
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
            raise BypassAOTAutogradCache("ortable keeps this graph in no file")

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Makes the graph run again, in the compilation that found it, or from its bytes anywhere.

        :raises FXGraphCacheMiss: the folder has lost a model, or the text is not one of this
            version: torch compiles again
        :raises PrecompileError: the bytes are damaged, or of other versions
        """
        found = loader.get()
        packed = self.packed
        if packed is not None:
            parts = unpack(packed)
            with unset_fake_temporarily():
                self.run = (
                    parts.run() if found is None else found.run(parts.conversions, parts.host)
                )
            self.options, self.packed = parts.options, None
            return
        if found is None:
            raise OrtableError(
                "A graph that ortable compiled was loaded outside torch.compile: only the key of "
                "its model is in torch's cache. Compile with backend='ortable' and the same "
                "cache_dir."
            )
        self._load(found)

    def _load(self, found: Loader) -> None:
        from ortable.backend.cache.conversion import load_cached  # imports what converts

        keys = self.keys or ()
        try:
            host = None if self.text is None else decode_host_graph(self.text, len(keys))
        except Exception as exc:  # whatever a damaged text makes a reader raise
            raise FXGraphCacheMiss(f"not a description of a graph: {exc!r}") from exc
        graphs = [load_cached(key, found.options) for key in keys]
        if None in graphs:
            missing = keys[graphs.index(None)]
            raise FXGraphCacheMiss(f"{found.options.cache_dir} has no model for {missing}")
        self.options = found.options
        with unset_fake_temporarily():
            self.run = found.run([each for each in graphs if each is not None], host)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Nothing: there are no Triton kernels."""


def _packed(run: Any, options: OrtOptions) -> bytes:
    """`pack`, whose refusal torch takes for what it is: an error where the caller wants nothing but
    the bytes, else a graph that stays out of the cache."""
    try:
        return pack(run, options)
    except OrtableError as exc:
        if functorch_config.strict_autograd_cache:
            raise
        raise BypassAOTAutogradCache(str(exc)) from exc


def _keys_and_text(run: Compiled) -> tuple[tuple[str, ...] | None, str | None]:
    """Keys of the conversions that a callable runs, and the text of a graph of which torch runs a
    part; no keys (None) where another process could not make the callable from these."""
    try:
        graphs, text = converted_graphs(run)
    except OrtableError:
        return None, None
    keys = tuple(each.key for each in graphs if each.key is not None)
    return (keys, text) if len(keys) == len(graphs) else (None, None)


class Precompiled(SerializableCallable):
    """One graph of dynamo, compiled, forward and backward: called with its arguments, and saved as
    `content()`."""

    def __init__(self, run: Callable[..., Any], content: Callable[[], bytes]) -> None:
        self.run = run
        self.content = content

    def __call__(self, *args: Any) -> Any:
        return self.run(*args)

    @classmethod
    def serialize_compile_artifacts(cls, fn: Any) -> bytes:
        """Its bytes.

        :raises PrecompileError: the graph or an option cannot be kept in a file
        """
        return bytes(fn.content())

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> Precompiled:
        """The function whose bytes these are.

        :raises PrecompileError: ortable did not write this, or other versions did, or it is damaged
        """
        return cls(_load(data), lambda: data)


def precompiled_content(
    direct: Any, serialize: Callable[[], Any] | None, options: OrtOptions
) -> Callable[[], bytes]:
    """What makes the bytes of a compiled function.

    :param direct: the OrtBackend that the function calls and returns the results of, None where
        AOTAutograd does something around it
    :param serialize: makes the entry of AOTAutograd's cache that describes all that
    """

    def content() -> bytes:
        if isinstance(direct, OrtBackend):
            return pack(direct, options)
        if serialize is None:
            raise PrecompileError(
                "torch kept nothing of this graph that another process could load."
            ).advised(
                "What to do: leave torch's caches on (TORCHINDUCTOR_FORCE_DISABLE_CACHES, "
                "torch._functorch.config.enable_autograd_cache)."
            )
        pickled = io.BytesIO()
        _Pickler(pickled).dump(serialize())
        return seal("entry", {"made_with": made_with(options)}, pickled.getvalue())

    return content


def _of_torch(name: str) -> Any:
    """What torch has under a name."""
    return getattr(torch, name)


class _Pickler(pickle.Pickler):
    """Refuses graphs that were not prepared for it: torch goes on with these where it may. Formats
    of memory say no module of theirs, and pickle would name any that has imported torch."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.memory_format | torch.layout):
            return _of_torch, (str(value).removeprefix("torch."),)
        if getattr(type(value), "kept_by_torch", False) and value.run is not None:
            raise PrecompileError("A graph of this function cannot be kept for another process.")
        return NotImplemented


def _load(data: bytes) -> Callable[..., Any]:
    """The function whose bytes these are."""
    header, content = unseal(None, data)
    if header["kind"] == "graph":
        backend = unpack(data).run()

        def call(*given: Any) -> Any:
            return backend(list(given))

        return call
    unseal("entry", data)
    loaded: Callable[..., Any] = deserialize_bundled_cache_entry(pickle.loads(content))
    return loaded


@dataclass
class PrecompiledGraph(BackendCacheArtifact):  # type: ignore[misc]
    """A compiled function in dynamo's package: `content` are its bytes.

    They are checked while torch reads the package: what is raised there is a warning, and torch
    compiles again; what is raised when a package is put to use ends the program.
    """

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Check the bytes.

        :raises PrecompileError: they are damaged, of other versions, or made with other options
            than those of the backend for which torch reads them
        """
        self.__dict__.update(state)
        header, _ = unseal(None, self.content)
        options = _options_wanted()
        if options is not None and header.get("made_with") != made_with(options):
            raise PrecompileError("A compiled graph was made with other options of the backend.")

    def __deepcopy__(self, memo: Any) -> PrecompiledGraph:
        return self  # nobody changes it

    def after_deserialization(self) -> Callable[..., Any]:
        """What runs the function."""
        return Precompiled(_load(self.content), lambda: self.content)


def _options_wanted() -> OrtOptions | None:
    """The options of the backend for which torch loads a package now; None where that cannot be
    told."""
    backend = backend_of_install()
    if backend is None:
        return None
    function, settings = backend
    home = getattr(function, "__module__", "") or ""
    if home.partition(".")[0] != "ortable":
        raise PrecompileError(
            f"ortable compiled this function, and the backend now is {function!r}."
        )
    return OrtOptions.from_mapping(settings.get("options"))


def record_for_dynamo(backend_id: str, content: Callable[[], bytes]) -> None:
    """Has dynamo's package of the function that is compiled now hold these bytes."""
    PrecompileContext.record_artifact(PrecompiledGraph(backend_id, content()))
