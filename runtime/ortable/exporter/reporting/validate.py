"""Validate an exported model: compare every output of ONNX Runtime with eager torch.

Validation runs the example call and resized copies of it. Shapes and dtypes must be equal; floats
must agree within a tolerance. Called by conversion.py and `OnnxProgram.validate`; report.py formats
the comparisons as a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ortable.compat.torch import pytree
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.frontend.export_request import Program, Request
from ortable.exporter.frontend.module_state import caller_autocast, copy_call, copy_module
from ortable.exporter.reporting.example_sizes import ExampleCall, resized_calls
from ortable.exporter.reporting.numeric_diff import (
    ToleranceOverride,
    absolute_differences,
    compare_tensors,
)
from ortable.exporter.reporting.sessions import (
    array_of,
    make_load_error,
    make_session,
    proto_of,
    run_session,
)
from ortable.exporter.signature import pytrees
from ortable.exporter.signature.dataclass_nodes import register_dataclasses
from ortable.interpreter.complex_numbers import real_tensor
from ortable.interpreter.diagnostics.runtime_errors import locate_error, source_suffix

_MAX_MESSAGE_ROWS = 3  # rows of the table in an error message
# ONNX Runtime's message for several tokens of several texts with a past (GroupQueryAttention)
_PIECES_OF_TEXTS = "batch_size must be 1 when sequence_length > 1 and past context is given"
COMPARISON_HEADS = ("inputs", "output", "dtype", "shape", "largest difference")


@dataclass(frozen=True)
class Comparison:
    """Comparison of one output of a call with eager, or a call that could not be compared.

    ``inputs``: ``"example"`` or the sizes of a resized call. ``largest``: the largest absolute
    difference, None if values were not compared. ``problem``: why the output is wrong, or was not
    compared. ``failed``: whether the output differs or ONNX Runtime cannot run the call; false if
    no call of these sizes satisfies the guards, eager itself raises, or ONNX Runtime's attention
    does not take the sizes by design.
    """

    inputs: str
    output: str = ""
    dtype: str = ""
    shape: str = ""
    largest: float | None = None
    problem: str = ""
    failed: bool = False

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table row, see ``COMPARISON_HEADS``."""
        gap = "" if self.largest is None else f"{self.largest:.3g}"
        cells = (self.inputs, self.output, self.dtype, self.shape)
        return (*cells, "  ".join(part for part in (gap, self.problem) if part))


def validate_model(
    model: Any, request: Request, program: Program, accepted: float | None = None
) -> list[Comparison]:
    """Compare ``model``, a ModelProto or LargeModel, with the module that was exported.

    The example call comes first, then resized calls. The module and the arguments are not changed.
    ``accepted`` is the largest absolute difference of floats that passes; None is the tolerance of
    their dtype, see `numeric_diff.py`.

    Raises:
        OptionError: there are no example inputs, or a weight has no data.
        ExportError: ONNX Runtime cannot load the model, or eager returns another number of outputs.
        Exception: the module itself raises on the example call.
    """
    if program.fake_weight_inputs:
        weights = list(program.fake_weight_inputs)
        raise OptionError(f"validate=True needs weights with data; these are fake: {weights}")
    module, call = module_and_call(request)
    inputs = input_names(proto_of(model).graph.input, program)
    leaves = pytree.tree_leaves(call)
    if len(leaves) != len(inputs):
        raise OptionError(
            f"the model takes {len(inputs)} inputs, and the example call has {len(leaves)}: "
            "it cannot be compared with the module. Give args and kwargs, or validate=False"
        )
    session = _load_session(model)
    user_count = sum(output.kind == "user" and not output.is_none for output in program.outputs)
    names = [value.name for value in proto_of(model).graph.output[:user_count]]
    calls = [("example", call), *resized_calls(program, call)]
    # A module was captured under the caller's autocast; a given program was not.
    with caller_autocast() if request.record.strategy else nullcontext():
        return [
            comparison
            for label, sizes_call in calls
            for comparison in (
                _compare_call(
                    label, model, session, module, sizes_call, inputs, names, program, accepted
                )
                if sizes_call is not None
                else [Comparison(label, problem=_unsatisfied_guards_text(program))]
            )
        ]


def _unsatisfied_guards_text(program: Program) -> str:
    texts = " and ".join(guard.text for guard in program.guards)
    return f"not compared: the model holds only for sizes with {texts}"


