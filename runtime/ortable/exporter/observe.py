"""Infer dynamic shapes from observed calls of a module, then export or compile the module."""

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
from ortable.exporter.signature.shapes_spec import make_shapes_spec
from ortable.exporter.to_onnx import export

_DEFAULT_KEEP = 8


def observe(model: torch.nn.Module, *, keep: int = _DEFAULT_KEEP) -> Observation:
    """Observe the calls of a module to infer its dynamic shapes.

    Call the module two or more times with different sizes in ``with ortable.observe(model) as
    seen:``. Then ``seen.export()`` and ``seen.compile()`` use the inferred shapes. The calls run in
    eager mode as usual.

    Args:
        model: the module to observe; calls by other code in the block are observed, too.
        keep: the largest number of calls of different sizes, for each structure of the arguments,
            whose tensors are copied and kept.

    Returns:
        Observation: prints as a table of the observed arguments and dimensions.

    Raises:
        InputError: ``model`` is not a module, or is a compiled one.
        OptionError: ``keep`` is not an int of at least 2.
    """
    if hasattr(model, "_orig_mod"):
        raise InputError("observe takes the module itself, before torch.compile: model._orig_mod")
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"observe takes a torch.nn.Module, not {type(model).__name__}")
    if type(keep) is not int or keep < 2:
        raise OptionError(f"keep is a number of calls, at least 2, not {keep!r:.80}")
    return Observation(model, CallRecorder(model, keep))


