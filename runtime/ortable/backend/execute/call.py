"""The callable of a compiled graph; it selects a session with weights as constants or as inputs.

The source text of a call is generated from the roles. Concurrent calls share no feeds or results.
"""

from __future__ import annotations

import builtins
import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from types import FunctionType
from typing import Any

import torch
from onnx import ModelProto

from ortable import dtypes
from ortable.backend.cache.memory import shared_session
from ortable.backend.roles import CompiledGraph, InputRole, InputRoleKind
from ortable.compat import onnxruntime as runtime
from ortable.compat.providers import count_cpu_nodes
from ortable.compat.torch import from_dlpack, to_dlpack
from ortable.errors import ProviderError
from ortable.interpreter.diagnostics.runtime_errors import locate_error, source_suffix
from ortable.passes.weight_quantization import WeightOptions

from .call_source import CallSource, code_of, find_in_place_writes, in_place_runner
from .checks import find_violation
from .feeds import BoundWeights, DimensionValues, check_memory, feed_any
from .fork import register_for_fork
from .frozen import (
    MAX_FROZEN_SETS,
    BackOff,
    FrozenWeights,
    count_sessions_with,
    embed_weights,
    is_freezable,
    trim_freed_memory,
)
from .quantized_constants import (
    embed_prequantized_weights,
    embed_quantized_weights,
    has_codes,
    make_missing_constants_error,
    record_shared_session,
)
from .weights import (
    fsdp_parameter_ids,
    is_watchable,
    release_abandoned,
    sample_windows,
    weight_signature,
)

_log = logging.getLogger(__name__)
CompiledCall = Callable[[list[Any]], list[Any]]
MakeSession = Callable[..., Any]


