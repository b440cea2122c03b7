"""Entry points of torch.compile: `ortable` and `onnxrt`, which the group
`torch_dynamo_backends` names, and `onnx_custom_backend`. The last one is a backend or a
compiler of the user's own AOTAutograd: the tracing context and the graph show which.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Unpack

from torch.fx import GraphModule

from ortable.backend.autotune.graphs import make_torch_callable, tune_part
from ortable.backend.execute.call import OrtBackend
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.lower.argument_marks import mark_argument_strides
from ortable.backend.lower.outputs import promise_strides
from ortable.backend.options import OrtOptions, OrtOptionsDict
from ortable.compat.torch import HigherOrderOperator, OpOverload, TracingContext
from ortable.compat.versions import check_versions
from ortable.errors import OptionError, OrtableError

from .build import Compiled, RunnerFactory, compile_aot_graph
from .compilation import Compilation
from .decompositions import apply_decompositions, user_table
from .pipeline import compile_in_steps

_log = logging.getLogger(__name__)
_TUNES = "means options={'autotune': True} here: each graph runs where it is faster, with ONNX "
_TUNES += "Runtime or with torch"
# By mode: the options, and what the mode means here.
_MODES: dict[str, tuple[dict[str, Any], str]] = {
    "default": ({}, ""),
    "reduce-overhead": (
        {},
        "changes nothing here: a call runs no Python between the kernels of a graph, and CUDA "
        "graphs are inductor's",
    ),
    "max-autotune": ({"autotune": True}, _TUNES),
    "max-autotune-no-cudagraphs": ({"autotune": True}, _TUNES),
}
_logged_modes: set[str] = set()  # modes, in this process


def ortable(
    gm: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph of dynamo with ONNX Runtime, forward and backward.

    Args:
        gm: the `torch.fx.GraphModule` that dynamo captured.
        example_inputs: its inputs.
        options: option names and values, see `ortable.OrtOptions`.
        mode: torch.compile's mode, which stands for the options that come nearest to it;
            `options` take precedence.

    Returns:
        What torch calls in place of the graph.

    Raises:
        OptionError: an unknown option, a wrong value, or an unknown mode.
    """
    nearest = options_of_mode(mode)
    nearest = {name: value for name, value in nearest.items() if name not in (options or ())}
    return compile_with_autograd(gm, example_inputs, OrtOptions.from_mapping(nearest, options))


def options_of_mode(mode: str | None) -> dict[str, Any]:
    """Get the options that come nearest to a mode of `torch.compile`, and log once what it means.

    Raises:
        OptionError: no mode has this name.
    """
    if mode is None:
        return {}
    if mode not in _MODES:
        raise OptionError(
            f"ortable knows no mode {mode!r}. Those of torch.compile that it takes: "
            f"{', '.join(_MODES)}. Give what else you want to change in options={{...}}."
        )
    options, meaning = _MODES[mode]
    if meaning and mode not in _logged_modes:
        _logged_modes.add(mode)
        _log.warning("mode %r of torch.compile %s", mode, meaning)
    return dict(options)


def onnxrt(gm: Any, example_inputs: Sequence[Any], **settings: Any) -> Callable[..., Any]:
    """Compile with `ortable` under the name of PyTorch's former backend.

    accelerate, and with it the Trainer of transformers, still lists the name:
    `TrainingArguments(torch_compile_backend="onnxrt")`. If another installed distribution registers
    it, this function calls that one: torch takes whichever it finds first. Backends that torch
    itself registers come before both.
    """
    return _find_onnxrt_backend()(gm, example_inputs, **settings)


@functools.cache
def _find_onnxrt_backend() -> Callable[..., Any]:
    """Find the backend of another distribution with the name `onnxrt`, or return `ortable`."""
    for entry_point in entry_points(group="torch_dynamo_backends", name="onnxrt"):
        if entry_point.value.partition(":")[0] != __name__:
            return entry_point.load()  # type: ignore[no-any-return]
    return ortable


def onnx_custom_backend(
    graph_module: GraphModule,
    args: Sequence[Any],
    *,
    options: OrtOptionsDict | Mapping[str, Any] | None = None,
    **keywords: Unpack[OrtOptionsDict],
) -> Compiled:
    """Run graphs with ONNX Runtime, as backend of `torch.compile` or as compiler of `aot_autograd`.

    Args:
        graph_module: the graph that dynamo or AOTAutograd hands over (`backend=`, or
            `fw_compiler=`, `bw_compiler=`, `inference_compiler=`).
        args: its inputs.
        options: the same options as a dict.
        keywords: the options by name, those of `ortable.OrtOptions`.

    Returns:
        What torch calls in place of the graph.

    Raises:
        OptionError: an unknown option, a wrong value, or one given twice.
        OrtableError: it was called outside torch.compile.
    """
    return compile_from_torch(
        graph_module,
        args,
        OrtOptions.from_mapping(keywords, options),
        run_with_onnxruntime,
        "onnx_custom_backend",
    )


def compile_from_torch(
    graph_module: GraphModule,
    args: Sequence[Any],
    options: OrtOptions,
    runner: RunnerFactory,
    name: str,
) -> Compiled:
    """Compile a graph of dynamo or AOTAutograd that torch handed to the function called `name`.

    `runner` makes a callable of each converted graph.
    """
    check_versions("torch", "onnx", "onnxruntime")
    context = TracingContext.try_get()
    if context is None:
        raise OrtableError(
            f"{name} was called outside torch.compile. Give it as torch.compile(model, "
            f"backend={name}) or as aot_autograd(fw_compiler={name}), and call the compiled model; "
            "ortable.to_onnx converts a model without running it."
        )
    if context.fw_metadata is not None and _is_aten(graph_module):
        table = user_table(options)
        if table is not None:
            graph_module = apply_decompositions(graph_module, table)
        mark_argument_strides(graph_module, args)
        if options.autotune == "torch":
            return make_torch_callable(graph_module)
        promise_strides(graph_module)  # anybody may compile the backward
        run = compile_aot_graph(graph_module, options, runner)
        if isinstance(run, OrtBackend):
            return tune_part(run, run.compiled, graph_module, options, whole=True)  # type: ignore[no-any-return]
        return run
    return compile_with_autograd(graph_module, args, options, runner)


def _is_aten(graph_module: GraphModule) -> bool:
    """Return whether AOTAutograd made this graph: its placeholders have fake tensors under `val`.

    The metadata of an earlier compilation may still be in the tracing context when a backend is
    called twice for one graph of dynamo, so it does not suffice.
    """
    kinds = (OpOverload, HigherOrderOperator)
    for node in graph_module.graph.nodes:
        if node.op in ("call_method", "call_module"):
            return False
        if node.op == "placeholder" and "val" not in node.meta:
            return False
        if node.op == "call_function" and not isinstance(node.target, kinds):
            return "val" in node.meta  # AOTAutograd leaves Python operators on sizes only
    return True


def compile_with_autograd(
    graph_module: GraphModule,
    args: Sequence[Any],
    options: OrtOptions,
    runner: RunnerFactory | None = None,
    compile_graph: Callable[[GraphModule, OrtOptions, RunnerFactory], Compiled] = compile_aot_graph,
) -> Compiled:
    """Compile a graph of dynamo by the steps of `pipeline`.

    AOTAutograd makes forward, backward or inference graphs of it, and `compile_graph` an ONNX model
    of each.
    """
    run = runner or run_with_onnxruntime
    return compile_in_steps(Compilation(graph_module, args, options, run, compile_graph))
