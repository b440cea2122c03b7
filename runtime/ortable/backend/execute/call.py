"""The compiled graph as a callable: which session answers, with weights as constants or as
inputs. What a call does is source text made of the roles; what it uses is never shared between
two calls."""

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
from ortable.compat.torch import from_dlpack, to_dlpack
from ortable.errors import ProviderError
from ortable.interpreter.diagnostics.runtime_errors import locate_error, source_suffix
from ortable.passes.weight_quantization import WeightOptions

from .call_source import CallSource, code_of, running_in_place, written_in_place
from .checks import find_violation
from .feeds import Bound, Dimensions, check_memory, feed_any
from .fork import protect
from .frozen import (
    MOST_FROZEN,
    BackOff,
    Frozen,
    freezable,
    give_back_freed,
    sessions_with,
    with_constants,
)
from .rounded import (
    has_codes,
    needs_constants,
    tell_of_shared,
    with_arriving_codes,
    with_rounded_constants,
)
from .weights import gathered_by_fsdp, is_watchable, signature, sweep, windows_of

_log = logging.getLogger(__name__)
CompiledCall = Callable[[list[Any]], list[Any]]
MakeSession = Callable[..., Any]


class OrtBackend:
    """One compiled graph.  Called with a list of arguments, which it clears; returns a list of
    results.

    Tensors are on the CPU and dense; ints stand for symbolic dimensions.  Safe to call from
    several threads: a call owns its feeds, and ONNX Runtime allocates its results.

    `compiled` holds the ONNX model and the roles; `session` is the
    `onnxruntime.InferenceSession` that ran last or will run (None when no node is left, or
    before the first call of a graph whose weights become constants); `source` is the text of the
    function that runs; `frozen` names the inputs that become constants at the first call, or
    says why none does.

    Args:
        compiled: the ONNX model, and the roles of its inputs and outputs.
        session: runs the model with all weights as inputs; None: made by `make` when needed.
        run_options: an `onnxruntime.RunOptions`, or None.
        make: `make(model, constants)` makes a session.
        execute: what runs a session (a `DeviceRun`); None: its `run_with_ort_values`.
        frozen: positions of arguments that become constants, or why none does.
        key: sessions of graphs with the same key are shared; None: none is.
        resizable: results are copied into memory of torch, which can be resized.
        trusted: what is written into constants shows after `refresh` only.
        copies: how many sessions may have these weights as constants; None: any number.
        rounding: constants are weights as integer codes: no call takes them as inputs.
        codes: weights that are integer codes go to kernels for them once they are constants.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        session: Any,
        run_options: Any,
        *,
        make: MakeSession | None = None,
        execute: Callable[[Any], Callable[..., Any]] | None = None,
        frozen: Sequence[int] | str = "no session is made for them",
        key: str | None = None,
        resizable: bool = False,
        trusted: bool = False,
        copies: int | None = None,
        rounding: WeightOptions | None = None,
        codes: bool = False,
    ) -> None:
        # On the object, not on the class: dynamo wraps backward graphs and copies `__dict__` only.
        self._boxed_call = True
        self.compiled = compiled
        self.tuned: dict[str, Any] = {}  # what option `tune` found, once a session is made
        self.weights: dict[str, Any] = {}  # what option `weights` rounded, likewise
        self.session = session
        self.run_options = run_options
        self._constant = () if isinstance(frozen, str) else tuple(frozen)
        names = tuple(compiled.inputs[i].name for i in self._constant)
        self.frozen = frozen if isinstance(frozen, str) else names
        self._make = make
        self._key = key
        self._resizable, self._trusted, self._copies = resizable, trusted, copies
        self._rounding, self._codes = rounding, codes
        self._execute = execute
        self._plain_session = session
        self._dimensions = Dimensions()
        self._looked = False
        self._plain: CompiledCall | None = None
        self._call: CompiledCall | None = None
        self._fixed: tuple[Any, ...] = ()
        self._short: CompiledCall | None = None  # a call without the arguments that are fixed
        self._lock = threading.RLock()
        self._sets: dict[tuple[int, ...], Frozen] = {}
        self._never: set[tuple[int, ...]] = set()  # sets of weights none of which can be watched
        self._back_off = BackOff()
        self._source: CallSource | None = None
        protect(self)

    def __repr__(self) -> str:
        nodes = len(self.compiled.model.graph.node)
        return f"OrtBackend({self.compiled.kind}, {nodes} ONNX nodes)"

    def __str__(self) -> str:
        return self.compiled.label or repr(self)

    def __call__(self, args: list[Any]) -> list[Any]:
        """
        :raises InputError: an argument that cannot be handed to ONNX Runtime
        :raises ProviderError: ONNX Runtime fails, on an index out of range for one
        """
        call = self._call
        return call(args) if call is not None else self._choose(args)

    def with_fixed(self, tensors: Sequence[Any]) -> Callable[..., list[Any]]:
        """A function of the other arguments: those in front are these tensors at every call.

        While they are constants a call does without them altogether.

        Args:
            tensors: the arguments in front.
        """
        self._fixed = tuple(tensors)

        def call(*given: Any) -> list[Any]:
            short = self._short
            return short(list(given)) if short is not None else self._choose([*tensors, *given])

        return call

    @property
    def held(self) -> tuple[Frozen, ...]:
        """The sets of weights that are constants of a session now."""
        return tuple(self._sets.values())

    @property
    def source(self) -> str:
        """The source text of what a call does now, for people."""
        if self._source is None:
            self._source = self._call_source(self._constant, self._bindable())
        return self._source.text

    def _choose(self, args: list[Any]) -> list[Any]:
        """A call when it is not known whether the weights are what some session has."""
        if not self._looked:  # dynamo's guards hold for all calls what holds for the first
            check_memory(self.compiled.inputs, args)
            self._looked = True
        with self._lock:
            call = self._chosen(args) if self._constant else self._keep_plain()
            if call is self._short:
                del args[: len(self._fixed)]
        return call(args)

    def _keep_plain(self) -> CompiledCall:
        self._call = self._unfrozen()
        return self._call

    def _chosen(self, args: list[Any]) -> CompiledCall:
        """The frozen call of these weights, or the unfrozen one where they are not at rest."""
        tensors = [args[i] for i in self._constant]
        key = tuple(map(id, tensors))
        found = self._sets.get(key)
        if found is not None:
            call = found.call
            if call is not None and found.fresh(args):
                self._keep(found)
                return call
            if call is not None:
                _log.info("weights of %s have changed: they are inputs until they rest", self)
            found.let_go()
        if self._rounding is not None:
            return self._rounded(key, args)
        if key in self._never:
            return self._unfrozen()
        ready = self._back_off.given_up == 0 and len(self._sets) < MOST_FROZEN
        ready = ready or self._back_off.has_rested(key, signature(tensors))
        call = self._freeze(key, args) if ready else None
        if call is None:
            self._call = None
            call = self._unfrozen()
        return call

    def _rounded(self, key: tuple[int, ...], args: Sequence[Any]) -> CompiledCall:
        """The call with these weights as codes, made anew whenever they have changed: with weights
        as they are it would compute something else."""
        if len(self._watchable(args)) < len(self._constant):
            raise needs_constants(
                "a write into one of them would not show (it was made under "
                "torch.inference_mode(), say, or its memory is shared with another process)"
            )
        call = self._freeze(key, args) or self._freeze(key, args)
        if call is None:
            raise needs_constants("somebody writes into them while their session is made")
        return call

    def _freeze(self, key: tuple[int, ...], args: Sequence[Any]) -> CompiledCall | None:
        """A session with these weights as constants; None when a write into them would not show, or
        one came while the session was made."""
        positions = self._watchable(args)
        self._back_off.forget(key)
        make = self._make
        if not positions or make is None:
            if len(self._never) >= MOST_FROZEN:
                self._never.clear()
            self._never.add(key)
            return None
        sweep()
        weights = [args[i] for i in positions]
        if self._copies is not None and sessions_with(weights) >= self._copies:
            _log.info("%s reads its weights as inputs: option weight_copies", self)
            return self._keep_plain()
        seen = signature(weights)
        windows = windows_of(weights)
        sample = b"".join(windows)
        begin = time.perf_counter()
        roles = [self.compiled.inputs[i] for i in positions]
        named = {r.name: (r, t) for r, t in zip(roles, weights, strict=True)}
        stamp = (tuple(positions), seen[2], sha256(sample).digest())
        session = shared_session(self._key, weights, lambda: make(*self._constants(named)), stamp)
        tell_of_shared(session, self.weights)
        give_back_freed()
        cost = time.perf_counter() - begin
        this = weakref.ref(self)

        def dropped(frozen: Frozen) -> None:
            backend = this()
            if backend is not None:
                backend._forget(key, frozen)

        frozen = Frozen(session, positions, weights, seen, cost, dropped, windows, sample)
        # from here on `frozen` is told of optimizers' steps
        if signature(weights) != seen or not frozen.fresh(args):
            _log.info("weights of %s changed while its session was made", self)
            return None
        _log.info(
            "%d weights of %s (%d bytes) are constants of its session now, made in %.3f s",
            len(weights),
            self,
            sum(weight.nbytes for weight in weights),
            cost,
        )
        call = frozen.call = self._frozen_function(frozen, session, positions)
        self._sets[key] = frozen
        self._keep(frozen)
        return call

    def _constants(
        self, named: Mapping[str, tuple[InputRole, torch.Tensor]]
    ) -> tuple[ModelProto, dict[str, Any]]:
        """The model with these weights as constants, and their values."""
        if self._rounding is None:
            if self._codes and has_codes(role for role, _ in named.values()):
                return with_arriving_codes(self.compiled.model, named, self.weights)
            return with_constants(self.compiled.model, named)
        return with_rounded_constants(self.compiled.model, named, self._rounding, self.weights)

    def _frozen_function(
        self, frozen: Frozen, session: Any, positions: Sequence[int]
    ) -> CompiledCall:
        """What runs with weights as constants as long as they are what they were, and goes back to
        `_choose` when they are not."""
        this = weakref.ref(self)
        fixed = self._fixed if self._may_leave_out(positions) else ()

        def changed(args: list[Any]) -> list[Any]:
            backend = this()
            assert backend is not None  # it is on the stack
            args[:0] = fixed
            return backend._choose(args)

        frozen.leaves_out = len(fixed)
        values = {"changed": changed, **frozen.expected()}
        rest = tuple(i for i in self._bindable() if i not in positions)
        return self._function(self._call_source(positions, rest, len(fixed)), session, values)

    def _watchable(self, args: Sequence[Any]) -> list[int]:
        """Positions of the weights that may become constants: those whose writes show."""
        gathered = gathered_by_fsdp()
        return [i for i in self._constant if is_watchable(args[i]) and id(args[i]) not in gathered]

    def _keep(self, frozen: Frozen) -> None:
        """The next call is that of these constants."""
        self.session = frozen.session
        if frozen.leaves_out:
            self._short = frozen.call
        else:
            self._call = frozen.call

    def _may_leave_out(self, positions: Sequence[int]) -> bool:
        """Whether a call needs none of the fixed arguments when these are constants."""
        compiled, count = self.compiled, len(self._fixed)
        read = {r.index for r in compiled.inputs[:count] if r.name in compiled.fed}
        sources = [r.source for r in compiled.outputs] + [m.source for m in compiled.mutations]
        return (
            read <= set(positions)
            and not compiled.checks
            and not compiled.sources
            and all(source < 0 or source >= count for source in sources)
        )

    def _forget(self, key: tuple[int, ...], frozen: Frozen) -> None:
        """A weight is abandoned or changed: nothing here keeps the session.  Called by the garbage
        collector too, so it waits for no lock."""
        if self._sets.get(key) is frozen:
            self._sets.pop(key, None)
            self._back_off.note(frozen)
        if self._call is frozen.call:
            self._call = None
        if self._short is frozen.call:
            self._short = None
        if self.session is frozen.session:
            self.session = self._plain_session

    def _bindable(self) -> tuple[int, ...]:
        """Weights whose OrtValues are kept while they are inputs."""
        return tuple(
            role.index
            for role in self.compiled.inputs
            if role.kind is InputRoleKind.TENSOR
            and role.static
            and role.dense
            and role.elem_type not in dtypes.FLOAT8_TYPES  # these are copied
            and role.name in self.compiled.fed
            and all(isinstance(size, int) for size in role.shape or ())
        )

    def _unfrozen(self) -> CompiledCall:
        """The call with all weights as inputs; its session is made when it is first needed."""
        if self._plain is None:
            if self._plain_session is None and self.compiled.fetches:
                make = self._make
                assert make is not None, "a graph with nodes needs a session"
                self._plain_session = shared_session(
                    self._key, (), lambda: make(self.compiled.model, None)
                )
            source = self._call_source((), self._bindable())
            self._plain = self._function(source, self._plain_session, {})
        self.session = self._plain_session
        return self._plain

    def _call_source(
        self, constants: Sequence[int], bound: Sequence[int], fixed: int = 0
    ) -> CallSource:
        in_place = {} if self._execute is not None else written_in_place(self.compiled)
        return CallSource(
            self.compiled,
            constants,
            bound,
            self._resizable,
            fixed=fixed,
            trusted=self._trusted,
            in_place=in_place,
        )

    def _function(
        self, source: CallSource, session: Any, values: Mapping[str, Any]
    ) -> CompiledCall:
        """The function `call` of a source text, with what it reads: never this object, which has
        the function, so that both go without a garbage collection."""
        scope: dict[str, Any] = {"__builtins__": builtins, **source.values, **values}
        scope.update(
            feed=runtime.from_dlpack, dlpack=to_dlpack, take=from_dlpack, feed_any=feed_any,
            dimension=self._dimensions, options=self.run_options,
            failed=partial(_run_error, self.compiled),
            names=[fetch.name for fetch in self.compiled.fetches],
            bound=Bound([self.compiled.inputs[i] for i in source.bound]),
        )  # fmt: skip
        if self.compiled.is_checked:
            scope["failed"] = partial(_violation_error, self.compiled, self._make)
        if session is not None:
            scope["run"] = self._run(session, source.in_place)
        self._source = source
        return FunctionType(code_of(source.text), scope, "call")

    def _run(self, session: Any, in_place: Mapping[int, str]) -> Callable[..., Any]:
        """What runs a session: `run(feeds, names, options)`."""
        if self._execute is not None:
            return self._execute(session)
        if not in_place:
            run: Callable[..., Any] = runtime.bound_session(session).run_with_ort_values
            return run
        compiled = self.compiled
        sources = [compiled.inputs[compiled.mutations[place].source].name for place in in_place]
        return running_in_place(session, dict(zip(in_place.values(), sources, strict=True)))

    def after_fork(self) -> list[Any]:
        """In a forked child, where the threads of the sessions do not exist: forgets the sessions,
        and returns them.  The next call makes new ones."""
        self._lock = threading.RLock()
        sessions = [self._plain_session, *(frozen.session for frozen in self._sets.values())]
        if self._make is None or not any(map(_has_threads, sessions)):
            return []
        self._sets, self._plain, self._call, self._short = {}, None, None, None
        self.session = self._plain_session = None
        return [session for session in sessions if session is not None]


_DIVISIONS_BY_ZERO = ("Integer division by zero", "Integer modulo by zero")


def _run_error(compiled: CompiledGraph, error: Exception) -> Exception:
    """An error of ONNX Runtime in a call, which torch would find in the arguments, too."""
    words, lines = locate_error(error, compiled.model)
    if any(text in words for text in _DIVISIONS_BY_ZERO):
        return RuntimeError(
            f"ZeroDivisionError{source_suffix(lines)}"
        )  # the words of torch's kernels
    headline = (
        f"ONNX Runtime cannot run the graph with these arguments{source_suffix(lines)}: {words}"
    )
    return ProviderError("\n".join([headline, *lines]), details=str(error)).with_advice(
        "What to do: call the model without torch.compile: eager says what is wrong with them."
    )


def _violation_error(
    compiled: CompiledGraph, make: MakeSession | None, error: Exception, args: Sequence[Any]
) -> Exception:
    """The same of a graph that asserts something, or whose operators demand something of their
    data: what does not hold comes first."""
    found = find_violation(compiled, args, make) if make is not None else None
    return _run_error(compiled, error) if found is None else found


def _has_threads(session: Any) -> bool:
    if session is None:
        return False
    options = session.get_session_options()
    serial = options.intra_op_num_threads == 1 and options.inter_op_num_threads in (0, 1)
    return not serial


def freezable_positions(compiled: CompiledGraph) -> tuple[int, ...]:
    """Positions of the arguments that may become constants."""
    fed = compiled.fed
    return tuple(r.index for r in compiled.inputs if freezable(r) and r.name in fed)