class Observation:
    """Observed calls of a module, and the dimensions inferred from them.

    `ortable.observe` returns it. As a context manager it observes the calls in its block; entering
    it again adds calls.

    Args:
        model: the module.
        recorder: records the calls; `ortable.observe` creates it.
    """

    def __init__(self, model: torch.nn.Module, recorder: CallRecorder) -> None:
        self.model, self._recorder = model, recorder
        self._entered: list[AbstractContextManager[None]] = []
        self._cached_inference: tuple[int, DimInference] | None = None
        self._cached_example: tuple[int, ObservedCall] | None = None
        self.proof: ProofReport | None = None

    def __enter__(self) -> Observation:
        self._entered.append(record_calls(self._recorder))
        try:
            self._entered[-1].__enter__()
        except BaseException:  # after Ctrl-C here, __exit__ does not run
            self._entered.clear()
            raise
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for context in self._entered:
                context.__exit__(None, None, None)
        finally:
            self._entered.clear()  # contexts that Ctrl-C left open end when they are freed

    # -- observed calls

    @property
    def calls(self) -> int:
        """Number of observed calls."""
        return len(self._recorder.calls)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Dimensions that varied; axes whose sizes are equal in every call share one dimension.

        Raises ExportError for fewer than two calls, and for calls of different structure; see
        ``apart``.
        """
        return self._infer_dimensions().dimensions

    @property
    def dynamic_shapes(self) -> dict[str, Any]:
        """Dynamic shapes for ``torch.export.export`` with the arguments of ``example``.

        They map each argument of forward to a structure nested like the argument, with a named
        ``Dim.DYNAMIC`` for each axis that varied. Raises the ExportErrors of ``export`` for calls
        from which no dynamic shapes can be inferred.
        """
        call = self._example_call()
        requested = requested_shapes(self.model, self._varied_dimensions(), call)
        normalized = shapes.normalize_shapes(requested, get_arguments(self.model, call))
        assert isinstance(normalized, dict)
        return normalized

    @property
    def shapes_spec(self) -> Any:
        """The same dynamic shapes as torch's ShapesSpec, which prints as a list of variables.

        From torch 2.15 on, ``torch.compile(model, dynamic_shapes=seen.shapes_spec)`` and
        ``torch.export.export`` take it. Raises the errors of ``dynamic_shapes``.
        """
        arguments = get_arguments(self.model, self._example_call())
        return make_shapes_spec(self.dynamic_shapes, self.model, arguments)

    @property
    def example(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies of the arguments of the example call, ``(args, kwargs)``.

        It is the call with the most dynamic dimensions above 1, because torch specializes on the
        sizes 0 and 1. If some dimensions are 0 or 1 in that call too, the copies are resized, if
        eager accepts the new sizes.
        """
        return self._example_call().copy_arguments()

    def apart(self) -> list[Observation]:
        """Split the calls into observations of equal structure, dtypes, ranks and constants.

        For example, calls of a decoder with and without a cache are two observations, because they
        need two graphs.
        """
        groups: dict[Any, list[ObservedCall]] = {}
        for call in self._recorder.calls:
            groups.setdefault(call.structure_key(), []).append(call)
        observations = []
        for calls in groups.values():
            recorder = CallRecorder(self.model, self._recorder.keep)
            recorder.calls = calls
            observations.append(Observation(self.model, recorder))
        return observations

    # -- export, compile, prove

    @exclusive_export()
    def export(
        self, *, prove: bool = True, maximum: Mapping[str, int] | None = None, **keywords: Any
    ) -> OnnxProgram:
        """Export the module with the inferred dynamic shapes, and prove the program.

        Args:
            prove: compare the program with eager at other sizes, as the method ``prove`` does; the
                report is ``proof``. ExportError if they differ.
            maximum: the largest size of some dimensions, by name, for the proof.
            keywords: keywords of `ortable.export`, except ``dynamic_shapes`` and the example.

        Returns:
            OnnxProgram: called like the module.

        Raises:
            ExportError: fewer than two calls; calls of different structure, or with different
                values of a constant (the error names the argument); no dimension varied; the model
                fixes a dimension that varied (the error lists the lines); the program differs from
                eager at another size.
            OrtableError: as `ortable.export` does.
        """
        self._check_keywords(keywords, "dynamic_shapes", "mod", "args", "kwargs")
        call, inference = self._example_call(), self._varied_dimensions()
        args, kwargs = call.copy_arguments()
        requested = requested_shapes(self.model, inference, call)
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
        """Compile the module with the inferred dimensions marked dynamic; run the observed calls.

        torch compiles a separate graph for a size of 0 or 1: in this method if an observed call has
        that size, else at the first later call that has it.

        Args:
            options: options of ``torch.compile(..., backend="ortable", options=options)``.
            prove: compare the compiled module with eager at other sizes, as the method ``prove``
                does; the report is ``proof``. ExportError if they differ.
            maximum: the largest size of some dimensions, by name, for the proof.
            keywords: further keywords of ``torch.compile``.

        Returns:
            The compiled module, as ``torch.compile`` returns it.

        Raises:
            ExportError: as ``export`` does.
            OrtableError: as the backend does.
        """
        self._check_keywords(keywords, "model", "backend", "dynamic")
        call = self._example_call()
        backend_options = None if options is None else dict(options)
        # otherwise the recompile limit counts all models of one class together
        compile_options = {"isolate_recompiles": True, **keywords}
        compiled = torch.compile(
            self.model, backend="ortable", options=backend_options, **compile_options
        )
        self._run_recorded_calls(compiled, call)
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
        """Compare a graph with eager on the observed calls and at other sizes.

        Each dimension in turn has the sizes 0, 1, 2, 3, 5, 7 and its maximum, while the others have
        those of ``example``. In further calls all dimensions are 1, or each is another prime. If
        the graph is right at none of the sizes 2, 3, 5 and 7 of a dimension, multiples of the
        greatest common divisor of its observed sizes are tried too. Inputs are those of
        ``example``, repeated or cut; dimensions of one name get one size.

        Args:
            graph: the result of ``export`` or ``compile``.
            maximum: the largest size of some dimensions, by name. The default is the maximum in the
                program's dynamic shapes, if any, else the largest observed size.

        Returns:
            ProofReport: for each size whether the graph equals eager, differs, raises, rejects the
                size (with the condition and its line), or eager itself raises. The report is true
                if the graph neither differs nor raises at any size, and accepts every observed
                call.

        Raises:
            OptionError: ``maximum`` has a name that is no dimension.
            ExportError: no dynamic shapes can be inferred from the calls, as in ``export``.
        """
        call, inference = self._example_call(), self._varied_dimensions()
        largest = dict(maximum or {})
        names = [dimension.name for dimension in inference.independent_dims()]
        unknown = [name for name in largest if name not in names]
        if unknown:
            raise OptionError(f"maximum names {unknown[0]!r}, but the dimensions are {names}")
        runner: ProgramRunner | CompiledRunner
        if isinstance(graph, OnnxProgram):
            largest = {**largest_sizes(graph), **largest}
            runner = make_runner(graph)
        else:
            runner = CompiledRunner(graph, call)
        try:
            calls = self._recorder.calls
            self.proof = prove_graph(self.model, runner, inference, calls, call, largest)
        finally:
            runner.close()
        return self.proof

    def _check_proof(self, graph: Any, maximum: Mapping[str, int] | None) -> None:
        """Prove a graph; raise ExportError if it differs from eager.

        If a program differs on empty tensors only, which some kernels of ONNX Runtime do not
        support, warn and make the program reject size 0 of the dimensions that failed.
        """
        report = self.prove(graph, maximum=maximum)
        report.check(empty=not isinstance(graph, OnnxProgram))
        failures = report.failures
        if not failures:
            return
        names = [item.name for item in self._varied_dimensions().independent_dims()]
        empty_dims = [n for n in names if any(item.sizes == f"{n}=0" for item in failures)]
        refuse_empty(graph, empty_dims)
        reasons = "\n".join(f"  {item.sizes}: {item.reason}" for item in failures)
        warnings.warn(
            "the model differs from eager on empty tensors, and the program rejects them:\n"
            f"{reasons}",
            UserWarning,
            stacklevel=caller_stack_level(),
        )

    def _run_recorded_calls(self, compiled: Any, call: ObservedCall) -> None:
        """Run the compiled module on ``call``, then on the other recorded calls.

        Most of these calls reuse the first graph. In each call, axes that varied are marked
        dynamic, except those of size 0 or 1, on which torch specializes. Integers cannot be marked;
        torch makes an integer dynamic at its second value.
        """
        from ortable.compat.torch import mark_dynamic

        inference = self._varied_dimensions()
        other_calls = [
            observed
            for observed in self._recorder.calls
            if observed.has_tensors and observed is not call
        ]
        for observed in (call, *other_calls):
            args, kwargs = observed.copy_arguments()
            for path, leaf in flat_leaves(self.model, args, kwargs):
                for axis in range(leaf.dim() if isinstance(leaf, torch.Tensor) else 0):
                    if (path, axis) in inference.name_by_site and leaf.shape[axis] > 1:
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
        """Return an ExportError for a dimension that the model fixes, None for other errors."""
        arguments = get_arguments(self.model, call)
        requested = requested_shapes(self.model, self._varied_dimensions(), call)
        return shapes.explain_export_error(
            error, arguments, shapes.normalize_shapes(requested, arguments)
        )

    @staticmethod
    def _check_keywords(keywords: Mapping[str, Any], *reserved: str) -> None:
        for name in reserved:
            if name in keywords:
                raise OptionError(f"observe determines {name!r} itself: leave it out")

    # -- inference

    def _infer_dimensions(self) -> DimInference:
        """Infer the dimensions from all calls; the result is cached until a call is added."""
        calls = self._recorder.calls
        if self._cached_inference is None or self._cached_inference[0] != len(calls):
            if len(calls) < 2:
                raise ExportError(
                    f"observe saw {len(calls)} call{'' if len(calls) == 1 else 's'} of "
                    f"{type(self.model).__name__}, and needs two or more of different sizes: call "
                    "model(...) inside the with block"
                )
            self._cached_inference = len(calls), infer_dimensions(calls)
        return self._cached_inference[1]

    def _varied_dimensions(self) -> DimInference:
        """Infer the dimensions; raise ExportError if none varied."""
        inference = self._infer_dimensions()
        if not inference.dimensions:
            raise ExportError(
                f"the {self.calls} calls of {type(self.model).__name__} have the same sizes: call "
                "it with other sizes inside the with block, or use ortable.export without dynamic "
                "shapes"
            )
        return inference

    def _example_call(self) -> ObservedCall:
        """Return the call for ``example``; the result is cached until a call is added."""
        inference = self._varied_dimensions()
        if self._cached_example is None or self._cached_example[0] != self.calls:
            self._cached_example = self.calls, self._choose_example(inference)
        return self._cached_example[1]

    def _choose_example(self, inference: DimInference) -> ObservedCall:
        candidates = [observed for observed in self._recorder.calls if observed.has_tensors]
        best = max(candidates, key=lambda call: _count_above_one(get_call_sizes(inference, call)))
        sizes = get_call_sizes(inference, best)
        if _count_above_one(sizes) == len(sizes):
            return best
        sizes_above_one = {
            dim.name: next((n for n in dim.sizes if n > 1), 2)
            for dim in inference.independent_dims()
        }
        target = {name: size if size > 1 else sizes_above_one[name] for name, size in sizes.items()}
        arguments = resize_call(self.model, inference, best, target)
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


