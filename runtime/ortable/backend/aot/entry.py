"""Entry points of torch.compile: `ortable`, `onnxrt` and `onnx_custom_backend`.

The entry-point group `torch_dynamo_backends` lists the first two. `onnx_custom_backend` serves as
backend, or as compiler in the user's own call of `aot_autograd`: the graph shows which.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Unpack

from torch.fx import GraphModule

from ortable.backend.autotune.graphs import autotune_partition, make_torch_callable
from ortable.backend.execute.call import OrtBackend
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.lower.argument_marks import mark_argument_strides
from ortable.backend.lower.outputs import require_traced_strides
from ortable.backend.options import OrtOptions, OrtOptionsDict
from ortable.compat.torch import HigherOrderOperator, OpOverload, TracingContext
from ortable.compat.versions import check_versions
from ortable.errors import OptionError, OrtableError

from .build import Compiled, RunnerFactory, compile_aot_graph
from .compilation import Compilation
from .decompositions import apply_decompositions, user_decompositions
from .pipeline import compile_in_steps

_log = logging.getLogger(__name__)
_AUTOTUNE_MEANING = "means options={'autotune': True} in ortable: the faster of ONNX Runtime and "
_AUTOTUNE_MEANING += "torch runs each graph"
# mode of torch.compile -> its options, and the text of the log line that explains the mode
_MODES: dict[str, tuple[dict[str, Any], str]] = {
    "default": ({}, ""),
    "reduce-overhead": (
        {},
        "has no effect in ortable: a call runs no Python between the kernels of a graph, and only "
        "inductor has CUDA graphs",
    ),
    "max-autotune": ({"autotune": True}, _AUTOTUNE_MEANING),
    "max-autotune-no-cudagraphs": ({"autotune": True}, _AUTOTUNE_MEANING),
}
_logged_modes: set[str] = set()  # modes whose meaning was logged in this process


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
        example_inputs: the inputs of `gm`.
        options: option names and values, see `ortable.OrtOptions`.
        mode: the mode of torch.compile, which selects the closest options; `options` take
            precedence.

    Returns:
        The callable that torch calls in place of the graph.

    Raises:
        OptionError: if an option or the mode is unknown, or a value is wrong.
    """
    mode_options = options_of_mode(mode)
    mode_options = {
        name: value for name, value in mode_options.items() if name not in (options or ())
    }
    return compile_with_autograd(gm, example_inputs, OrtOptions.from_mapping(mode_options, options))


def options_of_mode(mode: str | None) -> dict[str, Any]:
    """Return the options closest to a mode of `torch.compile`, and log once what the mode means.

    Raises:
        OptionError: if no mode has this name.
    """
    if mode is None:
        return {}
    if mode not in _MODES:
        raise OptionError(
            f"ortable has no mode {mode!r}. Supported modes of torch.compile: "
            f"{', '.join(_MODES)}. Set other options with options={{...}}."
        )
    options, meaning = _MODES[mode]
    if meaning and mode not in _logged_modes:
        _logged_modes.add(mode)
        _log.warning("mode %r of torch.compile %s", mode, meaning)
    return dict(options)


def onnxrt(gm: Any, example_inputs: Sequence[Any], **settings: Any) -> Callable[..., Any]:
    """Compile with `ortable` under the name of PyTorch's former backend.

    accelerate still lists this name, so the Trainer of transformers accepts
    `TrainingArguments(torch_compile_backend="onnxrt")`. Another installed distribution may register
    the name too, and torch then picks either of them: this function calls the other distribution's
    backend. A backend that torch itself registers takes precedence over both.
    """
    return _find_onnxrt_backend()(gm, example_inputs, **settings)


@functools.cache
def _find_onnxrt_backend() -> Callable[..., Any]:
    """Return the `onnxrt` backend of another distribution, or `ortable` if there is none."""
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
        graph_module: the graph from dynamo (`backend=`) or AOTAutograd (`fw_compiler=`,
            `bw_compiler=`, `inference_compiler=`).
        args: the inputs of the graph.
        options: the same options as a dict.
        keywords: the options by name, those of `ortable.OrtOptions`.

    Returns:
        The callable that torch calls in place of the graph.

    Raises:
        OptionError: if an option is unknown or given twice, or a value is wrong.
        OrtableError: if it was called outside torch.compile.
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
    """Compile a graph of dynamo or AOTAutograd that torch passed to the function called `name`.

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
        table = user_decompositions(options)
        if table is not None:
            graph_module = apply_decompositions(graph_module, table)
        mark_argument_strides(graph_module, args)
        if options.autotune == "torch":
            return make_torch_callable(graph_module)
        require_traced_strides(graph_module)  # another compiler may compile the backward
        run = compile_aot_graph(graph_module, options, runner)
        if isinstance(run, OrtBackend):
            return autotune_partition(run, run.compiled, graph_module, options, whole=True)  # type: ignore[no-any-return]
        return run
    return compile_with_autograd(graph_module, args, options, runner)


def _is_aten(graph_module: GraphModule) -> bool:
    """Whether AOTAutograd made this graph: its placeholders have fake tensors under `val`.

    The metadata in the tracing context is not sufficient: if a backend is called twice for one
    graph of dynamo, the context may still hold the metadata of the earlier compilation.
    """
    operator_types = (OpOverload, HigherOrderOperator)
    for node in graph_module.graph.nodes:
        if node.op in ("call_method", "call_module"):
            return False
        if node.op == "placeholder" and "val" not in node.meta:
            return False
        if node.op == "call_function" and not isinstance(node.target, operator_types):
            return "val" in node.meta  # AOTAutograd keeps Python operators only for sizes
    return True


def compile_with_autograd(
    graph_module: GraphModule,
    args: Sequence[Any],
    options: OrtOptions,
    runner: RunnerFactory | None = None,
    compile_graph: Callable[[GraphModule, OrtOptions, RunnerFactory], Compiled] = compile_aot_graph,
) -> Compiled:
    """Compile a graph of dynamo by the steps of `pipeline`.

    AOTAutograd derives forward, backward or inference graphs from the graph of dynamo, and
    `compile_graph` compiles each of them.
    """
    run = runner or run_with_onnxruntime
    return compile_in_steps(Compilation(graph_module, args, options, run, compile_graph))
