"""What runs a converted graph: a session of ONNX Runtime, and nothing where no node is left. A
session is made when it is known which one: at once for weights that are inputs, at the first
call for weights that become constants."""

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
from ortable.compat.providers import CPU, CUDA, provider_names
from ortable.ir.casts import HALVES
from ortable.passes.weight_quantization import Stored, WeightOptions
from ortable_generated.onnx.traits import GATHERS

from .call import OrtBackend, freezable_positions
from .rounded import needs_constants

Run = Callable[..., Any]

_SOFT = 1  # omp_pause_soft: torch's next operator starts new threads, and finds all it knew
# Seconds of a run. To end the threads and to start others costs 0.05 to 0.1 ms, and much more where
# a new one is put behind a thread that computes; while they are there, a run takes up to a sixth
# longer.
_LONG = 6e-3
_LEFT_OUT = frozenset({"none", "-ort_codes", "-ort_weights"})  # then no code goes to kernels
_NO_WEIGHTS = "the graph reads no parameter and no buffer"


def run_with_onnxruntime(compiled: CompiledGraph, options: OrtOptions) -> OrtBackend:
    """:raises ProviderError: a provider is missing, or ONNX Runtime refuses the model"""
    providers, stream = session_providers(options.providers or (), compiled.device)
    frozen = frozen_weights(compiled, options)
    asked = _asked(compiled, options, frozen)
    rounding = asked if isinstance(asked, WeightOptions) else None
    if not compiled.fetches:
        return OrtBackend(compiled, None, None, frozen=frozen)

    training = compiled.is_partition or compiled.kind != "inference"

    tuned: dict[str, Any] = {}

    def make(model: ModelProto, constants: dict[str, Any] | None = None) -> Any:
        if asked == "keep":
            model = casting_late(model)

        def session(more: Mapping[str, Any]) -> Any:
            settings = options.session_options
            if more:
                settings = {**more, **(settings or {})}
            return make_session(
                model,
                providers,
                settings,
                training=training,
                alone=training and compiled.is_short,
                constants=constants,
            )

        return session(_tuned(model, session, options, tuned, compiled.label))

    key = session_key(compiled, options, providers, training, options.tune, repr(asked))
    session = None
    if isinstance(frozen, str):
        session = shared_session(key, (), lambda: make(compiled.model))
    execute: Callable[[Any], Callable[..., Any]] | None = _run_alone if training else None
    if stream is not None:
        devices = [fetch.device for fetch in compiled.fetches]
        execute = functools.partial(DeviceRun, stream=stream, devices=devices)
    backend = OrtBackend(
        compiled,
        session,
        make_run_options(options.run_options),
        make=make,
        execute=execute,
        frozen=frozen,
        key=key,
        resizable=options.resizable,
        trusted=options.freeze == "trust",
        copies=None if rounding is not None else options.weight_copies,
        rounding=rounding,
        codes=options.optimize
        and not training
        and _LEFT_OUT.isdisjoint(options.rewrites)
        and stream is None,
    )
    backend.tuned = tuned
    if isinstance(asked, str) and stream is None:
        constants = () if isinstance(frozen, str) else frozen
        backend.weights.update(memory_of_weights(compiled, constants))
    return backend


def _asked(
    compiled: CompiledGraph, options: OrtOptions, frozen: Sequence[int] | str
) -> WeightOptions | Stored | None:
    """What option `weights` asks of this graph."""
    asked = options.weights if compiled.fetches else None
    if asked in (None, "keep") or not isinstance(frozen, str):
        return asked
    if frozen != _NO_WEIGHTS:
        raise needs_constants(frozen)
    return None


def _run_alone(session: Any) -> Callable[..., Any]:
    """What runs a session beside operators of torch, whose threads it need not wait for."""
    run: Callable[..., Any] = bound_session(session).run_with_ort_values
    if session.get_session_options().intra_op_num_threads == 1:
        return run
    return without_waiting_threads(run)


def _tuned(
    model: ModelProto,
    make: Callable[..., Any],
    options: OrtOptions,
    record: dict[str, Any],
    label: str,
) -> Mapping[str, Any]:
    """The settings that option `tune`, if given, finds for a model; ``record`` is told, and the
    user of a graph that cannot be searched."""
    settings: Mapping[str, Any] = {}
    if not options.tune:
        return settings
    if provider_names(options.providers) == ("CPUExecutionProvider",):
        given = options.session_options or {}
        found = tuned_settings(model, make, given, options.tune, options.cache_dir)
        record.update(asdict(found))
        settings = found.settings
    else:
        record["found"] = "not tuned: only sessions on the CPU are"
    if options.hints and record["found"].startswith("not tuned"):
        warn_not_tuned(label, record["found"])
    return settings