def _count_above_one(sizes: Mapping[str, int]) -> int:
    return sum(size > 1 for size in sizes.values())


_MAX_LISTED_SIZES = 6  # sizes of a dimension in the table: those of the first calls
_CONSTANT = "constant, the same in every call"


def format_table(model: Any, calls: Sequence[ObservedCall], inference: DimInference) -> str:
    """Format the calls and dimensions of an Observation as a table of arguments and dimensions."""
    given_names = set().union(*(call.given_names for call in calls))
    given_paths = [path for path in inference.leaves if _argument_name(path) in given_names]
    rows: list[tuple[str, str, str]] = []
    for paths in _group_similar(inference, given_paths):
        suffix = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        rows.append(("arguments", f"{paths[0]}{suffix}", _describe_leaf(inference, paths[0])))
    for dimension in sorted(inference.dimensions, key=lambda dim: dim.is_derived):
        rows.append(("dimensions", dimension.name, _format_sizes(dimension)))
    if not inference.dimensions:
        rows.append(("dimensions", "none", "every size is the same in every call"))
    width = max(len(row[1]) for row in rows)
    lines, previous = [f"{type(model).__name__}, {len(calls)} calls"], ""
    for section, name, text in rows:
        lines.append(
            f"  {'' if section == previous else section:<12}{name:<{width}}  {text}".rstrip()
        )
        previous = section
    return "\n".join(lines)