class OrtBackend:
    """One compiled graph as a callable: takes a list of arguments and returns a list of results.

    A call clears the list of arguments. Tensors are on the CPU and dense; ints are values of
    symbolic dimensions. Calls are thread-safe: each call has its own feeds, and ONNX Runtime
    allocates new results.

    `compiled` holds the ONNX model and the roles. `session` is the `onnxruntime.InferenceSession`
    that ran last or will run next; it is None if the graph has no nodes, or before the first call
    if weights become constants. `source` is the text of the current call function. `frozen` lists
    the inputs that become constants at the first call, or gives the reason why none does.

    Args:
        compiled: the ONNX model, and the roles of its inputs and outputs.
        session: runs the model with all weights as inputs; None to create it with `make` on demand.
        run_options: an `onnxruntime.RunOptions`, or None.
        make: `make(model, constants)` creates a session.
        execute: takes a session and returns its run function; None for `run_with_ort_values`.
        frozen: positions of arguments that become constants, or the reason why none does.
        key: graphs with the same key share sessions; None for no sharing.
        resizable: results are copied into torch's memory, which can be resized.
        trusted: writes to constants take effect only after `refresh`.
        copies: how many sessions may have these weights as constants; None for no limit.
        rounding: the quantization of the weights; calls then never pass weights as inputs.
        codes: whether constant weights that are integer codes are repacked for quantized kernels.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        session: Any,
        run_options: Any,
        *,
        make: MakeSession | None = None,
        execute: Callable[[Any], Callable[..., Any]] | None = None,
        frozen: Sequence[int] | str = "the graph has no session",
        key: str | None = None,
        resizable: bool = False,
        trusted: bool = False,
        copies: int | None = None,
        rounding: WeightOptions | None = None,
        codes: bool = False,
    ) -> None:
        # An instance attribute, because dynamo wraps backward graphs and copies only `__dict__`.
        self._boxed_call = True
        self.compiled = compiled
        self.tuned: dict[str, Any] = {}  # set by option `tune` with the first session
        self.weights: dict[str, Any] = {}  # set by option `weights` with the first session
        self.cpu_nodes: dict[str, int] = {}  # set with the first session
        self.session = session
        self.run_options = run_options
        self._constant_positions = () if isinstance(frozen, str) else tuple(frozen)
        names = tuple(compiled.inputs[i].name for i in self._constant_positions)
        self.frozen = frozen if isinstance(frozen, str) else names
        self._make = make
        self._key = key
        self._resizable, self._trusted, self._copies = resizable, trusted, copies
        self._rounding, self._codes = rounding, codes
        self._execute = execute
        self._plain_session = session
        self._dimensions = DimensionValues()
        self._memory_checked = False
        self._unfrozen_compiled: CompiledCall | None = None
        self._call: CompiledCall | None = None
        self._fixed_tensors: tuple[Any, ...] = ()
        self._short_call: CompiledCall | None = None  # a call without the fixed arguments
        self._lock = threading.RLock()
        self._frozen_sets: dict[tuple[int, ...], FrozenWeights] = {}
        self._unwatchable: set[tuple[int, ...]] = set()  # keys of sets without a watchable weight
        self._back_off = BackOff()
        self._source: CallSource | None = None
        register_for_fork(self)

    def __repr__(self) -> str:
        nodes = len(self.compiled.model.graph.node)
        return f"OrtBackend({self.compiled.kind}, {nodes} ONNX nodes)"

    def __str__(self) -> str:
        return self.compiled.label or repr(self)

    def __call__(self, args: list[Any]) -> list[Any]:
        """Run the graph.

        Args:
            args: the arguments; the list is cleared.

        Raises:
            InputError: if an argument cannot be passed to ONNX Runtime.
            ProviderError: if ONNX Runtime fails, on an index out of range for example.
        """
        call = self._call
        return call(args) if call is not None else self._select_and_call(args)

    def with_fixed(self, tensors: Sequence[Any]) -> Callable[..., list[Any]]:
        """Return a function of the remaining arguments; the leading arguments are fixed.

        While the fixed tensors are constants of the session, the call omits them.

        Args:
            tensors: the leading arguments.
        """
        self._fixed_tensors = tuple(tensors)

        def call_with_fixed(*rest: Any) -> list[Any]:
            short_call = self._short_call
            return (
                short_call(list(rest))
                if short_call is not None
                else self._select_and_call([*tensors, *rest])
            )

        return call_with_fixed

    @property
    def held(self) -> tuple[FrozenWeights, ...]:
        """The sets of weights that are currently constants of a session."""
        return tuple(self._frozen_sets.values())

    @property
    def source(self) -> str:
        """The source text of the current call."""
        if self._source is None:
            self._source = self._call_source(self._constant_positions, self._bindable_positions())
        return self._source.text

    def _select_and_call(self, args: list[Any]) -> list[Any]:
        """Select the call function for these weights and run it.

        A selected function stays in `_call` or `_short_call` while it fits the weights.
        """
        if not self._memory_checked:  # dynamo's guards check all later calls
            check_memory(self.compiled.inputs, args)
            self._memory_checked = True
        with self._lock:
            call = (
                self._select_call(args) if self._constant_positions else self._use_unfrozen_call()
            )
            if call is self._short_call:
                del args[: len(self._fixed_tensors)]
        return call(args)

    def _use_unfrozen_call(self) -> CompiledCall:
        self._call = self._unfrozen_call()
        return self._call

    def _select_call(self, args: list[Any]) -> CompiledCall:
        """Return the call with these weights as constants, or, until they are stable, as inputs."""
        tensors = [args[i] for i in self._constant_positions]
        key = tuple(map(id, tensors))
        frozen = self._frozen_sets.get(key)
        if frozen is not None:
            call = frozen.call
            if call is not None and frozen.is_current(args):
                self._use_frozen_call(frozen)
                return call
            if call is not None:
                _log.info(
                    "weights of %s changed: passing them as session inputs until they are stable",
                    self,
                )
            frozen.release()
        if self._rounding is not None:
            return self._quantized_call(key, args)
        if key in self._unwatchable:
            return self._unfrozen_call()
        is_stable = self._back_off.given_up == 0 and len(self._frozen_sets) < MAX_FROZEN_SETS
        is_stable = is_stable or self._back_off.is_stable(key, weight_signature(tensors))
        call = self._freeze_weights(key, args) if is_stable else None
        if call is None:
            self._call = None
            call = self._unfrozen_call()
        return call

    def _quantized_call(self, key: tuple[int, ...], args: Sequence[Any]) -> CompiledCall:
        """Return the call with these weights as quantized constants, for now or after a change.

        There is no call with these weights as inputs: unquantized, they give other results.
        """
        if len(self._watchable_positions(args)) < len(self._constant_positions):
            raise make_missing_constants_error(
                "a write to one of them would not be detected (a weight was created under "
                "torch.inference_mode(), for example, or shares memory with another process)"
            )
        call = self._freeze_weights(key, args) or self._freeze_weights(key, args)
        if call is None:
            raise make_missing_constants_error("they changed while their session was created")
        return call

    def _freeze_weights(self, key: tuple[int, ...], args: Sequence[Any]) -> CompiledCall | None:
        """Create a session with these weights as constants, and return its call.

        Return None if writes to the weights cannot be detected, or if a weight changed meanwhile.
        Return the call with weights as inputs if option `weight_copies` allows no more sessions.
        """
        positions = self._watchable_positions(args)
        self._back_off.clear_weights(key)
        make = self._make
        if not positions or make is None:
            if len(self._unwatchable) >= MAX_FROZEN_SETS:
                self._unwatchable.clear()
            self._unwatchable.add(key)
            return None
        release_abandoned()
        weights = [args[i] for i in positions]
        if self._copies is not None and count_sessions_with(weights) >= self._copies:
            _log.info("%s reads its weights as inputs because of option weight_copies", self)
            return self._use_unfrozen_call()
        signature = weight_signature(weights)
        windows = sample_windows(weights)
        sample = b"".join(windows)
        begin = time.perf_counter()
        roles = [self.compiled.inputs[i] for i in positions]
        weights_by_name = {
            role.name: (role, tensor) for role, tensor in zip(roles, weights, strict=True)
        }
        stamp = (tuple(positions), signature[2], sha256(sample).digest())
        session = shared_session(
            self._key, weights, lambda: make(*self._make_constant_model(weights_by_name)), stamp
        )
        record_shared_session(session, self.weights)
        self.cpu_nodes.update(count_cpu_nodes(session))
        trim_freed_memory()
        cost = time.perf_counter() - begin
        backend_reference = weakref.ref(self)

        def on_release(frozen: FrozenWeights) -> None:
            backend = backend_reference()
            if backend is not None:
                backend._drop_frozen(key, frozen)

        frozen = FrozenWeights(
            session, positions, weights, signature, cost, on_release, windows, sample
        )
        # optimizer steps invalidate `frozen` since its creation; earlier steps change the signature
        if weight_signature(weights) != signature or not frozen.is_current(args):
            _log.info("weights of %s changed while its session was created", self)
            return None
        _log.info(
            "%d weights of %s (%d bytes) are constants of its session now, made in %.3f s",
            len(weights),
            self,
            sum(weight.nbytes for weight in weights),
            cost,
        )
        call = frozen.call = self._frozen_function(frozen, session, positions)
        self._frozen_sets[key] = frozen
        self._use_frozen_call(frozen)
        return call

    def _make_constant_model(
        self, weights: Mapping[str, tuple[InputRole, torch.Tensor]]
    ) -> tuple[ModelProto, dict[str, Any]]:
        if self._rounding is None:
            if self._codes and has_codes(role for role, _ in weights.values()):
                return embed_prequantized_weights(self.compiled.model, weights, self.weights)
            return embed_weights(self.compiled.model, weights)
        return embed_quantized_weights(self.compiled.model, weights, self._rounding, self.weights)

    def _frozen_function(
        self, frozen: FrozenWeights, session: Any, positions: Sequence[int]
    ) -> CompiledCall:
        """Return the call with constant weights; it calls `_select_and_call` once they change."""
        backend_reference = weakref.ref(self)
        fixed = self._fixed_tensors if self._can_omit_fixed(positions) else ()

        def select_again(args: list[Any]) -> list[Any]:
            backend = backend_reference()
            assert backend is not None  # the caller holds a reference
            args[:0] = fixed
            return backend._select_and_call(args)

        frozen.leaves_out = len(fixed)
        values = {"changed": select_again, **frozen.check_globals()}
        bindable = tuple(i for i in self._bindable_positions() if i not in positions)
        return self._make_function(
            self._call_source(positions, bindable, len(fixed)), session, values
        )

    def _watchable_positions(self, args: Sequence[Any]) -> list[int]:
        gathered = fsdp_parameter_ids()
        return [
            i
            for i in self._constant_positions
            if is_watchable(args[i]) and id(args[i]) not in gathered
        ]

    def _use_frozen_call(self, frozen: FrozenWeights) -> None:
        self.session = frozen.session
        if frozen.leaves_out:
            self._short_call = frozen.call
        else:
            self._call = frozen.call

    def _can_omit_fixed(self, positions: Sequence[int]) -> bool:
        """Whether a call needs no fixed argument if the arguments at `positions` are constants."""
        compiled, count = self.compiled, len(self._fixed_tensors)
        read_positions = {
            role.index for role in compiled.inputs[:count] if role.name in compiled.fed
        }
        sources = [output.source for output in compiled.outputs] + [
            mutation.source for mutation in compiled.mutations
        ]
        return (
            read_positions <= set(positions)
            and not compiled.checks
            and not compiled.sources
            and all(source < 0 or source >= count for source in sources)
        )

    def _drop_frozen(self, key: tuple[int, ...], frozen: FrozenWeights) -> None:
        """Drop a session whose weights were abandoned or changed.

        The garbage collector also calls this, so it must not wait for a lock.
        """
        if self._frozen_sets.get(key) is frozen:
            self._frozen_sets.pop(key, None)
            self._back_off.record_drop(frozen)
        if self._call is frozen.call:
            self._call = None
        if self._short_call is frozen.call:
            self._short_call = None
        if self.session is frozen.session:
            self.session = self._plain_session

    def _bindable_positions(self) -> tuple[int, ...]:
        return tuple(
            role.index
            for role in self.compiled.inputs
            if role.kind is InputRoleKind.TENSOR
            and role.static
            and role.dense
            and role.elem_type not in dtypes.FLOAT8_TYPES  # an OrtValue of 8-bit floats is a copy
            and role.name in self.compiled.fed
            and all(isinstance(size, int) for size in role.shape or ())
        )

    def _unfrozen_call(self) -> CompiledCall:
        """Return the call with all weights as inputs; its session is created on first use."""
        if self._unfrozen_compiled is None:
            if self._plain_session is None and self.compiled.fetches:
                make = self._make
                assert make is not None, "a graph with nodes needs a session"
                self._plain_session = shared_session(
                    self._key, (), lambda: make(self.compiled.model, None)
                )
            source = self._call_source((), self._bindable_positions())
            self._unfrozen_compiled = self._make_function(source, self._plain_session, {})
        self.session = self._plain_session
        return self._unfrozen_compiled

    def _call_source(
        self, constants: Sequence[int], bound: Sequence[int], fixed: int = 0
    ) -> CallSource:
        in_place = {} if self._execute is not None else find_in_place_writes(self.compiled)
        return CallSource(
            self.compiled,
            constants,
            bound,
            self._resizable,
            fixed=fixed,
            trusted=self._trusted,
            in_place=in_place,
        )

    def _make_function(
        self, source: CallSource, session: Any, values: Mapping[str, Any]
    ) -> CompiledCall:
        """Compile the function `call` of a source text, with its globals.

        The globals must not refer to this object, which owns the function: both are then freed
        without a garbage collection.
        """
        scope: dict[str, Any] = {"__builtins__": builtins, **source.values, **values}
        scope.update(
            feed=runtime.from_dlpack, dlpack=to_dlpack, take=from_dlpack, feed_any=feed_any,
            dimension=self._dimensions, options=self.run_options,
            failed=partial(_run_error, self.compiled),
            names=[fetch.name for fetch in self.compiled.fetches],
            bound=BoundWeights([self.compiled.inputs[i] for i in source.bound]),
        )  # fmt: skip
        if self.compiled.is_checked:
            scope["failed"] = partial(_violation_error, self.compiled, self._make)
        if session is not None:
            scope["run"] = self._session_runner(session, source.in_place)
        self._source = source
        return FunctionType(code_of(source.text), scope, "call")

    def _session_runner(self, session: Any, in_place: Mapping[int, str]) -> Callable[..., Any]:
        """Return the function `run(feeds, names, options)` of a session."""
        if self._execute is not None:
            return self._execute(session)
        if not in_place:
            run: Callable[..., Any] = runtime.bound_session(session).run_with_ort_values
            return run
        compiled = self.compiled
        sources = [compiled.inputs[compiled.mutations[index].source].name for index in in_place]
        return in_place_runner(session, dict(zip(in_place.values(), sources, strict=True)))

    def after_fork(self) -> list[Any]:
        """Drop and return the sessions in a forked child, if one of them had threads.

        The threads do not exist in the child. The next call creates new sessions.
        """
        self._lock = threading.RLock()
        sessions = [self._plain_session, *(frozen.session for frozen in self._frozen_sets.values())]
        if self._make is None or not any(map(_has_threads, sessions)):
            return []
        self._frozen_sets, self._unfrozen_compiled, self._call, self._short_call = (
            {},
            None,
            None,
            None,
        )
        self.session = self._plain_session = None
        return [session for session in sessions if session is not None]


_DIVISIONS_BY_ZERO = ("Integer division by zero", "Integer modulo by zero")


def _run_error(compiled: CompiledGraph, error: Exception) -> Exception:
    """Return the error for a failed run: torch's for an integer division by zero."""
    message, lines = locate_error(error, compiled.model)
    if any(text in message for text in _DIVISIONS_BY_ZERO):
        # torch's kernels raise a RuntimeError with this text
        return RuntimeError(f"ZeroDivisionError{source_suffix(lines)}")
    headline = (
        f"ONNX Runtime cannot run the graph with these arguments{source_suffix(lines)}: {message}"
    )
    return ProviderError("\n".join([headline, *lines]), details=str(error)).with_advice(
        "What to do: call the model without torch.compile; torch's error explains what is wrong "
        "with the arguments."
    )


def _violation_error(
    compiled: CompiledGraph, make: MakeSession | None, error: Exception, args: Sequence[Any]
) -> Exception:
    """Return the error for a failed run of a graph with assertions or data checks.

    A failed assertion or check takes precedence over ONNX Runtime's error.
    """
    violation = find_violation(compiled, args, make) if make is not None else None
    return _run_error(compiled, error) if violation is None else violation


def _has_threads(session: Any) -> bool:
    if session is None:
        return False
    options = session.get_session_options()
    is_serial = options.intra_op_num_threads == 1 and options.inter_op_num_threads in (0, 1)
    return not is_serial


def freezable_positions(compiled: CompiledGraph) -> tuple[int, ...]:
    """Return the positions of the arguments that may become constants."""
    fed = compiled.fed
    return tuple(role.index for role in compiled.inputs if is_freezable(role) and role.name in fed)
