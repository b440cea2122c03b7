"""Create the callable of a converted graph, which runs a session of ONNX Runtime.

The session is created immediately if weights are inputs, at the first call if they become
constants, and never if the graph has no nodes.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from onnx import ModelProto

from ortable import dims, dtypes
from ortable.backend.cache.keys import session_key
from ortable.backend.cache.memory import shared_session
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph, InputRole
from ortable.backend.sessions.device_run import DeviceRun, session_providers
from ortable.backend.sessions.session import make_run_options, make_session
from ortable.backend.sessions.tune import tuned_settings, warn_not_tuned
from ortable.compat.onnxruntime import bound_session
from ortable.compat.providers import (
    CPU,
    CUDA,
    count_cpu_nodes,
    is_plugin_provider,
    provider_names,
    warn_cpu_nodes,
)
from ortable.ir.casts import HALF_DTYPES
from ortable.passes.weight_quantization import Stored, WeightOptions
from ortable_generated.onnx.traits import GATHERS

from .call import OrtBackend, freezable_positions
from .quantized_constants import make_missing_constants_error

Run = Callable[..., Any]

# omp_pause_soft: torch's next operator starts new threads; the OpenMP state is preserved
_PAUSE_SOFT = 1
# Run time in seconds above which torch's spinning threads are ended. Ending and restarting them
# costs 0.05 to 0.1 ms, and much more if a new thread shares a processor with a computing thread.
# While torch's threads spin, a run takes up to a sixth longer.
_LONG_RUN = 6e-3
# values of option `rewrites` that disable the rules by which kernels read integer codes of weights
_RULES_WITHOUT_CODES = frozenset({"none", "-ort_codes", "-ort_weights"})
_MAX_EMBEDDED_BYTES = 1_500_000_000  # protobuf serializes less than 2 GB
_NO_WEIGHTS = "the graph reads no parameter and no buffer"


def run_with_onnxruntime(compiled: CompiledGraph, options: OrtOptions) -> OrtBackend:
    """Create the callable of a converted graph.

    Args:
        compiled: the converted graph.
        options: the options, with the providers that run the graph.

    Raises:
        ProviderError: if a provider is missing, or ONNX Runtime refuses the model.
    """
    providers, stream = session_providers(options.providers or (), compiled.device)
    frozen = select_frozen_positions(compiled, options)
    requested = _requested_weights(compiled, options, frozen)
    rounding = requested if isinstance(requested, WeightOptions) else None
    if not compiled.fetches:
        return OrtBackend(compiled, None, None, frozen=frozen)

    training = compiled.is_partition or compiled.kind != "inference"
    tuning: dict[str, Any] = {}

    def make_tuned_session(model: ModelProto, constants: dict[str, Any] | None = None) -> Any:
        if requested == "keep":
            model = move_casts_to_front(model)

        def make_with(tuned: Mapping[str, Any]) -> Any:
            settings = options.session_options
            if tuned:
                settings = {**tuned, **(settings or {})}
            return make_session(
                model,
                providers,
                settings,
                training=training,
                single_thread=training and compiled.is_short,
                constants=constants,
            )

        session = make_with(_tune_settings(model, make_with, options, tuning, compiled.label))
        if options.hints:
            warn_cpu_nodes(session, providers)
        return session

    key = session_key(compiled, options, providers, training, options.tune, repr(requested))
    session = None
    if isinstance(frozen, str):
        session = shared_session(key, (), lambda: make_tuned_session(compiled.model))
    execute: Callable[[Any], Callable[..., Any]] | None = _make_paused_run if training else None
    if stream is not None:
        devices = [fetch.device for fetch in compiled.fetches]
        execute = functools.partial(DeviceRun, stream=stream, devices=devices)
    backend = OrtBackend(
        compiled,
        session,
        make_run_options(options.run_options),
        make=make_tuned_session,
        execute=execute,
        frozen=frozen,
        key=key,
        resizable=options.resizable,
        trusted=options.freeze == "trust",
        copies=None if rounding is not None else options.weight_copies,
        rounding=rounding,
        codes=_repacks_codes(options) and not training and stream is None,
    )
    backend.tuned = tuning
    backend.cpu_nodes.update(count_cpu_nodes(session))
    if isinstance(requested, str) and stream is None:
        constants = () if isinstance(frozen, str) else frozen
        backend.weights.update(compute_weight_memory(compiled, constants))
    return backend


def _repacks_codes(options: OrtOptions) -> bool:
    """Whether the options leave on the rules that repack integer codes of weights."""
    return options.optimize and _RULES_WITHOUT_CODES.isdisjoint(options.rewrites)


def _requested_weights(
    compiled: CompiledGraph, options: OrtOptions, frozen: Sequence[int] | str
) -> WeightOptions | Stored | None:
    requested = options.weights if compiled.fetches else None
    if requested in (None, "keep") or not isinstance(frozen, str):
        return requested
    if frozen != _NO_WEIGHTS:
        raise make_missing_constants_error(frozen)
    return None


def _make_paused_run(session: Any) -> Callable[..., Any]:
    """Return the run function of a session; with several threads it first ends torch's threads."""
    run: Callable[..., Any] = bound_session(session).run_with_ort_values
    if session.get_session_options().intra_op_num_threads == 1:
        return run
    return pause_openmp_threads(run)


