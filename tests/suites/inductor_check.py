"""Compare the programs of `inductor` with eager: compiled, at several sizes, trained, exported.

Results are compared in value, dtype, shape, strides, and in the memory that they share with inputs
and with each other; inputs are compared after the call. Where eager raises, the compiled program
must raise too. A program that torch's backend "aot_eager" runs differently from eager as well is
"uncaptured"; one that needs operators in torch is "refused".

Functions of tensors that eager computes are exported, too, with a free first size if they run with
dynamic sizes; strides and memory are not compared there, and torch.export is the other backend.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch.utils import _pytree as pytree

import ortable
from ortable.errors import FallbackWarning
from tests.modules import Function

from .inductor import Program, load_programs
from .torch_check import classify_error, error_line, find_difference
from .torch_mlir_check import HALF
from .workers import Record

SIZES = {"static": (4, 4), "dynamic": (4, 7, 5), "train": (4, 4)}
# Programs that return text, or whose tensors have another rank at each size.
_NOT_EXPORTED = (
    "mutation_alias/constant results", "control/sets and dicts", "control/strings",
    "control/inputs of another rank each call",
)  # fmt: skip
_FREE = 4  # the first size of a tensor that is free in exports of dynamic programs
DOUBLE = {"rtol": 1e-7, "atol": 1e-9}
# Errors that come from a mistake in a program of Python, unless eager raises them as well.
_INTERNAL = (AssertionError, AttributeError, KeyError, NameError, StopIteration)


@functools.cache
def programs() -> dict[str, Program]:
    """Return the programs by `topic/name`."""
    return load_programs()


def cases() -> list[str]:
    """Return the cases: `topic/name/mode`."""
    return [f"{name}/{mode}" for name in programs() for mode in modes(name)]


def modes(name: str) -> Iterator[str]:
    """Yield the modes in which a program runs."""
    program = programs()[name]
    yield "static"
    if program.dynamic:
        yield "dynamic"
    if program.gradient:
        yield "train"
    raises = name.startswith("refusals/") or name.endswith(" error")
    if not raises and name not in _NOT_EXPORTED and all(map(_is_plain, program.inputs(_FREE))):
        yield "export"


def _is_plain(argument: Any) -> bool:
    return (
        isinstance(argument, torch.Tensor)
        and argument.layout is torch.strided
        and not argument.requires_grad
    )


def check_case(case: str) -> Record:
    """Run a case in eager and with ortable; return its record."""
    name, _, mode = case.rpartition("/")
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    program = programs()[name]
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        for option in program.options:
            stack.enter_context(torch._dynamo.config.patch({option: True}))
        expected = _run(program, mode, None)
        warnings.simplefilter("error", FallbackWarning)
        found = _run(program, mode, "ortable")
        refusal = _refusal(found)
        if refusal:  # without hints, or the operator would not be named in a later case
            found = _run(program, mode, "ortable", hints=False)
        record = _judge(case, expected, found, lambda backend: _run(program, mode, backend))
    if refusal and record.outcome == "exact" and expected.error is None:
        return Record(case, "refused", mode, refusal)
    return record


@dataclasses.dataclass
class _Trace:
    """What the calls of a program returned and changed, or the error that ended them."""

    values: list[Any] = dataclasses.field(default_factory=list)
    layouts: list[str] = dataclasses.field(default_factory=list)
    error: BaseException | None = None


# -- runs


def _run(program: Program, mode: str, backend: str | None, hints: bool = True) -> _Trace:
    """Call the program at the sizes of the mode, in eager if there is no backend."""
    torch._dynamo.reset()
    trace, kept = _Trace(), []
    first: tuple[Any, ...] = ()
    sizes = SIZES[("dynamic" if program.dynamic else "static") if mode == "export" else mode]
    try:
        call = _make_call(program, mode, backend, hints)
        for number, size in enumerate(sizes):
            torch.manual_seed(number)
            args = program.inputs(size)
            if mode == "train":
                _require_gradients(args)
            # the module of the first call stays: another one would compile again
            pairs = zip(args, first or args, strict=True)
            args = tuple(old if isinstance(old, torch.nn.Module) else new for new, old in pairs)
            first = first or args
            kept.append((args, _call(call, args, mode)))
    except Exception as error:
        trace.error = error
        return trace
    for args, results in kept:  # after all calls: none may write into earlier results
        inputs = _leaves(args)
        gradients = [x.grad for x in inputs if isinstance(x, torch.Tensor) and x.is_leaf]
        trace.values += [*results, *inputs, *gradients]
        if mode != "export":
            trace.layouts += _layouts(results, inputs)
    return trace


def _make_call(program: Program, mode: str, backend: str | None, hints: bool) -> Callable[..., Any]:
    """Return the program, compiled or exported if there is a backend."""
    if not backend:
        return program.run
    if mode != "export":
        dynamic = True if mode == "dynamic" else None
        options: dict[str, Any] | None = None if hints else {"hints": False}
        return torch.compile(program.run, backend=backend, dynamic=dynamic, options=options)
    torch.manual_seed(0)
    args = program.inputs(_FREE)
    shapes = None
    if program.dynamic:
        free = {0: torch.export.Dim.AUTO}
        shapes = (tuple(free if x.shape[:1] == (_FREE,) else None for x in args),)
    module = Function(program.run)
    if backend == "ortable":
        return ortable.export(module, args, dynamic_shapes=shapes, target_opset=21)
    exported = torch.export.export(module, args, dynamic_shapes=shapes, strict=False)
    return exported.run_decompositions({}).module()


def _require_gradients(args: tuple[Any, ...]) -> None:
    """Let the float inputs require gradients, unless some do."""
    arguments = [x for x in pytree.tree_leaves(args) if not isinstance(x, torch.nn.Module)]
    tensors = [x for x in _leaves(arguments) if isinstance(x, torch.Tensor)]
    if not any(x.requires_grad for x in tensors):
        for x in tensors:
            if x.is_floating_point() or x.is_complex():
                x.requires_grad_()


def _call(call: Callable[..., Any], args: tuple[Any, ...], mode: str) -> list[Any]:
    """Return the results of a call; in training, differentiate a weighted sum of them."""
    results = _leaves(call(*args))
    if mode == "train":
        losses = [
            _weighted_sum(x) for x in results if isinstance(x, torch.Tensor) and x.requires_grad
        ]
        if losses:
            torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    return results


def _weighted_sum(x: torch.Tensor) -> torch.Tensor:
    """Sum all elements with different weights."""
    real = torch.view_as_real(x) if x.is_complex() else x
    weights = torch.linspace(0.5, 1.5, real.numel(), dtype=torch.float64).to(real.dtype)
    return (real * weights.reshape(real.shape)).sum().double()


def _leaves(value: Any) -> list[Any]:
    """Return the leaves of a value; also those of data classes, and the tensors of modules."""
    found: list[Any] = []
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.nn.Module):
            found += [*leaf.parameters(), *leaf.buffers()]
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            found += _leaves([getattr(leaf, field.name) for field in dataclasses.fields(leaf)])
        elif not callable(leaf):
            found.append(leaf)
    return found


def _layouts(results: list[Any], inputs: list[Any]) -> list[str]:
    """Describe the strides of each result, and what it is or shares memory with."""
    tensors, sources = (
        [x for x in xs if isinstance(x, torch.Tensor) and x.layout == torch.strided]
        for xs in (results, inputs)
    )
    lines = []
    for index, x in enumerate(tensors):
        # an axis of one element has any stride
        strides = [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1]
        same = [place for place, y in enumerate(sources) if y is x]
        shared = [place for place, y in enumerate(sources) if _share(x, y)]
        equal = [place for place, y in enumerate(tensors[:index]) if y is x]
        common = [place for place, y in enumerate(tensors[:index]) if _share(x, y)]
        offset = x.storage_offset() if shared else 0
        lines.append(
            f"strides {strides if x.numel() else []}, is input {same}, memory of inputs {shared} "
            f"at {offset}, is result {equal}, memory of results {common}, "
            f"gradient {x.requires_grad}"
        )
    return lines


def _share(x: torch.Tensor, y: torch.Tensor) -> bool:
    memory = x.untyped_storage()
    return bool(memory.nbytes()) and memory.data_ptr() == y.untyped_storage().data_ptr()


# -- outcomes


def _judge(case: str, expected: _Trace, found: _Trace, run: Callable[[str], _Trace]) -> Record:
    difference = _difference(expected, found)
    if not difference:
        facts = {}
        if expected.error is not None and found.error is not None:
            facts = {"eager": error_line(expected.error), "compiled": error_line(found.error)}
        return Record(case, "exact", facts=facts)
    mode = case.rpartition("/")[2]
    torch_difference = _difference(expected, run("aot_eager"))
    if torch_difference:
        return Record(case, "uncaptured", "aot_eager", torch_difference)
    if found.error is not None and expected.error is None:
        outcome, detail = classify_error(found.error)
        return Record(case, outcome, mode, detail)
    # a difference from torch's decompositions is the same with every backend
    decomposed = run("aot_eager_decomp_partition")
    if decomposed.error is None and not _difference(decomposed, found):
        return Record(case, "exact", facts={"decomposed": difference})
    return Record(case, "different", mode, difference)


def _difference(expected: _Trace, found: _Trace) -> str:
    """Return how a trace differs from eager's, or nothing."""
    if expected.error is not None or found.error is not None:
        return _error_difference(expected.error, found.error)
    if len(expected.values) != len(found.values):
        return f"{len(found.values)} values instead of {len(expected.values)}"
    for index, (eager, value) in enumerate(zip(expected.values, found.values, strict=True)):
        difference = _value_difference(eager, value)
        if difference:
            return f"value {index}: {difference}"
    for index, (eager, value) in enumerate(zip(expected.layouts, found.layouts, strict=True)):
        if eager != value:
            return f"layout {index}: {value} instead of {eager}"
    return ""


