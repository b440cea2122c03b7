"""Sessions of ONNX Runtime: threads as torch has them, settings applied by name, providers
checked when it runs."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from ortable.compat.bisector import optimizers_off
from ortable.compat.providers import apply_settings, check_providers
from ortable.errors import OptionError, ProviderError
from ortable.interpreter.diagnostics.runtime_errors import locate_error

# Providers that ONNX Runtime asks for all their options; others may report a part of them.
_REPORT_ALL = ("AzureExecutionProvider", "CPUExecutionProvider", "CUDAExecutionProvider")


def check_session(session: Any, providers: Sequence[Any]) -> None:
    """Refuses what ONNX Runtime only warns of or ignores: a provider that could not start (its
    libraries are missing), an option that it does not know.

    :raises ProviderError: a provider did not start
    :raises OptionError: an option that a provider does not have
    """
    running = session.get_providers()
    for given in providers:
        name, settings = (given, {}) if isinstance(given, str) else given
        if name not in running:
            raise ProviderError(
                f"Execution provider {name!r} could not start; the session has "
                f"{', '.join(running)}. Its libraries are missing or of another version, or there "
                "is no such device: what ONNX Runtime wrote to the error stream tells which. "
                "onnxruntime.preload_dlls() loads CUDA and cuDNN from their Python packages."
            )
        known = session.get_provider_options().get(name, {})
        _check_stream(name, settings, known)
        unknown = sorted(set(settings) - set(known))
        if unknown and name in _REPORT_ALL:
            listed = f"known: {', '.join(sorted(known))}" if known else "it has none"
            raise OptionError(
                f"Execution provider {name!r} has no option {', '.join(unknown)}; {listed}."
            )


def _check_stream(name: str, settings: Mapping[str, Any], reported: Mapping[str, str]) -> None:
    """Fails when a session does not run on the stream it was given: nothing would be ordered."""
    wanted, got = settings.get("user_compute_stream"), reported.get("user_compute_stream")
    if wanted is not None and got is not None and int(got) != int(wanted):
        raise ProviderError(
            f"Execution provider {name!r} did not take torch's stream {wanted}, but {got}: its "
            "results would not be ordered with torch's. Update onnxruntime, or move model and "
            "inputs to the CPU."
        )


def make_run_options(given: Any) -> Any:
    """The RunOptions of every call: the user's object, or a new one with the user's settings."""
    import onnxruntime

    if given is None or isinstance(given, Mapping):
        options = onnxruntime.RunOptions()
        apply_settings(options, given or {}, "run_options", options.add_run_config_entry)
        return options
    return given


def _has_double(part: GraphProto | FunctionProto) -> bool:
    """Whether a value of float64, whose factors MatMulScaleFusion would round, stands anywhere in a
    graph or function, or is made there by a cast, a constant or a random operator."""
    if isinstance(part, GraphProto):
        values = [*part.input, *part.output, *part.value_info]
        types = [value.type.tensor_type.elem_type for value in values]
        if TensorProto.DOUBLE in (*types, *(each.data_type for each in part.initializer)):
            return True
    return any(_makes_double(att) for node in part.node for att in node.attribute)


def _makes_double(attribute: AttributeProto) -> bool:
    if attribute.type == AttributeProto.GRAPH:
        return _has_double(attribute.g)
    if attribute.type == AttributeProto.TENSOR:
        return bool(attribute.t.data_type == TensorProto.DOUBLE)
    # `to` of Cast, `dtype` of EyeLike and of what draws random numbers
    return attribute.name in ("to", "dtype") and attribute.i == TensorProto.DOUBLE


def _harmful_optimizers(model: ModelProto) -> list[str]:
    """Optimizers of ONNX Runtime that do not keep the meaning of this model, by name: see
    docs/optimizers.md."""
    from ortable_generated.optimizers import DISABLED, DISABLED_FOR

    found = list(DISABLED)
    if any(map(_has_double, (model.graph, *model.functions))):
        found += DISABLED_FOR["float64"]
    # The passes leave no signed codes of activations; without them they are there.
    if _has_signed(model):
        found += DISABLED_FOR["int8 activations"]
    return found


def _has_signed(model: ModelProto) -> bool:
    """Whether activations are quantized to int8, or to codes of a dtype that the model does not
    say."""
    graph = model.graph
    known = {each.name: each.data_type for each in graph.initializer}
    for value in (*graph.input, *graph.value_info):
        known[value.name] = value.type.tensor_type.elem_type
    for node in graph.node:
        if node.op_type == "Constant":
            known.update((node.output[0], att.t.data_type) for att in node.attribute)
    return any(
        _codes(node, known) in (TensorProto.INT8, TensorProto.UNDEFINED)
        for node in graph.node
        if node.op_type == "QuantizeLinear"
    )


def _codes(node: NodeProto, known: Mapping[str, int]) -> int:
    """The dtype of the codes of a QuantizeLinear: `output_dtype`, or that of its zero point."""
    for att in node.attribute:
        if att.name == "output_dtype" and att.i:
            return int(att.i)
    if len(node.input) < 3 or not node.input[2]:
        return int(TensorProto.UINT8)
    return known.get(node.input[2], TensorProto.UNDEFINED)


def make_session(
    model: ModelProto,
    providers: Sequence[Any],
    session_options: Any,
    *,
    training: bool,
    alone: bool = False,
    constants: Mapping[str, Any] | None = None,
) -> Any:
    """An `onnxruntime.InferenceSession` for `model`, which is handed over as bytes.

    Threads equal torch's.  They spin for microseconds: torch needs the processors in between.  A
    SessionOptions object of the user is used as it is.

    :param alone: one thread, unless the user asks for more: others would be late for what there is
        to do, behind those of torch that still look for work
    :param constants: OrtValues of the initializers whose data are not in the model
    :raises ProviderError: a provider is missing, or ONNX Runtime refuses the model
    """
    import onnxruntime

    from ortable_generated.optimizers import ENABLED

    check_providers(providers)
    harmful = _harmful_optimizers(model)
    options = _session_options(session_options, training, alone)
    if constants:
        values = [onnxruntime.OrtValue(value) for value in constants.values()]
        options.add_external_initializers(list(constants), values)
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=list(providers),
            disabled_optimizers=[*harmful, *optimizers_off(ENABLED)],
            enable_fallback=0,  # what another provider than the one asked for would run is an error
        )
    except Exception as exc:
        raise _refusal(model, providers, exc) from exc
    check_session(session, providers)
    return session


_MEMORY = (
    "What to do: option freeze='off' keeps weights in torch alone, weights='int8' or 'int4' makes "
    "them smaller; or give the process more memory and call again."
)


def _refusal(model: ModelProto, providers: Sequence[Any], error: Exception) -> ProviderError:
    """ONNX Runtime does not take a model."""
    import onnxruntime

    words, lines = locate_error(error, model)
    if isinstance(error, MemoryError) or "bad_alloc" in words or "bad allocation" in words:
        missing = "There is not enough memory for a session of ONNX Runtime"
        said = words or type(error).__name__
        return ProviderError(f"{missing}: {said}", details=str(error)).with_advice(_MEMORY)
    headline = (
        f"ONNX Runtime {onnxruntime.__version__} refuses the model converted for opset "
        f"{model.opset_import[0].version} with providers {list(providers)}: {words}"
    )
    return ProviderError("\n".join([headline, *lines]), details=str(error)).with_advice(
        "What to do: option dump_prefix keeps the model, target_opset tries another opset."
    )


def _session_options(given: Any, training: bool, alone: bool) -> Any:
    """The user's object, or a new one with the defaults and the user's settings."""
    import onnxruntime
    import torch

    from ortable_generated.sessions import INFERENCE, TRAINING

    if given is not None and not isinstance(given, Mapping):
        return given
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what fails is raised, with the same words
    settings: dict[str, Any] = {**(TRAINING if training else INFERENCE)}  # docs/sessions.md
    if settings["intra_op_num_threads"] == "torch":
        settings["intra_op_num_threads"] = 1 if alone else torch.get_num_threads()
    if share_arena():
        settings["session.use_env_allocators"] = "1"
    settings.update(given or {})
    apply_settings(options, settings, "session_options", options.add_session_config_entry)
    return options


@functools.cache
def share_arena() -> bool:
    """Registers one arena for the whole process, which sessions share instead of growing one each;
    False when ONNX Runtime has none to share.  One that somebody else registered serves as well.
    """
    from ortable.compat.onnxruntime import register_arena

    return register_arena()
