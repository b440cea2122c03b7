"""observe: calls of a model, as they come, say which dimensions are dynamic. In comes a module, out
goes an Observation: a table, ``dynamic_shapes``, an export or a compiled module, and a proof at
other sizes. Called by users."""

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
    arguments_of,
    asked_shapes,
    resized,
    sizes_of_call,
    with_arguments,
)
from ortable.exporter.observation.calls import Recorder, Seen, SeenCall, flat_paths, recorded, short
from ortable.exporter.observation.dim_inference import Dimension, Seeing, seeing
from ortable.exporter.observation.proof import ProofReport, proven, runs_in_eager, state_kept
from ortable.exporter.observation.runners import CompiledRunner, ProgramRunner, in_modes
from ortable.exporter.program import OnnxProgram, largest_sizes, refuse_empty, runner_of
from ortable.exporter.signature import dynamic_shapes as shapes
from ortable.exporter.signature.dimension_names import callers_level
from ortable.exporter.to_onnx import export

_KEPT = 8


def observe(model: torch.nn.Module, *, keep: int = _KEPT) -> Observation:
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
    return Observation(model, Recorder(model, keep))


class Observation:
    """What the calls of a module say of its dimensions. `ortable.observe` makes it.

    As a context it watches the calls in its block; entered again, it adds to what it saw.

    Args:
        model: the module.
        recorder: its calls; `ortable.observe` makes it.
    """

    def __init__(self, model: torch.nn.Module, recorder: Recorder) -> None:
        self.model, self._recorder = model, recorder
        self._entered: list[AbstractContextManager[None]] = []
        self._known: tuple[int, Seeing] | None = None
        self._start: tuple[int, SeenCall] | None = None
        self.proof: ProofReport | None = None

    def __enter__(self) -> Observation:
        self._entered.append(recorded(self._recorder))
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
            for each in self._entered:
                each.__exit__(None, None, None)
        finally:
            self._entered.clear()  # what a Ctrl-C kept from ending ends when it goes

    # -- what was seen

    @property
    def calls(self) -> int:
        """How many calls were seen."""
        return len(self._recorder.calls)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions that varied, equal ones as one.

        Raises ExportError for calls of different structure, see ``apart``.
        """
        return self._seeing().dimensions

    @property
    def dynamic_shapes(self) -> dict[str, Any]:
        """The dynamic shapes as ``torch.export.export`` takes them for ``example``, by argument and
        nested as the arguments are: a ``Dim.DYNAMIC`` with a name for each axis that varied.

        Raises ExportError as ``export`` does, for calls that say nothing.
        """
        call = self._example()
        asked = asked_shapes(self.model, self._varied(), call)
        found = shapes.normalized(asked, arguments_of(self.model, call))
        assert isinstance(found, dict)
        return found

    @property
    def example(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies of the arguments of the call that an export starts from, ``(args, kwargs)``: the
        first one whose sizes are not 0 or 1 where they may vary, since torch takes these for
        constants; where there was none, one that is resized.
        """
        return self._example().copied()

    def apart(self) -> list[Observation]:
        """One observation for each kind of call: by structure, dtypes, ranks and constants. A
        decoder, say, is called with a cache and without one, which are two graphs.
        """
        kinds: dict[Any, list[SeenCall]] = {}
        for call in self._recorder.calls:
            kinds.setdefault(call.structure(), []).append(call)
        found = []
        for calls in kinds.values():
            recorder = Recorder(self.model, self._recorder.keep)
            recorder.calls = calls
            found.append(Observation(self.model, recorder))
        return found

    # -- what is made of it

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
        call, seen = self._example(), self._varied()
        args, kwargs = call.copied()
        asked = asked_shapes(self.model, seen, call)
        program = export(self.model, args, kwargs, dynamic_shapes=asked, **keywords)
        if prove:
            self._check(program, maximum)
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
        call = self._example()
        given = None if options is None else dict(options)
        # code of its own: the limit of recompilations counts every model of one class
        apart = {"isolate_recompiles": True, **keywords}
        compiled = torch.compile(self.model, backend="ortable", options=given, **apart)
        self._first_calls(compiled, call)
        if prove:
            self._check(compiled, maximum)
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
        call, seen = self._example(), self._varied()
        most = dict(maximum or {})
        names = [each.name for each in seen.free()]
        unknown = [name for name in most if name not in names]
        if unknown:
            raise OptionError(f"maximum names {unknown[0]!r}, and the dimensions are {names}")
        runner: ProgramRunner | CompiledRunner
        if isinstance(graph, OnnxProgram):
            most = {**largest_sizes(graph), **most}
            runner = runner_of(graph)
        else:
            runner = CompiledRunner(graph, call)
        try:
            calls = self._recorder.calls
            self.proof = proven(self.model, runner, seen, calls, call, most)
        finally:
            runner.close()
        return self.proof

    def _check(self, graph: Any, maximum: Mapping[str, int] | None) -> None:
        """Prove a graph; ExportError where it is not right. Where a program is not on empty tensors
        only, on which some kernels of ONNX Runtime fail, warn, and have it refuse them."""
        report = self.prove(graph, maximum=maximum)
        report.check(empty=not isinstance(graph, OnnxProgram))
        wrong = report.failures
        if not wrong:
            return
        names = [each.name for each in self._varied().free()]
        empty = [n for n in names if any(each.sizes == f"{n}=0" for each in wrong)]
        refuse_empty(graph, empty)
        told = "\n".join(f"  {each.sizes}: {each.reason}" for each in wrong)
        warnings.warn(
            "the model is not what eager is on empty tensors, and the program refuses them:\n"
            f"{told}",
            UserWarning,
            stacklevel=callers_level(),
        )

    def _first_calls(self, compiled: Any, call: SeenCall) -> None:
        """Compile: ``call``, then the kept ones, of which most run the graph that is there. Sizes
        are marked but those of 0 and 1, which torch makes graphs of their own for; integers cannot
        be, and are dynamic from their second value on."""
        from ortable.compat.torch import mark_dynamic

        seen = self._varied()
        others = [each for each in self._recorder.calls if each.kept and each is not call]
        for each in (call, *others):
            args, kwargs = each.copied()
            for path, leaf in flat_paths(self.model, args, kwargs):
                for axis in range(leaf.dim() if isinstance(leaf, torch.Tensor) else 0):
                    if (path, axis) in seen.by_place and leaf.shape[axis] > 1:
                        mark_dynamic(leaf, axis)
            with ExitStack() as stack:
                stack.enter_context(state_kept(self.model, (args, kwargs)))
                in_modes(stack, each)
                try:
                    compiled(*args, **kwargs)
                except Exception as error:  # dynamo raises many types
                    told = self._told(error, each)
                    if told is None:
                        raise
                    raise told from error

    def _told(self, error: Exception, call: SeenCall) -> ExportError | None:
        """Our error for a dimension that torch fixes."""
        arguments = arguments_of(self.model, call)
        asked = asked_shapes(self.model, self._varied(), call)
        return shapes.explained(error, arguments, shapes.normalized(asked, arguments))

    @staticmethod
    def _check_keywords(keywords: Mapping[str, Any], *ours: str) -> None:
        for name in ours:
            if name in keywords:
                raise OptionError(f"{name!r} is what observe finds out: leave it out")

    # -- what it rests on

    def _seeing(self) -> Seeing:
        """The calls, compared; once for each number of them."""
        calls = self._recorder.calls
        if self._known is None or self._known[0] != len(calls):
            if len(calls) < 2:
                raise ExportError(
                    f"observe saw {len(calls)} call{'' if len(calls) == 1 else 's'} of "
                    f"{type(self.model).__name__}, and needs two or more of different sizes, by "
                    "model(...) inside the with block"
                )
            self._known = len(calls), seeing(calls)
        return self._known[1]

    def _varied(self) -> Seeing:
        """The same; ExportError where nothing varied."""
        found = self._seeing()
        if not found.dimensions:
            raise ExportError(
                f"the {self.calls} calls of {type(self.model).__name__} have the same sizes: call "
                "it with other ones inside the with block, or use ortable.export without dynamic "
                "shapes"
            )
        return found

    def _example(self) -> SeenCall:
        """The call to start from, see ``example``; chosen once for each number of calls."""
        seen = self._varied()
        if self._start is None or self._start[0] != self.calls:
            self._start = self.calls, self._chosen(seen)
        return self._start[1]

    def _chosen(self, seen: Seeing) -> SeenCall:
        kept = [each for each in self._recorder.calls if each.kept]
        best = max(kept, key=lambda each: _above_one(sizes_of_call(seen, each)))
        sizes = sizes_of_call(seen, best)
        if _above_one(sizes) == len(sizes):
            return best
        usual = {each.name: next((n for n in each.sizes if n > 1), 2) for each in seen.free()}
        wanted = {name: size if size > 1 else usual[name] for name, size in sizes.items()}
        made = resized(self.model, seen, best, wanted)
        if made is None or not runs_in_eager(self.model, made):
            return best
        return with_arguments(self.model, best, made)

    def __str__(self) -> str:
        return table(self.model, self._recorder.calls, self._seeing())

    def __repr__(self) -> str:
        if self.calls < 2:
            return f"Observation of {type(self.model).__name__}: {self.calls} calls"
        try:
            return str(self)
        except ExportError as error:
            return f"Observation of {type(self.model).__name__}: {error}"


