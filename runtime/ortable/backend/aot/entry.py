"""The functions that the entry points `ortable` and `onnxrt` of the group `torch_dynamo_backends`
load. They make `torch.compile(model, backend="ortable")` work without an import of this package,
and let libraries name the backend that know a fixed list of names only."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from ortable.errors import OptionError

__all__ = ["onnxrt", "ortable"]


def ortable(
    gm: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles a graph of dynamo with ONNX Runtime, forward and backward.

    :param gm: the `torch.fx.GraphModule` that dynamo captured
    :param example_inputs: its inputs
    :param options: option names and values, see `ortable.OrtOptions`
    :param mode: torch.compile's mode: only None, ortable has none
    :raises OptionError: unknown option, wrong value, or a mode
    """
    from ortable.backend.options import OrtOptions

    from .wiring import compile_with_autograd

    if mode is not None:
        raise OptionError(
            f"ortable has no mode {mode!r}: modes belong to inductor. Remove it, and give what you "
            "want to change in options={...}."
        )
    return compile_with_autograd(gm, example_inputs, OrtOptions.from_mapping(options))


def onnxrt(gm: Any, example_inputs: Sequence[Any], **settings: Any) -> Callable[..., Any]:
    """The same under the name that PyTorch's former backend had, which accelerate, and with it the
    Trainer of transformers, still lists: `TrainingArguments(torch_compile_backend="onnxrt")`.

    Another installed distribution that registers the name has it: torch takes whichever it finds
    first, and this one hands over.  What torch itself registers comes before both.
    """
    return _onnxrt()(gm, example_inputs, **settings)


@functools.cache
def _onnxrt() -> Callable[..., Any]:
    """Who has the name `onnxrt`: somebody else, where there is one."""
    for found in entry_points(group="torch_dynamo_backends", name="onnxrt"):
        if found.value.partition(":")[0] != __name__:
            return found.load()  # type: ignore[no-any-return]
    return ortable