def _argument_name(path: str) -> str:
    """Return ``past`` for ``past[0].keys``."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _group_similar(inference: DimInference, paths: Sequence[str]) -> list[list[str]]:
    """Group consecutive leaves of one argument that have the same description."""
    groups: list[list[str]] = []
    for path in paths:
        previous = groups[-1][-1] if groups else ""
        is_similar = (
            previous
            and _argument_name(previous) == _argument_name(path) != path
            and _describe_leaf(inference, previous) == _describe_leaf(inference, path)
        )
        if is_similar:
            groups[-1].append(path)
        else:
            groups.append([path])
    return groups


def _describe_leaf(inference: DimInference, path: str) -> str:
    leaf: ObservedValue = inference.leaves[path]
    if leaf.dtype is not None:
        return f"{dtype_name(leaf.dtype)}[{', '.join(map(str, inference.shape(path)))}]"
    name = inference.name_by_site.get((path, None))
    return f"{leaf.format_value()}, {_CONSTANT}" if name is None else f"an int, {name}"


def _format_sizes(dimension: Dimension) -> str:
    listed = ", ".join(map(str, dimension.sizes[:_MAX_LISTED_SIZES]))
    more = "..." if len(dimension.sizes) > _MAX_LISTED_SIZES else ""
    text = f"{listed}{more}"
    if dimension.fitting:
        text += f"  (fits {' and '.join(dimension.fitting)}: treated as independent)"
    return text