def frozen_weights(compiled: CompiledGraph, options: OrtOptions) -> tuple[int, ...] | str:
    """Positions of the arguments that become constants at the first call, or why none does."""
    if options.freeze == "off":
        return "option freeze is 'off'"
    if compiled.kind == "backward":
        return "a backward graph: its weights train"
    if compiled.kind == "forward" and options.freeze in ("auto", "trust"):
        return (
            "grad mode was on when it was compiled: a forward graph that trains, its weights "
            "change; without training, use torch.no_grad()"
        )
    if not compiled.fetches:
        return "nothing is left for ONNX Runtime to compute"
    if type(options.session_options).__name__ == "SessionOptions":
        return "constants would be written into your SessionOptions object: give a dict of settings"
    elsewhere = _why_not_there(options)
    if elsewhere:
        return elsewhere
    if options.freeze == "auto" and is_one_of_several_processes():
        return (
            "collectives of torch.distributed may write into weights without a trace: freeze='on'"
        )
    found = freezable_positions(compiled)
    if found and options.weights == "keep":
        return without_matrices(compiled, found) or "option weights is 'keep'"
    return found or _NO_WEIGHTS


def _why_not_there(options: OrtOptions) -> str:
    """Why the providers take no constants; empty where they do.

    On CUDA only who trusts them gets some: to look for writes that torch does not count, a call
    would have to wait for the device.
    """
    names = provider_names(options.providers)
    if names == (CPU,):
        return ""
    if set(names) != {CUDA, CPU}:
        return "only the providers of CPU and CUDA take constants from torch's memory"
    if options.weights is not None:
        return "option weights is for the CPU"
    if options.freeze != "trust":
        return "on CUDA a call cannot look for writes into weights: freeze='trust' does without"
    return ""


def is_one_of_several_processes() -> bool:
    """Whether this process is one of several: `broadcast` and its like receive into tensors whose
    versions stay what they were, and DistributedDataParallel calls it."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return False
    return distributed.get_world_size() > 1


def without_waiting_threads(run: Run) -> Run:
    """`run`, for which torch's OpenMP threads are ended when the run before took long.

    After an operator of torch they look for work for some 20 ms more, on the processors that ONNX
    Runtime's threads need: the forward pass of a training step, which follows the optimizer,
    computes on one processor fewer. Nothing is ended where torch has no OpenMP library with
    `omp_pause_resource_all` (OpenMP 5.0, section 3.2.43).
    """
    pause = _pause()
    if pause is None:
        return run
    seconds = 0.0

    def call(*given: Any) -> Any:
        nonlocal seconds
        if seconds > _LONG:
            pause(_SOFT)  # of this thread's own parallel regions; refused inside one
        begin = time.perf_counter()
        result = run(*given)
        seconds = time.perf_counter() - begin
        return result

    return call


@functools.cache
def _pause() -> Callable[[int], int] | None:
    """The function of the OpenMP library that torch has loaded for everybody."""
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).omp_pause_resource_all
    except (AttributeError, OSError, TypeError):  # no such function; no such way on this system
        return None
    return function


def without_matrices(compiled: CompiledGraph, positions: Sequence[int]) -> tuple[int, ...]:
    """The positions without those of matrices of half floats, which a session would keep in
    float32."""
    stay = {role.index for role in compiled.inputs if _is_matrix(role)}
    return tuple(index for index in positions if index not in stay)


def _is_matrix(role: InputRole) -> bool:
    return role.elem_type in HALVES and len(role.shape or ()) > 1


def casting_late(model: ModelProto) -> ModelProto:
    """The model with the casts of inputs in front, which ONNX Runtime runs last: it looks for an
    order from the results backwards, among what a node reads for the latest in the file first.
    Where casts stand beside their readers it runs all of them before anything else, and all weights
    are float32 at a time."""
    result = ModelProto()
    result.CopyFrom(model)
    nodes = list(result.graph.node)
    halves = {each.name for each in result.graph.input if each.type.tensor_type.elem_type in HALVES}
    early = [len(node.input) == 1 and node.input[0] in halves for node in nodes]
    del result.graph.node[:]
    for wanted in (True, False):
        result.graph.node.extend(
            node for node, first in zip(nodes, early, strict=True) if first is wanted
        )
    return result


def memory_of_weights(compiled: CompiledGraph, constants: Sequence[int]) -> dict[str, int]:
    """Bytes of the weights that a graph reads: ``model_bytes`` where torch keeps them, and
    ``session_bytes``, what a session with these constants keeps beside that, in which half floats
    that operators compute with are float32."""
    chosen, found = set(constants), {"model_bytes": 0, "session_bytes": 0}
    wide = _computed_with(compiled)
    for role in compiled.inputs:
        if not role.static or role.name not in compiled.fed:
            continue
        count = dims.product_of(role.shape or ())
        size = dtypes.ITEMSIZE.get(role.elem_type or 0, 0)
        if not isinstance(count, int):
            continue
        found["model_bytes"] += count * size
        if role.index in chosen:
            grown = role.elem_type in HALVES and role.name in wide
            found["session_bytes"] += count * (4 if grown else size)
    return found


def _computed_with(compiled: CompiledGraph) -> set[str]:
    """Inputs that some node does more with than to take out what indices of the call choose."""
    graph = compiled.model.graph
    constants = {each.name for each in graph.initializer}
    found: set[str] = set()
    for node in graph.node:
        chosen = len(node.input) > 1 and constants.isdisjoint(node.input[1:])
        takes = node.op_type in GATHERS and chosen
        found.update(node.input[1:] if takes else node.input)
    return found
