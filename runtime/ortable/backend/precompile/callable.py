"""What torch gets instead of a compiled function when it precompiles (`aot_compile`,
TORCH_CACHING_PRECOMPILE): a callable that goes into a file and comes back from it in a process that
neither traces nor converts. Made by `aot.entry` of what AOTAutograd returned; saved, loaded and
called by torch."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ortable.backend.cache.envelope import seal, unseal
from ortable.backend.cache.session_keys import option_settings
from ortable.backend.execute.call import OrtBackend
from ortable.backend.options import OrtOptions
from ortable.compat.torch import (
    BackendCacheArtifact,
    PrecompileContext,
    SerializableCallable,
    backend_of_install,
)
from ortable.errors import PrecompileError

from .pack import kept_options, pack, unpack


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
        """
        :raises PrecompileError: the graph or an option cannot be kept in a file
        """
        return bytes(fn.content())

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> Precompiled:
        """
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
        header = {"made_with": made_with(options)}
        if isinstance(direct, OrtBackend):
            return seal("graph alone", header, pack(direct, options))
        if serialize is None:
            raise PrecompileError(
                "torch kept nothing of this graph that another process could load."
            ).advised(
                "What to do: leave torch's caches on (TORCHINDUCTOR_FORCE_DISABLE_CACHES, "
                "torch._functorch.config.enable_autograd_cache)."
            )
        pickled = io.BytesIO()
        _Pickler(pickled).dump(serialize())
        return seal("entry", header, pickled.getvalue())

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


def _check(data: bytes, options: OrtOptions | None) -> None:
    """"""
    header, _ = unseal(None, data)
    if options is not None and header.get("made_with") != made_with(options):
        raise PrecompileError("A compiled graph was made with other options of the backend.")


def _load(data: bytes) -> Callable[..., Any]:
    """The function whose bytes these are."""
    header, content = unseal(None, data)
    if header["kind"] == "graph alone":
        backend = unpack(bytes(content)).run()

        def call(*given: Any) -> Any:
            return backend(list(given))

        return call
    if header["kind"] != "entry":
        raise PrecompileError(f"A graph of kind {header['kind']!r} is a part of a function.")
    from ortable.compat.torch import deserialize_bundled_cache_entry  # imports inductor

    loaded: Callable[..., Any] = deserialize_bundled_cache_entry(pickle.loads(content))
    return loaded


def made_with(options: OrtOptions) -> str:
    """A digest of the options that change a compiled graph or how it runs."""
    settings = [option_settings(options), kept_options(options)]
    return hashlib.sha256(json.dumps(settings, default=repr).encode()).hexdigest()


@dataclass
class PrecompiledGraph(BackendCacheArtifact):  # type: ignore[misc]
    """A compiled function in dynamo's package: `content` are its bytes.

    They are checked while torch reads the package: what is raised there is a warning, and torch
    compiles again; what is raised when a package is put to use ends the program.
    """

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """
        :raises PrecompileError: the bytes are damaged, of other versions, or made with other
            options than those of the backend for which torch reads them
        """
        self.__dict__.update(state)
        _check(self.content, _options_wanted())

    def __deepcopy__(self, memo: Any) -> PrecompiledGraph:
        return self  # nobody changes it

    def after_deserialization(self) -> Callable[..., Any]:
        """What runs the function."""
        return Precompiled(_load(self.content), lambda: self.content)


def _options_wanted() -> OrtOptions | None:
    """The options of the backend for which torch loads a package now; None where that cannot be
    told.

    :raises PrecompileError: another backend
    """
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
