"""The function that the entry point `ortable` of the group `torch_dynamo_backends` loads.
It makes `torch.compile(model, backend="ortable")` work without an import of this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ortable.errors import OptionError

__all__ = ["ortable"]


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
    from .options import OrtOptions
    from .wiring import compile_with_autograd

    if mode is not None:
        raise OptionError(
            f"ortable has no mode {mode!r}: modes belong to inductor. Remove it, and give what you "
            "want to change in options={...}."
        )
    return compile_with_autograd(gm, example_inputs, OrtOptions.from_mapping(options))
