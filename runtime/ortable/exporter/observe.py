"""observe: infer dynamic shapes from the calls of a module, then export or compile it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any

import torch

from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.frontend.module_state import exclusive_export
from ortable.exporter.observation.call_resizing import (
    get_arguments,
    get_call_sizes,
    replace_arguments,
    requested_shapes,
    resize_call,
)
from ortable.exporter.observation.calls import (
    CallRecorder,
    ObservedCall,
    ObservedValue,
    dtype_name,
    flat_leaves,
    record_calls,
)
from ortable.exporter.observation.dim_inference import Dimension, DimInference, infer_dimensions
from ortable.exporter.observation.proof import (
    ProofReport,
    preserve_state,
    prove_graph,
    runs_in_eager,
)
from ortable.exporter.observation.runners import CompiledRunner, ProgramRunner, set_modes
from ortable.exporter.program import OnnxProgram, largest_sizes, make_runner, refuse_empty
from ortable.exporter.signature import dynamic_shapes as shapes
from ortable.exporter.signature.dimension_names import caller_stack_level
from ortable.exporter.to_onnx import export

_DEFAULT_KEEP = 8


def observe(model: torch.nn.Module, *, keep: int = _DEFAULT_KEEP) -> Observation:
    """Watch the calls of a module in a ``with`` block, for an export or a compilation with dynamic
    shapes that nobody wrote down.

    ``with ortable.observe(model) as seen:`` and two or more calls of other sizes; then
    ``seen.export()`` or ``seen.compile()``. The calls run as they always do.

    Args:
        model: the module whose calls are watched; also those that a function around it makes.
        keep: of how many calls of different sizes copies of the tensors are kept.

    Returns:
        Observation: prints as a table of what was seen.

    Raises:
        InputError: what is observed is no module, or a compiled one.
        OptionError: ``keep`` is no number of at least 2.
    """
    if hasattr(model, "_orig_mod"):
        raise InputError("observe takes the module itself, before torch.compile: model._orig_mod")
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"observe takes a torch.nn.Module, not {type(model).__name__}")
    if type(keep) is not int or keep < 2:
        raise OptionError(f"keep is a number of calls, at least 2, not {keep!r:.80}")
    return Observation(model, CallRecorder(model, keep))


class Observation:
    """What the calls of a module say of its dimensions. `ortable.observe` makes it.

    As a context it watches the calls in its block; entered again, it adds to what it saw.

    Args:
        model: the module.
        recorder: its calls; `ortable.observe` makes it.
    """

    def __init__(self, model: torch.nn.Module, recorder: CallRecorder) -> None:
        self.model, self._recorder = model, recorder
        self._entered: list[AbstractContextManager[None]] = []
        self._inferred: tuple[int, DimInference] | None = None
        self._start: tuple[int, ObservedCall] | None = None
        self.proof: ProofReport | None = None

    def __enter__(self) -> Observation:
        self._entered.append(record_calls(self._recorder))
        try:
            self._entered[-1].__enter__()
        except BaseException:  # Ctrl-C: nobody else leaves what was entered
            self._entered.clear()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for context in self._entered:
                context.__exit__(None, None, None)
        finally:
            self._entered.clear()  # what a Ctrl-C kept from ending ends when it goes

    # -- observed calls

    @property
    def calls(self) -> int:
        """How many calls were seen."""
        return len(self._recorder.calls)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions that varied, equal ones as one.

        Raises ExportError for calls of different structure, see ``apart``.
        """
        return self._infer_dimensions().dimensions

    @property
    def dynamic_shapes(self) -> dict[str, Any]:
        """The dynamic shapes as ``torch.export.export`` takes them for ``example``, by argument and
        nested as the arguments are: a ``Dim.DYNAMIC`` with a name for each axis that varied.

        Raises ExportError as ``export`` does, for calls that say nothing.
        """
        call = self._example_call()
        requested = requested_shapes(self.model, self._varied_dimensions(), call)
        normalized = shapes.normalize_shapes(requested, get_arguments(self.model, call))
        assert isinstance(normalized, dict)
        return normalized

    @property
    def example(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies of the arguments of the call that an export starts from, ``(args, kwargs)``: the
        first one whose sizes are not 0 or 1 where they may vary, since torch takes these for
        constants; where there was none, one that is resized.
        """
        return self._example_call().copy_arguments()

    def apart(self) -> list[Observation]:
        """One observation for each kind of call: by structure, dtypes, ranks and constants. A
        decoder, say, is called with a cache and without one, which are two graphs.
        """
        kinds: dict[Any, list[ObservedCall]] = {}
        for call in self._recorder.calls:
            kinds.setdefault(call.structure_key(), []).append(call)
        observations = []
        for calls in kinds.values():
            recorder = CallRecorder(self.model, self._recorder.keep)
            recorder.calls = calls
            observations.append(Observation(self.model, recorder))
        return observations

    # -- export, compile, prove

    @exclusive_export()
    def export(
        self, *, prove: bool = True, maximum: Mapping[str, int] | None = None, **keywords: Any
    ) -> OnnxProgram:
        """Export the module with the dynamic shapes that were seen, and prove the program.

        Args:
            prove: compare the program with eager at other sizes, as the method ``prove`` does; the
                report is ``proof``. ExportError when they differ.
            maximum: the largest size of some dimensions, by name, for the proof.
            keywords: as `ortable.export` has them, without ``dynamic_shapes`` and the example.

        Returns:
            OnnxProgram: called like the module.

        Raises:
            ExportError: fewer than two calls; calls of different structure, or with another value
                of a constant, with the argument; nothing varied; the model fixes a dimension that
                varied, with the lines that do; the program is not right at another size.
            OrtableError: as `ortable.export` does.
        """
        self._check_keywords(keywords, "dynamic_shapes", "mod", "args", "kwargs")
        call, seen = self._example_call(), self._varied_dimensions()
        args, kwargs = call.copy_arguments()
        requested = requested_shapes(self.model, seen, call)
        program = export(self.model, args, kwargs, dynamic_shapes=requested, **keywords)
        if prove:
            self._check_proof(program, maximum)
        return program

    @exclusive_export()
    def compile(
        self,
        *,
        options: Mapping[str, Any] | None = None,
        prove: bool = True,
        maximum: Mapping[str, int] | None = None,
        **keywords: Any,
    ) -> Any:
        """Compile the module with the dimensions that were seen marked dynamic: now, for all their
        sizes.

        torch makes a graph of its own of a size of 0 or 1. Those of observed calls are made now,
        others when they come.

        Args:
            options: those of ``torch.compile(..., backend="ortable", options=options)``.
            prove: compare the compiled module with eager at other sizes, as the method ``prove``
                does; the report is ``proof``. ExportError when they differ.
            maximum: the largest size of some dimensions, by name, for the proof.
            keywords: further ones of ``torch.compile``.

        Returns:
            the compiled module, as ``torch.compile`` returns it.

        Raises:
            ExportError: as ``export`` does.
            OrtableError: as the backend does.
        """
        self._check_keywords(keywords, "model", "backend", "dynamic")
        call = self._example_call()
        backend_options = None if options is None else dict(options)
        # code of its own: the limit of recompilations counts every model of one class
        compile_options = {"isolate_recompiles": True, **keywords}
        compiled = torch.compile(
            self.model, backend="ortable", options=backend_options, **compile_options
        )
        self._first_calls(compiled, call)
        if prove:
            self._check_proof(compiled, maximum)
        return compiled

    @exclusive_export()
    def prove(
        self,
        graph: OnnxProgram | Callable[..., Any],
        *,
        maximum: Mapping[str, int] | None = None,
    ) -> ProofReport:
        """Compare a graph with eager on the observed calls and at other sizes: for each dimension
        0, 1, 2, 3, 5, 7 and its maximum, then all at 1, and each at another prime. Where no small
        prime serves a dimension, multiples of the greatest common divisor of what was seen do.

        Inputs are those of ``example``, repeated or cut, the same for all that share a name.

        Args:
            graph: what ``export`` or ``compile`` returned.
            maximum: the largest size of some dimensions, by name. By default that of the program;
                where it has none, the largest that was seen.

        Returns:
            ProofReport: for each size whether the graph is right, differs, refuses (with the
            condition and its line), or eager itself raises; true when it differs nowhere.

        Raises:
            OptionError: ``maximum`` names no dimension.
        """
        call, seen = self._example_call(), self._varied_dimensions()
        largest = dict(maximum or {})
        names = [dimension.name for dimension in seen.independent_dims()]
        unknown = [name for name in largest if name not in names]
        if unknown:
            raise OptionError(f"maximum names {unknown[0]!r}, and the dimensions are {names}")
        runner: ProgramRunner | CompiledRunner
        if isinstance(graph, OnnxProgram):
            largest = {**largest_sizes(graph), **largest}
            runner = make_runner(graph)
        else:
            runner = CompiledRunner(graph, call)
        try:
            calls = self._recorder.calls
            self.proof = prove_graph(self.model, runner, seen, calls, call, largest)
        finally:
            runner.close()
        return self.proof

    def _check_proof(self, graph: Any, maximum: Mapping[str, int] | None) -> None:
        """Prove a graph; ExportError where it is wrong.

        Where a program is wrong on empty tensors only, on which some kernels of ONNX Runtime fail,
        warn, and make it refuse them.
        """
        report = self.prove(graph, maximum=maximum)
        report.check(empty=not isinstance(graph, OnnxProgram))
        wrong = report.failures
        if not wrong:
            return
        names = [item.name for item in self._varied_dimensions().independent_dims()]
        empty = [n for n in names if any(item.sizes == f"{n}=0" for item in wrong)]
        refuse_empty(graph, empty)
        reasons = "\n".join(f"  {item.sizes}: {item.reason}" for item in wrong)
        warnings.warn(
            "the model is not what eager is on empty tensors, and the program refuses them:\n"
            f"{reasons}",
            UserWarning,
            stacklevel=caller_stack_level(),
        )

    def _first_calls(self, compiled: Any, call: ObservedCall) -> None:
        """Compile: run ``call``, then the other stored calls, most of which reuse the graph.

        Sizes are marked dynamic except 0 and 1, which torch specializes on; integers cannot be
        marked, and are dynamic from their second value on.
        """
        from ortable.compat.torch import mark_dynamic

        seen = self._varied_dimensions()
        others = [
            observed
            for observed in self._recorder.calls
            if observed.has_tensors and observed is not call
        ]
        for observed in (call, *others):
            args, kwargs = observed.copy_arguments()
            for path, leaf in flat_leaves(self.model, args, kwargs):
                for axis in range(leaf.dim() if isinstance(leaf, torch.Tensor) else 0):
                    if (path, axis) in seen.name_by_site and leaf.shape[axis] > 1:
                        mark_dynamic(leaf, axis)
            with ExitStack() as stack:
                stack.enter_context(preserve_state(self.model, (args, kwargs)))
                set_modes(stack, observed)
                try:
                    compiled(*args, **kwargs)
                except Exception as error:  # dynamo raises many types
                    explained = self._explain_error(error, observed)
                    if explained is None:
                        raise
                    raise explained from error

    def _explain_error(self, error: Exception, call: ObservedCall) -> ExportError | None:
        """Return our error for a dimension that torch fixes."""
        arguments = get_arguments(self.model, call)
        requested = requested_shapes(self.model, self._varied_dimensions(), call)
        return shapes.explain_export_error(
            error, arguments, shapes.normalize_shapes(requested, arguments)
        )

    @staticmethod
    def _check_keywords(keywords: Mapping[str, Any], *ours: str) -> None:
        for name in ours:
            if name in keywords:
                raise OptionError(f"{name!r} is what observe finds out: leave it out")

    # -- inference

    def _infer_dimensions(self) -> DimInference:
        """Compare the calls; once for each number of them."""
        calls = self._recorder.calls
        if self._inferred is None or self._inferred[0] != len(calls):
            if len(calls) < 2:
                raise ExportError(
                    f"observe saw {len(calls)} call{'' if len(calls) == 1 else 's'} of "
                    f"{type(self.model).__name__}, and needs two or more of different sizes, by "
                    "model(...) inside the with block"
                )
            self._inferred = len(calls), infer_dimensions(calls)
        return self._inferred[1]

    def _varied_dimensions(self) -> DimInference:
        """Infer the dimensions; ExportError where nothing varied."""
        inference = self._infer_dimensions()
        if not inference.dimensions:
            raise ExportError(
                f"the {self.calls} calls of {type(self.model).__name__} have the same sizes: call "
                "it with other ones inside the with block, or use ortable.export without dynamic "
                "shapes"
            )
        return inference

    def _example_call(self) -> ObservedCall:
        """Return the call to start from, see ``example``; chosen once for each number of calls."""
        seen = self._varied_dimensions()
        if self._start is None or self._start[0] != self.calls:
            self._start = self.calls, self._choose_example(seen)
        return self._start[1]

    def _choose_example(self, seen: DimInference) -> ObservedCall:
        candidates = [item for item in self._recorder.calls if item.has_tensors]
        best = max(candidates, key=lambda each: _above_one(get_call_sizes(seen, each)))
        sizes = get_call_sizes(seen, best)
        if _above_one(sizes) == len(sizes):
            return best
        usual = {
            item.name: next((n for n in item.sizes if n > 1), 2) for item in seen.independent_dims()
        }
        target = {name: size if size > 1 else usual[name] for name, size in sizes.items()}
        arguments = resize_call(self.model, seen, best, target)
        if arguments is None or not runs_in_eager(self.model, arguments):
            return best
        return replace_arguments(self.model, best, arguments)

    def __str__(self) -> str:
        return format_table(self.model, self._recorder.calls, self._infer_dimensions())

    def __repr__(self) -> str:
        if self.calls < 2:
            return f"Observation of {type(self.model).__name__}: {self.calls} calls"
        try:
            return str(self)
        except ExportError as error:
            return f"Observation of {type(self.model).__name__}: {error}"


def _above_one(sizes: Mapping[str, int]) -> int:
    return sum(size > 1 for size in sizes.values())


_MAX_LISTED_SIZES = 6  # of a dimension, in the order in which they came
_CONSTANT = "constant, the same in every call"


def format_table(model: Any, calls: Sequence[ObservedCall], seen: DimInference) -> str:
    """Format an Observation."""
    given_names = set().union(*(call.given_names for call in calls))
    listed = [path for path in seen.leaves if _argument_name(path) in given_names]
    rows: list[tuple[str, str, str]] = []
    for paths in _group_similar(seen, listed):
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        rows.append(("arguments", f"{paths[0]}{more}", _describe_leaf(seen, paths[0])))
    for dimension in sorted(seen.dimensions, key=lambda one: one.is_derived):
        rows.append(("dimensions", dimension.name, _format_sizes(dimension)))
    if not seen.dimensions:
        rows.append(("dimensions", "none", "every size is the same in every call"))
    wide = max(len(row[1]) for row in rows)
    lines, last = [f"{type(model).__name__}, {len(calls)} calls"], ""
    for head, name, text in rows:
        lines.append(f"  {'' if head == last else head:<12}{name:<{wide}}  {text}".rstrip())
        last = head
    return "\n".join(lines)


def _argument_name(path: str) -> str:
    """Return the argument of forward that contains a leaf."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _group_similar(seen: DimInference, paths: Sequence[str]) -> list[list[str]]:
    """Group neighbouring leaves of one argument with equal descriptions."""
    groups: list[list[str]] = []
    for path in paths:
        last = groups[-1][-1] if groups else ""
        same = (
            last
            and _argument_name(last) == _argument_name(path) != path
            and _describe_leaf(seen, last) == _describe_leaf(seen, path)
        )
        if same:
            groups[-1].append(path)
        else:
            groups.append([path])
    return groups


def _describe_leaf(seen: DimInference, path: str) -> str:
    leaf: ObservedValue = seen.leaves[path]
    if leaf.dtype is not None:
        return f"{dtype_name(leaf.dtype)}[{', '.join(map(str, seen.shape(path)))}]"
    name = seen.name_by_site.get((path, None))
    return f"{leaf.format_value()}, {_CONSTANT}" if name is None else f"an int, {name}"


def _format_sizes(dimension: Dimension) -> str:
    listed = ", ".join(map(str, dimension.sizes[:_MAX_LISTED_SIZES]))
    more = "..." if len(dimension.sizes) > _MAX_LISTED_SIZES else ""
    text = f"{listed}{more}"
    if dimension.fitting:
        text += f"  (fits {' and '.join(dimension.fitting)}: taken for independent)"
    return text