def _above_one(sizes: Mapping[str, int]) -> int:
    return sum(size > 1 for size in sizes.values())


_MOST_SIZES = 6  # of a dimension, in the order in which they came
_CONSTANT = "constant, the same in every call"


def table(model: Any, calls: Sequence[SeenCall], seen: Seeing) -> str:
    """The text of an Observation."""
    given = set().union(*(call.given for call in calls))
    shown = [path for path in seen.leaves if _argument(path) in given]
    rows: list[tuple[str, str, str]] = []
    for paths in _alike(seen, shown):
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        rows.append(("arguments", f"{paths[0]}{more}", _described(seen, paths[0])))
    for each in sorted(seen.dimensions, key=lambda one: one.derived):
        rows.append(("dimensions", each.name, _sizes(each)))
    if not seen.dimensions:
        rows.append(("dimensions", "none", "every size is the same in every call"))
    wide = max(len(row[1]) for row in rows)
    lines, last = [f"{type(model).__name__}, {len(calls)} calls"], ""
    for head, name, text in rows:
        lines.append(f"  {'' if head == last else head:<12}{name:<{wide}}  {text}".rstrip())
        last = head
    return "\n".join(lines)


def _argument(path: str) -> str:
    """The argument of forward that a leaf is in."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _alike(seen: Seeing, paths: Sequence[str]) -> list[list[str]]:
    """The leaves, those together that stand in a row in one argument and are described alike."""
    found: list[list[str]] = []
    for path in paths:
        last = found[-1][-1] if found else ""
        same = (
            last
            and _argument(last) == _argument(path) != path
            and _described(seen, last) == _described(seen, path)
        )
        if same:
            found[-1].append(path)
        else:
            found.append([path])
    return found


def _described(seen: Seeing, path: str) -> str:
    leaf: Seen = seen.leaves[path]
    if leaf.dtype is not None:
        return f"{short(leaf.dtype)}[{', '.join(map(str, seen.shape(path)))}]"
    name = seen.by_place.get((path, None))
    return f"{leaf.words()}, {_CONSTANT}" if name is None else f"an int, {name}"


def _sizes(dimension: Dimension) -> str:
    shown = ", ".join(map(str, dimension.sizes[:_MOST_SIZES]))
    more = "..." if len(dimension.sizes) > _MOST_SIZES else ""
    text = f"{shown}{more}"
    if dimension.fitting:
        text += f"  (fits {' and '.join(dimension.fitting)}: taken for independent)"
    return text
