"""A compiled graph that torch's cache of AOTAutograd keeps: pickled it is the keys of conversions
that stand in `cache_dir`, or, where torch precompiles, all of the graph as bytes; loaded it runs
again. Made by `aot.torch_cache`, pickled and loaded by torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ortable.backend.cache import disk
from ortable.backend.cache.conversion import load_cached
from ortable.backend.cache.graph_key import Uncacheable
from ortable.backend.cache.keys import disk_key
from ortable.backend.options import OrtOptions
from ortable.backend.partition.host_graph import HostGraph, decode_host_graph
from ortable.backend.roles import CompiledGraph
from ortable.compat.torch import (
    BypassAOTAutogradCache,
    FXGraphCacheMiss,
    OutputCode,
    functorch_config,
    unset_fake_temporarily,
)
from ortable.errors import OrtableError

from .pack import converted_graphs, pack, unpack

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
        if not all(disk.entry_path(folder, name).exists() for name in names):
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
        keys = self.keys or ()
        try:
            host = None if self.text is None else decode_host_graph(self.text, len(keys))
        except Exception as exc:  # whatever a damaged text makes a reader raise
            raise FXGraphCacheMiss(f"not a description of a graph: {exc!r}") from exc
        conversions = []
        for key in keys:
            compiled = load_cached(key, found.options)
            if compiled is None:
                raise FXGraphCacheMiss(f"{found.options.cache_dir} has no model for {key}")
            conversions.append(compiled)
        self.options = found.options
        with unset_fake_temporarily():
            self.run = found.run(conversions, host)

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
        conversions, text = converted_graphs(run)
    except OrtableError:
        return None, None
    keys = tuple(each.key for each in conversions if each.key is not None)
    return (keys, text) if len(keys) == len(conversions) else (None, None)