def _value_difference(eager: Any, value: Any) -> str:
    if not isinstance(eager, torch.Tensor):
        if type(eager) is not type(value):
            return f"{type(value)} instead of {type(eager)}"
        is_nan = isinstance(eager, float) and math.isnan(eager)
        return "" if is_nan and math.isnan(value) else find_difference([eager], [value])
    tolerances: dict[str, float] = {}
    if eager.itemsize < 4:
        tolerances = HALF
    elif eager.dtype in (torch.float64, torch.complex128):
        tolerances = DOUBLE
    return find_difference([eager], [value], **tolerances)


def _error_difference(expected: BaseException | None, found: BaseException | None) -> str:
    if found is None:
        return f"no error instead of {error_line(expected) if expected else ''}"
    if expected is None:
        return error_line(found)
    error = found
    while isinstance(inner := getattr(error, "inner_exception", None), BaseException):
        error = inner  # dynamo wraps what a backend raises
    is_internal = isinstance(error, _INTERNAL) and not isinstance(expected, _INTERNAL)
    unclear = ("[ONNXRuntimeError]", "refuses the model converted")
    if is_internal or any(text in str(error) for text in unclear):
        return f"{error_line(error)} instead of {error_line(expected)}"
    return ""


def _refusal(trace: _Trace) -> str:
    """Return the warning of a fallback that ended the run, or nothing."""
    for cause in _causes(trace.error):
        if isinstance(cause, FallbackWarning):
            return error_line(cause)
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what caused it; causes may form a circle."""
    seen: list[BaseException] = []
    while error is not None and not any(error is earlier for earlier in seen):
        yield error
        seen.append(error)
        error = getattr(error, "inner_exception", None) or error.__cause__