@dataclass(frozen=True, repr=False)
class Validation:
    """Result of the comparison of a model with eager; true if every output agrees.

    Attributes:
        comparisons: one for each output of each call, or for a call that was not compared.
    """

    comparisons: tuple[Comparison, ...]

    @property
    def ok(self) -> bool:
        """Whether every output agrees within the tolerance of its dtype."""
        return not self.failures

    @property
    def failures(self) -> list[Comparison]:
        """Outputs that differ, and calls that ONNX Runtime could not run."""
        return [comparison for comparison in self.comparisons if comparison.failed]

    @property
    def largest(self) -> float:
        """Largest absolute difference; infinite if a shape or dtype differs or a call failed."""
        gaps = [
            comparison.largest for comparison in self.comparisons if comparison.largest is not None
        ]
        has_mismatch = any(comparison.largest is None for comparison in self.failures)
        return math.inf if has_mismatch else max(gaps, default=0.0)

    def check(self) -> Validation:
        """Return self; raise ExportError, with a table, if an output differs or a call failed."""
        check_comparisons(self.comparisons, verbose=False)
        return self

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return text_table(COMPARISON_HEADS, [comparison.row() for comparison in self.comparisons])

    def __repr__(self) -> str:
        return f"Validation: {'equal to eager' if self.ok else 'differs from eager'}\n{self}"


@dataclass(frozen=True)
class FailureExplanation:
    """Parts of the error text of a failed validation.

    ``headline`` is the first line, ``table`` tells whether the comparisons follow as a table;
    ``lines`` and ``advice`` end the text.
    """

    headline: str = "validation failed, the ONNX model and eager differ"
    table: bool = True
    lines: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


def check_comparisons(
    comparisons: Sequence[Comparison],
    verbose: bool = True,
    explain: Callable[[], FailureExplanation] | None = None,
) -> None:
    """Raise ExportError if a comparison failed; else print the table if ``verbose``.

    ``explain`` returns the text of the error.
    """
    table = text_table(COMPARISON_HEADS, [comparison.row() for comparison in comparisons])
    failed = [comparison for comparison in comparisons if comparison.failed]
    if failed:
        listed = (
            comparisons if len(comparisons) <= _MAX_MESSAGE_ROWS else failed[:_MAX_MESSAGE_ROWS]
        )
        rows_text = text_table(COMPARISON_HEADS, [comparison.row() for comparison in listed])
        remaining = len(failed) - _MAX_MESSAGE_ROWS
        more_text = f"\n... and {remaining} more, in error.details" if remaining > 0 else ""
        explanation = explain() if explain is not None else FailureExplanation()
        table_lines = [f"{rows_text}{more_text}"] if explanation.table else []
        text = "\n".join([f"{explanation.headline}:", *table_lines, *explanation.lines])
        error = ExportError(text, details=table).with_advice(*explanation.advice)
        error.differs = True
        raise error
    if verbose:
        print(table)


def module_and_call(request: Request) -> tuple[Any, ExampleCall]:
    """Return the module to run in eager mode, and the example call.

    An ExportedProgram provides the module, and the call if the request has none.
    """
    module, args, kwargs = request.model, request.args, request.kwargs
    if isinstance(module, torch.export.ExportedProgram):
        if not args and not kwargs and module.example_inputs:
            args, kwargs = module.example_inputs
        kwargs = _order_kwargs(kwargs, module)
        module = module.module()
    return module, (args, kwargs)


def _order_kwargs(kwargs: Any, exported: torch.export.ExportedProgram) -> Any:
    _, (_, structure) = pytrees.spec_children(exported.call_spec.in_spec)
    names = [name for name, _ in pytrees.spec_children(structure)]
    return {name: kwargs[name] for name in names} if set(names) == set(kwargs) else kwargs


def input_names(inputs: Iterable[Any], program: Program) -> list[str | None]:
    """Return the ONNX name of each leaf of the call, None for constants of the model."""
    input_ids = {id(node) for node in program.onnx_inputs()}
    names = iter([value.name for value in inputs])
    return [next(names) if id(node) in input_ids else None for node in program.user_inputs]


def example_feeds(builder: Any, request: Request, program: Program) -> dict[str, np.ndarray] | None:
    """Return the example call as feeds of a graph; None if the call does not match its inputs."""
    return _feeds_of(module_and_call(request)[1], builder, program)


def calibration_feeds(
    builder: Any, request: Request, program: Program
) -> list[dict[str, np.ndarray]]:
    """Return the calls of ``calibration`` as feeds of a graph.

    Raises InputError for a call whose inputs differ from those of the example call.
    """
    _, (args, kwargs) = module_and_call(request)
    example = _feeds_of((args, kwargs), builder, program)
    structure = pytree.tree_structure((tuple(args), kwargs))
    feeds = []
    for number, call in enumerate(request.calibration):
        values = (args, {**kwargs, **call}) if isinstance(call, Mapping) else (tuple(call), kwargs)
        inputs = _feeds_of(values, builder, program)
        if not example or not inputs or pytree.tree_structure(values) != structure:
            raise InputError(f"call {number} of calibration has other inputs than the example call")
        for name, value in inputs.items():
            shape, dtype = builder.get_shape(name), example[name].dtype
            sizes = zip(value.shape, shape, strict=False)
            if (value.dtype, value.ndim) != (dtype, len(shape)) or any(
                isinstance(expected, int) and size != expected for size, expected in sizes
            ):
                raise InputError(
                    f"call {number} of calibration has {value.dtype}{list(value.shape)} as "
                    f"'{name}', and the model takes {dtype}[{', '.join(map(str, shape))}]"
                )
        feeds.append(inputs)
    return feeds


