"""`ortable.first_difference`: the first result of a compiled or exported model that differs from
eager's, with the entry of the specs that made it. In come a model and the arguments of a call, out
comes a `Comparison`; called by users and by `ortable debug`.

Every graph that torch.compile makes of the call runs in eager, node by node, beside its ONNX graph,
and hands eager's results on: what comes behind a difference is compared all the same with what
eager computes, and the backward with the tensors that eager's forward saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch

from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.options import OrtOptions
from ortable.compat.torch_explain import compiled_apart, innermost, own_profile

from .compare import AskedTolerance
from .comparing.graphs import Watch
from .comparing.records import Comparison
from .explain_state import copied_arguments, model_untouched, run_call

__all__ = ["first_difference"]


def first_difference(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    train: bool = False,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> Comparison:
    """Runs `model(*args, **kwargs)` through torch.compile and in eager, and finds the first result
    that differs: FX node, entry of the specs with file and line, module, line of the model.

    The call runs on copies of the arguments; the model keeps its buffers, gradients, mode and
    random numbers, as with `ortable.explain`.

    Args:
        model: a module or a function, compiled or not, in the mode it is in.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.
        train: with gradients: forward graphs and backward graphs.
        dynamic: as `torch.compile` has it.
        options: those of `torch.compile(..., backend="ortable", options=options)`.
        atol, rtol: how far floats may differ, `atol + rtol * abs(eager's)`; by dtype unless given.

    Returns:
        What was compared, and the first difference; true where there is none.

    Raises:
        OptionError: an unknown option, or a wrong value.
        OrtableError: an operator that cannot be converted.
    """
    chosen = replace(OrtOptions.from_mapping(options), hints=False, autotune=False)
    function = innermost(model)
    call = copied_arguments(tuple(args), dict(kwargs or {}))
    watch = Watch(AskedTolerance(atol, rtol))
    with ExitStack() as stack:
        stack.enter_context(model_untouched(function, call, train))
        stack.enter_context(own_profile())
        stack.enter_context(torch.compiler.set_stance("default"))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.set_grad_enabled(train))

        def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Any:
            return compile_with_autograd(graph_module, example_inputs, chosen, watch.runner)

        run_call(compiled_apart(function, backend, dynamic), call, train)
    return watch.comparison()