def _tune_settings(
    model: ModelProto,
    make: Callable[..., Any],
    options: OrtOptions,
    record: dict[str, Any],
    label: str,
) -> Mapping[str, Any]:
    """Return the settings that option `tune`, if set, finds for a model.

    The result of the search is stored in ``record``. This warns if a graph cannot be tuned.
    """
    settings: Mapping[str, Any] = {}
    if not options.tune:
        return settings
    if provider_names(options.providers) == ("CPUExecutionProvider",):
        user_settings = options.session_options or {}
        tuning = tuned_settings(model, make, user_settings, options.tune, options.cache_dir)
        record.update(asdict(tuning))
        settings = tuning.settings
    else:
        record["found"] = "not tuned: only sessions on the CPU are tuned"
    if options.hints and record["found"].startswith("not tuned"):
        warn_not_tuned(label, record["found"])
    return settings


def select_frozen_positions(compiled: CompiledGraph, options: OrtOptions) -> tuple[int, ...] | str:
    """Return positions of arguments that become constants at the first call, or why none does."""
    if options.freeze == "off":
        return "option freeze is 'off'"
    if compiled.kind == "backward":
        return "it is a backward graph, whose weights are trained"
    if compiled.kind == "forward" and options.freeze in ("auto", "trust"):
        return (
            "grad mode was on when it was compiled, so it is a forward graph whose weights may be "
            "trained; use torch.no_grad() if they are not"
        )
    if not compiled.fetches:
        return "the graph has no nodes for ONNX Runtime"
    reason = _find_constants_obstacle(options)
    if reason:
        return reason
    if options.freeze == "auto" and is_distributed():
        return (
            "collectives of torch.distributed may write to weights without a version change; "
            "set freeze='on' to ignore this"
        )
    positions = freezable_positions(compiled)
    if type(options.session_options).__name__ == "SessionOptions":
        size = compute_weight_memory(compiled, positions)["session_bytes"]
        if size > _MAX_EMBEDDED_BYTES:
            return (
                "a model with a SessionOptions object of yours holds at most "
                f"{_MAX_EMBEDDED_BYTES / 1e9:g} GB of constants: give a dict of settings"
            )
    if positions and options.weights == "keep":
        return exclude_half_matrices(compiled, positions) or "option weights is 'keep'"
    return positions or _NO_WEIGHTS


def _find_constants_obstacle(options: OrtOptions) -> str:
    """Return the reason why the providers accept no constants; empty if they do.

    A plugin reads initializers through ONNX Runtime's interface, wherever their memory is.
    On CUDA only `freeze='trust'` allows constants: to check for writes that torch does not count, a
    call would have to wait for the device.
    """
    names = provider_names(options.providers)
    if names == (CPU,):
        return ""
    is_plugin = all(name == CPU or is_plugin_provider(name) for name in names)
    if not is_plugin and set(names) != {CUDA, CPU}:
        return "only the CPU, CUDA and plugin providers accept constants in torch's memory"
    if options.weights is not None:
        return "option weights works only on the CPU"
    if not is_plugin and options.freeze != "trust":
        return "on CUDA a call cannot check weights for writes; freeze='trust' omits the check"
    return ""


def is_distributed() -> bool:
    """Whether torch.distributed runs several processes.

    Collectives such as `broadcast`, which DistributedDataParallel calls, write to tensors without
    changing their version.
    """
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return False
    return distributed.get_world_size() > 1


def pause_openmp_threads(run: Run) -> Run:
    """Wrap `run` so that torch's OpenMP threads are ended if the previous run was long.

    After an operator of torch these threads spin for some 20 ms on the processors that ONNX
    Runtime's threads need, so that the forward pass after an optimizer step has one processor
    fewer. The result is `run` itself if the OpenMP library has no `omp_pause_resource_all`
    (OpenMP 5.0, section 3.2.43).
    """
    pause = _find_omp_pause()
    if pause is None:
        return run
    seconds = 0.0

    def timed_run(*arguments: Any) -> Any:
        nonlocal seconds
        if seconds > _LONG_RUN:
            pause(_PAUSE_SOFT)  # ends this thread's team; refused inside a parallel region
        begin = time.perf_counter()
        result = run(*arguments)
        seconds = time.perf_counter() - begin
        return result

    return timed_run


@functools.cache
def _find_omp_pause() -> Callable[[int], int] | None:
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).omp_pause_resource_all
    except (AttributeError, OSError, TypeError):  # not available in this library or system
        return None
    return function


def exclude_half_matrices(compiled: CompiledGraph, positions: Sequence[int]) -> tuple[int, ...]:
    """Return the positions without half-float matrices, which a session would store in float32."""
    matrices = {role.index for role in compiled.inputs if _is_matrix(role)}
    return tuple(index for index in positions if index not in matrices)


def _is_matrix(role: InputRole) -> bool:
    return role.elem_type in HALF_DTYPES and len(role.shape or ()) > 1


def move_casts_to_front(model: ModelProto) -> ModelProto:
    """Move the casts of half-float inputs to the front, so that each runs just before its reader.

    ONNX Runtime orders nodes backwards from the results; among the producers of a node's inputs it
    visits the last one in the file first. If the casts in the file were next to their readers, all
    casts would run first, and all weights would exist in float32 at the same time.
    """
    result = ModelProto()
    result.CopyFrom(model)
    nodes = list(result.graph.node)
    halves = {
        graph_input.name
        for graph_input in result.graph.input
        if graph_input.type.tensor_type.elem_type in HALF_DTYPES
    }
    is_cast = [len(node.input) == 1 and node.input[0] in halves for node in nodes]
    del result.graph.node[:]
    for comes_first in (True, False):
        result.graph.node.extend(
            node for node, flag in zip(nodes, is_cast, strict=True) if flag is comes_first
        )
    return result


def compute_weight_memory(compiled: CompiledGraph, constants: Sequence[int]) -> dict[str, int]:
    """Return the bytes of the weights that a graph reads.

    ``model_bytes`` is the size of the weights in torch. ``session_bytes`` is the size of copies of
    the ``constants`` in a session; half floats count as float32 if operators compute with them.
    """
    frozen, memory = set(constants), {"model_bytes": 0, "session_bytes": 0}
    computed = _inputs_computed_with(compiled)
    for role in compiled.inputs:
        if not role.static or role.name not in compiled.fed:
            continue
        count = dims.product_of(role.shape or ())
        size = dtypes.ITEMSIZE.get(role.elem_type or 0, 0)
        if not isinstance(count, int):
            continue
        memory["model_bytes"] += count * size
        if role.index in frozen:
            is_widened = role.elem_type in HALF_DTYPES and role.name in computed
            memory["session_bytes"] += count * (4 if is_widened else size)
    return memory


def _inputs_computed_with(compiled: CompiledGraph) -> set[str]:
    """Return the names that nodes read, except as the data of a Gather without constant indices."""
    graph = compiled.model.graph
    constants = {initializer.name for initializer in graph.initializer}
    names: set[str] = set()
    for node in graph.node:
        has_call_indices = len(node.input) > 1 and constants.isdisjoint(node.input[1:])
        is_gather = node.op_type in GATHERS and has_call_indices
        names.update(node.input[1:] if is_gather else node.input)
    return names