def _feeds_of(call: ExampleCall, builder: Any, program: Program) -> dict[str, np.ndarray] | None:
    leaves = pytree.tree_leaves(call)
    inputs = input_names(builder.inputs, program)
    if len(leaves) != len(inputs):
        return None
    return {name: array_of(leaf) for name, leaf in zip(inputs, leaves, strict=True) if name}


def _compare_call(
    label: str,
    model: Any,
    session: Any,
    module: Any,
    call: ExampleCall,
    inputs: Sequence[str | None],
    names: Sequence[str],
    program: Program,
    accepted: float | None,
) -> list[Comparison]:
    try:
        expected = eager_outputs(module, call, program)
    except Exception as error:  # the user's forward may raise anything
        if label == "example":
            raise
        lines = str(error).strip().splitlines() or [""]
        reason = f"not compared: eager raises {type(error).__name__}: {lines[0][:80]}"
        return [Comparison(label, problem=reason)]
    leaves = pytree.tree_leaves(call)
    feeds = {
        name: array_of(leaf) for name, leaf in zip(inputs, leaves, strict=True) if name is not None
    }
    try:
        computed = run_session(session, feeds)[: len(names)]
    except Exception as error:  # onnxruntime's classes derive from Exception only
        message, lines = locate_error(error, proto_of(model))
        if label != "example" and _PIECES_OF_TEXTS in message:
            return [Comparison(label, problem=f"not compared: {message}")]
        problem = f"ONNX Runtime cannot run it{source_suffix(lines)}: {message}"
        return [Comparison(label, problem=problem, failed=True)]
    if len(computed) != len(expected):
        raise ExportError(
            f"validation failed: the model has {len(computed)} outputs, eager returns "
            f"{len(expected)}"
        )
    return [
        _make_comparison(label, *triple, accepted)
        for triple in zip(names, computed, expected, strict=True)
    ]


def _make_comparison(
    label: str,
    name: str,
    value: torch.Tensor,
    expected: torch.Tensor,
    accepted: float | None,
) -> Comparison:
    dtype = str(expected.dtype).removeprefix("torch.")
    shape = str(list(expected.shape))
    gap, problem = compare_output(value, expected, accepted)
    return Comparison(label, name, dtype, shape, gap, problem, failed=bool(problem))


def compare_output(
    value: torch.Tensor, expected: torch.Tensor, accepted: float | None = None
) -> tuple[float | None, str]:
    """Compare ONNX Runtime's ``value`` with eager's; return the largest difference and the problem.

    The difference is None if dtypes or shapes differ. The problem is empty if the value agrees.
    """
    if value.dtype != expected.dtype or tuple(value.shape) != tuple(expected.shape):
        return None, (
            f"ONNX Runtime returns {value.dtype} {tuple(value.shape)}, "
            f"eager {expected.dtype} {tuple(expected.shape)}"
        )
    if not expected.numel():
        return 0.0, ""
    largest = absolute_differences(expected, value).max().item()
    tolerance = ToleranceOverride() if accepted is None else ToleranceOverride(accepted, 0.0)
    if compare_tensors(expected, value, tolerance.of(value.dtype)) is None:
        return largest, ""
    limit = f"tolerance of {value.dtype}" if accepted is None else f"accepted {accepted}"
    return largest, f"over the {limit}"


def eager_outputs(module: Any, call: ExampleCall, program: Program) -> list[torch.Tensor]:
    """Run a copy of the module; return its results, except None, as tensors, complex ones as pairs.

    The copy shares the weights that forward does not write to.
    """
    mutated = {output.target for output in program.outputs if output.kind == "buffer"}

    def run_copy() -> Any:
        args, kwargs = copy_call(*call)
        return copy_module(module, mutated)(*args, **kwargs)

    try:
        with torch.no_grad():
            returned = run_copy()
    except Exception:  # forward may compute gradients: once more, in the caller's mode
        if not torch.is_grad_enabled():
            raise
        returned = run_copy()
    returned = register_dataclasses(returned)
    leaves = [leaf for leaf in pytree.tree_leaves(returned) if leaf is not None]
    return [
        real_tensor(leaf.detach().cpu())
        if isinstance(leaf, torch.Tensor)
        else torch.tensor(leaf, dtype=torch.float64 if isinstance(leaf, float) else None)
        for leaf in leaves
    ]


def _load_session(model: Any) -> Any:
    try:
        return make_session(model)
    except Exception as error:  # onnxruntime's classes derive from Exception only
        headline = "validation failed, ONNX Runtime cannot load the model"
        raise make_load_error(error, headline) from error


# -- tables


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a text table with padded columns, heads first."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table; bars in cells are escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )
